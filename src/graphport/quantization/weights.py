"""Qparams of weights, and their nearest codes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.quantization.channel_blocks import along, layer_channels, mapped, qparams_channels, split_channels
from graphport.quantization.parameters import MIN_SCALE, QuantizationParameters, limits, symmetric

if TYPE_CHECKING:
    from graphport.quantization.layer import Layer

Array: TypeAlias = "np.ndarray[Any, Any]"

PAIR = 128
"""Maximum sum of two neighbouring codes of one sign: 255 times it fits in 16 bits."""
_PARTS_OF_BLOCKS = (15 / 14, 1.0, 0.94, 0.88, 0.82, 0.76, 0.7)
_LEAST_HALF, _MOST_HALF = np.float16(2.0**-24), np.finfo(np.float16).max
"""Least and largest float16 scale."""
_NUM_REFITS, _NUM_QUICK_REFITS = 3, 2
"""Fractions of a block's range that are tried, and the numbers of refits of each scale to its codes."""
_NUM_SAMPLED_BLOCKS = 64
_SHRINKS = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.8, 0.75, 0.7)
"""Fractions of the largest magnitude that are tried for narrow types, where outliers reduce the resolution."""


def weight_qparams(  # noqa: PLR0913  keywords, each documented
    layer: Layer,
    weight: Array,
    dtype: DType,
    *,
    per_channel: bool,
    block: int = 0,
    reach: str = "full",
    power_of_two: bool = False,
    half_scales: bool = False,
    least: Array | None = None,
    is_quick: bool = False,
) -> QuantizationParameters:
    """Return the qparams of a layer's weight: scales per channel, block or tensor; zero points for blocks only.

    Args:
        layer: the layer.
        weight: its elements.
        dtype: an integer type or a narrow float.
        per_channel: a scale per output channel.
        block: elements along the summed axis that share a scale; with few bits `reach` applies.
        reach: `full`, `reduced` (half of the codes), `pairs` (no two neighbours overflow 16 bits), or `zeros` (few-bit
            blocks have zero points).
        power_of_two: scales are powers of two.
        half_scales: scales of blocks are float16.
        least: minimum scale per output channel.
        is_quick: few scales are tried per block: a ninth of the time, for 0.2 dB.

    Raises:
        DiagnosticError: QUANT0015 it contains NaN or infinity.
    """
    for name, numbers in (("weight", weight), ("bias", layer.offsets())):
        if np.isfinite(numbers).all():
            continue
        message = f"the {name} of {layer.node.name or layer.node.output.name!r} contains NaN or infinity"
        raise DiagnosticError(
            Diagnostic("QUANT0015", message, layer.node.origin, "fix the weights, or train the model again")
        )
    if block:
        ways = _BlockWays(has_zeros=reach == "zeros", half_scales=half_scales, is_quick=is_quick)
        return _blocked(layer, weight, dtype, block, ways)
    others = tuple(i for i in range(weight.ndim) if i != layer.out_axis)
    bound = np.abs(weight).max(axis=others) if per_channel else np.abs(weight).max(initial=0.0)
    is_reduced = reach == "reduced" or (reach == "pairs" and layer.pairs_vary)
    if is_reduced:
        bound = bound * (127 / 63)
    elif reach == "pairs" and has_pairs(layer):
        sums = pair_sums(layer.matrix(weight)).max(axis=2, initial=0.0).reshape(-1)
        # Rounding adds up to half a step to each of the two.
        bound = np.maximum(bound, (sums if per_channel else sums.max(initial=0.0)) * 127 / (PAIR - 1))
    if dtype.bits < 8 and dtype.is_integer and per_channel:
        bound = _least_error(layer, weight, dtype, bound)
    if least is not None and dtype.is_integer:
        most = limits(dtype, symmetric=True)[1]
        bound = np.maximum(bound, (least if per_channel else least.max(initial=0.0)) * most)
    axis = layer.out_axis if per_channel else 0
    qparams = symmetric(bound, dtype, axis=axis, power_of_two=power_of_two)
    return replace(qparams, least=-PAIR // 2, most=PAIR // 2) if is_reduced and dtype is DType.INT8 else qparams


def by_group(qparams: QuantizationParameters, layer: Layer) -> QuantizationParameters:
    """Return `qparams` with one scale per group: the largest."""
    if layer.groups == 1 or layer.kind != "convolution" or qparams.block or qparams.scale.shape != (layer.channels,):
        return qparams
    largest = qparams.scale.reshape(layer.groups, -1).max(axis=1)
    return replace(qparams, scale=np.repeat(largest, layer.channels // layer.groups))


def has_pairs(layer: Layer) -> bool:
    """Whether 8-bit kernels add the products of adjacent depth indices in 16 bits; depthwise and transposed do not."""
    if layer.kind == "transposed":
        return False
    return layer.kind == "product" or not (layer.shape[1] == 1 and layer.groups == layer.shape[0])


def pair_sums(matrix: Array) -> Array:
    """Return |sum| of each adjacent pair of equal sign, else the larger magnitude: [groups, results, depth / 2]."""
    if matrix.shape[2] % 2:
        matrix = np.concatenate([matrix, np.zeros((*matrix.shape[:2], 1), matrix.dtype)], axis=2)
    first, second = matrix[..., 0::2], matrix[..., 1::2]
    return np.where(first * second >= 0, np.abs(first + second), np.maximum(np.abs(first), np.abs(second)))


def nearest(qparams: QuantizationParameters, layer: Layer, weight: Array, *, reach: str = "full") -> Array:
    """Return the nearest codes of `qparams`, in the layout of the weight."""
    parts = split_channels(layer)
    if len(parts) > 1:
        codes = np.empty(weight.shape, qparams.dtype.numpy)

        def round_part(rows: slice) -> None:
            where = along(layer, rows)
            qparams_of_rows = layer_channels(layer, rows)
            codes[where] = nearest(qparams_channels(layer, qparams, rows), qparams_of_rows, weight[where], reach=reach)

        mapped(round_part, parts)
        return codes
    codes = qparams.codes(weight)
    if reach != "pairs" or not has_pairs(layer) or not qparams.dtype.is_integer:
        return codes
    matrix = layer.matrix(codes).astype(np.int32)
    first, second = matrix[..., 0 : matrix.shape[2] - 1 : 2], matrix[..., 1::2]
    matrix[..., 1::2] = np.clip(second, -PAIR - np.minimum(first, 0), PAIR - np.maximum(first, 0))
    return layer.unmatrix(matrix).astype(codes.dtype)


class _BlockWays(NamedTuple):
    """How qparams of blocks are chosen; see `weight_qparams`."""

    has_zeros: bool = False
    half_scales: bool = False
    is_quick: bool = False


def _blocked(layer: Layer, weight: Array, dtype: DType, block: int, ways: _BlockWays) -> QuantizationParameters:
    slices = split_channels(layer)
    if len(slices) < 2:
        return block_qparams(weight, dtype, layer.in_axis, block, **ways._asdict())

    def qparams_of_rows(rows: slice) -> QuantizationParameters:
        return block_qparams(weight[along(layer, rows)], dtype, layer.in_axis, block, **ways._asdict())

    parts = mapped(qparams_of_rows, slices)
    scale, zero_point = (
        np.concatenate(each, axis=layer.out_axis)
        for each in ([part.scale for part in parts], [part.zero_point for part in parts])
    )
    return replace(parts[0], scale=scale, zero_point=zero_point)


def block_qparams(
    numbers: Array,
    dtype: DType,
    axis: int,
    block: int,
    *,
    has_zeros: bool = False,
    half_scales: bool = False,
    is_quick: bool = False,
) -> QuantizationParameters:
    """Return qparams of `numbers` with a scale and a zero point per `block` along `axis`."""
    moved = np.moveaxis(numbers, axis, -1)
    if missing := -numbers.shape[axis] % block:
        moved = np.pad(moved, [(0, missing if i == moved.ndim - 1 else 0) for i in range(moved.ndim)])
    blocks = np.ascontiguousarray(moved).reshape(*moved.shape[:-1], -1, block)
    if dtype.bits < 8 and dtype.is_integer:
        scale, zeros = least_squares(blocks, dtype, has_zeros=has_zeros, is_quick=is_quick)
        least, most = limits(dtype)
    else:
        qparams = symmetric(np.abs(blocks).max(axis=-1), dtype)
        scale, zeros, least, most = qparams.scale, qparams.zero_point, qparams.least, qparams.most
    if half_scales:
        scale = np.clip(scale.astype(np.float16), _LEAST_HALF, _MOST_HALF).astype(np.float32)
    scale, zeros = np.moveaxis(scale, -1, axis), np.moveaxis(zeros, -1, axis).astype(dtype.numpy)
    return QuantizationParameters(dtype, scale, zeros, least, most, axis, block)


def least_squares(
    blocks: Array, dtype: DType, *, has_zeros: bool = True, is_quick: bool = False
) -> tuple[Array, Array]:
    """Return scale and zero point with nearly the least squared error per block: [..., blocks] each.

    Symmetric ranges and fractions of them are tried, and with zero points those from minimum to maximum; each scale is
    then refitted to its codes while that helps. `is_quick` tries one fraction. Blocks of a GGUF file (Q4_0) keep their
    values.
    """
    least, most = limits(dtype)
    low, high = np.minimum(blocks.min(axis=-1), 0.0), np.maximum(blocks.max(axis=-1), 0.0)
    bound = np.maximum(-low, high)
    best = np.full(bound.shape, np.inf)
    scales, zeros = np.ones(bound.shape, np.float32), np.zeros(bound.shape, np.int32)
    middle = float((least + most + 1) // 2)
    starts = (
        [_outermost(bound, low, middle, middle - least)] if has_zeros and _are_codes(blocks, middle - least) else []
    )
    for fraction in (1.0,) if is_quick else _PARTS_OF_BLOCKS:
        around = np.maximum(bound * (2 * fraction / (most - least)), MIN_SCALE)
        wide = np.maximum((high - low) * (fraction / (most - least)), MIN_SCALE)
        # Both ends are clipped equally.
        offset = np.clip(np.rint(least - (low + (1 - fraction) / 2 * (high - low)) / wide), least, most)
        starts += [(around, np.full(bound.shape, middle, bound.dtype)), *([(wide, offset)] if has_zeros else [])]
    gap = np.empty_like(blocks)
    for scale, zero in starts:
        for _ in range(_NUM_QUICK_REFITS if is_quick else _NUM_REFITS):
            # In place: this dominates the time of weight quantization.
            counts: Array = blocks / scale[..., None]
            np.rint(counts, out=counts)
            counts += zero[..., None]
            np.clip(counts, least, most, out=counts)
            counts -= zero[..., None]
            np.multiply(counts, scale[..., None], out=gap)
            gap -= blocks
            error: Array = np.einsum("...i,...i->...", gap, gap)
            is_better = error < best
            best = np.where(is_better, error, best)
            scales = np.where(is_better, scale, scales)
            zeros = np.where(is_better, zero, zeros)
            squares: Array = np.einsum("...i,...i->...", counts, counts)
            fitted: Array = np.einsum("...i,...i->...", counts, blocks) / np.maximum(squares, 1)
            scale = np.where((squares > 0) & (fitted > MIN_SCALE), fitted, scale)  # noqa: PLW2901
    return scales.astype(np.float32), zeros.astype(np.int32)


def _are_codes(blocks: Array, half: float) -> bool:
    """Whether blocks are already quantized (GGUF): integer multiples of their largest magnitude over `half`."""
    sample = blocks.reshape(-1, blocks.shape[-1])[:_NUM_SAMPLED_BLOCKS]
    scale = np.maximum(np.abs(sample).max(axis=-1, keepdims=True) / half, MIN_SCALE)
    return bool(np.all(np.rint(sample / scale) * scale == sample))


def _outermost(bound: Array, low: Array, middle: float, half: float) -> tuple[Array, Array]:
    """Return scales and zero points that map the largest magnitude `bound` to a code `half` steps from zero.

    The zero point is `middle` for a negative extreme and `middle` - 1 for a positive one.
    """
    zero = np.where(-low >= bound, middle, middle - 1).astype(bound.dtype)
    return np.maximum(bound / half, MIN_SCALE), zero


def _least_error(layer: Layer, weight: Array, dtype: DType, bound: Array) -> Array:
    """Return per channel the bound with the least squared error among fractions of the largest magnitude."""
    others = tuple(i for i in range(weight.ndim) if i != layer.out_axis)
    errors = [
        np.sum(
            (symmetric(bound * qparams_of_rows, dtype, axis=layer.out_axis).nearest(weight) - weight) ** 2, axis=others
        )
        for qparams_of_rows in _SHRINKS
    ]
    return bound * np.asarray(_SHRINKS)[np.argmin(errors, axis=0)]
