"""OpenVINO's words in older operation sets: as old as asked for, with the same numbers, or refused by the writer."""

import re

import numpy as np
import pytest

from graphport.conversion.dialects.openvino_older import set_of
from graphport.conversion.lift import lift
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.ops.pages.activation import Gelu, HardSwish, LogSoftmax, Mish, Softmax, Softplus, Softsign, Swish
from graphport.ops.pages.arithmetic import Acosh, Asinh, Atanh, Round
from graphport.ops.pages.attention import Attention
from graphport.ops.pages.comparison import IsInf, IsNaN
from graphport.ops.pages.indexing import Gather, GatherND, ScatterElements, ScatterND, Slice
from graphport.ops.pages.normalization import BatchNormalization, GroupNormalization, MeanVarianceNormalization
from graphport.ops.pages.padding import Pad
from graphport.ops.pages.pooling import AveragePool, MaxPool
from graphport.ops.pages.reduction import TopK
from graphport.ops.pages.reshape import Expand, Identity, Shape, Squeeze
from graphport.ops.pages.resize import Resize
from tests.ops.openvino_oracle import completed, run_ir

RANDOM = np.random.default_rng(12)
X = RANDOM.normal(0, 2, (2, 4, 5)).astype(np.float32)
PICTURE = RANDOM.normal(size=(1, 4, 6, 6)).astype(np.float32)
UNIT = RANDOM.uniform(-0.9, 0.9, (2, 4, 5)).astype(np.float32)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1.2], np.float32)
ODD = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
CHANNELS = np.array([0.5, 1.0, 2.0, 3.0], np.float32)
INTS = np.array([0, -1], np.int64)
HEADS = np.random.default_rng(5).normal(size=(1, 2, 4, 3)).astype(np.float32)

# The page, its operands (the first is an input), its attributes, the oldest set that can say it.
CASES = {
    "softmax": (Softmax, [X], {"axis": -1}, 1),
    "log softmax": (LogSoftmax, [X], {"axis": 1}, 1),
    "gelu": (Gelu, [X], {}, 1),
    "gelu by tanh": (Gelu, [X], {"approximate": "tanh"}, 1),
    "softplus": (Softplus, [X * 20], {}, 1),
    "softsign": (Softsign, [X], {}, 1),
    "mish": (Mish, [X], {}, 1),
    "hard swish": (HardSwish, [X * 3], {}, 1),
    "swish": (Swish, [X], {"alpha": 1.5}, 1),
    "asinh": (Asinh, [X], {}, 1),
    "acosh": (Acosh, [np.abs(X) + 1], {}, 1),
    "atanh": (Atanh, [UNIT], {}, 1),
    "round": (Round, [HALVES], {}, 1),
    "is nan": (IsNaN, [ODD], {}, 1),
    "is infinite": (IsInf, [ODD], {}, 1),
    "is less than all": (IsInf, [ODD], {"detect_positive": 0}, 1),
    "gather from behind": (Gather, [X, INTS], {"axis": 2}, 1),
    "gather": (Gather, [X, np.array([1, 0])], {"axis": 1}, 1),
    "gather vectors": (GatherND, [X, np.array([[0, 1], [1, 3]])], {}, 5),
    "slice": (Slice, [X, np.array([3, 1]), np.array([-100, 9]), np.array([1, 2]), np.array([-1, 2])], {}, 1),
    "scatter": (ScatterElements, [X, np.zeros((2, 1, 5), np.int64), X[:, :1]], {"axis": 1}, 3),
    "scatter vectors": (ScatterND, [X, np.array([[1]]), X[:1]], {}, 4),
    "top": (TopK, [X, np.array([2])], {"axis": 2}, 1),
    "pad": (Pad, [X, np.array([0, 1, 0, 1, 0, 2])], {}, 1),
    "cut": (Pad, [X, np.array([0, -1, 0, 0, 0, 0])], {}, 12),
    "average": (AveragePool, [PICTURE], {"kernel_shape": (2, 3), "strides": (2, 1)}, 1),
    "average with gaps": (AveragePool, [PICTURE], {"kernel_shape": (2, 3), "dilations": (2, 1)}, 16),
    "largest": (MaxPool, [PICTURE], {"kernel_shape": (2, 3), "strides": (2, 1)}, 1),
    "sizes": (Resize, [PICTURE, None, None, np.array([1, 4, 9, 3])], {"mode": "linear"}, 4),
    "scales": (Resize, [PICTURE, None, np.array([1, 1, 2.5, 0.5], np.float32)], {"mode": "linear"}, 4),
    "attention": (Attention, [HEADS, HEADS * 2, HEADS - 1], {}, 1),
    "attention of the past": (Attention, [HEADS, HEADS * 2, HEADS - 1], {"is_causal": 1}, 1),
    "batch": (BatchNormalization, [PICTURE, CHANNELS, CHANNELS, CHANNELS, CHANNELS], {}, 1),
    "groups": (GroupNormalization, [PICTURE, CHANNELS, CHANNELS], {"num_groups": 2}, 1),
    "mean and variance": (MeanVarianceNormalization, [PICTURE], {"axes": (0, 2, 3)}, 1),
    "shape": (Shape, [X], {}, 1),
    "expand": (Expand, [X[:1], np.array([3, 4, 5])], {}, 3),
    "squeeze": (Squeeze, [X[:1], np.array([0])], {}, 1),
    "copy": (Identity, [X], {}, 1),
}


