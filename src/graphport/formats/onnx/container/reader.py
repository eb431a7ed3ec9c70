"""ONNX models as graphs: from a file, from bytes, from a `ModelProto`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Never

from google.protobuf.message import DecodeError
from onnx import ModelProto

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import Bytes, MappedFile
from graphport.formats.onnx.container import wire
from graphport.formats.onnx.container.external import Folder
from graphport.formats.onnx.container.findings import Findings
from graphport.formats.onnx.container.model import ModelBuilder
from graphport.formats.onnx.container.protobuf_errors import find_corruption
from graphport.formats.onnx.container.tensors import Tensors

if TYPE_CHECKING:
    from graphport.formats.onnx.container.external import External
    from graphport.ir.graph import Graph

MOST_BYTES = (1 << 31) - 1
"""Limit of the protobuf library, without the payloads of large tensors."""


def read(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview | ModelProto,
    *,
    name: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    findings: list[Diagnostic] | None = None,
) -> Graph:
    """Read the raw graph of an ONNX model: op types such as `onnx.Conv`, locations as origins, mapped weights.

    `graph.opsets` has the version of every domain, the default one as `onnx`. An initializer that is also an input
    becomes a constant, and an input again in `write`; but if its metadata mark it as state, it is an input with
    default. Results have the declared facts, which are claims. Unsorted nodes are sorted, with a warning.

    Args:
        source: a path, the bytes of a file, or a message.
        name: prefix of locations; by default the path.
        folder: of external weights; by default that of the path, and none for a model in memory.
        findings: receives the warnings.

    Raises:
        DiagnosticError: all errors, ONNX0001 to ONNX0503; IO0006 the file cannot be opened.
    """
    if isinstance(source, ModelProto):
        collected = Findings(Source(name or "model"))
        outside = Folder(None if folder is None else Path(folder))
        return build(source, collected, Tensors(collected, outside), findings)
    if isinstance(source, bytes | bytearray | memoryview):
        collected = Findings(Source(name or "model"))
        file = Bytes(source)
        outside = Folder(None if folder is None else Path(folder))
    else:
        path = Path(source)
        collected = Findings(Source(name or os.fspath(source)))
        file = _mapped(path, collected)
        outside = Folder(path.parent, path.resolve().parent) if folder is None else Folder(Path(folder))
    return _read(file, collected, outside, findings)


def from_proto(
    proto: ModelProto, *, folder: str | os.PathLike[str] | None = None, findings: list[Diagnostic] | None = None
) -> Graph:
    """The raw graph of a message; see `read`."""
    return read(proto, folder=folder, findings=findings)


def build(proto: ModelProto, collected: Findings, tensors: Tensors, findings: list[Diagnostic] | None = None) -> Graph:
    """Build the graph of a parsed model; `tensors` provides the elements.

    Raises:
        DiagnosticError: all errors.
    """
    with paused_collection():
        graph = ModelBuilder(collected, tensors).build(proto)
    collected.raise_errors(findings)
    return graph


def parsed(data: bytes) -> ModelProto:
    """The message in `data`."""
    return ModelProto.FromString(data)


def _mapped(path: Path, collected: Findings) -> MappedFile:
    try:
        file = MappedFile(path)
        file.view(0, 0)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, collected.span(""), "check the path")) from error
    return file


def _read(file: MappedFile | Bytes, collected: Findings, outside: External, findings: list[Diagnostic] | None) -> Graph:
    data = file.view(0, file.size)
    if not file.size:
        collected.error("ONNX0002", "the file is empty", "byte 0")
        collected.raise_errors()
    try:
        skeleton = wire.scan(data)
        if len(skeleton.data) > MOST_BYTES:
            message = (
                f"the model has {len(skeleton.data)} bytes without the data of large tensors, the limit is {MOST_BYTES}"
            )
            collected.error("ONNX0002", message, "graph")
            collected.raise_errors()
        proto = parsed(bytes(skeleton.data))
    except (wire.CorruptFileError, DecodeError) as error:
        _corrupt_error(data, collected, error)
    _unknown_fields(proto, collected)
    return build(proto, collected, Tensors(collected, outside, file, skeleton.cuts), findings)


def _corrupt_error(data: memoryview, collected: Findings, error: Exception) -> Never:
    found = find_corruption(data)
    remedy = "fetch or export the file again: it is corrupt, truncated or not an ONNX model"
    if found is not None:
        collected.error("ONNX0001", found.message, found.location, remedy)
    else:
        place = f"byte {error.offset}" if isinstance(error, wire.CorruptFileError) else ""
        collected.error("ONNX0001", "not an ONNX model", place, remedy)
    raise DiagnosticError(*collected.diagnostics) from error


def _unknown_fields(proto: ModelProto, collected: Findings) -> None:
    before = proto.ByteSize()
    proto.DiscardUnknownFields()
    lost = before - proto.ByteSize()
    if lost:
        message = f"{lost} bytes of unknown protobuf fields are ignored"
        collected.warning(
            "ONNX0007",
            message,
            "",
            "update graphport if the file needs a newer ONNX version; otherwise the file may be corrupt",
        )
