"""Comparisons, logic and choice in ncnn, whose blobs have 1 for true and 0 for false."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.ncnn.arithmetic import both
from graphport.ops.dialects.ncnn.binding import emitted, folded
from graphport.ops.dialects.torch_functions import dtype_of, seen
from graphport.ops.folded import Computed
from graphport.ops.pages.comparison import And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Not, Or, Where, Xor
from graphport.ops.shapes import broadcast

_SUB, _MUL, _MAX = 1, 2, 4
_FLIPPED = 7
"""The operation `b - x` on a blob and a number."""
_LARGE = 1e30
"""A number whose square is infinite."""


def _truth(b: Builder, y: Value) -> Value:
    y.fact = TensorFact(DType.FLOAT32, b.dims(y))
    return y


def _above(b: Builder, x: Value, y: Value) -> Value:
    """1 where `x` is above `y`; nothing is where one of them is no number."""
    return _truth(b, emitted(b, "Threshold", both(b, _SUB, x, y), p0=0.0))


def _inverted(b: Builder, x: Value) -> Value:
    return emitted(b, "BinaryOp", x, p0=_FLIPPED, p1=1, p2=1.0)


def _opposite(b: Builder, truth: Value, *operands: Value) -> Value:
    """1 where a comparison does not hold, but 0 where an operand is no number: of such none holds."""
    y = _inverted(b, truth)
    for x in operands:
        if folded(x) is None:
            y = both(b, _MUL, y, emitted(b, "Threshold", emitted(b, "AbsVal", x), p0=-1.0))
    return y


def _ordered(b: Builder, x: Value, y: Value) -> None:
    """Refuse what is no real number: blobs have nothing else."""
    for each in (x, y):
        if not dtype_of(each).is_floating:
            message = f"{each.name} is {each.fact}: blobs have real numbers"
            raise UnsupportedError(message)


@Greater.lift("ncnn")
def lift_greater(b: Builder, x: Value, y: Value) -> Value:
    _ordered(b, x, y)
    return _above(b, x, y)


@Less.lift("ncnn")
def lift_less(b: Builder, x: Value, y: Value) -> Value:
    _ordered(b, x, y)
    return _above(b, y, x)


@GreaterOrEqual.lift("ncnn")
def lift_greater_or_equal(b: Builder, x: Value, y: Value) -> Value:
    """Not below."""
    _ordered(b, x, y)
    return _opposite(b, _above(b, y, x), x, y)


@LessOrEqual.lift("ncnn")
def lift_less_or_equal(b: Builder, x: Value, y: Value) -> Value:
    """Not above."""
    _ordered(b, x, y)
    return _opposite(b, _above(b, x, y), x, y)


@Equal.lift("ncnn")
def lift_equal(b: Builder, x: Value, y: Value) -> Value:
    """Neither below nor above."""
    _ordered(b, x, y)
    return _opposite(b, both(b, _MAX, _above(b, x, y), _above(b, y, x)), x, y)


def _logical(number: int, b: Builder, x: Value, y: Value) -> Value:
    return both(b, number, x, y)


And.lift("ncnn")(partial(_logical, _MUL))
Or.lift("ncnn")(partial(_logical, _MAX))


@Xor.lift("ncnn")
def lift_xor(b: Builder, x: Value, y: Value) -> Value:
    return emitted(b, "AbsVal", both(b, _SUB, x, y))


@Not.lift("ncnn")
def lift_not(b: Builder, x: Value) -> Value:
    return _inverted(b, x)


@Where.lift("ncnn")
def lift_where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """`c x + (1 - c) y`; for 0 times an infinite constant is no number, such a one is made where it is wanted."""
    _ordered(b, x, y)
    mask = folded(condition)
    if mask is not None:
        is_swapped = folded(x) is not None
        return _by_known(b, mask, *((y, x) if is_swapped else (x, y)), is_swapped=is_swapped)
    for chosen, other, is_first in ((x, y, True), (y, x, False)):
        known = seen(other)
        if known is not None and known.size and np.isneginf(known).all():
            dropped = _inverted(b, condition) if is_first else condition
            return _added(b, chosen, _infinite(b, dropped), other)
        if folded(other) is not None and (known is None or not np.isfinite(known).all()):
            message = "an infinite or a large constant that is chosen"
            raise UnsupportedError(message)
    return both(b, 0, both(b, _MUL, condition, x), both(b, _MUL, _inverted(b, condition), y))


def _infinite(b: Builder, dropped: Value) -> Value:
    """Minus infinity for 1, and 0 for 0; ncnn's logarithm of 0 is no number."""
    large = emitted(b, "BinaryOp", dropped, p0=_MUL, p1=1, p2=-_LARGE)
    return emitted(b, "BinaryOp", large, p0=_MUL, p1=1, p2=_LARGE)


def _added(b: Builder, x: Value, mask: Value, other: Value) -> Value:
    """A sum in the shape of all three."""
    y = both(b, 0, x, mask)
    wanted = broadcast(b.dims(y), b.dims(other))
    if wanted == b.dims(y):
        return y
    message = f"{other.name} gives the result its shape"
    raise UnsupportedError(message)


def _by_known(b: Builder, mask: Storage, x: Value, y: Value, *, is_swapped: bool) -> Value:
    """Where the condition, or its opposite, is known: what is chosen of a constant is a constant, too."""
    if folded(x) is not None:
        message = "a choice between constants"
        raise UnsupportedError(message)

    def kept(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (array != 0) != is_swapped

    def dropped(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (array != 0) == is_swapped

    keep = b.constant(Computed(kept, (mask,), DType.FLOAT32, mask.shape))
    rest = folded(y)
    if rest is None:
        drop = b.constant(Computed(dropped, (mask,), DType.FLOAT32, mask.shape))
        return both(b, 0, both(b, _MUL, x, keep), both(b, _MUL, y, drop))

    def chosen(array: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.where(kept(array), 0.0, other)

    shape = np.broadcast_shapes(mask.shape, rest.shape)
    other = b.constant(Computed(chosen, (mask, rest), DType.FLOAT32, shape))
    return both(b, 0, both(b, _MUL, x, keep), other)
