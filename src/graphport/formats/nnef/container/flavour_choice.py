"""Choice of the NNEF flavour to write if no option selects one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.formats.nnef import dialects_with
from graphport.formats.nnef.container import flavours
from graphport.formats.nnef.container.recognition import GRAPH
from graphport.formats.nnef.container.tract.tract_replacements import with_common_types
from graphport.formats.nnef.container.tract.tract_support import findings_of
from graphport.formats.nnef.container.tract.writer import files_of
from graphport.formats.nnef.container.writer import unwritten_inputs
from graphport.ir.results import results_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Graph


def choose_flavour(
    stated: Callable[[str], Graph], options: Mapping[str, Any], versions: Mapping[str, str]
) -> tuple[Graph, Mapping[str, Any], list[Diagnostic]]:
    """Return the model in a flavour that can represent it, options for the writer, and a note on the choice (NNEF0776).

    Preferred is a text for standard readers and tract; else tract's flavour, which has a runtime; else the standard's.
    A model read from a standard text, whose edition is in `versions`, keeps its flavour.

    Raises:
        DiagnosticError: why neither the standard nor tract can represent the model.
    """
    first, *others = dialects_with(**options)
    if not others or versions:
        return stated(first), options, []
    graph, refused = _standard(stated)
    reasons = refused
    if graph is not None:
        shared, found, findings = flavours.shared(graph)
        reasons = findings_of(found, Severity.NOTE) or _double(graph)
        if not reasons:
            return shared, {**options, "flavour": "both"}, findings
    try:
        fitting = with_common_types(stated("tract"))
        files_of(fitting, Path(GRAPH))
    except DiagnosticError as error:
        if graph is not None:
            return graph, options, []
        raise DiagnosticError(*refused, *error.diagnostics) from None
    return fitting, {**options, "flavour": "tract"}, [_note(reasons, is_standard=graph is not None)]


def _standard(stated: Callable[[str], Graph]) -> tuple[Graph | None, list[Diagnostic]]:
    """Return the model in the dialect `nnef`, or the reasons why that is impossible."""
    try:
        graph = stated("nnef")
    except DiagnosticError as error:
        return None, list(error.diagnostics)
    refused = unwritten_inputs(graph)
    return (None, refused) if refused else (graph, [])


def _double(graph: Graph) -> list[Diagnostic]:
    """Note the first float64 value: tract's flavour keeps float64, standard readers compute in float32."""
    wide = results_of(graph, DType.FLOAT64)
    if not wide:
        return []
    first = wide[0]
    message = f"{first.name} is float64, but standard NNEF readers compute in float32"
    return [Diagnostic("NNEF0776", message, first.origin, "cast it to float32", Severity.NOTE)]


def _note(reasons: Sequence[Diagnostic], *, is_standard: bool) -> Diagnostic:
    first = reasons[0]
    more = f"; and {len(reasons) - 1} further reasons" if len(reasons) > 1 else ""
    why = (
        "no document has one meaning for standard NNEF readers and tract"
        if is_standard
        else "standard NNEF cannot express the graph"
    )
    remedy = "writes standard NNEF, which tract does not run" if is_standard else "reports the reasons"
    message = f"the file is written in the flavour 'tract': {why} ({first.message}{more})"
    return Diagnostic("NNEF0776", message, first.span, f"--flavour khronos {remedy}", Severity.NOTE)
