"""Read IR files to graphs of the dialect `openvino`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span, raise_errors
from graphport.core.garbage_collection import paused_collection
from graphport.core.regular_files import belonging, contents
from graphport.core.storage import MappedFile
from graphport.formats.openvino.container import preprocess
from graphport.formats.openvino.container.build import Networks
from graphport.formats.openvino.container.findings import Findings
from graphport.formats.openvino.container.limits import DEFAULT, Limits
from graphport.formats.openvino.container.notes import KEY, Header
from graphport.formats.openvino.container.xml_parser import parse, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.openvino.container.xml import Element
    from graphport.ir.graph import Graph

_VERSIONS = ("10", "11")
_OPERATION_SET = re.compile(r"opset([0-9]{1,9})\.")


def read(path: str | Path, *, limits: Limits = DEFAULT) -> tuple[Graph, list[Diagnostic]]:
    """Read the graph of an IR file, and warnings; weights stay mapped in the `.bin`.

    Parameters become inputs, Const layers constants, Results outputs, every other layer a node of the dialect
    `openvino`. Declared dtypes and shapes of ports are claims.

    Raises:
        DiagnosticError: all errors of the first failing stage: the text, or layers and edges.
    """
    place = Path(path)
    source = Source(str(path))
    try:
        state = place.stat()
        if not S_ISREG(state.st_mode):
            what = "not a file"  # a pipe would be waited for
            raise DiagnosticError(
                Diagnostic("IO0006", f"{path} cannot be read: {what}", Span(source), "check the path")
            )
        size = state.st_size
        if size > limits.size:
            message = f"the file has {size} bytes, the limit is {limits.size}"
            raise DiagnosticError(
                Diagnostic("OV0004", message, Span(source), "check the file: the .xml has no weights and is small")
            )
        data = contents(place)
        weights = _weights(place)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(source), "check the path")) from error
    with paused_collection():
        return _read(data, str(path), weights, limits)


def _weights(path: Path) -> MappedFile | None:
    beside = belonging(path.with_suffix(".bin"), path)
    return MappedFile(beside) if beside.is_file() else None


def _read(data: bytes, name: str, weights: MappedFile | None, limits: Limits) -> tuple[Graph, list[Diagnostic]]:
    tree, source = parse(read_text(data, name), name, limits)
    findings = Findings(source, limits.findings)
    net = tree.children[0]
    version = _version(net, findings)
    with nullcontext() if weights is None else weights.steady():
        graph = Networks(findings, weights, names_tensors=version != "10").graph(net)
    graph.origin = Span(source)
    preprocess.note(graph, net, weights, findings)
    raise_errors(findings.found)
    return graph, findings.found


def _version(net: Element, findings: Findings) -> str:
    version = net.attributes.get("version", "").strip()
    if net.tag.lower() != "net":
        findings.error(
            "OV0005",
            f"the root element is {net.tag[:60]!r}, expected net",
            None,
            "check the file: it is not an OpenVINO IR",
        )
    elif version not in _VERSIONS:
        stated = f"has version {version[:60]!r}" if version else "has no version"
        findings.error("OV0006", f"the file {stated}", None, "convert the model to IR version 10 or 11")
    raise_errors(findings.found)
    return version


def versions(graph: Graph) -> Mapping[str, str]:
    """Return the IR version of the file, and the newest operation set among the op types of its nodes."""
    header = graph.notes.get(KEY)
    found = {} if not isinstance(header, Header) else {"ir": header.element.attributes.get("version", "11")}
    words = {node.op_type for node in graph}
    sets = [int(stated[1]) for stated in map(_OPERATION_SET.match, words) if stated]
    return found | ({"opset": str(max(sets))} if sets else {})
