"""Rows of PyTorch: words of PNNX, whose arguments have PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.pytorch.rules.binding import DIALECT, called, emits, length, named_dtype
from graphport.formats.pytorch.rules.promotion import cast, computed, floating, kernel, promoted
from graphport.ops.lowering.table import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _called(b: Builder, word: str, _is_last: bool, _operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    """Every argument has its name."""
    return called(b, word, **attributes)


def typed(b: Builder, x: Value, dtype: str | None) -> Value:
    """`x` in the element type that PyTorch calls so; itself where none is named."""
    wanted = named_dtype(dtype)
    return x if wanted is None else cast(b, x, wanted)


def _length(b: Builder, x: Value, place: int) -> int:
    """The length of an axis, which has to be known."""
    return length(b.dims(x), place)


FUNCTIONS = {
    "cast": cast,
    "computed": computed,
    "floating": floating,
    "kernel": kernel,
    "length": _length,
    "promoted": promoted,
    "typed": typed,
}
"""What PyTorch does to operands of several types (`torch_promotion`), and what rows ask of shapes."""
PNNX = Rows(DIALECT, FUNCTIONS, emit=_called, register=emits, by_name=True)
