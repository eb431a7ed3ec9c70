"""Activations in NNEF: what its words mean, and that saying a page in it keeps the meaning."""

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Celu, Clip, Dropout, Gelu, PRelu, Softmax, Swish
from tests.every import every
from tests.ops.facts import single
from tests.ops.oracle import compare, run_word, there_and_back


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32) * 3


def logistic(x):
    return 1 / (1 + np.exp(-x))


X = numbers(2, 3, 4)
NEGATIVE = X < 0
FORMULAS = [
    ("relu", {}, np.maximum(X, 0)),
    ("sigmoid", {}, logistic(X)),
    ("tanh", {}, np.tanh(X)),
    ("leaky_relu", {"alpha": 0.2}, np.where(NEGATIVE, X * single(0.2), X)),
    ("elu", {"alpha": 1.5}, np.where(NEGATIVE, 1.5 * np.expm1(X), X)),
    ("selu", {"alpha": 1.6, "lambda": 1.1}, 1.1 * np.where(NEGATIVE, 1.6 * np.expm1(X), X)),
    ("gelu", {}, X * logistic(1.702 * X)),
    ("silu", {}, X * logistic(X)),
    ("softplus", {}, np.log(np.exp(X) + 1)),
]


@pytest.mark.parametrize(("op_type", "attributes", "expected"), FORMULAS, ids=[case[0] for case in FORMULAS])
@pytest.mark.parametrize("symbolic", [False, True])
def test_op_type_is_the_formula_of_the_specification(op_type, attributes, expected, symbolic):
    found = run_word("nnef", op_type, [X], symbolic=symbolic, **attributes)[0]
    compare(found, expected.astype(np.float32), tolerance=1e-5)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_softmax_is_over_all_its_axes_together(axes, symbolic):
    e = np.exp(X - X.max(axis=axes, keepdims=True))
    compare(run_word("nnef", "softmax", [X], symbolic=symbolic, axes=axes)[0], e / e.sum(axis=axes, keepdims=True))


def test_softmax_over_no_axis_is_refused():
    with pytest.raises(UnsupportedError, match="softmax without axes"):
        run_word("nnef", "softmax", [X], axes=())


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 3), (1, 3), (1, 3, 1), (2, 3, 4)])
def test_prelu_aligns_its_slope_at_the_first_axis(shape):
    alpha = numbers(*shape, seed=1)
    slopes = alpha.reshape(shape + (1,) * (3 - len(shape))) if shape else alpha
    compare(run_word("nnef", "prelu", [X, np.asarray(alpha)])[0], np.where(NEGATIVE, X * slopes, X))


def test_prelu_takes_a_slope_that_is_larger():
    x, alpha = numbers(2, 1), numbers(2, 3, 4, seed=1)
    wide = x[..., None]
    compare(run_word("nnef", "prelu", [x, alpha])[0], np.where(wide < 0, wide * alpha, wide))


def test_clamp_between_numbers_is_a_clip_and_between_tensors_is_not():
    low, high = single(-1), single(0.5)
    expected = np.maximum(np.minimum(X, high), low)
    compare(run_word("nnef", "clamp", [X, low, high], literals=(1, 2))[0], expected)
    crossing = run_word("nnef", "clamp", [X, high, low], literals=(1, 2))[0]
    compare(crossing, np.maximum(np.minimum(X, low), high))
    lows = numbers(2, seed=1)
    compare(run_word("nnef", "clamp", [X, lows, high])[0], np.maximum(np.minimum(X, high), lows[:, None, None]))


LIFTED = [
    ("Relu", {}, {"relu"}),
    ("Sigmoid", {}, {"sigmoid"}),
    ("Tanh", {}, {"tanh"}),
    ("LeakyRelu", {"alpha": 0.1}, {"leaky_relu"}),
    ("Elu", {"alpha": 0.7}, {"elu"}),
    ("Selu", {}, {"selu"}),
    ("Softplus", {}, {"softplus"}),
    ("Softmax", {"axis": 1}, {"softmax"}),
    ("Softmax", {"axis": -1}, {"softmax"}),
    ("LogSoftmax", {"axis": 1}, {"sub", "max_reduce", "exp", "sum_reduce", "log"}),
    ("Swish", {}, {"silu"}),
    ("Swish", {"alpha": 1.7020000219345093}, {"gelu"}),
    ("Swish", {"alpha": 0.5}, {"mul", "sigmoid"}),
    ("Gelu", {}, None),
    ("Gelu", {"approximate": "tanh"}, None),
    ("Celu", {"alpha": 2.0}, {"elu", "mul", "div"}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, {"mul", "add", "clamp"}),
    ("HardSwish", {}, None),
    ("Mish", {}, {"softplus", "tanh", "mul"}),
    ("Softsign", {}, {"abs", "add", "div"}),
    ("ThresholdedRelu", {"alpha": 0.8}, {"gt", "select"}),
    ("Shrink", {"bias": 0.5, "lambd": 1.0}, None),
]


@every(("name", "attributes", "words"), LIFTED)
@every("symbolic", [False, True])
def test_exporting_an_activation_in_nnef_preserves_its_semantics(name, attributes, words, symbolic):
    said = there_and_back(registry.op_defs()[name], [X], symbolic=symbolic, tolerance=2e-6, **attributes)
    assert said is not None
    assert words is None or set(said) == words


def test_exporting_log_softmax_does_not_underflow():
    x = single([[0, -200, 300], [1000, 1000, 1000]])
    assert there_and_back(registry.op_defs()["LogSoftmax"], [x], axis=1) is not None


@pytest.mark.parametrize("slope", [(1,), (4,), (3, 1), (2, 3, 4), ()])
def test_exporting_prelu_preserves_its_semantics(slope):
    for constants in ((), (1,)):
        assert there_and_back(PRelu, [X, np.asarray(numbers(*slope, seed=1))], constants=constants) is not None


@pytest.mark.parametrize("bounds", [(None, None), (-1, None), (None, 1), (-1, 1), (1, -1)])
@pytest.mark.parametrize("constants", [(), (1, 2)])
def test_exporting_clip_preserves_its_semantics(bounds, constants):
    operands = [None if bound is None else single(bound) for bound in bounds]
    given = tuple(place for place in constants if operands[place - 1] is not None)
    said = there_and_back(Clip, [X, *(None if x is None else np.asarray(x) for x in operands)], constants=given)
    assert said is not None
    assert ("clamp" in said) == (bounds == (-1, 1) and bool(constants))


def test_what_nnef_cannot_express_is_refused():
    assert there_and_back(Celu, [X], alpha=-1.0) is None
    assert there_and_back(Softmax, [single(3)]) is None
    assert there_and_back(Dropout, [X], outputs=2) is None
    assert there_and_back(Dropout, [X, None, np.array(True)], constants=(2,), seed=0) is None
    assert there_and_back(Dropout, [X, None, np.array(False)]) is None


def test_dropout_without_training_is_a_copy():
    assert there_and_back(Dropout, [X]) == ["copy"]
    assert there_and_back(Dropout, [X, single(0.5), np.array(False)], constants=(1, 2)) == ["copy"]


def test_exact_gelu_is_written_to_the_precision_of_single_floats():
    x = np.linspace(-6, 6, 1001, dtype=np.float32)
    assert "gelu" not in there_and_back(Gelu, [x], tolerance=5e-7)


def test_swish_of_another_type_keeps_it():
    assert there_and_back(Swish, [X.astype(np.float64)], alpha=0.5) is not None
    assert DType.of(run_word("nnef", "silu", [X.astype(np.float64)])[0].dtype) is DType.FLOAT64
