"""Pictures in another size."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)


@of("opset1.Interpolate")
def by_axes(r: Draw, op_type: str) -> Case:
    """Axes as attributes, sizes as an operand."""
    shape = (r.number(1, 2), r.number(1, 2), *r.numbers(2, 5, 2))
    mode = r.one("nearest", "linear")
    sizes = r.operand(np.array(r.numbers(1, 8, 2), r.one("int64", "int32")), constant=1)
    flags: dict[str, Any] = {"axes": (2, 3), "mode": mode}
    if r.chance(0.7):
        flags["align_corners"] = r.one(True, False)
    return one(op_type, r.operand(r.reals(shape), dynamic=0), sizes, case={"tolerance": 1e-3}, **flags)


@of("opset4.Interpolate", "opset11.Interpolate")
def by_scales_or_sizes(r: Draw, op_type: str) -> Case:
    mode = r.one("nearest", "linear", "linear_onnx", "cubic")
    if op_type == "opset11.Interpolate" and r.chance(0.3):
        mode = r.one("bilinear_pillow", "bicubic_pillow")
    rank = 2
    shape = (r.number(1, 2), r.number(1, 2), *r.numbers(2, 5, rank))
    axes = np.array((2, 3))
    pads = [(0, 0, *r.numbers(0, 2, 2)) if r.chance(0.2) and "pillow" not in mode else (0,) * 4 for _ in range(2)]
    spatial = [shape[2 + k] + pads[0][2 + k] + pads[1][2 + k] for k in range(rank)]
    by_scales = r.chance()
    sizes = np.array(r.numbers(1, 8, rank))
    scales = np.array([r.one(0.5, 2.0, 1.5, 0.7, 1.0, 3.0) for _ in range(rank)], np.float32)
    if by_scales:
        sizes = np.floor(np.array(spatial) * scales.astype(np.float64) + 1e-5).astype(np.int64)
        scales = np.where(sizes < 1, np.float32(1), scales)
        sizes = np.maximum(np.floor(np.array(spatial) * scales.astype(np.float64)).astype(np.int64), 1)
    else:
        scales = (sizes / np.array(spatial)).astype(np.float32)
    flags: dict[str, Any] = {"mode": mode, "shape_calculation_mode": "scales" if by_scales else "sizes"}
    transform = r.one("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")
    flags["coordinate_transformation_mode"] = "half_pixel" if "pillow" in mode else transform
    flags["nearest_mode"] = r.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
    flags["antialias"] = mode in ("linear", "cubic") and r.chance(0.3)
    flags["pads_begin"], flags["pads_end"] = pads
    flags["cube_coeff"] = r.one(-0.75, -0.5)
    if not flags["antialias"] and r.chance():
        del flags["antialias"]
    x, kind = r.operand(r.reals(shape), dynamic=0), r.one("int64", "int32")
    places = constant(axes.astype(kind))
    if op_type == "opset11.Interpolate":
        held = r.operand(scales if by_scales else sizes.astype(kind), constant=1)
        return one(op_type, x, held, places, case={"tolerance": 1e-3}, **flags)
    both = [r.operand(sizes.astype(kind), constant=1), r.operand(scales, constant=1)]
    return one(op_type, x, *both, places, case={"tolerance": 1e-3}, **flags)
