"""A graph computed by ONNX Runtime with what its parts read as further outputs, if it is too large to interpret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends import is_installed, prepare
from graphport.core.diagnostics import DiagnosticError
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.proof.coverage.parts import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

BACKEND = "onnxruntime"


class ProbedSession:
    """A graph of which the values around some nodes are outputs as well. Nodes in bodies are not seen."""

    def __init__(self, graph: Graph, nodes: Collection[Node]) -> None:
        self._graph = graph
        self._nodes = [node for node in graph if node in nodes]
        probed = [value for node in self._nodes for value in (*node.operands, *node.results)]
        self._constants = {v: v.storage.numpy() for v in probed if v.storage is not None and not v.is_input}
        twin = rewrite.copy(graph)
        own = {value.name: value for node in twin for value in node.results}
        names = {value.name for value in twin.outputs}
        for value in dict.fromkeys(probed):
            if value.name in own and value.name not in names:
                names.add(value.name)
                twin.add_output(own[value.name])
        self._session = prepare(twin, BACKEND, once=True)

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        observe: Callable[[Graph, Sequence[Any]], None],
        watch: Callable[[Node, Sequence[Any], Sequence[Any]], None],
    ) -> dict[str, Any]:
        """Return the outputs and the probed values by name; the callbacks observe the probed nodes."""
        found = self._session.run(inputs)

        def array(value: Value | None) -> Any:
            if value is None:
                return None
            return self._constants[value] if value in self._constants else {**inputs, **found}[value.name]

        for node in self._nodes:
            operands = [array(value) for value in node.inputs]
            for body in node.bodies() if node.op in {"Loop", "Scan"} else ():
                for _ in range(_iterations(node, operands)):
                    observe(body, ())
            watch(node, operands, [array(value) for value in node.outputs])
        return found


def _iterations(node: Node, operands: Sequence[Any]) -> int:
    """Return the iterations of a Loop or Scan that follow from its operands alone, at most `MANY`."""
    if node.op == "Scan":
        axes = node.attributes.get("scan_input_axes")
        axis = axes[-1] if isinstance(axes, tuple) and isinstance(axes[-1], int) else 0
        return min(np.shape(operands[-1])[axis], MANY)
    trip, condition = operands[0], operands[1] if len(operands) > 1 else None
    count = MANY if trip is None else min(int(np.max(trip)), MANY)
    if condition is None:
        return max(count, 0)
    return 1 if bool(np.all(condition)) and count > 0 else 0


class _NoSession:
    """The session of a graph without parts, which computes nothing."""

    def __init__(self, graph: Graph) -> None:
        self._outputs = dict.fromkeys(value.name for value in graph.outputs)

    def run(self, _: Mapping[str, Any], **__: Any) -> dict[str, Any]:
        return self._outputs


def probed(graph: Graph, nodes: Collection[Node]) -> ProbedSession | _NoSession | None:
    """Return an ONNX Runtime session whose additional outputs (probes) are the operands and results of `nodes`.

    `None` if ONNX Runtime cannot load the graph.
    """
    if not nodes:
        return _NoSession(graph)
    has_dialect = any(node.dialect for inner in walk(graph) for node in inner)
    if has_dialect or not is_installed(BACKEND):
        return None
    try:
        return ProbedSession(graph, nodes)
    except DiagnosticError:
        return None
