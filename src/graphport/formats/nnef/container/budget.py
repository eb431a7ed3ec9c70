"""Counts what evaluation uses, and ends it at the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.nnef.container.evaluation_frame import Exhausted

if TYPE_CHECKING:
    from graphport.formats.nnef.container.evaluation_frame import Frame, Reporter
    from graphport.formats.nnef.container.limits import Limits
    from graphport.formats.nnef.container.syntax import Node

_STEPS_A_CHARACTER = 10


class Budget:
    """Remaining amount of each limit; methods report an exceeded limit and raise `Exhausted`."""

    def __init__(self, limits: Limits, characters: int, reporter: Reporter) -> None:
        self._limits = limits
        self._reporter = reporter
        self.steps = limits.steps + _STEPS_A_CHARACTER * characters
        self.operations = limits.operations + characters
        self.items = limits.items

    def step(self, node: Node, frame: Frame) -> None:
        """Count one evaluated expression."""
        self.steps -= 1
        if self.steps < 0:
            message = f"the evaluation exceeds {self._limits.steps} operations in addition to the text size"
            self._reporter.error(
                "NNEF0508", message, node, frame, "set GRAPHPORT_LIMITS=nnef.steps=N to raise the limit to N"
            )
            raise Exhausted

    def operation(self, node: Node, frame: Frame) -> None:
        """Count one emitted operation."""
        self.results(1, node, frame)

    def results(self, count: int, node: Node, frame: Frame) -> None:
        """Count an operation with an array of `count` results; each result counts as an operation."""
        self.operations -= count
        if self.operations < 0:
            more = f"more than {self._limits.operations} operations and results"
            message = f"expansion creates {more} in addition to the document's length"
            self._reporter.error(
                "NNEF0507", message, node, frame, "set GRAPHPORT_LIMITS=nnef.operations=N to raise the limit to N"
            )
            raise Exhausted

    def length(self, count: int, node: Node, frame: Frame) -> None:
        """Count the `count` items of a new array or string."""
        self.items -= count
        if self.items < 0:
            message = f"all values together have more than {self._limits.items} items"
            self._reporter.error(
                "NNEF0510", message, node, frame, "set GRAPHPORT_LIMITS=nnef.items=N to raise the limit to N"
            )
            raise Exhausted

    def depth(self, depth: int, node: Node, frame: Frame) -> None:
        """Check the nesting depth of a fragment that is called from `frame`."""
        if depth > self._limits.depth:
            message = f"fragment calls are nested more than {self._limits.depth} levels deep"
            remedy = "end recursions by an if-else, or set GRAPHPORT_LIMITS=nnef.depth=N to raise the limit to N"
            self._reporter.error("NNEF0506", message, node, frame, remedy)
            raise Exhausted
