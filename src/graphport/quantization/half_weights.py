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
_LARGEST = 65504.0


def half_weights(graph: Graph) -> Graph:
    """Return a copy of `graph` whose float32 constants are stored as float16.

    Before  y = Conv(x, w)
    After   y = Conv(x, Cast(w in float16))

    Does not apply to small constants, to constants beyond the range of float16, to outputs, and to values used in
    bodies.
    """
    twin = rewrite.copy(graph)
    for value in list(twin.constants):
        users = value.users
        is_read = len(users) == len(value.uses) > 0 and all(user.graph is twin and not user.dialect for user in users)
        if is_read and _is_fit(value) and all(value in data_operands(user) for user in users):
            _store(twin, value)
    return twin


def _is_fit(value: Value) -> bool:
    stored = value.storage
    if stored is None or stored.count < _FEWEST or not is_float32(value):
        return False
    return bool(np.abs(stored.numpy()).max(initial=0) <= _LARGEST)


def _store(graph: Graph, value: Value) -> None:
    stored = value.storage
    if stored is None:
        return
    half = store_array(stored.numpy().astype(np.float16), DType.FLOAT16)
    codes = graph.add_constant(graph.fresh(f"{value.name}_half"), TensorFact.of(half), half)
    real = Value(graph.fresh(f"{value.name}_single"), value.fact)
    graph.insert_after(None, Node("Cast", [codes], [real], {"to": DType.FLOAT32}))
    value.replace_uses(real)
    graph.remove_constant(value)
