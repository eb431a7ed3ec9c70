"""Casting models to half precision, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.api.documents import origin
from graphport.api.model import CastModel, Model
from graphport.api.rewrite import keep_opset
from graphport.api.run import runnable
from graphport.quantization.record import note_documents
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.quantization.half.cast import To


@limits_runs
def cast(
    model: Model,
    to: To,
    *,
    calibration: object = None,
    keep: Collection[str] = (),
    min_snr: float | None = None,
    keep_io: bool = False,
    threads: int = 0,
) -> CastModel:
    """`model` in another precision; `.report` says what stayed as it was and why, and how near the outputs are.

    Args:
        model: not changed; a raw one is legalized first.
        to: `float16`, `bfloat16`, or `float32`, which undoes the others.
        calibration: samples, as `quantize` takes them, which tell what overflows; without, inputs are made up, and
            numbers must fit 16 times over.
        keep: names of nodes or of their first results, operators, or patterns of these (`*`, `?`) that stay float32.
        min_snr: dB that the outputs must reach: more nodes stay until they do.
        keep_io: inputs and outputs stay of the type that they are.
        threads: to run on.

    Raises:
        DiagnosticError: CAST0001 there is no such type, or nothing to cast, CAST0007 `keep` names nothing; what the
            samples have wrong.
    """
    from graphport.quantization.half.cast import cast as cast_graph

    graph = runnable(model)
    made, report = cast_graph(
        graph, to, data=calibration, keep=tuple(keep), min_snr=min_snr, keep_io=keep_io, threads=threads
    )
    keep_opset(model.graph, made)
    note_documents(made, origin(model), made_by="cast", to=to)
    return CastModel(made, model.format, model.path, model.findings, model.versions, report)
