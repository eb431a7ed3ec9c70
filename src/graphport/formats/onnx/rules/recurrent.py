"""Older forms of recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import lower
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef


def _without_output_sequence(op_def: OpDef) -> None:
    @lower("onnx", op_def.name, until=6)
    def lowered(
        b: Builder,
        *operands: Value | None,
        output_sequence: int = 0,
        direction: str = "forward",
        **attributes: Attribute,
    ) -> tuple[Value, ...]:
        """Recurrent layers of older opsets; `output_sequence` is ignored."""
        del output_sequence
        # The schema of GRU-1 misspells its default.
        way = "forward" if direction == "foward" else direction
        return b.results(op_def, b.count, *operands, direction=way, **attributes)


for _op_def in (LSTM, GRU, RNN):
    _without_output_sequence(_op_def)
