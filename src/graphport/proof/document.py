"""What a proof says: in one sentence, as JSON, and as a document from which it can be repeated."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.opening import contents
from graphport.core.replacing import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from graphport.comparison import Difference
    from graphport.proof.runners import Runner
    from graphport.proof.test_inputs import TestInput

SCHEMA = "graphport/verify/1"


@dataclass(frozen=True, slots=True)
class Seen:
    """A witness as it is told afterwards."""

    side: str
    runtime: str
    version: str
    is_own: bool
    ran: bool
    reason: str | None
    sentence: str

    @classmethod
    def of(cls, witness: Runner) -> Seen:
        """What is left of a witness."""
        return cls(
            witness.side.letter,
            witness.runtime,
            witness.version,
            witness.is_own,
            witness.ran,
            witness.reason,
            witness.sentence,
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        names = ("side", "runtime", "version", "is_own", "ran", "reason")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class OutputProof:
    """One output over all draws: the worst difference of the second side from the first, and whether it says anything.

    `evidence` is why it proves nothing, if so: it was empty, no number, or the same for all draws.
    """

    position: int
    worst: Difference
    draw: str = ""
    evidence: str | None = None

    @property
    def name(self) -> str:
        """Of the first side."""
        return self.worst.name

    @property
    def other(self) -> str:
        """The name on the second side."""
        return self.worst.other

    @property
    def passed(self) -> bool:
        """Whether no draw told both sides apart."""
        return self.worst.passed

    @property
    def reason(self) -> str | None:
        """What is wrong beyond numbers that differ."""
        return self.worst.reason

    @property
    def max_abs(self) -> float | None:
        """The largest absolute difference."""
        return self.worst.max_abs

    @property
    def mean_abs(self) -> float | None:
        """The mean absolute difference where the largest is."""
        return self.worst.mean_abs

    @property
    def snr_db(self) -> float | None:
        """The least signal-to-noise ratio."""
        return self.worst.snr_db

    @property
    def cosine(self) -> float | None:
        """1 where directions agree."""
        return self.worst.cosine

    @property
    def first(self) -> tuple[int, ...] | None:
        """Where the first entry is that differs."""
        return self.worst.first

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"position": self.position, **self.worst.as_json(), "draw": self.draw, "no_evidence": self.evidence}


@dataclass(frozen=True, slots=True)
class FirstWrong:
    """The first node whose result the second side computes otherwise, and not merely for what came before it.

    `node` and `operator` are those of the first side, as is the place; `difference` names the value on both sides.
    """

    node: str
    operator: str
    difference: Difference
    sides: tuple[str, str]
    """What the two sides are called."""
    origin: Span | None = None

    @property
    def sentence(self) -> str:
        """The whole for people."""
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


@dataclass(frozen=True, slots=True)
class Proof:
    """What witnesses of two sides computed, held against each other.

    `unproven` is why nothing was proven, where nothing was refuted either; `notes` are disagreements between witnesses
    of one side and what else should be known.
    """

    outputs: tuple[OutputProof, ...] = ()
    witnesses: tuple[Seen, ...] = ()
    draws: tuple[TestInput, ...] = ()
    agreeing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """What refutes it besides outputs that differ."""
    unproven: str | None = None
    first: FirstWrong | None = None
    """Where it goes wrong, if it was refuted by numbers and that was found."""
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    relations: tuple[str, ...] = ()
    """What open extents of the first side are in terms of others: no node says so, and nothing else was seen to run."""

    @property
    def failed(self) -> bool:
        """Whether both sides were told apart."""
        return bool(self.faults) or any(not output.passed for output in self.outputs)

    @property
    def passed(self) -> bool:
        """Whether both sides were shown to compute the same."""
        return not self.failed and self.unproven is None

    @property
    def sizes(self) -> tuple[dict[str, int], ...]:
        """The different choices of lengths of open axes."""
        found: list[dict[str, int]] = []
        for draw in self.draws:
            if draw.sizes not in found:
                found.append(draw.sizes)
        return tuple(found)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The different kinds of numbers."""
        return tuple(dict.fromkeys(draw.kind for draw in self.draws))

    @property
    def max_abs(self) -> float | None:
        """The largest absolute difference of any output; `None` where one has no number for it."""
        found = [output.max_abs for output in self.outputs]
        return None if any(value is None for value in found) else max((v for v in found if v is not None), default=0.0)

    @property
    def snr_db(self) -> float | None:
        """The least signal-to-noise ratio of any output."""
        found = [output.snr_db for output in self.outputs]
        known = [value for value in found if value is not None]
        return None if len(known) < len(found) else min(known, default=float("inf"))

    @property
    def is_independent(self) -> bool:
        """Whether on each side somebody computed the file itself who shares no code with us."""
        return {"a", "b"} <= {witness.side for witness in self.witnesses if witness.is_own and witness.ran}

    @property
    def sentence(self) -> str:
        """The whole in one sentence for people."""
        if self.failed:
            return f"verification failed: {self._why()}"
        if self.unproven is not None:
            return f"not verified: {self.unproven}"
        stated = f"verified: {_listed(self.agreeing)} agree: {self._extent()}"
        return stated if self.is_independent else f"{stated}; {self._lacking()}"

    def _extent(self) -> str:
        largest = self.max_abs
        difference = "the outputs are equal" if not largest else f"largest difference {largest:.2g}"
        kinds = "the inputs given" if self.kinds == ("given",) else _count(len(self.kinds), "draw")
        return f"{_count(len(self.sizes), 'size')}{self._assumed()}, {kinds}, {difference}"

    def _assumed(self) -> str:
        if not self.relations:
            return ""
        first, *others = self.relations
        more = f" and {len(others)} more (--json tells)" if others else ""
        return f" ({first}{more}, taken from what runs)"

    def _lacking(self) -> str:
        own = {witness.side for witness in self.witnesses if witness.is_own and witness.ran}
        sides = {"a": "the first", "b": "the second"}
        alone = [sides[letter] for letter in ("a", "b") if letter not in own]
        return f"nobody who shares no code with us has read {' or '.join(alone)}"

    def _why(self) -> str:
        if self.faults:
            return self.faults[0]
        wrong = next(output for output in self.outputs if not output.passed)
        where = f", first at {list(wrong.first)}" if wrong.first is not None else ""
        what = wrong.reason or f"differs by {wrong.max_abs:.3g}"
        draw = f" ({wrong.draw})" if wrong.draw else ""
        return f"the outputs differ: {wrong.name or f'output {wrong.position}'} {what}{where}{draw}"

    def __str__(self) -> str:
        return self.sentence

    def as_json(self) -> dict[str, Any]:
        """Plain data: the `verify` of documents."""
        ratio = self.snr_db
        return {
            "schema": SCHEMA,
            "passed": self.passed,
            "unproven": self.unproven,
            "sentence": self.sentence,
            "is_independent": self.is_independent,
            "max_abs": self.max_abs,
            "snr_db": ratio if ratio is not None and isfinite(ratio) else None,
            "witnesses": [witness.as_json() for witness in self.witnesses],
            "draws": [draw.as_json() for draw in self.draws],
            "sizes": list(self.sizes),
            "relations": list(self.relations),
            "outputs": [output.as_json() for output in self.outputs],
            "faults": list(self.faults),
            "notes": list(self.notes),
            "first": None if self.first is None else self.first.as_json(),
        }


