"""Checks of an output path and format before any work."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.atomic_write import obstacle
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span

if TYPE_CHECKING:
    from graphport.formats import Format
    from graphport.formats.options import WriteOptions
    from graphport.ir.graph import Graph

_ANY_GRID = ("openvino", "nnef")
"""Formats that support arbitrary qparams, independent of a runtime."""
_FOLDERS = ("nnef", "genai")
"""Formats that may be written to a folder."""


def refuse_destination(graph: Graph, path: Path, format: str | None, target: str) -> None:
    """Refuse, before any work, a destination to which a quantized form of `graph` cannot be written.

    Args:
        graph: the graph to quantize.
        path: the output path.
        format: its format, if the file name does not determine it.
        target: the runtime of the result.

    Raises:
        DiagnosticError: IO0003 the format is unknown, QUANT0013 no file can be created there, QUANT0014 the format
            does not
            support the integer operators of the target; errors of the writer about the inputs, such as dynamic dims.
    """
    from graphport import formats
    from graphport.quantization.targets import target as find_target

    kind = formats.by_name(path, format)
    span = Span(Source(str(path)))
    if not path.absolute().parent.is_dir():
        message = f"folder not found: {path.parent}, to write {path.name}"
        raise DiagnosticError(Diagnostic("QUANT0013", message, span, "create the folder, or choose another one"))
    if path.exists() and not path.is_file() and not (path.is_dir() and kind.name in _FOLDERS):
        message = (
            f"{path} is {'a folder' if path.is_dir() else 'not a regular file'}, but {kind.title} is written to a file"
        )
        raise DiagnosticError(Diagnostic("QUANT0013", message, span, "pass a file name, for example in that folder"))
    if why := obstacle(path.absolute().parent):
        message = f"the folder {path.parent} is not writable: {why}"
        raise DiagnosticError(Diagnostic("QUANT0013", message, span, "choose another folder"))
    remedy = _remedy(kind, target)
    if remedy:
        message = f"a model quantized for {target} cannot be written as {kind.title}"
        raise DiagnosticError(Diagnostic("QUANT0014", message, span, remedy))
    _rehearse(graph, kind, path, find_target(target).flavour)


def default_target(path: Path, format: str | None, *, weights_only: bool) -> str:
    """Return the default target of a model written to `path`: the native runtime of its format."""
    from graphport import formats
    from graphport.quantization.settings import Settings
    from graphport.quantization.targets import TARGETS

    name = formats.by_name(path, format).name
    found = [each for each in TARGETS.values() if each.formats[0] == name and each.only_weights <= weights_only]
    # A target for weight-only quantization supports more formats.
    best = max(found, key=lambda each: each.only_weights, default=None)
    return Settings().target if best is None or Settings().target in (x.name for x in found) else best.name


def _remedy(kind: Format, target: str) -> str:
    """Return the remedy if a format does not support the integer operators of `target`; empty if it does."""
    from graphport.formats import FORMATS
    from graphport.quantization.targets import TARGETS
    from graphport.quantization.targets import target as find_target

    wanted = find_target(target).formats
    # Canonical graphs support all qparams.
    if not kind.dialect or kind.name in wanted or kind.name in _ANY_GRID:
        return ""
    others = [each.name for each in TARGETS.values() if kind.name in each.formats]
    endings = " or ".join(FORMATS[name].endings[0] for name in wanted)
    return f"write {endings}" + (f", or quantize for {others[0]}" if others else "")


def _rehearse(graph: Graph, kind: Format, path: Path, flavour: str | None) -> None:
    """Write a trivial model with the same inputs, to find errors that the full model would have too."""
    import graphport
    from graphport.ir import Graph, Node, Value

    trial = Graph(graph.name, opsets=graph.opsets)
    if graph.has_notes:
        trial.notes.update(graph.notes)
    for value in graph.inputs:
        given = trial.add_input(value.name, value.fact)
        same = Value(trial.fresh("same"), value.fact)
        trial.append(Node("Identity", [given], [same]))
        trial.add_output(same)
    options: WriteOptions = {} if flavour is None else {"flavour": flavour}
    with tempfile.TemporaryDirectory(prefix="graphport-") as folder:
        place = Path(folder) / f"model{next(iter(kind.endings), '')}"
        try:
            graphport.save(graphport.QuantizedModel(trial), place, format=kind.name, **options)
        except DiagnosticError as error:
            raise DiagnosticError(*(_moved(finding, folder, path) for finding in error.diagnostics)) from error


def _moved(finding: Diagnostic, folder: str, path: Path) -> Diagnostic:
    """Relocate `finding` from a file in `folder` to `path`."""
    if finding.span is None or not finding.span.file.startswith(folder):
        return finding
    return replace(finding, span=Span(Source(str(path))))
