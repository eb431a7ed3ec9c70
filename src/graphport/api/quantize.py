"""Quantizing models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.api.decoder_branches import hoist_weights, join_branches, names_in, split_branches
from graphport.api.documents import origin
from graphport.api.load import as_model
from graphport.api.model import QuantizedModel
from graphport.api.rewrite import keep_opset, prepare
from graphport.api.run import runnable
from graphport.core.argument_types import check_arguments
from graphport.quantization.dispatch import Method, dispatch
from graphport.quantization.narrow_sources import narrow_result, narrow_type, widen_source
from graphport.quantization.record import final_decisions, note_documents
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.api.model import Model, ModelSource
    from graphport.core.diagnostics import Diagnostic
    from graphport.ir.graph import Graph
    from graphport.quantization.report import QuantizationReport
    from graphport.quantization.samples import Progress
    from graphport.quantization.settings import Settings


@limits_runs
@check_arguments
def quantize(
    model: ModelSource,
    calibration: object = None,
    target: str | None = None,
    *,
    settings: Settings | Mapping[str, Any] | str | None = None,
    on_progress: Progress | None = None,
    statistics: str | Path | None = None,
    distributed: str | None = None,
    metric: Callable[[Callable[[dict[str, Any]], dict[str, Any]]], float] | None = None,
    **changes: Any,
) -> QuantizedModel:
    """Quantize `model` for the integer kernels of a target; `.report` has the changes and the accuracy.

    Args:
        model: not changed; a raw model is legalized first.
        calibration: samples stacked along axis 0 by input name (a mapping, a `.npz`, a folder of `.npy`), or an
            iterable of such mappings, or a function that returns one. For a model with one input also an array, and
            arrays in place of mappings, as are rows of tokens for a language model. An iterable is read once, and
            stored in a temporary file if it is large.
            Floats are converted to the type of the input. With `weights_only` no samples are needed: random inputs are
            used to measure, and, for indices into tables such as tokens, to quantize.
        target: `onnxruntime`, `openvino`, `tensorrt`, `ncnn` or `nnef`; that of `settings` if `None`.
        settings: see `graphport.quantization.settings.Settings`; also as JSON.
        on_progress: called with a stage, the completed amount, and the total amount.
        statistics: a file for the observed statistics, written even if the work is interrupted; it is read if it exists
            and belongs to the same model, samples and settings.
        metric: a custom metric for the setting `min_metric`: a function that receives a function from inputs to
            outputs,
            which runs one of the models, and returns a number; larger is better.
        distributed: `ray` to observe samples, or with `weights_only` to quantize layers, on the machines of a Ray
            cluster, with bit-identical results.
        **changes: settings by name.

    Raises:
        DiagnosticError: QUANT0001 to QUANT0003 errors of the samples, QUANT0004 and QUANT0005 of the settings,
            QUANT0006 the model is already quantized, QUANT0007 nothing in it can be quantized, QUANT0009 the statistics
            belong to another model, other samples or settings, QUANT0011 and QUANT0012 samples cannot be
                observed on other
            machines, QUANT0015 the model contains or computes NaN or infinity, QUANT0016 no space for statistics.
    """
    model = as_model(model)
    from graphport.quantization.quantize import quantize as quantize_graph
    from graphport.quantization.settings import Settings
    from graphport.quantization.targets import target as find_target

    chosen = settings if isinstance(settings, Settings) else Settings.from_json(_settings_argument(settings))
    chosen = chosen.updated(**changes, **({} if target is None else {"target": target}))
    graph = source = runnable(model)
    branches = None if metric is not None or not is_split(chosen, calibration) else split_branches(graph)
    if branches is not None:
        return _quantized_branches(model, graph, branches, chosen, on_progress, distributed)
    narrow = narrow_type(graph)
    notes: list[Diagnostic] = []
    if narrow is not None:
        graph, note = widen_source(graph, narrow)
        notes.append(note)
    if chosen.prepare:
        graph = prepare(replace(model, graph=graph, kept=None), verify=False)[0].graph
        keep_opset(model.graph, graph)
    found, report, scales = quantize_graph(
        graph,
        calibration,
        chosen,
        on_progress=on_progress,
        statistics=None if statistics is None else Path(statistics),
        distributed=distributed,
        metric=metric,
        source=source,
    )
    if narrow is not None:
        found = narrow_result(found, source, narrow, find_target(chosen.target))
        report = replace(report, findings=(*notes, *report.findings))
    exact = report.exact_layers
    result = QuantizedModel(
        found, model.format, model.path, model.findings, model.versions, report, scales, exact, chosen.form
    )
    method = chosen.dispatch or Method.CONSERVATIVE
    candidates = dispatch(graph, method, floating=chosen.float_nodes, quantized=chosen.quantize_nodes)
    decisions = final_decisions(candidates, found, report)
    note_documents(found, origin(model), decisions=decisions, report=report, made_by="quantize")
    return result


def is_split(settings: Settings, calibration: object) -> bool:
    """Whether branches of an If are quantized as models: weights only or dynamically, without samples and plans."""
    has_goals = settings.front or settings.point is not None or settings.max_bytes or settings.max_latency
    return (settings.weights_only or settings.dynamic) and calibration is None and not has_goals


def _quantized_branches(
    model: Model,
    graph: Graph,
    branches: Mapping[str, Graph],
    settings: Settings,
    on_progress: Progress | None,
    distributed: str | None,
) -> QuantizedModel:
    """Quantize each branch of a merged decoder as a model, and return the merged decoder of both."""
    from graphport.quantization.export_form import to_export_form
    from graphport.quantization.nbits import exact_products
    from graphport.quantization.report import joined

    of_float, of_integers = names_in(settings.float_nodes, branches), names_in(settings.quantize_nodes, branches)
    parts: dict[str, Graph] = {}
    reports: list[QuantizationReport] = []
    for name, branch in branches.items():
        own = settings.updated(float_nodes=of_float(branch), quantize_nodes=of_integers(branch))
        source = replace(model, graph=branch, kept=None, findings=[])
        result = quantize(source, settings=own, on_progress=on_progress, distributed=distributed)
        if result.report is not None:
            part = to_export_form(result.graph, own, result.exact)
            parts[name] = exact_products(part, ()) if own.target == "onnxruntime" else part
            reports.append(result.report)
    report, made = joined(reports), join_branches(graph, parts)
    if settings.target == "onnxruntime":
        hoist_weights(made)
    note_documents(made, origin(model), report=report, made_by="quantize")
    return QuantizedModel(
        made, model.format, model.path, model.findings, model.versions, report, None, (), settings.form
    )


@check_arguments
def perplexity(model: ModelSource, tokens: Any) -> Callable[[Callable[[dict[str, Any]], dict[str, Any]]], float]:
    """Return a metric for `quantize(metric=…)`: the negative perplexity of a language model whose outputs are logits.

    Args:
        model: reads integers [batch, length], and inputs that follow from them: masks, positions, empty caches.
        tokens: an array [sequences, length + 1], or the path of a `.npy` file with one.

    Raises:
        DiagnosticError: QUANT0031 the tokens are not rows of at least two integers, or the model has other inputs.
    """
    model = as_model(model)
    from graphport.quantization.perplexity import perplexity as measure
    from graphport.quantization.perplexity import tokens_of

    return measure(runnable(model), tokens_of(tokens))


def _settings_argument(settings: Mapping[str, Any] | str | None) -> str | dict[str, Any]:
    return {} if settings is None else settings if isinstance(settings, str) else dict(settings)
