"""Tensor lists: TensorList operators and TensorArray operators, as tensors with a new first axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.tensorflow.container.findings import EXPORT
from graphport.formats.tensorflow.container.items import TensorList

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dtypes import DType
    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.items import Frame
    from graphport.formats.tensorflow.container.records import Record
    from graphport.ir.graph import Value


class UnstackedError(Exception):
    """A list without elements is read, or not written in order: it must be a tensor from the start."""

    def __init__(self, source: TensorList) -> None:
        super().__init__()
        self.source = source


def evaluate(building: Evaluator, frame: Frame, record: Record, operands: list[Any]) -> list[Any]:
    """The results of an operator on lists."""
    return OPERATORS[record.op_type](_Operation(building, frame, record, operands))


class _Operation:
    """An operator on lists that is being evaluated."""

    def __init__(self, building: Evaluator, frame: Frame, record: Record, operands: list[Any]) -> None:
        self.building = building
        self.record = record
        self.operands = operands
        self.name = f"{frame.prefix}{record.name}"

    def value(self, index: int) -> Value:
        return self.building.value(self.operands[index], self.record)

    def list(self, index: int) -> TensorList:
        found = self.operands[index]
        if not isinstance(found, TensorList):
            self.building.refuse(
                "TF0207", f"the input of {self.record.op_type} is not a tensor list", f"node {self.record.name}", EXPORT
            )
        return found

    def attribute(self, name: str) -> Any:
        return self.record.attribute(name, self.building.findings)

    @property
    def dtype(self) -> DType | None:
        return self.attribute("element_dtype") or self.attribute("dtype")

    def emit(self, op_type: str, *operands: Value) -> Value:
        return self.building.emit(op_type, operands, {}, self.name)[0]

    def stacked(self, index: int) -> Value:
        return stacked(self.building, self.list(index), self.record)


def stacked(building: Evaluator, found: TensorList, record: Record) -> Value:
    """The elements of a list along a new first axis.

    Raises:
        UnstackedError: the elements of a list of a loop are not known.
        DiagnosticError: TF0207 the shape of an element is not known.
    """
    if found.source is not None:
        raise UnstackedError(found.source)
    if found.stacked is None:
        if found.is_loop_input:
            raise UnstackedError(found)
        found.stacked = zeros(building, found, record)
    return found.stacked


def zeros(building: Evaluator, found: TensorList, record: Record) -> Value:
    """A list that was reserved, with elements of zeros.

    Raises:
        DiagnosticError: TF0207 the shape of an element is not known.
    """
    if found.size is None or found.element_shape is None or not _is_static(found.element_shape):
        text = f"{record.op_type}: the list has elements of an unknown shape"
        help = "declare the element shape of the tensor array"
        building.refuse("TF0207", text, f"node {record.name}", help)
    zero = building.constant(np.zeros((), np.float32 if found.dtype is None else found.dtype.numpy))
    return building.emit("TensorListReserve", [found.size, found.element_shape, zero], {}, f"{record.name}/zeros")[0]


def _is_static(shape: Value) -> bool:
    if shape.storage is None:
        return True
    dims = shape.storage.numpy().reshape(-1)
    return len(shape.storage.shape) == 1 and bool((dims >= 0).all())


# Making lists


def _reserve(op: _Operation) -> list[Any]:
    return [TensorList(op.dtype, size=op.value(1), element_shape=op.value(0))]


def _empty(op: _Operation) -> list[Any]:
    return [TensorList(op.dtype, element_shape=op.value(0))]


def _from_tensor(op: _Operation) -> list[Any]:
    return [TensorList(op.dtype, stacked=op.value(0))]


def _array(op: _Operation) -> list[Any]:
    """A TensorArray: a handle, and the flow, which has the elements here."""
    shape = op.attribute("element_shape")
    known = None if shape is None else op.building.constant(np.array(shape, np.int64))
    handle = TensorList(op.dtype, grows=bool(op.attribute("dynamic_size")))
    return [handle, TensorList(op.dtype, size=op.value(0), element_shape=known)]


# Elements


def _get(op: _Operation, found: int, index: int) -> list[Any]:
    return [op.emit("TensorListGetItem", op.stacked(found), op.value(index))]


def _set(op: _Operation, found: int, index: int, element: int) -> list[Any]:
    """Write an element; a list that grows is extended with zeros up to its index."""
    source, item, at = op.list(found), op.value(element), op.value(index)
    if source.stacked is None and source.source is None:
        if source.is_loop_input:
            return [TensorList(source.dtype, source=source, index=at, element=item)]
        if _is_reserved(source):
            source = _of_shape(op, source, item)
    dense = stacked(op.building, source, op.record)
    grows = bool(op.attribute("resize_if_index_out_of_bounds")) or op.list(0).grows
    options = {"resize_if_index_out_of_bounds": True} if grows else {}
    written = op.building.emit("TensorListSetItem", [dense, at, item], options, op.name)[0]
    return [TensorList(source.dtype, stacked=written)]


def _push(op: _Operation) -> list[Any]:
    source, element = op.list(0), op.value(1)
    if source.is_loop_input and source.source is None and source.stacked is None and source.size is None:
        return [TensorList(source.dtype, source=source, element=element)]
    if source.stacked is None and source.size is None and source.source is None:
        return [TensorList(source.dtype, stacked=op.emit("TensorListPushBack", element))]
    return [TensorList(source.dtype, stacked=op.emit("TensorListPushBack", element, op.stacked(0)))]


def _pop(op: _Operation) -> list[Any]:
    rest, last = op.building.emit("TensorListPopBack", [op.stacked(0)], {}, op.name, 2)
    return [TensorList(op.list(0).dtype, stacked=rest), last]


def _length(op: _Operation, index: int) -> list[Any]:
    found = op.list(index)
    if found.stacked is None and found.source is None and found.size is not None:
        return [found.size]
    if found.stacked is None and found.source is None and not found.is_loop_input:
        return [op.building.constant(np.array(0, np.int32))]
    return [op.emit("TensorListLength", op.stacked(index))]


def _gather(op: _Operation, found: int, indices: int) -> list[Any]:
    return [op.emit("TensorListGather", op.stacked(found), op.value(indices))]


def _scatter(op: _Operation, value: int, indices: int, count: int | None = None) -> list[Any]:
    """Make a list from the rows of a tensor. The operand `count` is the number of elements, -1 for no minimum."""
    at = op.value(indices)
    number = None if count is None or _scalar(op.value(count)) == -1 else op.value(count)
    maker = at.producer
    if (
        number is None
        and maker is not None
        and maker.op_type == "Range"
        and _scalar(maker.operand(0)) == 0
        and _scalar(maker.operand(2)) == 1
    ):
        return [TensorList(op.dtype, stacked=op.value(value))]
    sizes = () if number is None else (number,)
    return [TensorList(op.dtype, stacked=op.emit("TensorListScatter", op.value(value), at, *sizes))]


def _scatter_into(op: _Operation) -> list[Any]:
    """Replace the elements at indices by the rows of a tensor."""
    source, rows = op.list(0), op.value(1)
    if _is_reserved(source):
        first = op.building.constant(np.array(0, np.int32))
        source = _of_shape(op, source, op.emit("TensorListGetItem", rows, first))
    written = op.emit("ScatterUpdate", stacked(op.building, source, op.record), op.value(2), rows)
    return [TensorList(source.dtype, stacked=written)]


def _is_reserved(source: TensorList) -> bool:
    """Whether a list outside of loops has no elements yet, and their shape is not known."""
    is_empty = source.stacked is None and source.source is None and not source.is_loop_input
    return (
        is_empty and source.size is not None and (source.element_shape is None or not _is_static(source.element_shape))
    )


def _of_shape(op: _Operation, source: TensorList, element: Value) -> TensorList:
    """A reserved list whose elements have the shape of `element`."""
    return TensorList(source.dtype, size=source.size, element_shape=op.emit("Shape", element), grows=source.grows)


def _scalar(value: Value | None) -> Any:
    storage = None if value is None else value.storage
    return None if storage is None or storage.count != 1 else storage.numpy().reshape(-1)[0]


def _resize(op: _Operation) -> list[Any]:
    found = op.list(0)
    return [TensorList(found.dtype, stacked=op.emit("TensorListResize", op.stacked(0), op.value(1)))]


def _concat(op: _Operation, index: int) -> list[Any]:
    tensor, lengths = op.building.emit("TensorListConcatV2", [op.stacked(index)], {}, op.name, 2)
    return [tensor, lengths]


OPERATORS: dict[str, Callable[[_Operation], list[Any]]] = {
    "TensorListReserve": _reserve,
    "EmptyTensorList": _empty,
    "TensorListFromTensor": _from_tensor,
    "TensorListGetItem": lambda op: _get(op, 0, 1),
    "TensorListSetItem": lambda op: _set(op, 0, 1, 2),
    "TensorListStack": lambda op: [op.stacked(0)],
    "TensorListPushBack": _push,
    "TensorListPopBack": _pop,
    "TensorListLength": lambda op: _length(op, 0),
    "TensorListGather": lambda op: _gather(op, 0, 1),
    "TensorListScatterV2": lambda op: _scatter(op, 0, 1, 3),
    "TensorListScatter": lambda op: _scatter(op, 0, 1),
    "TensorListScatterIntoExistingList": _scatter_into,
    "TensorListResize": _resize,
    "TensorListConcatV2": lambda op: _concat(op, 0),
    "TensorListConcat": lambda op: _concat(op, 0),
    "TensorArrayV3": _array,
    "TensorArrayReadV3": lambda op: _get(op, 2, 1),
    "TensorArrayWriteV3": lambda op: _set(op, 3, 1, 2),
    "TensorArrayScatterV3": lambda op: _scatter(op, 2, 1),
    "TensorArrayGatherV3": lambda op: _gather(op, 2, 1),
    "TensorArrayConcatV3": lambda op: _concat(op, 1),
    "TensorArraySizeV3": lambda op: _length(op, 1),
}
"""The operators on lists; those without a list in the raw graph read and return tensors there."""
