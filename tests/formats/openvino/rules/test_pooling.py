"""Poolings in OpenVINO."""

from itertools import product

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.definitions.pooling import (
    AveragePool,
    GlobalAveragePool,
    GlobalLpPool,
    GlobalMaxPool,
    LpPool,
    MaxPool,
    MaxRoiPool,
    MaxUnpool,
)
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(6)
X = RANDOM.normal(size=(2, 3, 7, 8)).astype(np.float32)


def slid(**given):
    return {"kernel": (3, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)} | given


WINDOWS = [
    ("plain", {}),
    ("padding", {"pads_begin": (1, 0), "pads_end": (1, 1)}),
    ("ceil", {"rounding_type": "ceil"}),
    ("ceil, padding", {"rounding_type": "ceil", "pads_begin": (1, 1), "pads_end": (1, 1)}),
    ("ceil, far", {"rounding_type": "ceil", "strides": (3, 3), "pads_end": (1, 1), "kernel": (3, 3)}),
    ("same upper", {"auto_pad": "same_upper"}),
    ("same lower", {"auto_pad": "same_lower"}),
    ("valid", {"auto_pad": "valid"}),
]


@at_once("given", [case[1] for case in WINDOWS], ids=[case[0] for case in WINDOWS])
def test_max_pool(given):
    check_word("opset1.MaxPool", [X], **slid(**given))
    # The plugin gives no places in int64.
    given = slid(**given) | {"dilations": (1, 1)}
    check_word("opset8.MaxPool", [X], outputs=2, by_reference=True, **given)
    check_word("opset14.MaxPool", [X], outputs=2, by_reference=True, **given)


def test_max_pool_of_torch_has_no_window_after_the_data():
    x = X[:, :, :4, :4]
    given = {"kernel": (2, 2), "strides": (3, 3), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
    check_word("opset14.MaxPool", [x], outputs=2, by_reference=True, rounding_type="ceil_torch", **given)


def test_max_pool_counts_places_from_an_axis_on():
    for op_type, axis in product(("opset8.MaxPool", "opset14.MaxPool"), (0, 1, 2)):
        check_word(op_type, [X], outputs=2, by_reference=True, axis=axis, **slid(dilations=(2, 1)))
    check_word("opset8.MaxPool", [X], outputs=2, index_element_type=DType.INT32, **slid(dilations=(1, 1)))


def test_max_pool_of_whole_numbers():
    x = RANDOM.integers(-9, 9, (1, 2, 5, 5))
    check_word("opset1.MaxPool", [x.astype(np.int8)], **slid())
    check_word("opset1.MaxPool", [x.astype(np.int32)], **slid())


@at_once("given", [case[1] for case in WINDOWS], ids=[case[0] for case in WINDOWS])
@at_once("exclude", [False, True])
def test_avg_pool(given, exclude):
    for op_type in ("opset1.AvgPool", "opset14.AvgPool"):
        check_word(op_type, [X], tolerance=1e-5, exclude_pad=exclude, **slid(**given))
    check_word("opset16.AvgPool", [X], tolerance=1e-5, exclude_pad=exclude, dilations=(1, 1), **slid(**given))


@at_once("exclude", [False, True])
def test_avg_pool_of_torch(exclude):
    given = {"pads_begin": (1, 1), "pads_end": (1, 1), "rounding_type": "ceil_torch"}
    check_word("opset14.AvgPool", [X], tolerance=1e-5, exclude_pad=exclude, **slid(**given))


@at_once("shape", [(1, 1), (7, 8), (3, 4), (2, 5), (9, 3)])
def test_adaptive_pools(shape):
    operands = [X, np.array(shape, np.int64)]
    check_word("opset8.AdaptiveAvgPool", operands, constants=(1,), tolerance=1e-5)
    check_word("opset8.AdaptiveMaxPool", operands, constants=(1,), outputs=2, index_element_type=DType.INT32)


@at_once("shape", [(3, 4), (9, 3)])
def test_adaptive_pools_of_dynamic_shape(shape):
    operands = [X, np.array(shape, np.int64)]
    check_word("opset8.AdaptiveAvgPool", operands, constants=(1,), symbolic=True, tolerance=1e-5)
    flags = {"index_element_type": DType.INT32}
    check_word("opset8.AdaptiveMaxPool", operands, constants=(1,), outputs=2, symbolic=True, **flags)


def test_adaptive_pools_of_other_ranks():
    for x, shape in ((X[:, :, 0], (3,)), (np.stack([X, X * 2], 2), (1, 3, 5))):
        operands = [np.ascontiguousarray(x), np.array(shape, np.int64)]
        check_word("opset8.AdaptiveAvgPool", operands, constants=(1,), tolerance=1e-5)
        check_word("opset8.AdaptiveMaxPool", operands, constants=(1,), outputs=2, index_element_type=DType.INT32)


def test_adaptive_pool_to_one_place_needs_no_extents():
    operands = [X, np.array((1, 1), np.int64)]
    check_word("opset8.AdaptiveAvgPool", operands, constants=(1,), symbolic=True, tolerance=1e-5)


ROIS = np.array([[0, 0, 0, 5, 4], [1, 2, 1, 7, 6], [0, 3, 3, 3, 3]], np.float32)


def test_roi_pooling():
    said = {"output_roi": (2, 2), "output_size": (2, 2), "pooled_h": 2, "pooled_w": 2, "spatial_scale": 0.8}
    check_word("opset2.ROIPooling", [X, ROIS], **said)


STATED = [
    (MaxPool, {"kernel_shape": (3, 2)}, 1),
    (MaxPool, {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1)}, 2),
    (MaxPool, {"kernel_shape": (3, 2), "strides": (2, 2), "ceil_mode": 1, "dilations": (2, 1)}, 2),
    (MaxPool, {"kernel_shape": (3, 2), "auto_pad": "SAME_LOWER"}, 1),
    (MaxPool, {"kernel_shape": (3, 2), "auto_pad": "SAME_UPPER", "strides": (2, 2)}, 1),
    (AveragePool, {"kernel_shape": (3, 2)}, 1),
    (AveragePool, {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1), "count_include_pad": 1}, 1),
    (AveragePool, {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1), "strides": (2, 2)}, 1),
    (AveragePool, {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2), "ceil_mode": 1}, 1),
    (AveragePool, {"kernel_shape": (3, 2), "auto_pad": "SAME_UPPER"}, 1),
    (LpPool, {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1), "strides": (2, 2)}, 1),
    (LpPool, {"kernel_shape": (3, 2), "p": 3, "auto_pad": "SAME_LOWER"}, 1),
    (GlobalAveragePool, {}, 1),
    (GlobalMaxPool, {}, 1),
    (GlobalLpPool, {}, 1),
    (GlobalLpPool, {"p": 3}, 1),
]


