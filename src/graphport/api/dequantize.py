"""Converting quantized models back to float."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.api.documents import origin
from graphport.api.load import as_model
from graphport.api.model import DequantizedModel
from graphport.api.rewrite import keep_opset
from graphport.api.run import runnable
from graphport.core.argument_types import check_arguments
from graphport.quantization.record import note_documents
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from graphport.api.model import ModelSource


@limits_runs
@check_arguments
def dequantize(model: ModelSource, *, calibration: object = None, threads: int = 0) -> DequantizedModel:
    """Convert a quantized model to float; `.report` has the removed operators and the SNR relative to `model`.

    QuantizeLinear and DequantizeLinear, integer operators, dynamic quantization, fake quantization, fp8 and packed
    weights are removed. Weights are dequantized, so that their rounding remains. Integer inputs and
    outputs with a scale are converted to float.

    Args:
        model: not changed; a raw model is legalized first.
        calibration: samples as for `quantize` to compare both models; random inputs without.
        threads: number of threads.

    Raises:
        DiagnosticError: CAST0010 the model has nothing quantized; errors of the samples.
    """
    model = as_model(model)
    from graphport.quantization.dequantize import dequantize as dequantize_graph

    made, report = dequantize_graph(runnable(model), data=calibration, threads=threads)
    keep_opset(model.graph, made)
    note_documents(made, origin(model), made_by="dequantize")
    return DequantizedModel(made, model.format, model.path, model.findings, model.versions, report)
