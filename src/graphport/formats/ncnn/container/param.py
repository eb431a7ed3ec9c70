"""Lists of layers, as text and in binary."""

from __future__ import annotations

import re
import struct
from array import array
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span
from graphport.formats.ncnn.container.weight_order import BINARY_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source

MAGIC = 7767517
MOST_KEYS = 32
_ARRAY = -23300
_BINARY_END = -233
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_MOST_FINDINGS = 100
_LONGEST_NUMBER = 40
_PIECE = 1 << 16


Row: TypeAlias = "tuple[list[str], int]"
"""The fields of a line, and the position of the first one in the text."""


@dataclass(slots=True)
class Layer:
    """One layer of a file; `start` and `stop` delimit its op type in the text."""

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    parameters: dict[str, Any]
    texts: dict[str, str] = field(default_factory=dict[str, str])
    start: int | None = None
    stop: int | None = None


@dataclass(slots=True)
class Findings:
    """Collector of the diagnostics of one file, with the source locations of layers."""

    source: Source
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def error(self, code: str, message: str, layer: Layer | None, help: str | None = None) -> None:
        """Add an error at the location of `layer`, or of the file for `None`."""
        if len(self.found) < _MOST_FINDINGS:
            self.found.append(Diagnostic(code, message, self.span(layer), help))

    def warning(self, code: str, message: str, layer: Layer | None, help: str | None = None) -> None:
        """Add a warning at the location of `layer`, or of the file for `None`."""
        if len(self.found) < _MOST_FINDINGS:
            self.found.append(Diagnostic(code, message, self.span(layer), help, Severity.WARNING))

    def span(self, layer: Layer | None) -> Span:
        """Return the source location of `layer`: a text range, or the layer name in a binary file."""
        if layer is None:
            return Span(self.source)
        if layer.start is None:
            return Span(self.source, place=f'layer "{layer.name}"')
        return Span(self.source, layer.start, layer.stop)

    def settle(self) -> list[Diagnostic]:
        """Return the warnings.

        Raises:
            DiagnosticError: all diagnostics, if one is an error.
        """
        if any(finding.is_error for finding in self.found):
            raise DiagnosticError(*self.found)
        return list(self.found)


class Spans:
    """Computes source locations of layers on demand."""

    __slots__ = ("_names", "_source", "_starts", "_stops")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names: list[str] = []
        """Of layers that are in no text."""
        self._starts = array("q")
        self._stops = array("q")

    def add(self, start: int, stop: int) -> None:
        """Add the text range of the next layer."""
        self._starts.append(start)
        self._stops.append(stop)

    def add_named(self, name: str) -> None:
        """Add the name of the next layer of a binary file, which has no text ranges."""
        self._names.append(name)

    def offset(self, index: int) -> int:
        """Return the text offset of layer `index`; -1 in a binary file."""
        return -1 if self._names else self._starts[index]

    def span(self, index: int) -> Span:
        """Return the source location of layer `index`."""
        if self._names:
            return Span(self._source, place=f'layer "{self._names[index]}"')
        return Span(self._source, self._starts[index], self._stops[index])


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_text(text: str, findings: Findings) -> list[Layer]:
    """Parse the layers of a text.

    Raises:
        DiagnosticError: NCNN0001 wrong header, NCNN0002 the counts do not match the lines.
    """
    rows = rows_of(text)
    count = parse_head(rows, findings)
    known = ParameterCache({}, {})
    layers = [layer for row in rows if (layer := parse_layer(*row, known, findings)) is not None]
    if not findings.found:
        check_count(count, len(layers), findings)
    return layers


def parse_head(rows: Iterator[Row], findings: Findings) -> int:
    """Parse the first two lines, `7767517` and the counts of layers and blobs; return the layer count.

    Raises:
        DiagnosticError: NCNN0001 and NCNN0002, as `parse_text`.
    """
    nothing: Row = [], 0
    if next(rows, nothing)[0] != [str(MAGIC)]:
        findings.error("NCNN0001", f"the file does not begin with {MAGIC}", None)
        findings.settle()
    counts = next(rows, nothing)[0]
    if len(counts) != 2 or not all(_COUNT.fullmatch(count) for count in counts):
        findings.error("NCNN0002", "the second line is not the number of layers and of blobs", None)
        findings.settle()
    return int(counts[0])


