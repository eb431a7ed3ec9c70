"""Search for inputs on which two graphs differ by more than rounding, and for inputs that reach uncovered parts.

The reference interpreter computes both graphs in this process. A difference is only a candidate: the native runtimes of
both files decide (`is_confirmed`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.backends.reference import prepare
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core.diagnostics import DiagnosticError
from graphport.core.sequences import is_sequence
from graphport.proof.coverage.noise import NoisySession
from graphport.proof.coverage.parts import CoverageRecorder, coverage_points
from graphport.proof.coverage.probes import probed
from graphport.proof.coverage.undefined import Mixture, Overflow, Undefined, has_nan, is_unbounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.proof.coverage.candidates import Candidate
    from graphport.proof.coverage.work_budget import WorkBudget

NOISY_RUNS = 3
"""Runs with rounding errors that a difference is compared with."""
TIMES = 10.0
"""How many times the rounding errors of both graphs a difference is significant from."""
FLOOR = 2e-6
"""The part of the largest magnitude of a row up to which float32 results are equal."""
LARGEST_FINITE = 1e30
"""Magnitude up to which a finite result against an infinite one is a difference: beyond, the order of a sum decides."""


DIFFERS_ON_NAN = "NaN in the inputs (the files differ there)"
DIFFERS_ON_NEGATIVE_ZERO = "-0 in the inputs (the files differ there)"


class Flag(NamedTuple):
    """Elements of an output that differ significantly."""

    position: int
    elements: Any
    """A boolean array: where."""
    size: float
    """The largest difference; infinite where one side is NaN or infinite, or shapes differ."""


@dataclass(frozen=True, eq=False)
class Finding:
    """A test input on which the readings of both files differ."""

    candidate: Candidate
    flags: tuple[Flag, ...]
    first: Sequence[Any]
    second: Sequence[Any]


@dataclass(eq=False)
class Subject:
    """One of two graphs with its sessions."""

    graph: Graph
    reach: CoverageRecorder
    session: Any
    uncounted: frozenset[str] = frozenset()
    """Phrases of parts that do not count."""
    noisy: list[NoisySession] = field(default_factory=list[NoisySession])

    @classmethod
    def probing(cls, graph: Graph) -> Subject | None:
        """`graph` prepared for ONNX Runtime, which computes only what its parts read; `None` if it does not load it."""
        graph = remove_unused_constants(graph)
        parts = coverage_points(graph)
        session = probed(graph, parts.of)
        return None if session is None else cls(graph, CoverageRecorder(parts.of), session, parts.uncounted)

    @classmethod
    def of(cls, graph: Graph, uncounted: frozenset[str] = frozenset()) -> Subject | None:
        """Prepare `graph`, without the parts of some phrases; `None` if the reference interpreter lacks an operator."""
        graph = remove_unused_constants(graph)
        try:
            session = prepare(graph)
        except DiagnosticError:
            return None
        parts = coverage_points(graph, uncounted)
        return cls(graph, CoverageRecorder(parts.of), session, parts.uncounted)

    def run(self, arrays: Mapping[str, Any], budget: WorkBudget) -> list[Any] | None:
        """Return the outputs; `None` if the graph rejects the inputs or its result is undefined.

        Raises:
            TimeoutError: the budget is exhausted.
        """
        undefined = Undefined()
        before = self.reach.copy()

        def watch(node: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
            budget.count(node, operands, results)
            self.reach.watch(node, operands, results)
            undefined.watch(node, operands, results)

        try:
            found = self.session.run(arrays, observe=self.reach.observe, watch=watch)
        except DiagnosticError:
            self.reach.restore(before)
            return None
        except TimeoutError:
            self.reach.restore(before)
            raise
        if undefined.reason is not None:
            self.reach.restore(before)
            return None
        return [found[value.name] for value in self.graph.outputs]

    def overflows(self, arrays: Mapping[str, Any]) -> bool:
        """Whether a node computes infinity or NaN of finite elements because the element type ends.

        Outputs that depend on an overflow are not compared: a file that computes them without overflow is correct too.
        """
        overflow = Overflow()
        try:
            self.session.run(arrays, watch=overflow.watch)
        except DiagnosticError:
            return False
        return overflow.is_seen

    @property
    def tests_nan(self) -> bool:
        """Whether the model itself, and not how graphport computes an operator, distinguishes NaN."""
        return any(node.op == "IsNaN" for node in self.reach.parts)

    def mixes_infinities(self, arrays: Mapping[str, Any]) -> bool:
        """Whether NaN or infinite elements of the inputs reach a product, a softmax or a normalization."""
        if not any(map(is_unbounded, arrays.values())):
            return False
        mixture = Mixture()
        try:
            self.session.run(arrays, watch=mixture.watch)
        except DiagnosticError:
            return False
        return mixture.is_seen

    def run_noisy(self, arrays: Mapping[str, Any], budget: WorkBudget) -> list[list[Any]] | None:
        """Return the outputs of several runs with simulated rounding errors.

        Raises:
            TimeoutError: the budget is spent.
        """
        while len(self.noisy) < NOISY_RUNS:
            self.noisy.append(NoisySession(self.graph, len(self.noisy)))
        try:
            runs = [session.run(arrays, watch=budget.count) for session in self.noisy]
        except DiagnosticError:
            return None
        return [[found[value.name] for value in self.graph.outputs] for found in runs]


@dataclass(eq=False)
class Search:
    """A search over two graphs with its coverage and remaining time."""

    a: Subject
    b: Subject | None
    """`None` if only the parts of the first are looked at."""
    as_second: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Inputs of the first graph as inputs of the second."""
    budget: WorkBudget
    found: list[Finding] = field(default_factory=list[Finding])
    compares: bool = True
    """Whether differences are looked for, not only parts that are reached."""
    is_refused: bool = False
    """Whether the first graph does not compute the last candidate, or has no defined result for it."""
    tried: int = 0
    unlike: set[str] = field(default_factory=set[str])
    """Parts excluded from the comparison: the graphs differ on NaN or -0, which refutes nothing."""

    @property
    def subjects(self) -> list[Subject]:
        """The graphs that are computed."""
        return [self.a] if self.b is None else [self.a, self.b]

    def look(self, candidate: Candidate, *, records: bool = True) -> Finding | None:
        """Compute both graphs on a candidate.

        Args:
            candidate: the inputs.
            records: whether the parts that it reaches count, because the runtimes of both files will compute it too.

        Raises:
            TimeoutError: the time of the search is spent.
        """
        if self.budget.is_over:
            raise TimeoutError
        self.tried += 1
        before = [(subject, subject.reach.copy()) for subject in self.subjects]
        try:
            return self._compared(candidate)
        finally:
            for subject, state in before if not records else ():
                subject.reach.restore(state)

    def _compared(self, candidate: Candidate) -> Finding | None:
        self.is_refused = False
        try:
            inputs = self.as_second(candidate.arrays)
        except DiagnosticError:
            self.is_refused = True
            return None
        first = self.a.run(candidate.arrays, self.budget)
        self.is_refused = first is None
        if first is None or self.b is None:
            return None
        second = self.b.run(inputs, self.budget)
        if second is None or len(first) != len(second) or not self.compares:
            return None
        raw = [difference(x, y) for x, y in zip(first, second, strict=True)]
        if all(each is None for each in raw):
            return None
        is_nan = has_nan(candidate.arrays)
        is_tested = any(subject.tests_nan for subject in self.subjects)
        is_mixed = self.a.mixes_infinities(candidate.arrays)
        if is_mixed or (is_nan and not is_tested):
            # Equivalent formulas propagate mixed NaN differently; only models that test for NaN define the result.
            if is_nan and is_mixed == is_tested:
                self.unlike.add(DIFFERS_ON_NAN)
            return None
        noisy = [self.a.run_noisy(candidate.arrays, self.budget), self.b.run_noisy(inputs, self.budget)]
        if any(each is None for each in noisy):
            return None
        flags: list[Flag] = []
        for position, (x, y) in enumerate(zip(first, second, strict=True)):
            if raw[position] is None:
                continue
            runs = [(x, [run[position] for run in noisy[0] or ()]), (y, [run[position] for run in noisy[1] or ()])]
            found = significant(x, y, runs)
            if found is None:
                continue
            if np.shape(x) == np.shape(y):
                is_lost = found & _is_finite(y) & ~_is_finite(x)
                if is_lost.any() and self.a.overflows(candidate.arrays):
                    found &= ~is_lost
            if found.any():
                flags.append(Flag(position, found, float(np.max(np.where(found, raw[position], 0)))))
        unsigned = _without_negative_zeros(candidate)
        if flags and unsigned is not None:
            # Optimizers of runtimes lose the sign of 0, so a difference counts only if it is seen without signs.
            finding = self._compared(unsigned)
            if finding is None:
                self.unlike.add(DIFFERS_ON_NEGATIVE_ZERO)
            return finding
        return Finding(candidate, tuple(flags), first, second) if flags else None

    def adds_coverage(self, candidate: Candidate) -> bool:
        """Whether a candidate reaches an uncovered part. A difference is stored in `found`.

        Raises:
            TimeoutError: the time of the search is exhausted.
        """
        before = [subject.reach.state for subject in self.subjects]
        finding = self.look(candidate)
        if finding is not None:
            self.found.append(finding)
        return [subject.reach.state for subject in self.subjects] != before


