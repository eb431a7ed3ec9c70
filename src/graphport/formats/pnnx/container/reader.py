"""Read PNNX files as dialect graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, NamedTuple, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.garbage_collection import paused_collection
from graphport.core.regular_files import contents
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import Reference, postorder
from graphport.expression.tokens import Text
from graphport.formats.pnnx.container import notes
from graphport.formats.pnnx.container.lints import (
    LOOKED_AT,
    RESHAPES,
    declared_shape,
    doubts_of_expression,
    doubts_of_operator,
    read_results,
)
from graphport.formats.pnnx.container.param import (
    Field,
    Findings,
    Line,
    Spans,
    check_counts,
    parse_head,
    parse_line,
    rows_of,
)
from graphport.formats.pnnx.container.values import parse_tensor, parse_value
from graphport.formats.pnnx.container.weights import ENDING, Weights
from graphport.ir.attributes import PlainAttributes
from graphport.ir.graph import Graph, Value
from graphport.ir.notes import SharedNotes

if TYPE_CHECKING:
    from graphport.core.diagnostics import Span
    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.expression.syntax import Node as Tree
    from graphport.ir.graph import Attribute, Node

DIALECT = "pnnx"
_PREFIX = "pnnx."
_KEYS = "$"
_PLAIN_KEYS = ("input", "self")
"""Default name of a single operand."""
_MOST_OPERANDS = 1 << 24
_FEWEST = 6
"""Minimum fields of a line with an operand and a result."""
_MOST_FORMS = 1 << 12
"""Maximum number of cached line templates."""


def versions(graph: Graph) -> dict[str, str]:
    """Return an empty mapping: PNNX has no versions."""
    del graph
    return {}


def read(path: str | Path, *, tolerant: bool = False) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of `NAME.param` with the weights of `NAME.bin`, and warnings.

    With `tolerant`, expressions that pnnx writes against its own grammar are warnings.

    Raises:
        DiagnosticError: PNNX0001 to PNNX0007 errors of the text; PNNX0101 to PNNX0106 of the weights.
    """
    text_path = Path(path)
    try:
        content = contents(text_path)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, None, "check the path")) from error
    source = Source(str(path), content.decode("utf-8", "backslashreplace"))
    del content
    findings = Findings(source)
    name = text_path.name.removesuffix(ENDING).removesuffix(".pnnx")
    with paused_collection():
        graph = _GraphReader(name, findings, Weights(text_path, findings), tolerant).graph()
    return graph, findings.settle()


class _ParsedParameters(NamedTuple):
    """Parsed `key=value` fields of a line; shapes are strings with the indices of their fields.

    Attributes and strings may be shared between lines.
    """

    attributes: dict[str, Attribute]
    texts: dict[str, tuple[Attribute, str]]
    keys: tuple[str, ...]
    shapes: dict[str, tuple[str, int]]
    is_plain: bool
    """Whether no field is a weight."""


class _LineTemplate(NamedTuple):
    """Shared form of nodes whose lines differ only in names and shapes and have no diagnostics."""

    op_type: str
    attributes: PlainAttributes
    notes: SharedNotes
    dtypes: set[tuple[DType | None, ...]] | None
    """For an expression: types of operands and result for which there are no diagnostics."""


