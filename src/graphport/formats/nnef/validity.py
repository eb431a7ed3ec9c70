"""Which arguments an operation takes beyond their types: ranges, lengths, names, and shapes that fit together.

Rules see what is known of the operands' shapes and find only what is certainly wrong: an extent that is open, or an
operand of which nothing is known, passes. No rule computes the shape of a result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dims import Dim, Symbolic, decide_equal
from graphport.formats.nnef.operation import Operation, Tensor, tensors

if TYPE_CHECKING:
    from graphport.formats.nnef.operation import Attribute

Shape: TypeAlias = "tuple[Dim, ...]"

_BORDERS = ("constant", "replicate", "reflect", "reflect-even", "ignore")
_METHODS = ("symmetric", "asymmetric", "aligned")
_MOST_BITS = 64


def faults(operation: Operation, *, is_final: bool) -> Iterator[Diagnostic]:
    """What is wrong with the arguments of `operation`, whose operands' facts are as far as they are known."""
    case = Case(operation, is_final)
    for rule in _RULES.get(operation.name, ()):
        yield from rule(case)


@dataclass(frozen=True, slots=True)
class Case:
    """One operation under examination."""

    operation: Operation
    is_final: bool

    def attribute(self, name: str) -> Attribute:
        """The value of an attribute."""
        return self.operation.attributes[name]

    def numbers(self, name: str) -> Shape:
        """The value of an attribute that is an array of integers; empty where the operation has none."""
        value = self.operation.attributes.get(name, ())
        return cast("Shape", value) if isinstance(value, tuple) else ()

    def pairs(self, name: str) -> tuple[tuple[Dim, Dim], ...]:
        """The value of an attribute that is an array of pairs."""
        return cast("tuple[tuple[Dim, Dim], ...]", self.operation.attributes.get(name, ()))

    def shape(self, name: str) -> Shape | None:
        """The shape of an operand; `None` if its rank is not known."""
        operand = self.operation.operands[name]
        return shape_of(operand) if isinstance(operand, Tensor) else None

    def error(self, code: str, message: str, parameter: str | None = None, help: str | None = None) -> Diagnostic:
        """An error at the argument for `parameter`."""
        return self._finding(code, message, parameter, help, Severity.ERROR)

    def warning(self, code: str, message: str, parameter: str | None = None, help: str | None = None) -> Diagnostic:
        """A warning at the argument for `parameter`."""
        return self._finding(code, message, parameter, help, Severity.WARNING)

    def _finding(
        self, code: str, message: str, parameter: str | None, help: str | None, severity: Severity
    ) -> Diagnostic:
        remedy = "; ".join(part for part in (help, self.operation.origin.route()) if part)
        return Diagnostic(code, message, self.operation.place(parameter), remedy or None, severity)


Rule: TypeAlias = Callable[[Case], Iterator[Diagnostic]]


def shape_of(tensor: Tensor) -> Shape | None:
    """The shape of a tensor as far as it is known; that of a literal is empty."""
    if tensor.literal is not None:
        return ()
    return None if tensor.fact is None else tensor.fact.shape


def shown(shape: Sequence[Dim]) -> str:
    """A shape as a document writes it."""
    return f"[{','.join(map(str, shape))}]"


def differ(a: Dim, b: Dim) -> bool:
    """Whether two extents are certainly not the same."""
    return a != b if isinstance(a, int) and isinstance(b, int) else decide_equal(a, b) is False


def _number(dim: Dim) -> int:
    if isinstance(dim, Symbolic):
        raise TypeError(dim)
    return dim


def _rank(case: Case, name: str) -> int | None:
    shape = case.shape(name)
    return None if shape is None else len(shape)


# ── sources ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _positive_shape(case: Case) -> Iterator[Diagnostic]:
    least = 0 if case.operation.name == "external" and not case.is_final else 1
    for axis, extent in enumerate(case.numbers("shape")):
        if isinstance(extent, int) and extent < least:
            message = f"axis {axis} of '{case.operation.name}' has the extent {extent}"
            remedy = "extents are positive" if least else "extents are positive, or 0 where they are left open"
            yield case.error("NNEF0601", message, "shape", remedy)


def _value_count(case: Case) -> Iterator[Diagnostic]:
    shape, count = case.numbers("shape"), len(case.numbers("value"))
    volume = math.prod(extent for extent in shape if isinstance(extent, int))
    if count not in (1, volume) and not any(isinstance(extent, Symbolic) or extent < 1 for extent in shape):
        message = f"{count} values are given for a constant of shape {shown(shape)}"
        yield case.error("NNEF0602", message, "value", f"give {volume} values, or one for all")


