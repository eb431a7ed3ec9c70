"""Write a model to a temporary location, prove it, and move it into place unless the proof failed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from graphport import formats
from graphport.api.documents import write_checks
from graphport.api.model import CastModel, DequantizedModel
from graphport.api.save import Export, export, write_scales
from graphport.api.staging import stage_target
from graphport.api.verify import proven, reason_to_skip, refused_if, side, tolerance, written_side
from graphport.backends import is_installed
from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.short_repr import short_repr
from graphport.ir.results import results_of
from graphport.proof.faults import ends_in_halves
from graphport.proof.verdict import Verdict
from graphport.quantization.record import note_checks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from graphport.api.model import Model, QuantizedModel
    from graphport.formats import Format
    from graphport.formats.options import WriteOptions
    from graphport.ir.graph import Graph
    from graphport.proof.document import Proof
    from graphport.proof.interface import Aspect
    from graphport.proof.side import Side


_MARGIN = 3.0
"""Decibels of noise that a runtime may add: as much again as was reported."""


@dataclass(frozen=True, slots=True)
class Checking:
    """How a file that is written is proven; see `convert`."""

    verify: bool | None = None
    verify_limit: int | None = None
    keep_failed: bool = False
    effort: float | str = "default"
    require_coverage: bool = False


@short_repr
@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing a file: the proof, why there is none, the file that was written, and findings."""

    proof: Proof | None
    skipped: str | None
    written: str | None
    findings: list[Diagnostic]

    @property
    def passed(self) -> bool:
        """Whether the file was not refuted."""
        return self.proof is None or self.skipped is not None or self.proof.passed

    @property
    def verdict(self) -> Verdict:
        """The verdict of the proof; `not verified` if there is none."""
        return verdict_of(self.proof)


def verdict_of(proof: Proof | None) -> Verdict:
    """The verdict of a proof; `not verified` if there is none."""
    return Verdict.NOT_VERIFIED if proof is None else proof.verdict


def write_proven(  # noqa: PLR0913  keywords, each documented
    stated: Export,
    target: str | Path,
    kind: Format,
    *,
    source: Model,
    against: Side,
    checking: Checking,
    inputs: Mapping[str, Any] | None = None,
    least_snr: float | None = None,
    has_checks: bool = True,
    is_for_runtime: bool = False,
    beside: Callable[[Path], None] | None = None,
    before_accepting: Callable[[Path], list[Diagnostic]] | None = None,
    allowed: Collection[Aspect] = (),
) -> WriteResult:
    """Write a dialect graph, and prove that the file computes the same as another side.

    Args:
        stated: the graph to write, with options.
        target: the file to write.
        kind: the format.
        source: the model whose weights must be available and fit into memory; its precision determines the tolerance.
        against: the side that the file is compared with.
        checking: options of the proof.
        inputs: test inputs, by the names of `against`; random if `None`.
        least_snr: minimum signal-to-noise ratio in dB of a lossy writer.
        has_checks: whether the proof is stored in files that can contain documents.
        is_for_runtime: whether the file is useless if the native runtime of its format does not load it.
        beside: writes sidecar files; called with the path of the file.
        before_accepting: writes further models next to a file whose proof did not fail; all are published together.
        allowed: differences of the interface that the user requested.

    Raises:
        DiagnosticError: errors of the writer; RUN0010, a proof was required and is not possible.
    """
    reason = reason_to_skip(source, checking.verify_limit, verify=checking.verify)
    if kind.has_documents and has_checks:
        note_checks(stated.graph, None, reason)
    with stage_target(target, kind) as place:
        is_wide = kind.wide_flavour is not None and stated.options.get("flavour") == kind.wide_flavour
        findings = [
            *(() if is_wide else _warn_float64(source.graph, kind)),
            *_find_fatal_nodes(source.graph, kind),
            *stated.findings,
        ]
        findings += place.write(stated.graph, kind, stated.options)
        if beside is not None:
            beside(place.path)
        if reason is not None:
            findings += [] if before_accepting is None else before_accepting(place.path)
            place.accept()
            return WriteResult(None, reason, str(target), findings)
        proof = proven(
            against,
            written_side(place.path, place.target.name),
            inputs,
            tolerance(source, least_snr),
            is_demanded=bool(checking.verify),
            is_strict=checking.require_coverage,
            effort=checking.effort,
            allowed=allowed,
        )
        refusal = _runtime_refusal(proof) if is_for_runtime else None
        if refusal is not None:
            refused_if(refusal, is_demanded=bool(checking.verify))
            remedy = "cast to another type, or choose another format; the file may load on other machines"
            findings.append(
                Diagnostic(
                    "CAST0009", f"no installed runtime loads the file: {refusal}", None, remedy, Severity.WARNING
                )
            )
        if has_checks:
            write_checks(stated.graph, kind, place.path, proof, proof.unproven, stated.options)
        if before_accepting is not None and not proof.failed:
            findings += before_accepting(place.path)
        kept = place.settle(has_failed=proof.failed, keep_failed=checking.keep_failed)
        return WriteResult(proof, proof.unproven, kept, findings)


