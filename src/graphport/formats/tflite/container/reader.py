"""Read TFLite files as dialect graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.budget import SETTING, OverBudgetError, reserve
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, named
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import ArrayStorage, MappedFile
from graphport.formats.tflite.container import schema
from graphport.formats.tflite.container.enumerations import enumeration_faults
from graphport.formats.tflite.container.findings import Findings
from graphport.formats.tflite.container.flatbuffer import CorruptFileError, Extent, FlatBuffer, Record
from graphport.formats.tflite.container.notes import LEAST_RELEASE, METADATA, SIGNATURE, TENSOR, VERSION, WRITTEN_BY
from graphport.formats.tflite.container.releases import newest_version
from graphport.formats.tflite.container.tensors import Quantization, Tensor, Tensors
from graphport.formats.tflite.container.verbatim_copy import note_read
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, mark

if TYPE_CHECKING:
    from collections.abc import Sequence

DIALECT = "tflite"
_LEAST_BYTES = 8
_MAX_REPEATED_NODES = 1 << 18
"""Maximum number of operators and tensors decoded repeatedly, because several operators run the same subgraph."""
_MAX_SUBGRAPH_DEPTH = 32


def versions(graph: Graph) -> dict[str, str]:
    """Return the minimum runtime version that the file declares."""
    metadata = graph.notes.get(METADATA) if graph.has_notes else None
    records = dict(cast("tuple[tuple[str, bytes], ...]", metadata)) if isinstance(metadata, tuple) else {}
    text = records.get(LEAST_RELEASE, b"").rstrip(b"\0").decode("ascii", "replace")
    return {"min_runtime": text} if text else {}


def read(path: str | Path, *, program: str | None = None) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of a file with warnings; of the signature `program`, if one is named.

    Raises:
        DiagnosticError: IO0006 the file cannot be read; TFL0001 and TFL0002 the file, TFL0101 to TFL0108 its tensors,
            TFL0201 to TFL0206 its operators and subgraphs, TFL0207 it has no signature of that name.
    """
    findings = Findings(Source(str(path)))
    try:
        file = MappedFile(path)
        if file.size < _LEAST_BYTES or bytes(file.view(4, 4)) != schema.IDENTIFIER:
            findings.error(
                "TFL0001", f"the file has no identifier {schema.IDENTIFIER.decode()}", None, "restore the file"
            )
            findings.settle()
        buffer = FlatBuffer(file)
        with paused_collection():
            model = buffer.root("Model")
            graph = _FileReader(buffer, model, findings, Path(path)).graph(program)
            if program is None and not model["external_buffers"]:
                note_read(graph, file)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("IO0006", message, None, "check the path")) from error
    except CorruptFileError as error:
        findings.error("TFL0001", f"the file is corrupt: {error}", None, "restore the file")
        findings.settle()
        raise
    return graph, findings.settle()


class _Code:
    """An operator code of the file."""

    def __init__(self, record: Record) -> None:
        self.number: int = max(record["builtin_code"], record["deprecated_builtin_code"])
        self.version: int = record["version"]
        self.custom: str | None = record["custom_code"]
        known = 0 <= self.number < len(schema.OPERATORS)
        self.builtin: schema.Operator | None = None
        if known and self.number != schema.CUSTOM:
            self.builtin = schema.OPERATORS[self.number]
        self.op_type = self.builtin.name if self.builtin else f"custom.{self.custom or ''}"
        self.is_known = self.builtin is not None or self.number == schema.CUSTOM


