"""The files of a model to be written: their content, and what prevents writing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.formats.nnef.container.build import QUANTIZED
from graphport.formats.nnef.container.naming import LABEL
from graphport.formats.nnef.container.packaging import DATA, QUANTIZATION
from graphport.formats.nnef.container.quantized import Decoded
from graphport.formats.nnef.container.recognition import GRAPH
from graphport.formats.nnef.container.tensors import Payload, tensor_file

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.formats.nnef.container.original_text import Original
    from graphport.formats.nnef.container.syntax import Edition
    from graphport.ir.graph import Graph, Value


class Files:
    """The files of a model, and their diagnostics."""

    def __init__(self, graph: Graph, path: Path, edition: Edition) -> None:
        self.graph = graph
        self.edition = edition
        self.found: list[Diagnostic] = []
        self.data: dict[str, Payload] = {}
        self._path = path
        self._absent: list[str] = []

    def error(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        """Report an error at `span`, by default at the target path."""
        self.found.append(Diagnostic(code, message, span or Span(Source(str(self._path))), help))

    def add(self, value: Value, label: str, *, is_plain: bool) -> None:
        """Add the elements of a variable under `label`."""
        if value.storage is None:
            self._absent.append(value.name)
            return
        name = label + DATA
        if name in self.data:
            return
        storage = value.storage
        quantized = isinstance(storage, Decoded) or bool(value.has_notes and value.notes.get(QUANTIZED))
        if isinstance(storage, Decoded):
            storage, is_plain = storage.codes, False
        try:
            self.data[name] = tensor_file(
                storage, name, edition=self.edition, is_plain=is_plain, is_quantized=quantized
            )
        except DiagnosticError as error:
            self.found += error.diagnostics

    def check_ends(self) -> None:
        """Note that inputs or outputs are missing, of which a graph of NNEF has one or more each."""
        graph = self.graph
        if not graph.inputs or not graph.outputs:
            what = "inputs" if not graph.inputs else "outputs"
            self.error(
                "NNEF0760",
                f"NNEF requires at least one {what} in a graph",
                graph.origin,
                "choose outputs that depend on inputs, or another format",
            )

    def complete(self, text: str, quantization: str | None) -> dict[str, Payload]:
        """Return all files of the model; raises `DiagnosticError` if errors were reported."""
        is_text = self._path.suffix == ".nnef" and not self.data
        if self._absent and not is_text:
            message = f"the data of {len(self._absent)} variables is missing, for example '{self._absent[0]}'"
            self.error(
                "NNEF0769",
                message,
                None,
                "load the model with its weights, or write the graph without weights to a .nnef file",
            )
        if self.found:
            raise DiagnosticError(*self.found)
        files = {GRAPH: _payload(text), **self.data}
        return files if quantization is None else {**files, QUANTIZATION: _payload(quantization)}


class Verbatim(Files):
    """The files of an unchanged graph, whose original text is written again."""

    def __init__(self, graph: Graph, original: Original, source: Source, path: Path) -> None:
        super().__init__(graph, path, original.edition)
        self._source = source
        self._quantization = original.quantization

    def files(self) -> dict[str, Payload]:
        """All files of the model."""
        for value in self.graph.constants:
            label = value.notes.get(LABEL) if value.has_notes else None
            if isinstance(label, str):
                self.add(value, label, is_plain=False)
        return self.complete(self._source.text or "", self._quantization and self._quantization.text)


def _payload(text: str) -> Payload:
    content = text.encode("utf-8")
    return Payload(len(content), lambda: iter([content]))
