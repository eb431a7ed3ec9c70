"""Rules on what slides a window over a tensor, and on what samples it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.formats.nnef.container.validity.case import Case, Shape, differ, shown
from graphport.formats.nnef.container.validity.shapes import bias_fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.dims import Dim


def _with_ones(case: Case, name: str, length: int) -> Shape:
    """Return an array attribute with one item for each of `length` axes; missing items are 1."""
    numbers = case.integers_of(name)[:length]
    return numbers + (1,) * (length - len(numbers))


def _check_window_size(
    case: Case, extents: Shape, sizes: Shape, padding: tuple[tuple[Dim, Dim], ...]
) -> Iterator[Diagnostic]:
    """A window that its padded input is too small for."""
    dilations = _with_ones(case, "dilation", len(extents))
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


def pooling(case: Case) -> Iterator[Diagnostic]:
    """The window of a pooling fits into its padded input."""
    shape = case.shape("input")
    if shape is not None:
        yield from _check_window_size(case, shape, _with_ones(case, "size", len(shape)), case.pairs("padding"))


def indexing(case: Case) -> Iterator[Diagnostic]:
    """Check that indices have the shape, or the rank, of the indexed tensor."""
    shape, index = case.shape("input"), case.shape("index")
    if shape is None or index is None:
        return
    if len(shape) != len(index) or (case.operation.name == "desample" and any(map(differ, shape, index))):
        message = f"'index' has the shape {shown(index)}, 'input' has {shown(shape)}"
        wanted = "that of the input" if case.operation.name == "desample" else "of the input's rank"
        yield case.error("NNEF0624", message, "index", f"its shape is {wanted}")


def convolving(case: Case) -> Iterator[Diagnostic]:
    """Input, filter, bias, groups and padding of a convolution agree."""
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
        yield from bias_fits(case, bias, f[1] * count if is_reverse else f[0])
    if not is_reverse:
        yield from _check_window_size(case, x[2:], f[2:], case.pairs("padding"))
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


def separable_convolution(case: Case) -> Iterator[Diagnostic]:
    """The two filters of a separable convolution agree with its input, its bias and each other."""
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
        yield from bias_fits(case, bias, plane[0] if is_reverse else point[0])


def _output_shape(case: Case, x: Shape, f: Shape, channels: Dim) -> Iterator[Diagnostic]:
    """Check that the output shape of a reverse operation corresponds to its input."""
    wanted = case.integers_of("output_shape")
    if not wanted:
        return
    if len(wanted) != len(x) or differ(wanted[0], x[0]) or differ(wanted[1], channels):
        message = f"'output_shape' is {shown(wanted)}, batch and channels are {x[0]} and {channels}"
        yield case.error("NNEF0628", message, "output_shape", "it is the whole shape of the result")
        return
    yield from _scales_down(case, wanted[2:], x[2:], f[2:])


def unpooling(case: Case) -> Iterator[Diagnostic]:
    """Check that the output shape of an unpooling corresponds to its input."""
    shape, wanted = case.shape("input"), case.integers_of("output_shape")
    if shape is None or not wanted:
        return
    if len(wanted) != len(shape):
        message = f"'output_shape' is {shown(wanted)}, the rank is {len(shape)}"
        yield case.error("NNEF0628", message, "output_shape", "it is the whole shape of the result")
        return
    yield from _scales_down(case, wanted, shape, _with_ones(case, "size", len(shape)))


def _scales_down(case: Case, wanted: Shape, extents: Shape, sizes: Shape) -> Iterator[Diagnostic]:
    padding = case.pairs("padding")
    strides, dilations = _with_ones(case, "stride", len(wanted)), _with_ones(case, "dilation", len(wanted))
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


def factors_divide(case: Case) -> Iterator[Diagnostic]:
    """Factors of sampling down divide the spatial extents."""
    shape = case.shape("input") or ()
    for axis, (extent, factor) in enumerate(zip(shape[2:], case.integers_of("factor"), strict=False)):
        if isinstance(extent, int) and isinstance(factor, int) and factor > 0 and extent % factor:
            message = f"the factor {factor} does not divide the extent {extent} of axis {axis + 2}"
            yield case.error("NNEF0629", message, "factor", "only whole blocks are sampled down")


def regions_fit(case: Case) -> Iterator[Diagnostic]:
    """Regions have a row of coordinates and a batch index each."""
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
