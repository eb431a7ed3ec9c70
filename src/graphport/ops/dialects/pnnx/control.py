"""Branches and loops: pnnx writes that there are some, and leaves out what they compute."""

from __future__ import annotations

from graphport.ops.declare import Refusal, lift
from graphport.ops.dialects.branches import lift_if
from graphport.ops.dialects.torch_functions import DIALECT, emits

_WITHOUT_A_BODY = "what it chooses or repeats is not in the text: pnnx leaves bodies out"

emits("prim::If", "prim::Loop")(Refusal(_WITHOUT_A_BODY))
lift(DIALECT, "If")(lift_if)
