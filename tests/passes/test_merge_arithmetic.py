"""Sums and products with constants are merged or removed; without a proof of equality they are unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.facts import UNKNOWN
from graphport.passes.journal import Journal
from graphport.passes.merge_arithmetic import merge_arithmetic, remove_neutral
from tests.every import every
from tests.passes.alone import done, read
from tests.passes.cases import I64, node, some


@pytest.mark.parametrize(
    ("op", "operands", "number", "goes"),
    [
        ("Add", "x n", 0, True),
        ("Add", "n x", 0, True),
        ("Sub", "x n", 0, True),
        ("Sub", "n x", 0, False),
        ("Mul", "x n", 1, True),
        ("Mul", "n x", 1, True),
        ("Div", "x n", 1, True),
        ("Div", "n x", 1, False),
        ("Pow", "x n", 1, True),
        ("Pow", "n x", 1, False),
        *[(op, "x n", 1, False) for op in ("Add", "Sub")],
        *[(op, "x n", 2, False) for op in ("Mul", "Div", "Pow")],
        *[(op, "x n", 0, False) for op in ("Mul", "Pow")],
    ],
)
def test_neutral_operands_are_removed(op, operands, number, goes):
    for shape in ((), (1,), (4,), (3, 1)):
        constants = {"n": np.full(shape, number, np.float32)}
        ops, _ = done(remove_neutral, [node(op, operands, "h"), node("Relu", "h", "y")], **constants)
        assert ops == (["Relu"] if goes else [op, "Relu"])
    for constants in (
        np.full((1, 1, 1, 1), number),
        np.full((5, 2, 3, 4), number),
        np.array([number] * 3 + [number + 1]),
    ):
        n = constants.astype(np.float32)
        ops, _ = done(remove_neutral, [node(op, operands, "h"), node("Relu", "h", "y")], n=n)
        assert ops == [op, "Relu"]


def test_a_sum_with_0_between_public_names_stays():
    assert done(remove_neutral, [node("Add", "x n", "y")], n=np.float32(0))[0] == ["Identity"]


def both(first: Any, second: Any, *, constants, between="h", **options):
    return done(
        merge_arithmetic,
        [node(first[0], first[1], "h"), node(second[0], second[1], "y")],
        exact=False,
        **constants,
        **options,
    )


OPERANDS = [("Add", "x a"), ("Add", "a x"), ("Sub", "x a"), ("Mul", "x a"), ("Mul", "a x"), ("Div", "x a")]


@every("first", OPERANDS, ids=" ".join)
@every("second", OPERANDS, ids=" ".join)
def test_two_sums_or_two_products_with_constants_are_merged(first, second):
    is_sum = [op in ("Add", "Sub") for op, _ in (first, second)]
    op, operands = second
    ops, journal = both(
        first, (op, operands.replace("x", "h").replace("a", "b")), constants={"a": some(4) + 3, "b": some(3, 1) * 0 + 2}
    )
    assert len(ops) == 2  # neither constant is as large as both
    ops, journal = both(
        first, (op, operands.replace("x", "h").replace("a", "b")), constants={"a": some(3, 4) + 3, "b": some(4) + 2}
    )
    merged = ["Add" if is_sum[0] else "Mul"]
    assert ops == (merged if is_sum[0] == is_sum[1] else [first[0], second[0]])
    assert len(journal.done) == (is_sum[0] == is_sum[1])


@pytest.mark.parametrize("second", [("Sub", "b h"), ("Div", "b h"), ("Pow", "h b"), ("Max", "h b")], ids=" ".join)
def test_slices_of_a_constant_are_unchanged(second):
    for first in (("Add", "x a"), ("Mul", "x a")):
        constants = {"a": np.float32(3), "b": np.float32(2)}
        assert len(both(first, second, constants=constants)[0]) == 2
        op, operands = second
        turned = (op, operands.replace("h", "x").replace("b", "a"))
        assert len(both(turned, (first[0], "h b"), constants=constants)[0]) == 2


def test_arithmetic_is_not_merged_if_results_would_differ():
    one, two = {"a": np.float32(3), "b": np.float32(2)}, {"a": np.float32(1e30), "b": np.float32(1e30)}
    assert len(both(("Mul", "x a"), ("Mul", "h b"), constants=one)[0]) == 1
    assert len(both(("Mul", "x a"), ("Mul", "h b"), constants=one, outputs=("y", "h"))[0]) == 2
    graph = read([node("Mul", "x a", "h"), node("Mul", "h b", "y")], **two)
    merge_arithmetic(graph, Journal())
    assert len(graph) == 2  # the product of both is infinite
    graph = read([node("Div", "x a", "h"), node("Mul", "h b", "y")], a=np.float32(0), b=np.float32(2))
    merge_arithmetic(graph, Journal())
    assert len(graph) == 2
    graph = read([node("Mul", "x a", "h"), node("Mul", "h b", "y")], **one)
    graph.outputs[0].fact = UNKNOWN
    merge_arithmetic(graph, Journal())
    assert len(graph) == 2
    integers = {"a": np.array(3), "b": np.array(2)}
    ops, _ = done(
        merge_arithmetic,
        [node("Mul", "x a", "h"), node("Mul", "h b", "y")],
        dtypes={"x": I64, "y": I64},
        **integers,
    )
    assert ops == ["Mul", "Mul"]
    assert len(done(merge_arithmetic, [node("Mul", "x x", "h"), node("Mul", "h b", "y")], b=np.float32(2))[0]) == 2
