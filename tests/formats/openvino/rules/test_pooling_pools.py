"""Pools of OpenVINO's whose windows stand where ONNX has none."""

import numpy as np
import pytest

from graphport.core.dtypes import DType
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(31)
X = RANDOM.normal(size=(2, 3, 8, 7)).astype(np.float32)


def slid(**given):
    return {"kernel": (2, 3), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)} | given


BEYOND = [
    pytest.param({"strides": (3, 3), "kernel": (1, 1), "rounding_type": "ceil"}, id="a last window over nothing"),
    pytest.param({"strides": (3, 3), "kernel": (1, 1), "auto_pad": "same_upper"}, id="entries between windows"),
    pytest.param({"strides": (3, 3), "kernel": (2, 2), "auto_pad": "same_lower"}, id="entries between, padding before"),
    pytest.param({"rounding_type": "ceil", "pads_end": (0, 1)}, id="windows that hang over"),
]


@at_once("symbolic", [False, True], ids=["known", "symbolic"])
@at_once("given", BEYOND)
def test_the_largest_of_windows_beyond(given, symbolic):
    check_word("opset1.MaxPool", [X], symbolic=symbolic, **slid(**given))


@at_once("symbolic", [False, True], ids=["known", "symbolic"])
@at_once("axis", [0, 1, 2, 3])
def test_places_of_windows_beyond_count_in_the_data(axis, symbolic):
    given = slid(strides=(3, 3), kernel=(1, 1), rounding_type="ceil", dilations=(1, 1), axis=axis)
    check_word("opset8.MaxPool", [X], outputs=2, symbolic=symbolic, **given)


@at_once("symbolic", [False, True], ids=["known", "symbolic"])
@at_once("exclude", [True, False], ids=["of data", "of padding too"])
@at_once("given", BEYOND[2:])
def test_the_mean_of_windows_beyond(given, exclude, symbolic):
    check_word("opset1.AvgPool", [X], tolerance=1e-5, symbolic=symbolic, exclude_pad=exclude, **slid(**given))


def test_the_mean_of_nothing_is_zero():
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8)
    given = {"kernel": (1,), "strides": (3,), "pads_begin": (0,), "pads_end": (0,), "rounding_type": "ceil"}
    expected = [np.array([[[1, 4, 7, 0]]], np.float32)]
    for exclude in (True, False):
        check_word("opset1.AvgPool", [x], exclude_pad=exclude, expected=expected, **given)


def test_windows_with_gaps_and_computed_padding():
    flags = slid(dilations=(2, 2), auto_pad="same_upper", strides=(1, 2))
    check_word("opset16.AvgPool", [X], tolerance=1e-5, exclude_pad=True, **flags)
    check_word("opset8.MaxPool", [X], outputs=2, **flags)


def test_places_after_an_axis_that_is_open():
    flags = slid(dilations=(1, 1), axis=2, index_element_type=DType.INT32)
    check_word("opset8.MaxPool", [X], outputs=2, symbolic=True, **flags)
