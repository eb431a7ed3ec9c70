"""Branches and loops: pnnx records their presence, but not their bodies."""

from __future__ import annotations

from graphport.formats.pytorch.rules.binding import DIALECT, emits
from graphport.ops.declare import Refusal, export_rule
from graphport.ops.lowering.branches import export_if

_WITHOUT_A_BODY = "its subgraphs are missing: pnnx does not write them"

emits("prim::If", "prim::Loop")(Refusal(_WITHOUT_A_BODY))
export_rule(DIALECT, "If")(export_if)
