"""Rows of OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.emitting import emitted_reshape, emitted_scalar, renamed
from graphport.ops.definitions.arithmetic import Round
from graphport.ops.lowering.operands import as_index, as_int64, as_scalar, as_vector, cast, float_element, vector
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _dtype_kind(_b: Builder, x: Value) -> str:
    """Return the kind of the element type in NumPy's one-letter code, or an empty string."""
    dtype = x.dtype
    return "" if dtype is None else dtype.kind


def _integer(x: Value) -> DType | None:
    dtype = x.dtype
    return dtype if dtype is not None and dtype.is_integer else None


def _as_float(b: Builder, x: Value) -> Value:
    """Cast integers to float32: OpenVINO applies float functions to integers, too."""
    return x if _integer(x) is None else cast(b, x, DType.FLOAT32)


def _round_to_type_of(b: Builder, y: Value, x: Value) -> Value:
    """Round `y` to the type of `x` if `x` is an integer tensor."""
    dtype = _integer(x)
    return y if dtype is None else cast(b, b(Round, y), dtype)


RULES = RuleTable(
    "openvino",
    {
        "as_index": as_index,
        "as_int64": as_int64,
        "as_scalar": as_scalar,
        "as_vector": as_vector,
        "emitted_reshape": emitted_reshape,
        "emitted_scalar": emitted_scalar,
        "kind": _dtype_kind,
        "known": lambda _b, x: float_element(x),
        "real": _as_float,
        "renamed": renamed,
        "rounded": _round_to_type_of,
        "vector": vector,
    },
)
