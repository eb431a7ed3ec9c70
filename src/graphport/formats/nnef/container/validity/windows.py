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
    """Report windows that are larger than the padded input."""
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
            message = f"a window of {reach} does not fit the padded extent {before} + {x} + {after}"
            yield case.error("NNEF0623", message, "padding", "enlarge the padding, or shrink the window")


def pooling(case: Case) -> Iterator[Diagnostic]:
    """Check that the pooling window is not larger than the padded input."""
    shape = case.shape("input")
    if shape is not None:
        yield from _check_window_size(case, shape, _with_ones(case, "size", len(shape)), case.pairs("padding"))


def indexing(case: Case) -> Iterator[Diagnostic]:
    """Check that indices have the shape, or the rank, of the indexed tensor."""
    shape, index = case.shape("input"), case.shape("index")
    if shape is None or index is None:
        return
    if len(shape) != len(index) or (case.operation.name == "desample" and any(map(differ, shape, index))):
        message = f"'index' has shape {shown(index)}, but 'input' has {shown(shape)}"
        wanted = "that of 'input'" if case.operation.name == "desample" else "of the input's rank"
        yield case.error("NNEF0624", message, "index", f"use the shape {wanted}")


def convolving(case: Case) -> Iterator[Diagnostic]:
    """Check that input, filter, bias, groups and padding of a convolution are consistent."""
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
            message = f"a filter of shape {shown(f)} expects {f[0]} channels, but 'input' {shown(x)} has {x[1]}"
            yield case.error(
                "NNEF0626", message, "filter", "set the filter's batch extent to the number of input channels"
            )
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
    """Report a filter whose rank differs from the input's; return whether it does."""
    is_wrong = len(x) != len(f) or len(x) < 3
    if is_wrong:
        message = f"'{name}' has shape {shown(f)}, but 'input' has {shown(x)}"
        yield case.error("NNEF0625", message, name, "use equal ranks: batch, channel and the spatial axes")
    return is_wrong


def _bad_groups(case: Case, groups: int, batch: Dim) -> Iterator[Diagnostic]:
    least = 0 if case.is_final else 1
    is_wrong = "groups" in case.operation.attributes and groups < least
    if is_wrong:
        yield case.error("NNEF0627", f"'groups' is {groups}", "groups", f"use {least} or more")
    elif groups > 1 and isinstance(batch, int) and batch % groups:
        is_wrong = True
        message = f"{batch} filters cannot be split into {groups} equal groups"
        yield case.error("NNEF0627", message, "groups", "use a number of groups that divides the filter's batch extent")
    return is_wrong


def _channels(case: Case, name: str, x: Shape, f: Shape, groups: int) -> Iterator[Diagnostic]:
    """Filters of a convolution take their group's channels; depth-wise (`groups` 0) one each."""
    if groups:
        if differ(f[1] * groups, x[1]):
            message = f"{groups} groups of {f[1]} channels do not match the {x[1]} channels of 'input'"
            yield case.error("NNEF0626", message, name, f"correct a shape: '{name}' has {shown(f)}, 'input' {shown(x)}")
    elif differ(f[1], 1):
        message = f"a depth-wise filter of shape {shown(f)} has {f[1]} channels, expected 1"
        yield case.error("NNEF0626", message, name, "set its second extent to 1")
    elif isinstance(f[0], int) and isinstance(x[1], int) and f[0] % x[1]:
        message = f"{f[0]} depth-wise filters are not a multiple of the {x[1]} channels of 'input'"
        yield case.error("NNEF0626", message, name, f"correct a shape: '{name}' has {shown(f)}, 'input' {shown(x)}")


