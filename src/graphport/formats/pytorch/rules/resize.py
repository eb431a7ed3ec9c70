"""Resize and sampling operators of exported programs; the op type contains mode and rank."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.functions.resize import interpolate
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder

_WORDS = {
    "nearest1d": "nearest",
    "nearest2d": "nearest",
    "nearest3d": "nearest",
    "_nearest_exact1d": "nearest-exact",
    "_nearest_exact2d": "nearest-exact",
    "_nearest_exact3d": "nearest-exact",
    "linear1d": "linear",
    "bilinear2d": "bilinear",
    "trilinear3d": "trilinear",
    "bicubic2d": "bicubic",
}


def _resized(
    mode: str,
    antialias: bool,
    b: Builder,
    input: Value,
    output_size: Any = None,
    align_corners: Any = None,
    scale_factors: Any = None,
    scales: Any = None,
    scales_d: Any = None,
    scales_h: Any = None,
    scales_w: Any = None,
) -> Value:
    """Resize to `output_size`, or by scales; if both are present, the scales determine the coordinates."""
    size = None if output_size is None else tuple(output_size) if is_sequence(output_size) else output_size
    given = [each for each in (scales, scales_d, scales_h, scales_w) if each is not None]
    rank = len(b.dims(input)) - 2
    factors = scale_factors or (tuple(given) if len(given) == rank else None)
    corners = align_corners if align_corners is not None and scalar_of(align_corners) else None
    if factors is not None and not corners:
        return interpolate(b, input, None, tuple(factors), mode, corners, antialias=antialias)
    if size is None:
        return interpolate(b, input, None, tuple(factors or ()), mode, corners, antialias=antialias)
    return interpolate(b, input, size, None, mode, corners, antialias=antialias)


for _name, _mode in _WORDS.items():
    _word = f"aten._upsample{_name}" if _name.startswith("_") else f"aten.upsample_{_name}"
    aten(_word, by_position=False)(partial(_resized, _mode, False))
for _name in ("bilinear2d", "bicubic2d"):
    aten(f"aten._upsample_{_name}_aa", by_position=False)(partial(_resized, _WORDS[_name], True))


RULES.lower("""
aten.grid_sampler, aten.grid_sampler_2d,
    aten.grid_sampler_3d(input, grid, interpolation_mode=0, padding_mode=0, align_corners: any = False)
    -> F.grid_sample(input, grid, interpolation_mode, padding_mode, align_corners)
""")
