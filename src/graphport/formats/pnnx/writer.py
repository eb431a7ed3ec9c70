"""Raw graphs as PNNX files, byte by byte as pnnx writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.core.replacing import together
from graphport.core.storage import Storage
from graphport.formats.pnnx import notes
from graphport.formats.pnnx.archive import LONGEST_NAME, Layout, write_archive
from graphport.formats.pnnx.param import MAGIC
from graphport.formats.pnnx.values import format_tensor, format_value, parse_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Attribute, Graph, Node, Value

_ENDING = ".param"
_KEYS = "$"
_DIALECT = "pnnx"


class _Row(NamedTuple):
    """One operator on its way into the text."""

    type: str
    name: str
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    attributes: Mapping[str, Attribute]
    keys: tuple[str, ...] = ()
    line: notes.Line | None = None


def write(graph: Graph, path: str | Path, *, code: bool | None = None) -> None:
    """Write a graph in the words of PNNX as `NAME.param` and `NAME.bin`.

    What was read and not changed comes out byte by byte as it was.

    Args:
        graph: in the words of PNNX.
        path: of the text, `NAME.pnnx.param`.
        code: also write `NAME_pnnx.py`, the model as a module of PyTorch.

    Raises:
        DiagnosticError: PNNX0301 there is no text for a value, PNNX0302 the numbers of a weight are not there, PNNX0303
            a node is no word of PNNX, PNNX0304 the files cannot be written, PNNX0305 a word has no form in Python.
    """
    target = Path(path)
    writer = _Writer(graph, Source(str(path)))
    text = writer.text()
    if writer.findings:
        raise DiagnosticError(*writer.findings)
    layout = graph.notes.get(notes.LAYOUT) if graph.has_notes else None
    base = target.name.removesuffix(_ENDING)
    python = _code(graph, writer, f"{base}.bin") if code else None
    try:
        with together(target) as files:
            weights = files.open(target.with_name(f"{base}.bin"))
            write_archive(weights, writer.weights, layout if isinstance(layout, Layout) else Layout.WIDE)
            if python is not None:
                files.open(target.with_name(f"{base.removesuffix('.pnnx')}_pnnx.py")).write(python.encode())
            files.open(target).write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("PNNX0304", message, Span(Source(str(path))))) from error


def _code(graph: Graph, writer: _Writer, archive: str) -> str:
    from graphport.formats.pnnx.code import code_of
    from graphport.formats.pnnx.code_expressions import CodeError

    try:
        return code_of(graph, archive, writer.owners)
    except CodeError as error:
        message = f"there is no code in Python: {error}"
        raise DiagnosticError(Diagnostic("PNNX0305", message, Span(writer.source), "leave --code out")) from error


class _Writer:
    def __init__(self, graph: Graph, source: Source) -> None:
        self.graph = graph
        self.source = source
        self.findings: list[Diagnostic] = []
        self.weights: list[tuple[str, Storage]] = []
        self.owners: dict[Value, str] = {}
        """What operators are called, by their first result."""
        self._operands: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._names: set[str] = set()
        self._counters: dict[str, int] = {}
        self._agreeing: dict[tuple[str, int], tuple[TensorFact, bool]] = {}
        self._words: dict[str, list[str]] = {}
        """Attributes as the text has them, of those without weights that were in no text, by what they are."""
        self._shapes: dict[Value, str] = {}

    def text(self) -> str:
        """The `.param` text; collects the weights on the way."""
        for value in self.graph.values():
            name = value.name if value.name.isidentifier() else "_".join(value.name.split()) or "_"
            chosen = unique(name, self._taken, self._counters)
            self._operands[value] = chosen
            self._taken.add(chosen)
        rows = self._rows()
        lines = [self._line(row) for row in rows]
        operands = {value for row in rows for value in [*row.inputs, *row.outputs]}
        return "".join(f"{line}\n" for line in [MAGIC, f"{len(rows)} {len(operands)}", *lines])

    def _rows(self) -> list[_Row]:
        graph = self.graph
        rows = [*self._inputs(), *(self._constant(value) for value in graph.constants if value.uses)]
        rows += [self._node(node) for node in graph]
        rows += self._outputs()
        if all(row.line is not None for row in rows):
            # Nothing was added: the lines stand where they stood.
            return sorted(rows, key=lambda row: row.line.index if row.line is not None else 0)
        return rows

    def _inputs(self) -> list[_Row]:
        rows: list[_Row] = []
        for value in self.graph.inputs:
            line = notes.line_of(value.notes)
            if line is not None and rows and rows[-1].line is line:
                rows[-1] = rows[-1]._replace(outputs=[*rows[-1].outputs, value])
                continue
            name = line.name if line is not None else f"pnnx_input_{len(rows)}"
            rows.append(_Row("pnnx.Input", name, (), [value], _stated(line), line=line))
        return rows

    def _constant(self, value: Value) -> _Row:
        line = notes.line_of(value.notes)
        if value.storage is None:
            self._error("PNNX0302", f"the numbers of {value.name} are not there", value.origin)
        name = self._operands[value] if line is None else line.name
        return _Row("pnnx.Attribute", name, (), [value], {"@data": value.storage}, line=line)

    def _node(self, node: Node) -> _Row:
        if node.dialect != _DIALECT or len(node.operands) < len(node.inputs):
            message = f"{node.op} is no word of PNNX" if node.dialect != _DIALECT else f"{node.op} lacks an operand"
            self._error("PNNX0303", message, node.origin)
        line = notes.line_of(node.notes) if node.has_notes else None
        attributes = dict(node.attributes)
        keys = attributes.pop(_KEYS, None)
        stated = tuple(str(key) for key in keys) if isinstance(keys, tuple) else ()
        if not stated and line is not None and len(line.keys) == len(node.inputs):
            stated = line.keys
        word = line.type if line is not None else node.word
        if line is None and not ({".", ":"} & set(word)):
            word = f"pnnx.{word}"
        name = node.name or f"{word}_{len(self._names)}"
        return _Row(word, name, node.operands, node.results, attributes, stated, line)

    def _outputs(self) -> list[_Row]:
        found = self.graph.notes.get(notes.LINE) if self.graph.has_notes else None
        lines = notes.lines_of(found)
        values = self.graph.outputs
        if sum(line.count for line in lines) != len(values):
            if not values:
                return []
            return [_Row("pnnx.Output", f"pnnx_output_{index}", [value], (), {}) for index, value in enumerate(values)]
        rows: list[_Row] = []
        for line in lines:
            taken, values = values[: line.count], values[line.count :]
            rows.append(_Row(line.type, line.name, taken, (), _stated(line), line.keys, line))
        return rows

    def _line(self, row: _Row) -> str:
        name = row.name
        if row.line is None:
            name = unique("_".join(row.name.split()), self._names, self._counters)
        self._names.add(name)
        if row.outputs:
            self.owners[row.outputs[0]] = name
        values = [*row.inputs, *row.outputs]
        operands = [self._operands[value] for value in values]
        words = [f"{row.type:<24} {name:<24} {len(row.inputs)} {len(row.outputs)}", *operands]
        if row.attributes:
            words += self._attributes(name, row)
        words += [f"${key}={operand}" for key, operand in zip(row.keys, operands, strict=False) if key]
        for value, operand in zip(values, operands, strict=True):
            shape = self._shapes.get(value)
            if shape is None:
                before = len(self.findings)
                shape = self._shape(value)
                if len(self.findings) == before:
                    self._shapes[value] = shape
            if shape:
                words.append(f"#{operand}={shape}")
        return " ".join(words)

    def _attributes(self, name: str, row: _Row) -> list[str]:
        # Numbers that are equal need not have one text, but what has one text is the same.
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
                self._error("PNNX0302", f"the numbers of {name}{key} are not there", None)
            return []
        member = f"{name}.{key[1:]}"
        if len(member.encode()) > LONGEST_NAME:
            self._error("PNNX0301", f"a name of more than {LONGEST_NAME:,} bytes: {member[:40]}…", None)
        self.weights.append((member, storage))
        return [f"{key}={self._tensor(name, TensorFact(storage.dtype, storage.shape))}"]

    def _shape(self, value: Value) -> str:
        note = value.notes.get(notes.SHAPE) if value.has_notes else None
        fact = value.fact
        if isinstance(note, str) and (not isinstance(fact, TensorFact) or self._agrees(note, fact)):
            return note
        # pnnx says nothing of rank 0; of an input nothing else tells the element type.
        is_scalar = isinstance(fact, TensorFact) and fact.shape == () and value.is_input and fact.dtype is not None
        if not isinstance(fact, TensorFact) or (not fact.shape and not is_scalar):
            return ""
        return self._tensor(value.name, fact)

    def _agrees(self, note: str, fact: TensorFact) -> bool:
        """`_agrees`, remembered of the fact itself: networks repeat themselves."""
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


def _stated(line: notes.Line | None) -> dict[str, Attribute]:
    return {} if line is None else {key: value for key, (value, _) in line.texts.items()}


def _agrees(note: str, fact: TensorFact) -> bool:
    """Whether a shape that was read is still that of the value."""
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