class _FileReader:
    def __init__(self, buffer: FlatBuffer, model: Record, findings: Findings, path: Path) -> None:
        self.buffer = buffer
        self.model = model
        self.findings = findings
        self.tensors = Tensors(buffer, model, findings, path)
        self.codes = [_Code(record) for record in model.records("operator_codes")]
        self.subgraphs: list[Record] = model.records("subgraphs")
        self.opened: list[int] = []
        self.outermost = Graph()
        """Scope for unique names: bodies see the values of enclosing graphs, and tensors of two subgraphs often
        share a name.
        """
        self._again = 0
        self._counts: dict[int, int] = {}
        self.main = 0
        self.program: str | None = None
        self._made: dict[tuple[int, int], Tensor | None] = {}

    def graph(self, program: str | None = None) -> Graph:
        """Build the graph of the first subgraph or of a signature, with its bodies."""
        if self.model["version"] != schema.VERSION:
            message = f"unsupported schema version {self.model['version']}"
            self.findings.error("TFL0002", message, None, f"convert the model to schema version {schema.VERSION}")
        if not self.subgraphs:
            self.findings.error("TFL0002", "the file has no subgraph")
            self.findings.settle()
        metadata = self._metadata()
        self._check_signatures()
        graph = self.subgraph(0) if program is None else self._signed(program)
        self._check_others()
        self.findings.settle()
        if self.model["description"]:
            graph.notes[WRITTEN_BY] = self.model["description"]
        if metadata:
            graph.notes[METADATA] = metadata
        return graph

    def _signed(self, program: str) -> Graph:
        """Build the graph of a signature, with the names of the signature for inputs and outputs."""
        self.program = program
        records = {record["signature_key"] or "": record for record in self.model.records("signature_defs")}
        record = records.get(program)
        if record is None:
            known = (
                f"signatures: {', '.join(map(repr, records))}"
                if records
                else "remove the signature name: the file has no signatures"
            )
            self.findings.error("TFL0207", f"unknown signature {program!r}", None, known)
        self.findings.settle()
        self.main = 0 if record is None else record["subgraph_index"]
        graph = self.subgraph(self.main)
        for value in dict.fromkeys((*graph.inputs, *graph.outputs)):
            note = value.notes.get(SIGNATURE) if value.has_notes else None
            name = cast("tuple[str, str]", note)[1] if isinstance(note, tuple) else ""
            if name and name != value.name:
                graph.rename(value, graph.fresh(name))
        return graph

    def subgraph(self, index: int) -> Graph:
        """Build the graph of a subgraph."""
        self._count(index)
        self.opened.append(index)
        found = _Subgraph(self, index).graph()
        self.opened.pop()
        return found

    def _count(self, index: int) -> None:
        record = self.subgraphs[index]
        known = self._counts.get(index)
        if known is None:
            operators = record.records("operators")
            listed = [record, *operators]
            named = sum(len(_indices(each[ends])) for each in listed for ends in ("inputs", "outputs"))
            self._counts[index] = 1 + len(operators) + named
            return
        self._again += known
        if self._again > _MAX_REPEATED_NODES:
            message = f"shared subgraphs expand to more than {_MAX_REPEATED_NODES} operators and tensors"
            self.findings.error("TFL0206", message, f"subgraph[{index}]")
            self.findings.settle()

    def tensor(self, subgraph: int, index: int) -> Tensor | None:
        """Return a tensor of a subgraph, checked once; `None` after an error was reported."""
        key = subgraph, index
        if key not in self._made:
            location = f"subgraph[{subgraph}].tensor[{index}]"
            self._made[key] = self.tensors.tensor(self.subgraphs[subgraph].records("tensors")[index], location)
        return self._made[key]

    def _metadata(self) -> tuple[tuple[str, bytes], ...]:
        found: list[tuple[str, bytes]] = []
        for index, record in enumerate(self.model.records("metadata")):
            content = self.tensors.bytes_of(record["buffer"], f"metadata[{index}]")
            if content is not None:
                found.append((record["name"] or "", content))
        return tuple(found)

    def _check_signatures(self) -> None:
        for index, record in enumerate(self.model.records("signature_defs")):
            location = f"signature_defs[{index}]"
            subgraph: int = record["subgraph_index"]
            if subgraph >= len(self.subgraphs):
                self.findings.error("TFL0101", f"undefined subgraph {subgraph}", location)
                continue
            count = len(self.subgraphs[subgraph].records("tensors"))
            for item in [*(record.records("inputs")), *(record.records("outputs"))]:
                if item["tensor_index"] >= count:
                    message = (
                        f"{item['name']} refers to tensor {item['tensor_index']}, but the subgraph has {count} tensors"
                    )
                    self.findings.error("TFL0101", message, location)

    def _check_others(self) -> None:
        """Check the subgraphs that no operator runs: their errors are errors of the file."""
        for index in range(1, len(self.subgraphs)):
            for number in range(len(self.subgraphs[index].records("tensors"))):
                self.tensor(index, number)


