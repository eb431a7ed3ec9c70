"""Write dialect graphs as ncnn files."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.atomic_write import together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.core.storage import Storage
from graphport.core.write_errors import write_remedy
from graphport.formats.ncnn.container.param import MAGIC, Layer, Spans
from graphport.formats.ncnn.container.precision import masked, parsed
from graphport.formats.ncnn.container.reader import DIALECT
from graphport.formats.ncnn.container.weight_order import Weight, weights_of
from graphport.formats.ncnn.container.weights import NARROW, narrowed, write_weight
from graphport.formats.ncnn.rules.annotations import LINE, annotation_parameters, batch_of
from graphport.formats.ncnn.rules.binding import AXES
from graphport.formats.ncnn.rules.emitting import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.ir.graph import Attribute, Graph, Node, Value

_TEXT = ".param"
_ARRAY = -23300
_LINES = 512
"""Number of lines per written block."""
_NAME = 255
"""Maximum bytes of a name in ncnn's reader (`%255s`); the excess would be read as another field."""
_STEM = 200
"""Bytes of a longer name that are kept; a unique suffix follows."""
_SHAPES = frozenset({"0", "1", "2", "11", "30"})
"""Parameters of an input that contain its shape."""


_LEAST_SNR = {"f16": 40.0, "bf16": 22.0}
"""Decibels that outputs keep where weights have 16 bits: one layer keeps some 70 or 52, and depth costs."""


def least_snr(**options: Any) -> float | None:
    """Return the SNR in dB that outputs keep with weights rounded by `options` of `write`; `None` without rounding."""
    kinds = {options.get("weights"), *parsed(options.get("precision") or (), "").values()}
    return min((least for kind, least in _LEAST_SNR.items() if kind in kinds), default=None)


def write(
    graph: Graph,
    path: str | Path,
    *,
    weights: str | None = None,
    precision: list[str] | tuple[str, ...] | None = None,
) -> None:
    """Write a dialect graph as `NAME.param` and `NAME.bin`.

    A blob has one consumer in ncnn: if several nodes use a value, the graph contains a `Split`.

    Args:
        graph: in the dialect `ncnn`.
        path: of the text.
        weights: `f16` or `bf16` stores the weights of layers as 16-bit floats, except those beyond the range.
        precision: `LAYER=TYPE` with layer names or patterns: `f32` computes in float32 whatever the runtime options
            are,
            `f16` or `bf16` permits only that type. Weights are stored in it, too.

    Raises:
        DiagnosticError: NCNN0301 a node is no layer of ncnn, NCNN0302 the weights do not match the layer, NCNN0303 a
            parameter cannot be written, NCNN0304 the files cannot be written, NCNN0305 an output is a constant,
                NCNN0306
            unsupported weight type, NCNN0307 no such layer, NCNN0308 a layer has int8 weights.
    """
    target = Path(path)
    if weights not in (None, "f32", *NARROW):
        message = f"unsupported float type of weights: {weights}; ncnn files store float32, float16 and bfloat16"
        remedy = "choose f32, f16 or bf16; for int8 weights, run graphport quantize --target ncnn"
        raise DiagnosticError(Diagnostic("NCNN0306", message, Span(Source(str(path))), remedy))
    kinds: dict[str, str] = {}
    if precision:
        graph, kinds = masked(graph, parsed(precision, str(path)), str(path))
    writer = _Writer(graph, Source(str(path)))
    pieces = writer.text()
    if writer.findings:
        raise DiagnosticError(*writer.findings)
    base = target.name.removesuffix(_TEXT)
    try:
        with together(target) as files:
            stored = files.open_file(target.with_name(f"{base}.bin"))
            for weight, storage, layer in writer.weights:
                dtype = NARROW.get(kinds.get(layer, weights) or "")
                write_weight(stored, weight, storage if dtype is None else narrowed(weight, storage, dtype))
            file = files.open_file(target)
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("NCNN0304", message, Span(Source(str(path))), write_remedy(error))) from error


