"""Messages of arrays and plain data through a pipe: without pickle, with element types that NumPy lacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_HEAD = 8


def message(plain: dict[str, Any], values: Sequence[Any] = ()) -> Iterator[bytes | memoryview]:
    """A message of plain data and values (arrays, lists of arrays, `None`), as pieces to write in order."""
    buffers: list[memoryview] = []
    plans = [_plan(value, buffers) for value in values]
    head = json.dumps({"plain": plain, "values": plans, "sizes": [len(buffer) for buffer in buffers]}).encode()
    yield len(head).to_bytes(_HEAD, "little")
    yield head
    yield from buffers


def receive_message(read: Callable[[int], bytes | bytearray]) -> tuple[dict[str, Any], list[Any]]:
    """Read the next message with `read`, which returns exactly the requested number of bytes.

    Raises:
        EOFError: `read` does, where there are no more.
    """
    head: dict[str, Any] = json.loads(read(int.from_bytes(read(_HEAD), "little")))
    buffers = iter([read(size) for size in head["sizes"]])
    return head["plain"], [_value(plan, buffers) for plan in head["values"]]


def _plan(value: Any, buffers: list[memoryview]) -> Any:
    if value is None:
        return None
    if is_sequence(value):
        return {"list": [_plan(item, buffers) for item in value]}
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        return {"texts": [_text(item) for item in array.reshape(-1).tolist()], "shape": array.shape}
    dense = np.ascontiguousarray(array)
    buffers.append(dense.reshape(-1).view(np.uint8).data)
    return {"dtype": array.dtype.name, "shape": array.shape}


def _text(item: Any) -> str:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)


def _value(plan: Any, buffers: Iterator[bytes | bytearray]) -> Any:
    if plan is None:
        return None
    if "list" in plan:
        return [_value(item, buffers) for item in plan["list"]]
    shape = cast("list[int]", plan["shape"])
    if "texts" in plan:
        found = np.empty(len(plan["texts"]), object)
        found[:] = plan["texts"]
        return found.reshape(shape)
    return np.frombuffer(next(buffers), dtype_of(plan["dtype"])).reshape(shape)


def dtype_of(name: str) -> Any:
    """The NumPy type of a name, including the types that ml_dtypes adds."""
    try:
        return np.dtype(name)
    except TypeError:
        from graphport.core.dtypes import DType

        return DType.of(name).numpy
