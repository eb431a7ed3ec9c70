"""Operations of `graphport.ir` are linear in graphs of every form: long chains, high fan-in, fan-out, many bodies."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.test_scaling import FEW, LINEAR, MANY, MOST, chain, replace_each

from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.search import has_path, nodes_on_paths, paths
from graphport.ir.text import from_text, to_text
from graphport.ir.verify import verify


def wide(count: int) -> Graph:
    """Return one node that reads from `count` nodes, which all read one value and are outputs."""
    graph = Graph()
    x = graph.add_input("x")
    values = [graph.append(Node("Relu", [x], [Value(f"v{number}")])).output for number in range(count)]
    graph.append(Node("Concat", values, [Value("y")]))
    graph.set_outputs(values)
    return graph


def branches(count: int) -> Graph:
    """Return `count` nodes, half of them in bodies that read values of the outer graph."""
    graph = Graph()
    value = graph.add_input("x")
    for number in range(count // 2):
        body = Graph("then")
        body.add_output(body.append(Node("Relu", [value], [Value(f"b{number}")])).output)
        value = graph.append(Node("If", [value], [Value(f"v{number}")], {"then_branch": body})).output
    graph.add_output(value)
    return graph


def diamonds(count: int) -> Graph:
    """Return a chain in which every third node joins two paths from its predecessor."""
    graph = Graph()
    value = graph.append(Node("Start", [], [Value("start")])).output
    for number in range(count // 3):
        left, right = (graph.append(Node("Relu", [value], [Value(f"{side}{number}")])).output for side in "lr")
        value = graph.append(Node("Add", [left, right], [Value(f"v{number}")])).output
    graph.add_output(value)
    return graph


def edit(graph: Graph) -> None:
    """Run every rewrite of a whole graph that a pass may use."""
    replace_each(graph)
    verify(graph)
    rewrite.sort_topologically(graph)
    verify(rewrite.copy(graph))
    graph.set_outputs(graph.outputs[:1])
    rewrite.remove_dead(graph)
    verify(graph)


def search(graph: Graph) -> None:
    """Run every kind of search, in both directions, in a graph with exponentially many paths."""
    last, relay = graph.outputs[0], ("Add", "Relu")

    def is_last(node: Node) -> bool:
        return node.output is last

    has_path(graph, "Start", is_last, relay=relay)
    nodes_on_paths(graph, "Start", is_last, relay=relay)
    nodes_on_paths(graph, is_last, None, relay=relay, direction="up")
    paths(graph, "Relu", "Add")
    paths(graph, "Start", is_last, relay=relay, limit=3)


TASKS: dict[str, tuple[Callable[[int], Any], Callable[[Any], object]]] = {
    "text, written": (chain, to_text),
    "text, read": (lambda count: to_text(chain(count), inline=None), from_text),
    "text of bodies, both ways": (branches, lambda graph: from_text(to_text(graph))),
    "search": (diamonds, search),
    "edits of a wide node": (wide, edit),
    "edits around bodies": (branches, edit),
}


def seconds(task: str, count: int, rounds: int) -> float:
    """Return the minimum processor time of several rounds, each on a new graph.

    The garbage collector is disabled: its time depends on all live objects.
    """
    prepare, work = TASKS[task]
    found: list[float] = []
    gc.disable()
    try:
        for _ in range(rounds):
            given = prepare(count)
            begin = time.process_time()
            work(given)
            found.append(time.process_time() - begin)
    finally:
        gc.enable()
    return min(found)


@pytest.mark.parametrize("task", TASKS)
def test_ten_times_the_nodes_take_about_ten_times_the_time(benchmark, figure, task):
    prepare, work = TASKS[task]
    few = seconds(task, FEW, rounds=3)
    many = seconds(task, MANY, rounds=3)
    benchmark.extra_info["ratio"] = many / few
    figure(f"{task}: {MANY:,} nodes against {FEW:,}", many / few, f"about {LINEAR} (now {many:.2f} s)")
    benchmark.pedantic(work, setup=lambda: ((prepare(MANY),), {}), rounds=1)
    assert many / few < MOST
