"""Tables of latencies: what the layers of a model take on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.api.rewrite import prepare
from graphport.api.run import runnable
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.api.model import Model
    from graphport.quantization.optimise.table import LatencyTable


@limits_runs
def latency(model: Model, target: str = "onnxruntime", *, inputs: Mapping[str, Any] | None = None) -> LatencyTable:
    """What each node of `model` takes here on the runtime of `target`, real and rounded, on one thread.

    Args:
        model: not changed.
        target: `onnxruntime`, which alone tells times of nodes.
        inputs: of the run that is timed; made up if there are none. Their first axis counts samples.

    Raises:
        DiagnosticError: QUANT0024 times of nodes cannot be measured here; what `quantize` raises of a model that cannot
            be rounded.
    """
    from graphport.quantization.tabulate import tabulate

    return tabulate(prepare(replace(model, graph=runnable(model), kept=None), verify=False)[0].graph, target, inputs)