def check_count(count: int, layers: int, findings: Findings) -> None:
    """Compare the layer count of the header with the number of layers."""
    if count != layers:
        message = f"the header declares {count} layers, the file has {layers}"
        findings.error("NCNN0002", message, None, "fetch the file again if it is truncated")


def rows_of(text: str) -> Iterator[Row]:
    """Yield the fields of each nonempty line, and the position of the first one."""
    start = 0
    while start < len(text):
        # A few lines at once: all of them would double the memory.
        stop = text.find("\n", start + _PIECE)
        piece = text[start:] if stop < 0 else text[start:stop]
        for line in piece.split("\n"):
            fields = line.split()
            if fields:
                yield fields, start + line.index(fields[0])
            start += len(line) + 1


class ParameterCache(NamedTuple):
    """Cache of parsed parameters."""

    parameters: dict[str, tuple[str, Any]]
    """The key and value of each."""
    lists: dict[tuple[str, ...], tuple[dict[str, Any], dict[str, str]]]
    """Lists of parsed lines by keys, values and fields: equal layers share lists."""


def parse_layer(fields: list[str], start: int, known: ParameterCache, findings: Findings) -> Layer | None:
    """Parse the fields of a line as a layer; return `None` after an error."""
    stop = start + len(fields[0])
    layer = Layer(intern(fields[0]), fields[1] if len(fields) > 1 else "", [], [], {}, {}, start, stop)
    if len(fields) < 4 or not all(_COUNT.fullmatch(field) for field in fields[2:4]):
        message = f"expected a name, an input count and an output count after {fields[0]!r}"
        findings.error("NCNN0003", message, layer)
        return None
    taken, given = int(fields[2]), int(fields[3])
    if 4 + taken + given > len(fields):
        message = (
            f"{layer.name} declares {taken} inputs and {given} outputs, the line has {len(fields) - 4} further fields"
        )
        findings.error("NCNN0003", message, layer, "complete the line, or correct its counts")
        return None
    layer.inputs = fields[4 : 4 + taken]
    layer.outputs = fields[4 + taken : 4 + taken + given]
    stated = tuple(fields[4 + taken + given :])
    alike = known.lists.get(stated)
    if alike is not None:
        layer.parameters, layer.texts = alike
        return layer
    count = len(findings.found)
    for assignment in stated:
        parameter = known.parameters.get(assignment)
        if parameter is None:
            parameter = _parameter(assignment, layer, findings)
            if parameter is None:
                continue
            known.parameters[assignment] = parameter
        layer.parameters[parameter[0]] = parameter[1]
        layer.texts[parameter[0]] = assignment
    if len(findings.found) == count:
        known.lists[stated] = layer.parameters, layer.texts
    return layer


def _parameter(assignment: str, layer: Layer, findings: Findings) -> tuple[str, Any] | None:
    """Parse `KEY=VALUE`, for example `0=64` or `-23303=2,3,3`; return key and value, or `None` after an error."""
    key, sign, text = assignment.partition("=")
    number = int(key) if re.fullmatch(r"-?\d{1,6}", key, re.ASCII) else MOST_KEYS
    is_array = number <= _ARRAY
    number = _ARRAY - number if is_array else number
    if not sign or not 0 <= number < MOST_KEYS:
        findings.error(
            "NCNN0004",
            f"{layer.name}: {assignment[:40]!r} is not a parameter",
            layer,
            "use parameters from 0=… to 31=…",
        )
        return None
    try:
        value = _array(text) if is_array else _value(text)
    except ValueError as error:
        findings.error("NCNN0004", f"{layer.name}: {error}", layer)
        return None
    return str(number), value


