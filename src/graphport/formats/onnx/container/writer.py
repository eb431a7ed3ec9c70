"""Graphs as ONNX models: to a file, to a `ModelProto`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from onnx import DeviceConfigurationProto, ModelProto, OperatorSetIdProto, TrainingInfoProto

from graphport.core.atomic_write import Replacing, together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.names import identifier
from graphport.core.write_errors import write_remedy
from graphport.formats.onnx.container import domains, opset_conversion, opsets, schema
from graphport.formats.onnx.container.encode import Encoder, encode_properties
from graphport.formats.onnx.container.encoded import Encoded, packed_elements
from graphport.formats.onnx.container.findings import Findings
from graphport.formats.onnx.container.notes import MODEL, GraphNotes, ModelNotes, noted
from graphport.formats.onnx.container.placement import DataFile, Inside
from graphport.formats.onnx.container.reader import parsed
from graphport.ir import rewrite
from graphport.ir.graph import Value, walk
from graphport.ir.notes import METADATA

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from graphport.core.storage import Storage
    from graphport.formats.onnx.container.encoded import Sink
    from graphport.formats.onnx.container.placement import Placement
    from graphport.ir.graph import Graph

MOST_BYTES = (1 << 31) - 1
"""Limit of ONNX readers for one message; larger weights are external."""

_FIRST_FREE_CONSTANTS = 4
"""The version of the file format from which on an initializer need not be an input, too."""


def write(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    opset: int | None = None,
    external_data: bool | str | None = None,
    findings: list[Diagnostic] | None = None,
) -> None:
    """Write a raw or canonical graph as an ONNX file; the graph is not changed.

    The file is renamed to its path when it is complete; weights are streamed. An unmodified raw graph keeps all content
    of its file; a second round trip is byte-identical.

    Args:
        graph: of an ONNX dialect.
        path: the file.
        opset: version of the default domain; by default that of the original file if it supports all nodes, else the
            lowest from 17 on that does. Nodes of a canonical graph are converted if necessary.
        external_data: whether weights are in an external file, of that name or `NAME.onnx.data`. By default if the file
            would be too large for readers, or if it was so before.
        findings: receives the warnings.

    Raises:
        DiagnosticError: ONNX0601 to ONNX0608, everything that cannot be represented or written.
    """
    target = Path(path)
    collected = Findings(Source(os.fspath(path)))
    data = _data_file(graph, target, collected, external_data=external_data)
    encoded = encode(graph, data or Inside(), opset, collected, findings)
    name = f"{target.name}.data" if data is None else data.location
    for with_attributes in (False, True):
        if encoded.length > MOST_BYTES and external_data is not False:
            data = DataFile(name, with_attributes=with_attributes)
            encoded = encode(graph, data, opset, collected, None)
    _check_size(encoded, collected)
    with _together(collected, target) as files:
        if data is not None and data.placed:
            _write_data(data.placed, _open_file(files, target.with_name(data.location), collected))
        file = _open_file(files, target, collected)
        for chunk in encoded.chunks():
            file.write(chunk)


def to_proto(graph: Graph, *, opset: int | None = None, findings: list[Diagnostic] | None = None) -> ModelProto:
    """A raw or canonical graph as a message, with all its weights inside.

    Raises:
        DiagnosticError: ONNX0601 to ONNX0606 as of `write`; ONNX0603 it is larger than a message can be.
    """
    collected = Findings(Source(graph.name))
    encoded = encode(graph, Inside(), opset, collected, findings)
    _check_size(encoded, collected)
    return parsed(b"".join(bytes(chunk) for chunk in encoded.chunks()))


def encode(
    graph: Graph,
    placement: Placement,
    opset: int | None,
    collected: Findings,
    findings: list[Diagnostic] | None,
    *,
    with_sparse: bool = True,
) -> Encoded:
    """Return the content of a `ModelProto`; `placement` decides where elements are stored.

    Raises:
        DiagnosticError: everything that cannot be represented.
    """
    try:
        return _encoded(
            _with_valid_names(_sorted(graph)), placement, opset, collected, findings, with_sparse=with_sparse
        )
    except UnicodeEncodeError as error:
        message = f"{error.object[:80]!r} cannot be encoded in UTF-8"
        collected.error("ONNX0610", message, "graph", "correct the name or string")
        raise DiagnosticError(*collected.diagnostics) from error


def _encoded(
    graph: Graph,
    placement: Placement,
    opset: int | None,
    collected: Findings,
    findings: list[Diagnostic] | None,
    *,
    with_sparse: bool,
) -> Encoded:
    notes = noted(graph, ModelNotes, MODEL) or ModelNotes(ir_version=0)
    is_raw = domains.CANONICAL not in graph.opsets
    used = opsets.count_op_types(walk(graph))
    if is_raw:
        version = opsets.choose_opset(graph, used, opset, collected)
    else:
        graph, version = opset_conversion.emitted(graph, used, opset, collected)
    graphs = list(walk(graph))
    imports = opsets.imports(graph, opsets.count_op_types(graphs), version, collected)
    collected.raise_errors()
    taken = {value.name for each in graphs for value in each.values()}
    encoder = Encoder(
        collected,
        placement,
        imports,
        with_defaults=is_raw,
        with_sparse=with_sparse,
        taken=taken,
        keeps_names=is_raw,
    )
    body = encoder.graph(graph, "graph")
    encoded = Encoded()
    encoded.add(_head(notes, _ir_version(graphs, notes, version, is_raw=is_raw)).SerializeToString())
    encoded.add_field(7, body)
    encoded.add(_tail(graph, notes, imports, collected).SerializeToString())
    for function in notes.functions:
        inner = Encoder(
            collected, placement, function.body.opsets, with_defaults=False, with_sparse=with_sparse, taken=taken
        )
        encoded.add_field(25, inner.function(function, f'functions "{function.name}"'))
    devices = ModelProto(configuration=[DeviceConfigurationProto.FromString(each) for each in notes.devices])
    encoded.add(devices.SerializeToString())
    collected.raise_errors(findings)
    return encoded


def _sorted(graph: Graph) -> Graph:
    """Return the graph, or a copy with sorted nodes, as runtimes require."""
    graphs = list(walk(graph))
    if all(_is_sorted(each, has_bodies=len(graphs) > 1) for each in graphs):
        return graph
    twin = rewrite.copy(graph)
    for each in walk(twin):
        rewrite.sort_topologically(each)
    return twin


def _with_valid_names(graph: Graph) -> Graph:
    """Return the graph, or a copy whose value names are valid in ONNX."""
    taken = {value.name for each in walk(graph) for value in each.values()}
    if all(map(_is_valid_name, taken)):
        return graph
    twin = rewrite.copy(graph)
    for each in walk(twin):
        for value in each.values():
            if not _is_valid_name(value.name):
                each.rename(value, identifier(value.name, taken))
                taken.add(value.name)
    return twin


def _is_valid_name(name: str) -> bool:
    """Whether a name is not empty (which means absent) and encodable in UTF-8."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _is_sorted(graph: Graph, *, has_bodies: bool) -> bool:
    seen: set[Value] = set()
    for node in graph:
        for value in [*node.operands, *rewrite.captured(node)] if has_bodies else node.operands:
            if value.graph is graph and value.producer is not None and value not in seen:
                return False
        seen.update(node.results)
    return True


