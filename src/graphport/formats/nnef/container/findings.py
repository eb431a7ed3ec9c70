"""Collector of the diagnostics of a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity, Span

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.formats.nnef.container.syntax import Node


class Findings:
    """Findings about one text in the order they are made; beyond `limit` they are only counted."""

    def __init__(self, source: Source, limit: int) -> None:
        self.source = source
        self.limit = limit
        self.suppressed = 0
        self.has_errors = False
        self._found: list[Diagnostic] = []

    @property
    def count(self) -> int:
        """How many findings have been made, shown or not."""
        return len(self._found) + self.suppressed

    @property
    def is_full(self) -> bool:
        """Whether further findings are only counted, so that computing suggestions is useless."""
        return len(self._found) >= self.limit

    def add(self, finding: Diagnostic) -> None:
        """Append a finding, or only count it if the limit is reached."""
        self.has_errors |= finding.is_error
        if len(self._found) < self.limit:
            self._found.append(finding)
        else:
            self.suppressed += 1

    def error(self, code: str, message: str, node: Node | None, help: str | None = None) -> None:
        """Note an error at `node`."""
        self.add(Diagnostic(code, message, self.span(node), help))

    def warn(self, code: str, message: str, node: Node | None, help: str | None = None) -> None:
        """Note a warning at `node`."""
        self.add(Diagnostic(code, message, self.span(node), help, Severity.WARNING))

    def span(self, node: Node | None) -> Span | None:
        """Return the location of `node`."""
        return None if node is None else Span(self.source, node.start, node.stop)

    def sorted_by_location(self) -> list[Diagnostic]:
        """Return all diagnostics by location; the last one counts the omitted ones."""
        found = sorted(self._found, key=lambda each: each.span.start or 0 if each.span else 0)
        if self.suppressed:
            message = f"{self.suppressed} further findings are not shown"
            found.append(Diagnostic("NNEF0001", message, None, "fix the errors above first", Severity.NOTE))
        return found
