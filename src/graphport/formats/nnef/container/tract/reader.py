"""Models in tract's flavour to graphs of the dialect `tract`."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span, raise_errors
from graphport.core.dims import Constraint, TooLong, expression_of
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.nnef.container.build import QUANTIZED
from graphport.formats.nnef.container.naming import LABEL
from graphport.formats.nnef.container.quantized import QUANTIZATION, Decoded, decoding_of
from graphport.formats.nnef.container.tensors import read_tensor
from graphport.formats.nnef.container.tract.blocks import BLOCK, Blocked, read_blocked
from graphport.formats.nnef.container.tract.evaluate import DIALECT, Evaluator
from graphport.formats.nnef.container.tract.external_data import safetensors, submodel
from graphport.formats.nnef.container.tract.parser import parse
from graphport.formats.nnef.container.tract.quant import quantizations_of
from graphport.ir.graph import Graph, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.core.dims import Dim, Symbolic
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.packaging import Container
    from graphport.formats.nnef.container.quantized import Quantization
    from graphport.formats.nnef.container.tract.evaluate import Variable
    from graphport.formats.nnef.container.tract.parser import Document

NOTE = "tract"
"""Note of a graph in tract's flavour: properties and unknown extension directives."""
_RELATION = re.compile(r"([^<>=:]+)(<=|>=|==|<|>)([^<>=:]+)")
_MOST_DIGITS = 18
_SYMBOL = "tract_symbol"
_KNOWN = frozenset({"tract_registry", _SYMBOL, "tract_assert", "tract_pulse_streaming_symbol"})


def read_tract(
    container: Container,
    source: Source,
    shapes: Mapping[str, Sequence[Dim]],
    *,
    dialect: str = DIALECT,
    is_inner: bool = False,
) -> tuple[Graph, list[Diagnostic]]:
    """Read the graph of a model, and warnings; with the dialect `nnef`, op types have the standard's semantics.

    Raises:
        DiagnosticError: errors of the text, the elements or the quantizations.
    """
    document = parse(source)
    quantization = container.quantization()
    quantized = {} if quantization is None else quantizations_of(quantization)
    weights = _Weights(container, quantized)
    evaluator = Evaluator(
        document,
        weights.value,
        shapes,
        submodel=None if is_inner else lambda label: _submodel(container, label),
        dialect=dialect,
        quantized=quantized,
        bounds=_bounds(document),
    )
    graph = evaluator.evaluate()
    for constraint in _constraints(document, evaluator.symbols):
        graph.extents.require(constraint, Span(source))
    for value in list(graph.values()):
        if value.name in quantized and value not in evaluator.codes:
            value.notes[QUANTIZATION] = quantized[value.name]
    graph.notes[NOTE] = _properties(document)
    findings = [*container.findings, *evaluator.findings, *_unknown(document), *weights.findings]
    raise_errors(findings)
    return graph, findings


def _submodel(container: Container, label: str) -> Graph | None:
    """Return the graph of a model next to the text; nested submodels are not supported."""
    inner = submodel(container, label)
    return None if inner is None else read_tract(inner, inner.graph(), {}, is_inner=True)[0]


def _relations(document: Document) -> Iterator[tuple[str, str, str]]:
    """The two sides and the relation of each assertion outside of scenarios."""
    for op_type, rest in document.extensions:
        match = _RELATION.fullmatch(rest) if op_type == "tract_assert" else None
        if match is not None:
            yield match[1].strip(), match[2], match[3].strip()


def _bounds(document: Document) -> dict[str, tuple[int, int | None]]:
    """Return the bounds of symbols from assertions on a single symbol."""
    found: dict[str, tuple[int, int | None]] = {}
    for name, relation, number in _relations(document):
        if name.isidentifier() and number.isdecimal():
            (low, high), bound = found.get(name, (0, None)), int(number[:_MOST_DIGITS])
            if relation[0] in "=>":
                low = max(low, bound + (relation == ">"))
            if relation[0] in "=<":
                high = min(bound - (relation == "<"), bound if high is None else high)
            if high is None or low <= high:
                found[name] = low, high
    return found


def _constraints(document: Document, symbols: Mapping[str, Symbolic]) -> Iterator[Constraint]:
    """Yield constraints from assertions on symbolic expressions."""
    for left, relation, right in _relations(document):
        # Symbols are not negative, and so tract's division rounds as ours does.
        sides = [expression_of(side.replace("/", "//"), symbols) for side in (left, right)]
        if sides[0] is None or sides[1] is None:
            continue
        (a, b) = (sides[0], sides[1]) if relation[0] in "=<" else (sides[1], sides[0])
        with suppress(TooLong):
            yield Constraint(a + int(relation in ("<", ">")), "=" if relation == "==" else "<=", b)


