"""Single-shot detectors in OpenVINO: prior boxes and detection output."""

import numpy as np
import pytest

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(6)
PICTURES, CLASSES, PRIORS = 2, 3, 7
LIMITS = [(-1, -1), (3, 50), (100, 4), (-1, 5)]


def operands(*, shared, encoded, normalized, own, first):
    """Return offsets, scores and priors; with `first`, also those of an earlier refinement stage."""
    width = 4 if normalized else 5
    locations = PRIORS * (1 if shared else CLASSES) * 4
    rows = PICTURES if own else 1
    low = RANDOM.uniform(0, 0.6, (rows, PRIORS, 2))
    boxes = np.concatenate([low, low + RANDOM.uniform(0.1, 0.5, (rows, PRIORS, 2))], axis=2)
    if not normalized:
        boxes = np.concatenate([np.zeros((rows, PRIORS, 1)), boxes * [200, 100, 200, 100]], axis=2)
        boxes[:, PRIORS - 1, 0] = -1  # the end of the priors
    priors = np.zeros((rows, 1 if encoded else 2, PRIORS * width))
    priors[:, 0] = boxes.reshape(rows, -1)
    priors[:, 1:] = np.resize([0.1, 0.1, 0.2, 0.2], PRIORS * width)
    found = [RANDOM.normal(0, 0.3, (PICTURES, locations)), RANDOM.uniform(0, 1, (PICTURES, PRIORS * CLASSES)), priors]
    if first:
        found += [RANDOM.uniform(0, 1, (PICTURES, PRIORS * 2)), RANDOM.normal(0, 0.3, (PICTURES, locations))]
    return [x.astype(np.float32) for x in found]


@at_once("limits", LIMITS)
@at_once("shared", [False, True])
@at_once("encoded", [False, True])
@at_once("code", ["CORNER", "CENTER_SIZE"])
def test_offsets_of_priors_become_detections(code, encoded, shared, limits):
    normalized, first = encoded == shared, limits[0] == 3
    given = operands(shared=shared, encoded=encoded, normalized=normalized, own=first or shared, first=first)
    flags = {
        "background_label_id": 1,
        "top_k": limits[0],
        "keep_top_k": (limits[1],),
        "variance_encoded_in_target": encoded,
        "code_type": f"caffe.PriorBoxParameter.{code}",
        "share_location": shared,
        "nms_threshold": 0.4,
        "confidence_threshold": 0.3,
        "clip_before_nms": shared,
        "clip_after_nms": encoded,
        "normalized": normalized,
        "input_height": 1 if normalized else 100,
        "input_width": 1 if normalized else 200,
        "objectness_score": 0.4,
    }
    check_word("opset8.DetectionOutput", given, tolerance=1e-4, **flags)
    check_word("opset1.DetectionOutput", given, tolerance=1e-4, num_classes=CLASSES, **flags)
    flags |= {"background_label_id": 0, "decrease_label_id": True}
    check_word("opset8.DetectionOutput", given, tolerance=1e-4, **flags)


def test_a_row_of_less_than_nothing_ends_detections():
    given = operands(shared=True, encoded=True, normalized=True, own=False, first=False)
    flags = {"normalized": True, "variance_encoded_in_target": True, "confidence_threshold": 2.0, "keep_top_k": (3,)}
    (found,) = check_word("opset8.DetectionOutput", given, **flags)
    assert found[0, 0, :, 0].tolist() == [-1, 0, 0, 0, 0, 0]


MAP, PICTURE = np.array([2, 3]), np.array([40, 60])
SIZES = {
    "sizes": {"min_size": (5.0, 8.0), "max_size": (9.0, 12.0), "aspect_ratio": (2.0, 0.5), "flip": True},
    "ratios that repeat": {"min_size": (5.0,), "aspect_ratio": (1.0, 2.0, 2.0, 3.0), "flip": True},
    "steps": {"min_size": (5.0,), "step": 7.0, "offset": 0.25},
    "parts of the picture": {"min_size": (0.2, 0.4), "aspect_ratio": (2.0,), "scale_all_sizes": False, "step": 0.1},
    "steps of the map": {"min_size": (0.2,), "scale_all_sizes": False, "step": -1.0, "offset": 0.5},
    "density": {"fixed_size": (7.0, 9.0), "density": (2.0, 1.0), "fixed_ratio": (0.5,)},
    "clipped": {"min_size": (50.0,), "clip": True, "variance": (0.1, 0.2, 0.3, 0.4)},
    "one variance": {"min_size": (5.0,), "variance": (0.3,)},
}


@at_once("name", SIZES)
@at_once("constants", [(0, 1), ()], ids=["constant", "run time"])
def test_priors(name, constants):
    flags = SIZES[name]
    expected = None if constants else check_word("opset8.PriorBox", [MAP, PICTURE], constants=(0, 1), **flags)
    check_word("opset8.PriorBox", [MAP, PICTURE], constants=constants, expected=expected, **flags)
    if constants:
        check_word("opset1.PriorBox", [MAP, PICTURE], constants=constants, **flags)
        flags = flags | {"min_max_aspect_ratios_order": False}
        check_word("opset8.PriorBox", [MAP, PICTURE], constants=constants, **flags)


@at_once("steps", [{}, {"step": 5.0}, {"step_w": 4.0, "step_h": 6.0}])
@at_once("clip", [False, True])
def test_priors_of_given_sizes(clip, steps):
    flags = {"width": (10.0, 50.0), "height": (20.0, 30.0), "offset": 0.5, "clip": clip, **steps}
    check_word("opset1.PriorBoxClustered", [MAP, PICTURE], constants=(0, 1), **flags)


def test_priors_that_are_not_as_many_as_announced_stay_as_they_are():
    with pytest.raises(AssertionError, match="1 boxes per position, but the attributes declare 2"):
        check_word(
            "opset8.PriorBox",
            [MAP, PICTURE],
            constants=(0, 1),
            expected=[],
            fixed_size=(7.0,),
            aspect_ratio=(2.0,),
            density=(1.0,),
            fixed_ratio=(1.0,),
        )
