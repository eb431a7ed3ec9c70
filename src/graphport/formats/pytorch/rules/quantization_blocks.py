"""Block-wise quantization operators of torchao."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import integers, named_dtype, scalar_of
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul, Neg, Reciprocal, Round, Sub
from graphport.ops.definitions.comparison import Greater, Where
from graphport.ops.definitions.quantization import DequantizeLinear
from graphport.ops.definitions.reduction import ReduceMax, ReduceMin
from graphport.ops.definitions.reshape import Reshape, Shape
from graphport.ops.lowering.operands import dtype_of, vector

_SPACE = "torchao."


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Partition of a tensor into blocks; `shape` has separate axes for blocks and for the elements in a block."""

    shape: tuple[Any, ...]
    within: tuple[int, ...]
    """Axes of `shape` inside a block."""
    counts: tuple[Any, ...]
    """Number of blocks along each axis of the tensor."""

    @property
    def is_split(self) -> bool:
        """Whether an axis has several blocks of several elements."""
        return len(self.shape) > len(self.counts)

    def alike(self) -> list[Any]:
        """Return the shape in which per-block parameters broadcast to `shape`: axes inside a block have size 1."""
        return [1 if axis in self.within else n for axis, n in enumerate(self.shape)]


def _blocks(b: Builder, x: Value, block_size: Any) -> _Blocks:
    shape: list[Any] = []
    within: list[int] = []
    counts: list[Any] = []
    sizes, dims = integers(block_size), b.dims(x)
    if len(sizes) != len(dims):
        message = f"the block sizes have {len(sizes)} axes, the tensor has rank {len(dims)}"
        raise UnsupportedError(message)
    for axis, (size, n) in enumerate(zip(sizes, dims, strict=True)):
        own: Any = n if isinstance(n, int) else b(Shape, x, start=axis, end=axis + 1)
        if size == 1:
            shape.append(own)
            counts.append(own)
        elif size in (n, -1):
            within.append(len(shape))
            shape.append(own)
            counts.append(1)
        elif isinstance(n, int) and size > 0 and n % size == 0:
            shape += [n // size, size]
            within.append(len(shape) - 1)
            counts.append(n // size)
        else:
            message = f"an axis of size {n} cannot be divided into blocks of {size}"
            raise UnsupportedError(message)
    return _Blocks(tuple(shape), tuple(within), tuple(counts))


def _ends(dtype: Any, low: Any, high: Any) -> tuple[float, float]:
    """Return the quantization range, by default that of the type."""
    found = named_dtype(dtype) if low is None or high is None else None
    info = None if found is None else np.iinfo(found.numpy)
    first = scalar_of(low) if info is None or low is not None else info.min
    last = scalar_of(high) if info is None or high is not None else info.max
    return float(first), float(last)


@aten(f"{_SPACE}choose_qparams_affine")
def choose_qparams_affine(
    b: Builder,
    input: Value,
    mapping_type: str,
    block_size: Any,
    target_dtype: Any,
    quant_min: Any = None,
    quant_max: Any = None,
    eps: Any = None,
    scale_dtype: Any = None,
    zero_point_dtype: Any = "torch.int32",
    keepdim: Any = False,
) -> tuple[Value, Value]:
    """Choose a scale and a zero point for each block."""
    blocks, dtype = _blocks(b, input, block_size), dtype_of(input)
    x = b(Reshape, input, lengths(b, blocks.shape)) if blocks.is_split else input
    axes, keeps = vector(b, blocks.within), int(bool(keepdim) and not blocks.is_split)
    zero = b.like(x, 0)
    low, high = (b(reduce, x, axes, keepdims=keeps) for reduce in (ReduceMin, ReduceMax))
    least, most = b(Min, low, zero), b(Max, high, zero)
    first, last = _ends(target_dtype, quant_min, quant_max)
    smallest = float(np.finfo(dtype.numpy).smallest_normal) if eps is None else float(scalar_of(eps))
    scale = b(Max, _scale(b, mapping_type, least, most, first, last), b.like(x, smallest))
    if mapping_type == "ASYMMETRIC":
        place = b(Sub, b.like(x, first), b(Round, b(Div, least, scale)))
        point = b(Clip, place, b.like(x, first), b.like(x, last))
        kind = named_dtype(zero_point_dtype) or DType.INT32
    else:
        point = b(Add, b(Mul, scale, zero), b.like(x, int((last + first + 1) / 2)))
        kind = named_dtype(zero_point_dtype) or dtype
    found = cast(b, scale, named_dtype(scale_dtype) or dtype), cast(b, point, kind)
    if not keepdim or not blocks.is_split:
        return found
    shape = lengths(b, blocks.counts)
    return b(Reshape, found[0], shape), b(Reshape, found[1], shape)


def _scale(b: Builder, mapping: str, least: Value, most: Value, first: float, last: float) -> Value:
    """Return the scale that maps elements from `least` to `most` to integers from `first` to `last`."""
    match mapping:
        case "ASYMMETRIC":
            return b(Div, b(Sub, most, least), last - first)
        case "SYMMETRIC":
            return b(Div, b(Max, b(Neg, least), most), (last - first) / 2)
        case "SYMMETRIC_NO_CLIPPING_ERR":
            below, above = b(Div, least, first), b(Div, most, last)
            return b(Where, b(Greater, below, above), below, above)
        case _:
            message = f"unsupported mapping type {mapping}"
            raise UnsupportedError(message)


@aten(f"{_SPACE}quantize_affine")
def quantize_affine(
    b: Builder,
    input: Value,
    block_size: Any,
    scale: Value,
    zero_point: Value | None,
    output_dtype: Any,
    quant_min: Any = None,
    quant_max: Any = None,
) -> Value:
    """round(x * (1 / scale)) + zero_point, saturated."""
    blocks, wanted = _blocks(b, input, block_size), named_dtype(output_dtype)
    if wanted is None or zero_point is None or dtype_of(input) not in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16):
        message = "quantize_affine requires a float operand, an output dtype and a zero point"
        raise UnsupportedError(message)
    x = b(Reshape, input, lengths(b, blocks.shape)) if blocks.is_split else input
    alike, (first, last) = lengths(b, blocks.alike()), _ends(output_dtype, quant_min, quant_max)
    inverse = b(Reciprocal, cast(b, b(Reshape, scale, alike), dtype_of(input)))
    y = b(Add, b(Round, b(Mul, x, inverse)), cast(b, b(Reshape, zero_point, alike), dtype_of(input)))
    y = cast(b, b(Clip, y, b.like(y, first), b.like(y, last)), wanted)
    return b(Reshape, y, b(Shape, input)) if blocks.is_split else y


@aten(f"{_SPACE}dequantize_affine", ignores=("input_dtype", "quant_min", "quant_max"))
def dequantize_affine(
    b: Builder,
    input: Value,
    block_size: Any,
    scale: Value,
    zero_point: Value | None = None,
    output_dtype: Any = "torch.float32",
) -> Value:
    """(x - zero_point) * scale; blocks along one axis are DequantizeLinear with `block_size`."""
    blocks, wanted = _blocks(b, input, block_size), named_dtype(output_dtype) or DType.FLOAT32
    if (y := _blocked(b, input, blocks, integers(block_size), scale, zero_point)) is not None:
        return cast(b, y, wanted)
    x = b(Reshape, input, lengths(b, blocks.shape)) if blocks.is_split else input
    alike, y = lengths(b, blocks.alike()), cast(b, x, wanted)
    if zero_point is not None:
        y = b(Sub, y, cast(b, b(Reshape, zero_point, alike), wanted))
    y = b(Mul, y, cast(b, b(Reshape, scale, alike), wanted))
    return b(Reshape, y, b(Shape, input)) if blocks.is_split else y


def _blocked(
    b: Builder, x: Value, blocks: _Blocks, sizes: tuple[int, ...], scale: Value, zero_point: Value | None
) -> Value | None:
    """DequantizeLinear: per axis, or with blocks along one axis and a scale per index of the other axes."""
    if dtype_of(x) not in (DType.INT8, DType.UINT8) or dtype_of(scale) is not DType.FLOAT32:
        return None
    long = [axis for axis, count in enumerate(blocks.counts) if count != 1]
    if not blocks.is_split and len(long) <= 1:
        shape = vector(b, [-1] if long else [])
        attributes: dict[str, int] = {"axis": long[0]} if long else {}
    elif blocks.is_split and len(wide := [axis for axis, size in enumerate(sizes) if size != 1]) == 1:
        shape = lengths(b, blocks.counts)
        attributes = {"axis": wide[0], "block_size": sizes[wide[0]]}
    else:
        return None
    zero = None if zero_point is None else cast(b, b(Reshape, zero_point, shape), dtype_of(x))
    return b(DequantizeLinear, x, b(Reshape, scale, shape), zero, **attributes)