def separable_convolution(case: Case) -> Iterator[Diagnostic]:
    """Check that both filters of a separable convolution match the input, the bias and each other."""
    x, plane, point = case.shape("input"), case.shape("plane_filter"), case.shape("point_filter")
    groups = case.attribute("groups")
    if x is None or plane is None or point is None or not isinstance(groups, int):
        return
    if (yield from _unequal_ranks(case, "plane_filter", x, plane)):
        return
    if (yield from _unequal_ranks(case, "point_filter", x, point)):
        return
    if any(differ(extent, 1) for extent in point[2:]):
        message = f"'point_filter' has shape {shown(point)}, expected spatial extents of 1"
        yield case.error("NNEF0625", message, "point_filter", "set its spatial extents to 1")
    is_reverse = case.operation.name == "separable_deconv"
    inner = (point[1] * (groups or x[1]) if is_reverse else plane[0], "plane_filter" if is_reverse else "point_filter")
    taken = plane[0] if is_reverse else point[1] * (groups or plane[0])
    if differ(plane[1], 1):
        message = f"'plane_filter' of shape {shown(plane)} has {plane[1]} channels, expected 1"
        yield case.error("NNEF0626", message, "plane_filter", "set its second extent to 1: the filter is depth-wise")
    elif differ(inner[0], taken):
        message = f"{inner[0]} channels between the filters, but '{inner[1]}' expects {taken}"
        yield case.error("NNEF0626", message, inner[1], f"correct a filter shape: {shown(plane)} or {shown(point)}")
    bias = case.shape("bias")
    if bias is not None:
        yield from bias_fits(case, bias, plane[0] if is_reverse else point[0])


def _output_shape(case: Case, x: Shape, f: Shape, channels: Dim) -> Iterator[Diagnostic]:
    """Check that the output shape of a reverse operation corresponds to its input."""
    wanted = case.integers_of("output_shape")
    if not wanted:
        return
    if len(wanted) != len(x) or differ(wanted[0], x[0]) or differ(wanted[1], channels):
        message = f"'output_shape' is {shown(wanted)}, but batch and channels are {x[0]} and {channels}"
        yield case.error("NNEF0628", message, "output_shape", "write the complete shape of the result")
        return
    yield from _scales_down(case, wanted[2:], x[2:], f[2:])


def unpooling(case: Case) -> Iterator[Diagnostic]:
    """Check that the output shape of an unpooling corresponds to its input."""
    shape, wanted = case.shape("input"), case.integers_of("output_shape")
    if shape is None or not wanted:
        return
    if len(wanted) != len(shape):
        message = f"'output_shape' is {shown(wanted)}, but the rank is {len(shape)}"
        yield case.error("NNEF0628", message, "output_shape", "write the complete shape of the result")
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
            message = (
                f"an output extent of {up} with stride {stride} corresponds "
                f"to an input extent of {reached}, but it is {down}"
            )
            yield case.error("NNEF0628", message, "output_shape", f"set its extents to {shown(wanted)}")


def factors_divide(case: Case) -> Iterator[Diagnostic]:
    """Check that downsampling factors divide the spatial extents."""
    shape = case.shape("input") or ()
    for axis, (extent, factor) in enumerate(zip(shape[2:], case.integers_of("factor"), strict=False)):
        if isinstance(extent, int) and isinstance(factor, int) and factor > 0 and extent % factor:
            message = f"the factor {factor} does not divide the extent {extent} of axis {axis + 2}"
            yield case.error("NNEF0629", message, "factor", "use a factor that divides the extent")


def regions_fit(case: Case) -> Iterator[Diagnostic]:
    """Check that there is a row of coordinates and a batch index per region."""
    shape, rois, index = case.shape("input"), case.shape("rois"), case.shape("batch_index")
    if shape is not None and rois is not None:
        width = 2 * (len(shape) - 2)
        if len(rois) != 2 or differ(rois[1], width):
            message = f"'rois' has shape {shown(rois)}, expected rows of {width} coordinates"
            yield case.error("NNEF0630", message, "rois", f"write one row of {width} coordinates per region")
    if index is not None and (len(index) not in (1, 2) or any(differ(extent, 1) for extent in index[1:])):
        yield case.error(
            "NNEF0630",
            f"'batch_index' has shape {shown(index)}, expected rank 1",
            "batch_index",
            "pass one batch index per region",
        )
    elif index and rois and differ(index[0], rois[0]):
        message = f"{rois[0]} regions have {index[0]} batch indices"
        yield case.error("NNEF0630", message, "batch_index", "pass one batch index per region")
