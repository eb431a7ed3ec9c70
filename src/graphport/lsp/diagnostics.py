"""Diagnostics of an edited text and the facts of its values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from graphport.core.diagnostics import DiagnosticError, Severity, Source
from graphport.lsp.fault_removal import UNUSED_RESULT, remove_faults
from graphport.lsp.nnef_tokens import TokenIndex
from graphport.lsp.positions import range_of_span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.api.model import Model
    from graphport.core.diagnostics import Diagnostic

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
MAX_REMOVALS = 6
"""Limit of attempts to read the rest of a text with errors."""
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
    faults = [finding for finding in findings if finding.is_error]
    if faults:
        return Analysis(version, findings, _infer_remaining_facts(text, faults))
    return Analysis(version, findings, {} if model is None else _facts(model))


def _infer_remaining_facts(text: str, faults: Sequence[Diagnostic]) -> Mapping[str, str]:
    """Return the facts of the values that do not depend on a statement with an error.

    A stage runs only on a text without errors of the previous stage, so several rounds are needed.
    """
    from graphport.api.load import checked

    tokens = TokenIndex()
    tokens.update(text.split("\n"))
    positions: set[tuple[int, int]] = set()
    for _ in range(MAX_REMOVALS):
        before = len(positions)
        positions |= {position for finding in faults if (position := _position(finding)) is not None}
        rest = remove_faults(tokens, positions)
        if rest is None or len(positions) == before:
            break
        model, findings = checked(_encode(rest), format="nnef")
        faults = [finding for finding in findings if finding.is_error]
        if model is not None and not faults:
            return {name: fact for name, fact in _facts(model).items() if name != UNUSED_RESULT}
    return {}


def _facts(model: Model) -> dict[str, str]:
    return {name: str(fact) for name, fact in model.shapes().items()}


def _position(finding: Diagnostic) -> tuple[int, int] | None:
    """Return line and column (0-based) of a diagnostic, or None."""
    span = finding.span
    return None if span is None or span.line is None or span.column is None else (span.line - 1, span.column - 1)


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
