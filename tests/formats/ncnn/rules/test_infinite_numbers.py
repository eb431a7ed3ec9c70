"""Infinite numbers, which a sum of products would spread: choices, places, sums and extremes in ncnn."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.ncnn.rules.written import check, saved
from tests.models import node

pytest.importorskip("ncnn")

RANDOM = np.random.default_rng(2)
INF = np.inf


def numbers(*shape):
    """Of which a third is infinite."""
    found = RANDOM.normal(size=shape).astype(np.float32)
    kind = RANDOM.integers(0, 6, shape)
    return np.where(kind == 0, -INF, np.where(kind == 1, INF, found)).astype(np.float32)


X = numbers(1, 5, 7)
X[0, 2], X[0, :, 3] = -INF, INF
K = {"k": np.array([3], np.int64)}
FINITE = RANDOM.normal(size=(1, 5, 7)).astype(np.float32)


@pytest.mark.parametrize("axis", [1, 2])
def test_extremes_and_their_places(tmp_path, axis):
    for sign in (1, -1):
        x = {"x": sign * X}
        check(tmp_path, [node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=sign > 0)], x, K)
        for last in (0, 1):
            nodes = [node(op, ["x"], [op], axis=axis, select_last_index=last) for op in ("ArgMax", "ArgMin")]
            check(tmp_path, nodes, x)


@pytest.mark.parametrize("axis", [1, 2])
def test_elements_at_places_that_are_computed(tmp_path, axis):
    nodes = [
        node("ArgMax", ["s"], ["i"], axis=axis),
        node("Sub", ["i", "n"], ["j"]),
        node("GatherElements", ["x", "j"], ["a"], axis=axis),
        node("Squeeze", ["i", "axis"], ["q"]),
        node("Gather", ["x", "q"], ["b"], axis=axis),
        node("Gather", ["table", "q"], ["c"]),
        node("Neg", ["x"], ["u"]),
        node("TopK", ["s", "k"], ["v", "t"], axis=axis),
        node("ScatterElements", ["s", "t", "v2"], ["d"], axis=axis),
        node("ScatterElements", ["u", "t", "v2"], ["e"], axis=axis, reduction="add"),
        node("GatherElements", ["x", "t"], ["v2"], axis=axis),
    ]
    order = [*range(8), 10, 8, 9]
    constants = {
        **K,
        "n": np.array(X.shape[axis], np.int64),
        "axis": np.array([0], np.int64),
        "table": numbers(7, 3),
    }
    check(tmp_path, [nodes[place] for place in order], {"x": X, "s": FINITE}, constants)


def test_elements_at_places_that_are_known(tmp_path):
    constants = {"i": RANDOM.integers(-7, 7, 200), "p": np.array([[0, 1], [0, 1], [0, 3]])}
    nodes = [
        node("Gather", ["x", "i"], ["a"], axis=2),
        node("ScatterND", ["s", "p", "u"], ["b"], reduction="add"),
    ]
    check(tmp_path, nodes, {"x": X, "s": FINITE, "u": numbers(3, 7)}, constants)


CHOSEN = [-INF, INF, -1e9, float(np.finfo(np.float32).min), 0.0]


@pytest.mark.parametrize("is_known", [True, False])
def test_unselected_branches_are_removed(tmp_path, is_known):
    condition = {"c": FINITE > 0} if is_known else {}
    first = [] if is_known else [node("Greater", ["s", "zero"], ["c"])]
    nodes = [*first, node("Where", ["c", "x", "u"], ["a"]), node("Trilu", ["x"], ["b"])]
    constants = {"zero": np.array(0, np.float32), **condition}
    for place, number in enumerate(CHOSEN):
        constants[f"n{place}"] = np.array(number, np.float32)
        nodes.append(node("Where", ["c", "x", f"n{place}"], [f"p{place}"]))
        nodes.append(node("Where", ["c", f"n{place}", "x"], [f"q{place}"]))
        if not is_known and place:
            nodes.append(node("Where", ["c", "n0", f"n{place}"], [f"r{place}"]))
    check(tmp_path, nodes, {"x": X, "u": numbers(1, 5, 7), "s": FINITE}, constants)


def test_nan_is_removed(tmp_path):
    x = X.copy()
    x[0, 1, 2:5] = np.nan
    constants = {"zero": np.array(0, np.float32), "row": np.arange(7, dtype=np.float32)}
    nodes = [
        node("IsNaN", ["x"], ["n"]),
        node("Where", ["n", "zero", "x"], ["a"]),
        node("Not", ["n"], ["o"]),
        node("Where", ["o", "a", "row"], ["b"]),
        node("IsInf", ["a"], ["f"], detect_negative=0),
        node("Where", ["f", "row", "a"], ["c"]),
    ]
    check(tmp_path, nodes, {"x": x}, constants)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("count", [7, 40000])
def test_what_has_no_value_and_is_not_chosen_is_gone(tmp_path, is_known, count):
    s = RANDOM.normal(size=(1, 20, count)).astype(np.float32)
    constants = {"zero": np.array(0, np.float32), **({"c": s > 0} if is_known else {})}
    nodes = [] if is_known else [node("Greater", ["s", "zero"], ["c"])]
    nodes += [
        node("Sqrt", ["s"], ["r"]),
        node("Neg", ["r"], ["q"]),
        node("Where", ["c", "q", "s"], ["a"]),
        node("Softmax", ["x"], ["p"]),
        node("Greater", ["x", "least"], ["d"]),
        node("Where", ["d", "p", "zero"], ["b"]),
    ]
    x = np.where(RANDOM.random((1, 4, 9)) < 0.3, -INF, RANDOM.normal(size=(1, 4, 9))).astype(np.float32)
    x[0, 1] = -INF
    constants["least"] = np.array(-1e30, np.float32)
    check(tmp_path, nodes, {"x": x, "s": s}, constants)


def test_what_a_function_loses_is_not_reported_from_others(tmp_path):
    nodes = [node("Softmax", ["x"], ["s"]), node("IsNaN", ["s"], ["n"]), node("Where", ["n", "x", "s"], ["y"])]
    with pytest.raises(DiagnosticError, match="do not preserve NaN"):
        saved(tmp_path, nodes, {"x": X})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_without_an_element_itself(tmp_path, axis):
    x = np.array([[[1e8, 1, 2, -1e8, 3], [INF, 1, 2, 3, 4], [1, 2, 3, 4, 5]]], np.float32)
    for reverse in (0, 1):
        nodes = [node("CumSum", ["x", "axis"], ["y"], exclusive=1, reverse=reverse)]
        check(tmp_path, nodes, {"x": x}, {"axis": np.array(axis, np.int64)})


def test_bounds_and_terms(tmp_path):
    constants = {"low": np.array(-INF, np.float32), "two": np.array(2, np.float32), "p": np.array([0, 1, 1, 0, 0, 1])}
    nodes = [
        node("Clip", ["x", "low", "two"], ["a"]),
        node("Clip", ["x", "two"], ["b"]),
        node("Clip", ["x", "low"], ["c"]),
        node("Add", ["s", "low"], ["d"]),
        node("Pad", ["s", "p", "low"], ["e"]),
        node("Max", ["s", "low"], ["f"]),
    ]
    check(tmp_path, nodes, {"x": X, "s": FINITE}, constants)


def test_a_parameter_that_has_no_text_is_refused(tmp_path):
    with pytest.raises(DiagnosticError, match="infinite or NaN"):
        saved(tmp_path, [node("LeakyRelu", ["x"], ["y"], alpha=INF)], {"x": X})


def test_a_constant_that_is_no_number_is_chosen_and_nothing_else_is_lost(tmp_path):
    nodes = [
        node("Less", ["x", "zero"], ["c"]),
        node("Where", ["c", "nan", "x"], ["a"]),
        node("Where", ["c", "x", "nan"], ["b"]),
    ]
    check(tmp_path, nodes, {"x": FINITE}, {"zero": np.array(0, np.float32), "nan": np.array(np.nan, np.float32)})
    # What is read is computed by readers to whom the smaller one of a number and of none is none.
    again = gp.load(tmp_path / "net.param")
    below, above = gp.run(again, {"x": FINITE}, backend="reference").values()
    np.testing.assert_array_equal(below, np.where(FINITE < 0, np.float32(np.nan), FINITE))
    np.testing.assert_array_equal(above, np.where(FINITE < 0, FINITE, np.float32(np.nan)))


def test_one_of_two_single_numbers_that_may_be_none(tmp_path):
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("ReduceMax", ["x"], ["t"], keepdims=0),
        node("Div", ["s", "t"], ["q"]),
        node("Greater", ["s", "bound"], ["c"]),
        node("Where", ["c", "q", "s"], ["w"]),
        node("Mul", ["x", "w"], ["y"]),
    ]
    for bound in (-1e6, 1e6):
        check(tmp_path, nodes, {"x": FINITE}, {"bound": np.array(bound, np.float32)}, rtol=1e-4)