def _without_negative_zeros(candidate: Candidate) -> Candidate | None:
    """Return a candidate with 0 in place of -0; `None` if it has no -0."""
    zeros = {name: (x == 0) & np.signbit(x) for name, x in candidate.arrays.items() if x.dtype.kind == "f"}
    if not any(map(np.any, zeros.values())):
        return None
    arrays = {
        name: np.where(zeros[name], 0, x).astype(x.dtype) if name in zeros else x
        for name, x in candidate.arrays.items()
    }
    return replace(candidate, arrays=arrays)


def difference(x: Any, y: Any) -> Any:
    """Return |x - y|, infinite where only one is finite; `None` for equal or incomparable arrays."""
    if x is None or y is None or is_sequence(x) or is_sequence(y):
        return None
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind not in "biufV" or y.dtype.kind not in "biufV" or not x.size:
        return None
    if x.shape != y.shape:
        return np.full(x.shape, np.inf)
    if x.dtype == y.dtype and bool(np.all((x == y) | ((x != x) & (y != y)))):  # noqa: PLR0124  NaN
        return None
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        differs = x != y
        return np.where(differs, np.abs(x.astype(np.float64) - y.astype(np.float64)), 0) if differs.any() else None
    one, two = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        found = np.where(one == two, 0.0, np.abs(one - two))
    unlike = np.isfinite(one) != np.isfinite(two)
    both = ~np.isfinite(one) & ~np.isfinite(two)
    found = np.where(unlike, np.inf, np.where(both, 0.0, found))
    return found if found.any() else None


