"""Rules on shapes that have to fit: of operands to each other, and of attributes to them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphport.core.dims import Dim, Symbolic
from graphport.formats.nnef.container.operation import Tensor, tensors
from graphport.formats.nnef.container.validity.arguments import axes_outside, axes_repeated
from graphport.formats.nnef.container.validity.case import (
    Case,
    Shape,
    differ,
    may_be_one,
    rank_of,
    shape_of,
    shown,
    static_dim,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Diagnostic


def broadcasting(case: Case) -> Iterator[Diagnostic]:
    """Check broadcasting: operands align from the left; dims are equal or 1."""
    extents: list[tuple[Dim, str]] = []
    for name, operand in case.operation.operands.items():
        shape = shape_of(operand) if isinstance(operand, Tensor) else None
        for axis, extent in enumerate(shape or ()):
            if axis == len(extents):
                extents.append((extent, name))
            elif extents[axis][0] == 1:
                extents[axis] = (extent, name)
            elif extent != 1 and differ(extent, extents[axis][0]) and not may_be_one(extent, extents[axis][0]):
                other, first = extents[axis]
                message = f"shapes do not broadcast: axis {axis} is {extent} in '{name}', but {other} in '{first}'"
                remedy = "align shapes from the left, with equal extents or 1"
                yield case.error("NNEF0609", message, name, remedy)
                return
    yield from _grown(case)


def _grown(case: Case) -> Iterator[Diagnostic]:
    """Warn if a per-channel vector is aligned with a batch axis of 1 (broadcasting is aligned from the left)."""
    shapes = {name: shape_of(each) for name, each in case.operation.operands.items() if isinstance(each, Tensor)}
    vectors = [(name, shape[0]) for name, shape in shapes.items() if shape is not None and len(shape) == 1]
    for name, extent in vectors:
        for other, shape in shapes.items():
            if shape is not None and len(shape) > 1 and shape[0] == 1 and extent == shape[1] != 1:
                message = f"'{name}' {shown([extent])} aligns with the first axis of '{other}' {shown(shape)}"
                remedy = (
                    f"the result is {shown([extent, *shape[1:]])}; use shape [1,{extent}] for one value per channel"
                )
                yield case.warning("NNEF0633", message, name, remedy)
                return


def reshaping(case: Case) -> Iterator[Diagnostic]:
    """Check that a reshape keeps the number of elements."""
    items = case.integers_of("shape")
    if any(isinstance(item, int) and item < -1 for item in items):
        yield case.error("NNEF0610", f"'shape' {shown(items)} has an item below -1", "shape", _RESHAPE)
        return
    if items.count(-1) > 1:
        yield case.error("NNEF0610", f"'shape' {shown(items)} has more than one -1", "shape", _RESHAPE)
        return
    shape = case.shape("input")
    start, count = case.operation.attributes.get("axis_start", 0), case.operation.attributes.get("axis_count", -1)
    if shape is None or not isinstance(start, int) or not isinstance(count, int):
        return
    if not 0 <= start <= len(shape):
        yield case.error("NNEF0611", f"'axis_start' is {start}, but the rank is {len(shape)}", "axis_start")
    elif count < -1 or start + count > len(shape):
        yield case.error("NNEF0611", f"{count} axes from axis {start} exceed the rank {len(shape)}", "axis_count")
    else:
        yield from _reshaped(case, items, shape[start : len(shape) if count < 0 else start + count], start, shape)


_RESHAPE = "use extents, 0 to copy the input's extent, or at most one -1 for the remaining extent"


def _reshaped(case: Case, items: Shape, replaced: Shape, start: int, shape: Shape) -> Iterator[Diagnostic]:
    wanted: list[Dim] = []
    for index, item in enumerate(items):
        if item == 0:
            if start + index >= len(shape):
                message = f"item {index} of 'shape' copies axis {start + index}, but the rank is {len(shape)}"
                yield case.error("NNEF0610", message, "shape", _RESHAPE)
                return
            wanted.append(shape[start + index])
        elif item != -1:
            wanted.append(item)
    numbers = [*wanted, *replaced]
    if any(isinstance(number, Symbolic) for number in numbers):
        return
    volume, product = math.prod(map(static_dim, replaced)), math.prod(map(static_dim, wanted))
    fits = product != 0 and volume % product == 0 if -1 in items else volume == product
    if not fits:
        message = (
            f"the number of elements differs: {shown(replaced)} has {volume}, 'shape' {shown(items)} has {product}"
        )
        message += " and a multiple of it" if -1 in items else ""
        yield case.error("NNEF0612", message, "shape", "keep the number of elements")


def squeezing(case: Case) -> Iterator[Diagnostic]:
    """Check that only axes of size 1 are squeezed."""
    shape = case.shape("input")
    for axis in case.integers_of("axes"):
        if shape is not None and isinstance(axis, int) and 0 <= axis < len(shape) and differ(shape[axis], 1):
            message = f"cannot squeeze axis {axis} of {shown(shape)}: its extent is {shape[axis]}, expected 1"
            yield case.error("NNEF0613", message, "axes", "squeeze only axes of extent 1")


def unsqueezing(case: Case) -> Iterator[Diagnostic]:
    """Check that new axes are axes of the result, without repetition."""
    rank, axes = rank_of(case, "input"), case.integers_of("axes")
    yield from axes_repeated(case, "axes", axes)
    yield from axes_outside(case, "axes", axes, None if rank is None else rank + len(axes))


def is_permutation(case: Case) -> Iterator[Diagnostic]:
    """Check that the order is a permutation of all axes."""
    parameter = "axes" if case.is_final else "perm"
    axes, rank = case.integers_of(parameter), rank_of(case, "input")
    if sorted(axis for axis in axes if isinstance(axis, int)) != list(range(len(axes))):
        message = f"'{parameter}' {shown(axes)} is not a permutation"
        yield case.error("NNEF0614", message, parameter, f"write each axis from 0 to {len(axes) - 1} once")
    elif rank is not None and len(axes) > rank and case.is_final:
        yield case.error("NNEF0614", f"'{parameter}' has {len(axes)} items, but the rank is {rank}", parameter)


def splitting(case: Case) -> Iterator[Diagnostic]:
    """Check that the sum of the ratios divides the extent."""
    ratios, shape, axis = case.integers_of("ratios"), case.shape("value"), case.attribute("axis")
    total = sum(ratio for ratio in ratios if isinstance(ratio, int))
    if not ratios:
        yield case.error("NNEF0615", "'ratios' is empty", "ratios")
    elif shape is not None and isinstance(axis, int) and 0 <= axis < len(shape) and total > 0:
        extent = shape[axis]
        if isinstance(extent, int) and extent % total:
            message = f"the ratios {shown(ratios)} sum to {total}, which does not divide the extent {extent}"
            yield case.error("NNEF0615", message, "ratios", f"use ratios whose sum divides the extent of axis {axis}")


def joining(case: Case) -> Iterator[Diagnostic]:
    """Check concat and stack: all dims except that of the axis must be equal."""
    values, axis = [*tensors(case.operation.operands["values"])], case.attribute("axis")
    if not values:
        yield case.error(
            "NNEF0616", f"'{case.operation.name}' has an empty array of values", "values", "pass at least one value"
        )
    first = next((shape for shape in map(shape_of, values) if shape is not None), None)
    for position, value in enumerate(values):
        shape = shape_of(value)
        if shape is None or first is None:
            continue
        if len(shape) != len(first):
            message = f"value {position} has shape {shown(shape)}, but value 0 has {shown(first)}"
            yield case.error("NNEF0616", message, "values", "use tensors of equal rank")
            continue
        ignored = axis if case.operation.name == "concat" else None
        for at, (extent, other) in enumerate(zip(shape, first, strict=True)):
            if at != ignored and differ(extent, other):
                message = f"axis {at} is {extent} in value {position}, but {other} in value 0"
                yield case.error(
                    "NNEF0616", message, "values", f"use matching shapes: {shown(shape)} and {shown(first)} differ"
                )
                break


def slicing(case: Case) -> Iterator[Diagnostic]:
    """Check that a slice has one item per axis, and that each range runs in the direction of its stride."""
    lengths = {name: len(case.integers_of(name)) for name in ("axes", "begin", "end", "stride")}
    if not lengths["stride"]:
        del lengths["stride"]
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"'{name}' {count}" for name, count in lengths.items())
        yield case.error(
            "NNEF0617", f"array arguments of 'slice' differ in length: {found}", "axes", "write one item per axis"
        )
        return
    shape, axes = case.shape("input"), case.integers_of("axes")
    strides = case.integers_of("stride") or (1,) * len(axes)
    for axis, begin, end, stride in zip(axes, case.integers_of("begin"), case.integers_of("end"), strides, strict=True):
        if stride == 0:
            yield case.error("NNEF0617", f"the stride of axis {axis} is 0", "stride", "use a nonzero stride")
        elif shape is not None and isinstance(axis, int) and 0 <= axis < len(shape):
            yield from _sliced(case, axis, (begin, end, stride), shape[axis])


def _sliced(case: Case, axis: int, part: tuple[Dim, Dim, Dim], extent: Dim) -> Iterator[Diagnostic]:
    begin, end, stride = part
    if any(isinstance(number, Symbolic) for number in (*part, extent)):
        return
    if end == 0 and stride == 1:
        message = "'end = 0' for the end of an axis is deprecated since 1.0.4"
        yield case.warning("NNEF0618", message, "end", f"write {extent}")
        return
    length = static_dim(extent)
    first, last = (min(max(n + length if n < 0 else n, -1), length) for n in (static_dim(begin), static_dim(end)))
    if (last < first) if static_dim(stride) > 0 else (last > first):
        message = f"empty slice of axis {axis}: from {begin} to {end}, extent {extent}"
        yield case.error("NNEF0617", message, "end", "use an end after the begin in the direction of the stride")


def matrices_fit(case: Case) -> Iterator[Diagnostic]:
    """Check that matrices have equal ranks, equal inner extents, and batch axes that broadcast."""
    a, b = case.shape("A"), case.shape("B")
    if a is None or b is None:
        return
    if len(a) != len(b) or len(a) < 2 or (len(a) > 2 and not case.is_final):
        message = f"'A' {shown(a)} and 'B' {shown(b)} are not matrices of equal rank"
        yield case.error("NNEF0619", message, "B", "use equal ranks of at least 2")
        return
    flags = ("transposeA", "transposeB") if case.is_final else ("trA", "trB")
    inner = a[-2 if case.attribute(flags[0]) else -1], b[-1 if case.attribute(flags[1]) else -2]
    if differ(*inner):
        message = f"the inner extents of {shown(a)} and {shown(b)} differ: {inner[0]} and {inner[1]}"
        yield case.error("NNEF0619", message, "B", f"set '{flags[0]}' or '{flags[1]}' to transpose a matrix")
    for axis, (one, other) in enumerate(zip(a[:-2], b[:-2], strict=True)):
        if 1 not in (one, other) and differ(one, other) and not may_be_one(one, other):
            message = f"batch axis {axis} is {one} in 'A' and {other} in 'B'"
            yield case.error("NNEF0619", message, "B", "use equal extents, or 1")


def linear_fits(case: Case) -> Iterator[Diagnostic]:
    """Check that input, filter and bias of a linear layer have matching channels."""
    x, w, bias = case.shape("input"), case.shape("filter"), case.shape("bias")
    if x is not None and w is not None:
        if len(x) != len(w) or len(x) < 2:
            message = f"'input' {shown(x)} and 'filter' {shown(w)} are not matrices of equal rank"
            yield case.error("NNEF0619", message, "filter", "use equal ranks of at least 2")
            return
        if differ(x[-1], w[-1]):
            message = f"'input' {shown(x)} has {x[-1]} channels, but 'filter' {shown(w)} expects {w[-1]}"
            yield case.error("NNEF0619", message, "filter", "use equal last extents")
    if w is not None and bias is not None:
        yield from bias_fits(case, bias, w[0] if len(w) == 2 else w[-2])


def bias_fits(case: Case, bias: Shape, channels: Dim) -> Iterator[Diagnostic]:
    """Check that a bias has one element per channel, or one in total."""
    if not bias or all(extent == 1 for extent in bias):
        return
    if len(bias) == 1:
        if differ(bias[0], channels):
            message = f"the bias {shown(bias)} has {bias[0]} channels, expected {channels}"
            yield case.error("NNEF0620", message, "bias", f"write its shape as [1,{channels}]")
        else:
            message = f"the bias has the shape {shown(bias)}, expected a separate channel axis"
            yield case.warning("NNEF0621", message, "bias", f"write its shape as [1,{channels}]")
        return
    if bias[0] != 1 or any(extent != 1 for extent in bias[2:]) or (bias[1] != 1 and differ(bias[1], channels)):
        message = f"the bias has shape {shown(bias)}, expected {channels} channels"
        yield case.error("NNEF0620", message, "bias", f"use shape [1,{channels}] or a scalar")


def update_fits(case: Case) -> Iterator[Diagnostic]:
    """Check that an update has the shape of its variable."""
    variable, value = case.shape("variable"), case.shape("value")
    if variable is None or value is None:
        return
    if len(variable) != len(value) or any(map(differ, variable, value)):
        message = f"a variable of shape {shown(variable)} is updated by a value of shape {shown(value)}"
        yield case.error("NNEF0622", message, "value", "use equal shapes")
