"""Resizing and sampling of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import floor
from typing import Any

import numpy as np

from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import blob_dims, computed, emitted, static_sizes
from graphport.formats.ncnn.rules.shape_expressions import Length, joined, length_of, lengths_of_text
from graphport.formats.pytorch.rules.binding import length
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.decompositions.affine_grid import affine_grid_by_matrix
from graphport.ops.decompositions.resize_by_axes import Sampling, is_present, resized_by_axes
from graphport.ops.definitions.arithmetic import Mul
from graphport.ops.definitions.convolution import ConvTranspose
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Expand, Identity, Unsqueeze
from graphport.ops.definitions.resize import AffineGrid, Resize
from graphport.ops.lowering.operands import float_elements
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.resize import ResizeView

_MODES = {1: "nearest", 2: "linear", 3: "cubic"}
_PICTURE = 3
_BLOCKS = frozenset(
    product(("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"), ("round_prefer_floor", "round_prefer_ceil"))
)
"""Ways to place points, and to round them, with which lengths that are multiplied by an integer repeat each pixel."""


_FEWEST = 4
"""Points that the cubic interpolation of the runtime reads at once, also where there are fewer."""


@layer("Interp")
def interp(at: Layer) -> Value:
    """Interp to sizes or by factors: both axes of images, columns of matrices; vector elements expand to planes."""
    mode = at.choice(0, _MODES, "interpolation")
    b, rank = at.b, at.rank
    rows, columns = _sizes(at)
    if rank == 1:
        return b(Expand, b(Unsqueeze, at.x, [2, 3]), joined(at, [1, 1, rows, columns]))
    if rank > _PICTURE:
        message = f"interpolation of a blob of rank {rank}"
        raise UnsupportedError(message)
    if not isinstance(rows, int) or not isinstance(columns, int):
        return _resized_open(at, mode, rows, columns)
    lengths = at.lengths()
    target: list[int] = [*lengths[:-2], *([rows] if rank == _PICTURE else lengths[-2:-1]), columns]
    if target == lengths and mode != "cubic":
        return at.x
    moved = lengths[1 - rank :] if rank == _PICTURE else lengths[-1:]
    if mode == "cubic" and min(moved) < _FEWEST:
        message = f"cubic interpolation of an axis of size {min(moved)}, at least {_FEWEST} required"
        raise UnsupportedError(message)
    return _resized(at, mode, target)


def _placing(at: Layer, mode: str) -> dict[str, Any]:
    """Return ONNX Resize's attributes for the interpolation mode and the coordinate transformation."""
    if mode == "nearest":
        return {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return {"mode": mode, "coordinate_transformation_mode": "align_corners" if at.integer(6) else None}


def _resized_open(at: Layer, mode: str, rows: Length, columns: Length) -> Value:
    """Resize an image to run-time sizes.

    Raises:
        UnsupportedError: the blob is no image, or the mode is cubic.
    """
    if at.rank != _PICTURE or mode == "cubic":
        message = "interpolation to computed sizes supports linear and nearest modes of images only"
        raise UnsupportedError(message)
    target = joined(at, [1, length_of(at, 0, "c"), rows, columns])
    return at.b(Resize, at.x, None, None, target, **_placing(at, mode))


def _sizes(at: Layer) -> tuple[Length, Length]:
    """Return height and width of the result, as integers or run-time values."""
    text = at.text(9)
    if text is not None:
        found = lengths_of_text(at, text)
        return (1, found[0]) if len(found) == 1 else (found[1], found[0])
    if at.integer(5):
        if len(at.inputs) != 2:
            message = "the size depends on a second input blob, which is missing"
            raise ShapeError(message)
        other = at.b.dims(at.inputs[1])
        return length(other, len(other) - 2) if len(other) > _PICTURE - 1 else 1, length(other, len(other) - 1)
    if at.integer(3) and at.integer(4):
        return at.integer(3), at.integer(4)
    own: tuple[Length, Length] = (1, 1) if at.rank == 1 else (length_of(at, 0, "h"), length_of(at, 0, "w"))
    factors = (np.float32(at.float_value(1, 1.0)), np.float32(at.float_value(2, 1.0)))
    rows, columns = (_multiplied(at, n, factor) for n, factor in zip(own, factors, strict=True))
    return rows, columns


def _multiplied(at: Layer, extent: Length, factor: np.float32) -> Length:
    """Multiply a size by a factor and truncate.

    Raises:
        UnsupportedError: the size is a run-time value and the factor is not an integer.
    """
    if not isinstance(extent, Value):
        return int(np.float32(extent) * factor)
    if factor != int(factor):
        message = f"a dynamic size cannot be multiplied by {factor}; expected an integer factor"
        raise UnsupportedError(message)
    return at.b(Mul, extent, [int(factor)])


def _resized(at: Layer, mode: str, target: list[int]) -> Value:
    """Resize by factors if the layer has them, else by sizes; with aligned corners always by sizes."""
    b, attributes = at.b, _placing(at, mode)
    is_factor = at.parameters.get("9") is None and not at.integer(5) and not (at.integer(3) and at.integer(4))
    if not is_factor or (at.integer(6) and mode != "nearest"):
        return b(Resize, at.x, None, None, [1, *target], **attributes)
    factors = [1.0, 1.0, *([at.float_value(1, 1.0)] if at.rank == _PICTURE else []), at.float_value(2, 1.0)]
    if mode == "linear":
        # An axis that keeps its length keeps its points.
        dims = at.b.dims(at.x)
        factors = [1.0 if n == m else f for f, n, m in zip(factors, dims, [1, *target], strict=True)]
    return b(Resize, at.x, None, b.constant(np.array(factors), DType.FLOAT32), None, **attributes)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@ResizeView.export_rule("ncnn")
def export_resize(b: Builder, op: ResizeView) -> Value:
    """Export Resize by Interp, if its coordinates match; else per axis by gather or by a weight matrix."""
    x = op.x
    is_item = batch_of(x) == 0 and len(b.dims(x)) > 1
    lengths = blob_dims(b, x)
    if not all(isinstance(n, int) for n in [*lengths, *b.outcome.dims]):
        found = (_emit_symbolic_resize(b, op, lengths) or _enlarge_by_filter(b, op, lengths)) if is_item else None
        if found is None:
            message = f"{x.name} is {x.fact}: unsupported sampling coordinates, or sizes that are not constant"
            raise UnsupportedError(message)
        return found
    found = _emit_static_resize(b, op, static_sizes(x, lengths)) if is_item else None
    if found is not None:
        return found
    way = op.coordinate_transformation_mode
    if way == "tf_crop_and_resize" and (op.extrapolation_value or not is_present(op.roi)):
        message = "tf_crop_and_resize with an extrapolation value or without a constant roi"
        raise UnsupportedError(message)
    stated = Sampling(way, op.mode, op.nearest_mode, op.cubic_coeff_a, bool(op.exclude_outside), bool(op.antialias))
    given = op.scales if is_present(op.scales) else op.sizes
    if given is None or float_elements(given) is None:
        message = "scales and sizes are not constant"
        raise UnsupportedError(message)
    y = resized_by_axes(b, x, (op.roi, op.scales, op.sizes), stated, op.axes, op.keep_aspect_ratio_policy)
    return b(Identity, y) if y is x else y


AffineGrid.export_rule("ncnn")(affine_grid_by_matrix)


_CUBIC = -0.75
"""The coefficient of the layer's cubic kernel."""
_KINDS = {"coordinate_transformation_mode", "mode", "nearest_mode", "cubic_coeff_a"}
"""Resize attributes that the layer supports."""


def _emit_symbolic_resize(b: Builder, op: ResizeView, lengths: Sequence[Dim]) -> Value | None:
    """Return open sizes: integral multiples, or expressions over blob sizes."""
    x, way, mode, rounding = op.x, op.coordinate_transformation_mode, op.mode, op.nearest_mode
    if len(lengths) != _PICTURE or op.non_defaults().keys() - _KINDS or mode == "cubic":
        return None
    kind: dict[str, Any] = {"p0": 1} if mode == "nearest" else {"p0": 2, "p6": int(way == "align_corners")}
    storage = None if op.scales is None else folded(op.scales)
    factors = [] if storage is None else [float(n) for n in storage.numpy().reshape(-1)]
    is_whole = len(factors) == len(lengths) + 1 and factors[:2] == [1, 1] and all(n == int(n) for n in factors)
    ways = ("half_pixel", "pytorch_half_pixel", "align_corners")
    is_fit = (way, rounding) == ("asymmetric", "floor") if mode == "nearest" else way in ways
    if is_whole and (is_fit or (mode == "nearest" and (way, rounding) in _BLOCKS)):
        return emitted(b, "Interp", x, p1=factors[2], p2=factors[3], **kind)
    target = op.sizes.fact.elements if op.sizes and isinstance(op.sizes.fact, TensorFact) else None
    if target is None and not is_present(op.sizes):
        target = b.outcome.shape
        x = _crop_to_multiple(b, x, factors, target) if way != "align_corners" else x
        # The layer's coordinates follow from the sizes, which have the ratio of the factors if they are multiples.
        is_fit = is_fit and all(m % n == 0 or n % m == 0 for n, m in zip(b.dims(x), target or (), strict=False))
    if not is_fit or target is None or target[: len(target) - 2] != b.dims(x)[:2]:
        return None
    if b.dims(x)[2:] == (1, 1):
        kind = {"p0": 1}
    text, blobs = computed(b, target[:1:-1], x)
    return emitted(b, "Interp", *blobs, fact=b.outcome, p9=text, **kind)


def _enlarge_by_filter(b: Builder, op: ResizeView, lengths: Sequence[Dim]) -> Value | None:
    """Export interpolation by integer factors as a transposed convolution of each channel.

    Element i of an axis adds h((j + c) / s + d - i) to element j of the result, where h is the interpolation kernel, s
    the factor and (c, d) are (0.5, -0.5) for pixel centers, else 0. Edge padding replaces the clamped coordinates.
    """
    is_centered = op.coordinate_transformation_mode in ("half_pixel", "pytorch_half_pixel")
    is_known = is_centered or op.coordinate_transformation_mode == "asymmetric"
    factors = None if op.scales is None else float_elements(op.scales)
    if factors is None or len(lengths) != _PICTURE or op.mode == "nearest" or op.non_defaults().keys() - _KINDS:
        return None
    steps = [int(n) for n in factors]
    channels = lengths[0]
    if (
        not is_known
        or len(steps) != 4
        or steps[:2] != [1, 1]
        or steps != list(factors)
        or not isinstance(channels, int)
    ):
        return None
    axes = [_filter(step, op.mode, op.cubic_coeff_a, 0.5 if is_centered else 0.0) for step in steps[2:]]
    edges = [[pads[0] for _, pads, _ in axes], [pads[1] for _, pads, _ in axes]]
    crops = [crop for _, _, crop in axes]
    kernel = np.multiply.outer(axes[0][0], axes[1][0]).astype(np.float32)
    x = b(Pad, op.x, [0, 0, *edges[0], 0, 0, *edges[1]], mode="edge")
    weight = b.constant(np.broadcast_to(kernel, (channels, 1, *kernel.shape)).copy())
    pads = (*(begin for begin, _ in crops), *(end for _, end in crops))
    return b(ConvTranspose, x, weight, group=channels, strides=tuple(steps[2:]), pads=pads)


def _filter(step: int, mode: str, a: float, center: float) -> tuple[np.ndarray, tuple[int, int], tuple[int, int]]:
    """Return the filter of one axis, the padding of its input and the crop of its output, begin and end each."""
    reach = 1 if mode == "linear" else 2
    taps = [t for t in range(-3 * step, 3 * step + 1) if abs((t + center) / step - center) < reach]
    u = np.abs((np.array(taps) + center) / step - center)
    inner, outer = ((a + 2) * u - (a + 3)) * u * u + 1, ((a * u - 5 * a) * u + 8 * a) * u - 4 * a
    weights = 1 - u if mode == "linear" else np.where(u <= 1, inner, outer)
    before, after = max(taps[-1] // step, 0), max((step - 1 - taps[0]) // step, 0)
    begin = step * before - taps[0]
    return weights, (before, after), (begin, (before + after - 1) * step + len(taps) - begin)


def _crop_to_multiple(b: Builder, x: Value, factors: Sequence[float], target: Sequence[Dim] | None) -> Value:
    """Crop height and width to multiples of the integers that they are divided by; no sample is beyond them."""
    dims, steps = b.dims(x), [round(1 / n) if n else 0 for n in factors]
    if target is None or len(steps) != len(dims) or any(n * s != 1 for n, s in zip(factors, steps, strict=True)):
        return x
    stops = [n * s for n, s in zip(target[2:], steps[2:], strict=True)]
    if stops == list(dims[2:]):
        return x
    text, blobs = computed(b, stops, x)
    fact = TensorFact(DType.FLOAT32, (*dims[:2], *stops))
    zeros, axes = (computed(b, numbers)[0] for numbers in ((0, 0), (1, 2)))
    return emitted(b, "Crop", *blobs, fact=fact, p19=zeros, p20=text, p21=axes)


def _emit_static_resize(b: Builder, op: ResizeView, lengths: list[int]) -> Value | None:
    x, way, mode, rounding = op.x, op.coordinate_transformation_mode, op.mode, op.nearest_mode
    if len(lengths) != 3 or op.non_defaults().keys() - _KINDS - {"axes"}:
        return None
    if mode == "cubic" and op.cubic_coeff_a != _CUBIC:
        return None
    target = _target(lengths, op.scales, op.sizes, op.axes)
    if target is None or target[0] != lengths[0]:
        return None
    height, width = target[1:]
    if mode == "nearest":
        whole = height % lengths[1] == 0 and width % lengths[2] == 0
        # With integral upscaling, samples are never halfway between two pixel centers.
        is_block = whole and (way, rounding) in _BLOCKS
        if (way, rounding) != ("asymmetric", "floor") and not is_block:
            return None
        return emitted(b, "Interp", x, p0=1, p3=height, p4=width)
    if way not in ("half_pixel", "pytorch_half_pixel", "align_corners") or min(height, width) < 2:
        return None
    return emitted(b, "Interp", x, p0=3 if mode == "cubic" else 2, p3=height, p4=width, p6=int(way == "align_corners"))


def _target(
    lengths: list[int], scales: Value | None, sizes: Value | None, axes: tuple[int, ...] | None
) -> list[int] | None:
    """Return the output sizes [C, H, W]; `None` if a scale times a size is not an integer or the batch changes."""
    resized_axes = tuple(range(4)) if axes is None else tuple(axis % 4 for axis in axes)
    found = [1, *lengths]
    if sizes is not None:
        numbers = constant_numbers(sizes)
        if numbers is None or len(numbers) != len(resized_axes):
            return None
        for place, number in zip(resized_axes, numbers, strict=True):
            found[place] = int(number)
        return found[1:] if found[0] == 1 else None
    storage = None if scales is None else folded(scales)
    if storage is None or storage.count != len(resized_axes):
        return None
    for place, factor in zip(resized_axes, storage.numpy().tolist(), strict=True):
        extent = found[place]
        found[place] = floor(extent * factor + 1e-6)
        if abs(found[place] - extent * factor) > 1e-4:
            return None
    return found[1:] if found[0] == 1 else None
