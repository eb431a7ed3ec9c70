"""Activations against ONNX Runtime, and what their shape rules refuse."""

import math
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.definitions.activation import (
    Clip,
    Dropout,
    Gelu,
    Hardmax,
    LogSoftmax,
    PRelu,
    Relu,
    Shrink,
    Softmax,
    Swish,
)
from graphport.ops.special_functions import erf
from tests.every import every
from tests.ops.facts import f32, facts_of, refuse, single
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator, run_ort, run_word
from tests.ops.standard import check_by_standard

F = [np.float32]
FH = [np.float32, np.float16]
FD = [np.float32, np.float64]
CASES = [
    ("Relu", {}, [np.float32, np.float16, np.float64, np.int8, np.int32]),
    ("Sigmoid", {}, [np.float32, np.float64, np.float16]),
    ("LeakyRelu", {}, FH),
    ("LeakyRelu", {"alpha": 0.3}, FH),
    ("Elu", {"alpha": 1.5}, F),
    ("Selu", {}, F),
    ("Selu", {"alpha": 1.5, "gamma": 0.5}, F),
    ("Celu", {"alpha": 2.0}, F),
    ("Celu", {"alpha": 0.5}, F),
    ("ThresholdedRelu", {}, F),
    ("ThresholdedRelu", {"alpha": -0.5}, F),
    ("HardSigmoid", {}, F),
    ("HardSigmoid", {"alpha": 0.6, "beta": 0.1}, F),
    ("HardSwish", {}, F),
    ("Mish", {}, F),
    ("Gelu", {}, F),
    ("Gelu", {"approximate": "tanh"}, F),
    ("Softplus", {}, F),
    ("Softsign", {}, F),
    ("Tanh", {}, [np.float32, np.float64, np.float16]),
    ("Shrink", {"bias": 1.5, "lambd": 0.7}, [np.float32, np.float64, np.int8, np.int64, np.uint8]),
]


def numbers(shape, dtype, seed=0, scale=3.0):
    x = np.random.default_rng([seed, *shape]).normal(size=shape) * scale
    return np.asarray(np.abs(x) if np.dtype(dtype).kind == "u" else x, dtype=dtype)


@every(
    ("name", "attributes", "dtype"), [(name, attributes, dtype) for name, attributes, some in CASES for dtype in some]
)
def test_activation_is_that_of_onnx_runtime(name, attributes, dtype):
    op_def = registry.op_defs()[name]
    # ONNX Runtime shrinks doubles by a float.
    tolerance = 1e-6 if name == "Shrink" and dtype is np.float64 else None
    for shape in ((3, 5, 2), (), (2, 0)):
        check_operator(op_def, [numbers(shape, dtype)], tolerance=tolerance, **attributes)


@pytest.mark.parametrize("alpha", [1.0, 1.702])
def test_swish_is_that_of_the_standard(alpha):
    for shape in ((3, 5), (), (2, 0)):
        check_by_standard(Swish, [numbers(shape, np.float32)], alpha=alpha)


SPECIAL = np.array([-np.inf, -200.0, -90.0, -1e-30, -0.0, 0.0, 1e-30, 90.0, 200.0, np.inf, np.nan], np.float32)


@pytest.mark.parametrize(
    "name", ["Relu", "Sigmoid", "Tanh", "Softplus", "LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid"]
)
def test_activations_accept_infinite_and_huge_values(name):
    found = run_operator(registry.op_defs()[name], [SPECIAL[:-1]])[0]
    compare(found, run_ort(name, [SPECIAL[:-1]])[0], tolerance=1e-5)
    assert np.isnan(run_operator(registry.op_defs()[name], [SPECIAL])[0][-1])


@every("name", sorted({name for name, _, dtypes in CASES if np.float32 in dtypes} - {"Celu", "Shrink"}))
@every("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_every_float_dtype_rounds_the_float32_result(name, dtype):
    op_def = registry.op_defs()[name]
    x = numbers((4, 6), np.float32).astype(dtype)
    found = run_operator(op_def, [x])[0]
    assert found.dtype == dtype
    limit = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-6}[np.dtype(dtype).name]
    expected = run_operator(op_def, [x.astype(np.float32)])[0]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=limit, atol=1e-6)
    check_shapes(op_def, [x], [found])


