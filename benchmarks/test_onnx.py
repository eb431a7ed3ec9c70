"""Processor time of reading, legalizing and writing ONNX models with many nodes, compared with the package onnx."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import onnx
import pytest
from benchmarks.files import onnx_chain

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.garbage_collection import paused_collection
from graphport.formats.onnx.container.reader import read
from graphport.ops.declare import OPSET
from graphport.ops.infer import infer

FEW, MANY = 10_000, 100_000
ROUNDS = 3
SECONDS = 1.5
"""Limit for loading `MANY` nodes, in seconds."""


@pytest.fixture(scope="module", params=[pytest.param(OPSET, id="pinned opset"), pytest.param(13, id="opset 13")])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Write the model with `FEW` and with `MANY` nodes."""
    folder = tmp_path_factory.mktemp("onnx")
    return {count: onnx_chain(folder / f"{count}.onnx", count, request.param) for count in (FEW, MANY)}


def seconds(work: Any, given: Any = lambda: None) -> float:
    """Return the minimum processor time of several rounds, each with a new argument."""
    found: list[float] = []
    for _ in range(ROUNDS):
        made = given()
        begin = time.process_time()
        work(made)
        found.append(time.process_time() - begin)
    return min(found)


def test_many_nodes_load_in_a_second_and_a_half(models, figure, benchmark):
    path = models[MANY]
    theirs = seconds(lambda _: onnx.load(path))
    for name, options in (("raw", {"raw": True}), ("canonical", {})):
        ours = seconds(lambda _, options=options: gp.load(path, **options))
        figure(f"load {name}: {ours:.2f} s, {ours / theirs:.1f} times onnx.load", ours, f"at most {SECONDS}")
        assert ours <= SECONDS
    benchmark.pedantic(lambda: gp.load(path), rounds=1)


@pytest.mark.parametrize("task", ["read", "legalize", "infer", "write"])
def test_a_node_takes_as_long_among_many_as_among_few(models, figure, tmp_path, task):
    def work(graph: Any) -> None:
        with paused_collection():
            match task:
                case "legalize":
                    legalize(graph, in_place=True)
                case "infer":
                    infer(graph)
                case "write":
                    gp.save(graph, tmp_path / "copy.onnx")
                case _:
                    read(graph)

    given: dict[str, Any] = {"legalize": read, "infer": lambda path: gp.load(path).graph, "write": gp.load}
    each: dict[int, float] = {}
    for count, path in models.items():
        made = given.get(task, lambda path: path)
        each[count] = seconds(work, lambda made=made, path=path: made(path)) / count * 1e6
    figure(f"{task}: {each[MANY]:.1f} µs a node, among {FEW:,} {each[FEW]:.1f}", each[MANY] / each[FEW], "about 1")
    assert each[MANY] < 2 * each[FEW]
