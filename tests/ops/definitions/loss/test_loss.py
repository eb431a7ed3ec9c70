"""Losses against ONNX Runtime, on random scores, weights and ignored classes, and what the shape rules refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.loss import NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, run_operator
from tests.ops.standard import check_by_standard


@st.composite
def scored(draw):
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    n, c = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rest = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    scores = rng.normal(size=(n, c, *rest)).astype(dtype)
    target = rng.integers(0, c, (n, *rest)).astype(draw(st.sampled_from([np.int32, np.int64])))
    weights = rng.uniform(0.5, 2, c).astype(dtype) if draw(st.booleans()) else None
    attributes = {"reduction": draw(st.sampled_from(["none", "sum", "mean"]))}
    if draw(st.booleans()):
        attributes["ignore_index"] = draw(st.sampled_from([-1, 0, c - 1, c + 3]))
        hit = rng.random(target.shape) < 0.3
        hit.reshape(-1)[0] = False
        target = np.where(hit, attributes["ignore_index"], target).astype(target.dtype)
    return [scores, target, weights], attributes


def means_nothing(inputs, attributes):
    """Whether a mean is taken over no sample at all: 0 / 0, of which nothing is defined."""
    ignored = attributes.get("ignore_index")
    return attributes["reduction"] == "mean" and ignored is not None and bool((inputs[1] == ignored).all())


@given(scored())
def test_the_loss_of_likelihoods_is_that_of_the_standard(case):
    inputs, attributes = case
    # Without weights the standard's implementation takes -1 for no class that is ignored; ONNX Runtime does not.
    is_odd = inputs[2] is None and attributes.get("ignore_index") == -1
    if not is_odd and not means_nothing(inputs, attributes):
        check_by_standard(NegativeLogLikelihoodLoss, inputs, tolerance=1e-5, **attributes)


@given(scored())
def test_the_loss_of_likelihoods_is_that_of_onnx_runtime(case):
    inputs, attributes = case
    if means_nothing(inputs, attributes):
        return
    inputs = [inputs[0].astype(np.float32), inputs[1], None if inputs[2] is None else inputs[2].astype(np.float32)]
    check_operator(NegativeLogLikelihoodLoss, inputs, tolerance=1e-5, opset=13, **attributes)


@given(scored())
def test_the_loss_of_scores_is_that_of_onnx_runtime(case):
    inputs, attributes = case
    if means_nothing(inputs, attributes):
        return
    inputs = [inputs[0].astype(np.float32), inputs[1], None if inputs[2] is None else inputs[2].astype(np.float32)]
    check_operator(SoftmaxCrossEntropyLoss, inputs, outputs=2, tolerance=1e-5, **attributes)


def test_weights_scale_the_mean():
    scores = np.log(np.array([[0.5, 0.5], [0.25, 0.75]], np.float32))
    target, weights = np.array([0, 1]), np.array([1, 3], np.float32)
    (loss,) = run_operator(NegativeLogLikelihoodLoss, [scores, target, weights])
    assert loss == pytest.approx((np.log(2) - 3 * np.log(0.75)) / 4, rel=1e-6)


def test_a_class_that_does_not_exist_is_refused():
    with pytest.raises(IndexError, match="classes from 0 to 2 are not all below 2"):
        run_operator(NegativeLogLikelihoodLoss, [np.zeros((2, 2), np.float32), np.array([0, 2])])


X, TARGET = TensorFact(DType.FLOAT32, (2, 3, 4)), TensorFact(DType.INT64, (2, 4))


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        pytest.param([X, TARGET], {"reduction": "max"}, "unknown reduction 'max'", id="reduction"),
        pytest.param([X, TensorFact(DType.INT64, (2,))], {}, "answers do not fit", id="answers"),
        pytest.param([X, TARGET, TensorFact(DType.FLOAT32, (4,))], {}, "classes and weights", id="weights"),
        pytest.param([TensorFact(DType.FLOAT32, (2,)), TARGET], {}, "rank 1", id="rank"),
    ],
)
@pytest.mark.parametrize("op_def", [NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss], ids=lambda op_def: op_def.name)
def test_losses_refuse(op_def, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(op_def, operands, attributes, 1)