def _head(notes: ModelNotes, ir_version: int) -> ModelProto:
    proto = ModelProto(ir_version=ir_version)
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        stated = getattr(notes, field)
        if stated:
            setattr(proto, field, stated)
    return proto


def _tail(graph: Graph, notes: ModelNotes, imports: Mapping[str, int], collected: Findings) -> ModelProto:
    versions = [OperatorSetIdProto(domain=domains.domain_of(d), version=v) for d, v in imports.items()]
    metadata = {**dict(notes.metadata), **cast("Mapping[str, str]", graph.note(METADATA) or {})}
    proto = ModelProto(opset_import=versions, metadata_props=encode_properties(tuple(metadata.items())))
    constants = {value.name for value in graph.constants}
    for each in notes.training:
        training = TrainingInfoProto.FromString(each)
        bound = {entry.key for entry in [*training.initialization_binding, *training.update_binding]}
        if bound <= constants:
            proto.training_info.append(training)
        else:
            message = f"training_info refers to {min(bound - constants)!r}, which is no longer an initializer"
            collected.warning("ONNX0609", message, "training_info", "the writer drops training_info")
    return proto


def _ir_version(graphs: Iterable[Graph], notes: ModelNotes, opset: int, *, is_raw: bool) -> int:
    if not is_raw or not notes.ir_version:
        # The oldest that will do: runtimes refuse a version of the file format that is newer than they are.
        return max(schema.ir_version(opset), _FIRST_FREE_CONSTANTS)
    if notes.ir_version >= _FIRST_FREE_CONSTANTS:
        return notes.ir_version
    for each in graphs:
        given = noted(each, GraphNotes)
        inputs = set(given.inputs) if given is not None else set[str]()
        if any(value.name not in inputs for value in each.constants):
            return _FIRST_FREE_CONSTANTS
    return notes.ir_version


def _data_file(graph: Graph, target: Path, collected: Findings, *, external_data: bool | str | None) -> DataFile | None:
    if external_data is None:
        notes = noted(graph, ModelNotes, MODEL)
        external_data = notes is not None and notes.has_external_data
    if external_data is False:
        return None
    name = f"{target.name}.data" if external_data is True else external_data
    if not name or name != Path(name).name or name in (target.name, ".", "..") or "\\" in name or ":" in name:
        message = f"{name!r} is not a valid file name next to {target.name}"
        collected.error("ONNX0607", message, "external_data", "give a name without folders")
        collected.raise_errors()
    return DataFile(name)


def _check_size(encoded: Encoded, collected: Findings) -> None:
    if encoded.length > MOST_BYTES:
        message = f"the model has {encoded.length} bytes, the limit of a protobuf message is {MOST_BYTES}"
        collected.error("ONNX0603", message, "", "write the weights to a separate file with the option `external_data`")
        collected.raise_errors()


def _write_data(placed: Iterable[tuple[int, Storage]], file: Sink) -> None:
    position = 0
    for offset, storage in placed:
        file.write(bytes(offset - position))
        for chunk in packed_elements(storage):
            file.write(chunk)
        position = offset + storage.nbytes


@contextmanager
def _together(collected: Findings, target: Path) -> Generator[Replacing]:
    """Write several files that are renamed together at the end; report obstacles."""
    try:
        with together(target) as files:
            yield files
    except OSError as error:
        message = f"{collected.source.name} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("ONNX0608", message, Span(collected.source), write_remedy(error))) from error


def _open_file(files: Replacing, target: Path, collected: Findings) -> Sink:
    if target.exists() and not target.is_file():
        collected.error("ONNX0607", f"{target} exists and is not a regular file", "")
        collected.raise_errors()
    return files.open_file(target)
