"""Branches and loops: pnnx writes that there are some, and leaves out what they compute."""

from __future__ import annotations

from typing import Any

from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.dialects.branches import lift_if
from graphport.ops.dialects.torch_functions import DIALECT, emits


@emits("prim::If", "prim::Loop")
def without_a_body(b: Builder, *operands: Value, **attributes: Any) -> Value:
    del b, operands, attributes
    message = "what it chooses or repeats is not in the text: pnnx leaves bodies out"
    raise UnsupportedError(message)


lift(DIALECT, "If")(lift_if)