def _runtime_refusal(proof: Proof) -> str | None:
    """Return why the native runtime did not run the file, or `None` if it ran."""
    own = [witness for witness in proof.witnesses if witness.side == "b" and witness.is_own]
    if any(witness.ran for witness in own):
        return None
    reasons = [f"{each.runtime} {each.reason}" for each in own if each.reason and is_installed(each.runtime)]
    return "; ".join(reasons) or None


_GRIDS = frozenset({DType.INT8, DType.UINT8, DType.INT16})


def save_proven(
    model: CastModel | DequantizedModel | QuantizedModel,
    target: str | Path,
    *,
    format: str | None = None,
    checking: Checking,
    calibration: object = None,
    **options: Unpack[WriteOptions],
) -> WriteResult:
    """Write a quantized, dequantized or cast model, and prove that its native runtime computes the measured results.

    Tolerance: a runtime may round ties differently, which adds at most the noise that the report states once more.
    The first calibration samples are the test inputs; without samples they are random.

    Raises:
        DiagnosticError: errors of `save`; RUN0010, a proof was required and is not possible.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    given = None
    if calibration is not None and checking.verify is not False and not _has_quantized_input(model.graph):
        from graphport.quantization.sizes import first_run

        given = first_run(model.graph, calibration)
    return write_proven(
        export(model, kind, options),
        target,
        kind,
        source=model,
        against=side("a", model, is_file=False, label="the model that was measured"),
        checking=checking,
        inputs=given,
        least_snr=_measured_snr(model),
        is_for_runtime=isinstance(model, CastModel),
        beside=lambda path: write_scales(model, kind, path),
    )


def _has_quantized_input(graph: Graph) -> bool:
    """Whether an input has a quantized type, which float samples do not fit."""
    facts = [value.fact for value in graph.inputs]
    return any(isinstance(fact, TensorFact) and fact.dtype in _GRIDS for fact in facts)


def _measured_snr(model: CastModel | DequantizedModel | QuantizedModel) -> float | None:
    """Return the minimum SNR in dB relative to the measured outputs, derived from the SNR in the report."""
    report = model.report
    if isinstance(model, DequantizedModel) or report is None or report.snr_db is None:
        return None
    found = min(report.snr_db, report.snr_range[0]) if report.snr_range else report.snr_db
    return found - _MARGIN if math.isfinite(found) else None


def _warn_float64(graph: Graph, kind: Format) -> list[Diagnostic]:
    """Return a warning if `graph` computes in float64 and the format has no such type."""
    if not kind.has_one_width:
        return []
    wide = results_of(graph, DType.FLOAT64)
    if not wide:
        return []
    message = f"{wide[0].name} is float64, which {kind.title} does not support ({len(wide)} values of this type)"
    remedy = "cast to float32 if that is not accurate enough; readers compute in float32"
    return [Diagnostic("LEG0006", message, wide[0].origin, remedy, Severity.WARNING)]


def _find_fatal_nodes(graph: Graph, kind: Format) -> list[Diagnostic]:
    """Return a warning if loading the written file with default settings terminates the process of a runtime."""
    nodes = ends_in_halves(graph) if kind.name == "onnx" else []
    if not nodes:
        return []
    message = (
        f"ONNX Runtime 1.31 terminates its process when it loads this file: {nodes[0].output.name} moves axis 0 of "
        f"a float16 tensor to a later axis before a matrix product with constants ({len(nodes)} nodes)"
    )
    remedy = (
        "run graphport cast --to float32, then --to float16, which keeps these nodes in float32; or load the file with "
        "disabled_optimizers=['MatmulTransposeFusion']"
    )
    return [Diagnostic("ONNX0611", message, nodes[0].origin, remedy, Severity.WARNING)]
