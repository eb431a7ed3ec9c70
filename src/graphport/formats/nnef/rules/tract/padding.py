"""Padding in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.nnef.rules import padding as nnef
from graphport.formats.nnef.rules.tract.binding import import_rule, static
from graphport.ir.graph import Value
from graphport.ops.declare import ShapeError
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ops.builder import Builder

Pairs = tuple[tuple[int, int], ...]
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@import_rule("pad")
def pad(b: Builder, input: Value, *, padding: Pairs | Value, border: str = "constant", value: float = 0.0) -> Value:
    """Pad with one pair per axis; `replicated` is the standard's `replicate`."""
    own = "replicate" if border == "replicated" else border
    if isinstance(padding, Value):
        known = static(padding)
        if known is None:
            return _at_run(b, input, padding, own, value)
        if len(known) % 2:
            message = f"the padding has {len(known)} entries, expected pairs"
            raise ShapeError(message)
        padding = tuple(zip(known[::2], known[1::2], strict=True))
    return nnef.pad(b, input, padding=padding, border=own, value=value)


def _at_run(b: Builder, input: Value, padding: Value, border: str, value: float) -> Value:
    """Pad by amounts computed at run time: transpose tract's pairs to ONNX's begins and ends."""
    emit = OpBuilder(b)
    pairs = emit("Reshape", padding, [-1, 2])
    amounts = emit("Reshape", emit("Transpose", pairs, perm=(1, 0)), [-1])
    return emit("Pad", input, amounts, value, mode=_MODES.get(border, border))
