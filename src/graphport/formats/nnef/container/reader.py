"""Read NNEF models to graphs of the dialect `nnef`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, raise_errors
from graphport.core.dims import parse_dim
from graphport.formats.nnef.container.build import DIALECT, Builder, is_source
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.garbage_collection import paused_collection
from graphport.formats.nnef.container.lexer import comments
from graphport.formats.nnef.container.limits import DEFAULT, Limits, read_limits
from graphport.formats.nnef.container.naming import ORIGINAL_NAME, ORIGINALLY
from graphport.formats.nnef.container.original_text import NOTE, Original, Unread
from graphport.formats.nnef.container.packaging import FILES, FileLimits, open_container
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.propagation import Propagation
from graphport.formats.nnef.container.quant import check_quantization, parse_quantization
from graphport.formats.nnef.container.quantized import QUANTIZATION
from graphport.formats.nnef.container.single_pass import read_flat
from graphport.formats.nnef.container.sources import Sources
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.tract.reader import read_tract
from graphport.formats.nnef.container.tract.recognition import is_tract
from graphport.formats.nnef.container.weights import Weights
from graphport.ir.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.core.diagnostics import Source
    from graphport.core.dims import Dim
    from graphport.formats.nnef.container.check import Checked
    from graphport.formats.nnef.container.expand import Expansion
    from graphport.formats.nnef.container.packaging import Container
    from graphport.formats.nnef.container.quantized import Quantization
    from graphport.formats.nnef.container.syntax import Document

_LONGEST_NOTE = 1 << 16


def read(
    path: str | Path,
    *,
    edition: Edition | str | None = None,
    shapes: Mapping[str, Sequence[float | str]] | None = None,
    tolerant: bool = False,
    limits: Limits | None = None,
    files: FileLimits | None = None,
) -> tuple[Graph, list[Diagnostic]]:
    """Read the graph of a model, and warnings; elements stay in their files.

    Fragments are expanded and expressions evaluated; standard operations are kept. `external` creates inputs,
    `variable` and `constant` constants, all other operations nodes of the dialect `nnef` with all attributes. Scalar
    tensors are float32, integer ones int64, logical ones bool. Facts of results are set for flat texts only.

    Args:
        path: a folder, an archive, or a text, whose variables then have no elements.
        edition: provisional or final; `None` detects it.
        shapes: dims of inputs by name, where the document leaves them open.
        tolerant: report known deviations of other tools as warnings.
        limits: for the text; `None` reads `GRAPHPORT_LIMITS`.
        files: limits for file sizes; likewise.

    Raises:
        DiagnosticError: all errors of the first failing stage: files, syntax and rules, evaluation, elements.
    """
    container = open_container(path, files or read_limits(FILES))
    limits = limits or read_limits(DEFAULT)
    bound = {name: [_dim(dim) for dim in dims] for name, dims in (shapes or {}).items()}
    # The stages create many long-lived objects, so the cyclic garbage collector is paused.
    with paused_collection():
        return _read(container, None if edition is None else Edition(edition), bound, limits, tolerant=tolerant)


def _read(
    container: Container, edition: Edition | None, bound: Mapping[str, Sequence[Dim]], limits: Limits, *, tolerant: bool
) -> tuple[Graph, list[Diagnostic]]:
    source, quantization = container.graph(), container.quantization()
    if edition is None and is_tract(source.text or ""):
        return read_tract(container, source, bound)
    if edition is not Edition.PROVISIONAL and quantization is None:
        found: list[Diagnostic] = []
        graph = read_flat(source, bound, limits, Weights(container, Edition.FINAL, found))
        if graph is not None:
            findings = [*container.findings, *found]
            raise_errors(findings)
            _restore_names(graph, source.text or "")
            graph.notes[NOTE] = Original(graph, Unread(source, Edition.FINAL, bound, limits))
            return graph, findings
    parsed = parse(source, edition, limits)
    checked = check(parsed.document, limits=limits, tolerant=tolerant)
    findings = [*container.findings, *parsed.diagnostics, *checked.diagnostics]
    if (liberal := _liberal(container, source, bound, findings, tolerant=tolerant)) is not None:
        return liberal
    raise_errors(findings)
    expansion = expand(checked, infer=Propagation(), shapes=bound, limits=limits)
    findings += expansion.diagnostics
    if (liberal := _liberal(container, source, bound, findings, tolerant=tolerant)) is not None:
        return liberal
    quantized = {} if quantization is None else _quantizations(quantization, checked, expansion, limits, findings)
    raise_errors(findings)
    weights = Weights(container, parsed.document.edition, findings)
    graph = _Reading(parsed.document, expansion, weights, quantized).graph()
    raise_errors(findings)
    graph.notes[NOTE] = Original(graph, checked, quantization)
    return graph, findings


_LIBERTIES = frozenset(
    [
        "NNEF0206",
        "NNEF0304",
        "NNEF0309",
        "NNEF0322",
        "NNEF0323",
        "NNEF0326",
        "NNEF0329",
        "NNEF0346",
        "NNEF0401",
        "NNEF0402",
    ]
)
"""What torch_to_nnef writes against Khronos' text, and tract takes."""


