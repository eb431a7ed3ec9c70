"""Weights in half the bytes: float16 in the file, converted back where they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import CHUNK, Bytes, Storage
from graphport.formats.openvino.container.notes import DECOMPRESSION
from graphport.formats.openvino.container.weights import Coded
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIN_ELEMENTS = 16
"""Constants with fewer elements (scales, limits, shapes) are not converted."""


class Fp16Weights(Storage):
    """Float32 elements of another storage, rounded to float16 on access."""

    __slots__ = ("of",)

    def __init__(self, of: Storage) -> None:
        super().__init__(DType.FLOAT16, of.shape)
        self.of = of

    def numpy(self) -> np.ndarray[Any, Any]:
        array = self.of.numpy().astype(np.float16)
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        left = b""
        for chunk in self.of.chunks(limit):
            whole = left + chunk if left else bytes(chunk)
            end = len(whole) - len(whole) % 4
            numbers = np.frombuffer(whole[:end], "<f4").astype("<f2")
            left = whole[end:]
            yield from Bytes(numbers.tobytes()).chunks(0, numbers.nbytes, limit)


def fp16_weights(graph: Graph) -> Graph:
    """Return a copy of a graph with large float32 constants stored as float16 and converted back.

    Does not apply to graph outputs, to constants with elements outside the float16 range or so small that even the
    largest would lose bits, and to storage that is smaller already (nf4).
    """
    result = rewrite.copy(graph)
    for inner in walk(result):
        for value in list(inner.constants):
            if _fits_float16(value):
                _halve(inner, value)
    return result


def _fits_float16(value: Value) -> bool:
    storage = value.storage
    if storage is None or storage.dtype is not DType.FLOAT32 or storage.count < _MIN_ELEMENTS or value.is_output:
        return False
    if isinstance(storage, Coded):
        return False
    reach = np.finfo(np.float16)
    # NaN is excluded here and stays NaN.
    chunks = (np.frombuffer(chunk, np.float32) for chunk in storage.chunks(1 << 20))
    greatest = max((float(np.abs(each).max(initial=0, where=np.isfinite(each))) for each in chunks), default=0.0)
    return greatest == 0 or float(reach.tiny) <= greatest <= float(reach.max)


def _halve(graph: Graph, value: Value) -> None:
    first = next((node for node in graph if value in node.operands), None)
    if first is None or value.storage is None:
        return
    storage = Fp16Weights(value.storage)
    small = graph.add_constant(f"{value.name}_compressed", TensorFact.of(storage), storage)
    wide = Value(graph.fresh(value.name), value.fact, origin=value.origin)
    node = Node("opset1.Convert", [small], [wide], {"destination_type": DType.FLOAT32}, dialect="openvino")
    node.notes[DECOMPRESSION] = True
    graph.insert_before(first, node)
    value.replace_uses(wide)
    graph.remove_constant(value)
    rewrite.swap_names(value, wide)
