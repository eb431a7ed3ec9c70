"""What tract keeps from run to run along an axis is one operator, wherever the model says nothing else of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.graph_passes.tract import before_export
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, mark
from graphport.ir.verify import verify

F32 = DType.FLOAT32
PAST = Symbol("P", 0)
KINDS = [
    *("", "empty", "returned", "behind"),
    *("filled", "read", "in front", "three", "word", "of no type", "no shape", "x of no shape", "an input"),
]


def cached(kind: str, rank: int, axis: int) -> tuple[Graph, dict[str, Value]]:
    """`n = Concat(k, x)`, `y = Neg(n)`, and n is k in the next run."""
    graph: Any = Graph()
    dtype = None if kind == "of no type" else F32
    shape = [2 + place for place in range(rank)]
    past, own = list(shape), list(shape)
    past[axis], own[axis] = PAST, 3  # pyright: ignore[reportArgumentType]
    x = graph.add_input("x", TensorFact(dtype, None if kind == "x of no shape" else own))
    state = graph.add_input("k", TensorFact(dtype, None if kind == "no shape" else past))
    if kind in ("empty", "filled"):
        numbers = list(shape)
        numbers[axis] = int(kind == "filled")
        state.storage = storage_of(np.zeros(numbers, np.float32))
    operands = [x, state] if kind == "in front" else [state, x] + ([x] if kind == "three" else [])
    op_type = "Sub" if kind == "word" else "Concat"
    node = graph.append(Node(op_type, operands, [Value("n", TensorFact(dtype, None))], {"axis": axis}))
    result = node.output
    if kind == "behind":
        result = graph.append(Node("Identity", [result], [Value("later", result.fact)])).output
    if kind == "an input":
        result = x
    y = graph.append(Node("Neg", [node.output], [Value("y", UNKNOWN)])).output
    shown = [graph.append(Node("Neg", [state], [Value("z", UNKNOWN)])).output] if kind == "read" else []
    graph.set_outputs([y, result, *shown])
    mark(state, State(result.name, "cache", is_returned=kind == "returned"))
    return graph, {"x": x, "k": state, "n": node.output, "y": y}


def test_a_cache_is_one_operator_and_no_input():
    for kind in KINDS:
        for rank, axis in ((3, 1), (3, -2), (4, -1), (1, 0)):
            graph, values = cached(kind, rank, axis)
            before_export(graph)
            verify(graph)
            words = [node.op_type for node in graph]
            if kind not in ("", "empty", "returned"):
                assert "tract_transformers_dyn_kv_cache" not in words, kind
                assert values["k"] in graph.inputs
                continue
            assert words == ["tract_transformers_dyn_kv_cache", "Neg"], kind
            node = graph.first_node
            assert (node.dialect, node.output, node.operands) == ("tract", values["n"], [values["x"]])
            past = list(values["x"].fact.shape)
            past[axis] = PAST
            assert node.attributes == {
                "name": "cache",
                "axis": axis % rank,
                "datum_type": "f32",
                "past_sequence_shape": tuple(past),
                "input_sequence_shape": values["x"].fact.shape,
            }
            assert graph.inputs == [values["x"]]
            assert graph.outputs == [values["y"], *([values["n"]] if kind == "returned" else [])]


def test_inputs_have_the_extents_that_operators_leave_them():
    graph = Graph()
    n, m = graph.extents.declare("N"), graph.extents.declare("M")
    x, z = graph.add_input("x", TensorFact(F32, (n, 3))), graph.add_input("z", TensorFact(F32, (m, 3)))
    graph.add_output(graph.append(Node("MatMul", [x, z], [Value("y", UNKNOWN)])).output)
    graph.extents.equate(m, 3)
    before_export(graph)
    assert [str(value.fact) for value in graph.inputs] == ["float32[N, 3]", "float32[3, 3]"]
