"""Measure the times of a graph's nodes on this machine, float and quantized, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.backends import is_installed
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.packages import distribution, install
from graphport.quantization import processor
from graphport.quantization.canonicalize import canonicalize
from graphport.quantization.optimise.costs import times_of
from graphport.quantization.optimise.table import LatencyTable, Row, signature
from graphport.quantization.quantize import quantize
from graphport.quantization.settings import Settings
from graphport.runtimes.inputs import checked, random_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph

_SAMPLES = 8
_TARGETS = ("onnxruntime",)
"""Targets whose runtimes report node times."""


def tabulate(graph: Graph, target: str, inputs: Mapping[str, Any] | None) -> LatencyTable:
    """Return the time of each node on the runtime of `target`, on one thread.

    Args:
        graph: canonical, prepared.
        target: the target, whose runtime reports node times.
        inputs: of the timed run; random if absent. The first axis is the batch.

    Raises:
        DiagnosticError: QUANT0024 node times cannot be measured here; errors of `quantize` for models that cannot be
            quantized.
    """
    if target not in _TARGETS or not is_installed(target):
        message = f"layer times on {target} cannot be measured here"
        remedy = install(target) if target in _TARGETS else f"choose a target with a profiler: {', '.join(_TARGETS)}"
        raise DiagnosticError(Diagnostic("QUANT0024", message, None, remedy))
    graph = canonicalize(graph)
    given = random_inputs(graph) if inputs is None else dict(checked(graph, dict(inputs)))
    settings = Settings(preset="fast", target=target, cheap_layers=False, real_results=False)
    rounded, _, _ = quantize(graph, [given] * _SAMPLES, settings)
    names = [node.name for node in graph if node.name]
    before, after = times_of(graph, given, names), times_of(rounded, given, names)
    if before is None or after is None:
        message = f"{target} does not run both the float and the quantized model"
        raise DiagnosticError(Diagnostic("QUANT0024", message, None, "run graphport bench for the reason"))
    rows = tuple(
        Row(node.name, signature(node), before.nodes.get(node.name), after.nodes.get(node.name))
        for node in graph
        if node.name in before.nodes or node.name in after.nodes
    )
    entries = max((int(x.shape[0]) for x in given.values() if x.ndim), default=1)
    found = distribution(target)
    version = "" if found is None else found[1]
    return LatencyTable(target, version, processor.description(), entries, sum(before.nodes.values()), after.rate, rows)
