"""What simplifying keeps: outputs, interface, size, quantized weights, shared weights; and what it makes smaller."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import graphport as gp
from graphport.api.rewrite import rewrite_file
from graphport.passes.driver import PassList, run
from graphport.passes.simplify import SIMPLIFY
from tests.draws import spread
from tests.every import every
from tests.passes import facts
from tests.passes.cases import Case, bn, graph, info, model, node, norm, some
from tests.passes.families import cases

CASES = cases()


@every("case", CASES, ids=lambda case: case.name)
def test_a_simplified_model_computes_equal_results_and_is_not_larger(case: Case, tmp_path):
    source, result = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(case.model, source)
    report = rewrite_file(source, result, SIMPLIFY, verify=False)
    facts.assert_equal(source, result, case.feeds or facts.feeds_of(case.model), case.tolerance)
    facts.assert_same_interface(case.model, onnx.load(result))
    facts.assert_loads(source, result)
    assert report.nodes_after <= report.nodes_before or report.changes["upgrade"]


@every("case", spread(CASES), ids=lambda case: case.name)
def test_simplify_is_idempotent(case: Case):
    once, _ = gp.simplify(gp.from_onnx(case.model), verify=False)
    _, report = gp.simplify(once, verify=False)
    assert {name: count for name, count in report.changes.items() if count} == {}


@every("case", spread(CASES, start=1), ids=lambda case: case.name)
def test_any_pass_order_keeps_the_results(case: Case, tmp_path):
    result, _ = gp.simplify(gp.from_onnx(case.model), only=["remove-dead"], verify=False)
    shuffled = list(SIMPLIFY)
    random.Random(case.name).shuffle(shuffled)
    run(result.graph, PassList(tuple(shuffled)))
    source, target = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(case.model, source)
    gp.save(result, target)
    facts.assert_equal(source, target, case.feeds or facts.feeds_of(case.model), case.tolerance)
    facts.assert_loads(source, target)


# What it makes smaller


def simplified(nodes, inputs, outputs, constants=None, **options):
    proto = model(nodes, inputs, outputs, constants or {}, **options)
    result, report = gp.simplify(gp.from_onnx(proto))
    assert report.passed
    return result, report


def words(result) -> list[str]:
    return [each.op for each in result.graph]


X, Y = info("x", ["N", 3, 4]), info("y", None)


@pytest.mark.parametrize(
    ("nodes", "constants", "expected"),
    [
        pytest.param(
            [node("Unsqueeze", "x a", "h"), node("Reshape", "h s", "k"), node("Flatten", "k", "y", axis=1)],
            {"a": np.array([1]), "s": np.array([-1, 4, 3])},
            ["Reshape"],
            id="reshapes are one",
        ),
        pytest.param(
            [node("Transpose", "x", "h", perm=[1, 2, 0]), node("Transpose", "h", "y", perm=[2, 0, 1])],
            {},
            ["Identity"],
            id="transposes cancel",
        ),
        pytest.param(
            [node("Transpose", "x", "h", perm=[1, 2, 0]), node("Transpose", "h", "y", perm=[1, 2, 0])],
            {},
            ["Transpose"],
            id="transposes are one",
        ),
        pytest.param(
            [
                node("Transpose", "x", "h", perm=[0, 2, 1]),
                node("Mul", "c h", "i"),
                node("LeakyRelu", "i", "j"),
                node("Sub", "j d", "k"),
                node("Pow", "two k", "l"),
                node("Transpose", "l", "y", perm=[0, 2, 1]),
            ],
            {"c": some(3), "d": some(4, 1), "two": np.float32(2)},
            ["Mul", "LeakyRelu", "Sub", "Pow"],
            id="transposes meet over operators on elements",
        ),
        pytest.param(
            [
                node("Transpose", "x", "h", perm=[2, 0, 1]),
                node("Add", "h c", "k"),
                node("Transpose", "k", "y", perm=[2, 0, 1]),
            ],
            {"c": some(4, 1, 3)},
            ["Add", "Transpose"],
            id="and are one where they do not cancel",
        ),
        pytest.param(
            [
                node("Transpose", "x", "h", perm=[0, 2, 1]),
                node("Softmax", "h", "k", axis=-1),
                node("Transpose", "k", "y", perm=[0, 2, 1]),
            ],
            {},
            ["Transpose", "Softmax", "Transpose"],
            id="but not over one that has an axis",
        ),
        pytest.param(
            [
                node("Transpose", "x", "h", perm=[0, 2, 1]),
                node("LRN", "h", "k", size=3),
                node("Transpose", "k", "y", perm=[0, 2, 1]),
            ],
            {},
            ["Transpose", "LRN", "Transpose"],
            id="or sums over neighbours",
        ),
        pytest.param(
            [node("Slice", "x a b a", "h"), node("Slice", "h b c b", "y")],
            {"a": np.array([1]), "b": np.array([2]), "c": np.array([3])},
            ["Slice"],
            id="slices of different axes are one",
        ),
        pytest.param(
            [node("Concat", "x x", "h", axis=-1), node("Concat", "x h", "y", axis=2)],
            {},
            ["Concat"],
            id="concats are one",
        ),
        pytest.param(
            [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Add", "a b", "y")],
            {},
            ["Relu", "Add"],
            id="the same twice is computed once",
        ),
        pytest.param(
            [node("Mul", "x a", "h"), node("Div", "h b", "k"), node("Mul", "k c", "y")],
            {"a": some(4), "b": np.float32(2), "c": some(3, 1)},
            ["Mul", "Mul"],
            id="products are one where the constant does not grow",
        ),
        pytest.param(
            [node("Add", "x a", "h"), node("Sub", "h b", "k"), node("Add", "c k", "y")],
            {"a": some(4), "b": np.float32(2), "c": np.float32(3)},
            ["Add"],
            id="sums are one",
        ),
        pytest.param(
            [node("Mul", "x one", "a"), node("Add", "zero a", "b"), node("Pow", "b one", "c"), node("Relu", "c", "y")],
            {"one": np.float32(1), "zero": np.zeros(4, np.float32)},
            ["Relu"],
            id="neutral constants go",
        ),
        pytest.param(
            [node("Pad", "x p", "h"), node("Conv", "h w", "y", pads=[1, 0])],
            {"p": np.array([0, 0, 2, 0, 0, 1]), "w": some(5, 3, 3)},
            ["Conv"],
            id="zeros around are pads",
        ),
        pytest.param(
            [node("Conv", "x w", "h"), node("Neg", "h", "y")],
            {"w": some(5, 3, 3)},
            ["Conv"],
            id="a sign is in the weights",
        ),
    ],
)
def test_chains_are_merged(nodes, constants, expected):
    result, _ = simplified(nodes, [X], [Y], constants)
    assert words(result) == expected


def test_a_product_that_would_be_larger_stays_two():
    nodes = [node("Mul", "x one", "h"), node("Add", "h c", "y")]
    result, _ = simplified(nodes, [info("x", ["N", 1])], [Y], {"one": np.ones((1, 4), np.float32), "c": some(1)})
    assert words(result) == ["Mul", "Add"]


@pytest.mark.parametrize(("condition", "expected"), [(True, "Neg"), (False, "Abs")])
def test_if_with_constant_condition_is_inlined(condition, expected):
    then = graph([node("Relu", "x", "a"), node("Neg", "a", "b")], [], [info("b", None)])
    other = graph([node("Abs", "x", "c")], [], [info("c", None)])
    nodes = [node("If", "k", "h", then_branch=then, else_branch=other), node("Exp", "h", "y")]
    result, _ = simplified(nodes, [X], [Y], {"k": np.array(condition)})
    assert expected in words(result)
    assert "If" not in words(result)


def test_branch_rejected_by_consumers_is_removed():
    then = graph([node("Unsqueeze", "s axis", "a")], [], [info("a", None)])
    other = graph([node("Identity", "s", "b")], [], [info("b", None)])
    nodes = [
        node("ReduceMax", "s", "m", keepdims=0),
        node("Cast", "m", "k", to=9),
        node("If", "k", "h", then_branch=then, else_branch=other),
        node("Unsqueeze", "h axis", "i"),
        node("RNN", "x w r _ _ i", "y", hidden_size=5),
    ]
    constants = {"w": some(1, 5, 4), "r": some(1, 5, 5), "axis": np.array([0])}
    proto = model(nodes, [info("x", [3, 2, 4]), info("s", [2, 5])], [Y], constants)
    zeros = {"x": some(3, 2, 4), "s": np.zeros((2, 5), np.float32)}
    result, report = gp.simplify(gp.from_onnx(proto), inputs=zeros)
    assert report.passed
    assert words(result) == ["Unsqueeze", "RNN"]


def test_equal_weights_are_shared():
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a w", "b"), node("MatMul", "b v", "y")]
    w = some(4, 4)
    result, _ = simplified(nodes, [X], [Y], {"w": w, "v": w.copy()})
    assert [value.name for value in result.graph.constants] == ["w"]


def test_quantized_weights_are_not_undone_and_the_report_reports_it():
    w = np.random.default_rng(0).integers(-127, 127, (40, 50)).astype(np.int8)
    nodes = [node("Cast", "w", "f", to=TensorProto.FLOAT), node("Mul", "f s", "g"), node("MatMul", "x g", "y")]
    result, report = simplified(nodes, [info("x", [2, 40])], [Y], {"w": w, "s": some(50)})
    assert words(result) == ["Cast", "Mul", "MatMul"]
    (folding,) = [outcome for outcome in report.passes if outcome.name == "fold-constants"]
    assert [str(note) for note in folding.left] == ["Cast f: w has 8 bits per element, its result has more"]


def test_simplify_limits_file_growth(tmp_path):
    nodes = [
        node("ConstantOfShape", "s", "w", value=numpy_helper.from_array(np.float32([0.5]))),
        node("MatMul", "x w", "y"),
    ]
    proto = model(nodes, [info("x", [2, 300])], [info("y", [2, 300])], {"s": np.array([300, 300])})
    onnx.save(proto, tmp_path / "source.onnx")
    report = rewrite_file(tmp_path / "source.onnx", tmp_path / "result.onnx", SIMPLIFY)
    assert report.passed
    assert (tmp_path / "result.onnx").stat().st_size <= 1.2 * (tmp_path / "source.onnx").stat().st_size


def test_weights_that_are_cut_and_joined_again_are_computed():
    cuts = [node("Slice", f"w {a} {b}", name) for a, b, name in (("p", "q", "i"), ("q", "e", "j"))]
    nodes = [*cuts, node("Concat", "j i", "v", axis=0), node("MatMul", "x v", "y")]
    constants = {"w": some(400, 300), "p": np.array([0]), "q": np.array([150]), "e": np.array([400])}
    result, _ = simplified(nodes, [info("x", [2, 400])], [Y], constants)
    assert words(result) == ["MatMul"]
    assert len(result.graph.constants) == 1


def test_normalizations_of_functions_are_folded():
    nodes = [node("Conv", "x w", "h"), bn("h", "k"), node("Relu", "k", "y")]
    result, _ = simplified(nodes, [X], [Y], {"w": some(5, 3, 3), **norm(5)})
    assert words(result) == ["Conv", "Relu"]


def loop(inside, *, turns: int = 3, condition: str = "go"):
    body = graph(
        [*inside, node("Identity", condition, "on")],
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("s", [3])],
        [info("on", [], TensorProto.BOOL), info("t", [3]), info("o", None)],
    )
    constants = {"n": np.array(turns), "yes": np.array(True), "k": some(3)}
    nodes = [node("Loop", "n yes x", "y z", body=body)]
    return simplified(nodes, [info("x", [3])], [info("y", [3]), info("z", None)], constants)[0]


def test_short_loops_with_scan_outputs_are_unrolled():
    inside = [node("Mul", "s k", "t"), node("Cast", "i", "f", to=1), node("Add", "t f", "o")]
    result = loop(inside)
    assert "Loop" not in words(result)
    assert words(result).count("Mul") == 3
    assert list(result.outputs) == ["y", "z"]


def test_turns_that_are_unrolled_have_nodes_of_different_names():
    inside = [node("Mul", "s k", "t", name="scale"), node("Add", "t t", "o", name="twice")]
    names = [each.name for each in loop(inside).graph if each.name]
    assert {"scale", "scale.1", "scale.2"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("inside", "options"),
    [
        pytest.param([node("Mul", "s k", "t"), node("Neg", "t", "o")], {"turns": 9}, id="too many turns"),
        pytest.param([node("Mul", "s k", "t"), node("Neg", "t", "o")], {"turns": 0}, id="no turn"),
        pytest.param(
            [
                node("Mul", "s k", "t"),
                node("Neg", "t", "o"),
                node("ReduceMax", "t", "m", keepdims=0),
                node("Cast", "m", "more", to=9),
            ],
            {"condition": "more"},
            id="the body decides",
        ),
    ],
)
def test_other_loops_stay(inside, options):
    assert words(loop(inside, **options)) == ["Loop"]


def test_a_loop_that_passes_a_value_through_is_gone():
    result = loop([node("Identity", "s", "t"), node("Neg", "k", "o")])
    assert "Loop" not in words(result)