class _Writer:
    def __init__(self, graph: Graph, source: Source) -> None:
        self.graph = graph
        self.source = source
        self.findings: list[Diagnostic] = []
        self.weights: list[tuple[Weight, Storage, str]] = []
        self._taken: set[str] = set()
        self._counters: dict[str, int] = {}
        self._layers: set[str] = set()
        self._renamed: dict[Value, str] = {}
        """Blob names of values that cannot keep their name."""
        self._words: dict[tuple[str, str], list[str]] = {}
        """Text of parameters by layer type and parameters, of layers without weights."""

    def text(self) -> list[bytes]:
        """Return the `.param` text in blocks, and collect the weights."""
        graph = self.graph
        for value in graph.values():
            name = self._fresh(value.name)
            if name != value.name:
                self._renamed[value] = name
        for value in graph.outputs:
            if value.is_constant and 0 in (value.shape or ()):
                message = f"the output {value.name} has no elements; ncnn has no empty blobs"
                self.findings.append(Diagnostic("NCNN0305", message, value.origin, "remove it from the outputs"))
            elif value.is_constant:
                message = f"the output {value.name} is constant; ncnn has no blob for a constant output"
                remedy = "remove it from the outputs"
                self.findings.append(Diagnostic("NCNN0305", message, value.origin, remedy))
        lines: list[str] = []
        pieces: list[bytes] = []
        count = 0
        for line in self._lines():
            lines.append(line)
            count += 1
            if len(lines) == _LINES:
                pieces.append(_encoded(lines))
                lines.clear()
        pieces.append(_encoded(lines))
        blobs = len(graph.inputs) + sum(len(node.results) for node in graph)
        return [_encoded([str(MAGIC), f"{count} {blobs}"]), *pieces]

    def _lines(self) -> Iterable[str]:
        graph = self.graph
        if not all(_source_offset(owner) >= 0 for owner in (*graph.inputs, *graph)):
            return chain(map(self._input, graph.inputs), chain.from_iterable(map(self._with_ends, graph)))
        # Nothing was added: the layers keep their positions.
        made = [(_source_offset(value), self._input(value)) for value in graph.inputs]
        made += [(_source_offset(node), line) for node in graph for line in self._with_ends(node)]
        made.sort(key=lambda item: item[0])
        return [line for _, line in made]

    def _with_ends(self, node: Node) -> list[str]:
        """Return the line of a node, and the line of an end layer for each unused result that is not an output."""
        ends = [value for value in node.outputs if value is not None and not value.uses]
        return [self._node(node), *[self._end(self._blob(value)) for value in ends]]

    def _blob(self, value: Value) -> str:
        return self._renamed.get(value) or value.name

    def _called(self, values: Sequence[Value]) -> list[str]:
        return list(map(self._blob, values)) if self._renamed else [value.name for value in values]

    def _end(self, blob: str) -> str:
        """Create a layer that consumes an unused blob, which ncnn would take for a model output."""
        return self._row("Noop", _short(f"unread_{blob}"), [blob], [], [])

    def _fresh(self, name: str) -> str:
        plain = _short(name if name.isidentifier() else "_".join(name.replace("=", "_").split()) or "_")
        found = unique(_short(plain, _STEM), self._taken, self._counters) if plain in self._taken else plain
        self._taken.add(found)
        return found

    def _input(self, value: Value) -> str:
        layer = value.note(LINE)
        blob = self._blob(value)
        if isinstance(layer, Layer):
            # Write a shape that was set after reading.
            lengths = [] if _SHAPES & layer.texts.keys() else _lengths(value)
            return self._row("Input", layer.name, [], [blob], [*lengths, *layer.texts.values()])
        parameters = [f"{key}={number}" for key, number in annotation_parameters(value).items()]
        return self._row("Input", blob, [], [blob], [*_lengths(value), *parameters])

    def _node(self, node: Node) -> str:
        if node.dialect != DIALECT:
            self._error("NCNN0301", f"{node.op} is not an ncnn layer", node)
        layer = node.note(LINE)
        outputs = self._called(node.results)
        words = self._parameters(node, layer if isinstance(layer, Layer) else None)
        name = _short(node.name or (outputs[0] if outputs else node.op_type))
        if not isinstance(layer, Layer):
            name = unique(_short(name, _STEM), self._layers, self._counters) if name in self._layers else name
        self._layers.add(name)
        return self._row(node.op_type, name, self._called(node.operands), outputs, words)

    def _parameters(self, node: Node, layer: Layer | None) -> list[str]:
        """Return the parameter fields of a line; collect the weights."""
        if layer is not None or "@0" in node.stated:
            self._collect(node)
            return [
                layer.texts[key]
                if layer is not None and layer.parameters.get(key) == value and key in layer.texts
                else self._parameter(node, key, value)
                for key, value in node.stated.items()
                if not key.startswith("@")
            ]
        # Equal numbers may differ in text (-0.0 and 0.0), but equal texts are equal numbers.
        form = node.op_type, repr(node.stated) if node.stated else ""
        words = self._words.get(form)
        if words is None:
            before = len(self.findings)
            self._collect(node)
            words = [self._parameter(node, key, value) for key, value in node.stated.items() if key[:1] != "@"]
            if len(self.findings) == before and not any(key[:1] == "@" for key in node.stated):
                self._words[form] = words
        return words

    def _row(self, type_: str, name: str, inputs: list[str], outputs: list[str], words: Iterable[str]) -> str:
        label = "_".join(name.split())
        head = f"{type_:<24} {label:<24} {len(inputs)} {len(outputs)}"
        return " ".join([head, *inputs, *outputs, *words])

    def _parameter(self, node: Node, key: str, value: Attribute) -> str:
        match value:
            case bool():
                return f"{key}={int(value)}"
            case int() | float() if _has_text(value):
                return f"{key}={_number_text(value)}"
            case str():
                return f"{key}={value}"
            case tuple() if all(isinstance(item, int | float) and _has_text(item) for item in value):
                items = [_number_text(item) for item in value if isinstance(item, int | float)]
                return f"{_ARRAY - int(key)}={','.join([str(len(items)), *items])}"
            case _:
                self._error("NCNN0303", f"{node.op}: parameter {key} is {value!r}", node)
                return f"{key}=0"

    def _collect(self, node: Node) -> None:
        stored = [node.stated[key] for key in sorted(k for k in node.stated if k.startswith("@"))]
        storages = [storage for storage in stored if isinstance(storage, Storage)]
        try:
            wanted = weights_of(node.op_type, node.stated)
        except ValueError as error:
            self._error("NCNN0302", f"{node.name or node.op}: {error}", node)
            return
        if [storage.count for storage in storages] != [weight.length for weight in wanted]:
            message = (
                f"{node.name or node.op} has weights of {[storage.count for storage in storages]} elements, "
                f"ncnn loads {[weight.length for weight in wanted]}"
            )
            self._error("NCNN0302", message, node)
            return
        name = node.name or node.results[0].name
        self.weights += [(weight, storage, name) for weight, storage in zip(wanted, storages, strict=True)]

    def _error(self, code: str, message: str, node: Node) -> None:
        self.findings.append(Diagnostic(code, message, node.origin or Span(self.source), "choose another format"))