# ── names and numbers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _one_of(parameter: str, names: Sequence[str], code: str) -> Rule:
    def rule(case: Case) -> Iterator[Diagnostic]:
        value = case.attribute(parameter)
        if value not in names:
            message = f"'{parameter}' of '{case.operation.name}' is '{value}'"
            yield case.error(code, message, parameter, f"it is one of {', '.join(names)}")

    return rule


def _border(*names: str) -> Rule:
    return _one_of("border", names, "NNEF0603")


def _method(parameter: str = "method") -> Rule:
    return _one_of(parameter, _METHODS, "NNEF0604")


def _positive(*parameters: str) -> Rule:
    def rule(case: Case) -> Iterator[Diagnostic]:
        for parameter in parameters:
            for number in case.numbers(parameter):
                if isinstance(number, int) and number < 1:
                    message = f"'{parameter}' of '{case.operation.name}' contains {number}"
                    yield case.error("NNEF0605", message, parameter, "its items are positive")

    return rule


def _paddings(case: Case) -> Iterator[Diagnostic]:
    """The provisional edition has no negative paddings."""
    if case.is_final:
        return
    for before, after in case.pairs("padding"):
        if any(isinstance(end, int) and end < 0 for end in (before, after)):
            message = f"'padding' of '{case.operation.name}' contains ({before},{after})"
            yield case.error("NNEF0605", message, "padding", "its items are 0 or more")


def _bits(case: Case) -> Iterator[Diagnostic]:
    bits = case.attribute("bits")
    if isinstance(bits, int) and not 1 <= bits <= _MOST_BITS:
        yield case.error("NNEF0605", f"{bits} bits are not between 1 and {_MOST_BITS}", "bits")


def _superseded(case: Case) -> Iterator[Diagnostic]:
    if case.is_final:
        message = "'linear_quantize' is deprecated since 1.0.3"
        remedy = "write min_max_linear_quantize(…, signed = false, symmetric = false)"
        yield case.warning("NNEF0631", message, None, remedy)


def _times(case: Case) -> Iterator[Diagnostic]:
    times = case.attribute("times")
    if isinstance(times, int) and times < 1:
        yield case.error("NNEF0605", f"'times' of 'copy_n' is {times}", "times", "it is positive")


def _lengths(operand: str, *parameters: str, skipped: int = 0, may_be_empty: bool = True) -> Rule:
    """Arrays of one entry for each axis of `operand` after the first `skipped`, or empty ones."""

    def rule(case: Case) -> Iterator[Diagnostic]:
        rank = _rank(case, operand)
        if rank is None:
            return
        for parameter in (each for each in parameters if each in case.operation.attributes):
            length, wanted = len(case.numbers(parameter)), max(rank - skipped, 0)
            # In the provisional edition a short array is filled up.
            if length == wanted or (length < wanted and not case.is_final) or (not length and may_be_empty):
                continue
            axes = "spatial axis" if skipped else "axis"
            message = f"'{parameter}' of '{case.operation.name}' has {length} items, '{operand}' has rank {rank}"
            yield case.error("NNEF0606", message, parameter, f"one item for each {axes}: {wanted}")

    return rule


# ── axes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _axes(operand: str, parameter: str = "axes") -> Rule:
    def rule(case: Case) -> Iterator[Diagnostic]:
        axes = case.numbers(parameter)
        yield from _repeated(case, parameter, axes)
        # The provisional edition takes axes beyond the rank as singular ones.
        yield from _outside(case, parameter, axes, _rank(case, operand) if case.is_final else None)

    return rule


def _repeated(case: Case, parameter: str, axes: Shape) -> Iterator[Diagnostic]:
    for axis, count in Counter(axes).items():
        if count > 1:
            message = f"axis {axis} stands {count} times in '{parameter}' of '{case.operation.name}'"
            yield case.error("NNEF0607", message, parameter, "name every axis once")


def _outside(case: Case, parameter: str, axes: Sequence[Dim], rank: int | None) -> Iterator[Diagnostic]:
    for axis in axes:
        if isinstance(axis, int) and (axis < 0 or (rank is not None and axis >= rank)):
            limit = "" if rank is None else f" of a tensor of rank {rank}"
            remedy = "axes are counted from 0" + ("" if not rank else f" to {rank - 1}")
            message = f"'{parameter}' of '{case.operation.name}' names axis {axis}{limit}"
            yield case.error("NNEF0608", message, parameter, remedy)


