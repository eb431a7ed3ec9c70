"""Boxes, regions, attention, spectra: operations from NonMaxSuppression on that detectors and transformers have."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Array, Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}

of = register(GENERATORS)


def boxes(r: Draw, shape: tuple[int, ...], size: float = 1.0) -> Array:
    """Boxes by two corners."""
    first = r.random.random((*shape, 2)) * size * 0.7
    return np.concatenate([first, first + r.random.random((*shape, 2)) * size * 0.4 + 0.02], -1).astype("float32")


@of(*(f"opset{n}.NonMaxSuppression" for n in (1, 3, 4, 5, 9)))
def suppression(r: Draw, op_type: str) -> Case:
    """Results of a length that the run tells are in versions 5 and 9 only; before, the rest is -1."""
    batches, classes, count = r.number(1, 2), r.number(1, 3), r.number(1, 8)
    centred = r.chance(0.3)
    places = boxes(r, (batches, count))
    if centred:
        places = np.concatenate([(places[..., :2] + places[..., 2:]) / 2, places[..., 2:] - places[..., :2]], -1)
    scores = r.random.permutation(batches * classes * count).reshape(batches, classes, count) / 100
    operands = [r.operand(places.astype("float32"), dynamic=0.2), r.operand(scores.astype("float32"), dynamic=0.2)]
    ends = [
        np.array(r.one(1, 2, 3, 100), r.one("int64", "int32")),
        np.array(r.one(0.1, 0.3, 0.5, 0.7), "float32"),
        np.array(r.one(0.0, 0.02, 0.05), "float32"),
    ]
    is_soft = op_type in ("opset5.NonMaxSuppression", "opset9.NonMaxSuppression")
    if is_soft and r.chance(0.3):
        ends.append(np.array(r.one(0.0, 0.5), "float32"))
    operands += [r.operand(end, constant=0.9) for end in ends[: len(ends) if r.chance(0.8) else r.number(2, 3)]]
    flags: dict[str, Any] = {"box_encoding": "center" if centred else "corner"}
    if r.chance(0.8):
        flags["sort_result_descending"] = r.one(True, False)
    if op_type != "opset1.NonMaxSuppression" and r.chance():
        flags["output_type"] = r.one("i32", "i64")
    return one(op_type, *operands, results=3 if is_soft else 1, **flags)


@of("opset13.NMSRotated")
def rotated(r: Draw, op_type: str) -> Case:
    batches, classes, count = r.number(1, 2), r.number(1, 2), r.number(1, 5)
    places = np.concatenate(
        [r.random.random((batches, count, 2)) * 4, r.random.random((batches, count, 2)) * 3 + 0.5], -1
    )
    places = np.concatenate([places, r.random.random((batches, count, 1)) * 3 - 1.5], -1).astype("float32")
    scores = (r.random.permutation(batches * classes * count) / 50).reshape(batches, classes, count).astype("float32")
    ends = [np.array(r.one(1, 2, 10), "int64"), np.array(r.one(0.1, 0.4), "float32"), np.array(0.01, "float32")]
    flags = {"sort_result_descending": r.one(True, False), "output_type": r.one("i32", "i64")}
    return one(op_type, places, scores, *map(constant, ends), results=3, clockwise=r.one(True, False), **flags)


@of("opset8.NV12toBGR", "opset8.NV12toRGB")
def nv12(r: Draw, op_type: str) -> Case:
    n, h, w = r.number(1, 2), 2 * r.number(1, 3), 2 * r.number(1, 3)
    kind = r.one("uint8", "float32")
    if r.chance():
        return one(op_type, r.integers((n, h * 3 // 2, w, 1), 0, 255, kind), case={"tolerance": 1e-2})
    planes = r.integers((n, h, w, 1), 0, 255, kind), r.integers((n, h // 2, w // 2, 2), 0, 255, kind)
    return one(op_type, *planes, case={"tolerance": 1e-2})


_PRIORS: dict[str, tuple[Any, ...]] = {
    "min_size": ((), (2.0,), (2.0, 4.0)),
    "aspect_ratio": ((), (2.0,), (2.0, 0.5)),
    "density": ((),),
    "variance": ((), (0.1,), (0.1, 0.1, 0.2, 0.2)),
}


@of("opset1.PriorBox", "opset8.PriorBox")
def prior_box(r: Draw, op_type: str) -> Case:
    flags: dict[str, Any] = {name: r.one(*choices) for name, choices in _PRIORS.items()}
    if len(flags["min_size"]) == 1 and r.chance():
        flags["max_size"] = tuple(n + 3 for n in flags["min_size"])
    if not flags["min_size"]:
        flags |= {"fixed_size": (3.0,), "density": (r.one(1.0, 2.0),)}
        if r.chance():
            flags["fixed_ratio"] = r.one((1.0,), (1.0, 2.0))
    flags |= {name: r.one(True, False) for name in ("clip", "flip", "scale_all_sizes") if r.chance(0.7)}
    if op_type == "opset8.PriorBox" and r.chance():
        flags["min_max_aspect_ratios_order"] = r.one(True, False)
    flags |= {"step": r.one(0.0, 4.0), "offset": r.one(0.0, 0.5)}
    sizes = [constant(np.array(r.numbers(low, high, 2), "int64")) for low, high in ((1, 3), (8, 12))]
    return one(op_type, *sizes, **flags)


@of("opset1.PriorBoxClustered")
def prior_clustered(r: Draw, op_type: str) -> Case:
    count = r.number(1, 3)
    flags: dict[str, Any] = {name: tuple(float(r.number(1, 6)) for _ in range(count)) for name in ("width", "height")}
    flags |= {
        "clip": r.one(True, False),
        "offset": r.one(0.0, 0.5),
        "variance": r.one((), (0.1,), (0.1, 0.1, 0.2, 0.2)),
    }
    flags |= {name: r.one(0.0, 4.0) for name in ("step", "step_w", "step_h") if r.chance()}
    sizes = [constant(np.array(r.numbers(low, high, 2), "int64")) for low, high in ((1, 3), (8, 12))]
    return one(op_type, *sizes, **flags)


@of("opset1.PSROIPooling")
def position_sensitive(r: Draw, op_type: str) -> Case:
    group, out = r.number(1, 3), r.number(1, 2)
    flags = {"output_dim": out, "group_size": group, "spatial_scale": 1.0, "mode": "average"}
    rois = np.concatenate([np.zeros((3, 1)), np.round(boxes(r, (3,), 8.0))], -1)
    return one(op_type, r.reals((1, out * group * group, 8, 9)), rois.astype("float32"), **flags)


@of("opset3.ROIAlign", "opset9.ROIAlign")
def roi_align(r: Draw, op_type: str) -> Case:
    rois = boxes(r, (3,), r.one(6.0, 16.0)) - r.one(0, 1)
    owners = r.integers((3,), 0, 1, r.one("int32", "int64"))
    flags: dict[str, Any] = {"pooled_h": r.number(1, 3), "pooled_w": r.number(1, 3), "sampling_ratio": r.number(1, 2)}
    flags |= {"spatial_scale": r.one(1.0, 0.5), "mode": r.one("avg", "max")}
    if op_type == "opset9.ROIAlign" and r.chance(0.8):
        flags["aligned_mode"] = r.one("asymmetric", "half_pixel", "half_pixel_for_nn")
    x = r.operand(r.reals((2, r.number(1, 3), 6, 7)), dynamic=0.2)
    return one(op_type, x, r.operand(rois.astype("float32"), dynamic=0), r.operand(owners, dynamic=0.1), **flags)


@of("opset15.ROIAlignRotated")
def roi_align_rotated(r: Draw, op_type: str) -> Case:
    """Regions reach beyond the map, and some have no extent."""
    count = r.number(1, 3)
    parts = r.random.random((count, 5)) * np.array([8, 7, r.one(3, 9), r.one(3, 9), 8]) - np.array([1, 1, 0, 0, 4])
    if r.chance(0.2):
        parts[0, r.number(2, 3)] = 0
    dtype = r.one("float32", "float32", "float16")
    owners = r.integers((count,), 0, 1, r.one("int32", "int64"))
    flags: dict[str, Any] = {"pooled_h": r.number(1, 3), "pooled_w": r.number(1, 3), "sampling_ratio": r.number(0, 3)}
    flags |= {"spatial_scale": r.one(1.0, 0.5, 1.7), "clockwise_mode": r.one(True, False)}
    x = r.operand(r.reals((2, *r.numbers(1, 3, 1), *r.numbers(1, 8, 2)), dtype), constant=0.1)
    regions = r.operand(parts.astype(dtype), constant=0.2)
    tolerance = 1e-3 if dtype == "float32" else 1e-2
    return one(op_type, x, regions, r.operand(owners, constant=0.2), case={"tolerance": tolerance}, **flags)


@of("opset2.ROIPooling")
def roi_pooling(r: Draw, op_type: str) -> Case:
    method = r.one("max", "bilinear")
    size = 1.0 if method == "bilinear" else 7.0
    places = boxes(r, (3,), size) if method == "bilinear" else np.round(boxes(r, (3,), size))
    rois = np.concatenate([r.integers((3, 1), 0, 1), places], -1).astype("float32")
    pooled = {"pooled_h": r.number(1, 3), "pooled_w": r.number(1, 3)}
    flags: dict[str, Any] = {"spatial_scale": 1.0, "method": method, **pooled}
    flags["output_roi"] = flags["output_size"] = tuple(pooled.values())
    return one(op_type, r.reals((2, 2, 7, 8)), rois, **flags)


@of("opset1.RegionYolo")
def region_yolo(r: Draw, op_type: str) -> Case:
    classes, coords, num = r.number(1, 3), 4, r.number(1, 3)
    softmax = r.chance()
    mask = tuple(range(r.number(1, num)))
    count = num if softmax else len(mask)
    axis = r.one(1, 1, 2)
    flags = {"anchors": tuple(float(k + 1) for k in range(2 * num)), "axis": axis, "coords": coords, "classes": classes}
    flags |= {"end_axis": r.one(3, -1), "num": num, "do_softmax": softmax, "mask": mask}
    return one(op_type, r.operand(r.reals((r.number(1, 2), count * (classes + coords + 1), 3, 2)), dynamic=0), **flags)


@of("opset2.ReorgYolo")
def reorg_yolo(r: Draw, op_type: str) -> Case:
    k = r.number(1, 2)
    shape = (r.number(1, 2), k * k * r.number(1, 2), k * r.number(1, 3), k * r.number(1, 3))
    return one(op_type, r.operand(r.reals(shape), dynamic=0), stride=(k,))


@of("opset13.ScaledDotProductAttention")
def attention(r: Draw, op_type: str) -> Case:
    front = r.one((2,), (1, 2), (2, 3))
    queries, keys, width, out = r.number(1, 4), r.number(1, 5), r.number(1, 4), r.number(1, 4)
    dtype = r.one("float32", "float32", "float16")
    operands = [r.reals((*front, n, w), dtype) for n, w in ((queries, width), (keys, width), (keys, out))]
    causal = r.chance(0.4)
    given: list[Any] = [r.operand(x, dynamic=0.3) for x in operands]
    if r.chance(0.6):
        shape = r.one((queries, keys), (*front, queries, keys), (1, keys), (*[1] * len(front), queries, keys))
        mask = r.reals(shape, dtype)
        if r.chance(0.4):
            mask = r.integers(shape, 0, 1, np.bool_)
            mask[..., 0] = True
        given.append(r.operand(mask, constant=0.3, dynamic=0.2))
        if r.chance(0.3):
            given.append(r.operand(np.array(r.one(0.5, 1.0, 0.1)).astype(dtype), constant=0.7))
    return one(op_type, *given, causal=causal, case={"tolerance": 1e-3 if dtype == "float32" else 1e-2})


@of("opset9.RDFT")
def rdft(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    chosen = r.random.permutation(len(shape))[: r.number(1, len(shape))]
    axes = np.array([int(k) - len(shape) if r.chance(0.3) else int(k) for k in chosen], "int64")
    operands = [r.operand(r.reals(shape), dynamic=0.2), constant(axes)]
    if r.chance(0.4):
        operands.append(constant(np.array([r.one(shape[k], shape[k] + 2, max(shape[k] - 1, 1)) for k in chosen])))
    return one(op_type, *operands, case={"tolerance": 1e-3})


@of("opset15.STFT")
def stft(r: Draw, op_type: str) -> Case:
    size, step = r.number(2, 6), r.number(1, 4)
    frames, batch = size + r.number(0, 9), r.one((), (2,))
    window = r.reals((r.number(1, size),))
    ends = [constant(np.array(n, r.one("int64", "int32"))) for n in (size, step)]
    signal = r.reals((*batch, frames))
    flags = {"transpose_frames": r.one(True, False)}
    return one(op_type, signal, constant(window), *ends, case={"tolerance": 1e-3}, **flags)
