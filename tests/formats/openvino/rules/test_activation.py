"""Activations in OpenVINO: what its words mean, and that saying a page in it keeps the meaning."""

import numpy as np

from graphport.ops import registry
from graphport.ops.definitions.activation import Celu, Clip, Dropout, Hardmax, LogSoftmax, PRelu, Relu, Shrink, Softmax
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(2, 3, 4)).astype(np.float32) * 3


def single(number):
    return np.array(number, np.float32)


WORDS = [
    ("opset1.ReLU", [X], {}),
    ("opset1.Sigmoid", [X], {}),
    ("opset1.Tanh", [X], {}),
    ("opset1.SoftMax", [X], {"axis": 1}),
    ("opset8.SoftMax", [X], {"axis": -1}),
    ("opset5.LogSoftmax", [X], {"axis": 1}),
    ("opset1.Elu", [X], {"alpha": 1.3}),
    ("opset1.Selu", [X, single([1.6]), single([1.1])], {}),
    ("opset1.Clamp", [X], {"min": -0.5, "max": 1.25}),
    ("opset1.HardSigmoid", [X, single(0.3), single(0.4)], {}),
    ("opset5.HSigmoid", [X], {}),
    ("opset4.HSwish", [X], {}),
    ("opset4.Mish", [X], {}),
    ("opset2.Gelu", [X], {}),
    ("opset7.Gelu", [X], {}),
    ("opset7.Gelu", [X], {"approximation_mode": "tanh"}),
    ("opset4.SoftPlus", [X], {}),
    ("opset9.SoftSign", [X], {}),
    ("opset4.Swish", [X], {}),
    ("opset4.Swish", [X, single(0.7)], {}),
]


@at_once(("op_type", "inputs", "attributes"), WORDS, ids=[f"{i}-{c[0]}" for i, c in enumerate(WORDS)])
@at_once("symbolic", [False, True])
def test_op_type(op_type, inputs, attributes, symbolic):
    constants = range(1, len(inputs))
    check_word(op_type, inputs, constants=constants, tolerance=2e-5, symbolic=symbolic, **attributes)


def test_relu_of_numbers_without_a_sign():
    check_word("opset1.ReLU", [np.array([0, 1, 200], np.uint8)])


def test_swish_of_a_slope_that_is_computed():
    check_word("opset4.Swish", [X, single(0.7)], tolerance=2e-5)


def test_clamp_of_integers_is_between_the_integers():
    check_word("opset1.Clamp", [np.arange(-4, 5, dtype=np.int32)], min=-2.5, max=2.5)
    huge = np.array([-(2**31), 0, 2**31 - 1], np.int32)
    check_word("opset1.Clamp", [huge], min=-1.0, max=1e12, expected=[np.maximum(huge, -1)])


@at_once("slope", [(1,), (3,), (4,), (3, 1), (2, 3, 4), ()])
def test_prelu_has_a_slope_for_each_channel(slope):
    check_word("opset1.PReLU", [X, RANDOM.normal(size=slope).astype(np.float32)])


def test_prelu_of_rank_2_has_its_channels_last():
    check_word("opset1.PReLU", [X[0], RANDOM.normal(size=4).astype(np.float32)])


STATED = [
    ("Relu", {}),
    ("Sigmoid", {}),
    ("Tanh", {}),
    ("LeakyRelu", {"alpha": 0.1}),
    ("Elu", {"alpha": 0.7}),
    ("Selu", {}),
    ("Softplus", {}),
    ("Softsign", {}),
    ("Softmax", {"axis": 1}),
    ("LogSoftmax", {"axis": -1}),
    ("Swish", {}),
    ("Swish", {"alpha": 0.5}),
    ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("Celu", {"alpha": 2.0}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("HardSwish", {}),
    ("Mish", {}),
    ("ThresholdedRelu", {"alpha": 0.8}),
    ("Shrink", {"bias": 0.5, "lambd": 1.0}),
    ("Hardmax", {"axis": 1}),
    ("Dropout", {}),
]


@at_once(("name", "attributes"), STATED, ids=[f"{i}-{c[0]}" for i, c in enumerate(STATED)])
def test_exporting_a_page_preserves_its_semantics(name, attributes):
    assert check_operator(registry.op_defs()[name], [X], tolerance=2e-5, **attributes) is not None


@at_once("op_def", [Relu, Softmax, LogSoftmax, Shrink], ids=lambda op_def: op_def.name)
def test_exporting_a_page_with_dynamic_dims(op_def):
    assert check_operator(op_def, [X], tolerance=2e-5, symbolic=True) is not None


@at_once("slope", [(1,), (4,), (3, 1), (2, 3, 4)])
@at_once("constants", [(), (1,)])
def test_exporting_prelu(slope, constants):
    assert check_operator(PRelu, [X, RANDOM.normal(size=slope).astype(np.float32)], constants=constants) is not None


def test_exporting_prelu_whose_slope_could_be_one_for_each_channel():
    x = RANDOM.normal(size=(2, 4, 4)).astype(np.float32)
    assert check_operator(PRelu, [x, RANDOM.normal(size=4).astype(np.float32)], constants=(1,)) is not None


@at_once("bounds", [(None, None), (-1, None), (None, 1), (-1, 1), (1, -1)])
@at_once("constants", [(), (1, 2)])
def test_exporting_clip(bounds, constants):
    operands = [None if bound is None else single(bound) for bound in bounds]
    given = tuple(place for place in constants if operands[place - 1] is not None)
    said = check_operator(Clip, [X, *operands], constants=given)
    assert said is not None
    assert ("opset1.Clamp" in said) == (bounds == (-1, 1) and bool(constants))


def test_hardmax_has_the_first_of_equal_numbers():
    assert check_operator(Hardmax, [single([[1, 2, 2], [3, 3, 3]])]) is not None


def test_dropout_has_a_mask():
    assert check_operator(Dropout, [X], outputs=2) is not None


def test_what_cannot_be_expressed_is_refused():
    assert check_operator(Celu, [X], alpha=-1.0) is None
    assert check_operator(Hardmax, [single(3)]) is None
    assert check_operator(Dropout, [X, None, np.array(True)], constants=(2,), seed=0) is None