class _Subgraph:
    """Reader of one subgraph."""

    def __init__(self, reader: _FileReader, index: int) -> None:
        self.reader = reader
        self.findings = reader.findings
        self.index = index
        self.record = reader.subgraphs[index]
        self.name = self.record["name"] or ("main" if index == 0 else f"subgraph_{index}")
        self.made = Graph(self.name)
        if len(reader.opened) == 1:
            reader.outermost = self.made
        self.values: dict[int, Value] = {}
        self.states: dict[int, Value] = {}

    @property
    def location(self) -> str:
        return f"subgraph[{self.index}]"

    def graph(self) -> Graph:
        """Build the graph."""
        self.made.origin = self.findings.span(self.location)
        for position, index in enumerate(_indices(self.record["inputs"])):
            self._input(position, index)
        records: list[Record] = self.record.records("operators")
        for position, record in enumerate(records):
            self._operator(position, record)
        outputs: list[Value] = []
        for position, index in enumerate(_indices(self.record["outputs"])):
            value = self._read(index, f"{self.location}.outputs[{position}]")
            if value is not None:
                outputs.append(value)
        if self.index == self.reader.main and len(self.reader.opened) == 1:
            outputs += self._keep_states(outputs)
        self.made.set_outputs(outputs)
        self._sign()
        return self.made

    def _tensor(self, index: int, location: str) -> Tensor | None:
        tensors = self.record.records("tensors")
        if not 0 <= index < len(tensors):
            message = f"undefined tensor {index}: the subgraph has {len(tensors)}"
            self.findings.error("TFL0101", message, location)
            return None
        return self.reader.tensor(self.index, index)

    def _value(self, index: int, tensor: Tensor) -> Value:
        name = self.reader.outermost.fresh(tensor.name or f"tensor_{index}")
        value = Value(name, named(tensor.fact, name))
        value.origin = self.findings.span(f"{self.location}.tensor[{index}]")
        value.notes[TENSOR] = tensor
        self.values[index] = value
        return value

    def _input(self, position: int, index: int) -> None:
        location = f"{self.location}.inputs[{position}]"
        tensor = self._tensor(index, location)
        if tensor is None:
            return
        if index in self.values:
            self.findings.error("TFL0101", f"duplicate input tensor {index}", location)
            return
        value = self._value(index, tensor)
        # An input with a buffer takes the constant unless the caller passes a value.
        value.storage = tensor.storage
        self.made.adopt_input(value)

    def _read(self, index: int, location: str) -> Value | None:
        """Return the value of a tensor that is read; `None` after an error was reported."""
        if index in self.values:
            return self.values[index]
        tensor = self._tensor(index, location)
        if tensor is None:
            return None
        if tensor.is_variable and tensor.storage is None:
            return self._variable(index, tensor, location)
        storage = tensor.storage
        if storage is None and _is_empty(tensor):
            storage = _zeros(tensor)
        if storage is None:
            message = f"tensor {index} ({tensor.name}) is used before it is written"
            if not tensor.record["external_buffer"]:
                self.findings.error("TFL0203", message, location, "list operators in execution order")
            # Report each missing producer once.
            self._value(index, tensor)
            self.made.adopt_constant(self.values[index])
            return self.values[index]
        value = self._value(index, tensor)
        value.storage = storage
        value.fact = TensorFact.of(storage)
        return self.made.adopt_constant(value)

    def _variable(self, index: int, tensor: Tensor, location: str) -> Value | None:
        """Create a state: an additional input that is initialized with zeros."""
        fact = tensor.fact
        if not isinstance(fact, TensorFact) or not fact.is_static or tensor.storage is not None:
            self.findings.error("TFL0203", f"variable {index} has no shape", location)
            return None
        storage = _zeros(tensor)
        if storage is None:
            remedy = f"{SETTING} allows more"
            self.findings.error("TFL0203", f"variable {index} is too large: {fact}", location, remedy)
            return None
        value = self._value(index, tensor)
        value.storage = storage
        self.states[index] = value
        return self.made.adopt_input(value)

    def _keep_states(self, outputs: Sequence[Value]) -> list[Value]:
        """Add the final values of the variables as additional outputs."""
        found: list[Value] = []
        taken = set(outputs)
        for index, first in self.states.items():
            last = self.values[index]
            if last is first or last in taken:
                continue
            mark(first, State(last.name, first.name))
            taken.add(last)
            found.append(last)
        return found

    def _operator(self, position: int, record: Record) -> None:
        reader = self.reader
        location = f"{self.location}.operator[{position}]"
        kind: int = record["opcode_index"]
        if kind >= len(reader.codes):
            message = f"undefined operator code {kind}: the file has {len(reader.codes)}"
            self.findings.error("TFL0201", message, location)
            return
        code = reader.codes[kind]
        location = f"{location} {code.op_type}"
        if not code.is_known:
            message = f"unknown builtin operator code {code.number}"
            self.findings.error(
                "TFL0201", message, location, "update graphport if the operator is newer than the supported schema"
            )
            return
        if not 1 <= code.version <= newest_version(code.op_type):
            message = f"unsupported operator version {code.version}"
            self.findings.error("TFL0201", message, location, f"use a version from 1 to {newest_version(code.op_type)}")
        for table in (record, record["builtin_options"], record["builtin_options2"]):
            for message, remedy in () if table is None else enumeration_faults(table):
                self.findings.error("TFL0208", message, location, remedy)
        attributes = self._attributes(code, record, location)
        given = _indices(record["inputs"])
        operands = [None if i == -1 else self._read(i, location) for i in given]
        quantized = [None if i == -1 else self._quantization(i) for i in given]
        changed = [i for i in dict.fromkeys(given) if i in self.states]
        results, result_quantized, types = self._results(record, location)
        results += [self._next(index) for index in changed]
        if any(quantized):
            attributes["quantized"] = tuple(quantized)
        if any(result_quantized):
            attributes["quantized_results"] = tuple(result_quantized)
        attributes["types"] = types
        if changed:
            first_at = {index: at for at, index in reversed(list(enumerate(given)))}
            attributes["states"] = tuple(first_at[index] for index in changed)
        node = Node(code.op_type, operands, results, attributes, dialect=DIALECT)
        node.origin = self.findings.span(location)
        node.notes[VERSION] = code.version
        self.made.append(node)

    def _quantization(self, index: int) -> Quantization | None:
        tensor = self.reader.tensor(self.index, index) if 0 <= index < len(self.record.records("tensors")) else None
        return None if tensor is None else tensor.quantization

    def _results(self, record: Record, location: str) -> tuple[list[Value | None], list[Any], tuple[DType | None, ...]]:
        results: list[Value | None] = []
        quantized: list[Any] = []
        types: list[DType | None] = []
        for index in _indices(record["outputs"]):
            tensor = None if index == -1 else self._tensor(index, location)
            quantized.append(None if tensor is None else tensor.quantization)
            types.append(None if tensor is None else tensor.dtype)
            if tensor is None:
                results.append(None)
                continue
            if index in self.values and index not in self.states:
                message = f"tensor {index} ({tensor.name}) is written twice, or after its first use"
                self.findings.error("TFL0203", message, location, "write each tensor once, before its first use")
                results.append(None)
                continue
            if tensor.storage is not None:
                self.findings.error(
                    "TFL0203", f"tensor {index} ({tensor.name}) is constant, but an operator writes it", location
                )
                results.append(None)
                continue
            results.append(self._value(index, tensor))
        return results, quantized, tuple(types)

    def _next(self, index: int) -> Value:
        """Create the value of a variable after an operator updated it."""
        first = self.states[index]
        value = Value(self.reader.outermost.fresh(f"{first.name}.next"), first.fact)
        self.values[index] = value
        return value

    # Options

    def _attributes(self, code: _Code, record: Record, location: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        options = record["builtin_options"] or record["builtin_options2"]
        wanted = "" if code.builtin is None else code.builtin.options
        if options is not None and wanted and options.table != wanted:
            self.findings.error(
                "TFL0202", f"the operator has options of type {options.table}, expected {wanted}", location
            )
            return attributes
        if wanted:
            for field in schema.TABLES[wanted]:
                option = _default_of(field) if options is None else options[field.name]
                self._attribute(attributes, field.name, option, location)
        if code.builtin is None:
            attributes["custom_options"] = self._custom(record, location)
        intermediates = self._intermediates(record, location)
        if any(intermediates):
            attributes["quantized_intermediates"] = intermediates
        return attributes

    def _intermediates(self, record: Record, location: str) -> tuple[Quantization | None, ...]:
        found: list[Quantization | None] = []
        for index in _indices(record["intermediates"]):
            tensor = None if index == -1 else self._tensor(index, location)
            found.append(None if tensor is None else tensor.quantization)
        return tuple(found)

    def _attribute(self, attributes: dict[str, Any], name: str, value: Any, location: str) -> None:
        if name == "subgraph" or name.endswith("subgraph_index"):
            attributes[name.removesuffix("_index")] = self._body(value, location)
        elif name.endswith("subgraph_indices"):
            attributes[name.removesuffix("_indices")] = tuple(self._body(index, location) for index in _indices(value))
        elif isinstance(value, Extent):
            attributes[name] = bytes(self.reader.buffer.view(value.offset, value.length))
        elif isinstance(value, np.ndarray):
            attributes[name] = tuple(value.tolist())
        elif value is not None:
            attributes[name] = value

    def _custom(self, record: Record, location: str) -> bytes:
        extent: Extent | None = record["custom_options"]
        if record["large_custom_options_offset"] > 1:
            start, length = record["large_custom_options_offset"], record["large_custom_options_size"]
            extent = self.reader.tensors.extent_of(start, length, "custom_options", location)
        return b"" if extent is None else bytes(self.reader.buffer.view(extent.offset, extent.length))

    def _body(self, index: int, location: str) -> Graph | None:
        reader = self.reader
        if not 0 <= index < len(reader.subgraphs):
            message = f"undefined subgraph {index}: the file has {len(reader.subgraphs)}"
            self.findings.error("TFL0204", message, location)
            return None
        if index in reader.opened:
            self.findings.error("TFL0205", f"recursive subgraph {index}", location, "remove the recursion")
            return None
        if len(reader.opened) >= _MAX_SUBGRAPH_DEPTH:
            self.findings.error(
                "TFL0205", f"subgraphs are nested more than {_MAX_SUBGRAPH_DEPTH} levels deep", location
            )
            return None
        return reader.subgraph(index)

    def _sign(self) -> None:
        """Note the names that a signature gives to inputs and outputs."""
        records: list[Record] = self.reader.model.records("signature_defs")
        for record in sorted(records, key=lambda record: (record["signature_key"] or "") != self.reader.program):
            if record["subgraph_index"] != self.index or self.index in self.reader.opened[:-1]:
                continue
            key = record["signature_key"] or ""
            for item in [*(record.records("inputs")), *(record.records("outputs"))]:
                value = self.values.get(item["tensor_index"])
                if value is not None:
                    value.notes.setdefault(SIGNATURE, (key, item["name"] or ""))


def _indices(vector: Any) -> list[int]:
    return [] if vector is None else [int(index) for index in vector]


def _is_empty(tensor: Tensor) -> bool:
    return isinstance(tensor.fact, TensorFact) and tensor.fact.shape is not None and 0 in tensor.fact.shape


def _zeros(tensor: Tensor) -> ArrayStorage | None:
    fact = tensor.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.dtype is DType.STRING:
        return None
    shape = tuple(n for n in fact.dims if isinstance(n, int))
    if len(shape) != len(fact.dims):
        return None
    try:
        reserve(*shape)
    except OverBudgetError:
        return None
    zero = tensor.quantization[3][0] if tensor.quantization is not None else 0
    return ArrayStorage(np.broadcast_to(np.asarray(zero).astype(fact.dtype.numpy), shape), fact.dtype)


def _default_of(field: schema.Field) -> Any:
    if not field.is_scalar:
        return None
    return bool(field.default) if field.kind == "?" else field.default if field.kind == "f" else int(field.default)