def _axis(operand: str, *, more: int = 0) -> Rule:
    """One axis of `operand`, which is an operand or an array of operands; `more` where it is one of the result."""

    def rule(case: Case) -> Iterator[Diagnostic]:
        first = next(tensors(case.operation.operands[operand]), None)
        shape = None if first is None else shape_of(first)
        rank = None if shape is None else len(shape) + more
        axis = case.attribute("axis")
        if isinstance(axis, int):
            yield from _outside(case, "axis", (axis,), rank)

    return rule


# ── shapes that fit ───────────────────────────────────────────────────────────────────────────────────────────────────


def _broadcast(case: Case) -> Iterator[Diagnostic]:
    """Operands align from the left; each extent is that of the others, or 1."""
    extents: list[tuple[Dim, str]] = []
    for name, operand in case.operation.operands.items():
        shape = shape_of(operand) if isinstance(operand, Tensor) else None
        for axis, extent in enumerate(shape or ()):
            if axis == len(extents):
                extents.append((extent, name))
            elif extents[axis][0] == 1:
                extents[axis] = (extent, name)
            elif extent != 1 and differ(extent, extents[axis][0]) and not _may_be_one(extent, extents[axis][0]):
                other, first = extents[axis]
                message = f"axis {axis} of '{name}' is {extent}, that of '{first}' is {other}"
                remedy = "shapes align from the left; extents are equal, or one of them is 1"
                yield case.error("NNEF0609", message, name, remedy)
                return


def _may_be_one(*extents: Dim) -> bool:
    return any(isinstance(extent, Symbolic) and decide_equal(extent, 1) is not False for extent in extents)


def _reshape(case: Case) -> Iterator[Diagnostic]:
    items = case.numbers("shape")
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
        yield case.error("NNEF0611", f"'axis_start' is {start}, the rank is {len(shape)}", "axis_start")
    elif count < -1 or start + count > len(shape):
        yield case.error("NNEF0611", f"{count} axes from {start} on, the rank is {len(shape)}", "axis_count")
    else:
        yield from _reshaped(case, items, shape[start : len(shape) if count < 0 else start + count], start, shape)


_RESHAPE = "items are extents, 0 for the input's own, or once -1 for what remains"


def _reshaped(case: Case, items: Shape, replaced: Shape, start: int, shape: Shape) -> Iterator[Diagnostic]:
    wanted: list[Dim] = []
    for index, item in enumerate(items):
        if item == 0:
            if start + index >= len(shape):
                message = f"item {index} of 'shape' inherits axis {start + index}, the rank is {len(shape)}"
                yield case.error("NNEF0610", message, "shape", _RESHAPE)
                return
            wanted.append(shape[start + index])
        elif item != -1:
            wanted.append(item)
    numbers = [*wanted, *replaced]
    if any(isinstance(number, Symbolic) for number in numbers):
        return
    volume, product = math.prod(map(_number, replaced)), math.prod(map(_number, wanted))
    fits = product != 0 and volume % product == 0 if -1 in items else volume == product
    if not fits:
        message = f"{shown(replaced)} has {volume} items, 'shape' {shown(items)} asks for {product}"
        message += " and a multiple of it" if -1 in items else ""
        yield case.error("NNEF0612", message, "shape", "both have the same number of items")


def _squeezed(case: Case) -> Iterator[Diagnostic]:
    shape = case.shape("input")
    for axis in case.numbers("axes"):
        if shape is not None and isinstance(axis, int) and 0 <= axis < len(shape) and differ(shape[axis], 1):
            message = f"axis {axis} of {shown(shape)} has the extent {shape[axis]} and cannot be squeezed"
            yield case.error("NNEF0613", message, "axes", "only extents of 1 can")


def _unsqueezed(case: Case) -> Iterator[Diagnostic]:
    rank, axes = _rank(case, "input"), case.numbers("axes")
    yield from _repeated(case, "axes", axes)
    yield from _outside(case, "axes", axes, None if rank is None else rank + len(axes))


