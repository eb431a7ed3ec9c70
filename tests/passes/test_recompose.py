"""Decompositions of exporters are recomposed into one operator; similar patterns are unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.every import every
from tests.passes.cases import info, model, node, some

SMALL = {
    "two": np.float32(2),
    "one": np.float32(1),
    "half": np.float32(0.5),
    "three": np.float32(3),
    "six": np.float32(6),
    "zero": np.float32(0),
    "eps": np.float32(1e-5),
    "root": np.float32(np.sqrt(2)),
    "cube": np.float32(0.044715),
    "slope": np.float32(np.sqrt(2 / np.pi)),
    "g": np.abs(some(8)) + 0.5,
    "b": some(8),
    "last": np.array([-1]),
    "first": np.array([1]),
    "other": np.float32(0.7),
    "sixth": np.float32(1 / 6),
}
MEAN = [
    node("ReduceMean", "x last", "m"),
    node("Sub", "x m", "d"),
    node("Pow", "d two", "s"),
    node("ReduceMean", "s last", "v"),
    node("Add", "v eps", "e"),
    node("Sqrt", "e", "r"),
    node("Div", "d r", "n"),
]
SQUARES = [
    node("Mul", "x x", "s"),
    node("ReduceMean", "s last", "v"),
    node("Add", "eps v", "e"),
    node("Sqrt", "e", "r"),
    node("Reciprocal", "r", "i"),
    node("Mul", "x i", "n"),
]
ERF = [node("Div", "x root", "q"), node("Erf", "q", "f"), node("Add", "f one", "p"), node("Mul", "x p", "k")]
TANH = [
    node("Pow", "x three", "c"),
    node("Mul", "c cube", "k"),
    node("Add", "x k", "s"),
    node("Mul", "s slope", "t"),
    node("Tanh", "t", "h"),
    node("Add", "one h", "p"),
    node("Mul", "x half", "q"),
]
PLUS = [node("Exp", "x", "e"), node("Add", "one e", "p"), node("Log", "p", "l")]
CHOICE = [node("Greater", "x zero", "t")]
CLIP = [node("Add", "x three", "a"), node("Clip", "a zero six", "c")]


def simplified(nodes, opset: int = 18, more=(), **constants):
    used = {name for each in nodes for name in each.input}
    given = {name: array for name, array in (SMALL | constants).items() if name in used}
    outputs = [info("y", None), *(info(name, None) for name in more)]
    proto = model(list(nodes), [info("x", ["N", 6, 8])], outputs, given, opset=opset)
    result, report = gp.simplify(gp.from_onnx(proto))
    assert report.passed
    return result


def words(result) -> list[str]:
    return [each.op for each in result.graph]


@pytest.mark.parametrize(
    ("nodes", "expected", "opset"),
    [
        pytest.param(
            [*MEAN, node("Mul", "n g", "k"), node("Add", "k b", "y")], "LayerNormalization", 18, id="layernorm"
        ),
        pytest.param([*MEAN, node("Mul", "g n", "y")], "LayerNormalization", 18, id="layernorm without bias"),
        pytest.param([*SQUARES, node("Mul", "n g", "y")], "RMSNormalization", 23, id="rmsnorm"),
        pytest.param([*ERF, node("Mul", "k half", "y")], "Gelu", 18, id="gelu by erf"),
        pytest.param([node("Mul", "half x", "h"), *ERF[:3], node("Mul", "h p", "y")], "Gelu", 18, id="half first"),
        pytest.param([*TANH, node("Mul", "q p", "y")], "Gelu", 18, id="gelu by tanh"),
        pytest.param([node("Sigmoid", "x", "k"), node("Mul", "k x", "y")], "Swish", 24, id="swish"),
        pytest.param([*CLIP, node("Mul", "x c", "k"), node("Div", "k six", "y")], "HardSwish", 18, id="hardswish"),
        pytest.param(
            [node("HardSigmoid", "x", "k", alpha=1 / 6, beta=0.5), node("Mul", "x k", "y")],
            "HardSwish",
            18,
            id="hardswish of a hard sigmoid",
        ),
        pytest.param([*CLIP, node("Div", "c six", "y")], "HardSigmoid", 18, id="hardsigmoid"),
        pytest.param(
            [CLIP[0], node("Clip", "a zero", "k"), node("Clip", "k _ six", "c"), node("Mul", "c sixth", "y")],
            "HardSigmoid",
            18,
            id="hardsigmoid of two clips",
        ),
        pytest.param([*CHOICE, node("Mul", "g x", "k"), node("Where", "t x k", "y")], "PRelu", 18, id="prelu"),
        pytest.param([*CHOICE, node("Mul", "x other", "k"), node("Where", "t x k", "y")], "LeakyRelu", 18, id="leaky"),
        pytest.param([*PLUS[:2], node("Log", "p", "y")], "Softplus", 18, id="softplus"),
        pytest.param([*PLUS, node("Tanh", "l", "t"), node("Mul", "x t", "y")], "Mish", 18, id="mish"),
    ],
)
def test_decomposed_operator_is_recomposed(nodes, expected, opset):
    assert words(simplified(nodes, opset)) == [expected]


@every(
    ("nodes", "opset"),
    [
        pytest.param([node("Add", "x one", "d"), *MEAN[2:], node("Mul", "n g", "y")], 18, id="no mean is taken off"),
        pytest.param(
            [node("ReduceMean", "x first", "m"), *MEAN[1:], node("Mul", "n g", "y")], 18, id="a mean of other axes"
        ),
        pytest.param(
            [*MEAN[:2], node("Pow", "d three", "s"), *MEAN[3:], node("Mul", "n g", "y")], 18, id="a third power"
        ),
        pytest.param([*MEAN[:-1], node("Div", "m r", "y")], 18, id="the mean over the root"),
        pytest.param([*SQUARES, node("Mul", "n g", "y")], 18, id="an opset without the operator"),
        pytest.param(
            [node("Neg", "x", "d"), node("Mul", "x d", "s"), *SQUARES[1:], node("Mul", "n g", "y")],
            23,
            id="a product with something else",
        ),
        pytest.param(
            [node("Greater", "x one", "t"), node("Mul", "g x", "k"), node("Where", "t x k", "y")], 18, id="above 1"
        ),
        pytest.param([*CHOICE, node("Mul", "g x", "k"), node("Where", "t k x", "y")], 18, id="the other choice"),
        pytest.param([CLIP[0], node("Clip", "a one six", "c"), node("Div", "c six", "y")], 18, id="clipped at 1"),
        pytest.param([node("Div", "x two", "q"), *ERF[1:], node("Mul", "k half", "y")], 18, id="another root"),
        pytest.param([*ERF, node("Mul", "k other", "y")], 18, id="another half"),
        pytest.param([*ERF[:2], node("Add", "f half", "p"), ERF[3], node("Mul", "k half", "y")], 18, id="another one"),
        pytest.param(
            [node("Pow", "x two", "c"), *TANH[1:], node("Mul", "q p", "y")], 18, id="a square instead of a cube"
        ),
        pytest.param(
            [node("Neg", "x", "z"), node("Sigmoid", "z", "k"), node("Mul", "k x", "y")], 24, id="sigmoid of -x"
        ),
        pytest.param([node("Sigmoid", "x", "k"), node("Mul", "k x", "y")], 22, id="an opset without swish"),
        pytest.param(
            [node("Add", "x two", "a"), CLIP[1], node("Mul", "x c", "k"), node("Div", "k six", "y")],
            18,
            id="another shift",
        ),
        pytest.param([*CLIP, node("Mul", "x c", "k"), node("Div", "k three", "y")], 18, id="another sixth"),
        pytest.param(
            [node("HardSigmoid", "x", "k"), node("Mul", "x k", "y")], 18, id="another slope of the hard sigmoid"
        ),
        pytest.param([PLUS[0], node("Add", "two e", "p"), node("Log", "p", "y")], 18, id="the logarithm of 2 more"),
        pytest.param([*PLUS, node("Tanh", "l", "t"), node("Mul", "l t", "y")], 18, id="mish times something else"),
    ],
)
def test_similar_patterns_are_not_recomposed(nodes, opset):
    made = {
        "LayerNormalization",
        "RMSNormalization",
        "Gelu",
        "Swish",
        "HardSwish",
        "Mish",
        "HardSigmoid",
        "PRelu",
        "LeakyRelu",
    }
    if any(each.op_type == "Log" for each in nodes) and len(nodes) == 3:
        made.add("Softplus")
    assert not (made - {each.op_type for each in nodes}) & set(words(simplified(nodes, opset)))


@pytest.mark.parametrize(
    ("nodes", "part"),
    [
        pytest.param([*MEAN, node("Mul", "n g", "y")], "v", id="layernorm"),
        pytest.param([*ERF, node("Mul", "k half", "y")], "f", id="gelu"),
        pytest.param([*CLIP, node("Mul", "x c", "k"), node("Div", "k six", "y")], "c", id="hardswish"),
        pytest.param([*PLUS[:2], node("Log", "p", "y")], "e", id="softplus"),
        pytest.param([*PLUS, node("Tanh", "l", "t"), node("Mul", "x t", "y")], "t", id="mish"),
    ],
)
def test_parts_that_the_graph_returns_stay(nodes, part):
    made = {"LayerNormalization", "Gelu", "HardSwish", "Mish", "HardSigmoid", "PRelu", "LeakyRelu"}
    result = simplified(nodes, more=[part])
    assert not made & set(words(result))
    assert list(result.outputs) == ["y", part]


def test_export_to_an_old_opset_decomposes_gelu_again():
    result = simplified([*ERF, node("Mul", "k half", "y")], 13)
    assert words(result) == ["Gelu"]
    proto = gp.to_onnx(result)
    assert proto.opset_import[0].version == 13
    assert "Gelu" not in {each.op_type for each in proto.graph.node}


@pytest.mark.parametrize(
    ("parts", "opset", "op_type"), [(MEAN, 18, "LayerNormalization"), (SQUARES, 23, "RMSNormalization")]
)
def test_recomposed_normalization_without_scale_uses_ones(parts, opset, op_type):
    assert words(simplified([*parts, node("Mul", "n other", "y")], opset)) == [op_type, "Mul"]
    assert words(simplified([*parts[:-1], node(parts[-1].op_type, " ".join(parts[-1].input), "y")], opset)) == [op_type]


def test_overlapping_clips_are_merged():
    first = node("Clip", "x zero six", "c")
    assert words(simplified([first, node("Clip", "c half one", "y")])) == ["Clip"]
    assert words(simplified([first, node("Clip", "c eight", "y")], eight=np.float32(8))) == ["Clip", "Clip"]
    assert words(simplified([first, node("Clip", "c one", "y")], more=["c"])) == ["Clip", "Clip"]
