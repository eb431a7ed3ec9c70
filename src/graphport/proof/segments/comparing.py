"""Compares two models segment by segment, each by itself."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.precision import quantized_snr
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.proof.segments import judging
from graphport.proof.segments.bodies import body_segments
from graphport.proof.segments.computations import Computations
from graphport.proof.segments.effects import changed_epsilons, unseen_effects
from graphport.proof.segments.extraction import RawModel
from graphport.proof.segments.formulas import formula_of
from graphport.proof.segments.matching import Match, match_values
from graphport.proof.segments.numbering import is_same_model
from graphport.proof.segments.reach import (
    has_phrase,
    has_wanted,
    phrase_of_body,
    phrases_of,
    proven_phrases,
    reached_phrases,
)
from graphport.proof.segments.segments import Segmentation, name_of
from graphport.proof.segments.tables import table_difference
from graphport.proof.segments.values import draw_elements

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from graphport.ir.graph import Graph, Value
    from graphport.proof.segments.judging import Finding
    from graphport.proof.segments.segments import Segment
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput

    Files = tuple[RawModel, RawModel]

MAX_SEGMENTS = 64
"""Segments that are run."""
MAX_ELEMENTS, MAX_EQUAL_ELEMENTS = 1 << 23, 1 << 20
"""Elements of the inputs and the output of a segment that is run, and of one that both files state in the same way."""
_SATURATING = frozenset({"Softmax", "LogSoftmax", "Sigmoid", "Tanh", "Softplus", "Gelu", "Exp", "Clip", "HardSwish"})
_NARROW = (DType.FLOAT16, DType.BFLOAT16)
_UNKNOWN_ORDER = "the order of the axes of an input is unknown"


@dataclass(frozen=True, eq=False)
class SegmentDifference:
    """A segment with different results in both files."""

    segment: str
    """The name of the node of the first file that computes the value."""
    value: str
    other: str
    """Names of the value in both files."""
    kind: str
    """The kind of test input that shows it."""
    max_abs: float
    first: tuple[int, ...]
    reason: str | None
    is_native: bool
    """Whether the runtimes of both files computed it; otherwise the reference did, on both as graphport reads them."""
    inputs: dict[str, Any]
    """Test input, by names of values of the first file."""

    @property
    def sentence(self) -> str:
        """The difference in one sentence."""
        what = self.reason or f"differs by {self.max_abs:.3g}"
        where = f" at {list(self.first)}" if self.first else ""
        given = ", ".join(self.inputs)
        return f"{self.other} computed from {given} by itself {what}{where} ({self.kind} values)"

    def save(self, path: str | Path) -> None:
        """Write the test input that shows it as an `.npz` file, by names of values of the first file."""
        np.savez(path, **self.inputs)


@dataclass(eq=False)
class SegmentReport:
    """The result of comparing segments. Segments have the names of the nodes of the first file."""

    equal: list[str] = field(default_factory=list[str])
    """Computed in the same way, as graphport reads both files."""
    compared: list[str] = field(default_factory=list[str])
    """Run by themselves without a difference, or of the same formula as one that was."""
    unknown: list[str] = field(default_factory=list[str])
    """Neither: no common inputs, no runtime, or no time."""
    undecided: list[str] = field(default_factory=list[str])
    """Those of `unknown` where a fault may be hidden: two files of one format compute them in different ways, or a
    difference between two formats is not judged because the order of axes is unknown."""
    unseen: list[str] = field(default_factory=list[str])
    """Phrases of differences between nodes of two files of one format that had no effect in any run."""
    differences: list[SegmentDifference] = field(default_factory=list[SegmentDifference])
    matches: list[Match] = field(default_factory=list[Match])
    formulas: set[Hashable] = field(default_factory=set["Hashable"])
    """Formulas of segments that have run without a difference."""
    reached: set[str] = field(default_factory=set[str])
    """Phrases (see `Coverage`) of the `wanted` parts that are in equal segments or that compared ones reached."""


def compare_segments(
    a: Side, b: Side, test_input: TestInput, seconds: float, wanted: Collection[str] = ()
) -> SegmentReport:
    """Compare the segments of two files between values that correspond.

    Args:
        a: the source.
        b: the file that should compute equal outputs.
        test_input: an input that both compute; it shows which values correspond.
        seconds: processor time of this process, and time of the runtimes, that runs of segments may take.
        wanted: phrases of parts that runs of the whole files did not reach; segments that contain them are compared
            first.
    """
    if a.format == b.format and is_same_model(a.graph, b.graph):
        names = [value.name for node in a.graph for value in node.results]
        return SegmentReport(names, reached=(phrases_of(a.graph) | phrases_of(b.graph)) & set(wanted))
    matches = match_values(a.graph, b.graph, test_input)
    found = SegmentReport(matches=matches)
    segmentation = Segmentation(matches)
    computed = [each for each in matches if each.a.producer is not None]
    found.equal = [name_of(each) for each in computed if each.is_equal]
    if wanted and matches:
        found.reached |= proven_phrases(a.graph, b.graph, matches, is_one_format=a.format == b.format) & set(wanted)
    wanted = set(wanted) - found.reached
    until = time.process_time() + seconds
    with tempfile.TemporaryDirectory(prefix="graphport-segments-") as folder:
        files = RawModel(a, Path(folder)), RawModel(b, Path(folder))
        try:
            for output in _in_order_of_suspicion(a, b, computed, wanted):
                name = name_of(output)
                spent = time.process_time() + sum(file.seconds for file in files)
                if found.differences or spent > until:
                    found.unknown.append(name)
                    continue
                _compare_output(output, segmentation, files, found, wanted)
        finally:
            for file in files:
                file.close()
    if a.format == b.format:
        names = dict.fromkeys(name_of(each) for each in computed if not each.is_equal)
        found.undecided += [name for name in names if name not in found.compared]
    found.unseen = list(_unseen(found, computed, segmentation, is_one_format=a.format == b.format))
    if a.format != b.format:
        found.unseen += changed_epsilons(a.graph, b.graph)
    return found


def _unseen(
    found: SegmentReport, computed: list[Match], segmentation: Segmentation, *, is_one_format: bool
) -> Iterator[str]:
    """Yield phrases of differences that free inputs cannot show; for two formats, of segments not run."""
    for each in computed:
        if not each.is_equal and (is_one_format or name_of(each) not in found.compared):
            yield from unseen_effects(each, segmentation.by_b, is_one_format=is_one_format)


def _in_order_of_suspicion(a: Side, b: Side, computed: list[Match], wanted: Collection[str]) -> list[Match]:
    """Return the matches whose canonical nodes differ first; for two formats, the remaining matches follow.

    Equal operators of one format are equal however they are run.
    """
    different = [each for each in computed if not each.is_equal]
    if a.format == b.format:
        return different[:MAX_SEGMENTS]
    others = [each for each in computed if each.is_equal]
    unreached = [each for each in others if each.a.producer and has_phrase(each.a.producer, wanted)]
    equal = [each for each in others if each not in unreached and _has_parameters(each.a)]
    return [*different, *unreached, *equal][:MAX_SEGMENTS]


def _has_parameters(value: Value) -> bool:
    """Whether the producer is a saturating operator or has a float attribute."""
    node = value.producer
    return node is not None and (node.op in _SATURATING or any(isinstance(x, float) for x in node.stated.values()))


def _compare_output(
    output: Match, segmentation: Segmentation, files: Files, found: SegmentReport, wanted: Collection[str]
) -> None:
    """Compare the segments that end at a match; bodies of its operator are compared separately, too."""
    bodies: dict[Graph, bool] = {}
    for body, segment in (*body_segments(output, segmentation), (None, segmentation.segment(output))):
        reached: set[str] = set()
        difference = (
            "it has no common inputs"
            if segment is None
            else _compare_segment(segment, files, wanted, reached, found.formulas)
        )
        if segment is not None and isinstance(difference, SegmentDifference):
            difference = _confirm(segment, segmentation, files, difference)
        if isinstance(difference, SegmentDifference):
            found.differences.append(difference)
            return
        name = name_of(segment.output if segment else output)
        (found.compared if difference is None else found.unknown).append(name)
        found.undecided += [name] if difference == _UNKNOWN_ORDER else []
        found.reached |= reached if difference is None else set()
        if body is not None:
            bodies[body] = bodies.get(body, True) and difference is None
    equal = [phrase_of_body(body) for body, is_equal in bodies.items() if is_equal]
    found.reached |= {phrase for phrase in equal if phrase is not None and phrase in wanted}


def _confirm(
    segment: Segment, segmentation: Segmentation, files: Files, difference: SegmentDifference
) -> SegmentDifference | str | None:
    """Return the difference in an enlarged segment with independent inputs, `None` without one, or why it is unknown.

    Inconsistent inputs could make equivalent files differ, and so could an order of axes that is unknown.
    """
    if files[0].format != files[1].format and any(each.is_ambiguous for each in segment.inputs):
        return _UNKNOWN_ORDER
    larger = segmentation.grow(segment)
    if larger is None:
        return "its inputs depend on each other"
    return difference if larger is segment else _compare_segment(larger, files, (), set(), set())


def _compare_segment(
    segment: Segment, files: Files, wanted: Collection[str], reached: set[str], formulas: set[Hashable]
) -> SegmentDifference | str | None:
    """Return the difference of a segment, `None` without one, or a string: the reason why it is unknown.

    The `wanted` parts that native runtimes have computed are added to `reached`, and the segment's formula to
    `formulas`; a segment of a known formula is not run.
    """
    limit = MAX_EQUAL_ELEMENTS if segment.output.is_equal else MAX_ELEMENTS
    if sum(np.size(each.x) for each in (segment.output, *segment.inputs)) > limit:
        return "its values are too large"
    table = table_difference(segment)
    if table is not None:
        row, finding = table
        return _describe(segment, "looked up", finding, [row] * len(segment.inputs), is_native=True)
    try:
        both = Computations.of(segment, files)
    except (DiagnosticError, ValueError, KeyError) as error:
        return str(error)
    if both.is_random:
        return "its elements are random"
    if not all(is_exact(each.cut.graph) for each in (both.a, both.b)):
        return "its values are rounded to steps"
    formula = None if has_wanted(both.cut_a.graph, wanted) else formula_of(both)
    if formula is not None and formula in formulas:
        return None
    both.write()
    computed: list[Sequence[Any]] = []
    for kind, elements in draw_elements(both.cut_a.graph, both.free):
        x, y = both.run(elements)
        if x is None or y is None:
            continue
        computed.append(elements)
        if judging.find_suspicious(x, y) is None:
            continue
        finding = both.judge(x, y, elements)
        if finding is not None:
            return _describe(segment, kind, finding, elements, is_native=both.is_native)
    if computed and formula is not None:
        formulas.add(formula)
    if computed and wanted and both.is_native:
        reached |= reached_phrases(both.cut_a, computed, wanted)
    return None if computed else "neither runtime computes it by itself"


def _describe(
    segment: Segment, kind: str, finding: Finding, elements: Sequence[Any], *, is_native: bool
) -> SegmentDifference:
    names = [each.a.name for each in segment.inputs]
    output = segment.output
    return SegmentDifference(
        segment.name,
        output.a.name,
        output.b.name,
        kind,
        finding.max_abs,
        finding.first,
        finding.reason,
        is_native,
        dict(zip(names, elements, strict=True)),
    )


def is_exact(graph: Graph) -> bool:
    """Whether values are integers or floats of at least 32 bits: narrower floats are rounded coarsely."""
    return quantized_snr(graph) is None and not any(value.dtype in _NARROW for value in graph.values())
