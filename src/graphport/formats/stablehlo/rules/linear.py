"""Products of matrices and convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import dictionary
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.elementwise import converted, widened
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, element_type, rule
from graphport.formats.stablehlo.rules.shapes import (
    checked_axes,
    insert_gaps,
    ints_of,
    padded,
    padded_axes,
    reversed_axes,
)
from graphport.formats.stablehlo.rules.values import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.stablehlo.program import Operation
    from graphport.ir.graph import Value

_PRODUCTS = frozenset(
    {DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64}
)


def _product_type(dtype: DType) -> DType:
    """The type in which products are summed."""
    if dtype in _PRODUCTS:
        return dtype
    return DType.FLOAT32 if dtype.is_floating else DType.INT32


@rule("dot_general")
def dot_general(e: Emitter, op: Operation, x: Value, y: Value) -> Value:
    """Sum products over contracting dims, for each index of batch dims."""
    numbers = dictionary(op.attribute("dot_dimension_numbers"))
    names = ("batching_dimensions", "contracting_dimensions")
    left, right = ([ints_of(numbers.get(f"{side}_{name}") or [], name) for name in names] for side in ("lhs", "rhs"))
    dtype = element_type(op.result_types[0], e.dtype(x))
    return _dot(e, op, x, y, left, right, dtype)


def _dot(
    e: Emitter, op: Operation, x: Value, y: Value, left: list[list[int]], right: list[list[int]], dtype: DType
) -> Value:
    for value, (batch, contract) in ((x, left), (y, right)):
        checked_axes(e, [*batch, *contract], e.rank(value), op)
    for mine, others in zip(left, right, strict=True):
        sizes = [(e.dims(x)[a], e.dims(y)[b]) for a, b in zip(mine, others, strict=False)]
        if len(mine) != len(others) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes):
            refuse("SH0007", f"{op.shown()}: the dims {mine} and {others} do not match")
    wide = _product_type(dtype)
    x, y = converted(e, x, wide), converted(e, y, wide)
    found = _product(e, x, y, left, right)
    return converted(e, found, dtype)


def _product(e: Emitter, x: Value, y: Value, left: list[list[int]], right: list[list[int]]) -> Value:
    batch, contract = left
    free_x = [axis for axis in range(e.rank(x)) if axis not in (*batch, *contract)]
    free_y = [axis for axis in range(e.rank(y)) if axis not in (*right[0], *right[1])]
    batch_sizes = [e.dim(x, axis) for axis in batch]
    sizes_x = [e.dim(x, axis) for axis in free_x]
    sizes_y = [e.dim(y, axis) for axis in free_y]
    rows = e.transpose(x, [*batch, *free_x, *contract])
    columns = e.transpose(y, [*right[0], *right[1], *free_y])
    shared = [e.dim(x, axis) for axis in contract]
    rows = _merged(e, rows, [batch_sizes, sizes_x, shared])
    columns = _merged(e, columns, [batch_sizes, shared, sizes_y])
    found = e("MatMul", rows, columns)
    return e.reshape(found, [*batch_sizes, *sizes_x, *sizes_y]) if len(sizes_x) != 1 or len(sizes_y) != 1 else found


def _merged(e: Emitter, x: Value, groups: list[list[int | Value]]) -> Value:
    """`x` with the axes of the last two groups merged into one each."""
    sizes = [*groups[0], *(merged_size(e, group) for group in groups[1:])]
    return x if all(len(group) == 1 for group in groups[1:]) else e.reshape(x, sizes)


def merged_size(e: Emitter, sizes: list[int | Value]) -> int | Value:
    """The product of sizes."""
    numbers = [size for size in sizes if isinstance(size, int)]
    found: int | Value = prod(numbers)
    for size in sizes:
        if not isinstance(size, int):
            found = size if found == 1 else e("Mul", size, found)
    return found


@complex_rule("dot_general")
def complex_dot_general(e: Emitter, op: Operation, x: Pair, y: Pair) -> Pair:
    """(a + ib)(c + id) by four real products."""
    return bilinear(e, x, y, lambda a, b: dot_general(e, op, a, b))


def bilinear(e: Emitter, x: Pair, y: Pair, product: Callable[[Value, Value], Value]) -> Pair:
    """Multiply complex tensors by four real products."""
    real = e("Sub", product(x.real, y.real), product(x.imaginary, y.imaginary))
    return Pair(real, e("Add", product(x.real, y.imaginary), product(x.imaginary, y.real)))


@rule("dot")
def dot(e: Emitter, op: Operation, x: Value, y: Value) -> Value:
    """Product of vectors or matrices."""
    dtype = element_type(op.result_types[0], e.dtype(x))
    return _dot(e, op, x, y, [[], [e.rank(x) - 1]], [[], [0]], dtype)


@rule("einsum", "unary_einsum")
def einsum(e: Emitter, op: Operation, x: Value, *others: Value) -> Value:
    """Products by a formula."""
    equation = str(op.attribute("einsum_config"))

    def multiply(builder: Emitter, *operands: Value) -> Value:
        return builder("Einsum", *operands, equation=equation)

    return widened(e, multiply, x, *others)


# Convolutions


def _pairs(value: Any, count: int) -> list[tuple[int, int]]:
    if value is None:
        return [(0, 0)] * count
    numbers = ints_of(value, "padding")
    if len(numbers) != 2 * count:
        refuse("SH0007", f"convolution: padding of {len(numbers) // 2} axes, expected {count}")
    return list(zip(numbers[0::2], numbers[1::2], strict=True))


def _flags(value: Any, count: int) -> list[bool]:
    if value is None:
        return [False] * count
    found = [bool(n) for n in ints_of(value, "window_reversal")]
    return found if len(found) == count else [False] * count


def _spatial_attribute(op: Operation, name: str, count: int) -> list[int]:
    value = op.attributes.get(name)
    found = [1] * count if value is None else ints_of(value, name)
    if len(found) != count or min(found, default=1) < 1:
        refuse("SH0007", f"convolution: {name} = {found} for {count} spatial dims")
    return found


@dataclass(frozen=True)
class _ConvolutionDims:
    """Positions of the dims of an operand or a result: batch (output features), features, spatial dims."""

    input: list[int]
    kernel: list[int]
    output: list[int]

    @property
    def spatial(self) -> list[int]:
        """The spatial dims of the input."""
        return self.input[2:]


def _convolution_dims(e: Emitter, op: Operation, x: Value, w: Value) -> _ConvolutionDims:
    """Read `dimension_numbers` of a convolution.

    Raises:
        RefusedError: SH0007 a position is missing, not an integer, or not a dim of its tensor.
    """
    numbers = dictionary(op.attribute("dimension_numbers"))

    def positions(tensor: str, first: str, second: str, rank: int) -> list[int]:
        names = (f"{tensor}_{first}_dimension", f"{tensor}_{second}_dimension", f"{tensor}_spatial_dimensions")
        *leading, spatial = (numbers.get(name) for name in names)
        order = ints_of([*leading, *(spatial if isinstance(spatial, list) else [spatial])], "dimension_numbers")
        checked_axes(e, order, rank, op)
        if len(order) != rank:
            refuse("SH0007", f"{op.shown()}: {tensor} has rank {rank}, dimension_numbers has {len(order)} dims")
        return order

    rank = e.rank(x)
    return _ConvolutionDims(
        positions("input", "batch", "feature", rank),
        positions("kernel", "output_feature", "input_feature", e.rank(w)),
        positions("output", "batch", "feature", rank),
    )


@rule("convolution")
def convolution(e: Emitter, op: Operation, x: Value, w: Value) -> Value:
    """Convolve with any order of dims, dilations, groups of features and groups of the batch."""
    dims = _convolution_dims(e, op, x, w)
    return _convolved(e, op, x, w, dims, _pairs(op.attributes.get("padding"), len(dims.spatial)))


@rule("dynamic_conv")
def dynamic_conv(e: Emitter, op: Operation, x: Value, w: Value, padding: Value) -> Value:
    """Convolve with padding in an operand; padding that a run computes is added before."""
    dims = _convolution_dims(e, op, x, w)
    spatial = dims.spatial
    known = e.constant_elements(padding)
    if known is not None:
        numbers = [int(n) for n in known.reshape(-1)]
        return _convolved(e, op, x, w, dims, _pairs(numbers, len(spatial)))
    zero = e.constant(0, x.dtype)
    for axis, factor in zip(spatial, _spatial_attribute(op, "lhs_dilation", len(spatial)), strict=True):
        x = insert_gaps(e, x, zero, axis, factor - 1)
    x = padded_axes(e, x, zero, padding, spatial)
    return _convolved(e, op, x, w, dims, [(0, 0)] * len(spatial), is_dilated=True)


@complex_rule("convolution")
def complex_convolution(e: Emitter, op: Operation, x: Pair, w: Pair) -> Pair:
    """Convolve complex tensors by four real convolutions."""
    return bilinear(e, x, w, lambda a, b: convolution(e, op, a, b))


def _convolved(
    e: Emitter,
    op: Operation,
    x: Value,
    w: Value,
    dims: _ConvolutionDims,
    padding: Sequence[tuple[int, int]],
    *,
    is_dilated: bool = False,
) -> Value:
    """Convolve; `is_dilated` if zeros of `lhs_dilation` are inserted."""
    count = len(dims.spatial)
    groups = int(op.attributes.get("feature_group_count", 1))
    batch_groups = int(op.attributes.get("batch_group_count", 1))
    if groups < 1 or batch_groups < 1 or (groups > 1 and batch_groups > 1):
        refuse("SH0007", f"convolution: feature_group_count {groups} and batch_group_count {batch_groups}")
    dtype = element_type(op.result_types[0], e.dtype(x))
    x, w = e.transpose(x, dims.input), e.transpose(w, dims.kernel)
    _check_groups(e, x, w, groups, batch_groups)

    def convolve(a: Value, b: Value) -> Value:
        return _windows_convolved(e, op, a, b, padding, groups, batch_groups, count, is_dilated=is_dilated)

    if dtype.is_floating:
        wide = dtype if dtype in (DType.FLOAT16, DType.FLOAT64) else DType.FLOAT32
        found = converted(e, convolve(e.cast(x, wide), e.cast(w, wide)), dtype)
    else:
        found = _convolved_integers(e, x, w, dtype, convolve)
    return e.transpose(found, [int(n) for n in np.argsort(dims.output)])


_EXACT_BITS = 24
"""Integers of as many bits are exact in float32."""


def _convolved_integers(
    e: Emitter, x: Value, w: Value, dtype: DType, convolve: Callable[[Value, Value], Value]
) -> Value:
    """Convolve integers modulo 2^bits, as sums of float32 convolutions that are exact.

    Elements are split into parts x = sum of x_i * 2^(p * i), so that sums of products of parts fit in 24 bits.
    """
    terms = prod(e.static(w, axis) for axis in range(1, e.rank(w)))
    room = _EXACT_BITS - max(terms - 1, 0).bit_length()
    bits = [e.dtype(value).bits - (e.dtype(value).kind == "i") for value in (x, w)]
    width = max(bits) if sum(bits) <= room else room // 2
    if width < 1:
        refuse("SH0006", f"unsupported: an integer convolution with {terms} products per sum")
    total: Value | None = None
    right = _integer_parts(e, w, width)
    for i, a in enumerate(_integer_parts(e, x, width)):
        for j, b in enumerate(right):
            shift = width * (i + j)
            if shift >= dtype.bits:
                continue
            product = e.cast(convolve(a, b), DType.INT64)
            product = e("Mul", product, 1 << shift) if shift else product
            total = product if total is None else e("Add", total, product)
    return converted(e, right[0] if total is None else total, dtype)


def _integer_parts(e: Emitter, x: Value, width: int) -> list[Value]:
    """Parts of `width` bits as float32, the lowest first; the last part has the sign."""
    dtype = e.dtype(x)
    bits = dtype.bits - (dtype.kind == "i")
    if bits <= width:
        return [e.cast(x, DType.FLOAT32)]
    unsigned = dtype is DType.UINT64
    rest = e("BitCast", x, to=DType.INT64) if unsigned else e.cast(x, DType.INT64)
    found: list[Value] = []
    while bits > width:
        low = e("BitwiseAnd", rest, (1 << width) - 1)
        found.append(e.cast(low, DType.FLOAT32))
        rest = e("Div", e("Sub", rest, low), 1 << width)
        bits -= width
    return [*found, e.cast(rest, DType.FLOAT32)]


def _check_groups(e: Emitter, x: Value, w: Value, groups: int, batch_groups: int) -> None:
    features, (outputs, inputs) = e.dims(x)[1], e.dims(w)[:2]
    if isinstance(features, int) and isinstance(inputs, int) and features != inputs * groups:
        refuse(
            "SH0007", f"convolution: {features} input features, but the kernel has {inputs} in each of {groups} groups"
        )
    if isinstance(outputs, int) and outputs % (groups * batch_groups):
        refuse("SH0007", f"convolution: {outputs} output features are not divisible by {groups * batch_groups} groups")
    batch = e.dims(x)[0]
    if isinstance(batch, int) and batch % batch_groups:
        refuse("SH0007", f"convolution: a batch of {batch} is not divisible by {batch_groups} groups")


def _windows_convolved(
    e: Emitter,
    op: Operation,
    x: Value,
    w: Value,
    padding: Sequence[tuple[int, int]],
    groups: int,
    batch_groups: int,
    count: int,
    *,
    is_dilated: bool,
) -> Value:
    """A convolution of operands in the order of ONNX: batch, features, spatial dims."""
    strides = _spatial_attribute(op, "window_strides", count)
    base, dilations = _spatial_attribute(op, "lhs_dilation", count), _spatial_attribute(op, "rhs_dilation", count)
    base = [1] * count if is_dilated else base
    reversal = _flags(op.attributes.get("window_reversal"), count)
    w = reversed_axes(e, w, [axis + 2 for axis, flag in enumerate(reversal) if flag])
    zero = e.constant(0, x.dtype)
    for axis, factor in enumerate(base):
        x = insert_gaps(e, x, zero, axis + 2, factor - 1)
    cuts = [(min(low, 0), min(high, 0)) for low, high in padding]
    if any(low or high for low, high in cuts):
        x = padded(e, x, zero, [0, 0, *(low for low, _ in cuts)], [0, 0, *(high for _, high in cuts)])
    if batch_groups > 1:
        x = _groups_as_features(e, x, batch_groups)
        groups = batch_groups
    if count == 0:
        x, w = e.unsqueeze(x, 2), e.unsqueeze(w, 2)
        return e("Squeeze", e("Conv", x, w, group=groups), e.ints(2))
    pads = [max(low, 0) for low, _ in padding] + [max(high, 0) for _, high in padding]
    kernel = tuple(e.static(w, axis + 2) for axis in range(count))
    return e(
        "Conv",
        x,
        w,
        group=groups,
        kernel_shape=kernel,
        strides=tuple(strides),
        dilations=tuple(dilations),
        pads=tuple(pads),
    )


def _groups_as_features(e: Emitter, x: Value, groups: int) -> Value:
    """[groups * n, c, ...] as [n, groups * c, ...]."""
    rank = e.rank(x)
    batch, features, *spatial = e.sizes(x)
    if not isinstance(batch, int) or not isinstance(features, int):
        refuse("SH0009", "a convolution with batch_group_count has dynamic dims")
    x = e.reshape(x, [groups, batch // groups, features, *spatial])
    x = e.transpose(x, [1, 0, *range(2, rank + 1)])
    return e.reshape(x, [batch // groups, groups * features, *spatial])
