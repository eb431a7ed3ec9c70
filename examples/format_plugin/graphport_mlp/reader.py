"""Read a perceptron as a graph in the dialect `mlp`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Graph, Node, Value


def read(path: str | Path) -> tuple[Graph, list[Diagnostic]]:
    """Read `path` as a graph, and no warnings.

    Raises:
        DiagnosticError: MLP0001 the file is not a perceptron.
    """
    try:
        return _build(json.loads(Path(path).read_text(encoding="utf-8"))), []
    except (KeyError, TypeError, ValueError) as error:
        message = f"not a perceptron: {type(error).__name__} {error}"
        raise DiagnosticError(Diagnostic("MLP0001", message, Span(Source(str(path))))) from error


def _build(model: dict[str, Any]) -> Graph:
    graph = Graph("mlp", opsets={"mlp": 1})
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1, int(model["input"]))))
    for i, layer in enumerate(model["layers"]):
        weight, bias = (_constant(graph, f"{name}{i}", layer[name]) for name in ("weight", "bias"))
        x = _append(graph, "dense", [x, weight, bias])
        if "activation" in layer:
            x = _append(graph, str(layer["activation"]), [x])
    graph.add_output(x)
    return graph


def _constant(graph: Graph, name: str, values: Any) -> Value:
    storage = ArrayStorage(np.asarray(values, np.float32))
    return graph.add_constant(name, TensorFact.of(storage), storage)


def _append(graph: Graph, op_type: str, operands: list[Value]) -> Value:
    node = graph.append(Node(op_type, operands, [Value(graph.fresh(op_type))], dialect="mlp"))
    return node.results[0]