def _permutation(case: Case) -> Iterator[Diagnostic]:
    parameter = "axes" if case.is_final else "perm"
    axes, rank = case.numbers(parameter), _rank(case, "input")
    if sorted(axis for axis in axes if isinstance(axis, int)) != list(range(len(axes))):
        message = f"'{parameter}' {shown(axes)} is no permutation"
        yield case.error("NNEF0614", message, parameter, f"each of 0 to {len(axes) - 1} stands once in it")
    elif rank is not None and len(axes) > rank and case.is_final:
        yield case.error("NNEF0614", f"'{parameter}' has {len(axes)} items, the rank is {rank}", parameter)


def _split(case: Case) -> Iterator[Diagnostic]:
    ratios, shape, axis = case.numbers("ratios"), case.shape("value"), case.attribute("axis")
    total = sum(ratio for ratio in ratios if isinstance(ratio, int))
    if not ratios:
        yield case.error("NNEF0615", "there are no ratios to split by", "ratios")
    elif shape is not None and isinstance(axis, int) and 0 <= axis < len(shape) and total > 0:
        extent = shape[axis]
        if isinstance(extent, int) and extent % total:
            message = f"the ratios {shown(ratios)} sum up to {total}, which does not divide the extent {extent}"
            yield case.error("NNEF0615", message, "ratios", f"axis {axis} is split in parts of these ratios")


def _joined(case: Case) -> Iterator[Diagnostic]:
    """Values that are put side by side along an axis, or on top of each other."""
    values, axis = [*tensors(case.operation.operands["values"])], case.attribute("axis")
    if not values:
        yield case.error("NNEF0616", f"'{case.operation.name}' has no values", "values", "give at least one")
    first = next((shape for shape in map(shape_of, values) if shape is not None), None)
    for position, value in enumerate(values):
        shape = shape_of(value)
        if shape is None or first is None:
            continue
        if len(shape) != len(first):
            message = f"value {position} has the shape {shown(shape)}, another has {shown(first)}"
            yield case.error("NNEF0616", message, "values", "their ranks are equal")
            continue
        ignored = axis if case.operation.name == "concat" else None
        for at, (extent, other) in enumerate(zip(shape, first, strict=True)):
            if at != ignored and differ(extent, other):
                message = f"axis {at} of value {position} is {extent}, that of another is {other}"
                yield case.error("NNEF0616", message, "values", f"shapes {shown(shape)} and {shown(first)} do not fit")
                break


def _slice(case: Case) -> Iterator[Diagnostic]:
    lengths = {name: len(case.numbers(name)) for name in ("axes", "begin", "end", "stride")}
    if not lengths["stride"]:
        del lengths["stride"]
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"'{name}' {count}" for name, count in lengths.items())
        yield case.error(
            "NNEF0617", f"the arrays of 'slice' differ in length: {found}", "axes", "one item for each axis"
        )
        return
    shape, axes = case.shape("input"), case.numbers("axes")
    strides = case.numbers("stride") or (1,) * len(axes)
    for axis, begin, end, stride in zip(axes, case.numbers("begin"), case.numbers("end"), strides, strict=True):
        if stride == 0:
            yield case.error("NNEF0617", f"the stride of axis {axis} is 0", "stride", "1 takes every item")
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
    length = _number(extent)
    first, last = (min(max(n + length if n < 0 else n, -1), length) for n in (_number(begin), _number(end)))
    if (last < first) if _number(stride) > 0 else (last > first):
        message = f"the slice of axis {axis} begins at {begin} and ends at {end} of {extent}"
        yield case.error("NNEF0617", message, "end", "it runs in the direction of its stride")


def _matrices(case: Case) -> Iterator[Diagnostic]:
    a, b = case.shape("A"), case.shape("B")
    if a is None or b is None:
        return
    if len(a) != len(b) or len(a) < 2 or (len(a) > 2 and not case.is_final):
        message = f"'A' {shown(a)} and 'B' {shown(b)} are no matrices of one rank"
        yield case.error("NNEF0619", message, "B", "both have the same rank, at least 2")
        return
    turned = ("transposeA", "transposeB") if case.is_final else ("trA", "trB")
    inner = a[-2 if case.attribute(turned[0]) else -1], b[-1 if case.attribute(turned[1]) else -2]
    if differ(*inner):
        message = f"the inner extents of {shown(a)} and {shown(b)} are {inner[0]} and {inner[1]}"
        yield case.error("NNEF0619", message, "B", f"'{turned[0]}' and '{turned[1]}' turn the matrices")
    for axis, (one, other) in enumerate(zip(a[:-2], b[:-2], strict=True)):
        if 1 not in (one, other) and differ(one, other) and not _may_be_one(one, other):
            message = f"batch axis {axis} is {one} in 'A' and {other} in 'B'"
            yield case.error("NNEF0619", message, "B", "they are equal, or one of them is 1")


