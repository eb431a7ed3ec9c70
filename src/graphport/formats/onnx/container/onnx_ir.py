"""Conversion from and to models of the package onnx-ir; elements are shared, not copied.

Both directions use a message whose large tensors refer to a file that does not exist; they are replaced afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.storage import CHUNK, ArrayStorage, Storage
from graphport.formats.onnx.container import types
from graphport.formats.onnx.container.encoded import packed_elements
from graphport.formats.onnx.container.findings import Findings
from graphport.formats.onnx.container.placement import DataFile
from graphport.formats.onnx.container.reader import build, parsed
from graphport.formats.onnx.container.tensors import Tensors
from graphport.formats.onnx.container.writer import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import onnx_ir

    from graphport.core.dtypes import DType
    from graphport.formats.onnx.container.encoded import Sink
    from graphport.ir.graph import Graph

_NOWHERE = "graphport"
"""Location of the placeholder tensors."""


def to_ir(graph: Graph, *, opset: int | None = None, findings: list[Diagnostic] | None = None) -> onnx_ir.Model:
    """Convert a raw or canonical graph to a model of onnx-ir, whose tensors are views of our storages.

    Sparse initializers become dense, and `training_info` is omitted, because onnx-ir has neither.

    Raises:
        DiagnosticError: ONNX0601 to ONNX0606 as of `write`; ONNX0010 onnx-ir is not installed.
    """
    ir = _onnx_ir()
    collected = Findings(Source(graph.name))
    data = DataFile(_NOWHERE, with_attributes=True)
    encoded = encode(graph, data, opset, collected, findings, with_sparse=False)
    proto = parsed(b"".join(bytes(chunk) for chunk in encoded.chunks()))
    proto.ClearField("training_info")
    model: onnx_ir.Model = ir.from_proto(proto)
    storages = dict(data.placed)

    def ours(tensor: Any) -> Any:
        if not isinstance(tensor, ir.ExternalTensor) or tensor.location != _NOWHERE:
            return tensor
        return StoredTensor(tensor, storages[tensor.offset or 0])

    _exchange(model, ours)
    return model


def from_ir(model: onnx_ir.Model, *, name: str = "model", findings: list[Diagnostic] | None = None) -> Graph:
    """The raw graph of a model of onnx-ir, whose storages are views on its tensors.

    Raises:
        DiagnosticError: as of `read`; ONNX0010 onnx-ir is not installed.
    """
    ir = _onnx_ir()
    twin = model.clone()
    given: list[Any] = []

    def stand_in(tensor: Any) -> Any:
        if (
            tensor.dtype not in types.DTYPES
            or isinstance(tensor, ir.StringTensor)
            or tensor.dtype == ir.DataType.STRING
        ):
            return tensor
        given.append(tensor)
        props = dict(tensor.metadata_props)
        return ir.ExternalTensor(
            _NOWHERE,
            len(given) - 1,
            None,
            tensor.dtype,
            shape=tensor.shape,
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            metadata_props=props,
        )

    _exchange(twin, stand_in)
    collected = Findings(Source(name))
    return build(ir.to_proto(twin), collected, Tensors(collected, PlaceholderTensors(given)), findings)


class GivenStorage(Storage):
    """Elements of a tensor of onnx-ir, read on demand."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any, dtype: DType, shape: Sequence[int]) -> None:
        super().__init__(dtype, shape)
        self.tensor = tensor

    def numpy(self) -> np.ndarray[Any, Any]:
        array = np.asarray(self.tensor.numpy()).reshape(self.shape).view()
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        return ArrayStorage(self.numpy(), self.dtype).chunks(limit)


class PlaceholderTensors:
    """Tensors by index: messages refer to them as external data with a placeholder location."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tensors

    def storage(
        self, entries: Mapping[str, str], dtype: DType, shape: Sequence[int], findings: Findings, place: str
    ) -> Storage | None:
        """Return the tensor whose index is the entry `offset`."""
        if entries.get("location") != _NOWHERE:
            findings.error("ONNX0402", f"the tensor's external data {entries.get('location')!r} is missing", place)
            return None
        return GivenStorage(self._tensors[int(entries["offset"])], dtype, shape)


class StoredTensor:
    """A storage with the interface of a tensor of onnx-ir."""

    def __init__(self, tensor: onnx_ir.ExternalTensor, storage: Storage) -> None:
        self.raw = storage
        self.name = tensor.name
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.doc_string = tensor.doc_string
        self.metadata_props = tensor.metadata_props
        self.meta = tensor.meta

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.raw.count

    @property
    def nbytes(self) -> int:
        """Bytes of the packed elements."""
        return self.raw.nbytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements, read-only."""
        return self.raw.numpy().reshape(self.shape.numpy())

    def tobytes(self) -> bytes:
        """Return the packed elements, little-endian."""
        return b"".join(bytes(chunk) for chunk in packed_elements(self.raw))

    def tofile(self, file: Sink) -> None:
        """Write the packed elements to `file`."""
        for chunk in packed_elements(self.raw):
            file.write(chunk)

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        # The DLPack versions in use cannot express read-only memory.
        return np.array(self.numpy()).__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __repr__(self) -> str:
        return f"StoredTensor<{self.dtype},{self.shape}>(name={self.name!r})"


def _exchange(model: onnx_ir.Model, replacement: Any) -> None:
    """Replace each tensor of a model by `replacement(tensor)`."""
    ir = _onnx_ir()
    for graph in [*model.graphs(), *_inner(model.functions.values())]:
        for value in getattr(graph, "initializers", {}).values():
            if value.const_value is not None:
                value.const_value = replacement(value.const_value)
        for node in graph:
            for name, attribute in list(node.attributes.items()):
                if attribute.type == ir.AttributeType.TENSOR and attribute.value is not None:
                    tensor = replacement(attribute.value)
                    node.attributes[name] = ir.AttrTensor(name, tensor, attribute.doc_string)


def _inner(functions: Iterable[onnx_ir.Function]) -> Iterator[Any]:
    for function in functions:
        yield function
        yield from function.subgraphs()


def _onnx_ir() -> Any:
    try:
        import onnx_ir
    except ImportError as error:
        message = "onnx_ir models require the package onnx-ir, which is not installed"
        raise DiagnosticError(Diagnostic("ONNX0010", message, help="install onnx-ir")) from error
    return onnx_ir
