"""Read ncnn files as dialect graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.dims import Dim, Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.garbage_collection import paused_collection
from graphport.core.regular_files import belonging, contents
from graphport.core.sequences import is_sequence
from graphport.core.storage import MappedFile
from graphport.formats.ncnn.container import weight_order
from graphport.formats.ncnn.container.param import (
    MAGIC,
    Findings,
    Layer,
    ParameterCache,
    Spans,
    check_count,
    parse_binary,
    parse_head,
    parse_layer,
    rows_of,
)
from graphport.formats.ncnn.container.recognition import BINARY, TEXT
from graphport.formats.ncnn.container.weights import WeightReader
from graphport.formats.ncnn.rules.annotations import LINE, shape_of, type_of
from graphport.ir.attributes import PlainAttributes
from graphport.ir.graph import Graph, Value
from graphport.ir.notes import SharedNotes

if TYPE_CHECKING:
    from graphport.core.facts import Fact

DIALECT = "ncnn"
_HINTS = "30"
_FEW = {str(number): number for number in range(10)}
_MOST_FORMS = 1 << 12
"""Lines that are remembered."""


def versions(graph: Graph) -> dict[str, str]:
    """Return an empty mapping: ncnn files have no version."""
    del graph
    return {}


def read(path: str | Path) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of `NAME.param` (or `NAME.param.bin`) with the weights of `NAME.bin`, and warnings.

    Raises:
        DiagnosticError: NCNN0001 to NCNN0007 errors of layers, NCNN0101 to NCNN0103 of weights.
    """
    place = Path(path)
    try:
        content = contents(place)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, None, "check the path")) from error
    is_binary = content[:4] == MAGIC.to_bytes(4, "little")
    text = None if is_binary else content.decode("utf-8", "backslashreplace")
    findings = Findings(Source(str(path), text))
    base = place.name.removesuffix(BINARY if is_binary else TEXT)
    name = base.removesuffix(".ncnn") or "main"
    reader = _GraphReader(name, findings, belonging(place.with_name(f"{base}.bin"), place))
    with paused_collection():
        if text is None:
            reader.binary(content)
        else:
            del content
            reader.text(text)
        graph = reader.finished()
    return graph, findings.settle()


class _LineTemplate(NamedTuple):
    """Shared form of nodes whose lines differ only in names and have no diagnostics."""

    op_type: str
    parameters: PlainAttributes
    notes: SharedNotes
    facts: tuple[Fact, ...]