def _listed(names: Iterable[str]) -> str:
    *others, last = list(dict.fromkeys(names)) or ["nobody"]
    return f"{', '.join(others)} and {last}" if others else last


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def write_document(path: Path, proof: Proof, files: Mapping[str, Path | None], asked: Mapping[str, Any]) -> None:
    """Write a proof with all that it takes to repeat it.

    Args:
        path: of the document.
        proof: what was found.
        files: the two sides by letter.
        asked: what the proof was told besides: bound shapes, effort.
    """
    known = {letter: {"path": str(file), "sha256": digest(file)} for letter, file in files.items() if file is not None}
    document = {**proof.as_json(), "files": known, "asked": dict(asked)}
    with replacing(path) as target:
        target.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode())
        target.write(b"\n")


def changed(document: Path, files: Mapping[str, Path]) -> list[str]:
    """Names of files that are others than those of which a document, if there is one, says that they were proven.

    Raises:
        DiagnosticError: RUN0012, what is there is no proof.
    """
    if not document.exists():
        return []
    try:
        content = json.loads(contents(document).decode("utf-8"))
        known = {letter: dict(content["files"][letter]["sha256"]) for letter in files if letter in content["files"]}
    except (ValueError, LookupError, TypeError, OSError, RecursionError) as error:
        message = f"{document} is no proof: {error}"
        span = Span(Source(str(document)))
        raise DiagnosticError(Diagnostic("RUN0012", message, span, "name a file that is not there yet")) from error
    found: list[str] = []
    for letter, hashes in known.items():
        now = digest(files[letter])
        found += sorted(name for name in {*hashes, *now} if hashes.get(name) != now.get(name))
    return found


def digest(path: Path) -> dict[str, str]:
    """Hashes of the files of a model by name: of all in its folder, or of those beside it that are called like it."""
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
