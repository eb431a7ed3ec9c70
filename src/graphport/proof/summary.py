"""The result of a proof when all runs are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.proof.alignment import Evidence
from graphport.proof.coverage.record import Coverage
from graphport.proof.document import OutputProof, Proof, RunnerRecord

if TYPE_CHECKING:
    from graphport.proof.case import Case


def summarize(case: Case, obstacle: str | None) -> Proof:
    """The proof of a case; `obstacle` is why no test input was compared, if so."""
    outputs: list[OutputProof] = []
    unproven: list[str] = []
    for position, output in sorted(case.worst.items()):
        why = case.evidence.get(position, Evidence()).lack(has_inputs=bool(case.a.graph.inputs))
        outputs.append(OutputProof(position, output.worst, output.draw, why))
        if why is not None and output.passed:
            unproven.append(f"output {output.name} ({why})")
    if obstacle is None and not case.is_refuted and not case.interface:
        obstacle = _without_evidence(case, outputs)
    sizes: list[dict[str, int]] = []
    for each in case.test_inputs:
        if each.sizes not in sizes:
            sizes.append(each.sizes)
    case.coverage = case.coverage.merged(Coverage(sizes=tuple(sizes), never=tuple(unproven)))
    if case.tolerance.least_snr is not None:
        case.notes.append(f"tolerance for {case.tolerance.reason}: SNR >= {case.tolerance.least_snr:g} dB")
    return Proof(
        tuple(outputs),
        tuple(map(RunnerRecord.of, case.runners)),
        tuple(case.test_inputs),
        tuple(dict.fromkeys(case.notes)),
        case.matrix(obstacle),
    )


def _without_evidence(case: Case, outputs: list[OutputProof]) -> str | None:
    if not case.a.graph.outputs:
        return "there are no outputs"
    if not outputs:
        return next((note for note in case.notes if "random" in note), "no test input was computed from both files")
    if all(output.evidence is not None for output in outputs):
        return f"no output proves anything: {outputs[0].name} {outputs[0].evidence}"
    return None