def _unknown(document: Document) -> list[Diagnostic]:
    """Warn about each unknown or empty extension."""
    found: list[Diagnostic] = []
    for extension, rest in document.extensions:
        is_empty = extension == _SYMBOL and not rest
        if is_empty or (extension not in _KNOWN and not extension.startswith("KHR_")):
            message = (
                f"the extension '{extension}' has no symbol name" if is_empty else f"unknown extension '{extension}'"
            )
            found.append(
                Diagnostic(
                    "NNEF0338",
                    message,
                    None,
                    "the reader ignores the extension and preserves it as a note",
                    Severity.WARNING,
                )
            )
    return found


def _properties(document: Document) -> dict[str, object]:
    """The names of the registries, assertions and other extensions, and the text of the properties."""
    fragment = document.fragments.get("tract_core_properties")
    text = document.source.text or ""
    shown = ""
    if fragment is not None and fragment.body:
        value = fragment.body[0].value
        shown = text[value.start : value.stop]
    return {"extensions": tuple(document.extensions), "properties": shown}


class _Weights:
    """The tensor files of a model, each opened once."""

    def __init__(self, container: Container, quantized: Mapping[str, Quantization]) -> None:
        self.findings: list[Diagnostic] = []
        self._container = container
        self._quantized = quantized
        self._storages: dict[str, Storage | Blocked | None] = {}
        self._named: dict[str, Storage] | None = None

    def value(self, at: Evaluator, variable: Variable) -> Value:
        """Return the value of a variable: a constant, or dequantized blocks."""
        if variable.label not in self._storages:
            self._storages[variable.label] = self._open_storage(variable)
        found = self._storages[variable.label]
        if isinstance(found, Blocked):
            return _dequantized(at, variable, found)
        quantization = self._quantized.get(variable.name)
        storage = found
        if storage is not None and storage.shape != variable.shape:
            if storage.count != _volume(variable.shape):
                message = (
                    f"'{variable.label}' has shape {list(variable.shape)} "
                    f"in the document, but {list(storage.shape)} in its file"
                )
                raise at.fault("NNEF0750", message, None, "correct the shape in the document, or replace the file")
            storage = storage.reshaped(variable.shape)
        decoding = None if quantization is None else decoding_of(quantization)
        is_coded = storage is not None and storage.dtype.is_integer and decoding is not None
        if is_coded and storage is not None and decoding is not None:
            storage = Decoded(storage, decoding)
        fact = TensorFact(DType.FLOAT32, variable.shape) if storage is None else TensorFact.of(storage)
        root = at.home
        value = Value(root.fresh(variable.name), fact, storage=storage, origin=variable.span)
        value.notes[LABEL] = variable.label
        if is_coded:
            value.notes[QUANTIZED] = True
        return root.adopt_constant(value)

    def _open_storage(self, variable: Variable) -> Storage | Blocked | None:
        region = self._container.tensor(variable.label)
        if region is None:
            self._named = safetensors(self._container) if self._named is None else self._named
            if (stored := self._named.get(variable.label)) is not None:
                return stored
            if self._container.needs_data:
                message = f"missing file '{variable.label}.dat'"
                raise DiagnosticError(Diagnostic("NNEF0754", message, variable.span, "add it"))
            return None
        blocked = read_blocked(region)
        if blocked is not None:
            return blocked
        tensor = read_tensor(region)
        self.findings += tensor.findings
        return tensor.storage


def _volume(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _dequantized(at: Evaluator, variable: Variable, blocked: Blocked) -> Value:
    """Dequantize blocks along the last axis, in the declared shape."""
    from graphport.core.storage import storage_of

    root = at.home
    codes = storage_of(blocked.codes, DType.INT4)
    scales = ArrayStorage(blocked.scales, DType.FLOAT32)
    operands = [
        root.add_constant(root.fresh(f"{variable.name}_{part}"), TensorFact.of(storage), storage)
        for part, storage in (("codes", codes), ("scale", scales))
    ]
    stem = [variable.name]
    (value,) = at.node("DequantizeLinear", operands, 1, dialect="", names=stem, axis=1, block_size=BLOCK)
    if variable.shape == blocked.codes.shape:
        return value
    return at.node("Reshape", [value, at.tensor(list(variable.shape))], 1, dialect="", names=stem)[0]


__all__ = ["NOTE", "read_tract"]
