"""PNNX files as raw graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from graphport.core import budget
from graphport.core.collection import paused_collection
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.opening import belonging, contents
from graphport.core.storage import FileStorage, MappedFile
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import Reference, postorder
from graphport.expression.tokens import Text
from graphport.formats.pnnx import notes
from graphport.formats.pnnx.archive import Archive, Layout, read_archive
from graphport.formats.pnnx.lints import declared_shape, doubts_of_expression, doubts_of_operator, read_results
from graphport.formats.pnnx.param import Findings, Line, Places, Word, parse_lines
from graphport.formats.pnnx.values import parse_tensor, parse_value
from graphport.ir.attributes import PlainAttributes
from graphport.ir.graph import Graph, Value

if TYPE_CHECKING:
    from graphport.core.diagnostics import Span
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.expression.syntax import Node as Tree
    from graphport.ir.graph import Attribute, Notes

DIALECT = "pnnx"
_PREFIX = "pnnx."
_RESHAPES = ("Tensor.reshape", "Tensor.view")
_ENDING = ".param"
_KEYS = "$"
_PLAIN_KEYS = ("input", "self")
"""What the only operand is called where that says nothing."""
_MOST_OPERANDS = 1 << 24


def versions(graph: Graph) -> dict[str, str]:
    """PNNX has no versions."""
    del graph
    return {}


def read(path: str | Path, *, tolerant: bool = False) -> tuple[Graph, list[Diagnostic]]:
    """The raw graph of `NAME.param` with the weights of `NAME.bin`, and warnings.

    With `tolerant`, expressions that pnnx writes against its own grammar are warnings.

    Raises:
        DiagnosticError: PNNX0001 to PNNX0007 what is wrong with the text; PNNX0101 to PNNX0106 with the weights.
    """
    place = Path(path)
    try:
        content = contents(place)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, None, "check the path")) from error
    source = Source(str(path), content.decode("utf-8", "backslashreplace"))
    findings = Findings(source)
    with paused_collection():
        lines = parse_lines(source.text or "", findings)
        findings.settle()
        weights = _Weights(place, findings)
        graph = _Reader(place.name.removesuffix(_ENDING).removesuffix(".pnnx"), findings, weights, tolerant).graph(
            lines
        )
    return graph, findings.settle()


class _Weights:
    """The archive beside a text, opened when the first weight is asked for."""

    def __init__(self, place: Path, findings: Findings) -> None:
        self._path = belonging(place.with_name(place.name.removesuffix(_ENDING) + ".bin"), place)
        self._findings = findings
        self._file: MappedFile | None = None
        self._archive: Archive | None = None
        self._is_missing = False

    @property
    def layout(self) -> Layout:
        """How the archive is laid out; one that no weight is in is looked at, too."""
        self._open(None)
        return Layout.WIDE if self._archive is None else self._archive.layout

    def _open(self, word: Word | None) -> None:
        if self._file is not None or self._is_missing:
            return
        try:
            file = MappedFile(self._path)
            archive = read_archive(file, Source(str(self._path)))
        except OSError as error:
            self._is_missing = True
            if word is not None:
                message = f"the weights of {self._path.name} cannot be read: {error.strerror or error}"
                self._findings.error("PNNX0101", message, word, "the archive lies beside the text under the same name")
        except DiagnosticError as error:
            self._is_missing = True
            for finding in error.diagnostics:
                self._findings.add(finding)
        else:
            self._file, self._archive = file, archive

    def storage(self, name: str, word: Word) -> Storage | None:
        """The numbers of the weight called `name`, as `word` declares them; `None` after a finding."""
        try:
            dtype, shape = parse_tensor(word.text, name)
        except ValueError as error:
            self._findings.error("PNNX0006", f"{name}: {error}", word)
            return None
        lengths = [dim for dim in shape if isinstance(dim, int)]
        if dtype is None or len(lengths) < len(shape):
            self._findings.error("PNNX0106", f"{name} is declared as {word.text}, which no weight can be", word)
            return None
        self._open(word)
        if self._archive is None or self._file is None:
            return None
        member = self._archive.members.get(name)
        if member is None:
            message = f"there is no {name} in {self._path.name}"
            self._findings.error("PNNX0105", message, word, "text and weights belong to different models")
            return None
        storage = FileStorage(self._file, member.start, dtype, lengths)
        if not budget.is_held(lengths):
            message = f"{name} is declared as {word.text}, which no memory holds"
            self._findings.error("PNNX0106", message, word, "correct its shape")
            return None
        if storage.nbytes != member.length:
            size = budget.shown(storage.nbytes)
            message = f"{name} is declared as {word.text}, which takes {size} bytes, and has {member.length}"
            self._findings.error("PNNX0106", message, word, "text and weights belong to different models")
            return None
        return storage


class _Entries(NamedTuple):
    """What a line says as `key=value`, sorted out; shapes are texts and the words that they stand in.

    Attributes and texts may be those of other lines, too.
    """

    attributes: dict[str, Attribute]
    texts: dict[str, tuple[Attribute, str]]
    keys: tuple[str, ...]
    shapes: dict[str, tuple[str, int]]


class _Reader:
    def __init__(self, name: str, findings: Findings, weights: _Weights, tolerant: bool) -> None:  # noqa: FBT001
        self.findings = findings
        self.weights = weights
        self.tolerant = tolerant
        self.made = Graph(name or "main")
        self.known: dict[str, Value] = {}
        self.outputs: list[notes.Line] = []
        self.places = Places(findings.source, ())
        # Networks repeat themselves: shapes without open extents, expressions and parameters of which there is
        # nothing to say.
        self._facts: dict[str, TensorFact] = {}
        self._expressions: dict[tuple[str, int], Tree] = {}
        self._known_values: dict[tuple[str, ...], tuple[PlainAttributes, dict[str, tuple[Attribute, str]]]] = {}

    def graph(self, lines: list[Line]) -> Graph:
        """The graph of all lines, which are used up."""
        operands = sum(line.taken + line.given for line in lines)
        if operands > _MOST_OPERANDS:
            message = f"{operands} operands are more than are taken"
            self.findings.error("PNNX0008", message, None)
            return self.made
        self.places = Places(self.findings.source, lines)
        # Each line is let go once it is read: its words take more than the node.
        lines.reverse()
        for index in range(len(lines)):
            self._line(index, lines.pop())
        self.made.notes[notes.LINE] = tuple(self.outputs)
        self.made.notes[notes.LAYOUT] = self.weights.layout
        return self.made

    def _line(self, index: int, line: Line) -> None:
        operands = [self._operand(place, line) for place in range(4, line.first_result)]
        entries = self._entries(line)
        note = notes.Line(index, line.type, line.name, entries.keys, entries.texts, len(operands))
        places = range(line.first_result, line.first_entry)
        results = [value for place in places if (value := self._result(index, place, line, entries)) is not None]
        if any(value is None for value in operands) or len(results) < line.given:
            return
        given = [value for value in operands if value is not None]
        match line.type:
            case "pnnx.Input" if not given:
                for value in results:
                    value.notes[notes.LINE] = note
                    self.made.adopt_input(value)
            case "pnnx.Output" if not results:
                self.outputs.append(note)
                for value in given:
                    self.made.add_output(value)
            case "pnnx.Attribute" if not given and len(results) == 1 and list(entries.attributes) == ["@data"]:
                self._constant(results[0], entries, note)
            case _:
                self._node(line, given, results, entries, note)

    def _node(self, line: Line, given: list[Value], results: list[Value], entries: _Entries, note: notes.Line) -> None:
        word = line.type
        bare = word.removeprefix(_PREFIX)
        if "." not in bare and ":" not in bare:
            word = bare
        # Without operands it is a constant of any kind, a text even.
        if word == "Expression" and given:
            self._check_expression(line, given, results)

        def place() -> Span:
            return self.findings.span(line.word(0))

        for doubt in doubts_of_operator(line.name, word, entries.keys, given, place):
            self.findings.add(doubt)
        attributes = entries.attributes
        if word in _RESHAPES:
            shape, doubt = declared_shape(attributes, given, results, place)
            if shape is not None and doubt is not None:
                attributes = {**attributes, "shape": shape}
                self.findings.add(doubt)
        slots, doubt = read_results(word, attributes, given, results, place)
        if slots is not None and doubt is not None:
            placed = dict(zip(slots, results, strict=True))
            results = [placed.get(slot) or Value(f"{line.name}_{slot}", UNKNOWN) for slot in range(slots[-1] + 1)]
            self.findings.add(doubt)
        if any(entries.keys) and (len(given) > 1 or entries.keys[0] not in _PLAIN_KEYS):
            attributes = {**attributes, _KEYS: entries.keys}
        origin = self.places, note.index * Places.LONGEST
        notes_: Notes = {notes.LINE: note}
        self.made.append_new(word, given, results, attributes, DIALECT, line.name, origin, notes_)

    def _constant(self, value: Value, entries: _Entries, note: notes.Line) -> None:
        storage = entries.attributes["@data"]
        if storage is not None:
            value.storage = storage  # pyright: ignore[reportAttributeAccessIssue]  a weight is a storage or None
            value.fact = TensorFact.of(storage)  # pyright: ignore[reportArgumentType]
        value.notes[notes.LINE] = note
        self.made.adopt_constant(value)

    def _operand(self, place: int, line: Line) -> Value | None:
        name = line.words[place]
        value = self.known.get(name)
        if value is None:
            message = f"{line.name} reads the operand {name!r}, which no line above gives"
            self.findings.error("PNNX0004", message, line.word(place), "operators stand in the order in which they run")
        return value

    def _result(self, index: int, place: int, line: Line, entries: _Entries) -> Value | None:
        name = line.words[place]
        if name in self.known:
            message = f"the operand {name!r} is given twice"
            self.findings.error("PNNX0005", message, line.word(place), "every operand has one operator that gives it")
            return None
        shape = entries.shapes.get(name)
        origin = self.places, index * Places.LONGEST + place
        value = Value(name, UNKNOWN if shape is None else self._fact(name, *shape, line), origin=origin)
        value.notes[notes.SHAPE] = "" if shape is None else shape[0]
        self.known[name] = value
        self.made.reserve(name)
        return value

    def _fact(self, name: str, text: str, place: int, line: Line) -> Fact:
        known = self._facts.get(text)
        if known is not None:
            return known
        try:
            fact = TensorFact(*parse_tensor(text, name))
        except ValueError as error:
            offset = len(line.words[place]) - len(text)
            self.findings.error("PNNX0006", f"operand {name}: {error}", line.word(place, offset))
            return UNKNOWN
        if fact.is_static:
            self._facts[text] = fact
        return fact

    def _entries(self, line: Line) -> _Entries:
        keys = [""] * line.taken
        shapes: dict[str, tuple[str, int]] = {}
        plain: list[int] = []
        stored: list[int] = []
        words = line.words
        for place in range(line.first_entry, len(words)):
            word = words[place]
            match word[0]:
                case "#":
                    name, _, text = word.partition("=")
                    shapes[name[1:]] = intern(text), place
                case "$":
                    key, _, name = word.partition("=")
                    self._key(key[1:], name, place, line, keys)
                case "@":
                    stored.append(place)
                case _:
                    plain.append(place)
        attributes, texts = self._plain(line, plain)
        if stored:
            attributes = dict(attributes)
        for place in stored:
            key, _, _ = words[place].partition("=")
            if key in attributes:
                self._twice(line, key, place)
                continue
            attributes[key] = self.weights.storage(f"{line.name}.{key[1:]}", line.word(place, len(key) + 1))
        return _Entries(attributes, texts, tuple(keys), shapes)

    def _plain(self, line: Line, places: list[int]) -> tuple[dict[str, Attribute], dict[str, tuple[Attribute, str]]]:
        """The values of words that are no weights, and their texts: the same ones for lines that say the same."""
        stated = tuple([line.words[place] for place in places])
        known = self._known_values.get(stated)
        if known is not None:
            return known
        count = len(self.findings.found)
        attributes = PlainAttributes()
        texts: dict[str, tuple[Attribute, str]] = {}
        for place in places:
            key, _, text = line.words[place].partition("=")
            if key in attributes:
                self._twice(line, key, place)
                continue
            attributes[key] = self._value(key, text, place, line)
            texts[key] = (attributes[key], text)
        if len(self.findings.found) == count and not self.findings.left_out:
            self._known_values[stated] = attributes, texts
        return attributes, texts

    def _twice(self, line: Line, key: str, place: int) -> None:
        self.findings.error("PNNX0007", f"{line.name} says {key} twice", line.word(place, len(key) + 1))

    def _value(self, key: str, text: str, place: int, line: Line) -> Attribute:
        try:
            return parse_value(key, text)
        except (ValueError, OverflowError) as error:
            self.findings.error("PNNX0007", f"{key}: {error}", line.word(place, len(key) + 1))
            return None

    def _key(self, key: str, name: str, place: int, line: Line, keys: list[str]) -> None:
        """One operand may be given under several names: each of them stands for its next place."""
        for index, operand in enumerate(line.inputs):
            if operand == name and not keys[index]:
                keys[index] = intern(key)
                return
        message = f"{line.name} calls {name!r} its {key}, which is none of its operands"
        self.findings.error("PNNX0007", message, line.word(place, len(key) + 2))

    def _check_expression(self, line: Line, given: list[Value], results: list[Value]) -> None:
        place = next((n for n in range(line.first_entry, len(line.words)) if line.words[n].startswith("expr=")), None)
        if place is None:
            self.findings.error("PNNX0007", f"{line.name} is an expression and has no expr", line.word(1))
            return
        known = line.words[place], len(given)
        tree = self._expressions.get(known)
        if tree is None:
            found = line.word(place, len("expr="))
            count = len(self.findings.found)
            tree = self._expression(found, len(given))
            if tree is None:
                return
            if len(self.findings.found) == count and not self.findings.left_out:
                self._expressions[known] = tree
        for doubt in doubts_of_expression(
            tree, given, results, lambda: self.findings.span(line.word(place, len("expr=")))
        ):
            self.findings.add(doubt)

    def _expression(self, found: Word, count: int) -> Tree | None:
        """What an expression of `count` operands says; `None` after a finding."""
        text = Text(found.text, self.findings.source, found.start)
        try:
            parsed = parse(text, ARITIES, lenient=self.tolerant)
        except DiagnosticError as error:
            # The node is opaque then, and the same format can write it back.
            severity = Severity.WARNING if self.tolerant else Severity.ERROR
            for finding in error.diagnostics:
                self.findings.add(replace(finding, severity=severity))
            return None
        for finding in parsed.findings:
            self.findings.add(finding)
        for node in postorder(parsed.tree):
            if isinstance(node, Reference) and node.index >= count:
                message = f"@{node.index} names an operand that is not there: {count} are given"
                severity = Severity.WARNING if self.tolerant else Severity.ERROR
                help_ = "operands are counted from 0"
                self.findings.add(Diagnostic("PNNX0009", message, text.span(node.start, node.end), help_, severity))
        return parsed.tree
