"""Write dialect graphs as TFLite files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.atomic_write import replacing
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.write_errors import write_remedy
from graphport.formats.tflite.container import schema
from graphport.formats.tflite.container.elements import RESOURCE, TYPE_NUMBERS
from graphport.formats.tflite.container.encode import MAX_INLINE_BYTES, Data, Encoder, Table, Trailing, union_number
from graphport.formats.tflite.container.least_version import version_of
from graphport.formats.tflite.container.notes import HANDLE, LEAST_RELEASE, METADATA, TENSOR, WRITTEN_BY
from graphport.formats.tflite.container.releases import least_release
from graphport.formats.tflite.container.rounding import rounding_note
from graphport.formats.tflite.container.tensors import Tensor
from graphport.formats.tflite.container.verbatim_copy import copy_unchanged
from graphport.ir import notes
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from graphport.core.storage import Storage

_DIALECT = "tflite"
_CUSTOM = "custom."
_NON_OPTIONS = frozenset(
    ("quantized", "quantized_results", "quantized_intermediates", "types", "states", "custom_options")
)
"""Attributes that are not options of the operator."""
_RELEASE_BYTES = 16
_PADDED_OPERANDS = {"FULLY_CONNECTED": 3}
"""Operators that require a later version if an operand is omitted than if it is marked absent."""
_OPTIONS_2 = frozenset(schema.UNIONS["options_2"])


def write(graph: Graph, path: str | Path, *, findings: list[Diagnostic] | None = None) -> None:
    """Write a graph of the dialect `tflite`; an unchanged graph is written as its source file's bytes.

    Args:
        graph: the graph.
        path: the output file.
        findings: receives a note on nodes that kernels compute differently (TFL0306).

    Raises:
        DiagnosticError: TFL0301 a node is no operator of TFLite, TFL0302 a tensor has a type or elements that
            TFLite does
            not support, TFL0303 an option cannot be expressed, TFL0304 the file cannot be written, TFL0305 a field
            cannot hold a number.
    """
    if copy_unchanged(graph, path):
        return
    writer = _Writer(Source(str(path)))
    root = writer.model(graph)
    if writer.findings:
        raise DiagnosticError(*writer.findings)
    if findings is not None:
        findings += rounding_note(graph)
    try:
        with replacing(path) as file:
            Encoder().write(root, file)
    except (OSError, OverflowError) as error:
        message = f"{path} cannot be written: {getattr(error, 'strerror', None) or error}"
        raise DiagnosticError(Diagnostic("TFL0304", message, Span(Source(str(path))), write_remedy(error))) from error


class _Writer:
    """Builder of the tables of a file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.findings: list[Diagnostic] = []
        self.codes: dict[tuple[str, int], int] = {}
        self.buffers: list[Table] = [("Buffer", {})]
        self.stored: dict[int, int] = {}
        self.kept: list[Storage] = []
        self.subgraphs: list[Table | None] = []

    def model(self, graph: Graph) -> Table:
        """Build the root table."""
        self.subgraph(graph)
        stated = cast("Mapping[str, str]", graph.note(notes.METADATA) or {})
        texts = {name: text.encode() for name, text in stated.items()}
        metadata = _with_release(graph.note(METADATA), list(self.codes)) | texts
        self._move_weights()
        description = graph.notes.get(WRITTEN_BY) if graph.has_notes else None
        return "Model", {
            "version": schema.VERSION,
            "operator_codes": [_code(op_type, version) for op_type, version in self.codes],
            "subgraphs": self.subgraphs,
            "description": description if isinstance(description, str) else "graphport",
            "buffers": self.buffers,
            "metadata": [self._metadata(*each) for each in metadata.items()] or None,
            "signature_defs": [self._signature(graph)],
        }

    def _move_weights(self) -> None:
        """Move weights after the FlatBuffer if they exceed the range of 32-bit offsets."""
        held = [(fields, data) for _, fields in self.buffers if isinstance(data := fields.get("data"), Data)]
        if sum(data.length for _, data in held) <= MAX_INLINE_BYTES:
            return
        for fields, data in held:
            del fields["data"]
            fields |= {"offset": Trailing(data), "size": data.length}

    def _signature(self, graph: Graph) -> Table:
        def maps(values: list[Value], indices: list[int]) -> list[Table]:
            named = {self._places[value]: value.name for value in reversed(values) if value in self._places}
            return [("TensorMap", {"name": named[index], "tensor_index": index}) for index in dict.fromkeys(indices)]

        _, main = self.subgraphs[0] or ("", {})
        fields = {"inputs": maps(graph.inputs, main["inputs"]), "outputs": maps(graph.outputs, main["outputs"])}
        return "SignatureDef", fields | {"signature_key": "serving_default", "subgraph_index": 0}

    def _metadata(self, name: Any, content: Any) -> Table:
        self.buffers.append(("Buffer", {"data": bytes(content)}))
        return "Metadata", {"name": str(name), "buffer": len(self.buffers) - 1}

    def subgraph(self, graph: Graph) -> int:
        """Return the number of the subgraph that is written for a graph."""
        number = len(self.subgraphs)
        self.subgraphs.append(None)
        made = _Subgraph(self, graph)
        self.subgraphs[number] = made.table()
        if number == 0:
            self._places = made.places
        return number

    def error(self, code: str, message: str, origin: Span | None, help: str | None = "choose another format") -> None:
        """Report an error."""
        self.findings.append(Diagnostic(code, message, origin or Span(self.source), help))

    def buffer(self, storage: Storage) -> int:
        """Return the number of the buffer of a constant."""
        found = self.stored.get(id(storage))
        if found is None:
            # The reference keeps the object identity valid.
            self.kept.append(storage)
            found = self.stored[id(storage)] = len(self.buffers)
            self.buffers.append(("Buffer", {"data": _data(storage)}))
        return found

    def code(self, op_type: str, version: int) -> int:
        """Return the number of an operator code."""
        return self.codes.setdefault((op_type, version), len(self.codes))


