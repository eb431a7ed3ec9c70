"""Arithmetic in Caffe."""

from __future__ import annotations

from functools import partial
from math import log as natural_logarithm
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.caffe.rules.binding import (
    Layer,
    aligned,
    checked_axis,
    in_caffe,
    layer,
    reshaped_in_caffe,
    small_numbers,
)
from graphport.formats.caffe.rules.rule_table import RULES
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Log, Max, Mul, Neg, Pow, Reciprocal, Sqrt, Sub, Sum
from graphport.ops.definitions.reshape import Identity

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

RULES.lower("AbsVal(x) <-> Abs(x)")


@layer("Eltwise", "eltwise_param", bottoms=None)
def eltwise(at: Layer, *, operation: str = "SUM", coeff: tuple[float, ...] = ()) -> Value:
    """Sum with coefficients, product or maximum of blobs of one shape."""
    op_defs = {"SUM": Add, "PROD": Mul, "MAX": Max}
    if operation not in op_defs:
        message = f"operation is {operation}, expected {', '.join(op_defs)}"
        raise UnsupportedError(message)
    if not at.bottoms or (coeff and (len(coeff) != len(at.bottoms) or operation != "SUM")):
        message = f"{len(coeff)} coefficients for a {operation} of {len(at.bottoms)} bottoms"
        raise ShapeError(message, "use one coefficient per bottom of a SUM, or none")
    _check_shapes(at)
    total = at.x if not coeff or coeff[0] == 1 else _times(at, at.x, coeff[0])
    for index, bottom in enumerate(at.bottoms[1:], 1):
        factor = coeff[index] if coeff else 1
        if factor == -1:
            total = at.b(Sub, total, bottom)
        else:
            total = at.b(op_defs[operation], total, bottom if factor == 1 else _times(at, bottom, factor))
    return total


def _check_shapes(at: Layer) -> None:
    first = at.dims()
    for index in range(1, len(at.bottoms)):
        dims = at.dims(index)
        if len(dims) != len(first) or any(decide_equal(m, n) is False for m, n in zip(first, dims, strict=True)):
            message = f"the first bottom has shape {list(first)}, bottom {index + 1} has shape {list(dims)}"
            raise ShapeError(message, "use equal shapes; only Scale and Bias broadcast")


def _times(at: Layer, value: Value, factor: float) -> Value:
    return at.b(Neg, value) if factor == -1 else at.b(Mul, value, at.float_scalar(factor))


def _linear(at: Layer, scale: float, shift: float) -> Value:
    """Return shift + scale * x."""
    y = at.x if scale == 1 else _times(at, at.x, scale)
    return y if shift == 0 else at.b(Add, y, at.float_scalar(shift))


