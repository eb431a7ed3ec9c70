"""ONNX files that are text: the textual syntax, text protobuf and JSON, as `onnx.save` writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from google.protobuf import json_format, text_format
from onnx import ModelProto, parser

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import contents

if TYPE_CHECKING:
    from pathlib import Path

MAX_TEXT_BYTES = 1 << 28
"""Bytes of a text that are read."""
MAX_NESTING = 64
"""Brackets within each other: `onnx.parser` and protobuf recurse."""

_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*')
_BRACKETS = re.compile(rb"[\[({<]|[])}>]")


def decode(path: Path, encoding: str) -> bytes:
    """The protobuf bytes of a model that is written as text.

    Raises:
        DiagnosticError: ONNX0008 the text is damaged, too long or nested too deep.
    """
    data = contents(path)
    most = budget.limit("onnx.text", MAX_TEXT_BYTES)
    if len(data) > most:
        raise _fault(path, f"the text has {len(data)} bytes, the limit is {most}", "GRAPHPORT_LIMITS=onnx.text=N")
    if _nesting(data) > MAX_NESTING:
        raise _fault(path, f"brackets are nested more than {MAX_NESTING} levels deep", None)
    try:
        return _parse(data.decode("utf-8-sig"), encoding).SerializeToString()
    except (parser.ParseError, text_format.ParseError, json_format.ParseError, ValueError, RecursionError) as error:
        message = " ".join(str(error).split())[:300]
        raise _fault(
            path, f"not a valid ONNX model in {encoding}: {message}", "save it again: onnx.save(model, 'model.onnx')"
        ) from error


def _parse(text: str, encoding: str) -> ModelProto:
    if encoding == "textual syntax":
        return parser.parse_model(text)
    if encoding == "JSON":
        return json_format.Parse(text, ModelProto())
    return text_format.Parse(text, ModelProto())


def _nesting(data: bytes) -> int:
    """The largest number of brackets within each other, strings and comments aside."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(_QUOTED.sub(b"", data).replace(b"=>", b"")):
        depth = depth + 1 if found.group() in b"[({<" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _fault(path: Path, message: str, help: str | None) -> DiagnosticError:
    return DiagnosticError(Diagnostic("ONNX0008", message, Span(Source(str(path))), help))
