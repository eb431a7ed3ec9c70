"""What is wrong with a text that is being typed, and the facts of its values."""

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
_ADDED = re.compile(r"add '(extension [A-Za-z0-9_]+;)' after the version")
_MEANT = re.compile(r"did you mean '?([A-Za-z_][A-Za-z0-9_]*)'?\?")


@dataclass(frozen=True)
class Analysis:
    """What is known of one version of a text: findings, and the type and shape of every value by its name."""

    version: int | None = None
    findings: Sequence[Diagnostic] = ()
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


def analysed(text: str, path: str, version: int | None, format: str) -> Analysis:
    """Read `text` as its format does, as far as it goes."""
    from graphport.api.load import checked

    if format != "nnef":
        return Analysis(version, _of_layers(text, path, format))
    model, findings = checked(_encoded(text), format=format)
    if model is None or any(finding.is_error for finding in findings):
        return Analysis(version, findings)
    return Analysis(version, findings, {name: str(fact) for name, fact in model.shapes().items()})


def _encoded(text: str) -> bytes:
    # Editors may hold halves of characters, which are no UTF-8: whoever reads the file tells so.
    return text.encode("utf-8", "surrogatepass")


def _of_layers(text: str, path: str, format: str) -> Sequence[Diagnostic]:
    """Findings of a list of layers: of the file with its weights if it is saved as it is, else of the text alone."""
    import graphport

    place = Path(path)
    try:
        is_saved = place.is_file() and place.read_bytes() == _encoded(text)
    except OSError:
        is_saved = False
    if is_saved:
        return graphport.check(place)
    source = Source(path, text)
    try:
        match format:
            case "pnnx":
                from graphport.formats.pnnx import param as pnnx

                collected = pnnx.Findings(source)
                pnnx.parse_lines(text, collected)
            case "ncnn":
                from graphport.formats.ncnn import param as ncnn

                collected = ncnn.Findings(source)
                ncnn.parse_text(text, collected)
            case _:
                from graphport.formats.caffe.findings import Findings
                from graphport.formats.caffe.prototxt import parse

                collected = Findings()
                parse(source, collected)
                return list(collected.diagnostics)
    except DiagnosticError as error:
        return error.diagnostics
    return collected.found


def as_lsp(finding: Diagnostic, lines: Sequence[str]) -> types.Diagnostic:
    """A finding as an editor shows it; the remedy stands below the sentence."""
    message = finding.message if finding.help is None else f"{finding.message}\n{finding.help}"
    return types.Diagnostic(
        range_of_span(lines, finding.span),
        message,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        source="graphport",
    )


def missing(message: str) -> str | None:
    """The line that a remedy proposes to add after the version."""
    found = _ADDED.search(message)
    return None if found is None else found[1]


def meant(message: str) -> str | None:
    """The name that a remedy proposes in place of the one that was written."""
    found = _MEANT.search(message)
    return None if found is None else found[1]
