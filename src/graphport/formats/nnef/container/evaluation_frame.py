"""Evaluation frames: the names of one activation of a fragment, and diagnostics located there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity, Span
from graphport.core.dims import Symbolic, symbols
from graphport.formats.nnef.container.operation import Origin
from graphport.formats.nnef.container.syntax import Array, Name, Tuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dims import Dim
    from graphport.formats.nnef.container.evaluate import Value
    from graphport.formats.nnef.container.findings import Findings
    from graphport.formats.nnef.container.syntax import Expression, Node

FAULTY = object()
"""The value of a name whose statement has been abandoned."""
_LONGEST_PATH = 48
_LONGEST_ROOT = 32


class Abandoned(Exception):  # noqa: N818  control flow of evaluation, never seen outside
    """A statement has no value; the reason has been reported."""


class Exhausted(Exception):  # noqa: N818  control flow of evaluation, never seen outside
    """A limit is exceeded and evaluation ends; the limit has been reported."""


@dataclass(slots=True)
class Frame:
    """Names and values of the graph, or of one call of a fragment.

    `path` prefixes the names of new tensors; `generic` is the type of `?`.
    """

    values: dict[str, Value] = field(default_factory=dict[str, "Value"])
    fragment: str | None = None
    caller: Origin | None = None
    depth: int = 0
    generic: str | None = None
    path: str = ""
    statement: str = ""
    """The name that the statement under evaluation assigns, if it is one."""

    def named(self, local: str) -> str:
        """Return a name for the tensor of the local variable `local`: the call path and the name, limited in length."""
        if not self.path:
            return local
        name = f"{self.path}_{local}"
        if len(name) <= _LONGEST_PATH:
            return name
        root = self.path.partition("_")[0]
        return f"{root[:_LONGEST_ROOT]}_{local[:_LONGEST_ROOT]}"


class Reporter:
    """Reports findings of evaluation; a finding repeated by several calls of a fragment is reported once."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.axes: dict[str, tuple[str, int]] = {}
        """For the name of an open extent the input and the axis that it is of."""
        self.has_open_extents = False
        """Whether any extent is symbolic, so that attributes may be."""
        self._made: set[tuple[str, int, str]] = set()

    def origin(self, node: Node, frame: Frame) -> Origin:
        """Return the location of `node`, with the chain of calls that leads to it."""
        span = Span(self.findings.source, node.start, node.stop)
        if frame.caller is None or frame.fragment is None:
            return Origin(span)
        return frame.caller.within(frame.fragment, span)

    def error(self, code: str, message: str, node: Node, frame: Frame, help: str | None = None) -> Abandoned:
        """Report an error at `node`; return the exception to raise."""
        self._add(code, message, node, frame, help, Severity.ERROR)
        return Abandoned()

    def warn(self, code: str, message: str, node: Node, frame: Frame, help: str | None = None) -> None:
        """Note a warning at `node`."""
        self._add(code, message, node, frame, help, Severity.WARNING)

    def open_extent(self, dim: Dim, node: Node, frame: Frame, code: str = "NNEF0512") -> Abandoned:
        """Report that the integer value of `dim` is required at `node`, and which inputs determine it."""
        inputs = ", ".join(self.described(dim))
        message = f"the value of '{dim}' is required here, but {inputs or 'the document'} does not set it"
        return self.error(code, message, node, frame, self.binding(dim))

    def described(self, dim: Dim) -> list[str]:
        """Describe the input axes on which `dim` depends."""
        found = (self.axes.get(name) for name in symbols(dim))
        return [f"axis {axis[1]} of input '{axis[0]}'" for axis in found if axis is not None]

    def binding(self, dim: Dim) -> str:
        """Return the remedy for a symbolic dim whose value is required."""
        names = sorted({axis[0] for name in symbols(dim) if (axis := self.axes.get(name)) is not None})
        if not names:
            return "set its value in the document"
        return f"set the shape of {' and '.join(names)}: --input {names[0]}=…"

    def _add(self, code: str, message: str, node: Node, frame: Frame, help: str | None, severity: Severity) -> None:
        key = code, node.start, message
        if key in self._made:
            return
        self._made.add(key)
        origin = self.origin(node, frame)
        remedy = "; ".join(part for part in (help, origin.route()) if part)
        self.findings.add(Diagnostic(code, message, origin.span, remedy or None, severity))


def open_dims(values: Mapping[str, object]) -> list[Symbolic]:
    """The symbolic dims anywhere in attribute `values`; no deeper than types are."""
    found: list[Symbolic] = []
    waiting: list[object] = list(values.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, Symbolic):
            found.append(value)
        elif isinstance(value, tuple):
            waiting += value
    return found


def abandon(target: Expression, frame: Frame) -> None:
    """Mark the names of `target` as failed, so that statements that use them are skipped silently."""
    waiting = [target]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name):
            frame.values[node.text] = FAULTY
        elif isinstance(node, Array | Tuple):
            waiting += node.items
