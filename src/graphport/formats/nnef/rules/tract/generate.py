"""Operators without operands in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule, unified
from graphport.formats.nnef.rules.tract.rule_table import dims_of
from graphport.ops.declare import export_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_core_range")
def range_(b: Builder, start: Value, end: Value, step: Value) -> Value:
    """Numbers from `start` on, before `end`."""
    emit = OpBuilder(b)
    one = [OpBuilder(b)("Squeeze", value) if b.dims(value) else value for value in unified(b, start, end, step)]
    return emit("Range", *one)


@export_rule(DIALECT, "Range")
def export_range(b: Builder, start: Value, limit: Value, delta: Value) -> Any:
    known = [dims_of(each) for each in (start, limit, delta)]
    if not any(isinstance(each[0], Symbolic) for each in known if each):
        return b.emit("tract_core_range", start, limit, delta)
    if any(each is None for each in known):
        return None
    # tract knows the length of a range of symbols, which are no integers of a run to it.
    stated: dict[str, Any] = {name: each[0] for name, each in zip(("start", "end", "step"), known, strict=True) if each}
    indices = b.emit("tract_core_range", facts=[TensorFact(DType.INT64, None)], **stated)
    return b.emit("tract_core_cast", *indices, to="i64")
