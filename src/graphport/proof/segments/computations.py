"""Both sides of a segment, ready to be computed: in the runtimes of the files, or by the reference interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.proof.process import UnansweredError
from graphport.proof.segments import extraction, judging
from graphport.proof.segments.judging import Exact, Finding
from graphport.proof.segments.values import FreeInput, free_input

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from graphport.ir.graph import Graph, Value
    from graphport.proof.segments.extraction import Cut, RawModel
    from graphport.proof.segments.segments import Segment

ITERATIONS = (0.0, 100.0)
"""The iteration numbers that the body of a Loop is given."""


@dataclass(eq=False)
class _Computed:
    """A segment of one file, written to `path` by `write` and run by the format's runtime."""

    cut: Cut
    names: list[str]
    output: Value
    inputs: list[Value]
    model: RawModel
    raw: Graph | None
    """The nodes of the file, in its dialect."""
    path: Path | None = None

    @property
    def graph(self) -> Graph:
        """The graph to run: the nodes of the file if they can be written, else the canonical graph."""
        return self.raw or self.cut.graph

    def write(self) -> None:
        """Write the nodes of the file, so that the runtime can run them."""
        self.path = None if self.raw is None else self.model.write(self.raw)

    def run(self, elements: Sequence[Any]) -> Any:
        """Return the runtime's result, else the reference interpreter's; `None` if both fail."""
        if self.path is not None:
            try:
                return self.model.run(self.path, self.names, elements)
            except UnansweredError:
                self.path = None
        try:
            return extraction.evaluate(self.cut, elements)
        except DiagnosticError:
            return None


@dataclass(eq=False)
class Computations:
    """A segment of both files."""

    segment: Segment
    a: _Computed
    b: _Computed
    free: list[FreeInput]

    @classmethod
    def of(cls, segment: Segment, files: tuple[RawModel, RawModel]) -> Computations:
        """A segment cut from both files.

        Raises:
            DiagnosticError: it cannot be cut out.
        """
        a = _cut_side(segment.output.a, [each.a for each in segment.inputs], files[0])
        b = _cut_side(segment.output.b, [each.b for each in segment.inputs], files[1])
        pairs = zip(a.cut.inputs, segment.inputs, strict=True)
        free = [free_input(value, (match.a, match.b), match.x) for value, match in pairs]
        free = [_of_loop(each, match.a) for each, match in zip(free, segment.inputs, strict=True)]
        return cls(segment, a, b, free)

    @property
    def cut_a(self) -> Cut:
        """The segment of the first file's canonical graph."""
        return self.a.cut

    @property
    def is_native(self) -> bool:
        """Whether the runtimes of both files compute it."""
        return self.a.path is not None and self.b.path is not None

    @property
    def is_random(self) -> bool:
        """Whether two runs differ."""
        return any(map(_is_random, (self.a.cut.graph, self.b.cut.graph)))

    def write(self) -> None:
        """Write both sides to files for their runtimes."""
        self.a.write()
        self.b.write()

    def run(self, elements: Sequence[Any]) -> tuple[Any, Any]:
        """The results of both sides in the layout of the first; `None` for one that is not computed."""
        x, y = self.a.run(elements), self.b.run(self._of_b(elements))
        if x is not None and y is not None and np.size(x) != np.size(y) and (self.a.path or self.b.path):
            # A name in the file may denote a different value than in its graph.
            self.a.path = self.b.path = None
            x, y = self.a.run(elements), self.b.run(self._of_b(elements))
        if x is None or y is None:
            return None, None
        return _align(np.asarray(x), np.asarray(self.segment.output.layout_of_a(y)))

    def judge(self, x: Any, y: Any, elements: Sequence[Any]) -> Finding | None:
        """Return the difference beyond rounding; `None` if there is none or if the reference run fails."""
        of_b = self._of_b(elements)
        try:
            narrow = extraction.evaluate(self.a.cut, elements), extraction.evaluate(self.b.cut, of_b)
            wide = [
                extraction.evaluate(extraction.widen(side.output, side.inputs), given, is_wide=True)
                for side, given in ((self.a, elements), (self.b, of_b))
            ]
        except DiagnosticError:
            return None
        output = self.segment.output
        exact = [
            _reshape_like(each, x)
            for each in (narrow[0], output.layout_of_a(narrow[1]), wide[0], output.layout_of_a(wide[1]))
        ]
        if any(each is None for each in exact):
            return None
        has_nan = any(each.dtype.kind == "f" and bool(np.isnan(each).any()) for each in map(np.asarray, elements))
        return judging.difference(x, y, Exact(*exact), has_nan=has_nan)

    def _of_b(self, elements: Sequence[Any]) -> list[Any]:
        return [
            np.asarray(match.layout_of_b(each)).astype(np.asarray(match.y).dtype)
            for match, each in zip(self.segment.inputs, elements, strict=True)
        ]


def _cut_side(output: Value, inputs: list[Value], model: RawModel) -> _Computed:
    cut = extraction.cut(output, inputs)
    return _Computed(cut, [value.name for value in inputs], output, inputs, model, model.cut(output, inputs))


def _of_loop(free: FreeInput, value: Value) -> FreeInput:
    """Return the free input of a value; the iteration number and the condition of a Loop get valid values."""
    body = value.graph
    node = None if body is None else body.parent
    if body is None or node is None or node.op != "Loop" or value not in body.inputs[:2]:
        return free
    if value is body.inputs[0]:
        return free._replace(low=ITERATIONS[0], high=ITERATIONS[1], is_iteration=True)
    return free._replace(is_fixed=True)


def _is_random(graph: Graph) -> bool:
    op_defs = registry.op_defs()
    return any(node.op in op_defs and op_defs[node.op].is_random for inner in walk(graph) for node in inner)


def _align(x: Any, y: Any) -> tuple[Any, Any]:
    """Reshape and cast `y` to shape and dtype of `x`, if the element counts are equal and both are numeric."""
    if x.shape != y.shape and x.size == y.size:
        y = y.reshape(x.shape)
    if x.dtype != y.dtype and x.dtype.kind in "fiub" and y.dtype.kind in "fiub":
        y = y.astype(x.dtype)
    return x, y


def _reshape_like(found: Any, x: Any) -> Any:
    array = np.asarray(found)
    return array.reshape(x.shape) if array.size == x.size else None