def _with_release(metadata: Any, codes: list[tuple[str, int]]) -> dict[str, bytes]:
    """Return the metadata with the first release that runs these operators."""
    records = dict(cast("tuple[tuple[str, bytes], ...]", metadata)) if isinstance(metadata, tuple) else {}
    release = least_release(codes)
    return records | ({LEAST_RELEASE: release.encode().ljust(_RELEASE_BYTES, b"\0")} if release else {})


def _code(op_type: str, version: int) -> Table:
    if op_type.startswith(_CUSTOM):
        number, custom = schema.CUSTOM, op_type.removeprefix(_CUSTOM)
    else:
        number, custom = schema.BY_NAME[op_type].number, None
    fields = {"deprecated_builtin_code": min(number, schema.NEWER), "builtin_code": number, "version": version}
    return "OperatorCode", fields | {"custom_code": custom}


def _data(storage: Storage) -> Data | bytes | None:
    if storage.dtype is DType.STRING:
        return _texts(storage)
    return Data(storage.nbytes, storage.chunks) if storage.nbytes else None


def _texts(storage: Storage) -> bytes:
    items = [str(item).encode("utf-8", "surrogateescape") for item in np.asarray(storage.numpy()).reshape(-1).tolist()]
    offsets = np.cumsum([4 * (len(items) + 2), *map(len, items)]).tolist()
    return struct.pack(f"<{len(items) + 2}i", len(items), *offsets) + b"".join(items)


