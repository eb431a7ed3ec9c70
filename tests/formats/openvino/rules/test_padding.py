"""Padding in OpenVINO."""

import numpy as np
import openvino as ov

import graphport as gp
from graphport.ops.definitions.padding import CenterCropPad, Pad
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word
from tests.passes.cases import info, model, node

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*numbers):
    return np.array(numbers, np.int64)


@at_once("mode", ["constant", "edge", "reflect", "symmetric"])
@at_once("constants", [(1, 2), ()])
def test_pad(mode, constants):
    operands = [X, ints(0, 1, 2), ints(0, 2, 1)]
    if mode == "symmetric" and not constants:
        return
    check_word("opset1.Pad", operands, constants=constants, pad_mode=mode)
    check_word("opset12.Pad", operands, constants=constants, pad_mode=mode)


def test_pad_with_a_number():
    operands = [X, ints(0, 1, 2), ints(0, 2, 1), np.array(7, np.float32)]
    check_word("opset1.Pad", operands, constants=(1, 2, 3), pad_mode="constant")


def test_pad_cuts_off():
    check_word("opset12.Pad", [X, ints(0, -1, 2), ints(0, 0, -2)], constants=(1, 2), pad_mode="constant")


def test_mirror_of_the_edge_reaches_over_the_whole_axis():
    check_word("opset1.Pad", [X, ints(2, 3, 4), ints(2, 3, 4)], constants=(1, 2), pad_mode="symmetric")


STATED = [
    ([X, ints(0, 1, 2, 0, 2, 1)], (1,), {}),
    ([X, ints(0, 1, 2, 0, 2, 1)], (), {}),
    ([X, ints(0, 1, 2, 0, 2, 1), np.array(7, np.float32)], (1,), {}),
    ([X, ints(0, -1, 2, 0, 2, -2)], (1,), {}),
    ([X, ints(0, 1, 2, 0, 2, 1)], (1,), {"mode": "edge"}),
    ([X, ints(0, 1, 2, 0, 2, 1)], (1,), {"mode": "reflect"}),
    ([X, ints(0, 1, 5, 0, -1, 6)], (1,), {"mode": "wrap"}),
    ([X, ints(1, 2, 3, 4), None, ints(-1, 0)], (1, 3), {}),
]


@at_once(("inputs", "constants", "attributes"), STATED, ids=map(str, range(len(STATED))))
def test_exporting_a_padding(inputs, constants, attributes):
    assert check_operator(Pad, inputs, constants=constants, **attributes) is not None


@at_once("pads", [(0, 1, 2, 0, 3, 1), (0, 5, 0, 0, 7, 9), (0, -1, 3, 0, 4, -2)])
def test_a_dynamic_dim_is_wrapped_as_it_turns_out(pads, tmp_path):
    proto = model(
        [node("Pad", "x p", "y", mode="wrap")], [info("x", [2, "H", "W"])], [info("y", None)], {"p": ints(*pads)}
    )
    gp.save(gp.from_onnx(proto), tmp_path / "net.xml")
    compiled = ov.compile_model(tmp_path / "net.xml", "CPU")
    for height, width in ((3, 4), (5, 3)):
        x = np.arange(2 * height * width, dtype=np.float32).reshape(2, height, width)
        expected = Pad.function(x, ints(*pads), mode="wrap")
        np.testing.assert_array_equal(compiled(x)[0], expected)


@at_once("shape", [(3, 2, 7), (1, 4, 3), (2, 3, 4)])
def test_exporting_a_crop_around_the_centre(shape):
    assert check_operator(CenterCropPad, [X, ints(*shape)], constants=(1,)) is not None
    assert check_operator(CenterCropPad, [X, ints(*shape[1:])], constants=(1,), axes=(1, -1)) is not None
