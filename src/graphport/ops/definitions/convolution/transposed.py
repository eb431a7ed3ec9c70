"""Transposed convolutions: a window that paints instead of reading."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphport.core.dims import Dim, decide_equal, maximum, minimum
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.convolution.window import Window, integer_dims, integer_pads, padded, window
from graphport.ops.shapes import pairs
from graphport.ops.types import Tensor


def transposed_window(
    dims: Sequence[Dim],
    kernel: Sequence[Dim],
    *,
    auto_pad: str,
    dilations: Sequence[int] | None,
    output_padding: Sequence[int] | None,
    output_shape: Sequence[int] | None,
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> Window:
    """Return the window of a transposed convolution: `lengths` are output lengths, `pads` are cropped from the output.

    Raises:
        ShapeError: an attribute has the wrong number of elements, or an output length is not positive.
    """
    rank = len(dims)
    extra = tuple(output_padding) if output_padding is not None else (0,) * rank
    wanted = None if output_shape is None else tuple(output_shape)[-rank:]
    for what, found in (("output_padding", output_padding), ("output_shape", wanted)):
        if found is not None and len(found) != rank:
            message = f"{what} {tuple(found)} has {len(found)} entries for {rank} spatial axes"
            raise ShapeError(message, f"{rank} are needed")
    # A window over inputs of length 1 checks the other attributes.
    steps = window(dims, (1,) * rank, dilations=dilations, strides=strides)
    s, d = steps.strides, steps.dilations
    full = [(n - 1) * s[i] + extra[i] + (kernel[i] - 1) * d[i] + 1 for i, n in enumerate(dims)]
    if wanted is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        # A kernel shorter than the stride leaves less than `n * stride`; ONNX's own inference does not fill that up.
        wanted = tuple(minimum(a, n * s[i]) for i, (a, n) in enumerate(zip(full, dims, strict=True)))
    if wanted is None:
        if pads is not None and len(pads) != 2 * rank:
            message = f"pads {tuple(pads)} has {len(pads)} entries for {rank} spatial axes"
            raise ShapeError(message, f"{2 * rank} are needed: all begins, then all ends")
        cut = pairs(pads) if pads is not None and auto_pad == "NOTSET" else [(0, 0)] * rank
        lengths = tuple(n - p - q for n, (p, q) in zip(full, cut, strict=True))
    else:
        lengths = wanted
        cut = [_cut(maximum(a - n, 0), auto_pad) for a, n in zip(full, wanted, strict=True)]
    for axis, length in enumerate(lengths):
        if isinstance(length, int) and length < 1 and decide_equal(dims[axis], 0) is False:
            message = f"padding {cut[axis]} removes all {full[axis]} elements of spatial axis {axis}"
            raise ShapeError(message, "less padding")
    return Window(tuple(kernel), s, d, tuple(cut), lengths)


def _cut(total: Dim, auto_pad: str) -> tuple[Dim, Dim]:
    small, large = total // 2, total - total // 2
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def conv_transpose(x: Tensor, w: Tensor, geometry: Window, group: int) -> Tensor:
    """Sum of `w`, scaled by each element of `x`, at each window position.  Shapes: as `ConvTranspose`."""
    n, c, *spatial = x.shape
    maps, kernel = w.shape[1], w.shape[2:]
    # One matrix product for each position inside the window: [M/group, C/group] times [C/group, positions].
    entries = x.reshape(n, group, c // group, prod(spatial))
    weights = w.reshape(group, c // group, maps, prod(kernel))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, geometry.dilations, strict=True)]
    full = [(size - 1) * s + r for size, s, r in zip(spatial, geometry.strides, reach, strict=True)]
    canvas = np.zeros((n, group, maps, *(max(size, 0) for size in full)), x.dtype)
    for number, place in enumerate(np.ndindex(*kernel)):
        begins = [k * d for k, d in zip(place, geometry.dilations, strict=True)]
        strokes = zip(begins, spatial, geometry.strides, strict=True)
        where = [slice(begin, begin + (size - 1) * s + 1, s) if size else slice(0, 0) for begin, size, s in strokes]
        part = np.matmul(weights[:, :, :, number].swapaxes(1, 2), entries)
        canvas[(..., *where)] += part.reshape(n, group, maps, *spatial)
    whole = canvas.reshape(n, group * maps, *canvas.shape[3:])
    lengths, cut = integer_dims(geometry.lengths), integer_pads(geometry.pads)
    ends = [length + begin - size for length, (begin, _), size in zip(lengths, cut, whole.shape[2:], strict=True)]
    return padded(whole, [(-begin, end) for (begin, _), end in zip(cut, ends, strict=True)], 0)
