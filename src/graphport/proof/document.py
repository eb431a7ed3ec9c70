"""The result of a proof: as a sentence, as JSON, and as a document from which it can be repeated."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from graphport.core.atomic_write import replacing
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import contents
from graphport.core.short_repr import short_repr
from graphport.proof.verdict import Matrix, Verdict, decide

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.comparison import Difference
    from graphport.proof.coverage.record import Coverage
    from graphport.proof.run import Run
    from graphport.proof.runners import Runner
    from graphport.proof.test_inputs import TestInput

SCHEMA = "graphport/verify/1"


@short_repr
@dataclass(frozen=True, slots=True)
class RunnerRecord:
    """The record of a runtime or backend selected to compute one side."""

    side: str
    runtime: str
    version: str
    configuration: str
    is_own: bool
    """Whether it computes the file itself and shares no code with graphport."""
    ran: bool
    reason: str | None
    """Why it did not load the file or did not compute a test input."""
    sentence: str
    """Which runtime computes which file."""

    @classmethod
    def of(cls, runner: Runner) -> RunnerRecord:
        """Create the record of a runner."""
        return cls(
            runner.side.letter,
            runner.runtime,
            runner.version,
            str(runner.configuration),
            runner.is_native,
            runner.ran,
            runner.reason,
            runner.sentence,
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        names = ("side", "runtime", "version", "configuration", "is_own", "ran", "reason")
        return {name: getattr(self, name) for name in names}


@short_repr
@dataclass(frozen=True, slots=True)
class OutputProof:
    """The worst difference of one output over all test inputs, and whether the output is evidence."""

    position: int
    worst: Difference
    draw: str = ""
    evidence: str | None = None

    @property
    def name(self) -> str:
        """The output's name on side `a`."""
        return self.worst.name

    @property
    def name_in_b(self) -> str:
        """The output's name on side `b`."""
        return self.worst.other

    @property
    def passed(self) -> bool:
        """Whether the output agrees for all test inputs."""
        return self.worst.passed

    @property
    def reason(self) -> str | None:
        """Differences other than the elements (dtype, shape, missing outputs)."""
        return self.worst.reason

    @property
    def max_abs(self) -> float | None:
        """Largest absolute difference."""
        return self.worst.max_abs

    @property
    def mean_abs(self) -> float | None:
        """The mean absolute difference for the test input with the largest one."""
        return self.worst.mean_abs

    @property
    def snr_db(self) -> float | None:
        """Smallest signal-to-noise ratio, in decibels."""
        return self.worst.snr_db

    @property
    def cosine(self) -> float | None:
        """Cosine similarity; 1 for equal directions."""
        return self.worst.cosine

    @property
    def first_index(self) -> tuple[int, ...] | None:
        """Index of the first element that differs."""
        return self.worst.first

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"position": self.position, **self.worst.as_json(), "draw": self.draw, "no_evidence": self.evidence}