def _array(text: str) -> tuple[int | float, ...]:
    """Parse the array value `3,1,2,5`, in which the first number is the number of items."""
    count, *items = text.split(",")
    if not _COUNT.fullmatch(count) or int(count) != len(items):
        message = f"the array {text[:40]!r} does not have the declared length"
        raise ValueError(message)
    return tuple(_parse_number(item) for item in items)


def _value(text: str) -> int | float | str | tuple[int | float, ...]:
    if text[:1] == '"' or text[:1].isalpha():
        return text
    if "," in text:
        return tuple(_parse_number(item) for item in text.split(",") if item)
    return _parse_number(text)


def _parse_number(text: str) -> int | float:
    if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        message = f"expected a number, found {text[:40]!r}"
        raise ValueError(message)
    if any(mark in text for mark in ".eE"):
        return float(text)
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        message = f"{text[:40]} exceeds the int64 range"
        raise ValueError(message)
    return number


# ── binary ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_binary(data: bytes, findings: Findings) -> list[Layer]:
    """Parse a binary list of 32-bit numbers, which does not distinguish integers from floats.

    Raises:
        DiagnosticError: NCNN0001 to NCNN0005.
    """
    fields = _BinaryScanner(data, findings)
    if fields.read_integer() != MAGIC:
        findings.error("NCNN0001", f"the file does not begin with {MAGIC}", None)
        findings.settle()
    count, blobs = fields.read_integer(), fields.read_integer()
    if not 0 <= count <= len(data) // 16 or not 0 <= blobs <= len(data):
        findings.error(
            "NCNN0002",
            f"the header declares {count} layers and {blobs} blobs, but the file has {len(data)} bytes",
            None,
        )
        findings.settle()
    layers: list[Layer] = []
    for index in range(count):
        number, taken, given = fields.read_integer(), fields.read_integer(), fields.read_integer()
        if not 0 <= number < len(BINARY_TYPES):
            findings.error("NCNN0005", f"unknown type number {number} of layer {index}", None)
            findings.settle()
        inputs, outputs = fields.read_integers(taken), fields.read_integers(given)
        layer = Layer(BINARY_TYPES[number], f"layer_{index}", [str(i) for i in inputs], [str(i) for i in outputs], {})
        fields.parameters(layer)
        layers.append(layer)
    return layers


class _BinaryScanner:
    def __init__(self, data: bytes, findings: Findings) -> None:
        self.data = data
        self.findings = findings
        self.position = 0

    def read_integer(self) -> int:
        """Return the next 32-bit integer."""
        return self.read_integers(1)[0]

    def read_integers(self, count: int) -> tuple[int, ...]:
        """Return the next `count` 32-bit integers."""
        if count < 0 or self.position + 4 * count > len(self.data):
            message = f"truncated file: {count} values of 32 bits expected at byte {self.position}"
            self.findings.error("NCNN0005", message, None)
            self.findings.settle()
        found = struct.unpack_from(f"<{count}i", self.data, self.position)
        self.position += 4 * count
        return found

    def parameters(self, layer: Layer) -> None:
        """Read the parameters of `layer` up to the end mark."""
        while (key := self.read_integer()) != _BINARY_END:
            is_array = key <= _ARRAY
            number = _ARRAY - key if is_array else key
            if not 0 <= number < MOST_KEYS:
                self.findings.error("NCNN0004", f"{layer.name}: unknown parameter {key}", layer)
                self.findings.settle()
            if is_array:
                layer.parameters[str(number)] = tuple(map(_guessed, self.read_integers(self.read_integer())))
            else:
                layer.parameters[str(number)] = _guessed(self.read_integer())


def _guessed(assignment: int) -> int | float:
    """Interpret 32 bits as an integer if its magnitude is below 2^23, else as a float: the file has no type tags."""
    if -(1 << 23) < assignment < 1 << 23:
        return assignment
    return struct.unpack("<f", struct.pack("<i", assignment))[0]