def _liberal(
    container: Container,
    source: Source,
    bound: Mapping[str, Sequence[Dim]],
    findings: Sequence[Diagnostic],
    *,
    tolerant: bool,
) -> tuple[Graph, list[Diagnostic]] | None:
    """Read a document that violates only rules that tract does not have, with the standard's semantics."""
    errors = [finding for finding in findings if finding.is_error]
    if not tolerant or not errors or any(error.code not in _LIBERTIES for error in errors):
        return None
    try:
        graph, found = read_tract(container, source, bound, dialect=DIALECT)
    except DiagnosticError:
        return None
    message = f"the document requires the flavour 'tract': {errors[0].message}"
    remedy = "declare it: extension tract_registry tract_core;"
    return graph, [Diagnostic("NNEF0905", message, errors[0].span, remedy, Severity.WARNING), *found]


def _quantizations(
    source: Source, checked: Checked, expansion: Expansion, limits: Limits, findings: list[Diagnostic]
) -> dict[str, Quantization]:
    """Return the quantizations of the graph's tensors; errors go to `findings`."""
    parsed = parse_quantization(source, checked.document.edition, limits)
    labels = {
        str(operation.attributes["label"]): tensor
        for operation in expansion.operations
        if operation.name == "variable" and is_source(operation)
        for tensor in operation.outputs()
    }
    found, faults = check_quantization(parsed, checked.operations, expansion.tensors, labels, limits)
    findings += [*parsed.diagnostics, *faults]
    return found


def _dim(given: float | str) -> Dim:
    return given if isinstance(given, int) else parse_dim(str(given))


class _Reading:
    """Builds a graph from flat operations."""

    def __init__(
        self, document: Document, expansion: Expansion, weights: Weights, quantized: Mapping[str, Quantization]
    ) -> None:
        self._text = "" if document.source is None else document.source.text or ""
        self._expansion = expansion
        self._quantized = quantized
        self._graph = Graph(document.graph.name.text if document.graph is not None else "")
        self._builder = Builder(self._graph)
        self._sources = Sources(self._builder, weights, quantized)

    def graph(self) -> Graph:
        for tensor in self._expansion.inputs:
            if tensor.producer is not None:
                self._graph.adopt_input(self._sources.input(tensor, tensor.producer))
        for operation in self._expansion.operations:
            if not is_source(operation):
                self._builder.add(operation)
            elif operation.name != "external":
                self._sources.constant(operation)
        self._graph.set_outputs([self._builder.value(tensor) for tensor in self._expansion.outputs])
        _restore_names(self._graph, self._text)
        if self._quantized:
            self._note_quantizations()
        return self._graph

    def _note_quantizations(self) -> None:
        for value in self._graph.values():
            if value.name in self._quantized:
                value.notes[QUANTIZATION] = self._quantized[value.name]


def _restore_names(graph: Graph, text: str) -> None:
    """Record the original names of values, which the writer stores in comments."""
    names: dict[str, str] = {}
    for comment in comments(text):
        if comment.text.startswith(ORIGINALLY) and len(comment.text) <= _LONGEST_NOTE:
            names |= _noted_names(comment.text[len(ORIGINALLY) :])
    if names:
        for value in graph.values():
            if value.name in names:
                value.notes[ORIGINAL_NAME] = names[value.name]


def _noted_names(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    pairs = cast("dict[str, object]", found)
    return {name: original for name, original in pairs.items() if isinstance(original, str)}