def _linear(case: Case) -> Iterator[Diagnostic]:
    x, w, bias = case.shape("input"), case.shape("filter"), case.shape("bias")
    if x is not None and w is not None:
        if len(x) != len(w) or len(x) < 2:
            message = f"'input' {shown(x)} and 'filter' {shown(w)} are no matrices of one rank"
            yield case.error("NNEF0619", message, "filter", "both have the same rank, at least 2")
            return
        if differ(x[-1], w[-1]):
            message = f"'input' {shown(x)} has {x[-1]} channels, 'filter' {shown(w)} takes {w[-1]}"
            yield case.error("NNEF0619", message, "filter", "the last extents are equal")
    if w is not None and bias is not None:
        yield from _bias(case, bias, w[0] if len(w) == 2 else w[-2])


def _bias(case: Case, bias: Shape, channels: Dim) -> Iterator[Diagnostic]:
    if not bias or all(extent == 1 for extent in bias):
        return
    if len(bias) == 1:
        if differ(bias[0], channels):
            message = f"the bias {shown(bias)} is for {bias[0]} channels, there are {channels}"
            yield case.error("NNEF0620", message, "bias", f"write its shape as [1,{channels}]")
        else:
            message = f"the bias has the shape {shown(bias)}, in which the channel is no axis of its own"
            yield case.warning("NNEF0621", message, "bias", f"write its shape as [1,{channels}]")
        return
    if bias[0] != 1 or any(extent != 1 for extent in bias[2:]) or (bias[1] != 1 and differ(bias[1], channels)):
        message = f"the bias has the shape {shown(bias)}, there are {channels} channels"
        yield case.error("NNEF0620", message, "bias", f"it is [1,{channels}], or singular")


def _update(case: Case) -> Iterator[Diagnostic]:
    variable, value = case.shape("variable"), case.shape("value")
    if variable is None or value is None:
        return
    if len(variable) != len(value) or any(map(differ, variable, value)):
        message = f"a variable of shape {shown(variable)} is updated by {shown(value)}"
        yield case.error("NNEF0622", message, "value", "their shapes are equal")


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filled(case: Case, name: str, length: int) -> Shape:
    """An array attribute with one item for each of `length` axes: what is not given is 1."""
    numbers = case.numbers(name)[:length]
    return numbers + (1,) * (length - len(numbers))


def _fits(case: Case, extents: Shape, sizes: Shape, padding: tuple[tuple[Dim, Dim], ...]) -> Iterator[Diagnostic]:
    """A window that its padded input is too small for."""
    dilations = _filled(case, "dilation", len(extents))
    for axis, (extent, size, dilation) in enumerate(zip(extents, sizes, dilations, strict=False)):
        if axis >= len(padding):
            return
        numbers = (extent, size, dilation, *padding[axis])
        if not all(isinstance(number, int) for number in numbers):
            continue
        x, n, d, before, after = cast("tuple[int, int, int, int, int]", numbers)
        reach = (n - 1) * d + 1
        if before + x + after < reach:
            message = f"a window that reaches over {reach} does not fit in {before} + {x} + {after}"
            yield case.error("NNEF0623", message, "padding", "enlarge the padding, or make the window smaller")


def _pooled(case: Case) -> Iterator[Diagnostic]:
    shape = case.shape("input")
    if shape is not None:
        yield from _fits(case, shape, _filled(case, "size", len(shape)), case.pairs("padding"))


def _indexed(case: Case) -> Iterator[Diagnostic]:
    shape, index = case.shape("input"), case.shape("index")
    if shape is None or index is None:
        return
    if len(shape) != len(index) or (case.operation.name == "desample" and any(map(differ, shape, index))):
        message = f"'index' has the shape {shown(index)}, 'input' has {shown(shape)}"
        wanted = "that of the input" if case.operation.name == "desample" else "of the input's rank"
        yield case.error("NNEF0624", message, "index", f"its shape is {wanted}")


