"""Whom a flat text is for: readers of the standard, tract, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.integers import cast_integers
from graphport.formats.nnef.container.item_types import Converted
from graphport.formats.nnef.container.operator_replacements import COSTLY, portable
from graphport.formats.nnef.container.quantization_arithmetic import as_arithmetic
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.tract.tract_support import findings_of, not_taken
from graphport.ir import rewrite

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.tract.tract_support import NotTaken
    from graphport.ir.graph import Graph, Value


def check(flavour: str | None) -> None:
    """Refuse an unknown flavour (NNEF0773)."""
    if flavour not in (None, "both", "khronos", "tract"):
        message = f"unknown NNEF flavour {flavour!r}"
        raise DiagnosticError(Diagnostic("NNEF0773", message, None, "choose khronos, tract or both"))


def worded(graph: Graph, edition: Edition, flavour: str | None, findings: list[Diagnostic]) -> tuple[Graph, bool]:
    """Replace operations that one of the flavour's readers lacks; return the graph, and whether tract can read it.

    Raises:
        DiagnosticError: NNEF0774 where it is to be for both, and tract does not take it.
    """
    if edition is Edition.FINAL:
        graph, notes = cast_integers(graph)
        findings += notes
    if flavour == "khronos" or edition is Edition.PROVISIONAL:
        return portable(graph, edition, COSTLY), False
    # Codes take a quarter of the size, so they are dequantized only if both readers are requested.
    shared = portable(as_arithmetic(graph) if flavour == "both" else graph, edition)
    found = not_taken(shared)
    if found and flavour == "both":
        raise DiagnosticError(*findings_of(found, Severity.ERROR))
    findings += findings_of(found, Severity.NOTE)
    return (portable(graph, edition, COSTLY), False) if found else (_with_one_width(shared), True)


def shared(graph: Graph) -> tuple[Graph, list[NotTaken], list[Diagnostic]]:
    """Rewrite `graph` so that tract computes it like the standard; return it, what prevents that, and notes."""
    graph, findings = cast_integers(graph)
    result = portable(graph, Edition.FINAL)
    found = not_taken(result)
    return (graph if found else _with_one_width(result)), found, findings


def _with_one_width(graph: Graph) -> Graph:
    """Return `graph` with variables in the dtypes of inputs, for readers that misread other widths.

    The result is a copy if a variable changes. Codes of quantized variables are not supported by these readers.
    """
    if not any(_width(value) for value in graph.constants):
        return graph
    result = rewrite.copy(graph)
    for value in result.constants:
        dtype = _width(value)
        if dtype is not None and value.storage is not None:
            value.storage = Converted(value.storage, dtype)
            value.fact = TensorFact.of(value.storage)
    return result


def _width(value: Value) -> DType | None:
    """Return the dtype to convert a variable to; `None` to keep it."""
    dtype = None if value.storage is None or _is_literal(value.storage) else value.storage.dtype
    if dtype is None or dtype in (DType.FLOAT32, DType.INT64, DType.UINT64):
        return None
    return DType.FLOAT32 if dtype.is_floating else DType.INT64 if dtype.is_integer else None


def _is_literal(storage: Storage) -> bool:
    """Whether a storage is written as a literal in the text: a finite scalar."""
    return not storage.shape and bool(np.isfinite(storage.numpy().astype(np.float64)))
