"""Sorting by any comparator, and the largest elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import Dense
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.elementwise import total_order_key
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, rule
from graphport.formats.stablehlo.rules.shapes import checked_axes
from graphport.formats.stablehlo.rules.values import Held, Pair
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from graphport.formats.stablehlo.program import Block, Operation

MAX_COMPARED = 2048
"""Elements that are sorted by comparing each with each."""


@rule("sort")
@complex_rule("sort")
def sort_tensors(e: Emitter, op: Operation, x: Held, *others: Held) -> list[Held]:
    """Sort along an axis by a region that compares two elements of each operand."""
    xs = (x, *others)
    first = _as_tensor(x)
    rank = e.rank(first)
    if any(e.rank(_as_tensor(each)) != rank for each in others):
        refuse("SH0007", "sort: the operands differ in rank")
    axis = int(op.attributes.get("dimension", -1))
    axis = axis + rank if axis < 0 else axis
    checked_axes(e, [axis], rank, op)
    length = e.dims(first)[axis]
    if length in (0, 1):
        return list(xs)
    key = _simple_comparator(e, op.regions[0])
    order = None
    if key is not None:
        operand = xs[key[0]]
        order = _order_by_key(e, operand, axis, key[1], is_total=key[2], is_canonical=key[3])
    if order is None:
        order = _order_by_pairs(e, op.regions[0], xs, axis)
    return [_gather_elements(e, x, order, axis) for x in xs]


def _as_tensor(x: Held) -> Value:
    if isinstance(x, Pair):
        return x.real
    return x if isinstance(x, Value) else refuse("SH0007", "sort: an operand is not a tensor")


def _gather_elements(e: Emitter, x: Held, order: Value, axis: int) -> Held:
    if isinstance(x, Pair):
        return Pair(e("GatherElements", x.real, order, axis=axis), e("GatherElements", x.imaginary, order, axis=axis))
    return e("GatherElements", _as_tensor(x), order, axis=axis)


def _simple_comparator(e: Emitter, block: Block) -> tuple[int, str, bool, bool] | None:
    """Match a comparator that is `<` or `>` of one operand: operand index, direction, whether the order is total.

    The last flag is true if zeros are normalized to +0 and NaNs to one NaN first, as JAX does.
    """
    made = {key: op for op in block.operations for key in op.results}
    places = {key: place for place, (key, _) in enumerate(block.arguments)}
    returned = block.operations[-1].operands if block.operations else []
    test = made.get(returned[0]) if len(returned) == 1 else None
    if test is None or test.name != "compare" or test.attributes.get("comparison_direction") not in ("LT", "GT"):
        return None
    sources = [_canonical_source(e, made, key) for key in test.operands]
    low, high = (places.get(key) for key, _ in sources)
    if low is None or high is None or sources[0][1] != sources[1][1]:
        return None
    if low % 2 or high != low + 1:
        return None
    total = test.attributes.get("compare_type") == "TOTALORDER"
    return low // 2, str(test.attributes["comparison_direction"]), total, sources[0][1]


def _canonical_source(e: Emitter, made: dict[int, Operation], key: int) -> tuple[int, bool]:
    """The argument x of `select(x != x, NaN, select(x == 0, 0, x))`, and whether the pattern matches."""
    outer = made.get(key)
    if outer is None or outer.name != "select":
        return key, False
    inner = made.get(outer.operands[2])
    if inner is None or inner.name != "select":
        return key, False
    x = inner.operands[2]
    tests = [made.get(outer.operands[0]), made.get(inner.operands[0])]
    constants = [_scalar_constant(e, made, key) for key in (outer.operands[1], inner.operands[1])]
    fits = (
        tests[0] is not None
        and tests[1] is not None
        and tests[0].attributes.get("comparison_direction") == "NE"
        and tests[0].operands == [x, x]
        and tests[1].attributes.get("comparison_direction") == "EQ"
        and tests[1].operands[0] == x
        and _scalar_constant(e, made, tests[1].operands[1]) == 0
        and constants[0] is not None
        and np.isnan(constants[0])
        and constants[1] == 0
    )
    return (x, True) if fits else (key, False)


def _scalar_constant(e: Emitter, made: dict[int, Operation], key: int) -> float | None:
    """The value of a constant of the region or of the function around it."""
    op = made.get(key)
    if op is None and key in e.values:
        known = e.scalar(e.values[key])
        return None if known is None else float(known)
    value = None if op is None or op.name != "constant" else op.attributes.get("value")
    if not isinstance(value, Dense) or value.type.count != 1 or value.type.is_complex:
        return None
    return float(value.array().reshape(()))


def _order_by_key(
    e: Emitter, x: Held, axis: int, direction: str, *, is_total: bool, is_canonical: bool
) -> Value | None:
    """The stable order of one operand by TopK; `None` where TopK has another order."""
    if not isinstance(x, Value):
        return None
    dtype = e.dtype(x)
    largest = int(direction == "GT")
    if dtype.kind in "iu" and dtype.bits >= 8 and dtype is not DType.UINT64:
        step = DType.INT64 if dtype.bits > 16 and dtype is not DType.INT32 else DType.INT32
        return _top(e, e.cast(x, step), axis, largest)
    if not dtype.is_floating:
        return None
    if is_total and not is_canonical:
        return _top(e, total_order_key(e, x), axis, largest)
    if not (is_total and is_canonical):
        return None
    wide = e.cast(x, DType.FLOAT32) if dtype.bits < 32 else x
    is_nan = e("IsNaN", wide)
    highest = e.constant(np.inf, wide.dtype)
    order = _top(e, e("Where", is_nan, highest, wide), axis, largest)
    flags = e("GatherElements", e.cast(is_nan, DType.INT32), order, axis=axis)
    return e("GatherElements", order, _top(e, flags, axis, largest), axis=axis)


def _top(e: Emitter, x: Value, axis: int, largest: int) -> Value:
    """Return the permutation that sorts an axis stably."""
    length = e.dim(x, axis)
    count = e.ints(length) if isinstance(length, int) else length
    return e.results("TopK", 2, x, count, axis=axis, largest=largest)[1]


def _order_by_pairs(e: Emitter, block: Block, xs: tuple[Held, ...], axis: int) -> Value:
    """Return the permutation that sorts an axis stably by any comparator.

    The place of an element is the number of elements before it: those less than it, and equal ones with a lower index.
    """
    first = _as_tensor(xs[0])
    rank = e.rank(first)
    length = e.static(first, axis)
    if length > MAX_COMPARED:
        refuse("SH0006", f"unsupported: sort of {length} elements by a region other than a simple comparison")
    order = [*(k for k in range(rank) if k != axis), axis]

    def insert_axis(x: Held, place: int) -> Held:
        if isinstance(x, Pair):
            return Pair(*[e.unsqueeze(e.transpose(v, order), place) for v in (x.real, x.imaginary)])
        return e.unsqueeze(e.transpose(_as_tensor(x), order), place)

    # Rows are elements, columns the elements to compare with.
    pairs = [[insert_axis(x, rank), insert_axis(x, rank - 1)] for x in xs]
    forward = _as_tensor(e.vectorized(block, [v for row, column in pairs for v in (column, row)], 1)[0])
    backward = _as_tensor(e.vectorized(block, [v for row, column in pairs for v in (row, column)], 1)[0])
    lower = e.constant(np.tri(length, k=-1, dtype=bool), DType.BOOL)
    equal = e("Not", e("Or", forward, backward))
    before = e("Or", forward, e("And", equal, lower))
    place = e("ReduceSum", e.cast(before, DType.INT64), e.ints(rank), keepdims=0)
    found = _top(e, place, rank - 1, 0)
    return e.transpose(found, [int(n) for n in np.argsort(order)])


def largest_elements(e: Emitter, x: Value, count: int) -> list[Held]:
    """The largest elements of the last axis and their positions; NaN counts as larger than all."""
    dtype = e.dtype(x)
    axis = e.rank(x) - 1
    if axis < 0:
        refuse("SH0007", "top_k of a scalar")
    length = e.dims(x)[axis]
    if isinstance(length, int) and not 0 <= count <= length:
        refuse("SH0007", f"top_k: k is {count}, but the axis has {length} elements")
    step = x
    if dtype.is_floating:
        step = total_order_key(e, x) if dtype.bits >= 16 else e.cast(x, DType.FLOAT32)
    elif dtype.is_integer and dtype.bits < 64:
        step = e.cast(x, DType.INT64)
    place = e.results("TopK", 2, step, e.ints(count), axis=axis)[1]
    return [e("GatherElements", x, place, axis=axis), e.cast(place, DType.INT32)]