def _convolved(case: Case) -> Iterator[Diagnostic]:
    x, f = case.shape("input"), case.shape("filter")
    if x is None or f is None or (yield from _unequal_ranks(case, "filter", x, f)):
        return
    is_reverse = case.operation.name.endswith("deconv")
    groups = case.operation.attributes.get("groups", 0)
    if not isinstance(groups, int) or (yield from _bad_groups(case, groups, f[0])):
        return
    count = groups or x[1]
    if is_reverse:
        if differ(f[0], x[1]):
            message = f"a filter of shape {shown(f)} takes {f[0]} channels, 'input' {shown(x)} has {x[1]}"
            yield case.error("NNEF0626", message, "filter", "the filter's batch is the number of input channels")
    else:
        yield from _channels(case, "filter", x, f, groups)
    bias = case.shape("bias")
    if bias is not None:
        yield from _bias(case, bias, f[1] * count if is_reverse else f[0])
    if not is_reverse:
        yield from _fits(case, x[2:], f[2:], case.pairs("padding"))
    else:
        yield from _output_shape(case, x, f, f[1] * count)


def _unequal_ranks(case: Case, name: str, x: Shape, f: Shape) -> Iterator[Diagnostic]:
    """A filter of another rank than its input; the generator returns whether there was one."""
    is_wrong = len(x) != len(f) or len(x) < 3
    if is_wrong:
        message = f"'{name}' has the shape {shown(f)}, 'input' has {shown(x)}"
        yield case.error("NNEF0625", message, name, "both are batch, channel, and the same spatial axes")
    return is_wrong


def _bad_groups(case: Case, groups: int, batch: Dim) -> Iterator[Diagnostic]:
    least = 0 if case.is_final else 1
    is_wrong = "groups" in case.operation.attributes and groups < least
    if is_wrong:
        yield case.error("NNEF0627", f"'groups' is {groups}", "groups", f"it is at least {least}")
    elif groups > 1 and isinstance(batch, int) and batch % groups:
        is_wrong = True
        message = f"{batch} filters are not {groups} groups of one size"
        yield case.error("NNEF0627", message, "groups", "it divides the filter's batch")
    return is_wrong


def _channels(case: Case, name: str, x: Shape, f: Shape, groups: int) -> Iterator[Diagnostic]:
    """Filters of a convolution take their group's channels; depth-wise (`groups` 0) one each."""
    if groups:
        if differ(f[1] * groups, x[1]):
            message = f"{groups} groups of {f[1]} channels are not the {x[1]} of 'input'"
            yield case.error("NNEF0626", message, name, f"'{name}' has the shape {shown(f)}, 'input' {shown(x)}")
    elif differ(f[1], 1):
        message = f"a depth-wise filter of shape {shown(f)} takes {f[1]} channels"
        yield case.error("NNEF0626", message, name, "its second extent is 1")
    elif isinstance(f[0], int) and isinstance(x[1], int) and f[0] % x[1]:
        message = f"{f[0]} depth-wise filters are no multiple of the {x[1]} channels of 'input'"
        yield case.error("NNEF0626", message, name, f"'{name}' has the shape {shown(f)}, 'input' {shown(x)}")


def _separable(case: Case) -> Iterator[Diagnostic]:
    x, plane, point = case.shape("input"), case.shape("plane_filter"), case.shape("point_filter")
    groups = case.attribute("groups")
    if x is None or plane is None or point is None or not isinstance(groups, int):
        return
    if (yield from _unequal_ranks(case, "plane_filter", x, plane)):
        return
    if (yield from _unequal_ranks(case, "point_filter", x, point)):
        return
    if any(differ(extent, 1) for extent in point[2:]):
        message = f"'point_filter' has the shape {shown(point)}"
        yield case.error("NNEF0625", message, "point_filter", "its spatial extents are 1")
    is_reverse = case.operation.name == "separable_deconv"
    inner = (point[1] * (groups or x[1]) if is_reverse else plane[0], "plane_filter" if is_reverse else "point_filter")
    taken = plane[0] if is_reverse else point[1] * (groups or plane[0])
    if differ(plane[1], 1):
        message = f"'plane_filter' of shape {shown(plane)} takes {plane[1]} channels"
        yield case.error("NNEF0626", message, "plane_filter", "it is depth-wise: its second extent is 1")
    elif differ(inner[0], taken):
        message = f"{inner[0]} channels lie between the filters, and '{inner[1]}' takes {taken}"
        yield case.error("NNEF0626", message, inner[1], f"the filters are {shown(plane)} and {shown(point)}")
    bias = case.shape("bias")
    if bias is not None:
        yield from _bias(case, bias, plane[0] if is_reverse else point[0])


