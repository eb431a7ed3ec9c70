"""Algorithms on graphs are linear: ten times the nodes take about ten times the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import storage_of
from graphport.formats import FORMATS
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.ops.declare import OPSET
from graphport.ops.infer import infer

FEW, MANY = 5_000, 50_000
FACT = TensorFact(DType.FLOAT32, (Symbol("N"), 8))
LINEAR = MANY // FEW
MOST = 2 * LINEAR
"""Limit of the ratio; a quadratic algorithm would give 100."""


def chain(count: int) -> Graph:
    """Return a chain of `count` nodes: MatMul with a constant, Relu, and Add with an earlier value."""
    graph = Graph("chain", opsets={"": OPSET})
    x = graph.add_input("x", FACT)
    weight = storage_of(np.ones((8, 8), np.float32))
    w = graph.add_constant("w", TensorFact.of(weight), weight)
    last, before = x, x
    for number in range(count):
        match number % 3:
            case 0:
                node = Node("MatMul", [last, w], [Value(f"v{number}", FACT)])
            case 1:
                node = Node("Relu", [last], [Value(f"v{number}", FACT)])
            case _:
                node = Node("Add", [last, before], [Value(f"v{number}", FACT)])
                before = last
        last = graph.append(node).output
    graph.set_outputs([last])
    return graph


def raw(count: int) -> Graph:
    """Return the chain in the onnx dialect before legalization, as from the reader."""
    graph = chain(count)
    graph.opsets = {"onnx": 13}
    for node in graph:
        node.dialect = "onnx"
    return graph


def replace_each(graph: Graph) -> None:
    """Replace every node while iterating over the graph."""
    for node in graph:
        twin = graph.insert_before(node, Node("Tanh", [node.operand(0)], [Value(graph.fresh("t"), FACT)]))
        rewrite.replace(node.output, twin.output)
        graph.remove(node)


def write_onnx(graph: Graph, folder: Path) -> None:
    FORMATS["onnx"].write(graph, folder / "chain.onnx")


TASKS: dict[str, tuple[Callable[[int], Any], Callable[[Any, Path], object]]] = {
    "build": (lambda count: count, lambda count, _: chain(count)),
    "verify": (chain, lambda graph, _: verify(graph)),
    "replace each": (chain, lambda graph, _: replace_each(graph)),
    "copy": (chain, lambda graph, _: rewrite.copy(graph)),
    "sort": (chain, lambda graph, _: rewrite.sort_topologically(graph)),
    "infer": (chain, lambda graph, _: infer(graph)),
    "legalize": (raw, lambda graph, _: legalize(graph)),
    "export to NNEF": (chain, lambda graph, _: export_graph(graph, "nnef")),
    "write ONNX": (chain, write_onnx),
}
"""The untimed preparation by node count, and the timed function."""


def seconds(task: str, count: int, folder: Path, rounds: int) -> float:
    """Return the minimum processor time of several rounds, each on a new graph."""
    prepare, work = TASKS[task]
    found: list[float] = []
    for _ in range(rounds):
        given = prepare(count)
        # The time of the garbage collector depends on all live objects, including those of other tests.
        with paused_collection():
            begin = time.process_time()
            work(given, folder)
            found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("task", TASKS)
def test_ten_times_the_nodes_take_about_ten_times_the_time(benchmark, figure, tmp_path, task):
    prepare, work = TASKS[task]
    few = seconds(task, FEW, tmp_path, rounds=5)
    many = seconds(task, MANY, tmp_path, rounds=2)
    benchmark.extra_info["ratio"] = many / few
    figure(f"{task}: {MANY:,} nodes against {FEW:,}", many / few, f"about {LINEAR} (now {many:.2f} s)")
    benchmark.pedantic(work, setup=lambda: ((prepare(MANY), tmp_path), {}), rounds=1)
    assert many / few < MOST
