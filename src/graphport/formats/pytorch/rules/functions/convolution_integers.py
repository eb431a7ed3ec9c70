"""Integer convolution: ONNX convolves floats only, so windows are extracted and multiplied as matrices."""

from __future__ import annotations

from collections.abc import Sequence

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import bounded, length
from graphport.formats.pytorch.rules.functions.indexing_slices import sliced, unfold
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Reshape, Shape
from graphport.ops.lowering.operands import dtype_of, transposed

_WIDE = 32
"""Minimum integer width of MatMul in bits; narrower results are computed in it and wrapped, like in PyTorch."""


def integer_convolution(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    groups: int,
) -> Value:
    """Convolution of a batch in integer arithmetic modulo 2^bits."""
    own, count = dtype_of(x), len(strides)
    if own.bits < _WIDE:
        x, weight = (cast(b, each, DType.INT32) for each in (x, weight))
    outputs, channels, *kernel = (length(b.dims(weight), axis) for axis in range(count + 2))
    if any(any(pair) for pair in pads):
        x = b(Pad, x, [0, 0, *(p for p, _ in pads), 0, 0, *(q for _, q in pads)])
    for axis, (size, step, gap) in enumerate(zip(kernel, strides, dilations, strict=True), 2):
        x = sliced(b, unfold(b, x, axis, (size - 1) * gap + 1, step), count + axis, 0, None, gap)
    # batch, channels, positions, windows → batch, groups, summed axis, positions
    x = transposed(b, x, [0, 1, *range(count + 2, 2 * count + 2), *range(2, count + 2)])
    summed = channels
    for size in kernel:
        summed = bounded(summed * size)
    spatial = b(Shape, x, start=count + 2)
    x = b(Reshape, x, [0, groups, summed, -1])
    y = b(MatMul, b(Reshape, weight, [groups, outputs // groups, summed]), x)
    batch = b(Shape, y, start=0, end=1)
    y = b(Reshape, y, b(Concat, batch, [outputs], spatial, axis=0))
    if bias is not None:
        y = b(Add, y, b(Reshape, cast(b, bias, dtype_of(y)), [outputs, *[1] * count]))
    return cast(b, y, own)