class _GraphReader:
    def __init__(self, name: str, findings: Findings, weights: Weights, tolerant: bool) -> None:  # noqa: FBT001
        self.findings = findings
        self.weights = weights
        self.tolerant = tolerant
        self.made = Graph(name or "main")
        self.known: dict[str, Value] = {}
        self.outputs: list[notes.Line] = []
        self.places = Spans(findings.source)
        # Caches, because networks repeat layers: static shapes, expressions and parameters without diagnostics.
        self._facts: dict[str, TensorFact] = {}
        self._expressions: dict[tuple[str, int], Tree] = {}
        self._known_values: dict[tuple[str, ...], tuple[PlainAttributes, dict[str, tuple[Attribute, str]]]] = {}
        self._forms: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _LineTemplate] = {}
        self._shapes: dict[str, SharedNotes] = {}

    def graph(self) -> Graph:
        """Build the graph of all lines.

        Raises:
            DiagnosticError: errors of lines, as `parse_lines`; errors of the graph are in the diagnostics.
        """
        text = self.findings.source.text or ""
        wrong = Findings(self.findings.source)
        rows = rows_of(text)
        counts = parse_head(rows, wrong)
        index = operands = 0
        for fields, line, start in rows:
            self.places.add(start)
            if not wrong.found and operands <= _MOST_OPERANDS and self._repeat_operator(index, fields):
                operands += int(fields[2]) + 1
            elif (parsed := parse_line(fields, line, start, wrong)) is not None:
                operands += parsed.taken + parsed.given
                if not wrong.found and operands <= _MOST_OPERANDS:
                    self._line(index, parsed)
            index += 1
        if not wrong.found and operands <= _MOST_OPERANDS:
            check_counts(counts, index, len(self.known), wrong)
        wrong.settle()
        if operands > _MOST_OPERANDS:
            self.findings.found.clear()
            self.findings.left_out = 0
            message = f"too many operands: {operands}"
            self.findings.error("PNNX0008", message, None)
            return self.made
        self.made.notes[notes.LINE] = tuple(self.outputs)
        self.made.notes[notes.LAYOUT] = self.weights.layout
        return self.made

    def _repeat_operator(self, index: int, fields: list[str]) -> bool:
        """Create the node of a line from the template of an equal earlier line; return `False` if there is none."""
        if len(fields) < _FEWEST or fields[3] != "1":
            return False
        first = 5 + (1 if fields[2] == "1" else 2 if fields[2] == "2" else len(fields))
        if first > len(fields):
            return False
        result = fields[first - 1]
        known = self.known
        if result in known or "=" in result:
            return False
        given = [known.get(name) for name in fields[4 : first - 1]]
        stop, shape, mark = len(fields), None, f"#{result}="
        # Backwards from the last field: shapes, operand names and values, the order of pnnx.
        while stop > first and (field := fields[stop - 1])[0] == "#":
            stop -= 1
            if shape is None and field.startswith(mark):
                shape = field[len(mark) :]
            elif "=" not in field:
                return False
        keys, stop = _keys(fields, first, stop)
        form = self._forms.get((fields[0], keys, tuple(fields[first:stop])))
        fact = None if shape is None else self._facts.get(shape)
        if form is None or fact is None or shape is None or None in given:
            return False
        operands = cast("list[Value]", given)
        if form.dtypes is not None and (fact.dtype, *map(_dtype, operands)) not in form.dtypes:
            return False
        spans, line = self.places, index * Spans.LONGEST
        value = Value(result, fact, origin=(spans, line + first - 1), notes=self._shapes[shape])
        known[result] = value
        self.made.append_new(
            form.op_type, operands, [value], form.attributes, DIALECT, fields[1], (spans, line), form.notes
        )
        return True

    def _line(self, index: int, line: Line) -> None:
        operands = [self._operand(position, line) for position in range(4, line.first_result)]
        count = len(self.findings.found) + self.findings.left_out
        entries = self._parse_parameters(line)
        indices = range(line.first_result, line.first_parameter)
        results = [value for position in indices if (value := self._result(index, position, line, entries)) is not None]
        if any(value is None for value in operands) or len(results) < line.given:
            return
        given = [value for value in operands if value is not None]
        note = notes.Line(line.type, line.name, entries.keys, entries.texts, len(operands), line.start)
        match line.type:
            case "pnnx.Input" if not given:
                for value in results:
                    value.notes[notes.LINE] = note
                    self.made.adopt_input(value)
            case "pnnx.Output" if not results:
                self.outputs.append(note)
                for value in given:
                    self.made.add_output(value)
            case "pnnx.Attribute" if not given and len(results) == 1 and _is_weight(entries):
                self._constant(results[0], entries, note)
            case _:
                node = self._node(index, line, given, results, entries)
                if len(self.findings.found) + self.findings.left_out == count:
                    self._cache_template(node, line, entries)

    def _cache_template(self, node: Node, line: Line, entries: _ParsedParameters) -> None:
        """Cache the form of a node without diagnostics, if it depends only on names and shapes."""
        # Operators with checks of shapes or values are not cached.
        if node.op_type in LOOKED_AT or not entries.is_plain or len(self._forms) >= _MOST_FORMS:
            return
        notes_ = node.copied_notes
        plain = tuple(field for field in line.fields[line.first_parameter :] if field[0] not in "#$")
        key = line.type, entries.keys, plain
        dtypes = (tuple(map(_dtype, (*node.results, *node.operands))),)
        known = self._forms.get(key)
        if known is not None:
            if known.dtypes is not None:
                known.dtypes.update(dtypes)
        elif isinstance(notes_, SharedNotes):
            seen = set(dtypes) if node.op_type == "Expression" else None
            self._forms[key] = _LineTemplate(node.op_type, PlainAttributes(node.stated), notes_, seen)

    def _node(
        self, index: int, line: Line, given: list[Value], results: list[Value], entries: _ParsedParameters
    ) -> Node:
        op_type = line.type
        bare = op_type.removeprefix(_PREFIX)
        if "." not in bare and ":" not in bare:
            op_type = bare
        # An expression without operands is a constant of any type, possibly a string.
        if op_type == "Expression" and given:
            self._check_expression(line, given, results)

        def location() -> Span:
            return self.findings.span(line.field(0))

        for doubt in doubts_of_operator(line.name, op_type, entries.keys, given, location):
            self.findings.add(doubt)
        attributes = entries.attributes
        if op_type in RESHAPES:
            shape, doubt = declared_shape(attributes, given, results, location)
            if shape is not None and doubt is not None:
                attributes = {**attributes, "shape": shape}
                self.findings.add(doubt)
        slots, doubt = read_results(op_type, attributes, given, results, location)
        if slots is not None and doubt is not None:
            placed = dict(zip(slots, results, strict=True))
            results = [placed.get(slot) or Value(f"{line.name}_{slot}", UNKNOWN) for slot in range(slots[-1] + 1)]
            self.findings.add(doubt)
        if any(entries.keys) and (len(given) > 1 or entries.keys[0] not in _PLAIN_KEYS):
            attributes = {**attributes, _KEYS: entries.keys}
        origin = self.places, index * Spans.LONGEST
        # Nodes have individual names and locations.
        notes_ = SharedNotes({notes.LINE: notes.Line(line.type, "", entries.keys, entries.texts)})
        return self.made.append_new(op_type, given, results, attributes, DIALECT, line.name, origin, notes_)

    def _constant(self, value: Value, entries: _ParsedParameters, note: notes.Line) -> None:
        (storage,) = entries.attributes.values()
        if storage is not None:
            value.storage = storage  # pyright: ignore[reportAttributeAccessIssue]  a weight is a storage or None
            value.fact = TensorFact.of(storage)  # pyright: ignore[reportArgumentType]
        value.notes[notes.LINE] = note
        self.made.adopt_constant(value)

    def _operand(self, position: int, line: Line) -> Value | None:
        name = line.fields[position]
        value = self.known.get(name)
        if value is None:
            message = f"{line.name} reads the operand {name!r}, which no earlier line computes"
            self.findings.error("PNNX0004", message, line.field(position), "sort the operators topologically")
        return value

    def _result(self, index: int, position: int, line: Line, entries: _ParsedParameters) -> Value | None:
        name = line.fields[position]
        if name in self.known:
            message = f"the operand {name!r} is defined twice"
            self.findings.error("PNNX0005", message, line.field(position), "rename one of both")
            return None
        shape = entries.shapes.get(name)
        origin = self.places, index * Spans.LONGEST + position
        text = "" if shape is None else shape[0]
        notes_ = self._shapes.get(text)
        if notes_ is None:
            notes_ = self._shapes[text] = SharedNotes({notes.SHAPE: text})
        fact = UNKNOWN if shape is None else self._fact(name, *shape, line)
        value = Value(name, fact, origin=origin, notes=notes_)
        self.known[name] = value
        self.made.reserve(name)
        return value

    def _fact(self, name: str, text: str, position: int, line: Line) -> Fact:
        known = self._facts.get(text)
        if known is not None:
            return known
        try:
            fact = TensorFact(*parse_tensor(text, name))
        except ValueError as error:
            offset = len(line.fields[position]) - len(text)
            self.findings.error("PNNX0006", f"operand {name}: {error}", line.field(position, offset))
            return UNKNOWN
        if fact.is_static:
            self._facts[text] = fact
        return fact

    def _parse_parameters(self, line: Line) -> _ParsedParameters:
        keys = [""] * line.taken
        shapes: dict[str, tuple[str, int]] = {}
        plain: list[int] = []
        stored: list[int] = []
        fields = line.fields
        for position in range(line.first_parameter, len(fields)):
            field = fields[position]
            match field[0]:
                case "#":
                    name, _, text = field.partition("=")
                    shapes[name[1:]] = intern(text), position
                case "$":
                    key, _, name = field.partition("=")
                    self._key(key[1:], name, position, line, keys)
                case "@":
                    stored.append(position)
                case _:
                    plain.append(position)
        attributes, texts = self._parse_values(line, plain)
        if stored:
            attributes = dict(attributes)
        for position in stored:
            key, _, _ = fields[position].partition("=")
            if key in attributes:
                self._twice(line, key, position)
                continue
            attributes[key] = self.weights.storage(f"{line.name}.{key[1:]}", line.field(position, len(key) + 1))
        return _ParsedParameters(attributes, texts, tuple(keys), shapes, not stored)

    def _parse_values(
        self, line: Line, indices: list[int]
    ) -> tuple[dict[str, Attribute], dict[str, tuple[Attribute, str]]]:
        """Return the values of non-weight fields, and their strings: shared between equal lines."""
        stated = tuple([line.fields[position] for position in indices])
        known = self._known_values.get(stated)
        if known is not None:
            return known
        count = len(self.findings.found)
        attributes = PlainAttributes()
        texts: dict[str, tuple[Attribute, str]] = {}
        for position in indices:
            key, _, text = line.fields[position].partition("=")
            if key in attributes:
                self._twice(line, key, position)
                continue
            attributes[key] = self._value(key, text, position, line)
            texts[key] = (attributes[key], text)
        if len(self.findings.found) == count and not self.findings.left_out:
            self._known_values[stated] = attributes, texts
        return attributes, texts

    def _twice(self, line: Line, key: str, position: int) -> None:
        self.findings.error(
            "PNNX0007", f"{line.name} has the parameter {key} twice", line.field(position, len(key) + 1)
        )

    def _value(self, key: str, text: str, position: int, line: Line) -> Attribute:
        try:
            return parse_value(key, text)
        except (ValueError, OverflowError) as error:
            self.findings.error("PNNX0007", f"{key}: {error}", line.field(position, len(key) + 1))
            return None

    def _key(self, key: str, name: str, position: int, line: Line, keys: list[str]) -> None:
        """Set the parameter name `key` (field `$KEY=NAME`) of the first unnamed operand `name`, or report PNNX0007."""
        for index, operand in enumerate(line.inputs):
            if operand == name and not keys[index]:
                keys[index] = intern(key)
                return
        message = f"{line.name} assigns {name!r} to {key}, but {name!r} is not one of its operands"
        self.findings.error("PNNX0007", message, line.field(position, len(key) + 2))

    def _check_expression(self, line: Line, given: list[Value], results: list[Value]) -> None:
        position = next(
            (n for n in range(line.first_parameter, len(line.fields)) if line.fields[n].startswith("expr=")), None
        )
        if position is None:
            self.findings.error("PNNX0007", f"the expression {line.name} has no parameter `expr`", line.field(1))
            return
        known = line.fields[position], len(given)
        tree = self._expressions.get(known)
        if tree is None:
            found = line.field(position, len("expr="))
            count = len(self.findings.found)
            tree = self._expression(found, len(given))
            if tree is None:
                return
            if len(self.findings.found) == count and not self.findings.left_out:
                self._expressions[known] = tree
        for doubt in doubts_of_expression(
            tree, given, results, lambda: self.findings.span(line.field(position, len("expr=")))
        ):
            self.findings.add(doubt)

    def _expression(self, found: Field, count: int) -> Tree | None:
        """Parse an expression of `count` operands; `None` after an error was reported."""
        text = Text(found.text, self.findings.source, found.start)
        try:
            parsed = parse(text, ARITIES, lenient=self.tolerant)
        except DiagnosticError as error:
            # The node then is opaque, and the PNNX writer can write it back.
            severity = Severity.WARNING if self.tolerant else Severity.ERROR
            for finding in error.diagnostics:
                self.findings.add(replace(finding, severity=severity))
            return None
        for finding in parsed.findings:
            self.findings.add(finding)
        for node in postorder(parsed.tree):
            if isinstance(node, Reference) and node.index >= count:
                message = f"operand @{node.index} does not exist; the expression has {count} operands"
                severity = Severity.WARNING if self.tolerant else Severity.ERROR
                help_ = "use operand indices from 0"
                self.findings.add(Diagnostic("PNNX0009", message, text.span(node.start, node.end), help_, severity))
        return parsed.tree


def _keys(fields: list[str], first: int, stop: int) -> tuple[tuple[str, ...], int]:
    """Return the names of one or two operands whose shapes begin at field `stop`, and the end of the values.

    If names do not match the operands in order, their fields count as values.
    """
    operands = fields[4 : first - 1]
    begin = stop - len(operands)
    if stop == first or fields[stop - 1][0] != "$" or begin < first:
        return _NO_KEYS[: len(operands)], stop
    keys: list[str] = []
    for field, operand in zip(fields[begin:stop], operands, strict=True):
        key, _, name = field.partition("=")
        if key[0] != "$" or name != operand:
            return _NO_KEYS[: len(operands)], stop
        keys.append(key[1:])
    return tuple(keys), begin


_NO_KEYS = ("", "")


def _is_weight(entries: _ParsedParameters) -> bool:
    """Whether the only attribute is a weight; pnnx of 2022 calls it like the buffer, later ones `data`."""
    return len(entries.attributes) == 1 and next(iter(entries.attributes)).startswith("@")


def _dtype(value: Value) -> DType | None:
    return value.dtype
