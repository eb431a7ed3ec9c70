"""The work of a command grows in proportion to the model, counted as function calls: times depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.families import FAMILIES

import graphport
from graphport.conversion.legalize import legalize
from graphport.passes.driver import run
from graphport.passes.simplify import SIMPLIFY

MAX_RATIO = 5.2
"""Fourfold models may make this many times the calls: 4 ** 1.19."""


def _simplify(model: Any) -> None:
    graph, _ = legalize(model.graph)
    run(graph, SIMPLIFY)


_CASES: list[Any] = [
    pytest.param(graphport.inspect, "open inputs", 60, id="export rules do not visit all inputs"),
    pytest.param(_simplify, "chain of Concat", 100, id="operands of Concat are moved once"),
    pytest.param(_simplify, "foldable nodes", 100, id="consumers of a constant are not listed for each"),
]
"""Command, family and the smaller size."""


def _count_calls(work: Callable[[Any], object], family: str, size: int, folder: Any) -> int:
    path = folder / f"{size}.onnx"
    path.write_bytes(FAMILIES[family].build(size).SerializeToString())
    model = graphport.load(path)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work(model)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("work", "family", "size"), _CASES)
def test_calls_grow_in_proportion_to_the_model(tmp_path, work, family, size):
    path = tmp_path / "first.onnx"
    path.write_bytes(FAMILIES[family].build(size).SerializeToString())
    work(graphport.load(path))  # Rules are loaded and compiled on first use.
    start, few, many = (_count_calls(work, family, n, tmp_path) for n in (2, size, 4 * size))
    few, many = few - start, many - start
    assert many <= MAX_RATIO * few, f"{few:,} calls, then {many:,}"
