"""Normalizations against ONNX Runtime, and what their shape rules refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    RMSNormalization,
)
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator, run_word


def random(*shape, dtype: Any = np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def statistics(channels, dtype: Any = np.float32):
    vectors = [random(channels, seed=seed, dtype=dtype) for seed in range(1, 5)]
    vectors[3] = np.abs(vectors[3])
    return vectors


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2)])
@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_batch_normalization_is_that_of_onnx_runtime(shape, epsilon):
    check_operator(BatchNormalization, [random(*shape), *statistics(3)], epsilon=epsilon)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
def test_training_returns_running_statistics(shape):
    inputs = [random(*shape), *statistics(3)]
    check_operator(BatchNormalization, inputs, outputs=3, training_mode=1, momentum=0.7, tolerance=1e-4)


def test_inference_keeps_the_running_statistics():
    inputs = [random(2, 3, 4), *statistics(3)]
    _, mean, var = run_operator(BatchNormalization, inputs)
    compare(mean, inputs[3])
    compare(var, inputs[4])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_batch_normalization_keeps_the_element_type(dtype):
    check_operator(BatchNormalization, [random(2, 3, 4, dtype=dtype), *statistics(3, dtype)], opset=15)


def test_batch_normalization_of_bfloat16_is_computed_in_single_precision():
    x, *vectors = [a.astype(DType.BFLOAT16.numpy) for a in (random(2, 3, 4), *statistics(3))]
    found = run_operator(BatchNormalization, [x, *vectors])[0]
    expected = run_operator(BatchNormalization, [a.astype(np.float32) for a in (x, *vectors)])[0]
    compare(found.astype(np.float32), expected, tolerance=1e-2)
    assert found.dtype == x.dtype


@pytest.mark.parametrize("opset", [7, 9, 14])
def test_old_batch_normalizations_are_equivalent(opset):
    old_opset("BatchNormalization", opset, [random(2, 3, 4, 5), *statistics(3)], epsilon=1e-3)


def test_statistics_for_each_entry_become_channels():
    x = random(2, 3, 4)
    vectors = [random(3, 4, seed=seed) for seed in range(1, 4)] + [np.abs(random(3, 4, seed=4))]
    old_opset("BatchNormalization", 7, [x, *vectors], spatial=0)
    scale, shift, mean, var = vectors
    for opset in (1, 6):
        (found,) = run_word("onnx", "BatchNormalization", [x, *vectors], opset=opset, spatial=0, is_test=1)
        compare(found, (x - mean) / np.sqrt(var + 1e-5) * scale + shift, tolerance=1e-4)


def test_more_results_of_an_old_batch_normalization_mean_training():
    inputs = [random(4, 3, 5), *statistics(3)]
    found = run_word("onnx", "BatchNormalization", inputs, opset=9, outputs=3)
    for a, b in zip(found, run_operator(BatchNormalization, inputs, training_mode=1), strict=True):
        compare(a, b)
    with pytest.raises(UnsupportedError, match="gradient"):
        run_word("onnx", "BatchNormalization", inputs, opset=9, outputs=5)
    with pytest.raises(UnsupportedError, match="inference"):
        run_word("onnx", "BatchNormalization", inputs, opset=6, outputs=3, is_test=1)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5)])
def test_instance_normalization_is_that_of_onnx_runtime(shape):
    inputs = [random(*shape), random(3, seed=1), random(3, seed=2)]
    check_operator(InstanceNormalization, inputs, epsilon=1e-3, tolerance=1e-4)
    old_opset("InstanceNormalization", 6, inputs, tolerance=1e-4)
    (found,) = run_word("onnx", "InstanceNormalization", inputs, opset=1, consumed_inputs=(0, 0, 0))
    compare(found, run_operator(InstanceNormalization, inputs)[0])


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4, 3, 5)])
def test_group_normalization_is_that_of_onnx_runtime(groups, shape):
    inputs = [random(*shape), random(4, seed=1), random(4, seed=2)]
    check_operator(GroupNormalization, inputs, num_groups=groups, tolerance=1e-4)


@pytest.mark.parametrize("symbolic", [False, True])
def test_the_first_group_normalization_had_a_factor_for_each_group(symbolic):
    x, scale, bias = random(2, 6, 4), random(3, seed=1), random(3, seed=2)
    (found,) = run_word("onnx", "GroupNormalization", [x, scale, bias], opset=18, num_groups=3, symbolic=symbolic)
    wide = [np.repeat(vector, 2) for vector in (scale, bias)]
    compare(found, run_operator(GroupNormalization, [x, *wide], num_groups=3)[0], tolerance=1e-4)


@given(st.integers(-3, 2), st.booleans(), st.sampled_from([(3, 4, 5), (1, 4, 5)]))
def test_layer_normalization_is_that_of_onnx_runtime(axis, biased, shape):
    x = random(*shape)
    tail = shape[axis % 3 :]
    bias = random(*tail, seed=2) if biased else None
    check_operator(LayerNormalization, [x, random(*tail, seed=1), bias], outputs=3, axis=axis, tolerance=1e-4)


@given(st.integers(-3, 2))
def test_root_mean_square_normalization_is_that_of_onnx_runtime(axis):
    x = random(3, 4, 5)
    check_operator(RMSNormalization, [x, random(*x.shape[axis % 3 :], seed=1)], axis=axis, tolerance=1e-4)


def test_layer_normalization_has_statistics_of_the_type_that_is_requested():
    x, scale = random(2, 8), random(8, seed=1)
    y, mean, inverse = run_operator(LayerNormalization, [x, scale], stash_type=16)
    assert mean.dtype == inverse.dtype == DType.BFLOAT16.numpy
    check_shapes(LayerNormalization, [x, scale], [y, mean, inverse], stash_type=16)


@pytest.mark.parametrize("axes", [(0, 2, 3), (1,), (0, -1)])
def test_mean_variance_normalization_is_that_of_onnx_runtime(axes):
    check_operator(MeanVarianceNormalization, [random(3, 4, 5, 6)], axes=axes, tolerance=1e-4)


@given(st.sampled_from([1, 3, 5, 7]), st.sampled_from([(2, 5, 3, 4), (1, 2, 3, 3)]))
def test_local_response_normalization_is_that_of_onnx_runtime(size, shape):
    check_operator(LRN, [random(*shape)], size=size, alpha=0.3, beta=0.6, bias=1.5, tolerance=1e-4)


def test_lrn_with_even_size_has_one_more_channel_after():
    x = random(1, 4, 2)
    sums = [np.sum(x[:, max(c - 1, 0) : c + 3] ** 2, axis=1) for c in range(4)]
    expected = x / (1 + np.stack(sums, axis=1) / 4) ** 0.75
    compare(run_operator(LRN, [x], size=4, alpha=1.0)[0], expected, tolerance=1e-5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_lp_normalization_is_that_of_onnx_runtime(p, axis):
    check_operator(LpNormalization, [random(3, 4, 5)], axis=axis, p=p)


def test_lp_normalization_of_zeros_is_zero():
    x = np.zeros((2, 3), np.float32)
    compare(run_operator(LpNormalization, [x])[0], x)


def fact(*shape, dtype=DType.FLOAT32):
    return TensorFact(dtype, shape)


@pytest.mark.parametrize(
    ("op_def", "operands", "attributes", "message"),
    [
        pytest.param(BatchNormalization, [fact(2, 3), *[fact(3)] * 3, fact(4)], {}, "input_var", id="length"),
        pytest.param(
            BatchNormalization, [fact(2, 3), *[fact(3)] * 3, fact(1, 3)], {}, "input_var has rank 2", id="no vector"
        ),
        pytest.param(InstanceNormalization, [fact(2, 3), fact(3), fact(3)], {}, "rank 2", id="no spatial axis"),
        pytest.param(InstanceNormalization, [fact(2, 3, 4), fact(3), fact(4)], {}, "channels and b", id="bias"),
        pytest.param(GroupNormalization, [fact(2, 4, 3), fact(4), fact(4)], {"num_groups": 3}, "3 groups", id="groups"),
        pytest.param(
            GroupNormalization, [fact(2, 4, 3), fact(4), fact(4)], {"num_groups": 0}, "num_groups is 0", id="none"
        ),
        pytest.param(LayerNormalization, [fact(2, 3), fact(3)], {"axis": 2}, "outside", id="axis"),
        pytest.param(LayerNormalization, [fact(2, 3), fact(2, 2, 3)], {}, "rank 3", id="scale's rank"),
        pytest.param(LayerNormalization, [fact(2, 3), fact(3), fact(4)], {}, "b has size 4", id="bias entries"),
        pytest.param(LayerNormalization, [fact(2, 3), fact(3)], {"stash_type": 7}, "stash_type", id="stash"),
        pytest.param(RMSNormalization, [fact(2, 3), fact(4)], {}, "scale has size 4", id="root mean square"),
        pytest.param(MeanVarianceNormalization, [fact(2, 3)], {}, "outside", id="axes"),
        pytest.param(MeanVarianceNormalization, [fact(2, 3)], {"axes": (0, -2)}, "twice", id="axes twice"),
        pytest.param(LRN, [fact(2, 3, 4, 4)], {"size": 0}, "size is 0", id="size"),
        pytest.param(LpNormalization, [fact(2, 3)], {"p": 3}, "p is 3", id="exponent"),
    ],
)
def test_normalizations_refuse(op_def, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(op_def, operands, attributes, 1)