@layer("Power", "power_param")
def power(at: Layer, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """`(shift + scale * x) ** power`."""
    y = _linear(at, scale, shift)
    if power == 1:
        return y if y is not at.x else at.b(Identity, y)
    if power in (0.5, -1):
        return at.b(Sqrt if power == 0.5 else Reciprocal, y)
    return at.b(Pow, y, at.float_scalar(power))


@layer("Exp", "exp_param")
def exponential(at: Layer, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """base ** (shift + scale * x); a base of -1 means e."""
    if base != -1 and base <= 0:
        message = f"base is {base}"
        raise ShapeError(message, "use a positive base, or -1 for e")
    factor = 1.0 if base == -1 else natural_logarithm(base)
    return at.b(Exp, _linear(at, scale * factor, shift * factor))


@layer("Log", "log_param")
def logarithm(at: Layer, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """log(shift + scale * x) to `base`; a base of -1 means e."""
    if base != -1 and (base <= 0 or base == 1):
        message = f"base is {base}"
        raise ShapeError(message, "use a positive base other than 1, or -1 for e")
    y = at.b(Log, _linear(at, scale, shift))
    return y if base == -1 else at.b(Mul, y, at.float_scalar(1 / natural_logarithm(base)))


@layer("Scale", "scale_param", bottoms=None)
def scale(at: Layer, *, axis: int = 1, num_axes: int = 1, bias_term: bool = False) -> Value:
    """Multiply by a blob or the second bottom, broadcast from `axis`; optionally add a bias."""
    rank = len(at.dims())
    place, shape, factor = _second(at, axis, num_axes, "scale")
    y = at.b(Mul, at.x, aligned(at.b, factor, place, rank))
    if not bias_term:
        return y
    return at.b(Add, y, aligned(at.b, at.blob(2 - len(at.bottoms), shape, "bias"), place, rank))


@layer("Bias", "bias_param", bottoms=None)
def bias(at: Layer, *, axis: int = 1, num_axes: int = 1) -> Value:
    """Add a blob or the second bottom, broadcast from `axis`."""
    place, _, shift = _second(at, axis, num_axes, "bias")
    return at.b(Add, at.x, aligned(at.b, shift, place, len(at.dims())))


def _second(at: Layer, axis: int, num_axes: int, what: str) -> tuple[int, tuple[Dim, ...], Value]:
    """Return the axis, the shape and the value of the other operand."""
    dims = at.dims()
    if len(at.bottoms) == 2:
        shape = at.dims(1)
        place = checked_axis(axis, len(dims)) if shape else 0
        return place, shape, at.bottoms[1]
    if len(at.bottoms) != 1:
        message = f"{len(at.bottoms)} bottoms"
        raise ShapeError(message, "use 1 or 2 bottoms")
    place = checked_axis(axis, len(dims))
    if num_axes < -1 or (num_axes >= 0 and place + num_axes > len(dims)):
        message = f"{num_axes} axes from axis {place} exceed the rank {len(dims)}"
        raise ShapeError(message)
    shape = dims[place:] if num_axes == -1 else dims[place : place + num_axes]
    return place, shape, at.blob(0, shape, what)


@layer("Axpy", bottoms=3)
def axpy(at: Layer) -> Value:
    """a * x + y with bottoms a [N, C], x and y [N, C, H, W]."""
    factor, x, y = at.bottoms
    return at.b(Add, at.b(Mul, x, aligned(at.b, factor, 0, len(at.dims(1)))), y)


# Back


def _power(b: Builder, x: Value, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> tuple[Value, ...]:
    """`(shift + scale * x) ** power`."""
    stated = {"power": (power, 1.0), "scale": (scale, 1.0), "shift": (shift, 0.0)}
    given: dict[str, Any] = {name: entry if entry != default else None for name, (entry, default) in stated.items()}
    return in_caffe(b, "Power", x, facts=[x.fact], **given)


RULES.export_rules("""
Sqrt -> Power(x, power=0.5)
Reciprocal -> Power(x, power=-1.0)
Neg -> Power(x, scale=-1.0)
Exp -> Exp(input)
Log -> Log(input)
""")


@Pow.export_rule("caffe")
def export_pow(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    """Export Pow with a constant scalar exponent."""
    exponent = _scalar_of(y)
    return None if exponent is None or not _keeps_shape(b, x, y) else _power(b, x, power=exponent)


@Add.export_rule("caffe")
def export_add(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    return _sum(b, x, y) or _sum(b, y, x)


def _sum(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    number = _scalar_of(y)
    if number is not None and _keeps_shape(b, x, y):
        return _power(b, x, shift=number)
    return _elementwise(b, "SUM", x, y) or _along_axes(b, "Bias", x, y)


@Mul.export_rule("caffe")
def export_mul(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    return _product(b, x, y) or _product(b, y, x)


def _product(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    number = _scalar_of(y)
    if number is not None and _keeps_shape(b, x, y):
        return _power(b, x, scale=number)
    return _elementwise(b, "PROD", x, y) or _along_axes(b, "Scale", x, y)


@Sub.export_rule("caffe")
def export_sub(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    """Export Sub as a sum with negated operand."""
    first, second = _scalar_of(x), _scalar_of(y)
    if second is not None and _keeps_shape(b, x, y):
        return _power(b, x, shift=-second)
    if first is not None and _keeps_shape(b, y, x):
        return _power(b, y, scale=-1.0, shift=first)
    if _elements_agree(b, x, y):
        return _elementwise(b, "SUM", x, y, coeff=(1.0, -1.0))
    numbers = small_numbers(y)
    if numbers is not None:
        return _along_axes(b, "Bias", x, b.constant(-numbers))
    (negative,) = _power(b, y, scale=-1.0)
    return _along_axes(b, "Bias", x, negative) or _along_axes(b, "Bias", negative, x)


@Div.export_rule("caffe")
def export_div(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    """Export Div as a product with the reciprocal."""
    first, second = _scalar_of(x), _scalar_of(y)
    if second is not None and _keeps_shape(b, x, y):
        return _power(b, x, scale=1 / second) if second else None
    if first is not None and _keeps_shape(b, y, x):
        (inverse,) = _power(b, y, power=-1.0)
        return _power(b, inverse, scale=first) if first != 1 else (inverse,)
    numbers = small_numbers(y)
    if numbers is not None and numbers.dtype == np.float32:
        return None if not numbers.all() else _along_axes(b, "Scale", x, b.constant(np.float32(1) / numbers))
    (inverse,) = _power(b, y, power=-1.0)
    return _elementwise(b, "PROD", x, inverse) or _along_axes(b, "Scale", x, inverse)


def _several(operation: str, b: Builder, *operands: Value) -> tuple[Value, ...] | None:
    """Export an element-wise operator on operands of equal shape as Eltwise."""
    first, *rest = operands
    if not rest or not all(_elements_agree(b, first, other) for other in rest):
        return None
    return in_caffe(b, "Eltwise", *operands, operation=operation)


Max.export_rule("caffe")(partial(_several, "MAX"))
Sum.export_rule("caffe")(partial(_several, "SUM"))


def _elementwise(
    b: Builder, operation: str, x: Value, y: Value, coeff: tuple[float, ...] | None = None
) -> tuple[Value, ...] | None:
    if not _elements_agree(b, x, y):
        return None
    return in_caffe(b, "Eltwise", x, y, operation=operation, coeff=coeff)


def _elements_agree(b: Builder, x: Value, y: Value) -> bool:
    """Whether both shapes are equal."""
    one, other = b.dims(x), b.dims(y)
    return len(one) == len(other) and all(decide_equal(m, n) is True for m, n in zip(one, other, strict=True))


def _scalar_of(value: Value) -> float | None:
    """Return the only element of a constant, else `None`."""
    found = small_numbers(value)
    return float(found.reshape(-1)[0]) if found is not None and found.size == 1 else None


def _keeps_shape(b: Builder, x: Value, number: Value) -> bool:
    """Whether broadcasting `x` with a scalar constant keeps the shape of `x`."""
    return len(b.dims(number)) <= len(b.dims(x))


def _along_axes(b: Builder, type: str, x: Value, y: Value) -> tuple[Value, ...] | None:
    """Export a broadcast operand with contiguous axes as a blob or second bottom; `None` if that is impossible."""
    dims, own = b.dims(x), b.dims(y)
    if len(own) > len(dims):
        return None
    padded = (*[1] * (len(dims) - len(own)), *own)
    axes = [axis for axis, n in enumerate(padded) if decide_equal(n, 1) is not True]
    if not axes:
        return None
    start, stop = axes[0], axes[-1] + 1
    if any(decide_equal(padded[axis], dims[axis]) is not True for axis in range(start, stop)):
        return None
    shape = padded[start:stop]
    place = start if start != 1 else None
    if y.is_constant:
        whole = [n for n in shape if isinstance(n, int)]
        flat = b.reshaped(y, whole) if len(whole) == len(shape) else None
        count = len(shape) if len(shape) != 1 else None
        if flat is None:
            return None
        stated: dict[str, Any] = {"axis": place, "num_axes": count}
        if type != "Bias":
            return in_caffe(b, type, x, blobs=[flat], **stated)
        # Many readers of the format do not support the Bias layer.
        ones = b.constant(np.ones(bounded(whole), np.float32))
        return in_caffe(b, "Scale", x, blobs=[ones, flat], bias_term=True, **stated)
    second = y if len(own) == len(shape) else reshaped_in_caffe(b, y, TensorFact(DType.FLOAT32, shape))[0]
    return in_caffe(b, type, x, second, axis=place)
