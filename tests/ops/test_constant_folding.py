"""Lazily computed constants: the work is that of the operators, independently of the number of reads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import constant_folding as module
from graphport.ops.constant_folding import Computed, folded
from tests.models import model, node, typed


def _doubled(steps: int) -> gp.Model:
    """Return y = x * 2^steps, where each step adds a value to itself."""
    names = ["k", *(f"k{i}" for i in range(1, steps)), "s"]
    nodes = [node("Add", [a, a], [b]) for a, b in itertools.pairwise(names)]
    nodes.append(node("Mul", ["x", "s"], ["y"]))
    return gp.from_onnx(model(nodes, [typed("x", [4])], [typed("y", [4])], {"k": np.ones(4, np.float32)}))


def test_shared_operands_are_folded_once(monkeypatch):
    calls = []
    meaning = module._meaning  # pyright: ignore[reportPrivateUsage]

    def counted(node, is_there, index, shape):
        compute = meaning(node, is_there, index, shape)

        def call(*arrays):
            calls.append(node.op)
            return compute(*arrays)

        return call

    monkeypatch.setattr(module, "_meaning", counted)
    scale = next(each for each in _doubled(12).graph if each.op == "Mul").operands[1]
    storage = folded(scale)
    assert isinstance(storage, Computed)
    np.testing.assert_array_equal(storage.numpy(), np.full(4, 4096, np.float32))
    assert len(calls) == 12


def test_folding_stops_at_the_depth_limit(monkeypatch):
    asked = []
    made = module._fold_operands  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        module, "_fold_operands", lambda value, depth, known: (asked.append(value), made(value, depth, known))[1]
    )
    scale = next(each for each in _doubled(60).graph if each.op == "Mul").operands[1]
    assert folded(scale) is None
    assert len(asked) < 40


def test_non_constant_chain_is_visited_once_per_value(monkeypatch):
    looks = []
    made = module._fold_operands  # pyright: ignore[reportPrivateUsage]

    def counted(value, depth, known):
        looks.append(value.name)
        return made(value, depth, known)

    monkeypatch.setattr(module, "_fold_operands", counted)
    chain = [node("Add", [a, a], [b]) for a, b in itertools.pairwise(["x", *(f"k{i}" for i in range(40)), "y"])]
    graph = gp.from_onnx(model(chain, [typed("x", [4])], [typed("y", [4])])).graph
    known = {}
    assert not any(folded(each.output, known) for each in graph)
    assert len(looks) <= 2 * len(graph)


def test_uncomputable_values_are_reported_by_their_consumer(tmp_path):
    """Constants that are too large for facts are computed by the writer; on failure no file is left."""
    nodes = [node("Gather", ["c", "i"], ["w"], name="picks"), node("MatMul", ["x", "w"], ["y"])]
    constants = {"c": np.ones((4, 300), np.float32), "i": np.arange(300) % 5}
    found = gp.from_onnx(model(nodes, [("x", [2, "n"])], [("y", None)], constants))
    (made,) = [each for each in found.graph if each.op == "Gather"]
    fact = TensorFact(DType.FLOAT32, (300, 300))
    made.output.fact = fact
    storage = folded(made.output)
    assert storage is not None
    with pytest.raises(gp.DiagnosticError, match="picks") as caught:
        storage.numpy()
    assert [finding.code for finding in caught.value.diagnostics] == ["SHAPE0001"]
    assert isinstance(caught.value, ValueError)  # folding catches the exceptions of operators


def test_elements_of_another_shape_than_the_fact_are_a_diagnostic():
    """A file may declare a shape that its constants do not have."""
    nodes = [node("Add", ["c", "d"], ["w"]), node("Mul", ["x", "w"], ["y"])]
    constants = {"c": np.ones((4, 5), np.float32), "d": np.ones((4, 5), np.float32)}
    found = gp.from_onnx(model(nodes, [("x", [4, 5])], [("y", None)], constants))
    (made,) = [each for each in found.graph if each.op == "Add"]
    made.output.fact = TensorFact(DType.FLOAT32, ())
    storage = folded(made.output)
    assert storage is not None
    with pytest.raises(gp.DiagnosticError, match="SHAPE0001"):
        storage.numpy()
