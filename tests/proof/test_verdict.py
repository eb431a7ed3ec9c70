"""The verdict is a function of the matrix of runs: every kind of matrix is enumerated, and docs/proof.md has the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from graphport.proof.coverage.record import Coverage
from graphport.proof.run import Configuration, Failure, Run
from graphport.proof.verdict import Matrix, Verdict, decide

DOCUMENT = Path(__file__).parents[2] / "docs" / "proof.md"
LABELS = {"a": "net.onnx", "b": "net.xml"}
TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "reference": "the reference"}

RAN = {"loaded": True, "ran": True}
NATIVE = {
    "runs": dict(RAN),
    "not installed": {"failure": Failure.MISSING, "reason": "is not installed"},
    "lacks an operator": {"failure": Failure.LACKING, "reason": "has no kernel for Foo"},
    "rejects the file": {"failure": Failure.REJECTED, "reason": "does not load it"},
    "rejects an input": {"loaded": True, "failure": Failure.REJECTED, "reason": "does not compute it"},
    "deadline": {"loaded": True, "failure": Failure.LIMIT, "reason": "no result within 600 s"},
}
"""What happens to the runtime of a side."""


@dataclass(frozen=True)
class Case:
    """One way that a proof can go."""

    source: str
    written: str
    is_known_reader: bool
    agrees: bool
    is_default: bool
    is_covered: bool
    has_interface: bool

    def matrix(self) -> Matrix:
        runs: list[Run] = []
        for side, state, runtime in (("a", self.source, "onnxruntime"), ("b", self.written, "openvino")):
            configuration = Configuration.DEFAULT if self.is_default else Configuration.STRICT
            given = "normal" if NATIVE[state].get("loaded") else ""
            compared = self.agrees if side == "b" and state == "runs" else None
            reason = "y differs by 0.5" if compared is False else None
            native = Run(side, runtime, "1", configuration, given, agrees=compared, max_abs=0.5, reason=reason)
            native = replace(native, is_known_reader=self.is_known_reader, **NATIVE[state])
            runs.append(native)
            if state != "runs":
                compared = self.agrees if side == "b" else None
                reason = "y differs by 0.5" if compared is False else None
                reading = Run(side, "reference", "1", Configuration.READING, "normal", **RAN)
                runs.append(replace(reading, agrees=compared, max_abs=0.5, reason=reason))
        interface = ("output y is float32, and float16 in net.xml",) if self.has_interface else ()
        never = () if self.is_covered else ("body of Loop 'decode'",)
        return Matrix(tuple(runs), LABELS, TITLES, Coverage(never=never), interface=interface)


CASES = [Case(*each) for each in product(NATIVE, NATIVE, *[(False, True)] * 5)]


def expected(case: Case) -> Verdict:
    """The table of issue "A verdict that states its coverage", written out once more."""
    refuses = case.written == "rejects the file" or (
        case.written == "rejects an input" and case.source != "rejects an input"
    )
    lacks = case.written == "lacks an operator" and case.is_known_reader
    # A strict configuration refutes by other numbers alone: users start the runtime otherwise.
    refuses, lacks = (case.is_default and each for each in (refuses, lacks))
    if case.has_interface or not case.agrees or refuses or lacks:
        return Verdict.FAILED
    if case.source != "runs" or case.written != "runs" or not case.is_default:
        return Verdict.CONSISTENT
    return Verdict.VERIFIED if case.is_covered else Verdict.WHERE_COVERED


def table() -> str:
    """The verdicts of the enumeration, as docs/proof.md shows them."""
    usual = Case(
        "runs", "runs", is_known_reader=False, agrees=True, is_default=True, is_covered=True, has_interface=False
    )
    lines = [f"| source file \\ written file | {' | '.join(NATIVE)} |", f"|---|{'---|' * len(NATIVE)}"]
    for source in NATIVE:
        row = [decide(replace(usual, source=source, written=written).matrix()).verdict for written in NATIVE]
        lines.append(f"| **{source}** | {' | '.join(row)} |")
    others = {
        "both run, the outputs agree, everything is covered": {},
        "a part of the model is never reached": {"is_covered": False},
        "only strict configurations run": {"is_default": False},
        "the written file lacks a runtime": {"written": "not installed"},
        "the written file is for this runtime alone, which lacks an operator": {
            "written": "lacks an operator",
            "is_known_reader": True,
        },
        "the outputs differ": {"agrees": False},
        "the interface differs": {"has_interface": True},
    }
    matrices = {phrase: replace(usual, **changes).matrix() for phrase, changes in others.items()}
    matrices["the default settings of the written file's runtime merge quantized layers and differ"] = merged_layers()
    matrices["nothing was compared"] = Matrix(obstacle="no valid inputs")
    lines += ["", "| what happens | verdict | exit code | with `--verify` | with `--strict` |", "|---|---|---|---|---|"]
    for phrase, matrix in matrices.items():
        found = [decide(matrix), decide(matrix, is_demanded=True), decide(matrix, is_strict=True)]
        lines.append(f"| {phrase} | {found[0].verdict} | {' | '.join(str(each.exit_code) for each in found)} |")
    return "\n".join(lines)


def merged_layers() -> Matrix:
    """A quantized model that OpenVINO computes as stated in its strict configuration only."""
    strict, default = Configuration.STRICT, Configuration.DEFAULT
    source = Run("a", "onnxruntime", "1", default, "normal", **RAN)
    written = Run("b", "openvino", "1", strict, "normal", agrees=True, max_abs=1e-6, **RAN)
    users = Run("b", "openvino", "1", default, "normal", agrees=False, snr_db=4.5, is_excused=True, **RAN)
    edges = [replace(each, input="edges", agrees=None, is_excused=False) for each in (source, users)]
    return Matrix((source, written, users, *edges), LABELS, TITLES)


def test_a_default_configuration_that_merges_quantized_layers_is_no_witness():
    outcome = decide(merged_layers())
    assert outcome.verdict is Verdict.CONSISTENT
    assert "OpenVINO on net.xml with its default settings, which merge quantized layers, keeps 4.5 dB" in outcome.detail
    assert "no other program" not in outcome.detail
    source, written, users, *_ = merged_layers().runs
    wrong = replace(users, is_excused=False, reason="y differs by 0.5")
    assert decide(Matrix((source, written, wrong), LABELS, TITLES)).verdict is Verdict.FAILED
    unstated = Matrix((source, replace(written, agrees=False, reason="y differs"), users), LABELS, TITLES)
    assert decide(unstated).verdict is Verdict.FAILED


def test_the_documentation_has_the_table():
    """`python -m tests.proof.test_verdict` writes it."""
    assert table() in DOCUMENT.read_text("utf-8")


def test_every_matrix_has_the_verdict_of_the_table():
    for case in CASES:
        outcome = decide(case.matrix())
        assert outcome.verdict is expected(case), case
        assert outcome.sentence.startswith(f"{outcome.verdict}: ")


@pytest.mark.parametrize(
    ("verdict", "plain", "demanded", "strict"),
    [
        pytest.param(Verdict.VERIFIED, 0, 0, 0, id="verified passes everywhere"),
        pytest.param(Verdict.WHERE_COVERED, 0, 0, 1, id="--strict demands complete coverage"),
        pytest.param(Verdict.CONSISTENT, 0, 1, 1, id="--verify demands native runtimes"),
        pytest.param(Verdict.NOT_VERIFIED, 0, 1, 1, id="--verify demands a comparison"),
        pytest.param(Verdict.FAILED, 1, 1, 1, id="a refuted file never passes"),
    ],
)
def test_exit_codes(verdict, plain, demanded, strict):
    matrices = [case.matrix() for case in CASES] + [Matrix(obstacle="no valid inputs were found")]
    found = [matrix for matrix in matrices if decide(matrix).verdict is verdict]
    assert found
    for matrix in found:
        codes = [decide(matrix), decide(matrix, is_demanded=True), decide(matrix, is_strict=True)]
        assert [each.exit_code for each in codes] == [plain, demanded, strict]


def test_runtime_agrees_only_after_computing_every_test_input():
    runs = [
        Run("a", "onnxruntime", "1", Configuration.DEFAULT, "normal", **RAN),
        Run("a", "onnxruntime", "1", Configuration.DEFAULT, "edges", **RAN),
        Run("b", "openvino", "1", Configuration.DEFAULT, "normal", agrees=True, **RAN),
        Run("b", "openvino", "1", Configuration.DEFAULT, "edges", agrees=True, **RAN),
    ]
    reference = Run("a", "reference", "1", Configuration.READING, "normal", agrees=True, **RAN)
    left_out = Run("a", "reference", "1", Configuration.READING, "edges", loaded=True, failure=Failure.LIMIT)
    assert "reference" not in decide(Matrix((*runs, reference, left_out), LABELS, TITLES)).sentence
    ran = replace(reference, input="edges")
    assert "the reference" in decide(Matrix((*runs, reference, ran), LABELS, TITLES)).sentence
    differs = replace(ran, agrees=False, reason="y differs by 0.5")
    outcome = decide(Matrix((*runs, reference, differs), LABELS, TITLES))
    assert outcome.verdict is Verdict.VERIFIED
    assert "reference" not in outcome.sentence


def test_a_test_input_that_the_written_file_did_not_compute_is_listed():
    runs = [
        Run("a", "onnxruntime", "1", Configuration.DEFAULT, "normal", **RAN),
        Run("a", "onnxruntime", "1", Configuration.DEFAULT, "edges", **RAN),
        Run("b", "openvino", "1", Configuration.DEFAULT, "normal", agrees=True, **RAN),
        Run("b", "openvino", "1", Configuration.DEFAULT, "edges", loaded=True, failure=Failure.LIMIT, reason="slow"),
    ]
    outcome = decide(Matrix(tuple(runs), LABELS, TITLES))
    assert outcome.verdict is Verdict.WHERE_COVERED
    assert "never executed: test input 'edges'" in outcome.sentence


def test_merged_coverage_is_the_union_of_both():
    first = Coverage(branches=frozenset({"then branch of If 'c'"}), never=("body of Loop 'l'", "rows of 'w'"))
    second = Coverage(iterations={"body of Loop 'l'": frozenset({0, 2})}, never=("then branch of If 'c'",))
    assert first.merged(second).never == ("rows of 'w'",)
    assert first.merged(second) == Coverage(first.branches, second.iterations, never=("rows of 'w'",))
    assert not first.merged(second).complete
    none = Coverage(iterations={"body of Loop 'l'": frozenset({0})})
    assert first.merged(none).never == first.never


STATES = ("runs", "deadline", "differs")


def test_sentence_omits_runtimes_with_skipped_test_inputs():
    """Two test inputs, and all that can happen to each runtime and to the reference on each of them."""
    count = 0
    for states in product(STATES, repeat=4):
        reference, written = states[:2], states[2:]
        runs = [Run("a", "onnxruntime", "1", Configuration.DEFAULT, label, **RAN) for label in ("one", "two")]
        for label, state in zip(("one", "two"), written, strict=True):
            runs.append(_run("b", "openvino", Configuration.DEFAULT, label, state))
        for label, state in zip(("one", "two"), reference, strict=True):
            runs.append(_run("a", "reference", Configuration.READING, label, state))
        outcome = decide(Matrix(tuple(runs), LABELS, TITLES))
        compared = {run.input for run in runs if run.side == "b" and run.agrees}
        is_whole = compared <= {run.input for run in runs if run.runtime == "reference" and run.agrees}
        if "agree on" in outcome.detail:
            agreeing = outcome.detail.partition(" agree on")[0]
            assert ("reference" in agreeing) is (is_whole and "differs" not in reference)
            assert "differs" not in written
            count += 1
        assert decide(Matrix(tuple(runs), LABELS, TITLES)) == outcome
    assert count > 20


def _run(side, runtime, configuration, label, state):
    if state == "deadline":
        return Run(side, runtime, "1", configuration, label, loaded=True, failure=Failure.LIMIT, reason="too slow")
    reason = "y differs by 0.5" if state == "differs" else None
    return Run(side, runtime, "1", configuration, label, agrees=state == "runs", reason=reason, **RAN)


if __name__ == "__main__":
    text = DOCUMENT.read_text("utf-8")
    begin, end = "<!-- verdicts: written by tests/proof/test_verdict.py -->", "<!-- end of verdicts -->"
    before, _, rest = text.partition(begin)
    DOCUMENT.write_text(f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}", "utf-8")
