"""Folders of onnxruntime-genai as graphs: the ONNX file that the configuration names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import regular_status
from graphport.formats.registered import registered

if TYPE_CHECKING:
    import os

    from graphport.ir.graph import Graph

MAX_CONFIG_BYTES = 1 << 24


def read(path: str | os.PathLike[str]) -> tuple[Graph, list[Diagnostic]]:
    """Return the graph of a folder's decoder and warnings.

    Raises:
        DiagnosticError: GENAI0001 the configuration cannot be read; errors of the ONNX reader.
    """
    folder = Path(path)
    return registered("onnx").read(folder / _file_name(folder))


def versions(graph: Graph) -> dict[str, str]:
    """Return the operator sets."""
    return dict(registered("onnx").versions(graph))


def _file_name(folder: Path) -> str:
    place = folder / "genai_config.json"
    try:
        size, limit = regular_status(place).st_size, budget.limit("genai.config", MAX_CONFIG_BYTES)
        found: Any = json.loads(place.read_bytes()) if size <= limit else None
    except (OSError, ValueError, RecursionError) as error:
        raise _fault(place, f"genai_config.json cannot be read: {error}"[:300], "check the folder") from error
    if size > limit:
        message = f"genai_config.json has {size} bytes, the limit is {limit}"
        raise _fault(place, message, "set GRAPHPORT_LIMITS=genai.config=N to raise the limit to N")
    for name in ("model", "decoder", "filename"):
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    if not isinstance(found, str) or set(found) & set("/\\:\0") or found in {"", ".", ".."}:
        raise _fault(place, f"model.decoder.filename is {str(found)[:80]!r}", "set it to a file name in the folder")
    return found


def _fault(place: Path, message: str, help_: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic("GENAI0001", message, Span(Source(str(place))), help_))
