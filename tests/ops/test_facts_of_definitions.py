"""Inferred facts of operators, compared with the computed results."""

import numpy as np
import pytest

from graphport.ops import registry

OP_DEFS = registry.op_defs()
X = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32)
NUMBERS = np.array([0.5, 2.0, 3.0], np.float32)
"""One for each channel of `X`."""
SLOPES = np.array([0.1, -0.2, 0.7], np.float32).reshape(3, 1, 1)
WINDOW = {"kernel_shape": (2, 2), "pads": (0, 1, 1, 0)}
HOMOGENEOUS = {"PRelu": ((SLOPES,), {}), "MaxPool": ((), WINDOW), "AveragePool": ((), WINDOW)}
"""Operands behind the first, and attributes, of those that need some."""
MATRIX = X.reshape(-1, 5)
BIASED = {
    "Conv": (X, np.ones((3, 3, 2, 2), np.float32)),
    "ConvTranspose": (X, np.ones((3, 3, 2, 2), np.float32)),
    "Gemm": (MATRIX, np.ones((5, 3), np.float32)),
    "BatchNormalization": (X, NUMBERS, None, NUMBERS, NUMBERS),
}
"""Operands, the bias left out."""


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def by_channel(numbers, like):
    return numbers.reshape(1, -1, *[1] * (like.ndim - 2))


