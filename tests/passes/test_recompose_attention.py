"""Two products and the softmax between them are an Attention, where the opset has one; what only looks like it stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.api.rewrite import rewrite_file
from graphport.passes.driver import supported_passes
from graphport.passes.simplify import SIMPLIFY
from tests.passes.cases import info, model, node, some

B, H, S, T, D = 2, 3, 4, 5, 8
NUMBERS = {
    "s": np.float32(0.4),
    "root": np.float32(0.4**0.5),
    "inverse": np.float32(2.5),
    "zero": np.float32(0),
    "minus": np.float32(-1),
    "each": some(S, 1),
    "part": np.array([0, -1, H, D]),
    "join": np.array([0, 0, H * D]),
}
APART = (
    [node("Transpose", "k", "t", perm=[0, 1, 3, 2])],
    [info("q", ["B", H, S, D]), info("k", ["B", H, T, D]), info("v", ["B", H, T, D])],
)
COLUMNS = ([], [info("q", ["B", H, S, D]), info("t", ["B", H, D, T]), info("v", ["B", H, T, D])])
THREE = (
    [node("Transpose", "k", "t", perm=[0, 2, 1])],
    [info("q", ["B", S, D]), info("k", ["B", T, D]), info("v", ["B", T, D])],
)
JOINED = (
    [
        *[node("Reshape", f"x{name} part", f"r{name}") for name in "qkv"],
        node("Transpose", "rq", "q", perm=[0, 2, 1, 3]),
        node("Transpose", "rk", "t", perm=[0, 2, 3, 1]),
        node("Transpose", "rv", "v", perm=[0, 2, 1, 3]),
    ],
    [info("xq", ["B", "L", H * D]), info("xk", ["B", "M", H * D]), info("xv", ["B", "M", H * D])],
)
SCORES = [node("MatMul", "q t", "z")]
AFTER = [node("Mul", "z s", "c")]
SHARES = [node("Softmax", "c", "p", axis=-1), node("MatMul", "p v", "y")]


def simplified(before, nodes, opset: int = 24, more=(), constants=None, outputs=()):
    first, inputs = before
    every = [*first, *nodes]
    used = {name for each in every for name in each.input}
    given = {name: array for name, array in (NUMBERS | (constants or {})).items() if name in used}
    results = [info("y", None), *(info(name, None) for name in outputs)]
    proto = model(every, [*inputs, *more], results, given, opset=opset)
    result, report = gp.simplify(gp.from_onnx(proto))
    assert report.passed
    return result


def words(result) -> list[str]:
    return [each.op for each in result.graph]


def attributes(result) -> dict[str, object]:
    (found,) = [each for each in result.graph if each.op == "Attention"]
    return {name: value for name, value in found.attributes.items() if value}


@pytest.mark.parametrize("opset", [23, 24, 25, 26])
def test_it_is_written_at_every_opset_that_has_it(opset):
    result = simplified(APART, [*SCORES, *AFTER, *SHARES], opset)
    assert words(result) == ["Attention"]
    assert gp.to_onnx(result).opset_import[0].version == opset


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([*SCORES, *AFTER, *SHARES], id="product of the scores"),
        pytest.param([*SCORES, node("Div", "z inverse", "c"), *SHARES], id="quotient of the scores"),
        pytest.param([node("Mul", "s q", "n"), node("MatMul", "n t", "c"), *SHARES], id="product of the queries"),
        pytest.param([node("Div", "t inverse", "n"), node("MatMul", "q n", "c"), *SHARES], id="quotient of the keys"),
        pytest.param(
            [node("Mul", "q root", "n"), node("Mul", "t root", "m"), node("MatMul", "n m", "c"), *SHARES],
            id="a root each",
        ),
    ],
)
def test_scale_is_found_at_any_position(nodes):
    result = simplified(APART, nodes)
    assert words(result) == ["Attention"]
    assert attributes(result) == {"scale": pytest.approx(0.4, rel=1e-6)}


def test_default_scale_is_omitted():
    result = simplified(APART, [*SCORES, *AFTER, *SHARES], constants={"s": np.float32(D**-0.5)})
    assert attributes(result) == {}


def test_missing_scale_becomes_scale_1():
    result = simplified(APART, [node("MatMul", "q t", "c"), *SHARES])
    assert attributes(result) == {"scale": 1.0}


@pytest.mark.parametrize(
    ("before", "shape", "expected"),
    [
        pytest.param(APART, [S, T], ["Attention"], id="for all"),
        pytest.param(APART, ["B", 1, S, T], ["Attention"], id="for each sample"),
        pytest.param(APART, ["B", 1, 1, T], ["Expand", "Attention"], id="the same for each query"),
        pytest.param(APART, [T], ["Expand", "Attention"], id="of rank 1"),
        pytest.param(COLUMNS, [S, T], ["Transpose", "Attention"], id="keys as columns"),
        pytest.param(THREE, [1, S, T], ["Attention"], id="one head"),
        pytest.param(THREE, ["B", S, T], ["Unsqueeze", "Attention"], id="one head for each sample"),
        pytest.param(JOINED, ["B", 1, "L", "M"], ["Attention"], id="heads side by side"),
    ],
)
def test_masks_and_layouts(before, shape, expected):
    nodes = [*SCORES, *AFTER, node("Add", "c m", "a"), node("Softmax", "a", "p", axis=-1)]
    if before is JOINED:
        end = [
            node("MatMul", "p v", "o"),
            node("Transpose", "o", "u", perm=[0, 2, 1, 3]),
            node("Reshape", "u join", "y"),
        ]
    else:
        end = SHARES[1:]
    result = simplified(before, [*nodes, *end], more=[info("m", shape)])
    assert words(result) == expected
    heads = {"q_num_heads": H, "kv_num_heads": H} if before is JOINED else {}
    heads = {"q_num_heads": 1, "kv_num_heads": 1} if before is THREE else heads
    assert attributes(result) == {"scale": pytest.approx(0.4), **heads}


def test_zeroed_fully_masked_rows_are_part_of_attention():
    mask = np.zeros((S, T), np.float32)
    mask[1] = -np.inf
    nodes = [
        node("Add", "z mask", "c"),
        SHARES[0],
        node("IsNaN", "p", "i"),
        node("Where", "i zero p", "w"),
        node("MatMul", "w v", "y"),
    ]
    assert words(simplified(APART, [*SCORES, *nodes], constants={"mask": mask})) == ["Attention"]


@pytest.mark.parametrize(
    ("nodes", "opset"),
    [
        pytest.param([*SCORES, *AFTER, *SHARES], 22, id="an opset without it"),
        pytest.param([*SCORES, *AFTER, node("Softmax", "c", "p", axis=-2), SHARES[1]], 24, id="over the queries"),
        pytest.param([*SCORES, node("Sub", "z s", "c"), *SHARES], 24, id="a difference"),
        pytest.param([*SCORES, node("Div", "s z", "c"), *SHARES], 24, id="a quotient by the scores"),
        pytest.param([*SCORES, node("Mul", "z minus", "c"), *SHARES], 24, id="a negative scale"),
        pytest.param([*SCORES, node("Mul", "z each", "c"), *SHARES], 24, id="a scale for each query"),
        pytest.param([*SCORES, node("Tanh", "z", "c"), *SHARES], 24, id="something between"),
        pytest.param(
            [*SCORES, *AFTER, SHARES[0], node("Relu", "p", "w"), node("MatMul", "w v", "y")], 24, id="something behind"
        ),
        pytest.param(
            [*SCORES, *AFTER, SHARES[0], node("MatMul", "v p", "y")], 24, id="values on the left"
        ),
    ],
)  # fmt: skip
def test_similar_patterns_are_not_recomposed(nodes, opset):
    before = APART
    if nodes[-1].input[0] == "v":
        before = (APART[0], [info("q", ["B", H, T, D]), info("k", ["B", H, T, D]), info("v", ["B", H, D, T])])
    assert "Attention" not in words(simplified(before, nodes, opset))


@pytest.mark.parametrize("part", ["z", "c", "p"])
def test_parts_that_the_graph_returns_stay(part):
    assert "Attention" not in words(simplified(APART, [*SCORES, *AFTER, *SHARES], outputs=[part]))


def test_broadcast_mask_with_symbolic_query_length_is_not_fused():
    inputs = [info("q", ["B", H, "L", D]), *APART[1][1:]]
    nodes = [*SCORES, node("Add", "z m", "c"), *SHARES]
    result = simplified((APART[0], inputs), nodes, more=[info("m", ["B", 1, 1, T])])
    assert "Attention" not in words(result)


def test_an_opset_that_is_requested_allows_it(tmp_path):
    given = {"s": NUMBERS["s"]}
    proto = model([*APART[0], *SCORES, *AFTER, *SHARES], APART[1], [info("y", None)], given, opset=17)
    onnx.save(proto, tmp_path / "old.onnx")
    for opset, expected in ((None, 17), (24, 24), (18, 18)):
        options: dict[str, Any] = {} if opset is None else {"opset": opset}
        report = rewrite_file(tmp_path / "old.onnx", tmp_path / "new.onnx", SIMPLIFY, **options)
        assert report.passed
        written = onnx.load(tmp_path / "new.onnx")
        assert written.opset_import[0].version == expected
        assert [each.op_type for each in written.graph.node].count("Attention") == (expected == 24)


def test_recompose_attention_runs_only_for_formats_with_attention():
    assert "recompose-attention" in {each.name for each in supported_passes(SIMPLIFY, "openvino")}
    assert "recompose-attention" not in {each.name for each in supported_passes(SIMPLIFY, "caffe")}


HIDDEN = {"low": np.float32(-np.inf), "last": np.array([-1])}
BY_LARGEST = [node("ReduceMax", "m last", "h"), node("Equal", "h low", "e")]
BY_ANY = [
    node("Equal", "m low", "e0"),
    node("Not", "e0", "e1"),
    node("Cast", "e1", "e2", to=6),
    node("ReduceMax", "e2 last", "e3"),
    node("Cast", "e3", "e4", to=9),
    node("Not", "e4", "e"),
]


@pytest.mark.parametrize("hidden", [BY_LARGEST, BY_ANY])
def test_rows_that_see_no_key_are_zero_in_an_attention_too(hidden):
    nodes = [
        *SCORES,
        *AFTER,
        node("Add", "c mask", "m"),
        node("Softmax", "m", "p", axis=-1),
        *hidden,
        node("Where", "e zero p", "w"),
        node("MatMul", "w v", "y"),
    ]
    mask = np.where(np.arange(T) < np.arange(S)[:, None], 0, -np.inf).astype(np.float32)
    assert "Attention" in words(simplified(APART, nodes, constants={**HIDDEN, "mask": mask}))
    assert "Attention" not in words(simplified(APART, nodes, constants={**HIDDEN, "mask": mask}, outputs=["m"]))
    # Rows of other scores are no rows of these.
    other = [*nodes[:4], *[node(n.op_type, " ".join(n.input).replace("m ", "c "), n.output[0]) for n in hidden[:1]]]
    kept = [*other, *hidden[1:], *nodes[-2:]]
    assert "Attention" not in words(simplified(APART, kept, constants={**HIDDEN, "mask": mask}))


@pytest.mark.parametrize("shape", [[2, 1, 1, 1], [2, 3, S, T]])
def test_mask_that_enlarges_the_scores_is_not_fused(shape):
    inputs = [info("q", [1, 1, S, D]), info("k", [1, 1, T, D]), info("v", [1, 1, T, D])]
    nodes = [*SCORES, *AFTER, node("Add", "c m", "a"), node("Softmax", "a", "p", axis=-1), SHARES[1]]
    assert "Attention" not in words(simplified((APART[0], inputs), nodes, more=[info("m", shape)]))
