"""Latency tables: the time of each layer of a model on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.api.load import as_model
from graphport.api.rewrite import prepare
from graphport.api.run import runnable
from graphport.core.argument_types import check_arguments
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.api.model import ModelSource
    from graphport.quantization.optimise.table import LatencyTable


@limits_runs
@check_arguments
def latency(
    model: ModelSource, target: str = "onnxruntime", *, inputs: Mapping[str, Any] | None = None
) -> LatencyTable:
    """Measure the time of each node of `model` on the runtime of `target`, in float and quantized, on one thread.

    Args:
        model: not changed.
        target: `onnxruntime`, the only runtime that reports the time of nodes.
        inputs: of the measured run; random by default. Their first axis is the batch axis.

    Raises:
        DiagnosticError: QUANT0024 the time of nodes cannot be measured here; errors of `quantize` if the model cannot
            be quantized.
    """
    model = as_model(model)
    from graphport.quantization.tabulate import tabulate

    return tabulate(prepare(replace(model, graph=runnable(model), kept=None), verify=False)[0].graph, target, inputs)