@pytest.mark.parametrize("name", [name for name, op_def in OP_DEFS.items() if op_def.homogeneous])
def test_homogeneous_operators_commute_with_channel_factors(name):
    others, attributes = HOMOGENEOUS.get(name, ((), {}))
    plain = first(OP_DEFS[name](X, *others, **attributes))
    scaled = first(OP_DEFS[name](X * by_channel(NUMBERS, X), *others, **attributes))
    np.testing.assert_allclose(scaled, plain * by_channel(NUMBERS, plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Sigmoid", "Elu", "HardSwish"])
def test_nonlinear_operators_are_not_homogeneous(name):
    plain, scaled = OP_DEFS[name](X), OP_DEFS[name](X * 2)
    assert not OP_DEFS[name].homogeneous
    assert np.abs(scaled - 2 * plain).max() > 0.1


@pytest.mark.parametrize("name", [name for name, op_def in OP_DEFS.items() if op_def.bias])
def test_a_bias_is_added_to_each_channel(name):
    op_def = OP_DEFS[name]
    place = [operand.name for operand in op_def.signature.operands].index(op_def.bias)
    results = []
    for bias in (np.zeros(3, np.float32), NUMBERS):
        operands = [*BIASED[name][:place], bias, *BIASED[name][place + 1 :]]
        results.append(first(op_def(*operands)))
    np.testing.assert_allclose(
        results[1] - results[0],
        np.broadcast_to(by_channel(NUMBERS, results[0]), results[0].shape),
        rtol=1e-4,
        atol=1e-4,
    )


def test_quantizes_flag_lists_the_quantized_operators():
    assert {name for name, op_def in OP_DEFS.items() if op_def.quantizes} == {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    }


INDICES = np.array([[2, 0], [1, 1]])
PICKED = {
    "Reshape": ((X, np.array([4, -1])), {}),
    "Squeeze": ((X[:1], np.array([0])), {}),
    "Unsqueeze": ((X, np.array([0, 3])), {}),
    "Transpose": ((X,), {"perm": (3, 1, 0, 2)}),
    "Concat": ((X, -X), {"axis": 1}),
    "Split": ((X, np.array([1, 3])), {"axis": 2}),
    "Expand": ((X[:, :1], np.array([2, 3, 4, 5])), {}),
    "Tile": ((X, np.array([1, 2, 1, 3])), {}),
    "DepthToSpace": ((np.concatenate([X, X[:, :1]], 1),), {"blocksize": 2}),
    "SpaceToDepth": ((X[..., :4],), {"blocksize": 2}),
    "Gather": ((X, INDICES), {"axis": 1}),
    "GatherElements": ((MATRIX[:3], INDICES), {"axis": 0}),
    "GatherND": ((X, INDICES[1:]), {}),
    "Compress": ((X, np.array([True, False, True])), {"axis": 1}),
    "ReverseSequence": ((MATRIX, np.array([3, 24, 1, 2, 5])), {"batch_axis": 1, "time_axis": 0}),
    "Slice": ((X, np.array([3]), np.array([0]), np.array([2]), np.array([-2])), {}),
}
"""Operands and attributes, of those that need more than one operand."""


@pytest.mark.parametrize("name", registry.stating("picks"))
def test_picked_elements_are_elements_of_the_operand(name):
    operands, attributes = PICKED.get(name, ((X,), {}))
    op_def = OP_DEFS[name]
    given = operands[:1] if op_def.signature.variadic is None else operands
    results = op_def(*operands, **attributes)
    for result in results if isinstance(results, (tuple, list)) else [results]:
        assert result.size
        assert np.isin(result, np.concatenate([each.reshape(-1) for each in given])).all()


@pytest.mark.parametrize("name", registry.stating("reshapes"))
def test_reshaping_operators_keep_the_element_order(name):
    operands, attributes = PICKED.get(name, ((X,), {}))
    result = OP_DEFS[name](*operands, **attributes)
    assert OP_DEFS[name].picks
    assert result.shape != operands[0].shape
    np.testing.assert_array_equal(result.reshape(-1), operands[0].reshape(-1))


@pytest.mark.parametrize("name", ["Transpose", "Gather", "Slice", "Expand"])
def test_operators_that_reorder_elements_are_not_reshaping(name):
    assert not OP_DEFS[name].reshapes


@pytest.mark.parametrize(("name", "number"), registry.stating("neutral").items())
def test_neutral_element_is_an_identity(name, number):
    np.testing.assert_array_equal(OP_DEFS[name](X, np.float32(number)), X)


@pytest.mark.parametrize(("name", "inverse"), registry.stating("inverse").items())
def test_inverse_operator_undoes_the_operator(name, inverse):
    np.testing.assert_allclose(
        OP_DEFS[inverse](OP_DEFS[name](X, np.float32(3)), np.float32(3)), X, rtol=1e-5, atol=1e-6
    )
    assert OP_DEFS[inverse].inverse == name


@pytest.mark.parametrize(("name", "negation"), registry.stating("negation").items())
def test_negated_comparison_is_the_complement(name, negation):
    a, b = np.arange(5), np.array([2, 2, 2, 2, 2])
    np.testing.assert_array_equal(OP_DEFS[negation](a, b), ~OP_DEFS[name](a, b))


@pytest.mark.parametrize(("name", "states"), registry.stating("states").items())
def test_states_that_are_absent_are_zeros(name, states):
    op_def, gates = OP_DEFS[name], {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    operands = [X[0], *(np.ones((1, 2 * gates, k), np.float32) / 9 for k in (5, 2)), None, None]
    zeros = [np.zeros((1, 4, 2), np.float32)] * len(states)
    assert [each.name for each in op_def.signature.operands][5 : 5 + len(states)] == list(states)
    ones = op_def(*operands, *(each + 1 for each in zeros), hidden_size=2)
    for one, other, third in zip(
        op_def(*operands, hidden_size=2), op_def(*operands, *zeros, hidden_size=2), ones, strict=True
    ):
        np.testing.assert_array_equal(one, other)
        assert np.abs(one - third).max() > 1e-3


FINDS = {
    "MaxPool": ((np.ones((1, 1, 2, 2), np.float32),), {"kernel_shape": (2, 2)}),
    "TopK": ((np.ones(4, np.float32), np.array([2])), {}),
    "NonMaxSuppression": (
        (np.ones((1, 3, 4), np.float32), np.ones((1, 1, 3), np.float32), np.int64(1)),
        {},
    ),
}


@pytest.mark.parametrize(("name", "result"), registry.stating("finds").items())
def test_index_results_are_int64(name, result):
    operands, attributes = FINDS.get(name, ((np.ones(4, np.float32),), {}))
    found = OP_DEFS[name](*operands, **attributes)
    place = OP_DEFS[name].outputs.index(result)
    assert (found[place] if isinstance(found, tuple) else found).dtype == np.int64
