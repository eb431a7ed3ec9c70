"""Resizing and sampling of PyTorch."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np

from graphport.core.dims import Dim, Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    called,
    emits,
    integers,
    length,
    scalar_of,
    static,
    weight_of,
)
from graphport.formats.pytorch.rules.functions.computed_lengths import computed_list, elements_of
from graphport.formats.pytorch.rules.functions.pooling import adaptive_avg_pool
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.resize_by_axes import Sampling, is_present, resized_by_axes
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reshape import Concat, Identity, Shape
from graphport.ops.definitions.resize import GridSample, Resize
from graphport.ops.lowering.operands import dtype_of, float_elements, vector
from graphport.ops.views.resize import ResizeView

_LINEAR = ("linear", "bilinear", "trilinear")
_MODES = ("nearest", "nearest-exact", "bicubic", *_LINEAR)
_SHARP, _SMOOTH = -0.75, -0.5
"""Cubic coefficient, without and with antialiasing."""


@emits("F.interpolate", "F.upsample", "nn.Upsample")
def interpolate(
    b: Builder,
    input: Value,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: Any = False,
) -> Value:
    """Interpolate; with `scale_factor` the coordinates depend on the factor, not on the output size."""
    dims = b.dims(input)
    count = len(dims) - 2
    if mode == "area":
        return adaptive_avg_pool(b, input, _sizes(b, input, size, scale_factor))
    if mode not in _MODES:
        message = f"unsupported mode {mode}"
        raise UnsupportedError(message)
    attributes = _points(mode, corners=bool(scalar_of(align_corners)), antialias=bool(scalar_of(antialias)))
    if scalar_of(antialias) and scalar_of(align_corners):
        message = "antialias together with align_corners, which PyTorch computes with half-pixel scales"
        raise UnsupportedError(message)
    axes = tuple(range(2, 2 + count))
    if size is not None or recompute_scale_factor:
        target = _lengths(b, input, size, scale_factor, count)
        return b(Resize, input, None, None, target, **attributes)
    factors = _factors(scale_factor, count)
    extents = [dims[axis] for axis in axes]
    whole = [f * n for f, n in zip(factors, extents, strict=True) if isinstance(n, int)]
    by_corners = attributes["coordinate_transformation_mode"] == "align_corners"
    if len(whole) == count and (by_corners or all(f == int(f) for f in whole)):
        # If sizes are exact, both computations agree.
        return b(Resize, input, None, None, _lengths(b, input, None, scale_factor, count), **attributes)
    scales = b.constant(np.array([1.0, 1.0, *factors]), DType.FLOAT32)
    return b(Resize, input, None, scales, None, **attributes)


def _points(mode: str, *, corners: bool, antialias: bool) -> dict[str, Any]:
    """Return the attributes of `Resize` for PyTorch's coordinates."""
    if mode == "nearest":
        return {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
    if mode == "nearest-exact":
        return {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    way = "align_corners" if corners else "half_pixel"
    return {
        "mode": "cubic" if mode == "bicubic" else "linear",
        "coordinate_transformation_mode": way,
        # Antialiasing kernels are truncated at the border.
        "antialias": 1 if antialias else None,
        "exclude_outside": 1 if antialias else None,
        "cubic_coeff_a": _SMOOTH if antialias and mode == "bicubic" else None,
    }


def _factors(scale_factor: Any, count: int) -> list[float]:
    if scale_factor is None:
        message = "size and scale_factor are both missing"
        raise UnsupportedError(message)
    given = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,)
    factors = [float(scalar_of(each)) for each in given]
    return factors * count if len(factors) == 1 else factors


def _sizes(b: Builder, x: Value, size: Any, scale_factor: Any) -> tuple[int, ...]:
    """Return the spatial sizes of the result.

    Raises:
        UnsupportedError: a size is not static.
    """
    dims = b.dims(x)
    count = len(dims) - 2
    if size is not None:
        return integers(size, count)
    factors = _factors(scale_factor, count)
    return tuple(floor(length(dims, axis + 2) * f) for axis, f in enumerate(factors))


def _lengths(b: Builder, x: Value, size: Any, scale_factor: Any, count: int) -> Value:
    """Return the shape of the result as a tensor."""
    dims = b.dims(x)
    if isinstance(size, Value) or (isinstance(size, tuple) and any(isinstance(each, Value) for each in size)):
        return b(Concat, b(Shape, x, start=0, end=2), lengths(b, size), axis=0)
    sizes = _sizes(b, x, size, scale_factor)
    if len(sizes) != count:
        message = f"{len(sizes)} sizes for {count} axes"
        raise UnsupportedError(message)
    if any(isinstance(dim, Symbolic) for dim in dims[:2]):
        return b(Concat, b(Shape, x, start=0, end=2), vector(b, sizes), axis=0)
    return vector(b, [length(dims, 0), length(dims, 1), *sizes])


PNNX.lower("""
F.upsample_nearest, nn.UpsamplingNearest2d(input, size=None, scale_factor=None)
    -> F.interpolate(input, size, scale_factor)
F.upsample_bilinear, nn.UpsamplingBilinear2d(input, size=None, scale_factor=None)
    -> F.interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
aten::_upsample_bilinear2d_aa(input, size=None, align_corners=False, scales: any = None, scales_w: ignored = None)
    -> size is None: F.interpolate(input, None, scales, mode="bilinear", align_corners=align_corners, antialias=True)
    -> F.interpolate(input, size, mode="bilinear", align_corners=align_corners, antialias=True)
aten::_upsample_bicubic2d_aa(input, size=None, align_corners=False, scales: any = None, scales_w: ignored = None)
    -> size is None: F.interpolate(input, None, scales, mode="bicubic", align_corners=align_corners, antialias=True)
    -> F.interpolate(input, size, mode="bicubic", align_corners=align_corners, antialias=True)
""")


@emits("F.grid_sample", "aten::grid_sampler")
def grid_sample(
    b: Builder,
    input: Value,
    grid: Value,
    mode: Any = "bilinear",
    padding_mode: Any = "zeros",
    align_corners: Any = False,
) -> Value:
    kinds = ("bilinear", "nearest", "bicubic")
    borders = ("zeros", "border", "reflection")
    stated = kinds[mode] if isinstance(mode, int) else mode
    border = borders[padding_mode] if isinstance(padding_mode, int) else padding_mode
    names = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    if stated not in names or border not in borders:
        message = f"unsupported: mode={mode}, padding_mode={padding_mode}"
        raise UnsupportedError(message)
    corners = 1 if align_corners is not None and scalar_of(align_corners) else None
    return b(GridSample, input, grid, mode=names[stated], padding_mode=border, align_corners=corners)


PNNX.having(lengths=lengths).lower("""
F.affine_grid, aten::affine_grid_generator(theta, size, align_corners=False)
    -> AffineGrid(theta, lengths(size), align_corners=1 if align_corners else None)
""")


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


_REFUSED = {"axes", "extrapolation_value", "keep_aspect_ratio_policy"}


@ResizeView.export_rule(DIALECT)
def export_resize(b: Builder, op: ResizeView) -> Value | None:
    """Export Resize by PyTorch's function if the coordinates agree; else per axis by gather or a matrix."""
    return _interpolated(b, op) or _by_axes(b, op)


def _by_axes(b: Builder, op: ResizeView) -> Value | None:
    way, given = op.coordinate_transformation_mode, op.scales if is_present(op.scales) else op.sizes
    is_cut = way == "tf_crop_and_resize" and (op.extrapolation_value or not is_present(op.roi))
    if (
        is_cut
        or given is None
        or float_elements(given) is None
        or not (op.mode == "nearest" or dtype_of(op.x).is_floating)
    ):
        return None
    stated = Sampling(way, op.mode, op.nearest_mode, op.cubic_coeff_a, bool(op.exclude_outside), bool(op.antialias))
    y = resized_by_axes(b, op.x, (op.roi, op.scales, op.sizes), stated, op.axes, op.keep_aspect_ratio_policy)
    return b(Identity, y) if y is op.x else y


def _interpolated(b: Builder, op: ResizeView) -> Value | None:
    """Export Resize by sizes or by non-integer factors."""
    x, sizes, mode, way, antialias = op.x, op.sizes, op.mode, op.coordinate_transformation_mode, op.antialias
    dims = b.dims(x)
    count = len(dims) - 2
    if not 1 <= count <= 3 or op.non_defaults().keys() & _REFUSED or antialias != op.exclude_outside:
        return None
    if mode == "cubic" and op.cubic_coeff_a != (_SMOOTH if antialias else _SHARP):
        return None
    name = _op_name(mode, way, op.nearest_mode, count)
    if name is None:
        return None
    corners = None if mode == "nearest" else way == "align_corners"
    more: dict[str, Any] = {"mode": name, "align_corners": corners, "antialias": True if antialias else None}
    target = static(sizes)
    if target is not None and target[:2] == dims[:2]:
        return called(b, "F.interpolate", input=x, size=target[2:], **more)
    if sizes is not None:
        found = _target(b, x, sizes)
        return None if found is None else called(b, "F.interpolate", input=x, size=found, **more)
    factors = None if op.scales is None else weight_of(op.scales)
    if factors is None or factors.count != count + 2:
        return None
    numbers = [float(factor) for factor in factors.numpy().tolist()]
    if numbers[:2] != [1, 1] or (corners and not all(map(_is_exact, dims[2:], numbers[2:]))):
        return None
    return called(b, "F.interpolate", input=x, scale_factor=tuple(numbers[2:]), **more)


def _is_exact(dim: Dim, factor: float) -> bool:
    """Whether factor * size is an integer.

    For other products, aligned corners differ: ONNX uses the product, PyTorch the rounded output size.
    """
    return float(factor * dim).is_integer() if isinstance(dim, int) else factor.is_integer()


def _target(b: Builder, x: Value, sizes: Value) -> Any:
    """Return computed sizes after batch and channels, which are unchanged."""
    dims, found = b.dims(x), elements_of(sizes)
    if found is None or found[:2] != dims[:2]:
        return None
    stated = computed_list(b, found[2:], x)
    count = len(found)
    return b(Slice, sizes, [2], [count], [0]) if stated is None else stated


def _op_name(mode: str, way: str, rounding: str, count: int) -> str | None:
    """Return PyTorch's name of an interpolation and coordinate mode."""
    if mode == "nearest":
        names = {("asymmetric", "floor"): "nearest", ("half_pixel", "round_prefer_ceil"): "nearest-exact"}
        return names.get((way, rounding))
    if way not in ("half_pixel", "align_corners"):
        return None
    return _LINEAR[count - 1] if mode == "linear" else "bicubic" if count == 2 else None


PNNX.having(static=lambda _, x: static(x)).export_rules("""
GridSample
    -> F.grid_sample(
        input=x, grid=grid, mode=mode if mode == "nearest" else "bilinear" if mode == "linear" else "bicubic",
        padding_mode=padding_mode, align_corners=align_corners != 0
    )
AffineGrid
    -> lengths = static(size); lengths is not None:
       F.affine_grid(theta=theta, size=lengths, align_corners=align_corners != 0)
""")
