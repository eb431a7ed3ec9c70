"""Store weights in half precision, and compute in single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.quantization.placement import data_operands, is_float32

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_FEWEST = 16
"""Minimum number of elements of a converted constant: smaller ones save nothing."""
_FEWEST_NARROW = 1024
"""Minimum number of elements of a constant that keeps the narrow type of the source."""
_LARGEST = 65504.0


def half_weights(graph: Graph) -> Graph:
    """Return a copy of `graph` whose float32 constants are stored as float16.

    Before  y = Conv(x, w)
    After   y = Conv(x, Cast(w in float16))

    Does not apply to small constants, to constants beyond the range of float16, to outputs, and to values used in
    bodies.
    """
    twin = rewrite.copy(graph)
    for value in _float_constants(twin, _FEWEST):
        if _fits_range(value):
            _store(twin, value, DType.FLOAT16)
    return twin


def narrow_weights(graph: Graph, dtype: DType) -> Graph:
    """Return a copy of `graph` that stores large float32 constants in `dtype` if all elements are representable.

    Does not apply to scales, and to the exceptions of `half_weights`.
    """
    twin = rewrite.copy(graph)
    for value in _float_constants(twin, _FEWEST_NARROW):
        is_scale = any(user.op in ("QuantizeLinear", "DequantizeLinear") for user in value.users)
        if not is_scale and _is_exact(value, dtype):
            _store(twin, value, dtype)
    return twin


def _float_constants(graph: Graph, fewest: int) -> list[Value]:
    """Return the float32 constants with at least `fewest` elements that only nodes of `graph` read, as data."""
    found: list[Value] = []
    for value in graph.constants:
        users, stored = value.users, value.storage
        if stored is None or stored.count < fewest or not is_float32(value):
            continue
        is_read = len(users) == len(value.uses) > 0 and all(user.graph is graph and not user.dialect for user in users)
        if is_read and all(value in data_operands(user) for user in users):
            found.append(value)
    return found


def _fits_range(value: Value) -> bool:
    return value.storage is not None and bool(np.abs(value.storage.numpy()).max(initial=0) <= _LARGEST)


def _is_exact(value: Value, dtype: DType) -> bool:
    if value.storage is None:
        return False
    with np.errstate(over="ignore"):
        elements = value.storage.numpy()
        return bool(np.array_equal(elements.astype(dtype.numpy).astype(np.float32), elements))


def _store(graph: Graph, value: Value, dtype: DType) -> None:
    stored = value.storage
    if stored is None:
        return
    half = store_array(stored.numpy().astype(dtype.numpy), dtype)
    codes = graph.add_constant(graph.fresh(f"{value.name}_half"), TensorFact.of(half), half)
    real = Value(graph.fresh(f"{value.name}_single"), value.fact)
    graph.insert_after(None, Node("Cast", [codes], [real], {"to": DType.FLOAT32}))
    value.replace_uses(real)
    graph.remove_constant(value)
