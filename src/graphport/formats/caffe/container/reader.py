"""Read networks of Caffe to graphs, from a text and its weight file, or from the weight file alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.garbage_collection import paused_collection
from graphport.core.regular_files import belonging, contents, open_regular
from graphport.core.storage import MappedFile
from graphport.formats.caffe.container.build import Building, weights_of
from graphport.formats.caffe.container.findings import Findings
from graphport.formats.caffe.container.phases import included
from graphport.formats.caffe.container.prototxt import parse
from graphport.formats.caffe.container.recognition import WEIGHTS
from graphport.formats.caffe.container.upgrade import upgraded
from graphport.formats.caffe.container.wire import decode

if TYPE_CHECKING:
    from graphport.formats.caffe.container.message import Message
    from graphport.ir.graph import Graph

TEXT = ".prototxt"
VERSION_NOTE = "version"
"""Note of a graph: the format version of the file."""

MOST_TEXT = 1 << 26
"""Maximum bytes of a text."""


def versions(graph: Graph) -> dict[str, str]:
    """Return the format version of the source file."""
    return {"layers": str(graph.notes.get(VERSION_NOTE, 2)) if graph.has_notes else "2"}


def read(path: str | os.PathLike[str]) -> tuple[Graph, list[Diagnostic]]:
    """Read the raw graph of a network as inference runs it, and warnings.

    The weights of a text are in the file of the same name, or else in the only one in its folder; without a file they
    have no elements. The network of a weight file is the text of the same name, or embedded. Layers are nodes such as
    `caffe.Convolution`, inputs are the tops of data layers. The last value of a blob that is computed in place keeps
    its name.

    Raises:
        DiagnosticError: CAFFE0101 to CAFFE0304, all errors; IO0006 a file cannot be opened.
    """
    given = Path(path)
    findings = Findings()
    with paused_collection():
        graph = _read(given, os.fspath(path), findings)
    findings.raise_errors()
    return graph, findings.all_findings()


def _read(given: Path, name: str, findings: Findings) -> Graph:
    text, weights = _pair(given, findings, name)
    numbers: dict[str, list[Message]] = {}
    if text is None:
        net = _decoded(given, name, findings)
    else:
        net = parse(_source(text, name if text == given else str(text)), findings)
        if weights is not None:
            stored = _decoded(weights, name if weights == given else str(weights), findings)
            numbers = weights_of(upgraded(stored, Findings()))
    layers = included(net, upgraded(net, findings), findings)
    graph = Building(findings, numbers).build(net, layers)
    graph.notes[VERSION_NOTE] = _version(net)
    _compare_names(layers, numbers, findings, weights)
    return graph


def _pair(given: Path, findings: Findings, name: str) -> tuple[Path | None, Path | None]:
    """Return the paths of the text and the weights, if they exist."""
    if _is_weights(given):
        text = belonging(given.with_suffix(TEXT), given)
        return (text if text.is_file() else None), given
    beside = belonging(given.with_suffix(WEIGHTS), given)
    if beside.is_file():
        return given, beside
    others = sorted(given.parent.glob(f"*{WEIGHTS}"))[:2]
    if len(others) == 1:
        message = f"using the weights in {others[0].name}, the only weight file next to {given.name}"
        remedy = f"rename it to {beside.name} if it belongs to the network"
        findings.warn("CAFFE0305", message, Span(Source(name)), remedy)
        return given, others[0]
    return given, None


def _is_weights(path: Path) -> bool:
    if path.suffix == WEIGHTS:
        return True
    try:
        with open_regular(path) as file:
            head = file.read(4096)
    except OSError as error:
        raise _unreadable(path, error) from error
    return b"\0" in head


def _source(path: Path, name: str) -> Source:
    try:
        most = budget.limit("caffe.text", MOST_TEXT)
        if path.stat().st_size > most:
            message = f"{name} exceeds the limit of {most} bytes"
            remedy = "check the file, or set GRAPHPORT_LIMITS=caffe.text=N to allow N bytes"
            raise DiagnosticError(Diagnostic("CAFFE0102", message, Span(Source(name)), remedy))
        data = contents(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        return Source(name, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not valid UTF-8"
        span = Span(Source(name), place=f"byte {error.start}")
        raise DiagnosticError(Diagnostic("CAFFE0103", message, span, "save the file as UTF-8")) from error


def _decoded(path: Path, name: str, findings: Findings) -> Message:
    source = Source(name)
    try:
        file = MappedFile(path)
        net, unknown = decode(file, source)
    except OSError as error:
        raise _unreadable(path, error) from error
    if unknown:
        message = f"the reader ignores {unknown} bytes of unknown fields in {path.name}"
        findings.warn("CAFFE0306", message, Span(source), "check the result: a fork of Caffe may have written the file")
    for index, layer in enumerate(net.messages("layer") or net.messages("layers")):
        layer.span = Span(source, place=f'layer[{index}] "{_name(layer)}"')
        for blob in layer.messages("blobs"):
            blob.span = layer.span
    return net


def _name(layer: Message) -> str:
    inner = layer.message("layer")
    return (inner or layer).text("name")


def _compare_names(
    layers: list[Message], weights: dict[str, list[Message]], findings: Findings, path: Path | None
) -> None:
    if path is None or not weights or findings.has_errors:
        return
    names = {layer.text("name") for layer in layers}
    if not names & weights.keys():
        message = f"{path.name} has no weights for any layer of the network"
        findings.warn(
            "CAFFE0307", message, Span(Source(str(path))), "pass a weight file whose layer names match the network"
        )


def _version(net: Message) -> int:
    if net.has("layer") or not net.has("layers"):
        return 2
    return 0 if any(layer.has("layer") for layer in net.messages("layers")) else 1


def _unreadable(path: Path, error: OSError) -> DiagnosticError:
    message = f"{path} cannot be read: {error.strerror}"
    return DiagnosticError(Diagnostic("IO0006", message, Span(Source(str(path))), "check the path"))
