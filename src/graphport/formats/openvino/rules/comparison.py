"""Comparisons, logic and choices in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.comparison import Where
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


_CHOSEN = {DType.BOOL: DType.UINT8, DType.INT16: DType.INT32, DType.UINT16: DType.INT32}
"""Types that ONNX Runtime's Where does not support, with a supported wider type."""


def _as_comparable(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
    """Cast booleans to integers for a comparison: OpenVINO orders false before true."""
    return (x, y) if dtype_of(x) is not DType.BOOL else (cast(b, x, DType.INT32), cast(b, y, DType.INT32))


RULES.having(ordered=_as_comparable).lower("""
opset1.LogicalAnd(x, y) <-> And(x, y)
opset1.LogicalOr(x, y) <-> Or(x, y)
opset1.LogicalXor, opset1.Xor(x, y) <-> Xor(x, y)
opset1.Less(x, y) <-> Less(*ordered(x, y))
opset1.LessEqual(x, y) <-> LessOrEqual(*ordered(x, y))
opset1.Greater(x, y) <-> Greater(*ordered(x, y))
opset1.GreaterEqual(x, y) <-> GreaterOrEqual(*ordered(x, y))
""")


@lower("openvino", "opset1.Select")
def select(b: Builder, condition: Value, x: Value, y: Value, *, auto_broadcast: str = "numpy") -> Value:
    """Select elements of `x` or `y` by condition.

    The rule `pdpd` broadcasts to `x` from the last axis, like NumPy if `x` has the full rank.
    """
    if auto_broadcast not in ("numpy", "none", "pdpd"):
        message = f"auto_broadcast {auto_broadcast!r}"
        raise UnsupportedError(message)
    dtype = x.dtype
    if dtype not in _CHOSEN:
        return b(Where, condition, x, y)
    wide = _CHOSEN[dtype]
    return cast(b, b(Where, condition, cast(b, x, wide), cast(b, y, wide)), dtype)


RULES.export_rules("""
Where -> opset1.Select(condition, x, y)
IsInf -> opset10.IsInf(x, detect_negative=detect_negative == 1, detect_positive=detect_positive == 1)
""")


RULES.lower("""
opset1.NotEqual(x, y) -> Not(Equal(x, y))
opset10.IsInf(x, *, detect_negative=True, detect_positive=True)
    -> IsInf(x, detect_negative=detect_negative, detect_positive=detect_positive)
opset10.IsFinite(x)
    -> is_floating(x): Not(Or(IsInf(x), IsNaN(x)))
    -> Equal(x, x)
""")
