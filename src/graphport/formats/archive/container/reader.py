"""Read archives as graphs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span, raise_errors
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, MappedFile, Storage
from graphport.formats.archive.container import attributes, manifest, notes, string_tensors
from graphport.formats.archive.container.layout import MANIFEST
from graphport.formats.archive.container.members import content, members, verify
from graphport.formats.archive.container.recognition import is_foreign, is_signed
from graphport.formats.archive.container.references import dangling
from graphport.ir.documents import NOTE, SECTIONS, VERSION_NOTE, Documents
from graphport.ir.graph import walk
from graphport.ir.text import from_text
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from graphport.formats.archive.container.manifest import Manifest, Weight
    from graphport.formats.archive.container.members import Member
    from graphport.ir.graph import Graph


def versions(graph: Graph) -> dict[str, str]:
    """Return the version of the archive's layout and the opset of its operators."""
    layout = graph.notes.get(VERSION_NOTE) if graph.has_notes else None
    opsets = {name or "ai.onnx": str(version) for name, version in graph.opsets.items()}
    return ({"archive": str(layout)} if layout is not None else {}) | opsets


def keeps(dialect: str) -> bool:
    """Whether an archive supports operators of `dialect`: always true."""
    del dialect
    return True


def read(path: str | os.PathLike[str]) -> tuple[Graph, list[Diagnostic]]:
    """Read the graph of an archive, with its documents in the note `documents`, and warnings.

    All checksums are verified; weights are mapped, not copied.

    Raises:
        DiagnosticError: IO0201 to IO0216, errors of the archive; IO0101 to IO0109, errors of the text of its graph;
            IO0006 it cannot be opened.
    """
    source = Source(os.fspath(path))
    try:
        file = MappedFile(Path(path))
        with file.path.open("rb") as opened:
            head = opened.read(256)
        _check_signature(head, source)
        return _read(file, source)
    except OSError as error:
        message = f"{source.name} cannot be read: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(source), "check the path")) from error


def _check_signature(head: bytes, source: Source) -> None:
    if is_foreign(head):
        message = "not supported: a PPQ graph in a pickle, which can execute code when it is loaded"
        remedy = "export the graph from PPQ as ONNX"
        raise DiagnosticError(Diagnostic("IO0213", message, Span(source), remedy))
    if not is_signed(head):
        message = "not a graphport archive: unknown signature"
        raise DiagnosticError(
            Diagnostic("IO0201", message, Span(source, place="byte 0"), "pass a file that graphport wrote")
        )


def _read(file: MappedFile, source: Source) -> tuple[Graph, list[Diagnostic]]:
    found = members(file, source)
    stated, warnings = manifest.understood(
        manifest.parsed(_content(file, found, MANIFEST, source), MANIFEST, source), source
    )
    raise_errors(verify(file, found.values(), source))
    table = _table(file, found, stated, source)
    name = stated.sections["graph"]
    graph = from_text(_text(_content(file, found, name, source), name, source), table=table)
    _take_opset(graph, source)
    if "notes" in stated.sections:
        notes.attach_notes(graph, _document(file, found, stated.sections["notes"], source))
    documents = {s: _document(file, found, stated.sections[s], source) for s in SECTIONS if s in stated.sections}
    if documents:
        graph.notes[NOTE] = Documents(**documents)
        warnings += dangling(graph, Documents(**documents), source)
    graph.notes[VERSION_NOTE] = ".".join(map(str, stated.version))
    # Later code relies on valid canonical nodes, so the file is checked here.
    raise_errors(attributes.faults(graph))
    return graph, [*warnings, *attributes.inferred(graph)]


def _content(file: MappedFile, found: dict[str, Member], name: str, source: Source) -> bytes:
    if name not in found:
        message = f"incomplete archive: missing member {name!r}"
        raise DiagnosticError(Diagnostic("IO0207", message, Span(source), "write the archive again"))
    return content(file, found[name], source)


def _document(file: MappedFile, found: dict[str, Member], name: str, source: Source) -> dict[str, object]:
    return manifest.parsed(_content(file, found, name, source), name, source)


def _text(data: bytes, name: str, source: Source) -> Source:
    place = f"{source.name}!{name}"
    try:
        return Source(place, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"byte {error.start} of {name} is not valid UTF-8"
        raise DiagnosticError(
            Diagnostic("IO0210", message, Span(source), "write the archive again: it is corrupt")
        ) from error


def _table(file: MappedFile, found: dict[str, Member], stated: Manifest, source: Source) -> dict[str, Storage]:
    """Return the storages by their names in the text.

    Raises:
        DiagnosticError: all weights that are missing (IO0207) or whose size does not match their type (IO0212).
    """
    table: dict[str, Storage] = {}
    findings: list[Diagnostic] = []
    for name, weight in stated.weights.items():
        member = found.get(weight.member)
        span = Span(source, place=f"weight {name!r}")
        if member is None:
            message = f"incomplete archive: missing member {weight.member!r} with the weights of {name!r}"
            findings.append(Diagnostic("IO0207", message, span, "write the archive again"))
            continue
        storage = _storage(file, member, weight)
        if storage is None:
            message = (
                f"{member.name!r} has {member.length} bytes, which does not match {weight.dtype}{list(weight.shape)}"
            )
            findings.append(Diagnostic("IO0212", message, span, "write the archive again: it is corrupt"))
            continue
        table[name] = storage
    raise_errors(findings)
    return table


def _storage(file: MappedFile, member: Member, weight: Weight) -> Storage | None:
    storage = FileStorage(file, member.start, weight.dtype, weight.shape)
    if weight.dtype is DType.STRING:
        return string_tensors.unpacked(bytes(file.view(member.start, member.length)), weight.shape, storage.count)
    return storage if storage.nbytes == member.length else None


def _take_opset(graph: Graph, source: Source) -> None:
    """Set the opset of the file, so that older operators are upgraded.

    Raises:
        DiagnosticError: IO0214 the opset is newer than supported.
    """
    version = graph.opsets.get("", OPSET)
    if version > OPSET:
        message = f"the graph has operators of opset {version}, the newest supported opset is {OPSET}"
        raise DiagnosticError(Diagnostic("IO0214", message, Span(source), "update graphport"))
    if version == OPSET:
        return
    del graph.opsets[""]
    graph.opsets["onnx"] = version
    for inner in walk(graph):
        for node in inner:
            node.dialect = node.dialect or "onnx"