def lifted(name, newest):
    page, operands, attributes, _ = CASES[name]
    graph = Graph("one")
    values = []
    for number, array in enumerate(operands):
        if array is None:
            values.append(None)
            continue
        builder = Builder(Inference(), graph)
        constant = builder.constant(array)
        values.append(constant if number else graph.add_input("x", constant.fact))
    graph.add_output(Builder(Inference(), graph)(page, *values, **attributes))
    said, findings = lift(graph, "openvino", newest=newest)
    assert not findings
    return said, {"x": operands[0]}


def numbers(graph, arrays):
    for node in graph:
        node.attributes = completed(node.word, node.attributes)
    return run_ir(graph, arrays)


@pytest.mark.parametrize("name", CASES)
def test_older_words_compute_the_same(name):
    (expected,) = numbers(*lifted(name, None))
    seen = set()
    for newest in range(1, 17):
        graph, arrays = lifted(name, newest)
        sets = {set_of(node.word) for node in graph}
        if newest >= CASES[name][3]:
            assert max(sets, default=1) <= newest
        else:
            assert max(sets) > newest
            continue
        words = tuple(node.word for node in graph)
        if words in seen:
            continue
        seen.add(words)
        (found,) = numbers(graph, arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_newest_words_are_used_where_they_may():
    words = [node.word for node in lifted("softmax", 8)[0]]
    assert words == ["opset8.SoftMax"]
    assert [re.sub(r"\..*", "", word) for word in (node.word for node in lifted("softmax", 7)[0])] == ["opset1"]


@pytest.mark.parametrize("place", [2, 3])
def test_a_resizing_of_open_extents_is_said_in_the_fourth_set(place):
    graph = Graph("one")
    builder = Builder(Inference(), graph)
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1, 4, Symbol("H"), Symbol("W"))))
    how = [None, None, builder.constant(np.array([1, 1, 2, 3], np.float32)), builder.constant([1, 4, 10, 9])]
    operands = [operand if index in (0, place) else None for index, operand in enumerate(how)]
    graph.add_output(builder(Resize, x, *operands[1 : place + 1], mode="linear"))
    newest, older = (lift(graph, "openvino", newest=limit)[0] for limit in (None, 8))
    assert "opset4.Interpolate" in {node.word for node in older}
    picture = np.random.default_rng(6).normal(size=(1, 4, 5, 3)).astype(np.float32)
    (expected,), (found,) = (numbers(said, {"x": picture}) for said in (newest, older))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