@short_repr
@dataclass(frozen=True, slots=True)
class FirstWrong:
    """The first node that computes a different result from equal operands.

    `node`, `operator` and `origin` belong to the first side; `difference` names the value on both sides.
    """

    node: str
    operator: str
    difference: Difference
    sides: tuple[str, str]
    """What the two sides are called."""
    origin: Span | None = None

    @property
    def sentence(self) -> str:
        """The first wrong node in one sentence."""
        place = "" if self.origin is None else f" ({self.origin})"
        found, (a, b) = self.difference, self.sides
        what = f"has {found.reason}" if found.max_abs is None else f"differs by {found.max_abs:.3g}"
        return (
            f"first wrong: {self.operator} {self.node}{place}: "
            f"{found.other} of {b} {what}, held against {found.name} of {a}"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        span, found = self.origin, self.difference
        return {
            "node": self.node,
            "operator": self.operator,
            "file": None if span is None else span.file,
            "line": None if span is None else span.line,
            "place": None if span is None else span.place,
            "values": {"a": found.name, "b": found.other},
            "sides": dict(zip("ab", self.sides, strict=True)),
            "difference": found.as_json(),
            "sentence": self.sentence,
        }


@short_repr
@dataclass(frozen=True, slots=True)
class Proof:
    """The runs of two files, compared. The verdict, the sentence and the exit code are computed from `matrix` alone."""

    outputs: tuple[OutputProof, ...] = ()
    witnesses: tuple[RunnerRecord, ...] = ()
    """The runtimes and backends that were to compute a side."""
    draws: tuple[TestInput, ...] = ()
    """The test inputs that both sides computed."""
    notes: tuple[str, ...] = ()
    """What else should be known: settings, ties, disagreements of further runtimes."""
    matrix: Matrix = field(default_factory=Matrix)
    first: FirstWrong | None = None
    """The first node that differs, if the outputs do and it was found."""
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def verdict(self) -> Verdict:
        """`verified`, `verified where covered`, `consistent`, `not verified` or `verification failed`."""
        return decide(self.matrix).verdict

    @property
    def failed(self) -> bool:
        """Whether the second file is refuted."""
        return self.verdict is Verdict.FAILED

    @property
    def passed(self) -> bool:
        """Whether the outputs of both sides were compared and agree."""
        return self.verdict.passed

    @property
    def unproven(self) -> str | None:
        """Why nothing was compared; `None` if outputs were compared."""
        found = decide(self.matrix)
        return found.detail if found.verdict is Verdict.NOT_VERIFIED else None

    @property
    def faults(self) -> tuple[str, ...]:
        """The fault that refutes side `b`, as a sentence; empty without one."""
        found = decide(self.matrix)
        return (found.detail,) if found.verdict is Verdict.FAILED else ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """One record for each file, runtime, configuration and test input."""
        return self.matrix.runs

    @property
    def relations(self) -> tuple[str, ...]:
        """Open dims of the first side in terms of others, which no node states: the sizes that run."""
        return self.matrix.relations

    @property
    def coverage(self) -> Coverage:
        """The coverage of the model by the test inputs."""
        return self.matrix.coverage

    @property
    def interface(self) -> tuple[str, ...]:
        """Differences of inputs and outputs that the user did not ask for."""
        return self.matrix.interface

    def exit_code(self, *, is_demanded: bool = False, is_strict: bool = False) -> int:
        """The exit code; `is_demanded` is `--verify`, `is_strict` is `--strict`."""
        return decide(self.matrix, is_demanded=is_demanded, is_strict=is_strict).exit_code

    @property
    def sizes(self) -> tuple[dict[str, int], ...]:
        """The choices of sizes of open dims."""
        found: list[dict[str, int]] = []
        for each in self.draws:
            if each.sizes not in found:
                found.append(each.sizes)
        return tuple(found)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of values of the test inputs."""
        return tuple(dict.fromkeys(each.kind for each in self.draws))

    @property
    def max_abs(self) -> float | None:
        """Largest absolute difference of any output; `None` if one has none."""
        found = [output.max_abs for output in self.outputs]
        return None if any(value is None for value in found) else max((v for v in found if v is not None), default=0.0)

    @property
    def snr_db(self) -> float | None:
        """Smallest signal-to-noise ratio of any output, in decibels."""
        found = [output.snr_db for output in self.outputs]
        known = [value for value in found if value is not None]
        return None if len(known) < len(found) else min(known, default=float("inf"))

    @property
    def is_independent(self) -> bool:
        """Whether an independent runtime computed each file."""
        return {"a", "b"} <= {each.side for each in self.witnesses if each.is_own and each.ran}

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return decide(self.matrix).sentence

    def __str__(self) -> str:
        return self.sentence

    def as_json(self) -> dict[str, Any]:
        """Plain data: the `verify` of documents."""
        ratio = self.snr_db
        return {
            "schema": SCHEMA,
            "verdict": str(self.verdict),
            "passed": self.passed,
            "unproven": self.unproven,
            "sentence": self.sentence,
            "is_independent": self.is_independent,
            "max_abs": self.max_abs,
            "snr_db": ratio if ratio is not None and isfinite(ratio) else None,
            "witnesses": [each.as_json() for each in self.witnesses],
            "draws": [each.as_json() for each in self.draws],
            "sizes": list(self.sizes),
            "coverage": self.coverage.as_json(),
            "interface": list(self.interface),
            "runs": [run.as_json() for run in self.runs],
            "relations": list(self.relations),
            "outputs": [output.as_json() for output in self.outputs],
            "faults": list(self.faults),
            "notes": list(self.notes),
            "first": None if self.first is None else self.first.as_json(),
        }


def write_document(path: Path, proof: Proof, files: Mapping[str, Path | None], asked: Mapping[str, Any]) -> None:
    """Write a proof with everything that is needed to repeat it.

    Args:
        path: of the document.
        proof: the result.
        files: the two sides by letter.
        asked: further arguments of the proof: bound shapes, effort.
    """
    known = {letter: {"path": str(file), "sha256": digest(file)} for letter, file in files.items() if file is not None}
    document = {**proof.as_json(), "files": known, "asked": dict(asked)}
    with replacing(path) as target:
        target.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode())
        target.write(b"\n")


def changed(document: Path, files: Mapping[str, Path]) -> list[str]:
    """Names of files that changed since the proof in a document, if there is one.

    Raises:
        DiagnosticError: RUN0012, the document is not a proof.
    """
    if not document.exists():
        return []
    try:
        content = json.loads(contents(document).decode("utf-8"))
        known = {letter: dict(content["files"][letter]["sha256"]) for letter in files if letter in content["files"]}
    except (ValueError, LookupError, TypeError, OSError, RecursionError) as error:
        message = f"{document} is not a proof: {error}"
        span = Span(Source(str(document)))
        raise DiagnosticError(Diagnostic("RUN0012", message, span, "name a file that does not exist yet")) from error
    found: list[str] = []
    for letter, hashes in known.items():
        now = digest(files[letter])
        found += sorted(name for name in {*hashes, *now} if hashes.get(name) != now.get(name))
    return found


def digest(path: Path) -> dict[str, str]:
    """Hashes of the files of a model by name: all files of its folder, or the file and its sidecar files."""
    stem = path.name.partition(".")[0]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return {file.relative_to(path).as_posix(): _digest(file) for file in files}
    beside = (path, path.with_name(path.name + ".data"), path.with_suffix(".bin"), path.with_suffix(".quant"))
    files = [file for file in dict.fromkeys(beside) if file.is_file() and file.name.startswith(stem)]
    return {file.name: _digest(file) for file in files}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
