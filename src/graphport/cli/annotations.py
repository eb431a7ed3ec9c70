"""Findings as machine-readable annotations: GitHub workflow commands and SARIF 2.1.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.cli.render import json_text, shown
from graphport.cli.streams import named
from graphport.core.diagnostics import Severity
from graphport.core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Diagnostic

FORMATS = ("text", "github", "sarif")
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def annotated(findings: Sequence[Diagnostic], format: str) -> str:
    """Format `findings` as `github` or `sarif`."""
    return named(_sarif(findings) if format == "sarif" else "\n".join(map(_command, findings)))


def _command(finding: Diagnostic) -> str:
    span = finding.span
    properties = {
        "file": None if span is None else span.file,
        "line": None if span is None else span.line,
        "col": None if span is None else span.column,
        "title": finding.code,
    }
    stated = ",".join(f"{k}={_escaped(str(v), _PROPERTY)}" for k, v in properties.items() if v is not None)
    text = finding.message if finding.help is None else f"{finding.message}\n{finding.help}"
    return f"::{_COMMANDS[finding.severity]} {stated}::{_escaped(text, _DATA)}"


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(character) or shown(character) for character in text)


def _sarif(findings: Sequence[Diagnostic]) -> str:
    codes = sorted({finding.code for finding in findings})
    driver = {"name": "graphport", "version": __version__, "rules": [{"id": code} for code in codes]}
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in findings]}
    return json_text({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(finding: Diagnostic) -> dict[str, Any]:
    text = finding.message if finding.help is None else f"{finding.message} ({finding.help})"
    found: dict[str, Any] = {"ruleId": finding.code, "level": finding.severity.value, "message": {"text": text}}
    span = finding.span
    if span is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": span.file.replace("\\", "/")}}
        if span.line is not None:
            place["region"] = {"startLine": span.line, "startColumn": span.column}
        found["locations"] = [{"physicalLocation": place}]
    return found
