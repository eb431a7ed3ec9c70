"""Binary functions without a canonical operator."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

from graphport.formats.stablehlo.rules.elementwise import elementwise

if TYPE_CHECKING:
    from graphport.formats.stablehlo.rules.emitter import Emitter
    from graphport.ir.graph import Value


@elementwise("atan2", "chlo.broadcast_atan2")
def atan2_of(e: Emitter, y: Value, x: Value) -> Value:
    """The angle of (x, y): atan(|y| / |x|) moved to the quadrant; zeros count with their signs."""

    def is_negative(value: Value) -> Value:
        return e("Less", e("Where", e("Equal", value, 0.0), e("Reciprocal", value), value), 0.0)

    one = e.constant(1.0, x.dtype)
    far = e("And", e("IsInf", x), e("IsInf", y))
    ax, ay = (e("Where", far, one, e("Abs", value)) for value in (x, y))
    both_zero = e("And", e("Equal", ax, 0.0), e("Equal", ay, 0.0))
    angle = e("Atan", e("Div", ay, e("Where", both_zero, one, ax)))
    turned = e("Where", is_negative(x), e("Sub", e.constant(pi, x.dtype), angle), angle)
    return e("Where", is_negative(y), e("Neg", turned), turned)
