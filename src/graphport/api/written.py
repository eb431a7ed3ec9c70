"""A model that is written beside its place, proven there, and moved there unless it was refuted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from graphport import formats
from graphport.api.documents import write_checks
from graphport.api.model import CastModel
from graphport.api.save import Stated, stated_for, write_scales
from graphport.api.staging import staged
from graphport.api.verify import proven, reason_to_skip, refused_if, side, tolerance, written_side
from graphport.backends import is_installed
from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
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
"""Decibels of noise that a runtime may add, which is as much again as was told."""


@dataclass(frozen=True, slots=True)
class Checking:
    """How a file that is written is proven; see `convert`."""

    verify: bool | None = None
    verify_limit: int | None = None
    keep_failed: bool = False
    effort: float | str = "default"
    require_coverage: bool = False


@dataclass(frozen=True, slots=True)
class Written:
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
    stated: Stated,
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
) -> Written:
    """Write a model, in the words of a format, and prove that the file computes what another side does.

    Args:
        stated: what is written.
        target: where to.
        kind: the format.
        source: the model whose weights have to be there and to fit; its precision says what passes as equal.
        against: what the file is held against.
        checking: what is to be proven.
        inputs: what to prove it with, by the names of `against`; drawn if `None`.
        least_snr: decibels that the writer keeps, where it rounds.
        has_checks: whether a file with room for documents has the proof written into it.
        is_for_runtime: whether the file is of no use where the runtime of its format does not load it.
        beside: writes what else belongs to the file, whose path it is given.
        before_accepting: writes other models beside a file that was not refuted; all become visible together.
        allowed: aspects of the interface that the user asked to change.

    Raises:
        DiagnosticError: what the writer raises; RUN0010, a proof was demanded and there is none.
    """
    reason = reason_to_skip(source, checking.verify_limit, verify=checking.verify)
    if kind.has_documents and has_checks:
        note_checks(stated.graph, None, reason)
    with staged(target, kind) as place:
        is_wide = kind.wide_flavour is not None and stated.options.get("flavour") == kind.wide_flavour
        findings = [*(() if is_wide else _narrowed(source.graph, kind)), *_fatal(source.graph, kind), *stated.findings]
        findings += place.write(stated.graph, kind, stated.options)
        if beside is not None:
            beside(place.path)
        if reason is not None:
            findings += [] if before_accepting is None else before_accepting(place.path)
            place.accept()
            return Written(None, reason, str(target), findings)
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
        refusal = _refusal(proof) if is_for_runtime else None
        if refusal is not None:
            refused_if(refusal, is_demanded=bool(checking.verify))
            remedy = "cast it to another type, or write it for another runtime; on others of its kind it may load"
            findings.append(
                Diagnostic("CAST0009", f"nobody runs the file here: {refusal}", None, remedy, Severity.WARNING)
            )
        if has_checks:
            write_checks(stated.graph, kind, place.path, proof, proof.unproven, stated.options)
        if before_accepting is not None and not proof.failed:
            findings += before_accepting(place.path)
        kept = place.settle(has_failed=proof.failed, keep_failed=checking.keep_failed)
        return Written(proof, proof.unproven, kept, findings)


def _refusal(proof: Proof) -> str | None:
    """What the runtime of the file's own format says of it, where it does not run it."""
    own = [witness for witness in proof.witnesses if witness.side == "b" and witness.is_own]
    if any(witness.ran for witness in own):
        return None
    reasons = [f"{each.runtime} {each.reason}" for each in own if each.reason and is_installed(each.runtime)]
    return "; ".join(reasons) or None


_GRIDS = frozenset({DType.INT8, DType.UINT8, DType.INT16})


def save_proven(
    model: CastModel | QuantizedModel,
    target: str | Path,
    *,
    format: str | None = None,
    checking: Checking,
    calibration: object = None,
    **options: Unpack[WriteOptions],
) -> Written:
    """Write a rounded model, and prove that the file computes, in its own runtime, what was measured.

    What passes as equal: a runtime may round other ties, which adds at most as much noise again as the report tells.
    Where there are samples the first are what is computed, else numbers are drawn.

    Raises:
        DiagnosticError: what `save` raises; RUN0010, a proof was demanded and there is none.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    given = None
    if calibration is not None and checking.verify is not False and not _takes_integers(model.graph):
        from graphport.quantization.sizes import first_run

        given = first_run(model.graph, calibration)
    return write_proven(
        stated_for(model, kind, options),
        target,
        kind,
        source=model,
        against=side("a", model, is_file=False, label="the model that was measured"),
        checking=checking,
        inputs=given,
        least_snr=_measured(model),
        is_for_runtime=isinstance(model, CastModel),
        beside=lambda path: write_scales(model, kind, path),
    )


def _takes_integers(graph: Graph) -> bool:
    """Whether an input is the integers of a grid, of which samples, that are real, say nothing."""
    facts = [value.fact for value in graph.inputs]
    return any(isinstance(fact, TensorFact) and fact.dtype in _GRIDS for fact in facts)


def _measured(model: CastModel | QuantizedModel) -> float | None:
    """Decibels that outputs keep beside what was measured, by what they have beside the source in the report."""
    report = model.report
    if report is None or report.snr_db is None:
        return None
    found = min(report.snr_db, report.snr_range[0]) if report.snr_range else report.snr_db
    return found - _MARGIN if math.isfinite(found) else None


def _narrowed(graph: Graph, kind: Format) -> list[Diagnostic]:
    """A warning where `graph` computes in double precision, and what is written cannot say so."""
    if not kind.has_one_width:
        return []
    wide = results_of(graph, DType.FLOAT64)
    if not wide:
        return []
    message = f"{wide[0].name} is float64 ({len(wide)} values are), for which {kind.title} has no type"
    remedy = "readers compute it in single precision"
    return [Diagnostic("LEG0006", message, wide[0].origin, remedy, Severity.WARNING)]


def _fatal(graph: Graph, kind: Format) -> list[Diagnostic]:
    """A warning where the file that is written ends the process of a runtime that loads it as it is."""
    nodes = ends_in_halves(graph) if kind.name == "onnx" else []
    if not nodes:
        return []
    message = (
        f"ONNX Runtime 1.31 ends its process when it loads this file: {nodes[0].output.name} moves the first axis of "
        f"float16 numbers behind others for a product with constants ({len(nodes)} nodes do)"
    )
    remedy = (
        "graphport cast --to float32, and the result --to float16, which leaves such nodes in float32; or load it with "
        "disabled_optimizers=['MatmulTransposeFusion']"
    )
    return [Diagnostic("ONNX0611", message, nodes[0].origin, remedy, Severity.WARNING)]
