"""StableHLO files as canonical graphs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import Bytes, MappedFile
from graphport.formats.stablehlo.container.text import read_text
from graphport.formats.stablehlo.program import MAX_OPERATIONS, OtherType
from graphport.formats.stablehlo.recognition import MAGIC, is_export
from graphport.formats.stablehlo.refusal import RefusedError, refuse
from graphport.formats.stablehlo.rules import catalog  # noqa: F401  # pyright: ignore[reportUnusedImport]  registers the rules
from graphport.formats.stablehlo.rules.emitter import Emitter, expanded_operations
from graphport.formats.stablehlo.rules.values import Held, Pair, Quantized, Token, TupleValue
from graphport.formats.stablehlo.verify import verify
from graphport.ir.graph import Graph, Value
from graphport.ops import registry
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.formats.stablehlo.container.jax_export import Exported
    from graphport.formats.stablehlo.program import Function, Program

VERSION = "stablehlo.version"
"""The note of a graph that has the version of a portable artifact."""
_RESULT_NAME = re.compile(r"[\w.]+")


def versions(graph: Graph) -> dict[str, str]:
    """The version of the portable artifact, or `text`."""
    found = graph.notes.get(VERSION) if graph.has_notes else None
    return dict(cast("dict[str, str]", found)) if isinstance(found, dict) else {}


def read(path: str | Path) -> tuple[Graph, list[Diagnostic]]:
    """The canonical graph of the entry function of a file.

    Raises:
        DiagnosticError: SH0001 to SH0010 the file is invalid, or a graph cannot represent it.
    """
    source = Source(str(path))
    try:
        return _read(MappedFile(Path(path)), source, Path(path).name.partition(".")[0])
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(source), "check the path")) from error


def read_bytes(data: bytes, name: str = "main") -> tuple[Graph, list[Diagnostic]]:
    """The canonical graph of a file that is in memory; see `read`."""
    return _read(Bytes(data), Source(name), name)


@paused_collection()
def _read(file: MappedFile | Bytes, source: Source, stem: str) -> tuple[Graph, list[Diagnostic]]:
    lines = _Lines(file, source)
    reader: _GraphReader | None = None
    try:
        registry.load("stablehlo")
        program, exported = _program(file)
        reader = _GraphReader(program, exported, stem, lines)
        return reader.graph(), []
    except RefusedError as refused:
        offset = refused.offset
        if offset is None and reader is not None:
            offset = reader.offset
        raise DiagnosticError(Diagnostic(refused.code, refused.message, lines.span(offset), refused.help)) from refused
    except RecursionError as error:
        raise DiagnosticError(Diagnostic("SH0008", "operations are nested too deeply", Span(source), None)) from error


def _program(file: MappedFile | Bytes) -> tuple[Program, Exported | None]:
    head = bytes(file.view(0, min(file.size, 4096)))
    if head.startswith(MAGIC):
        from graphport.formats.stablehlo.container.bytecode import read_bytecode

        return read_bytecode(file, 0, file.size), None
    if is_export(head):
        from graphport.formats.stablehlo.container.bytecode import read_bytecode
        from graphport.formats.stablehlo.container.jax_export import read_export

        exported = read_export(file)
        return read_bytecode(file, exported.start, exported.size), exported
    return read_text(file), None


class _Lines:
    """Positions in a file: lines of a text, offsets of a binary file."""

    def __init__(self, file: MappedFile | Bytes, source: Source) -> None:
        self._file = file
        self._source = source
        self._starts: list[int] | None = None

    def span(self, offset: int | None) -> Span:
        """The line of an offset."""
        if offset is None:
            return Span(self._source)
        if self._starts is None:
            is_text = not bytes(self._file.view(0, min(4, self._file.size))).startswith((MAGIC, b"\x00"))
            data = self._file.view(0, self._file.size) if is_text else memoryview(b"")
            self._starts = [m.end() for m in re.finditer(rb"\n", data)] if is_text else []
            self._is_text = is_text
        if not self._is_text:
            return Span(self._source, place=f"byte {offset}")
        from bisect import bisect_right

        return Span(self._source, place=f"line {bisect_right(self._starts, offset) + 1}")


class _GraphReader:
    """Makes the graph of one program."""

    def __init__(self, program: Program, exported: Exported | None, stem: str, lines: _Lines) -> None:
        self._program = program
        self._exported = exported
        self._graph = Graph(stem or "main", opsets={"": OPSET})
        self._emitter = Emitter(self._graph, program, lines.span)
        self._entry = program.entry_function()

    @property
    def offset(self) -> int | None:
        """The offset of the operation that is translated."""
        return self._emitter.last_offset

    def graph(self) -> Graph:
        """The graph of the entry function."""
        entry = self._entry
        most = budget.limit("stablehlo.operations", MAX_OPERATIONS)
        count = expanded_operations(self._program, entry)
        if count > most:
            help = "GRAPHPORT_LIMITS=stablehlo.operations=N"
            refuse("SH0008", f"the program has {count} operations after inlining, the limit is {most}", help=help)
        if entry.body is None:
            refuse("SH0004", f"@{entry.name} has no body")
        verify(self._program)
        results = self._emitter.block(entry.body, self._inputs(entry))
        self._outputs(entry, results)
        self._graph.notes[VERSION] = {"version": self._program.version or "text"}
        for value in list(self._graph.constants):
            if not value.uses:
                self._graph.remove_constant(value)
        return self._graph

    # Inputs

    def _inputs(self, entry: Function) -> list[Held]:
        body = entry.body
        arguments = [] if body is None else body.arguments
        exported = self._exported
        names = list(entry.argument_names)
        shapes: list[tuple[Dim, ...] | None] = [None] * len(arguments)
        found: list[Held] = []
        skipped = 0
        if exported is not None and exported.has_platform_argument(len(arguments)):
            found.append(self._emitter.constant(exported.platform_index, DType.INT32))
            skipped = 1
        if exported is not None:
            kept = exported.kept_arguments()
            if len(kept) == len(arguments) - skipped:
                names[skipped:] = [
                    exported.argument_name(index) or name for index, name in zip(kept, names[skipped:], strict=True)
                ]
                shapes[skipped:] = [exported.dims(index, self._graph.extents) for index in kept]
        elif self._is_platform(entry):
            found.append(self._emitter.constant(0, DType.INT32))
            skipped = 1
        found += [
            self._input(index - skipped, arguments[index][1], names[index], shapes[index])
            for index in range(skipped, len(arguments))
        ]
        return found

    def _is_platform(self, entry: Function) -> bool:
        """Whether the first argument is the index of the platform that a module for several platforms runs on."""
        attributes = entry.argument_attributes
        return (
            bool(attributes)
            and "jax.global_constant" in attributes[0]
            and (attributes[0]["jax.global_constant"] == "_platform_index")
        )

    def _input(self, index: int, type: Any, name: str | None, dims: tuple[Dim, ...] | None) -> Held:
        graph = self._graph
        if isinstance(type, OtherType):
            if type.name == "token":
                return Token()
            refuse("SH0005", f"unsupported type {type} of an argument of @{self._entry.name}")
        if type.is_bounded:
            refuse("SH0005", "bounded dynamic dims are not supported", help="export with symbolic dims")
        stem = graph.fresh(name or f"arg{index}")
        if dims is None:
            dims = tuple(
                graph.extents.fresh(f"{stem}_{axis}", 1) if dim is None else dim for axis, dim in enumerate(type.shape)
            )
        value = graph.add_input(stem, TensorFact(type.dtype, dims))
        if type.quantization is not None:
            return Quantized(value, type.quantization)
        if not type.is_complex:
            return value
        part = TensorFact(DType.FLOAT32 if type.dtype is DType.COMPLEX64 else DType.FLOAT64, dims)
        emitter = self._emitter
        return Pair(emitter.opaque("real", [part], value)[0], emitter.opaque("imag", [part], value)[0])

    # Outputs

    def _outputs(self, entry: Function, results: list[Held]) -> None:
        attributes = entry.result_attributes
        flat = [(index, item) for index, held in enumerate(results) for item in _tensors(held)]
        if len(results) != len(entry.result_types):
            refuse(
                "SH0004",
                f"@{entry.name} returns {len(results)} values but declares {len(entry.result_types)} result types",
            )
        taken: set[Value] = set()
        for index, held in flat:
            given = attributes[index].get("jax.result_info") if index < len(attributes) else None
            name = _result_name(given) or f"result{index}"
            self._return(self._as_tensor(held), name, taken)

    def _as_tensor(self, held: Held) -> Value:
        emitter = self._emitter
        match held:
            case Pair(real=real, imaginary=imaginary):
                wide = real.dtype is DType.FLOAT64
                fact = TensorFact(DType.COMPLEX128 if wide else DType.COMPLEX64, real.shape)
                return emitter.opaque("complex", [fact], real, imaginary)[0]
            case Quantized(codes=codes):
                return codes
            case Value():
                return held
            case _:
                return refuse("SH0005", "an output is not a tensor")

    def _return(self, value: Value, name: str, taken: set[Value]) -> None:
        graph = self._graph
        if value in taken or value.producer is None or value.graph is not graph:
            value = self._emitter("Identity", value)
        taken.add(value)
        graph.rename(value, graph.fresh(name))
        graph.add_output(value)


def _tensors(held: Held) -> list[Held]:
    if isinstance(held, TupleValue):
        return [each for item in held.items for each in _tensors(item)]
    return [] if isinstance(held, Token) else [held]


def _result_name(info: Any) -> str | None:
    """`result[0]['logits']` as `result.0.logits`."""
    words = _RESULT_NAME.findall(info) if isinstance(info, str) else []
    name = ".".join(words)
    return f"result.{name}" if name[:1].isdigit() else name or None
