"""Comparisons, logic and choice in ncnn, whose blobs have 1 for true and 0 for false."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.formats.ncnn.rules.annotations import FUNCTION
from graphport.formats.ncnn.rules.emitting import emitted, refuse_constants
from graphport.formats.ncnn.rules.functions import BINARY, UNARY, binary_with_constant, both, infinite, unary
from graphport.formats.ncnn.rules.indices import MOST_PIXELS, gathered_columns
from graphport.formats.ncnn.rules.integers import (
    LIMIT,
    MOVING,
    copy_integer_range,
    has_float_blob,
    has_unexported_producer,
    is_bits,
    is_rounded,
    max_magnitude,
    to_float_blob,
)
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.formats.pytorch.rules.binding import constant_elements
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed, folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.comparison import (
    IsInf,
    IsNaN,
    Where,
)
from graphport.ops.definitions.reshape import Concat, Expand, Reshape
from graphport.ops.lowering.operands import dtype_of, sizes
from graphport.ops.shapes import broadcast


def _as_float_boolean(b: Builder, y: Value) -> Value:
    y.fact = TensorFact(DType.FLOAT32, b.dims(y))
    return y


def _above(b: Builder, x: Value, y: Value) -> Value:
    """Return 1 where `x` > `y`; 0 where either is NaN."""
    return _as_float_boolean(b, emitted(b, "Threshold", both(b, "sub", x, y), p0=0.0))


def _inverted(b: Builder, x: Value) -> Value:
    return binary_with_constant(b, "-sub", x, 1.0)


def _opposite(b: Builder, truth: Value, *operands: Value) -> Value:
    """Negate a comparison, but return 0 where an operand is NaN."""
    y = _inverted(b, truth)
    for x in operands:
        if folded(x) is None:
            y = both(b, "mul", y, emitted(b, "Threshold", emitted(b, "AbsVal", x), p0=-1.0))
    return y


def _check_ordered_operands(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return two operands of an order comparison; reject integers that float32 may not distinguish.

    Unbounded integers can be compared with representable constants, because rounding is monotonic.
    """
    del b
    if x.dtype in (None, DType.BOOL) or dtype_of(x).is_floating:
        return x, y
    if dtype_of(x) is DType.STRING:
        message = f"{x.name} is {x.fact}: ncnn blobs are numeric"
        raise UnsupportedError(message)
    for each, other in ((x, y), (y, x)):
        if folded(other) is not None and 0 < max_magnitude(other) < LIMIT and (is_bits(each) or has_float_blob(each)):
            return x, y
    if not (has_float_blob(x) and has_float_blob(y)) or is_rounded(x) or is_rounded(y):
        message = f"{x.name} is {x.fact}: comparison of integers of unknown range requires a constant operand"
        raise UnsupportedError(message, is_secondary=has_unexported_producer(x) or has_unexported_producer(y))
    return x, y


@IsNaN.export_rule("ncnn")
def export_is_nan(b: Builder, x: Value) -> Value:
    """Export IsNaN: abs(NaN) > -1 is false."""
    return _of_finite(
        b, _as_float_boolean(b, _inverted(b, emitted(b, "Threshold", emitted(b, "AbsVal", x), p0=-1.0))), of=x
    )


