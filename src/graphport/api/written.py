"""A model that is written beside its place, proven there, and moved there unless it was refuted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.api.documents import write_checks
from graphport.api.staging import staged
from graphport.api.verify import proven, reason_to_skip, tolerance, written_side
from graphport.quantization.record import note_checks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.api.model import Model
    from graphport.core.diagnostics import Diagnostic
    from graphport.formats import Format
    from graphport.ir.graph import Graph
    from graphport.proof.document import Proof
    from graphport.proof.side import Side


@dataclass(frozen=True, slots=True)
class Checking:
    """What is to be proven of a file that is written; see `convert`."""

    verify: bool | None = None
    verify_limit: int | None = None
    keep_failed: bool = False
    effort: str = "default"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a file: the proof if somebody was asked, why nothing was proven, and the file that there is.

    `findings` are what there is to say of the file.
    """

    proof: Proof | None
    skipped: str | None
    written: str | None
    findings: list[Diagnostic]


def write_proven(  # noqa: PLR0913  keywords, each documented
    graph: Graph,
    target: str | Path,
    kind: Format,
    options: Mapping[str, Any],
    *,
    source: Model,
    against: Side,
    checking: Checking,
    inputs: Mapping[str, Any] | None = None,
    least_snr: float | None = None,
    has_checks: bool = True,
) -> Written:
    """Write `graph`, in the words of a format, and prove that the file computes what another side does.

    Args:
        graph: what is written.
        target: where to.
        kind: the format.
        options: of its writer.
        source: the model whose weights have to be there and to fit; its precision says what passes as equal.
        against: what the file is held against.
        checking: what is to be proven.
        inputs: what to prove it with, by the names of `against`; drawn if `None`.
        least_snr: decibels that the writer keeps, where it rounds.
        has_checks: whether a file with room for documents has the proof written into it.

    Raises:
        DiagnosticError: what the writer raises; RUN0010, a proof was demanded and there is none.
    """
    reason = reason_to_skip(source, checking.verify_limit, verify=checking.verify)
    if kind.has_documents and has_checks:
        note_checks(graph, None, reason)
    with staged(target, kind) as place:
        findings = place.write(graph, kind, options)
        if reason is not None:
            place.accept()
            return Written(None, reason, str(target), findings)
        proof = proven(
            against,
            written_side(place.path, place.target.name),
            inputs,
            tolerance(source, least_snr),
            is_demanded=bool(checking.verify),
            effort=checking.effort,
        )
        if has_checks:
            write_checks(graph, kind, place.path, proof, proof.unproven, options)
        kept = place.settle(has_failed=proof.failed, keep_failed=checking.keep_failed)
        return Written(proof, proof.unproven, kept, findings)
