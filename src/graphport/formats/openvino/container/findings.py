"""Diagnostics of an IR file, with their locations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Source
    from graphport.formats.openvino.container.xml import Element


class Findings:
    """Findings of one file; past `most` they are counted, not kept."""

    def __init__(self, source: Source, most: int) -> None:
        self.source = source
        self.found: list[Diagnostic] = []
        self._most = most
        self._layers: list[Element] = []

    def location(self, layer: Element) -> Span:
        """Return the location of a layer."""
        named = f'layer {layer.attributes.get("id", "?")} "{layer.attributes.get("name", "")}"'
        return Span(self.source, layer.at, layer.at + len("<layer"), named)

    def deferred_location(self, layer: Element) -> tuple[Findings, int]:
        """Return a deferred location of a layer, computed only if it is printed."""
        self._layers.append(layer)
        return self, len(self._layers) - 1

    def deferred_locations(self, layers: Sequence[Element]) -> int:
        """Defer the locations of `layers`; return the index of the first."""
        first = len(self._layers)
        self._layers += layers
        return first

    def span(self, index: int) -> Span:
        """Return the deferred location with this index."""
        return self.location(self._layers[index])

    def error(self, code: str, message: str, layer: Element | None = None, help: str | None = None) -> None:
        """The file cannot be used."""
        self._add(code, message, layer, help, Severity.ERROR)

    def warning(self, code: str, message: str, layer: Element | None = None, help: str | None = None) -> None:
        """Report a problem that does not prevent reading the file."""
        self._add(code, message, layer, help, Severity.WARNING)

    def _add(self, code: str, message: str, layer: Element | None, help: str | None, severity: Severity) -> None:
        if len(self.found) < self._most or (severity is Severity.ERROR and not self._has_error()):
            span = Span(self.source) if layer is None else self.location(layer)
            self.found.append(Diagnostic(code, message, span, help, severity))

    def _has_error(self) -> bool:
        return any(finding.is_error for finding in self.found)