@pytest.mark.parametrize("op_def", [Softmax, LogSoftmax, Hardmax], ids=lambda op_def: op_def.name)
@given(st.data())
def test_line_functions_are_those_of_onnx_runtime(op_def, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    if op_def is Hardmax and dtype is np.float64:
        check_by_standard(op_def, [numbers(shape, dtype)], axis=axis)
    else:
        check_operator(op_def, [numbers(shape, dtype, scale=30)], axis=axis)


@pytest.mark.parametrize("op_def", [Softmax, LogSoftmax, Hardmax], ids=lambda op_def: op_def.name)
def test_line_functions_refuse_an_axis_outside(op_def):
    refuse(op_def, [f32(2, 3)], "axis 2 is outside of a tensor of rank 2", axis=2)


def test_softmax_of_only_minus_infinity_is_nan():
    assert Softmax(single([-np.inf, 0, 1])).sum() == pytest.approx(1)
    with np.errstate(invalid="ignore"):
        assert np.isnan(Softmax(single([-np.inf, -np.inf]))).all()


def test_hardmax_selects_the_first_of_equal_elements():
    assert Hardmax(single([[1, 3, 3], [2, 2, 2]])).tolist() == [[0, 1, 0], [1, 0, 0]]


@every("slope", [(2, 3, 4), (3, 1), (1,), (4,), (1, 3, 1), ()])
@every("dtype", [np.float32, np.float16, np.float64, np.int32, np.uint64])
def test_prelu_slopes_broadcast_to_the_operand(slope, dtype):
    check = check_operator if dtype in (np.float32, np.float16) else check_by_standard
    check(PRelu, [numbers((2, 3, 4), dtype), numbers(slope, dtype, seed=1)])


def test_prelu_refuses_a_slope_that_is_larger():
    refuse(PRelu, [f32(2, 1), f32(2, 3)], "slope must broadcast to x")
    refuse(PRelu, [f32(3), f32(2, 3)], "slope must broadcast to x")


@every("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.uint64])
@every("bounds", [(None, None), (1, None), (None, 1), (1, 2), (2, 1)])
def test_clip_is_that_of_onnx_runtime(dtype, bounds):
    low, high = (None if bound is None else np.array(bound, dtype) for bound in bounds)
    check_operator(Clip, [numbers((3, 7), dtype), low, high])


def test_clip_computes_with_dims():
    n = Symbol("N", 1)
    shape = TensorFact(DType.INT64, (2,)).with_elements([n, 7])
    low, high = (TensorFact(DType.INT64, (), (bound,)) for bound in (1, 5))
    (fact,) = facts_of(Clip, [shape, low, high], {}, 1)
    assert [str(dim) for dim in fact.elements] == ["min(N,5)", "5"]


def test_clip_refuses_bounds_that_are_no_numbers():
    refuse(Clip, [f32(3), f32(2, 2)], "min has rank 2")
    refuse(Clip, [f32(3), None, f32(1, 1)], "max has rank 2")


def test_relu_of_the_least_integer_is_zero():
    assert Relu(np.array([-128, 127], np.int8)).tolist() == [0, 127]


def test_gelu_refuses_an_unknown_approximation():
    refuse(Gelu, [f32(2)], "approximate is 'cubic'", approximate="cubic")


def test_erf_is_accurate_to_a_few_ulp():
    x = np.concatenate([np.linspace(-7, 7, 2001), 10.0 ** np.linspace(-300, 0, 100), [0.0, -0.0, np.inf, -np.inf]])
    expected = np.array([math.erf(each) for each in x])
    np.testing.assert_allclose(erf(x), expected, rtol=8 * np.finfo(np.float64).eps, atol=0)
    assert np.isnan(erf(np.array([np.nan])))[0]


# Dropout


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_without_training_is_identity(dtype):
    x = numbers((3, 4), dtype)
    check_operator(Dropout, [x], outputs=2, opset=22)
    check_operator(Dropout, [x, np.array(0.3, np.float32)], outputs=2, opset=22)
    check_operator(Dropout, [x, np.array(0.3, np.float32), np.array(False)], outputs=2, opset=22)
    check_operator(Dropout, [x, np.array(0, np.float32), np.array(True)], outputs=2, opset=22)


def test_training_dropout_scales_the_kept_elements():
    x = np.ones((400, 50), np.float32)
    y, mask = Dropout(x, single(0.25), np.array(True), seed=3)
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y, mask / single(0.75), rtol=1e-6)
    again, _ = Dropout(x, single(0.25), np.array(True), seed=3)
    np.testing.assert_array_equal(y, again)


def test_dropout_matches_the_onnx_reference():
    check_by_standard(
        Dropout, [numbers((5, 6), np.float32), np.array(0.4, np.float32), np.array(True)], outputs=2, seed=7
    )


def test_dropout_accepts_any_seed():
    x = np.ones(8, np.float32)
    assert Dropout(x, single(0.5), np.array(True), seed=-1)[1].shape == (8,)
    assert Dropout(x, single(0.5), np.array(True))[1].shape == (8,)


def test_dropout_refuses_a_ratio_that_is_no_share():
    refuse(Dropout, [f32(2), TensorFact(DType.FLOAT32, (), reals=(1.5,))], "ratio is 1.5")
    refuse(Dropout, [f32(2), f32(1, 1)], "ratio has rank 2")
    refuse(Dropout, [f32(2), None, TensorFact(DType.BOOL, (1, 1))], "training_mode has rank 2")


# Older forms


@pytest.mark.parametrize("opset", [1, 5])
@pytest.mark.parametrize("name", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Selu"])
def test_opset_1_ignores_consumed_inputs(name, opset):
    x = numbers((2, 3), np.float32)
    constants = {"alpha": 1.6732, "gamma": 1.0507} if name == "Selu" else {}
    expected = run_operator(registry.op_defs()[name], [x], **constants)[0]
    compare(run_word("onnx", name, [x], opset=opset, consumed_inputs=(0,))[0], expected)
    compare(run_word("onnx", name, [x], opset=opset)[0], expected)


# Negative axes came with opset 11.
@every(("axis", "opset"), [*product([0, 1, 2, 3], [7, 11, 12]), (-1, 11), (-1, 12)])
@every("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_old_softmax_covers_all_axes_from_axis(name, axis, opset):
    old_opset(name, opset, [numbers((2, 3, 2, 4), np.float32)], axis=axis, tolerance=1e-5)


@pytest.mark.parametrize("shape", [(2, 5, 1, 1), (2, 1, 5, 1), (2, 1, 1, 1), (1, 1, 4)])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_old_softmax_over_a_single_long_axis(name, shape):
    old_opset(name, 9, [numbers(shape, np.float32)], axis=1, tolerance=1e-5)


def test_older_line_functions_have_axis_1_by_default():
    old_opset("Softmax", 9, [numbers((2, 3, 4), np.float32)], tolerance=1e-5)
    old_opset("LogSoftmax", 12, [numbers((2, 3, 4), np.float32)], tolerance=1e-5)


@pytest.mark.parametrize("opset", [6, 7, 9, 10])
@pytest.mark.parametrize("bounds", [{}, {"min": -1.0}, {"max": 1.0}, {"min": -1.0, "max": 2.0}])
def test_older_clip_has_attributes_for_bounds(bounds, opset):
    old_opset("Clip", opset, [numbers((3, 4), np.float32)], **bounds)


@pytest.mark.parametrize("slope", [(3, 1, 1), (1,), (4,)])
@pytest.mark.parametrize("opset", [7, 8])
def test_older_prelu_broadcasts_from_the_last_axis(slope, opset):
    old_opset("PRelu", opset, [numbers((2, 3, 2, 4), np.float32), numbers(slope, np.float32, seed=1)])


@pytest.mark.parametrize("opset", [1, 6])
def test_oldest_prelu_has_a_slope_for_each_channel(opset):
    x, slope = numbers((2, 3, 2, 4), np.float32), numbers((3,), np.float32, seed=1)
    found = run_word("onnx", "PRelu", [x, slope], opset=opset)[0]
    compare(found, np.where(x < 0, x * slope[:, None, None], x))
    one = numbers((1,), np.float32, seed=2)
    compare(run_word("onnx", "PRelu", [x, one], opset=opset)[0], np.where(x < 0, x * one, x))


@pytest.mark.parametrize("opset", [7, 10, 11])
def test_old_dropout_without_training_is_identity(opset):
    x = numbers((3, 4), np.float32)
    old_opset("Dropout", opset, [x], ratio=0.9)
    mask = run_word("onnx", "Dropout", [x], opset=opset, outputs=2)[1]
    assert mask.dtype == (np.float32 if opset < 10 else bool)
    assert mask.all()


@pytest.mark.parametrize("opset", [1, 6])
def test_oldest_dropout_is_reported_by_an_attribute(opset):
    x = np.ones((50, 40), np.float32)
    y, mask = run_word("onnx", "Dropout", [x], opset=opset, outputs=2, is_test=1)
    compare(y, x)
    assert mask.dtype == np.float32
    y, mask = run_word("onnx", "Dropout", [x], opset=opset, outputs=2, ratio=0.5)
    assert 0.4 < mask.mean() < 0.6
    np.testing.assert_allclose(y, 2 * mask)


@pytest.mark.parametrize("lambd", [0.1, 0.3, 0.4])
def test_shrink_rounds_lambd_to_float32(lambd):
    """ONNX's attributes are float32: an element that equals the limit is 0, as in ONNX Runtime."""
    x = np.float32([lambd, -lambd, np.nextafter(np.float32(lambd), np.float32(1))])
    assert (Shrink(x, lambd=lambd) != 0).tolist() == [False, False, True]
