"""Correspondence of the values of two graphs: by names, notes, positions and structure."""

from __future__ import annotations

import random

import pytest

from graphport.comparison.correspondence import correspondence
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value


def partners(a, b):
    """Return, for values of `a` in order, the corresponding values of `b`."""
    return {mine: other for other, mine in correspondence(a, b).items()}


def fact(*shape):
    return TensorFact(DType.FLOAT32, shape)


def add(graph, op_type, operands, result, shape):
    node = graph.append(Node(op_type, operands, [Value(graph.fresh(result), fact(*shape))]))
    return node.output


def drawn(seed):
    """Return a graph without equal nodes (operator and operands), so that its structure identifies each node."""
    r = random.Random(seed)
    graph = Graph("g")
    values = [graph.add_input(name, fact(2, 3)) for name in ("x", "y")]
    made = set()
    for index in range(r.randint(1, 9)):
        operands = [r.choice(values) for _ in range(r.randint(1, 2))]
        op_type = r.choice(["Relu", "Neg"]) if len(operands) == 1 else r.choice(["Add", "Mul"])
        if (op_type, *operands) not in made:
            made.add((op_type, *operands))
            values.append(add(graph, op_type, operands, f"v{index}", (2, 3)))
    graph.set_outputs(values[-1:])
    return graph


def renamed(graph, prefix="z"):
    """Return a copy with other names, and a map from the values of `graph` to those of the copy."""
    twin = rewrite.copy(graph)
    pairs = dict(zip(graph.values(), twin.values(), strict=True))
    for index, value in enumerate(pairs.values()):
        twin.rename(value, f"{prefix}{index}")
    return twin, pairs


@pytest.mark.parametrize("names", ["same", "others", "remembered"])
def test_copy_corresponds_to_its_original(names):
    for seed in range(40):
        graph = drawn(seed)
        twin, pairs = renamed(graph)
        for value, other in pairs.items():
            if names == "same":
                twin.rename(other, value.name)
            elif names == "remembered":
                other.notes["original_name"] = value.name
        assert partners(graph, twin) == pairs
        assert list(partners(graph, twin)) == list(graph.values())


def test_names_take_precedence_over_positions():
    a, b = Graph("a"), Graph("b")
    one, two = (a.add_input(name, fact(2)) for name in ("x", "y"))
    other, same = (b.add_input(name, fact(2)) for name in ("y", "w"))
    assert partners(a, b) == {one: same, two: other}


def test_only_inputs_correspond_across_shapes():
    a, b = Graph("a"), Graph("b")
    x, y = a.add_input("x", fact(2, 3)), b.add_input("x", fact(1, 2, 3))
    inner, other = add(a, "Relu", [x], "h", (2, 3)), add(b, "Relu", [y], "h", (1, 2, 3))
    add(a, "Neg", [inner], "k", (2, 3))
    assert partners(a, b) == {x: y}
    other.fact = fact(2, 4)
    assert partners(a, b) == {x: y}
    other.fact = TensorFact(DType.FLOAT32, None)
    assert partners(a, b) == {x: y, inner: other}


def test_ambiguous_values_have_no_partner():
    a, b = Graph("a"), Graph("b")
    x, y = a.add_input("x", fact(2)), b.add_input("x", fact(2))
    value = add(a, "Relu", [x], "h", (2,))
    found = [add(b, "Relu", [y], name, (2,)) for name in ("p", "q")]
    assert partners(a, b) == {x: y}
    add(a, "Neg", [value], "p", (2,))
    assert partners(a, b)[a.first_node.next.output] is found[0]
    assert partners(a, b)[value] is found[1]


def test_constants_have_no_partner_and_do_not_block_others():
    a, b = Graph("a"), Graph("b")
    x, y = a.add_input("x", fact(2)), b.add_input("x", fact(2))
    weights = [g.add_constant(name, fact(2), storage_of([1.0, 2.0])) for g, name in ((a, "w"), (b, "u"))]
    value, other = add(a, "Mul", [x, weights[0]], "h", (2,)), add(b, "Mul", [y, weights[1]], "k", (2,))
    turned = add(b, "Mul", [weights[1], y], "l", (2,))
    assert partners(a, b) == {x: y, value: other}
    assert turned not in partners(a, b).values()
    unknown = add(a, "Sin", [x], "s", (2,))
    reads_unknown = add(a, "Mul", [value, unknown], "m", (2,))
    add(b, "Mul", [other, other], "n", (2,))
    assert reads_unknown not in partners(a, b)


def test_results_of_different_rank_do_not_correspond():
    a, b = Graph("a"), Graph("b")
    x, y = a.add_input("x", fact(2, 3)), b.add_input("x", fact(2, 3))
    inner, other = add(a, "Relu", [x], "h", (2, 3)), add(b, "Relu", [y], "h", (2, 3, 1))
    add(a, "Neg", [inner], "k", (2, 3))
    add(b, "Neg", [other], "l", (2, 3, 1))
    assert partners(a, b) == {x: y}
