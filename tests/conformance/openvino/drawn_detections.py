"""Boxes, proposals and color conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Array, Case, Layer, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)

CLOSE = {"tolerance": 1e-3}


def boxes(r: Draw, shape: tuple[int, ...], size: float = 1.0) -> Array:
    """Corners of boxes, the least first."""
    first = r.random.random((*shape, 2)) * 0.6 * size
    return np.concatenate([first, first + (0.1 + 0.4 * r.random.random((*shape, 2))) * size], -1).astype(np.float32)


def _some(r: Draw, flags: dict[str, Any], part: float = 0.7) -> dict[str, Any]:
    return {name: each for name, each in flags.items() if r.chance(part)}


@of("opset8.MatrixNms")
def matrix_nms(r: Draw, op_type: str) -> Case:
    batch, classes, count = r.number(1, 2), r.number(1, 3), r.number(1, 6)
    flags: dict[str, Any] = {"sort_result_type": r.one("classid", "score", "none"), "output_type": r.one("i64", "i32")}
    flags |= {"nms_top_k": r.one(-1, 2, 10), "keep_top_k": r.one(-1, 3, 10), "score_threshold": r.one(0.0, 0.3)}
    flags |= {
        "sort_result_across_batch": r.one(True, False),
        "background_class": r.one(-1, 0) if classes > 1 else -1,
        "normalized": r.one(True, False),
    }
    flags |= {
        "decay_function": r.one("gaussian", "linear"),
        "gaussian_sigma": r.one(2.0, 0.5),
        "post_threshold": r.one(0.0, 0.2),
    }
    scores = r.random.random((batch, classes, count)).astype(np.float32)
    return one(
        op_type, r.operand(boxes(r, (batch, count))), r.operand(scores), results=3, case=CLOSE, **_some(r, flags)
    )


@of("opset8.MulticlassNms", "opset9.MulticlassNms")
def multiclass_nms(r: Draw, op_type: str) -> Case:
    batch, classes, count = r.number(1, 2), r.number(1, 3), r.number(1, 6)
    flags: dict[str, Any] = {"sort_result_type": r.one("classid", "score", "none"), "output_type": r.one("i64", "i32")}
    flags |= {"nms_top_k": r.one(-1, 2, 10), "keep_top_k": r.one(-1, 3, 10), "score_threshold": r.one(0.0, 0.3)}
    flags |= {
        "sort_result_across_batch": r.one(True, False),
        "background_class": r.one(-1, 0) if classes > 1 else -1,
        "normalized": r.one(True, False),
    }
    flags |= {"iou_threshold": r.one(0.0, 0.3, 0.6), "nms_eta": r.one(1.0, 0.8)}
    kept = _some(r, flags)
    if op_type == "opset9.MulticlassNms" and r.chance(0.3):
        counts = r.integers((batch,), 0, 3, np.int32)
        total = max(int(counts.sum()), 1)
        counts[0] += total - int(counts.sum())
        scores = r.random.random((classes, total)).astype(np.float32)
        return one(op_type, boxes(r, (classes, total)), scores, counts, results=3, case=CLOSE, **kept)
    scores = r.random.random((batch, classes, count)).astype(np.float32)
    return one(op_type, r.operand(boxes(r, (batch, count))), r.operand(scores), results=3, case=CLOSE, **kept)


@of("opset1.DetectionOutput", "opset8.DetectionOutput")
def detection_output(r: Draw, op_type: str) -> Case:
    batch, priors, classes = r.number(1, 2), r.number(2, 6), r.number(2, 4)
    share, encoded, normalized = r.chance(0.7), r.chance(0.4), r.chance(0.7)
    height, width = (1, 1) if normalized else (20, 30)
    places = 1 if share else classes
    moves = r.reals((batch, priors * places * 4), spread=0.3)
    scores = r.random.random((batch, priors * classes)).astype(np.float32)
    held = boxes(r, (r.one(1, batch), priors), 1.0 if normalized else 20.0)
    if not normalized:
        held = np.concatenate([np.zeros((*held.shape[:2], 1), np.float32), held], -1)
    rows = held.reshape(held.shape[0], 1, -1)
    if not encoded:
        spread = np.full((held.shape[0], 1, priors * held.shape[-1]), 0.1, np.float32)
        if not normalized:
            spread = spread[..., : priors * held.shape[-1]]
        rows = np.concatenate([rows, spread], 1)
    flags: dict[str, Any] = {"keep_top_k": (r.one(-1, 3, 6),), "nms_threshold": r.one(0.4, 0.6)}
    flags |= {"share_location": share, "variance_encoded_in_target": encoded, "normalized": normalized}
    flags |= {"input_height": height, "input_width": width, "top_k": r.one(-1, 4)}
    flags["code_type"] = "caffe.PriorBoxParameter." + r.one("CORNER", "CENTER_SIZE")
    flags |= _some(r, {"background_label_id": r.one(0, -1, 1), "confidence_threshold": r.one(0.0, 0.3)})
    flags |= _some(r, {"clip_after_nms": r.one(True, False), "clip_before_nms": r.one(True, False)}, 0.5)
    flags |= _some(r, {"decrease_label_id": r.chance()} if flags.get("background_label_id", 0) == 0 else {}, 0.3)
    if op_type == "opset1.DetectionOutput":
        flags["num_classes"] = classes
    return one(op_type, r.operand(moves), r.operand(scores), r.operand(rows), case=CLOSE, **flags)


@of("opset6.ExperimentalDetectronDetectionOutput")
def detectron_output(r: Draw, op_type: str) -> Case:
    count, classes = r.number(2, 6), r.number(2, 4)
    rois, size = boxes(r, (count,), 20.0), np.array([[24.0, 30.0, 1.0]], np.float32)
    moves = r.reals((count, classes * 4), spread=0.5)
    scores = r.random.random((count, classes)).astype(np.float32)
    flags: dict[str, Any] = {"score_threshold": 0.2, "nms_threshold": r.one(0.3, 0.5), "max_delta_log_wh": 2.0}
    flags |= {"num_classes": classes, "post_nms_count": r.one(3, 10), "max_detections_per_image": r.one(2, 5, 8)}
    flags |= {"class_agnostic_box_regression": False, "deltas_weights": (10.0, 10.0, 5.0, 5.0)}
    return one(op_type, rois, moves, scores, size, results=3, case=CLOSE, **flags)


@of("opset6.ExperimentalDetectronGenerateProposalsSingleImage")
def detectron_proposals(r: Draw, op_type: str) -> Case:
    anchors, height, width = r.number(1, 3), r.number(2, 4), r.number(2, 4)
    held = boxes(r, (height * width * anchors,), 20.0)
    moves, scores = r.reals((4 * anchors, height, width), spread=0.3), r.random.random((anchors, height, width))
    flags = {
        "min_size": r.one(0.0, 3.0),
        "nms_threshold": 0.6,
        "post_nms_count": r.one(3, 8),
        "pre_nms_count": r.one(6, 20),
    }
    size = np.array([24.0, 30.0, 1.0], np.float32)
    return one(op_type, size, held, moves, scores.astype(np.float32), results=2, case=CLOSE, **flags)


@of("opset6.ExperimentalDetectronPriorGridGenerator")
def detectron_grid(r: Draw, op_type: str) -> Case:
    held, picture = boxes(r, (r.number(1, 3),), 10.0), r.reals((1, 3, 40, 48))
    features = r.reals((1, 4, *r.numbers(2, 4, 2)))
    flags = {
        "flatten": r.one(True, False),
        "stride_x": r.one(0.0, 4.0),
        "stride_y": r.one(0.0, 8.0),
    }
    return one(op_type, held, features, picture, case=CLOSE, **flags)


@of("opset6.ExperimentalDetectronROIFeatureExtractor")
def detectron_features(r: Draw, op_type: str) -> Case:
    levels, count = r.number(1, 3), r.number(1, 4)
    rois = boxes(r, (count,), 64.0)
    maps = [r.reals((1, 2, 16 >> k, 16 >> k)) for k in range(levels)]
    flags = {"output_size": r.one(2, 3), "sampling_ratio": r.one(1, 2), "aligned": r.one(True, False)}
    flags["pyramid_scales"] = tuple(4 << k for k in range(levels))
    return one(op_type, rois, *maps, results=2, case=CLOSE, **flags)


@of("opset6.ExperimentalDetectronTopKROIs")
def detectron_top(r: Draw, op_type: str) -> Case:
    count = r.number(1, 6)
    scores = r.random.permutation(count).astype(np.float32)
    return one(op_type, r.operand(boxes(r, (count,))), r.operand(scores), max_rois=r.number(1, count))


@of("opset1.Proposal", "opset4.Proposal")
def proposal(r: Draw, op_type: str) -> Case:
    ratios, scales = (
        tuple(sorted(r.random.choice(each, r.number(1, 2), replace=False)))
        for each in ((0.5, 1.0, 2.0), (2.0, 4.0, 8.0))
    )
    anchors, height, width = len(ratios) * len(scales), r.number(2, 4), r.number(2, 4)
    scores = r.random.permutation(2 * anchors * height * width) / (2.0 * anchors * height * width)
    moves = r.reals((1, 4 * anchors, height, width), spread=0.2)
    flags: dict[str, Any] = {"base_size": r.one(4, 8), "pre_nms_topn": r.one(8, 16, 40), "post_nms_topn": r.one(2, 5)}
    flags |= {"nms_thresh": r.one(0.4, 0.7), "feat_stride": r.one(4, 8), "min_size": r.one(1, 2)}
    flags |= {"ratio": tuple(map(float, ratios)), "scale": tuple(map(float, scales))}
    flags |= _some(r, {"clip_before_nms": r.one(True, False), "clip_after_nms": r.one(True, False)})
    flags |= _some(r, {"normalize": r.one(True, False), "framework": r.one("", "tensorflow")}, 0.4)
    flags |= _some(r, {"box_size_scale": r.one(1.0, 2.0), "box_coordinate_scale": r.one(1.0, 2.0)}, 0.4)
    # The plugin crashes if no box is left, and for counts that are no multiple of 8.
    size = np.array([r.number(30, 60), r.number(30, 60), r.one(1.0, 1.5)], np.float32)
    results = 2 if op_type == "opset4.Proposal" else 1
    scores = scores.reshape(1, 2 * anchors, height, width).astype(np.float32)
    return one(op_type, scores, moves, size, results=results, case=CLOSE, **flags)


@of("opset17.RGBtoNV12", "opset17.BGRtoNV12")
def to_planes(r: Draw, op_type: str) -> Case:
    # No part of OpenVINO computes the op type yet; its decoder documents the color planes.
    n, h, w = r.number(1, 2), r.number(1, 3), r.number(1, 3)
    x = np.repeat(np.repeat(r.integers((n, h, w, 3), 20, 230), 2, 1), 2, 2).astype(np.float32)
    back = op_type.replace("opset17", "opset8").split("to")[0].replace("opset8.", "opset8.NV12to")
    flags, results = ({"single_plane": False}, 2) if r.chance() else ({}, 1)
    layers = (Layer(op_type, (0,), flags, results), Layer(back, tuple(range(1, 1 + results))))
    return Case(op_type, (r.operand(x),), layers, tolerance=0.02, expected=(x,))


@of("opset9.GenerateProposals")
def proposals(r: Draw, op_type: str) -> Case:
    batch, anchors, height, width = r.number(1, 2), r.number(1, 3), r.number(2, 4), r.number(2, 4)
    size = np.array([[24.0, 30.0, 1.0]] * batch, np.float32)
    held = boxes(r, (height, width, anchors), 20.0)
    moves = r.reals((batch, 4 * anchors, height, width), spread=0.3)
    scores = r.random.random((batch, anchors, height, width)).astype(np.float32)
    flags: dict[str, Any] = {"min_size": r.one(0.0, 3.0), "nms_threshold": 0.6, "post_nms_count": r.one(3, 8)}
    flags |= {"pre_nms_count": r.one(6, 20), "normalized": r.one(True, False), "nms_eta": 1.0}
    flags |= {"roi_num_type": r.one("i64", "i32")}
    return one(op_type, size, held, moves, scores, results=3, case=CLOSE, **flags)


@of("opset8.I420toRGB", "opset8.I420toBGR")
def planes(r: Draw, op_type: str) -> Case:
    n, h, w = r.number(1, 2), 2 * r.number(1, 3), 2 * r.number(1, 3)
    dtype = r.one("uint8", "float32")
    if r.chance():
        return one(op_type, r.operand(r.integers((n, h * 3 // 2, w, 1), 0, 255, dtype)), case={"tolerance": 1e-3})
    each = [(n, h, w, 1), (n, h // 2, w // 2, 1), (n, h // 2, w // 2, 1)]
    return one(op_type, *(r.operand(r.integers(shape, 0, 255, dtype)) for shape in each), case={"tolerance": 1e-3})


@of("opset1.DeformablePSROIPooling")
def moved_regions(r: Draw, op_type: str) -> Case:
    maps, cells, parts, count = r.number(1, 4), r.number(1, 3), r.number(1, 3), r.number(1, 3)
    x = r.reals((r.number(1, 2), maps * cells**2, *r.numbers(4, 7, 2)))
    owners = r.integers((count, 1), 0, x.shape[0] - 1, np.float32)
    rois = np.concatenate([owners, boxes(r, (count,), 12.0)], 1)
    flags: dict[str, Any] = {"output_dim": maps, "spatial_scale": r.one(0.5, 1.0), "group_size": cells}
    flags |= {"spatial_bins_x": r.number(1, 3), "spatial_bins_y": r.number(1, 3), "trans_std": r.one(0.1, 1.0)}
    flags |= {"part_size": parts, "mode": "bilinear_deformable"}
    classes = r.one(1, maps)
    moves = [r.reals((count, 2 * classes, parts, parts), spread=0.5)] if r.chance(0.7) else []
    return one(op_type, x, rois, *moves, case=CLOSE, **flags)