@at_once(("op_def", "attributes", "outputs"), STATED, ids=[f"{i}-{case[0].name}" for i, case in enumerate(STATED)])
def test_exporting_a_page_preserves_its_semantics(op_def, attributes, outputs):
    by_reference = outputs > 1
    said = check_operator(op_def, [X], outputs=outputs, by_reference=by_reference, tolerance=1e-4, **attributes)
    assert said is not None


def test_exporting_dilated_means():
    given = {"kernel_shape": (3, 2), "dilations": (2, 1), "strides": (2, 1)}
    assert check_operator(AveragePool, [X], tolerance=1e-5, **given) is not None


def test_exporting_the_way_back():
    y, places = MaxPool(np.ascontiguousarray(X[:, :, :6]), kernel_shape=(2, 2), strides=(2, 2))
    assert check_operator(MaxUnpool, [y, places], kernel_shape=(2, 2), strides=(2, 2)) is not None
    shape = np.array([2, 3, 7, 8], np.int64)
    assert (
        check_operator(MaxUnpool, [y, places, shape], constants=(2,), kernel_shape=(2, 2), strides=(2, 2)) is not None
    )


def test_exporting_pools_of_regions():
    assert check_operator(MaxRoiPool, [X, ROIS], pooled_shape=(2, 3), spatial_scale=0.8) is not None


def test_pooling_by_position():
    x = RANDOM.normal(size=(2, 2 * 9, 10, 12)).astype(np.float32)
    rois = np.array([[0, 1, 2, 9, 8], [1, 0, 0, 4, 3], [0, 3, 3, 3, 3], [1, 2, 1, 14, 12]], np.float32)
    flags = {"output_dim": 2, "group_size": 3, "mode": "average", "spatial_bins_x": 1, "spatial_bins_y": 1}
    for scale in (1.0, 0.8):
        check_word("opset1.PSROIPooling", [x, rois], tolerance=1e-4, spatial_scale=scale, **flags)


@at_once("op_type", ["opset14.AvgPool", "opset16.AvgPool"])
@at_once("mode", ["ceil", "ceil_torch"])
@at_once(("size", "step", "pads"), [(3, 3, (1, 0)), (2, 3, (0, 0)), (3, 2, (0, 1)), (2, 2, (1, 0))])
def test_what_last_windows_hang_over_counts_as_padding_if_there_is_any(op_type, mode, size, step, pads):
    x = np.random.default_rng(3).normal(size=(1, 2, 5, 7)).astype(np.float32)
    given = {"kernel": (size, size), "strides": (step, step), "pads_begin": pads[:1] * 2, "pads_end": pads[1:] * 2}
    if op_type == "opset16.AvgPool":
        # The plugin dies of an empty list.
        given["dilations"] = (1, 1)
    for exclude in (False, True):
        check_word(op_type, [x], tolerance=1e-4, exclude_pad=exclude, rounding_type=mode, **given)


def test_windows_without_padding_are_rounded_up_as_those_with_padding_of_0():
    x = np.random.default_rng(3).normal(size=(1, 2, 5, 7)).astype(np.float32)
    given = {"kernel": (3, 3), "strides": (3, 3), "pads_begin": (0, 0), "pads_end": (0, 0), "rounding_type": "ceil"}
    expected = check_word("opset1.AvgPool", [x], tolerance=1e-4, exclude_pad=False, **given)
    check_word("opset1.AvgPool", [x], expected=expected, exclude_pad=False, auto_pad="valid", **given)


@at_once("pads", [(1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1)])
@at_once("include", [0, 1])
def test_exporting_means_whose_last_windows_hang_over(pads, include):
    x = np.random.default_rng(3).normal(size=(1, 2, 5, 7)).astype(np.float32)
    said = {"kernel_shape": (3, 3), "strides": (3, 3), "pads": pads, "ceil_mode": 1, "count_include_pad": include}
    assert check_operator(AveragePool, [x], tolerance=1e-4, **said) is not None


def test_means_over_padding_end_where_the_last_window_does():
    """Windows that would begin in the padding are left out, and so they are of what is padded before."""
    draws = np.random.default_rng(1)
    for _ in range(40):
        kernel, stride = (int(n) for n in draws.integers(1, 5, 2))
        begin, end = (int(n) for n in draws.integers(0, kernel // 2 + 1, 2))
        x = draws.normal(size=(1, 2, 4, int(draws.integers(3, 12)))).astype(np.float32)
        window = {"kernel_shape": (1, kernel), "strides": (1, stride), "pads": (0, begin, 0, end)}
        assert check_operator(AveragePool, [x], tolerance=1e-5, ceil_mode=1, count_include_pad=1, **window) is not None