def _output_shape(case: Case, x: Shape, f: Shape, channels: Dim) -> Iterator[Diagnostic]:
    """The extents that a reverse operation is asked for must come down to its input again."""
    wanted = case.numbers("output_shape")
    if not wanted:
        return
    if len(wanted) != len(x) or differ(wanted[0], x[0]) or differ(wanted[1], channels):
        message = f"'output_shape' is {shown(wanted)}, batch and channels are {x[0]} and {channels}"
        yield case.error("NNEF0628", message, "output_shape", "it is the whole shape of the result")
        return
    yield from _scales_down(case, wanted[2:], x[2:], f[2:])


def _unpooled(case: Case) -> Iterator[Diagnostic]:
    shape, wanted = case.shape("input"), case.numbers("output_shape")
    if shape is None or not wanted:
        return
    if len(wanted) != len(shape):
        message = f"'output_shape' is {shown(wanted)}, the rank is {len(shape)}"
        yield case.error("NNEF0628", message, "output_shape", "it is the whole shape of the result")
        return
    yield from _scales_down(case, wanted, shape, _filled(case, "size", len(shape)))


def _scales_down(case: Case, wanted: Shape, extents: Shape, sizes: Shape) -> Iterator[Diagnostic]:
    padding = case.pairs("padding")
    strides, dilations = _filled(case, "stride", len(wanted)), _filled(case, "dilation", len(wanted))
    for axis, numbers in enumerate(zip(wanted, extents, sizes, strides, dilations, strict=True)):
        ends = padding[axis] if axis < len(padding) else (0, 0)
        if not all(isinstance(number, int) for number in (*numbers, *ends)):
            continue
        up, down, size, stride, dilation = cast("tuple[int, int, int, int, int]", numbers)
        if stride < 1:
            continue
        if padding:
            reached = (up + sum(cast("tuple[int, int]", ends)) - (size - 1) * dilation - 1) // stride + 1
        else:
            reached = -(-up // stride)
        if reached != down:
            message = f"an output of {up} comes down to {reached} with stride {stride}, not to the input's {down}"
            yield case.error("NNEF0628", message, "output_shape", f"its extents are {shown(wanted)}")


# ── sampling, pooling of regions ──────────────────────────────────────────────────────────────────────────────────────


def _divides(case: Case) -> Iterator[Diagnostic]:
    shape = case.shape("input") or ()
    for axis, (extent, factor) in enumerate(zip(shape[2:], case.numbers("factor"), strict=False)):
        if isinstance(extent, int) and isinstance(factor, int) and factor > 0 and extent % factor:
            message = f"the factor {factor} does not divide the extent {extent} of axis {axis + 2}"
            yield case.error("NNEF0629", message, "factor", "only whole blocks are sampled down")


def _regions(case: Case) -> Iterator[Diagnostic]:
    shape, rois, index = case.shape("input"), case.shape("rois"), case.shape("batch_index")
    if shape is not None and rois is not None:
        width = 2 * (len(shape) - 2)
        if len(rois) != 2 or differ(rois[1], width):
            message = f"'rois' has the shape {shown(rois)}"
            yield case.error("NNEF0630", message, "rois", f"a row for each region, of {width} coordinates")
    if index is not None and (len(index) not in (1, 2) or any(differ(extent, 1) for extent in index[1:])):
        yield case.error(
            "NNEF0630", f"'batch_index' has the shape {shown(index)}", "batch_index", "one for each region"
        )
    elif index and rois and differ(index[0], rois[0]):
        message = f"{rois[0]} regions have {index[0]} batch indices"
        yield case.error("NNEF0630", message, "batch_index", "one for each region")


def _summed(case: Case) -> Iterator[Diagnostic]:
    if next(case.operation.inputs(), None) is None:
        yield case.error("NNEF0616", "'add_n' has no values", "x", "give at least one")


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_WINDOW = ("padding", "stride", "dilation")
_POSITIVE_WINDOW = _positive("size", "stride", "dilation")
_POOL: tuple[Rule, ...] = (
    _border(*_BORDERS),
    _POSITIVE_WINDOW,
    _paddings,
    _lengths("input", "size", may_be_empty=False),
    _lengths("input", *_WINDOW),
    _pooled,
)
_UNPOOL: tuple[Rule, ...] = (
    _POSITIVE_WINDOW,
    _paddings,
    _positive("output_shape"),
    _lengths("input", "size", may_be_empty=False),
    _lengths("input", *_WINDOW),
    _unpooled,
)
_CONVOLUTION: tuple[Rule, ...] = (
    _border("constant", "replicate", "reflect", "reflect-even"),
    _positive("stride", "dilation", "output_shape"),
    _paddings,
    _lengths("input", *_WINDOW, skipped=2),
)
_FACTOR: tuple[Rule, ...] = (_positive("factor"), _lengths("input", "factor", skipped=2, may_be_empty=False))
_REDUCE: tuple[Rule, ...] = (_axes("input"),)
_NORMALIZE: tuple[Rule, ...] = (_positive("size"), _lengths("input", "size", may_be_empty=False))
_REGIONS: tuple[Rule, ...] = (
    _positive("output_size", "sampling_rate"),
    _lengths("input", "output_size", "sampling_rate", skipped=2, may_be_empty=False),
    _regions,
)
_ELEMENTWISE: tuple[Rule, ...] = (_broadcast,)
_BINARY = (
    *("add", "sub", "mul", "div", "pow", "lt", "gt", "le", "ge", "eq", "ne", "and", "or", "min", "max"),
    *("select", "clamp", "prelu", "batch_normalization"),
)

_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("external", "variable"), (_positive_shape,)),
    "constant": (_positive_shape, _value_count),
    **dict.fromkeys(_BINARY, _ELEMENTWISE),
    **dict.fromkeys(("conv", "deconv", "planewise_conv", "planewise_deconv"), (*_CONVOLUTION, _convolved)),
    **dict.fromkeys(("separable_conv", "separable_deconv"), (*_CONVOLUTION, _separable)),
    **dict.fromkeys(("box", "max_pool", "avg_pool", "rms_pool", "argmax_pool", "max_pool_with_index"), _POOL),
    "sample": (*_POOL, _indexed),
    "debox": (_border(*_BORDERS), *_UNPOOL),
    "desample": (_border("constant"), *_UNPOOL, _indexed),
    **dict.fromkeys(("nearest_downsample", "area_downsample"), (*_FACTOR, _divides)),
    "nearest_upsample": _FACTOR,
    "multilinear_upsample": (*_FACTOR, _method(), _border("constant", "replicate", "reflect", "reflect-even")),
    **dict.fromkeys(
        ("sum_reduce", "max_reduce", "min_reduce", "mean_reduce", "argmax_reduce", "argmin_reduce", "all_reduce"),
        _REDUCE,
    ),
    **dict.fromkeys(("any_reduce", "moments", "l1_normalization", "l2_normalization"), _REDUCE),
    "softmax": (_axes("x"),),
    "reshape": (_reshape,),
    "squeeze": (_axes("input"), _squeezed),
    "unsqueeze": (_unsqueezed,),
    "transpose": (_permutation,),
    "split": (_axis("value"), _positive("ratios"), _split),
    "concat": (_axis("values"), _joined),
    "stack": (_axis("values", more=1), _joined),
    "unstack": (_axis("value"),),
    "slice": (_axes("input"), _slice),
    "pad": (
        _border("constant", "replicate", "reflect", "reflect-even"),
        _lengths("input", "padding", may_be_empty=False),
    ),
    "tile": (_positive("repeats"), _lengths("input", "repeats", may_be_empty=False)),
    "gather": (_axis("input"),),
    **dict.fromkeys(("avg_roi_pool", "max_roi_pool"), _REGIONS),
    "roi_resample": (
        _method(),
        *_REGIONS[:1],
        _lengths("input", "output_size", skipped=2, may_be_empty=False),
        _regions,
    ),
    **dict.fromkeys(("avg_roi_align", "max_roi_align"), (_method("resize_method"), *_REGIONS)),
    "matmul": (_matrices,),
    "linear": (_linear,),
    "update": (_update,),
    **dict.fromkeys(
        (
            *("local_response_normalization", "local_mean_normalization"),
            *("local_variance_normalization", "local_contrast_normalization"),
        ),
        _NORMALIZE,
    ),
    **dict.fromkeys(
        ("min_max_linear_quantize", "zero_point_linear_quantize", "logarithmic_quantize"), (_bits, _broadcast)
    ),
    "linear_quantize": (_superseded, _bits, _broadcast),
    "copy_n": (_times,),
    "add_n": (_summed,),
}
"""The rules of each operation; where an operation has parameters that another lacks, rules pass over them."""