class _GraphReader:
    def __init__(self, name: str, findings: Findings, weights: Path) -> None:
        self.findings = findings
        self.weights = weights
        self.made = Graph(name)
        self.known: dict[str, Value] = {}
        self._reader: WeightReader | None = None
        self._is_missing = False
        self.places = Spans(findings.source)
        self._forms: dict[tuple[str, ...], _LineTemplate] = {}

    def text(self, text: str) -> None:
        """Read all layers of a text.

        Raises:
            DiagnosticError: as `parse_text`; errors of the graph are in the diagnostics.
        """
        wrong = Findings(self.findings.source)
        rows = rows_of(text)
        announced = parse_head(rows, wrong)
        known = ParameterCache({}, {})
        count = 0
        for words, start in rows:
            self.places.add(start, start + len(words[0]))
            if wrong.found or not self._repeat_layer(count, words):
                layer = parse_layer(words, start, known, wrong)
                if layer is not None and not wrong.found:
                    self._layer(count, layer, words)
            count += 1
        if not wrong.found:
            check_count(announced, count, wrong)
        wrong.settle()

    def binary(self, content: bytes) -> None:
        """Read all layers of a binary list.

        Raises:
            DiagnosticError: as `parse_binary`; errors of the graph are in the diagnostics.
        """
        for number, layer in enumerate(parse_binary(content, Findings(self.findings.source))):
            self.places.add_named(layer.name)
            self._layer(number, layer, None)

    def finished(self) -> Graph:
        """Return the graph of all layers; its outputs are the blobs without consumers."""
        self.made.set_outputs([value for value in self.known.values() if not value.uses and not value.is_input])
        if self._reader is not None and self._reader.num_unread_bytes and not self.findings.found:
            message = f"{self._reader.num_unread_bytes} bytes at the end of {self.weights.name} belong to no layer"
            self.findings.warning(
                "NCNN0103", message, None, "check the file: a layer of an unknown type may have weights"
            )
        return self.made

    def _repeat_layer(self, number: int, words: list[str]) -> bool:
        """Create the node of a line from the template of an equal earlier line; return `False` if there is none."""
        if len(words) < 4:
            return False
        taken, given = _FEW.get(words[2]), _FEW.get(words[3])
        if taken is None or given is None:
            return False
        middle = 4 + taken
        first = middle + given
        form = self._forms.get((*words[:1], *words[2:4], *words[first:]))
        if form is None or first > len(words):
            return False
        known, names = self.known, words[middle:first]
        operands = [known.get(name) for name in words[4:middle]]
        if None in operands or len(set(names)) < given or not known.keys().isdisjoint(names):
            return False
        origin = self.places, number
        results = [Value(name, fact, origin=origin) for name, fact in zip(names, form.facts, strict=True)]
        known.update(zip(names, results, strict=True))
        self.made.append_new(form.op_type, operands, results, form.parameters, DIALECT, words[1], origin, form.notes)
        return True

    def _layer(self, number: int, layer: Layer, words: list[str] | None) -> None:
        count = len(self.findings.found)
        operands = [self._operand(name, layer) for name in layer.inputs]
        results = [self._result(index, name, number, layer) for index, name in enumerate(layer.outputs)]
        given = [value for value in operands if value is not None]
        made = [value for value in results if value is not None]
        if len(given) < len(operands) or len(made) < len(results):
            return
        if layer.type == "Input" and not given:
            for value in made:
                value.notes[LINE] = layer
                value.fact = self._declared(layer, value)
                self.made.adopt_input(value)
            return
        weights = self._weights(layer)
        attributes = {**layer.parameters, **weights} if weights else layer.parameters
        origin = self.places, number
        # Nodes have individual names and locations.
        notes = SharedNotes({LINE: Layer(layer.type, "", [], [], layer.parameters, layer.texts)})
        facts = tuple(value.fact for value in made)
        self.made.append_new(layer.type, given, made, attributes, DIALECT, layer.name, origin, notes)
        if words is None or weights or len(self.findings.found) > count or len(self._forms) >= _MOST_FORMS:
            return
        key = (words[0], *words[2:4], *words[4 + len(given) + len(made) :])
        self._forms[key] = _LineTemplate(layer.type, PlainAttributes(layer.parameters), notes, facts)

    def _operand(self, name: str, layer: Layer) -> Value | None:
        value = self.known.get(name)
        if value is None:
            message = f"{layer.name} reads the blob {name!r}, which no earlier layer computes"
            self.findings.error("NCNN0006", message, layer, "order the layers topologically")
        return value

    def _result(self, index: int, name: str, number: int, layer: Layer) -> Value | None:
        if name in self.known:
            self.findings.error("NCNN0007", f"duplicate blob {name!r}", layer)
            return None
        value = Value(name, self._hint(index, layer), origin=(self.places, number))
        self.known[name] = value
        self.made.reserve(name)
        return value

    def _declared(self, layer: Layer, value: Value) -> Fact:
        """Return the shape that an `Input` layer declares by its parameters for width, height, channels and depth."""
        width, height, channels, depth = (weight_order.integer(layer.parameters, key) for key in (0, 1, 2, 11))
        shape: list[Dim] = [n for n in (channels, depth, height, width) if n > 0]
        extents = [
            (name, key) for name, key in (("c", 2), ("d", 11), ("h", 1), ("w", 0)) if str(key) in layer.parameters
        ]
        if shape and len(extents) > len(shape):
            # Sizes of 0 among others are open.
            lengths = [(name, weight_order.integer(layer.parameters, key)) for name, key in extents]
            shape = [n if n > 0 else Symbol(f"{value.name}.{name}", 1) for name, n in lengths]
        if not shape:
            return value.fact if value.fact != UNKNOWN else TensorFact(DType.FLOAT32, None)
        return TensorFact(type_of(layer.parameters) or DType.FLOAT32, shape_of(layer.parameters, tuple(shape)))

    def _hint(self, index: int, layer: Layer) -> Fact:
        """Return the converter's shape hint of a result: rank, width, height and channels."""
        hints = layer.parameters.get(_HINTS)
        if not is_sequence(hints) or len(hints) % 4 or len(hints) < 4 * index + 4:
            return UNKNOWN
        rank, width, height, channels = (int(n) for n in hints[4 * index : 4 * index + 4])
        shape = {1: (width,), 2: (height, width), 3: (channels, height, width)}.get(rank)
        if shape is None or any(n <= 0 for n in shape):
            return UNKNOWN
        return TensorFact(None, (1, *shape))

    def _weights(self, layer: Layer) -> dict[str, Any]:
        try:
            wanted = weight_order.weights_of(layer.type, layer.parameters)
        except ValueError as error:
            self.findings.error("NCNN0102", f"{layer.name}: {error}", layer)
            return {}
        if not wanted:
            return {}
        reader = self._open_weights(layer)
        found: dict[str, Any] = {}
        for index, weight in enumerate(wanted):
            if reader is None:
                break
            try:
                found[f"@{index}"] = reader.read(weight)
            except (ValueError, OSError) as error:
                help_ = "pass the .bin of this .param: it is truncated or belongs to another model"
                self.findings.error("NCNN0102", f"{layer.name}: {error}", layer, help_)
                self._reader, self._is_missing = None, True
                break
        return found

    def _open_weights(self, layer: Layer) -> WeightReader | None:
        if self._reader is None and not self._is_missing:
            try:
                self._reader = WeightReader(MappedFile(self.weights))
            except OSError as error:
                message = f"the weights of {self.weights.name} cannot be read: {error.strerror or error}"
                self.findings.error("NCNN0101", message, layer, "place the .bin next to the .param, with the same stem")
                self._is_missing = True
        return self._reader