@IsInf.export_rule("ncnn")
def export_is_infinite(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Export IsInf as a threshold at the maximum float32; for one sign of x or -x, for both of |x|."""
    if detect_negative and detect_positive:
        size = emitted(b, "AbsVal", x)
    elif detect_positive or detect_negative:
        size = emitted(b, "Noop", x) if detect_positive else unary(b, "neg", x)
    else:
        size = binary_with_constant(b, "mul", x, 0.0)
    return _of_finite(b, _as_float_boolean(b, emitted(b, "Threshold", size, p0=float(np.finfo(np.float32).max))), of=x)


_FINITE = "ncnn.finite"
"""Note of a mask of finite elements: whether true means finite."""
_KEEPS, _LOSES = 1, 2
_SUMS = tuple(map(BINARY.index, ("add", "sub", "mul")))
_FAR = 64
"""Values that are followed back at most."""


def _of_finite(b: Builder, y: Value, *sources: Value, of: Value | None = None) -> Value:
    """Note on the mask `y` whether operators before the tested value `of` preserve NaN; or merge notes of `sources`."""
    del b
    found = [x.notes[_FINITE] for x in sources if x.has_notes and _FINITE in x.notes]
    if of is not None:
        found.append(_KEEPS if _keeps(of) else _LOSES)
    if found:
        y.notes[_FINITE] = _LOSES if _LOSES in found else _KEEPS
    return y


def _keeps(x: Value) -> bool:
    """Whether a value is computed from inputs by operators that keep NaN and inf.

    These are data movement, sampling and sums of products.
    """
    waiting, seen_ = [x], {x}
    while waiting:
        made = waiting.pop().producer
        if made is None:
            continue
        is_sum = made.op_type == "BinaryOp" and made.attributes.get("0") in _SUMS
        if len(seen_) > _FAR or not (is_sum or made.op_type in (*MOVING, "GridSample", "MemoryData")):
            return False
        kept_ = made.operands[:1] if made.op_type == "GridSample" else made.operands
        new = [each for each in kept_ if each not in seen_]
        seen_.update(new)
        waiting += new
    return True


RULES.having(
    ordered=_check_ordered_operands,
    above=_above,
    opposite=_opposite,
    both=both,
    inverted=_inverted,
    of_finite=_of_finite,
).export_rules("""
Greater -> x, y = ordered(a, b); above(x, y)
Less -> x, y = ordered(a, b); above(y, x)
GreaterOrEqual -> x, y = ordered(a, b); opposite(above(y, x), x, y)
LessOrEqual -> x, y = ordered(a, b); opposite(above(x, y), x, y)
Equal -> x, y = ordered(a, b); opposite(both("maximum", above(x, y), above(y, x)), x, y)
And -> of_finite(both("mul", a, b), a, b)
Or -> of_finite(both("maximum", a, b), a, b)
Xor -> AbsVal(both("sub", a, b))
Not -> of_finite(inverted(x), x)
""")


@Where.export_rule("ncnn")
def export_where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Export Where: max(min(x, ±inf), min(y, ∓inf)); if an operand may be NaN, sample the selected of two pixels."""
    node = b.before
    function = None if node is None or not node.has_notes else node.notes.get(FUNCTION)
    if isinstance(function, int):
        b.looks_around = True
        return emitted(b, "UnaryOp", x, p0=function)
    x, y = to_float_blob(b, x), to_float_blob(b, y)
    tells = condition.notes.get(_FINITE) if condition.has_notes else None
    if tells == _LOSES:
        message = (
            "IsNaN or IsInf of a computed value selects elements, and ncnn's exp, softmax and division do not "
            "preserve NaN"
        )
        raise UnsupportedError(message)
    if folded(condition) is None and (_is_nan(x) or _is_nan(y)):
        return _nan_where(b, condition, y) if _is_nan(x) else _nan_where(b, _inverted(b, condition), x)
    lacks = [_may_be_none(each) for each in (x, y)]
    is_copied = tells is not None or (any(lacks) and _is_copyable(b, condition, x, y))
    found = _selected(b, condition, x, y) if is_copied else _emit_where(b, condition, x, y, lacks)
    if x.dtype not in (None, DType.BOOL) and not dtype_of(x).is_floating:
        found.fact = TensorFact(dtype_of(x), b.dims(found))
        copy_integer_range(found, x, y)
    return found


def _is_nan(x: Value) -> bool:
    """Whether `x` is a constant of one element, which is NaN."""
    stored = folded(x)
    if stored is None or stored.count != 1 or not stored.dtype.is_floating:
        return False
    return bool(np.isnan(stored.numpy()).all())


def _nan_where(b: Builder, truth: Value, x: Value) -> Value:
    """Set `x` to NaN where the mask is true: add sqrt(-1) there, and sqrt(-0) elsewhere.

    Maximum and minimum are unsuitable: their result for NaN is undefined.
    """
    return both(b, "add", x, unary(b, "sqrt", binary_with_constant(b, "mul", truth, -1.0)))


_ROOTS = frozenset(
    map(UNARY.index, ("sqrt", "rsqrt", "log", "asin", "acos", "reciprocal", "log10", "acosh", "atanh", "log1p"))
)
"""Functions that are no number where they have no value: roots, logarithms, reciprocals, arcs."""
_QUOTIENTS = frozenset(map(BINARY.index, ("div", "pow", "-div", "-pow", "fmod", "-fmod")))
_EACH = frozenset({"UnaryOp", "BinaryOp", "Clip", "ReLU", "Sigmoid", "TanH", "Swish", "AbsVal", "GELU", "ELU", *MOVING})
"""Layers that compute each element by itself, or move it."""


def _may_be_none(x: Value) -> bool:
    """Whether elements of a value may be NaN although its operands are finite: after a softmax, root or quotient."""
    waiting, seen_ = [x], {x}
    while waiting:
        made = waiting.pop().producer
        if made is None or len(seen_) > _FAR:
            continue
        kind = made.attributes.get("0")
        is_by_number = made.op_type == "BinaryOp" and kind == BINARY.index("div") and bool(made.attributes.get("1"))
        if made.op_type == "Softmax" or (made.op_type == "UnaryOp" and kind in _ROOTS):
            return True
        if made.op_type == "BinaryOp" and kind in _QUOTIENTS and not is_by_number:
            return True
        if made.op_type in _EACH:
            new = [each for each in made.operands if each not in seen_]
            seen_.update(new)
            waiting += new
    return False


def _is_copyable(b: Builder, *operands: Value) -> bool:
    """Whether shapes are static, and float32 represents the pixel coordinates of that many elements exactly."""
    lengths = [[dim for dim in b.dims(each) if isinstance(dim, int)] for each in operands]
    if any(len(known) < len(b.dims(each)) for known, each in zip(lengths, operands, strict=True)):
        return False
    return 2 * prod(sizes(broadcast(*lengths))) <= MOST_PIXELS


def _selected(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Select by sampling one of two pixels: maximum and minimum do not propagate NaN."""
    shape = sizes(b.dims(condition), "the condition")
    for each in (x, y):
        shape = sizes(broadcast(shape, sizes(b.dims(each), "the gathered tensor")))
    columns = [prod(shape), 1]
    pair = [b(Reshape, b(Expand, each, shape), [1, 1, *columns]) for each in (x, y)]
    mask = folded(condition)
    other = _inverted(b, condition) if mask is None else b.constant((mask.numpy() == 0).astype(np.float32))
    other = b(Reshape, b(Expand, other, shape), [1, *columns])
    return b(Reshape, gathered_columns(b, b(Concat, *pair, axis=3), other), shape)


def _emit_where(b: Builder, condition: Value, x: Value, y: Value, lacks: Sequence[bool]) -> Value:
    """Select by maximum and minimum: for NaN operands, ncnn's kernels return the first or the second operand."""
    mask = folded(condition)
    if mask is not None:
        refuse_constants(x, y)
        least, most = (_known_bounds(b, mask, is_chosen=is_chosen) for is_chosen in (True, False))
    else:
        least = infinite(b, binary_with_constant(b, "add", condition, -0.5))
        most = unary(b, "neg", least)
    parts: list[Value] = []
    for value, bound, may_lack in ((x, least, lacks[0]), (y, most, lacks[1])):
        part = _bounded(b, mask, value, bound, is_first=value is x)
        if part is not None:
            parts.append(both(b, "minimum", bound, part) if may_lack else part)
    found = reduce(partial(both, b, "maximum"), parts)
    wanted = reduce(broadcast, [b.dims(each) for each in (condition, x, y)])
    if b.dims(found) == wanted:
        return found
    message = (
        f"the result shape is determined by {condition.name} and constants; ncnn requires an operand with the "
        "result shape"
    )
    raise UnsupportedError(message)


def _known_bounds(b: Builder, mask: Storage, *, is_chosen: bool) -> Value:
    """Return a constant with +inf where `mask` equals `is_chosen`, and -inf elsewhere."""

    def bounds(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.where((array != 0) == is_chosen, np.inf, -np.inf)

    return b.constant(Computed(bounds, (mask,), DType.FLOAT32, mask.shape))


def _bounded(b: Builder, mask: Storage | None, x: Value, bound: Value, *, is_first: bool) -> Value | None:
    """Return min(x, bound), which is -inf where `x` is not selected; `None` if `x` is -inf everywhere."""
    storage, known = folded(x), constant_elements(x)
    if known is not None and known.size and known.dtype.kind == "f" and np.isneginf(known).all():
        return None
    if storage is None or mask is None:
        return both(b, "minimum", x, bound)

    def mask_constant(array: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.where((array != 0) == is_first, other, -np.inf)

    shape = np.broadcast_shapes(mask.shape, storage.shape)
    return b.constant(Computed(mask_constant, (mask, storage), DType.FLOAT32, shape))
