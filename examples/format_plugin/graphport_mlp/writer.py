"""Write a graph in the dialect `mlp` as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def write(graph: Graph, path: str | Path) -> None:
    """Write `graph`, whose nodes the export rules have made.

    Raises:
        DiagnosticError: MLP0002 the graph is not a chain of layers with constant weights.
    """
    layers: list[dict[str, Any]] = []
    value = graph.inputs[0]
    for node in graph:
        if node.operands[0] is not value or any(operand.storage is None for operand in node.inputs[1:] if operand):
            raise _fault(node, "is not applied to the node before it and constants")
        _append(layers, node)
        value = node.results[0]
    model = {"format": "mlp", "input": len(layers[0]["weight"]) if layers else 0, "layers": layers}
    Path(path).write_text(json.dumps(model), encoding="utf-8")


def _append(layers: list[dict[str, Any]], node: Node) -> None:
    constants = [operand.storage.numpy().tolist() for operand in node.operands[1:] if operand.storage is not None]
    last = layers[-1] if layers else {}
    match node.op_type:  # `node.op` is qualified: mlp.dense
        case "dense":
            layers.append({"weight": constants[0], "bias": constants[1]})
        case "matmul":
            layers.append({"weight": constants[0], "bias": [0] * len(constants[0][0])})
        case "add" if last and not any(last["bias"]) and "activation" not in last:
            last["bias"] = constants[0]
        case activation if last and not constants and "activation" not in last:
            last["activation"] = activation
        case _:
            raise _fault(node, "does not follow a matrix product")


def _fault(node: Node, reason: str) -> DiagnosticError:
    message = f"{node.op_type} {node.results[0].name} {reason}"
    return DiagnosticError(Diagnostic("MLP0002", message, node.origin, "a perceptron is a chain of dense layers"))
