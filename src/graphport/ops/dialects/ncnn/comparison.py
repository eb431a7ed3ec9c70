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
from graphport.ops.dialects.ncnn.integers import (
    LIMIT,
    dtype_in,
    is_bits,
    is_left,
    is_number,
    is_rounded,
    kept,
    most,
    real,
)
from graphport.ops.dialects.ncnn.told import FUNCTION
from graphport.ops.dialects.torch_functions import dtype_of, seen
from graphport.ops.folded import Computed
from graphport.ops.pages.comparison import (
    And,
    Equal,
    Greater,
    GreaterOrEqual,
    IsInf,
    IsNaN,
    Less,
    LessOrEqual,
    Not,
    Or,
    Where,
    Xor,
)
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


def _ordered(x: Value, y: Value) -> None:
    """Refuse integers that single precision may not keep apart.

    Those of any size are told from a number that it has, for they are rounded in their order.
    """
    if dtype_in(x) in (None, DType.BOOL) or dtype_of(x).is_floating:
        return
    if dtype_of(x) is DType.STRING:
        message = f"{x.name} is {x.fact}: blobs hold numbers"
        raise UnsupportedError(message)
    for each, other in ((x, y), (y, x)):
        if folded(other) is not None and 0 < most(other) < LIMIT and (is_bits(each) or is_number(each)):
            return
    if not (is_number(x) and is_number(y)) or is_rounded(x) or is_rounded(y):
        message = f"{x.name} is {x.fact}: integers of any size are compared with numbers that are known alone"
        raise UnsupportedError(message, is_secondary=is_left(x) or is_left(y))


@Greater.lift("ncnn")
def lift_greater(b: Builder, x: Value, y: Value) -> Value:
    _ordered(x, y)
    return _above(b, x, y)


@Less.lift("ncnn")
def lift_less(b: Builder, x: Value, y: Value) -> Value:
    _ordered(x, y)
    return _above(b, y, x)


@GreaterOrEqual.lift("ncnn")
def lift_greater_or_equal(b: Builder, x: Value, y: Value) -> Value:
    """Not below."""
    _ordered(x, y)
    return _opposite(b, _above(b, y, x), x, y)


@LessOrEqual.lift("ncnn")
def lift_less_or_equal(b: Builder, x: Value, y: Value) -> Value:
    """Not above."""
    _ordered(x, y)
    return _opposite(b, _above(b, x, y), x, y)


@Equal.lift("ncnn")
def lift_equal(b: Builder, x: Value, y: Value) -> Value:
    """Neither below nor above."""
    _ordered(x, y)
    return _opposite(b, both(b, _MAX, _above(b, x, y), _above(b, y, x)), x, y)


def _logical(number: int, b: Builder, x: Value, y: Value) -> Value:
    return _of_finite(both(b, number, x, y), x, y)


And.lift("ncnn")(partial(_logical, _MUL))
Or.lift("ncnn")(partial(_logical, _MAX))


@IsNaN.lift("ncnn")
def lift_is_nan(b: Builder, x: Value) -> Value:
    """Not even the size of what is no number is above -1."""
    return _of_finite(_truth(b, _inverted(b, emitted(b, "Threshold", emitted(b, "AbsVal", x), p0=-1.0))))


@IsInf.lift("ncnn")
def lift_is_infinite(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Above the largest number that there is."""
    if detect_negative and detect_positive:
        size = emitted(b, "AbsVal", x)
    elif detect_positive or detect_negative:
        size = emitted(b, "Noop" if detect_positive else "UnaryOp", x, p0=None if detect_positive else 1)
    else:
        size = emitted(b, "BinaryOp", x, p0=_MUL, p1=1, p2=0.0)
    return _of_finite(_truth(b, emitted(b, "Threshold", size, p0=float(np.finfo(np.float32).max))))


_FINITE = "ncnn.finite"
"""The note of a truth that tells finite numbers from others."""


def _of_finite(y: Value, *sources: Value) -> Value:
    """Note that what is chosen by `y` may be what is not finite, if one of `sources` says so or there is none."""
    if not sources or any(x.has_notes and _FINITE in x.notes for x in sources):
        y.notes[_FINITE] = 1
    return y


@Xor.lift("ncnn")
def lift_xor(b: Builder, x: Value, y: Value) -> Value:
    return emitted(b, "AbsVal", both(b, _SUB, x, y))


@Not.lift("ncnn")
def lift_not(b: Builder, x: Value) -> Value:
    return _of_finite(_inverted(b, x), x)


@Where.lift("ncnn")
def lift_where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """`c x + (1 - c) y`; for 0 times an infinite constant is no number, such a one is made where it is wanted."""
    node = b.before
    function = None if node is None or not node.has_notes else node.notes.get(FUNCTION)
    if isinstance(function, int):
        b.looks_around = True
        return emitted(b, "UnaryOp", x, p0=function)
    if condition.has_notes and _FINITE in condition.notes:
        message = "a choice by IsNaN or IsInf: it is a sum of products, and what is not chosen would remain"
        raise UnsupportedError(message)
    x, y = real(b, x), real(b, y)
    found = _chosen(b, condition, x, y)
    if dtype_in(x) not in (None, DType.BOOL) and not dtype_of(x).is_floating:
        found.fact = TensorFact(dtype_of(x), b.dims(found))
        kept(found, x, y)
    return found


def _chosen(b: Builder, condition: Value, x: Value, y: Value) -> Value:
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
