"""Sliding windows over the spatial axes of a tensor: positions, padding, and strided views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_less, maximum, minimum
from graphport.ops.declare import ShapeError
from graphport.ops.shapes import pairs
from graphport.ops.types import Tensor


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window; each field has one element per spatial axis."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[Dim, Dim], ...]
    lengths: tuple[Dim, ...]
    """Number of window positions per axis."""

    @property
    def padding(self) -> tuple[tuple[int, int], ...] | None:
        """`pads` as integers."""
        found = tuple((p, q) for p, q in self.pads if isinstance(p, int) and isinstance(q, int))
        return found if len(found) == len(self.pads) else None


def window(
    dims: Sequence[Dim],
    kernel: Sequence[Dim],
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Window:
    """Resolve ONNX's window attributes over spatial axes of lengths `dims`.

    Raises:
        ShapeError: an attribute has the wrong number of elements, `auto_pad` is unknown, or the window exceeds the
            padded input.
    """
    rank = len(dims)
    steps, gaps = _spatial_attribute("strides", strides, rank), _spatial_attribute("dilations", dilations, rank)
    if len(kernel) != rank:
        message = f"the kernel {tuple(kernel)} has {len(kernel)} entries for {rank} spatial axes"
        raise ShapeError(message, f"{rank} are needed")
    if pads is not None and len(pads) != 2 * rank:
        message = f"pads {tuple(pads)} has {len(pads)} entries for {rank} spatial axes"
        raise ShapeError(message, f"{2 * rank} are needed: all begins, then all ends")
    axes = list(zip(dims, kernel, steps, gaps, strict=True))
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        padding = [same_pads(n, k, s, d, auto_pad) for n, k, s, d in axes]
        return Window(tuple(kernel), steps, gaps, tuple(padding), tuple(ceil_div(n, s) for n, _, s, _ in axes))
    if auto_pad not in ("NOTSET", "VALID"):
        message = f"auto_pad is {auto_pad!r}"
        raise ShapeError(message, "NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    explicit = auto_pad == "NOTSET" and pads is not None
    padding = pairs(pads) if explicit and pads is not None else [(0, 0)] * rank
    # MaxPool-22 describes VALID with `ceil_mode` differently; ONNX's inference and ONNX Runtime use this formula.
    count = ceil_mode_length if ceil_mode else out_length
    lengths = [count(n, k, p, s, d) for (n, k, s, d), p in zip(axes, padding, strict=True)]
    for axis, (length, (n, k, _, d)) in enumerate(zip(lengths, axes, strict=True)):
        if decide_less(length, 1) is True and decide_less(0, n) is True:
            reach = (k - 1) * d + 1
            message = f"the window reaches over {reach} entries, spatial axis {axis} has {n}, padded by {padding[axis]}"
            raise ShapeError(message, "a smaller kernel or more padding")
    return Window(tuple(kernel), steps, gaps, tuple(padding), tuple(_not_negative(length) for length in lengths))


def _not_negative(length: Dim) -> Dim:
    # An axis of length 0 has no window position; a symbolic axis is assumed to be nonempty.
    return length if isinstance(length, Symbolic) else max(length, 0)


def _spatial_attribute(what: str, found: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if found is None:
        return (1,) * rank
    if len(found) != rank:
        message = f"{what} {tuple(found)} has {len(found)} entries for {rank} spatial axes"
        raise ShapeError(message, f"{rank} are needed")
    if any(step < 1 for step in found):
        message = f"{what} {tuple(found)} must be positive"
        raise ShapeError(message)
    return tuple(found)


def out_length(n: Dim, kernel: Dim, pads: tuple[Dim, Dim], stride: int, dilation: int) -> Dim:
    """Output length of one spatial axis of a sliding window (ONNX Conv-22, `auto_pad = NOTSET`)."""
    reach = (kernel - 1) * dilation + 1
    return (n + pads[0] + pads[1] - reach) // stride + 1


def ceil_mode_length(n: Dim, kernel: Dim, pads: tuple[Dim, Dim], stride: int, dilation: int) -> Dim:
    """Output length with a partial last window, unless that starts beyond the last element (MaxPool-22)."""
    reach = (kernel - 1) * dilation + 1
    # ceil((n + p + q - reach) / stride) + 1 = ceil((n + p + slack) / stride), and no place starts at n + p or later.
    slack = minimum(pads[1] + stride - reach, 0)
    return ceil_div(n + pads[0] + slack, stride)


def same_pads(n: Dim, kernel: Dim, stride: int, dilation: int, auto_pad: str) -> tuple[Dim, Dim]:
    """Return begin and end padding of one axis for SAME auto-padding: `ceil(n / stride)` window positions."""
    total = maximum((ceil_div(n, stride) - 1) * stride + (kernel - 1) * dilation + 1 - n, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if auto_pad == "SAME_LOWER" else (small, large)


def constant_pads(
    kernel: int, stride: int, dilation: int, *, auto_pad: str, pads: tuple[int, int], ceil_mode: int
) -> tuple[int, int] | None:
    """Return the explicit pads of one axis that are equivalent at every size; `None` if they depend on the size."""
    reach = (kernel - 1) * dilation + 1
    first = stride * (reach + max(*pads, 0) + 1)
    # The pads are periodic in the size, with the stride as period.
    sizes = range(first, first + stride)
    slid = [
        window(
            (n,), (kernel,), auto_pad=auto_pad, dilations=(dilation,), pads=pads, strides=(stride,), ceil_mode=ceil_mode
        )
        for n in sizes
    ]
    found = [(n, *integer_pads(each.pads)[0], *integer_dims(each.lengths)) for n, each in zip(sizes, slid, strict=True)]
    begin = found[0][1]
    end = max(0, *((out - 1) * stride + reach - n - begin for n, _, _, out in found))
    is_same = all(
        other == begin and out == out_length(n, kernel, (begin, end), stride, dilation) for n, other, _, out in found
    )
    return (begin, end) if is_same else None


def integer_dims(dims: Sequence[Dim]) -> tuple[int, ...]:
    """Return the dims of an array, which are integers.

    Raises:
        TypeError: a dim is symbolic; operator definitions never receive those.
    """
    if any(isinstance(dim, Symbolic) for dim in dims):
        message = f"{tuple(dims)} is symbolic"
        raise TypeError(message)
    return tuple(int(dim) for dim in dims if not isinstance(dim, Symbolic))


def window_view(x: Tensor, slid: Window, fill: Any) -> Tensor:
    """Return a view of the elements under each window: x [N, C, *d] → [N, C, *out, *kernel]; `fill` outside x."""
    kernel, lengths = integer_dims(slid.kernel), integer_dims(slid.lengths)
    axes = list(zip(x.shape[2:], kernel, slid.strides, slid.dilations, slid.pads, lengths, strict=True))
    # The last window may hang over the padding, or end before it.
    ends = [(out - 1) * s + (k - 1) * d + 1 - n - int(p[0]) for n, k, s, d, p, out in axes]
    padding = [(int(begin), end) for (begin, _), end in zip(integer_pads(slid.pads), ends, strict=True)]
    return sliding_windows(padded(x, padding, fill), kernel, slid.strides, slid.dilations, lengths)


def clip_kernel(dims: Sequence[int], slid: Window) -> Window:
    """Drop kernel rows and columns that meet no element of `dims` at any position; keep at least one."""
    kernel: list[int] = []
    begins: list[int] = []
    lengths, kernels = integer_dims(slid.lengths), integer_dims(slid.kernel)
    axes = zip(dims, kernels, slid.strides, slid.dilations, integer_pads(slid.pads), lengths, strict=True)
    for n, k, s, d, (begin, _), out in axes:
        first = max(0, -((max(out - 1, 0) * s - begin) // d))
        last = min(k - 1, (begin + n - 1) // d)
        first, last = (first, last) if first <= last else (0, 0)
        kernel.append(last - first + 1)
        begins.append(begin - first * d)
    return replace(slid, kernel=tuple(kernel), pads=tuple((begin, 0) for begin in begins))


def integer_pads(pads: Sequence[tuple[Dim, Dim]]) -> list[tuple[int, int]]:
    """Return begin and end padding of each axis as integers."""
    return [(begin, end) for begin, end in (integer_dims(pair) for pair in pads)]


def padded(x: Tensor, padding: Sequence[tuple[int, int]], fill: Any) -> Tensor:
    """Pad the spatial axes of `x` with `fill`; negative padding crops."""
    if not any(begin or end for begin, end in padding):
        return x
    shape = [n + begin + end for n, (begin, end) in zip(x.shape[2:], padding, strict=True)]
    wide = np.full([*x.shape[:2], *(max(n, 0) for n in shape)], fill, x.dtype)
    inner = [slice(max(begin, 0), max(n - max(end, 0), 0)) for n, (begin, end) in zip(shape, padding, strict=True)]
    kept = [
        slice(max(-begin, 0), max(n - max(-end, 0), 0)) for n, (begin, end) in zip(x.shape[2:], padding, strict=True)
    ]
    wide[(..., *inner)] = x[(..., *kept)]
    return wide


def sliding_windows(
    x: Tensor, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], lengths: tuple[int, ...]
) -> Tensor:
    """Return a view of the first `lengths` windows: x [N, C, *d] → [N, C, *lengths, *kernel]."""
    if 0 in lengths:
        return np.empty([*x.shape[:2], *lengths, *kernel], x.dtype)
    x = np.ascontiguousarray(x)
    spatial = x.strides[2:]
    # A step that nothing is reached by may be longer than addresses are.
    steps = [stride * s if n > 1 else 0 for stride, s, n in zip(spatial, strides, lengths, strict=True)]
    inside = [stride * d if n > 1 else 0 for stride, d, n in zip(spatial, dilations, kernel, strict=True)]
    shape = (*x.shape[:2], *lengths, *kernel)
    return np.lib.stride_tricks.as_strided(x, shape, (*x.strides[:2], *steps, *inside), writeable=False)
