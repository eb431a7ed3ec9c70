"""Write dialect graphs as PNNX files with the exact formatting of pnnx."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.atomic_write import together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.core.file_names import FileNames, is_safe, safe_part
from graphport.core.names import unique
from graphport.core.storage import Storage
from graphport.core.write_errors import write_remedy
from graphport.formats.pnnx.container import notes
from graphport.formats.pnnx.container.archive import LONGEST_NAME, Layout, write_archive
from graphport.formats.pnnx.container.param import MAGIC, Spans
from graphport.formats.pnnx.container.values import format_tensor, format_value, parse_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute, Graph, Node, Value

_ENDING = ".param"
_KEYS = "$"
_DIALECT = "pnnx"
_LINES = 512
"""Number of lines per written block."""


class _Row(NamedTuple):
    """One operator line to write."""

    type: str
    name: str
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    attributes: Mapping[str, Attribute]
    keys: tuple[str, ...] = ()
    line: notes.Line | None = None
    place: int = -1
    """Offset of the line in the source text; -1 if it was not read."""


def write(graph: Graph, path: str | Path, *, code: bool | None = None) -> None:
    """Write a PNNX graph as `NAME.param` and `NAME.bin`.

    Unchanged parts of a source file are written byte for byte.

    Args:
        graph: in the dialect `pnnx`.
        path: of the text, `NAME.pnnx.param`.
        code: also write `NAME_pnnx.py`, the model as a PyTorch module.

    Raises:
        DiagnosticError: PNNX0301 a value cannot be written, PNNX0302 the elements of a weight are not available,
            PNNX0303
            a node is no PNNX operator, PNNX0304 the files cannot be written, PNNX0305 an operator has no form
                in Python.
    """
    target = Path(path)
    writer = _Writer(graph, Source(str(path)), needs_owners=bool(code))
    text = writer.text()
    if writer.findings:
        raise DiagnosticError(*writer.findings)
    layout = graph.notes.get(notes.LAYOUT) if graph.has_notes else None
    base = target.name.removesuffix(_ENDING)
    python = _code(graph, writer, f"{base}.bin") if code else None
    try:
        with together(target) as files:
            weights = files.open_file(target.with_name(f"{base}.bin"))
            write_archive(weights, writer.weights, layout if isinstance(layout, Layout) else Layout.WIDE)
            if python is not None:
                files.open_file(target.with_name(f"{base.removesuffix('.pnnx')}_pnnx.py")).write(python.encode())
            file = files.open_file(target)
            for piece in text:
                file.write(piece)
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("PNNX0304", message, Span(Source(str(path))), write_remedy(error))) from error


def _code(graph: Graph, writer: _Writer, archive: str) -> str:
    from graphport.core.python_code import CodeError
    from graphport.formats.pnnx.container.code import code_of

    try:
        return code_of(graph, archive, writer.owners or {})
    except CodeError as error:
        message = f"cannot generate the Python code: {error}"
        raise DiagnosticError(Diagnostic("PNNX0305", message, Span(writer.source), "omit --code")) from error


class _Writer:
    def __init__(self, graph: Graph, source: Source, *, needs_owners: bool = False) -> None:
        self.graph = graph
        self.source = source
        self.findings: list[Diagnostic] = []
        self.weights: list[tuple[str, Storage]] = []
        self.owners: dict[Value, str] | None = {} if needs_owners else None
        """Operator names by first result, if requested."""
        self._renamed: dict[Value, str] = {}
        """Operands that cannot be called as their values are."""
        self._names: set[str] = set()
        self._members = FileNames()
        self._counters: dict[str, int] = {}
        self._agreeing: dict[tuple[str, int], tuple[TensorFact, bool]] = {}
        self._words: dict[str, list[str]] = {}
        """Text of attributes by value, of new nodes without weights."""
        self._shapes: dict[tuple[object, int], tuple[Fact, str]] = {}
        """Text of shapes by note and fact, which the key keeps alive."""

    def text(self) -> list[bytes]:
        """Return the `.param` text in blocks, and collect the weights."""
        self._name()
        pieces: list[bytes] = []
        lines: list[str] = []
        count = 0
        for row in self._rows():
            lines.append(self._line(row))
            count += 1
            if len(lines) == _LINES:
                pieces.append(_encoded(lines))
                lines.clear()
        pieces.append(_encoded(lines))
        return [_encoded([MAGIC, f"{count} {self._operands()}"]), *pieces]

    def _name(self) -> None:
        """Assign each value a unique name without white space."""
        taken: set[str] = set()
        counters: dict[str, int] = {}
        for value in self.graph.values():
            name = value.name if value.name.isidentifier() else "_".join(value.name.split()) or "_"
            if name in taken:
                name = unique(name, taken, counters)
            taken.add(name)
            if name != value.name:
                self._renamed[value] = name

    def _called(self, values: Iterable[Value]) -> list[str]:
        renamed = self._renamed
        if not renamed:
            return [value.name for value in values]
        return [renamed.get(value) or value.name for value in values]

    def _operands(self) -> int:
        """Count the operands: all inputs, results, and used constants."""
        graph = self.graph
        constants = sum(1 for value in graph.constants if value.uses)
        return len(graph.inputs) + constants + sum(len(node.results) for node in graph)

    def _rows(self) -> Iterator[_Row]:
        graph = self.graph
        constants = [value for value in graph.constants if value.uses]
        owners = [*graph.inputs, *constants, *graph]
        if all(_source_offset(owner) >= 0 for owner in owners) and (self._ends() or not graph.outputs):
            # No operator was added: write the lines in the order of the source.
            rows = [*self._inputs(), *map(self._constant, constants), *map(self._node, graph), *self._outputs()]
            return iter(sorted(rows, key=lambda row: row.place))
        del owners
        return chain(self._inputs(), map(self._constant, constants), map(self._node, graph), self._outputs())

    def _inputs(self) -> list[_Row]:
        rows: list[_Row] = []
        for value in self.graph.inputs:
            line = notes.line_of(value.note(notes.LINE))
            if line is not None and rows and rows[-1].line is line:
                rows[-1] = rows[-1]._replace(outputs=[*rows[-1].outputs, value])
                continue
            name = line.name if line is not None else f"pnnx_input_{len(rows)}"
            rows.append(
                _Row("pnnx.Input", name, (), [value], _source_attributes(line), line=line, place=_source_offset(value))
            )
        return rows

    def _constant(self, value: Value) -> _Row:
        line = notes.line_of(value.note(notes.LINE))
        if value.storage is None:
            self._error("PNNX0302", f"the elements of {value.name} are missing", value.origin)
        (name,) = self._called([value]) if line is None else (line.name,)
        return _Row(
            "pnnx.Attribute", name, (), [value], {"@data": value.storage}, line=line, place=_source_offset(value)
        )

    def _node(self, node: Node) -> _Row:
        if node.dialect != _DIALECT or len(node.operands) < len(node.inputs):
            message = (
                f"{node.op} is not a PNNX operator" if node.dialect != _DIALECT else f"missing operand of {node.op}"
            )
            self._error("PNNX0303", message, node.origin)
        line = notes.line_of(node.note(notes.LINE))
        attributes = node.stated
        keys = attributes.get(_KEYS) if attributes else None
        if keys is not None:
            attributes = {key: value for key, value in attributes.items() if key != _KEYS}
        stated = tuple(str(key) for key in keys) if isinstance(keys, tuple) else ()
        if not stated and line is not None and len(line.keys) == len(node.inputs):
            stated = line.keys
        op_type = line.type if line is not None else node.op_type
        if line is None and "." not in op_type and ":" not in op_type:
            op_type = f"pnnx.{op_type}"
        name = node.name or f"{op_type}_{len(self._names)}"
        return _Row(op_type, name, node.operands, node.results, attributes, stated, line, _source_offset(node))

    def _ends(self) -> list[notes.Line]:
        """Return the source lines of the outputs, if their number is unchanged."""
        lines = notes.lines_of(self.graph.notes.get(notes.LINE)) if self.graph.has_notes else []
        return lines if sum(line.count for line in lines) == len(self.graph.outputs) else []

    def _outputs(self) -> list[_Row]:
        lines = self._ends()
        values = self.graph.outputs
        if not lines:
            return [_Row("pnnx.Output", f"pnnx_output_{index}", [value], (), {}) for index, value in enumerate(values)]
        rows: list[_Row] = []
        for line in lines:
            taken, values = values[: line.count], values[line.count :]
            rows.append(_Row(line.type, line.name, taken, (), _source_attributes(line), line.keys, line, line.start))
        return rows

    def _line(self, row: _Row) -> str:
        name = self._operator_name(row)
        if row.outputs and self.owners is not None:
            self.owners[row.outputs[0]] = name
        values = [*row.inputs, *row.outputs]
        operands = self._called(values)
        words = [f"{row.type:<24} {name:<24} {len(row.inputs)} {len(row.outputs)}", *operands]
        if row.attributes:
            words += self._attributes(name, row)
        if row.keys:
            words += [f"${key}={operand}" for key, operand in zip(row.keys, operands, strict=False) if key]
        for value, operand in zip(values, operands, strict=True):
            shape = self._stated_shape(value)
            if shape:
                words.append(f"#{operand}={shape}")
        return " ".join(words)

    def _operator_name(self, row: _Row) -> str:
        """Return the name of an operator, the prefix of the archive members with its weights."""
        has_weights = any(key[:1] == "@" for key in row.attributes)
        if row.line is not None and (not has_weights or is_safe(row.name)):
            name = row.name
            if has_weights:
                self._members.make(name)
        else:
            name = "_".join(row.name.split())
            if has_weights:
                name = self._members.make(safe_part(name))
            if name in self._names:
                name = unique(name, self._names, self._counters)
        self._names.add(name)
        return name

    def _stated_shape(self, value: Value) -> str:
        """Return the shape field of a value from `_shape`; cached by note and fact, except for scalars."""
        fact = value.fact
        key = value.note(notes.SHAPE), id(fact)
        known = self._shapes.get(key)
        if known is not None:
            return known[1]
        before = len(self.findings)
        shape = self._shape(value)
        if len(self.findings) == before and isinstance(fact, TensorFact) and fact.shape and fact.is_static:
            self._shapes[key] = fact, shape
        return shape

    def _attributes(self, name: str, row: _Row) -> list[str]:
        # Equal values may differ in text (-0.0 and 0.0), but equal texts are equal values.
        form = repr(row.attributes) if row.line is None else ""
        known = self._words.get(form)
        if known is not None:
            return known
        before = len(self.findings)
        words: list[str] = []
        weights: list[str] = []
        for key in sorted(row.attributes):
            if key[:1] == "@":
                weights += self._weight(name, key, row)
            else:
                words.append(f"{key}={self._value(row, key)}")
        has_weights = any(key[:1] == "@" for key in row.attributes)
        if form and not has_weights and len(self.findings) == before:
            self._words[form] = words
        return [*words, *weights]

    def _value(self, row: _Row, key: str) -> str:
        value = row.attributes[key]
        text = None if row.line is None else row.line.text(key, value)
        if text is not None:
            return text
        try:
            return format_value(value)
        except ValueError as error:
            self._error("PNNX0301", f"{row.name}: {key}: {error}", None)
            return "None"

    def _weight(self, name: str, key: str, row: _Row) -> list[str]:
        storage = row.attributes[key]
        if not isinstance(storage, Storage):
            if row.type != "pnnx.Attribute":
                self._error("PNNX0302", f"the elements of {name}{key} are missing", None)
            return []
        member = f"{name}.{key[1:]}"
        if len(member.encode()) > LONGEST_NAME:
            self._error("PNNX0301", f"a name of more than {LONGEST_NAME:,} bytes: {member[:40]}…", None)
        self.weights.append((member, storage))
        return [f"{key}={self._tensor(name, TensorFact(storage.dtype, storage.shape))}"]

    def _shape(self, value: Value) -> str:
        note = value.note(notes.SHAPE)
        fact = value.fact
        if isinstance(note, str) and (not isinstance(fact, TensorFact) or self._agrees(note, fact)):
            return note
        # pnnx writes no shape for rank 0, but nothing else contains an input's element type.
        is_scalar = isinstance(fact, TensorFact) and fact.shape == () and value.is_input and fact.dtype is not None
        if not isinstance(fact, TensorFact) or (not fact.shape and not is_scalar):
            return ""
        return self._tensor(value.name, fact)

    def _agrees(self, note: str, fact: TensorFact) -> bool:
        """Cache the function `_agrees` by note and fact, because layers repeat."""
        known = self._agreeing.get((note, id(fact)))
        if known is None:
            known = self._agreeing[note, id(fact)] = fact, _agrees(note, fact)
        return known[1]

    def _tensor(self, name: str, fact: TensorFact) -> str:
        try:
            return format_tensor(fact.dtype, fact.shape or ())
        except ValueError as error:
            self._error("PNNX0301", f"{name}: {error}", None)
            return ""

    def _error(self, code: str, message: str, span: Span | None) -> None:
        self.findings.append(Diagnostic(code, message, span or Span(self.source), "choose another format"))


def _encoded(lines: Sequence[str]) -> bytes:
    return "".join([f"{line}\n" for line in lines]).encode("utf-8", "backslashreplace")


def _source_offset(owner: Node | Value) -> int:
    """Return the offset of the source line of a node, input or constant; -1 if it was not read."""
    line = notes.line_of(owner.note(notes.LINE))
    if line is None or line.start >= 0:
        return -1 if line is None else line.start
    origin = owner.unasked_origin
    if isinstance(origin, tuple):
        locations, index = origin
        return locations.line_offset(index) if isinstance(locations, Spans) else -1
    return -1 if origin is None or origin.start is None else origin.start


def _source_attributes(line: notes.Line | None) -> dict[str, Attribute]:
    return {} if line is None else {key: value for key, (value, _) in line.texts.items()}


def _agrees(note: str, fact: TensorFact) -> bool:
    """Whether the shape in the note equals the value's fact."""
    if not note:
        return True
    dtype, shape = parse_tensor(note, "_")
    if fact.dtype not in (None, dtype):
        return False
    if fact.shape is None:
        return True
    return len(shape) == len(fact.shape) and all(
        isinstance(was, Symbolic) or isinstance(now, Symbolic) or was == now
        for was, now in zip(shape, fact.shape, strict=True)
    )