class _Subgraph:
    """Builder of the tables of one subgraph."""

    def __init__(self, writer: _Writer, graph: Graph) -> None:
        self.writer = writer
        self.graph = graph
        self.places: dict[Value, int] = {}
        self.tensors: list[Table] = []
        self.quantized: dict[Value, Any] = {}
        for node in graph:
            self._note(node.inputs, node.attributes.get("quantized"))
            self._note(node.outputs, node.attributes.get("quantized_results"))

    def _note(self, values: Any, attribute: Any) -> None:
        entries = cast("tuple[Any, ...]", attribute) if isinstance(attribute, tuple) else ()
        for value, each in zip(values, entries, strict=False):
            if value is not None and each is not None:
                self.quantized[value] = each

    def table(self) -> Table:
        """Build the subgraph."""
        kept = {value: state_of(value) for value in self.graph.inputs if _is_variable(value)}
        hidden = {state.output for state in kept.values() if state is not None and not state.is_returned}
        inputs = [self._tensor_index(value) for value in self.graph.inputs if kept.get(value) is None]
        operators = [self._operator(node) for node in self.graph]
        outputs = [self._tensor_index(value) for value in self.graph.outputs if value.name not in hidden]
        fields = {"tensors": self.tensors, "inputs": inputs, "outputs": outputs, "operators": operators}
        return "SubGraph", fields | {"name": self.graph.name}

    def _tensor_index(self, value: Value) -> int:
        found = self.places.get(value)
        if found is None:
            found = self.places[value] = len(self.tensors)
            self.tensors.append(self._tensor(value))
        return found

    def _tensor(self, value: Value) -> Table:
        fact, note = value.fact, value.notes.get(TENSOR) if value.has_notes else None
        fields: dict[str, Any] = {"name": value.name, "has_rank": True}
        is_handle = value.has_notes and HANDLE in value.notes
        if is_handle or (isinstance(note, Tensor) and note.record["type"] == RESOURCE):
            return "Tensor", fields | {"type": RESOURCE, "shape": [1]}
        if not isinstance(fact, TensorFact) or fact.dtype is None or fact.dtype not in TYPE_NUMBERS:
            kind = "of unknown type" if not isinstance(fact, TensorFact) or fact.dtype is None else str(fact.dtype)
            self.writer.error("TFL0302", f"{value.name} is {kind}", value.origin)
            return "Tensor", fields
        fields["type"] = TYPE_NUMBERS[fact.dtype]
        if fact.shape is None:
            fields |= {"has_rank": False}
        else:
            fields["shape"] = [n if isinstance(n, int) else 1 for n in fact.shape]
            if not fact.is_static:
                fields["shape_signature"] = [n if isinstance(n, int) else -1 for n in fact.shape]
        if any(n > (1 << 31) - 1 for n in fields.get("shape", ())):
            self.writer.error("TFL0302", f"{value.name} has a dim beyond int32", value.origin)
        if _is_variable(value) and state_of(value) is not None:
            fields["is_variable"] = True
        if value.is_constant:
            if value.storage is None:
                self.writer.error("TFL0302", f"the elements of {value.name} are missing", value.origin)
            else:
                fields["buffer"] = self.writer.buffer(value.storage)
        quantization = self.quantized.get(value)
        if quantization is None and isinstance(note, Tensor):
            quantization = note.quantization
        if quantization is not None:
            fields["quantization"] = _quantization(quantization)
        return "Tensor", fields

    def _operator(self, node: Node) -> Table:
        builtin = schema.BY_NAME.get(node.op_type)
        if node.dialect != _DIALECT or (builtin is None and not node.op_type.startswith(_CUSTOM)):
            self.writer.error("TFL0301", f"{node.op} is not a TFLite operator", node.origin)
            return "Operator", {}
        own = node.attributes.get("types")
        states = node.attributes.get("states")
        results = node.outputs
        if isinstance(own, tuple) and isinstance(states, tuple):
            results = results[: len(own)]
            for index, value in zip(states, node.outputs[len(own) :], strict=False):
                operand = node.inputs[index] if isinstance(index, int) else None
                if operand is not None and value is not None:
                    # One tensor holds the current and the next state.
                    self.places[value] = self._tensor_index(operand)
        operands = [-1 if value is None else self._tensor_index(value) for value in node.inputs]
        fields: dict[str, Any] = {
            "opcode_index": self.writer.code(node.op_type, version_of(node)),
            "inputs": operands + [-1] * (_PADDED_OPERANDS.get(node.op_type, 0) - len(operands)),
            "outputs": [-1 if value is None else self._tensor_index(value) for value in results],
        }
        if builtin is not None and builtin.options:
            table = builtin.options, self._options(node, builtin.options)
            union = "options_2" if builtin.options in _OPTIONS_2 else "options"
            field = "builtin_options2" if union == "options_2" else "builtin_options"
            fields |= {field: table, f"{field}_type": union_number(union, builtin.options)}
        custom = node.attributes.get("custom_options")
        if isinstance(custom, str):
            # The reader returns ONNX's string type, which covers text and bytes.
            custom = custom.encode("utf-8", "surrogateescape")
        if isinstance(custom, bytes):
            fields["custom_options"] = custom
        return "Operator", fields

    def _options(self, node: Node, table: str) -> dict[str, Any]:
        fields = {field.name: field for field in schema.TABLES[table]}
        found: dict[str, Any] = {}
        for name, attribute in node.attributes.items():
            if name in _NON_OPTIONS:
                continue
            for key, value in self._option_values(name, attribute):
                if key not in fields:
                    self.writer.error("TFL0303", f"unknown option {name} of {node.op}", node.origin)
                    continue
                found[key] = value
        return found

    def _option_values(self, name: str, attribute: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(attribute, Graph):
            yield (name if name == "subgraph" else f"{name}_index"), self.writer.subgraph(attribute)
        elif isinstance(attribute, tuple) and attribute and isinstance(attribute[0], Graph):
            bodies = cast("tuple[Any, ...]", attribute)
            yield f"{name}_indices", [self.writer.subgraph(each) for each in bodies if isinstance(each, Graph)]
        else:
            yield name, attribute


def _is_variable(value: Value) -> bool:
    """Whether a value was read from a tensor that keeps its elements between runs."""
    note = value.notes.get(TENSOR) if value.has_notes else None
    return isinstance(note, Tensor) and note.is_variable


def _quantization(attribute: Any) -> Table:
    _, axis, scales, zeros = attribute
    found = {"scale": list(scales), "zero_point": list(zeros), "quantized_dimension": max(axis, 0)}
    return "QuantizationParameters", found
