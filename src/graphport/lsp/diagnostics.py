"""Diagnostics of an edited text and the facts of its values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from graphport.core.diagnostics import DiagnosticError, Severity, Source
from graphport.lsp.positions import range_of_span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_PROPOSED_EXTENSION = re.compile(r"add '(extension [A-Za-z0-9_]+;)' after the version")
_PROPOSED_NAME = re.compile(r"did you mean '?([A-Za-z_][A-Za-z0-9_]*)'?\?")


@dataclass(frozen=True)
class Analysis:
    """Diagnostics of one version of a text, and dtype and shape of each value by name."""

    version: int | None = None
    findings: Sequence[Diagnostic] = ()
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


def analyse(text: str, path: str, version: int | None, format: str) -> Analysis:
    """Read `text` in its format and return diagnostics and facts."""
    from graphport.api.load import checked

    if format != "nnef":
        return Analysis(version, _check_layer_list(text, path, format))
    model, findings = checked(_encode(text), format=format)
    if model is None or any(finding.is_error for finding in findings):
        return Analysis(version, findings)
    return Analysis(version, findings, {name: str(fact) for name, fact in model.shapes().items()})


def _encode(text: str) -> bytes:
    # Editors may hold lone surrogates; the reader reports them as invalid UTF-8.
    return text.encode("utf-8", "surrogatepass")


def _check_layer_list(text: str, path: str, format: str) -> Sequence[Diagnostic]:
    """Check a layer list: the file with its weights if the text is saved, otherwise the text alone."""
    import graphport

    place = Path(path)
    try:
        is_saved = place.is_file() and place.read_bytes() == _encode(text)
    except OSError:
        is_saved = False
    if is_saved:
        return graphport.check(place)
    source = Source(path, text)
    try:
        match format:
            case "pnnx":
                from graphport.formats.pnnx.container import param as pnnx

                collected = pnnx.Findings(source)
                pnnx.parse_lines(text, collected)
            case "ncnn":
                from graphport.formats.ncnn.container import param as ncnn

                collected = ncnn.Findings(source)
                ncnn.parse_text(text, collected)
            case _:
                from graphport.formats.caffe.container.findings import Findings
                from graphport.formats.caffe.container.prototxt import parse

                collected = Findings()
                parse(source, collected)
                return list(collected.diagnostics)
    except DiagnosticError as error:
        return error.diagnostics
    return collected.found


def to_lsp_diagnostic(finding: Diagnostic, lines: Sequence[str]) -> types.Diagnostic:
    """Convert a diagnostic to LSP; the remedy follows the message on a new line."""
    message = finding.message if finding.help is None else f"{finding.message}\n{finding.help}"
    return types.Diagnostic(
        range_of_span(lines, finding.span),
        message,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        source="graphport",
    )


def proposed_line(message: str) -> str | None:
    """Return the line that a remedy proposes to add after the version line."""
    found = _PROPOSED_EXTENSION.search(message)
    return None if found is None else found[1]


def proposed_name(message: str) -> str | None:
    """Return the name that a remedy proposes instead of the present one."""
    found = _PROPOSED_NAME.search(message)
    return None if found is None else found[1]
