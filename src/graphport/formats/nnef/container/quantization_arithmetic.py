"""Quantization as arithmetic, for readers that take a file of quantizations in two ways, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.build import DIALECT, QUANTIZED
from graphport.formats.nnef.container.item_types import Converted
from graphport.formats.nnef.container.quantized import (
    QUANTIZATION,
    Affine,
    Decoded,
    Quantization,
    decoding_of,
    quantization_of,
)
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

Array = np.ndarray[Any, Any]

_NEARLY_WHOLE = 1e-5
_REAL, _BOOL = TensorFact(DType.FLOAT32, None), TensorFact(DType.BOOL, None)


def as_arithmetic(graph: Graph) -> Graph:
    """Return a copy that simulates quantization with real arithmetic, for affine steps; else the graph itself.

    Before  y = conv(x, w) (quantized: scale, zero_point, 8 bits);  w (codes)
    After   r = conv(x, w);  q = round to even(r / scale) + zero_point, within 8 bits;  y = (q - zero_point) * scale

    w contains the decoded elements.
    """
    if not any(quantization_of(value) for value in graph.values()):
        return graph
    result = rewrite.copy(graph)
    for value in list(result.values()):
        quantization = quantization_of(value)
        if quantization is None:
            continue
        if isinstance(value.storage, Decoded):
            value.storage = Converted(value.storage, DType.FLOAT32)
            value.notes.pop(QUANTIZED, None)
        elif (steps := _steps(value, quantization)) is None:
            continue
        else:
            _round(result, value, *steps)
        del value.notes[QUANTIZATION]
    return result


def _steps(value: Value, quantization: Quantization) -> tuple[Array, Array, int, int] | None:
    """Return scale, zero point, least and greatest code; `None` if there is no affine form with integer codes."""
    decoding, given = decoding_of(quantization), quantization.arguments
    if not isinstance(decoding, Affine):
        return None
    bits, signed, symmetric = (int(cast("int", given.get(name, 0))) for name in ("bits", "signed", "symmetric"))
    whole = np.rint(decoding.zero_point)
    shape = value.shape
    is_one = decoding.scale.size == 1 and whole.size == 1
    if np.any(np.abs(decoding.zero_point - whole) > _NEARLY_WHOLE) or (shape is None and not is_one):
        return None
    rank = 0 if is_one else len(shape or ())
    scale, shift = (
        each.reshape(()) if each.size == 1 else each.reshape(each.shape + (1,) * (rank - each.ndim))
        for each in (decoding.scale, whole)
    )
    least = -(2 ** (bits - 1)) + bool(symmetric) if signed else 0
    return scale.astype(np.float32), shift.astype(np.float32), least, least + 2**bits - 1 - bool(signed and symmetric)


def _round(graph: Graph, value: Value, scale: Array, shift: Array, least: int, most: int) -> None:
    """Replace `value` for all its users by its quantized and dequantized form."""
    readers = list(value.uses)
    made = _Steps(graph, value)
    step, zero = made.constant(scale), made.constant(shift)
    x = made("div", value, step)
    below = made("floor", x)
    rest = made("sub", x, below)
    # Ties round to even: the even neighbor is 2 * floor((below + 1) / 2).
    even = made("mul", made("floor", made("add", made("mul", below, 0.5), 0.5)), 2.0)
    above = made("select", made("gt", rest, 0.5, fact=_BOOL), made("add", below, 1.0), even)
    whole = made("select", made("lt", rest, 0.5, fact=_BOOL), below, above)
    code = made("min", made("max", made("add", whole, zero), float(least)), float(most))
    result = made("mul", made("sub", code, zero), step, fact=value.fact)
    for use in readers:
        if isinstance(use.user, Node) or not value.is_input:
            use.read(result)
    if not value.is_input:
        rewrite.swap_names(value, result)


class _Steps:
    """Appends operations after the producer of a value."""

    def __init__(self, graph: Graph, value: Value) -> None:
        self._graph, self._value = graph, value
        self._last = value.producer

    def constant(self, array: Array) -> Value:
        """Add a constant: a literal if it is a scalar, else a variable."""
        storage = storage_of(np.ascontiguousarray(array).reshape(array.shape))
        name = self._graph.fresh(f"{self._value.name}_step")
        constant = self._graph.add_constant(name, TensorFact.of(storage), storage)
        constant.is_literal = not array.shape
        return constant

    def __call__(self, op_type: str, *operands: Value | float, fact: Any = _REAL) -> Value:
        values = [x if isinstance(x, Value) else self.constant(np.asarray(x, np.float32)) for x in operands]
        result = Value(self._graph.fresh(self._value.name), fact)
        node = Node(op_type, values, [result], {}, dialect=DIALECT, origin=self._value.origin)
        self._last = self._graph.insert_after(self._last, node)
        return result
