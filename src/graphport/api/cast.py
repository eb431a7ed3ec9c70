"""Casting models to half precision, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.api.decoder_branches import join_branches, names_in, split_branches
from graphport.api.documents import origin
from graphport.api.load import as_model
from graphport.api.model import CastModel
from graphport.api.rewrite import keep_opset
from graphport.api.run import runnable
from graphport.core.argument_types import check_arguments
from graphport.quantization.record import note_documents
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.api.model import ModelSource
    from graphport.ir.graph import Graph
    from graphport.quantization.half.cast import CastReport, To


@limits_runs
@check_arguments
def cast(
    model: ModelSource,
    to: To,
    *,
    calibration: object = None,
    keep: Collection[str] = (),
    min_snr: float | None = None,
    keep_io: bool = False,
    threads: int = 0,
) -> CastModel:
    """Convert `model` to another float type; `.report` lists nodes left unchanged, with reasons, and the accuracy.

    Args:
        model: not changed; a raw model is legalized first.
        to: `float16`, `bfloat16`, or `float32`, which reverts the others.
        calibration: samples as for `quantize`, which show where values overflow. Without samples, random inputs are
            used, and values must fit with a margin of 16 times.
        keep: names of nodes or of their first results, op types, or patterns of these (`*`, `?`) that stay float32.
        min_snr: minimum signal-to-noise ratio of the outputs in dB; further nodes stay float32 until it is met.
        keep_io: keep the element types of inputs and outputs.
        threads: number of threads.

    Raises:
        DiagnosticError: CAST0001 the type is unknown, or there is nothing to cast, CAST0007 `keep` matches nothing;
            errors of the samples.
    """
    model = as_model(model)
    from graphport.quantization.half.cast import cast as cast_graph
    from graphport.quantization.half.cast import joined

    graph = runnable(model)

    def convert(part: Graph, names: Collection[str]) -> tuple[Graph, CastReport]:
        return cast_graph(
            part, to, data=calibration, keep=tuple(names), min_snr=min_snr, keep_io=keep_io, threads=threads
        )

    branches = split_branches(graph) if calibration is None and to != "float32" else None
    if branches is None:
        made, report = convert(graph, keep)
    else:
        chosen = names_in(keep, branches)
        parts = {name: convert(branch, chosen(branch)) for name, branch in branches.items()}
        made = join_branches(graph, {name: part for name, (part, _) in parts.items()})
        report = joined([report for _, report in parts.values()], graph, made)
    keep_opset(model.graph, made)
    note_documents(made, origin(model), made_by="cast", to=to)
    return CastModel(made, model.format, model.path, model.findings, model.versions, report)
