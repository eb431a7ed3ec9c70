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

_LEAST = 16
"""Elements below which a constant is left as it is: scales, limits, shapes."""


class Fp16Weights(Storage):
    """Float32 numbers of another storage as float16, rounded when they are asked for."""

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
    """A copy of a graph whose larger float32 constants are float16 ones that are converted back.

    Leaves alone: constants that an output returns, those with numbers that float16 does not reach, those of which even
    the largest number would lose bits because it is so small, and those that take less already (nf4).
    """
    result = rewrite.copy(graph)
    for inner in walk(result):
        for value in list(inner.constants):
            if _fits(value):
                _halve(inner, value)
    return result


def _fits(value: Value) -> bool:
    storage = value.storage
    if storage is None or storage.dtype is not DType.FLOAT32 or storage.count < _LEAST or value.is_output:
        return False
    if isinstance(storage, Coded):
        return False
    reach = np.finfo(np.float16)
    # NaN is not finite, and stays NaN.
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
