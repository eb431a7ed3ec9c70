"""What a proof comes to when everybody was asked: the worst of each output, who agrees, and what is no evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.backends.relations import stated
from graphport.proof.alignment import Evidence
from graphport.proof.document import OutputProof, Proof, Seen

if TYPE_CHECKING:
    from graphport.proof.case import Case
    from graphport.proof.runners import Runner


def settled(case: Case, unproven: str | None) -> Proof:
    """The proof that a case comes to; `unproven` says why nothing could be proven, if so."""
    outputs: list[OutputProof] = []
    for position, output in sorted(case.worst.items()):
        why = case.evidence.get(position, Evidence()).lack(has_inputs=bool(case.a.graph.inputs))
        outputs.append(OutputProof(position, output.worst, output.draw, why))
        if why is not None and output.passed:
            case.notes.append(f"{output.name} proves nothing: {why}")
    if unproven is None and not case.faults:
        unproven = _without_evidence(case, outputs)
    for witness in case.witnesses:
        if witness.reason is not None and witness.is_own and not witness.ran and witness.reason not in (unproven or ""):
            case.notes.append(f"{witness.sentence}: {witness.reason}")
        elif witness.runtime == "reference" and witness.reason is not None and unproven is None:
            case.notes.append(f"the reference on {witness.side.label} is left out: {witness.reason}")
    if case.tolerance.least_snr is not None:
        case.notes.append(f"{case.tolerance.reason}: outputs pass from {case.tolerance.least_snr:g} dB on")
    agreeing = [w for w in case.witnesses if w.ran and w not in case.disagreeing]
    return Proof(
        tuple(outputs),
        tuple(map(Seen.of, case.witnesses)),
        tuple(case.draws),
        _names(agreeing),
        tuple(dict.fromkeys(case.notes)),
        tuple(case.faults),
        unproven,
        relations=stated(case.relations or {}),
    )


def _without_evidence(case: Case, outputs: list[OutputProof]) -> str | None:
    if not case.a.graph.outputs:
        return "there are no outputs"
    if not outputs:
        return next((note for note in case.notes if "by chance" in note), "no draw was computed by both")
    if all(output.evidence is not None for output in outputs):
        return f"no output is evidence: {outputs[0].name} {outputs[0].evidence}"
    return None


def _names(agreeing: list[Runner]) -> tuple[str, ...]:
    """Those who agree: the reference once, behind the others."""
    third = [w for w in agreeing if w.runtime == "reference" and not _is_main(w, agreeing)]
    stated = [w.sentence for w in agreeing if w not in third]
    return (*stated, "the reference") if third else tuple(stated)


def _is_main(witness: Runner, agreeing: list[Runner]) -> bool:
    return not any(w is not witness and w.side is witness.side for w in agreeing)