def _lengths(value: Value) -> list[str]:
    """Return width, height, depth and channels of an input, if all are known."""
    fact = value.fact
    batch = batch_of(value)
    given = (fact.shape or ()) if isinstance(fact, TensorFact) else ()
    dims = [dim for axis, dim in enumerate(given) if axis != batch] or ([1] if value.is_input else [])
    # A size of 0 is open.
    lengths = [dim if isinstance(dim, int) else 0 for dim in dims]
    keys = [KEYS[name] for name in AXES.get(len(lengths), "")]
    if not isinstance(fact, TensorFact) or not keys or fact.shape is None:
        return []
    return [f"{key}={length}" for key, length in sorted(zip(keys, lengths, strict=True))]


def _source_offset(owner: Node | Value) -> int:
    """Return the text offset of the source line; -1 for a node or value that was not read from a text."""
    layer = owner.note(LINE)
    if not isinstance(layer, Layer):
        return -1
    if layer.start is not None:
        return layer.start
    origin = owner.unasked_origin
    if isinstance(origin, tuple):
        locations, index = origin
        return locations.offset(index) if isinstance(locations, Spans) else -1
    return -1 if origin is None or origin.start is None else origin.start


def _short(name: str, most: int = _NAME) -> str:
    """Return the name; a name longer than `most` bytes is truncated, with room for a number suffix."""
    stored = name.encode()
    return name if len(stored) <= most else stored[:_STEM].decode(errors="ignore")


def _encoded(lines: Sequence[str]) -> bytes:
    return "".join([f"{line}\n" for line in lines]).encode()


def _has_text(number: float) -> bool:
    """Whether ncnn parses a number: it has no syntax for infinity and NaN."""
    return isinstance(number, int) or abs(number) <= _LARGEST


_LARGEST = float(np.finfo(np.float32).max)


def _number_text(number: float) -> str:
    """Format the shortest decimal that ncnn parses to the same float32; its parser overflows beyond nine digits."""
    if isinstance(number, int):
        return str(number)
    value = np.float32(number)
    text = np.format_float_positional(value, trim="0")
    whole, _, rest = text.lstrip("-").partition(".")
    if len(whole) <= _MOST_DIGITS and len(rest) <= _MOST_DIGITS:
        return text
    return np.format_float_scientific(value, trim="0", exp_digits=1).replace("e+", "e")


_MOST_DIGITS = 9
"""Digits before and after the decimal point."""
