"""Elements of variables, in the declared data-type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span
from graphport.core.dtypes import DType
from graphport.formats.nnef.container.item_types import Converted, NumberEncoding
from graphport.formats.nnef.container.quantized import Decoded, decoding_of
from graphport.formats.nnef.container.tar import fault_of_name
from graphport.formats.nnef.container.tensors import Tensor, read_tensor

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.packaging import Container
    from graphport.formats.nnef.container.quantized import Quantization
    from graphport.formats.nnef.container.syntax import Edition

_INTEGERS = (NumberEncoding.SIGNED, NumberEncoding.UNSIGNED)


class Weights:
    """The tensor files of a model by label; each is opened once, and errors go to `findings`."""

    def __init__(self, container: Container, edition: Edition, findings: list[Diagnostic]) -> None:
        self._container = container
        self._edition = edition
        self.findings = findings
        self._tensors: dict[str, Tensor | None] = {}
        self._storages: dict[tuple[str, str, int], Storage | None] = {}

    def may_have(self, label: str) -> bool:
        """Whether a file with this label may exist or the label is malformed; a model of text alone has no files."""
        return self._container.has_data or fault_of_name(label) is not None

    def storage(
        self, label: str, data: str, shape: tuple[int, ...], span: Span, quantization: Quantization | None = None
    ) -> Storage | None:
        """Return the elements of a variable, shared by variables of one label; `None` after an error.

        Args:
            label: of the variable.
            data: its data-type: scalar means float32, integer int64, logical bool.
            shape: the declared shape.
            span: location of the declaration.
            quantization: decodes codes if the file does not contain the mapping.
        """
        if label not in self._tensors:
            self._tensors[label] = self._open_tensor(label, span)
        tensor = self._tensors[label]
        if tensor is None:
            return None
        if tensor.storage.shape != shape:
            message = f"'{label}' has shape {list(shape)} in the document, but {list(tensor.storage.shape)} in its file"
            self._error("NNEF0750", message, span, "correct the shape in the document, or replace the file")
            return None
        key = label, data, id(quantization)
        if key not in self._storages:
            self._storages[key] = self._typed(label, data, tensor, span, quantization)
        return self._storages[key]

    def holds_codes(self, label: str) -> bool:
        """Whether the elements of `label` are marked as quantized codes."""
        tensor = self._tensors.get(label)
        return tensor is not None and tensor.item.is_quantized and tensor.item.decoding is None

    def _open_tensor(self, label: str, span: Span) -> Tensor | None:
        try:
            region = self._container.tensor(label)
            if region is not None:
                tensor = read_tensor(region, self._edition)
                self.findings += tensor.findings
                return tensor
        except DiagnosticError as error:
            self.findings += error.diagnostics
            return None
        if self._container.needs_data:
            message = f"missing file '{label}.dat'"
            self._error(
                "NNEF0754", message, span, "add the file, or load graph.nnef alone to read the graph without weights"
            )
        return None

    def _typed(
        self, label: str, data: str, tensor: Tensor, span: Span, quantization: Quantization | None
    ) -> Storage | None:
        item, storage = tensor.item, tensor.storage
        match data:
            case "scalar" if item.is_quantized and item.decoding is None:
                decoding = None if quantization is None else decoding_of(quantization)
                if decoding is not None:
                    return Decoded(storage, decoding)
                message = f"'{label}' contains quantized integers, but quantization parameters are missing"
                self._error("NNEF0753", message, span, "store floats, or add the quantization to graph.quant")
                return None
            case "scalar" if item.decoding is not None or item.kind is NumberEncoding.FLOAT:
                if storage.dtype is DType.FLOAT64:
                    message = f"'{label}' contains float64 data, which the reader rounds to float32"
                    self._warn("NNEF0755", message, span, "store float32 data")
                return _converted(storage, DType.FLOAT32, span)
            case "scalar" if item.kind in _INTEGERS:
                message = f"'{label}' is declared as scalar but contains integers"
                self._warn("NNEF0752", message, span, "declare it as variable<integer>, or store floats")
                return _converted(storage, DType.FLOAT32, span)
            case "integer" if item.kind in _INTEGERS and item.decoding is None:
                return _converted(storage, DType.INT64, span)
            case "logical" if item.kind is NumberEncoding.LOGICAL or (
                item.kind is NumberEncoding.UNSIGNED and item.bits in (1, 8)
            ):
                # Before there was an item type for logical values, they were unsigned integers.
                return _converted(storage, DType.BOOL, span)
            case _:
                message = f"'{label}' is declared as {data}, but its file contains {item}"
                self._error("NNEF0751", message, span, "correct the declaration or the file")
                return None

    def _error(self, code: str, message: str, span: Span, help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, help))

    def _warn(self, code: str, message: str, span: Span, help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, help, Severity.WARNING))


def _converted(storage: Storage, dtype: DType, span: Span) -> Storage:
    return storage if storage.dtype is dtype else Converted(storage, dtype, span)
