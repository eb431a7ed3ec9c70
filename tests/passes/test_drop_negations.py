"""Choices and comparisons without a negation choose and compare as they did."""

from __future__ import annotations

import numpy as np

from graphport.passes.drop_negations import drop_negations
from tests.every import every
from tests.passes.alone import applied
from tests.passes.cases import I64, B, F, info, model, node

C = np.array([True, False, True])
NUMBERS = np.array([1.0, np.nan, 3.0], np.float32)


def dropped(nodes, outputs=("y",), dtype=F, opset=18):
    """The operators that are left; of three numbers each, of which NaN is one where they are real."""
    a = NUMBERS if dtype == F else np.array([1, 2, 3])
    b = np.array([2, 2, 2], a.dtype)
    inputs = [info("c", [3], B), info("a", [3], dtype), info("b", [3], dtype)]
    is_choice = nodes[-1].op_type == "Where"
    results = [info(name, None, dtype if is_choice and name == "y" else B) for name in outputs]
    return applied(model(nodes, inputs, results, opset=opset), drop_negations, {"c": C, "a": a, "b": b})[0]


def test_not_before_where_swaps_its_branches():
    nodes = [node("Not", "c", "n"), node("Where", "n a b", "y")]
    assert dropped(nodes) == ["Where"]
    assert dropped(nodes, ("n", "y")) == ["Not", "Where"]
    assert dropped([nodes[0], node("Not", "n", "m"), node("Where", "m a b", "y")]) == ["Where"]


@every("op", ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])
@every(("dtype", "others"), [(F, False), (I64, False), (I64, True)])
def test_not_after_integer_comparison_negates_the_comparison(op, dtype, others):
    nodes = [node(op, "a b", "n"), node("Not", "n", "y")]
    left = dropped(nodes, ("n", "y") if others else ("y",), dtype)
    assert len(left) == (1 if dtype == I64 and op != "Equal" and not others else 2)


def test_not_is_kept_if_the_opset_lacks_the_negated_comparison():
    for op, count in (("Less", 2), ("Greater", 2)):
        assert len(dropped([node(op, "a b", "n"), node("Not", "n", "y")], ("y",), I64, opset=11)) == count
