"""Variable updates of NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.nnef.rules.formula import RULES
from graphport.ir.transplant import transplant
from graphport.ops.constant_folding import folded
from graphport.ops.declare import export_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value
    from graphport.ops.builder import Builder


RULES.lower("""
# That the next run begins with it is said by the graph around: the variable is an input of it.
update(variable: ignored, value) -> Identity(value)
""")


@export_rule("nnef", "If")
def export_if(b: Builder, cond: Value, *, then_branch: Graph, else_branch: Graph) -> Any:
    """Inline the selected branch of an If whose condition is constant; other Ifs are not exported."""
    storage = folded(cond)
    if storage is None or storage.count != 1 or b.before is None:
        return None
    body = then_branch if bool(storage.numpy().reshape(-1)[0]) else else_branch
    moved = transplant(body, b.before, {})
    emit = OpBuilder(b)
    return tuple(emit("Identity", moved.get(value, value)) for value in body.outputs)
