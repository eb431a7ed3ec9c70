"""Numbers by chance: their types, shapes and distributions, and that a seed repeats them."""

import numpy as np
import pytest

import graphport as gp
from graphport import Model
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.declare import OPSET, ShapeError
from graphport.ops.definitions.random import (
    Bernoulli,
    Multinomial,
    RandomNormal,
    RandomNormalLike,
    RandomUniform,
    RandomUniformLike,
)
from graphport.ops.infer import Inference
from tests.ops.oracle import run_operator, run_ort

X = np.full((3, 4), 0.5, np.float32)
CASES = [
    pytest.param(RandomNormal, [], {"shape": (3, 4)}, id="RandomNormal"),
    pytest.param(RandomUniform, [], {"shape": (2,), "dtype": DType.FLOAT64}, id="RandomUniform"),
    pytest.param(RandomNormalLike, [X], {"dtype": DType.FLOAT64}, id="RandomNormalLike"),
    pytest.param(RandomUniformLike, [X], {}, id="RandomUniformLike"),
    pytest.param(Bernoulli, [X], {"dtype": DType.INT64}, id="Bernoulli"),
    pytest.param(Multinomial, [X], {"sample_size": 5, "dtype": DType.INT64}, id="Multinomial"),
]


@pytest.mark.parametrize(("op_def", "inputs", "attributes"), CASES)
def test_types_and_shapes_are_those_of_onnx_runtime(op_def, inputs, attributes):
    (found,) = run_operator(op_def, inputs, seed=1.0, **attributes)
    (expected,) = run_ort(op_def.name, inputs, attributes | {"seed": 1.0}, opset=21)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    facts = [TensorFact(DType.of(x.dtype), x.shape) for x in inputs]
    assert Inference().infer_operator(op_def, facts, attributes, 1) == (TensorFact(DType.of(found.dtype), found.shape),)


@pytest.mark.parametrize(("op_def", "inputs", "attributes"), CASES)
def test_a_seed_repeats_the_numbers(op_def, inputs, attributes):
    first, second = (run_operator(op_def, inputs, seed=2.5, **attributes)[0] for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("op_def", [RandomNormal, RandomUniform], ids=lambda op_def: op_def.name)
def test_without_a_seed_they_are_new(op_def):
    first, second = (run_operator(op_def, [], shape=(64,))[0] for _ in range(2))
    assert (first != second).any()


def test_distributions_match_their_parameters():
    (normal,) = run_operator(RandomNormal, [], shape=(20000,), mean=3.0, scale=2.0, seed=1.0)
    assert normal.mean() == pytest.approx(3, abs=0.1)
    assert normal.std() == pytest.approx(2, abs=0.1)
    (uniform,) = run_operator(RandomUniform, [], shape=(20000,), low=-1.0, high=3.0, seed=1.0)
    assert -1 <= uniform.min() < -0.9
    assert 2.9 < uniform.max() <= 3
    (hits,) = run_operator(Bernoulli, [np.full(20000, 0.25, np.float32)], seed=1.0)
    assert hits.mean() == pytest.approx(0.25, abs=0.02)
    rows = np.log(np.array([[0.1, 0.6, 0.3], [1, 0, 0]], np.float32) + 1e-30)
    (drawn,) = run_operator(Multinomial, [rows], sample_size=20000, seed=1.0)
    assert np.bincount(drawn[0], minlength=3) / 20000 == pytest.approx([0.1, 0.6, 0.3], abs=0.02)
    assert not drawn[1].any()


def test_random_operators_are_marked_random():
    expected = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    assert {op_def.name for op_def in registry.op_defs().values() if op_def.is_random} == expected


@pytest.mark.parametrize(
    ("op_def", "operands", "attributes", "message"),
    [
        pytest.param(RandomNormal, [], {"shape": (2,), "dtype": DType.INT32}, "dtype is int32", id="type"),
        pytest.param(RandomUniform, [], {"shape": (-1,)}, "negative", id="shape"),
        pytest.param(RandomNormalLike, [TensorFact(DType.INT32, (1,))], {}, "would be int32", id="like"),
        pytest.param(Bernoulli, [TensorFact(DType.FLOAT32, (1,))], {"dtype": DType.STRING}, "string", id="text"),
        pytest.param(Multinomial, [TensorFact(DType.FLOAT32, (1,))], {}, "rank 1", id="rank"),
    ],
)
def test_chance_is_refused(op_def, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(op_def, operands, attributes, 1)


def test_multinomial_accepts_symbolic_dims():
    n = Symbol("N")
    (found,) = Inference().infer_operator(Multinomial, [TensorFact(DType.FLOAT32, (n, 3))], {"sample_size": 2}, 1)
    assert found == TensorFact(DType.INT32, (n, 2))


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
def test_simplify_keeps_random_operators(op_type):
    graph = Graph("net", opsets={"": OPSET})
    x = graph.add_constant("x", TensorFact.of(storage_of(X)), storage_of(X))
    for name in "ab":
        node = graph.append(Node(op_type, [x], [Value(name, TensorFact(DType.FLOAT32, X.shape))]))
        graph.add_output(node.output)
    result, _ = gp.simplify(Model(graph, "onnx"))
    assert [node.op for node in result.graph] == [op_type, op_type]
