"""The rule table of PNNX op types, whose arguments have PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.pytorch.rules.binding import DIALECT, called, emits, length, named_dtype
from graphport.formats.pytorch.rules.promotion import cast, computed, floating, kernel, promoted
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _called(b: Builder, op_type: str, _is_last: bool, _operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    """Emit a PNNX function; all arguments are passed by name."""
    return called(b, op_type, **attributes)


def typed(b: Builder, x: Value, dtype: str | None) -> Value:
    """Cast `x` to PyTorch's element type `dtype`; return it unchanged for `None`."""
    wanted = named_dtype(dtype)
    return x if wanted is None else cast(b, x, wanted)


def _length(b: Builder, x: Value, place: int) -> int:
    """Return the size of an axis, which must be static."""
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
"""Functions of rule rows: type promotion and shapes."""
PNNX = RuleTable(DIALECT, FUNCTIONS, emit=_called, register=emits, by_name=True)