def significant(x: Any, y: Any, runs: Sequence[tuple[Any, Sequence[Any]]]) -> Any:
    """Return where `x` and `y` differ by more than the rounding errors of both graphs.

    Args:
        x: output of the first graph.
        y: output of the second graph.
        runs: for each graph its output, and that output in runs with simulated rounding errors.
    """
    found = difference(x, y)
    if found is None:
        return None
    if np.shape(x) != np.shape(y):
        is_stable = all(np.shape(z) == np.shape(base) for base, noisy in runs for z in noisy)
        return np.isinf(found) if is_stable else None
    noise = np.zeros(np.shape(x))
    for base, noisy in runs:
        for moved in noisy:
            if np.shape(moved) != np.shape(base):
                return None
            error = difference(base, moved)
            if error is not None:
                noise = np.maximum(noise, error)
    is_real = np.asarray(x).dtype.kind in "fV"
    if not is_real:
        return (found > 0) & (noise == 0)
    largest = _row_magnitude(x)
    if noise.ndim:
        finite = np.where(np.isfinite(noise), noise, 0)
        noise = np.maximum(noise, 0.3 * finite.max(axis=-1, keepdims=True))
    steps = FLOOR if np.asarray(x).dtype.itemsize >= 4 else FLOOR * 2**13
    with np.errstate(all="ignore"):
        is_large = found > TIMES * noise + steps * largest + 1e-30
    one, two = (np.abs(np.asarray(each, np.float64)) for each in (x, y))
    is_beyond = np.isinf(found) & (
        (one > LARGEST_FINITE) & np.isfinite(one) | (two > LARGEST_FINITE) & np.isfinite(two)
    )
    return is_large & np.isfinite(noise) & ~is_beyond


def _is_finite(x: Any) -> Any:
    return np.isfinite(np.asarray(x, np.float64))


def _row_magnitude(x: Any) -> Any:
    """Return the largest finite magnitude along the last axis."""
    magnitude = np.abs(np.asarray(x, np.float64))
    magnitude = np.where(np.isfinite(magnitude), magnitude, 0)
    return magnitude.max(axis=-1, keepdims=True) if magnitude.ndim else magnitude


def is_confirmed(finding: Finding, first: Sequence[Any], second: Sequence[Any]) -> int | None:
    """Return the index of an output where two runtimes reproduce the finding's difference; `None` without one."""
    for flag in finding.flags:
        if flag.position >= min(len(first), len(second)):
            continue
        x, y = np.asarray(first[flag.position]), np.asarray(second[flag.position])
        one, two = np.asarray(finding.first[flag.position]), np.asarray(finding.second[flag.position])
        if x.size != one.size or y.size != two.size:
            continue
        if one.shape != two.shape:
            if x.size != y.size or x.shape != y.shape:
                return flag.position
            continue
        expected, seen = difference(one, two), difference(x.reshape(one.shape), y.reshape(one.shape))
        if expected is None or seen is None:
            continue
        with np.errstate(all="ignore"):
            agrees = np.isinf(seen) | (~np.isinf(expected) & (seen >= 0.5 * expected))
        if _fraction_true(agrees, flag.elements) > 0.5:
            return flag.position
    return None


def _fraction_true(of: Any, elements: Any) -> float:
    """Return the fraction of true elements."""
    return float(np.sum(of & elements)) / max(int(np.sum(elements)), 1)
