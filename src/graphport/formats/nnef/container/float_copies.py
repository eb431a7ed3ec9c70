"""Float copies of computed integers: the standard has arithmetic for floats only, tract has no `cast`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.build import DIALECT
from graphport.formats.nnef.container.item_types import Converted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.nnef.container.replacement import Replacement
    from graphport.ir.graph import Node, Value

_MOVED = frozenset(
    ("copy", "reshape", "transpose", "squeeze", "unsqueeze", "slice", "tile", "concat", "stack", "select")
)
"""Operators that only move or select elements."""
_EXTREMES = {"argmax_reduce": ("max_reduce", "eq"), "argmin_reduce": ("min_reduce", "eq")}
_MOST_NODES = 256
_MOST_TWIN = 1 << 24
"""Integers up to this value are exact in float32."""
_MOST_CHOSEN = 1 << 20
"""Entries that are compared, chosen and added up in the place of one `gather`."""
_MOST_ROWS = 1 << 22
"""Entries of a matrix of ones and zeros that a product takes rows with."""
_REAL, _BOOL = TensorFact(DType.FLOAT32, None), TensorFact(DType.BOOL, None)


def float_copy(m: Replacement, value: Value) -> Value | None:
    """Return a float copy of integer `value`; `None` if it depends on an input, which needs `cast`."""
    order = _computed_in(value)
    if order is None:
        return None
    twins: dict[Value, Value] = {}
    for each in order:
        if each.is_constant and each.storage is not None:
            twins[each] = m.stored(Converted(each.storage, DType.FLOAT32), is_literal=each.is_literal)
            continue
        node = each.producer
        twin = None if node is None else _copy_node(m, node, twins)
        if twin is None:
            return None
        twins[each] = twin
    return twins[value]


def _computed_in(value: Value) -> list[Value] | None:
    """Return the integers that `value` is computed from, operands first; `None` if many or from an input."""
    found: dict[Value, None] = {}
    waiting = [value]
    while waiting:
        each = waiting[-1]
        if each in found:
            waiting.pop()
            continue
        missing = [operand for operand in _integers(each) if operand not in found]
        if len(waiting) + len(found) > _MOST_NODES or (each.producer is None and not each.is_constant):
            return None
        if missing:
            waiting += missing
        else:
            found[waiting.pop()] = None
    return list(found)


def _integers(value: Value) -> list[Value]:
    node = value.producer
    if node is None or node.dialect != DIALECT or node.op_type not in _MOVED:
        return []
    return [operand for operand in _data_operands(node) if operand is not None]


def _data_operands(node: Node) -> Sequence[Value | None]:
    """Return the operands whose elements appear in the result."""
    return node.inputs[1:] if node.op_type == "select" else node.inputs


def _copy_node(m: Replacement, node: Node, twins: dict[Value, Value]) -> Value | None:
    if node.dialect != DIALECT:
        return None
    if node.op_type in _MOVED:
        operands = [x if x is None else twins.get(x, x) for x in node.inputs]
        if None in operands:
            return None
        return m.emit(node.op_type, *[x for x in operands if x is not None], fact=_REAL, **dict(node.attributes))
    if node.op_type in _EXTREMES:
        return _first_index_of_extreme(m, node)
    return _truncate(m, node) if node.op_type == "cast" else None


def _truncate(m: Replacement, node: Node) -> Value | None:
    """Truncate toward zero, like `cast<integer>`."""
    x = node.operands[0]
    dtype = x.dtype
    if dtype is DType.BOOL:
        return m.emit("select", x, 1.0, 0.0, fact=_REAL)
    if dtype is None or not dtype.is_floating:
        return None
    size = m.emit("floor", m.emit("abs", x, fact=_REAL), fact=_REAL)
    return m.emit("mul", m.emit("sign", x, fact=_REAL), size, fact=_REAL)


def _first_index_of_extreme(m: Replacement, node: Node) -> Value | None:
    """Compute the first index of the extreme.

    Before  y = argmax_reduce(x, axes = [1])
    After   y = min_reduce(select(eq(x, max_reduce(x, axes = [1])), [0, 1, 2, …], n), axes = [1])
    """
    x, axes = node.operands[0], node.attributes.get("axes")
    shape = x.shape
    if shape is None or not isinstance(axes, tuple) or len(axes) != 1 or not isinstance(axes[0], int):
        return None
    extent = shape[axes[0]]
    if not isinstance(extent, int) or not 0 < extent < _MOST_TWIN:
        return None
    reduced, compared = _EXTREMES[node.op_type]
    extreme = m.emit(reduced, x, fact=_REAL, axes=axes)
    indices = np.arange(extent, dtype=np.float32).reshape([extent if at == axes[0] else 1 for at in range(len(shape))])
    is_extreme = m.emit(compared, x, extreme, fact=_BOOL)
    gather_by_mask = m.emit("select", is_extreme, m.tensor(indices), float(extent), fact=_REAL)
    return m.emit("min_reduce", gather_by_mask, fact=_REAL, axes=axes)


def gather_by_mask(m: Replacement, axis: int) -> Value | None:
    """Replace `gather` of floats with computed indices by a masked sum.

    Before  y = gather(x, i)
    After   y = sum_reduce(select(eq(r, [0, 1, 2, …]), x, 0.0), axes = [1])                   r is i as floats
    """
    data, indices = m.node.operands[0], m.node.operands[1]
    shape, taken = _static(data), _static(indices)
    dtype = m.dtype()
    if shape is None or taken is None or dtype is None or not dtype.is_floating:
        return None
    extent, count = shape[axis], int(np.prod(taken))
    before, behind = shape[:axis], shape[axis + 1 :]
    rest = int(np.prod(before + behind))
    if not 0 < extent < _MOST_TWIN or not count or not rest:
        return None
    takes_rows = count * extent * rest > _MOST_CHOSEN
    if takes_rows and (count * extent > _MOST_ROWS or not _is_finite(data)):
        return None
    twin = float_copy(m, indices)
    if twin is None:
        return None
    row = m.emit("reshape", twin, fact=_REAL, shape=(count, 1), axis_start=0, axis_count=-1)
    row = m.emit(
        "select", m.emit("lt", row, 0.0, fact=_BOOL), m.emit("add", row, float(extent), fact=_REAL), row, fact=_REAL
    )
    is_taken = m.emit("eq", row, m.tensor(np.arange(extent, dtype=np.float32).reshape(1, extent)), fact=_BOOL)
    order = (axis, *range(axis), *range(axis + 1, len(shape)))
    first = data if axis == 0 else m.emit("transpose", data, fact=_REAL, axes=order)
    if takes_rows:
        flat = m.emit("reshape", first, fact=_REAL, shape=(extent, rest), axis_start=0, axis_count=-1)
        ones = m.emit("select", is_taken, 1.0, 0.0, fact=_REAL)
        y = m.emit("matmul", ones, flat, fact=_REAL, transposeA=False, transposeB=False)
    else:
        flat = m.emit("reshape", first, fact=_REAL, shape=(1, extent, rest), axis_start=0, axis_count=-1)
        wide = m.emit("unsqueeze", is_taken, fact=_BOOL, axes=(2,))
        y = m.emit("sum_reduce", m.emit("select", wide, flat, 0.0, fact=_REAL), fact=_REAL, axes=(1,), normalize=False)
    y = m.emit("reshape", y, fact=_REAL, shape=(*taken, *before, *behind), axis_start=0, axis_count=-1)
    if axis == 0:
        return y
    new = len(taken)
    back = (*range(new, new + axis), *range(new), *range(new + axis, new + len(shape) - 1))
    return m.emit("transpose", y, axes=back)


def _static(value: Value) -> tuple[int, ...] | None:
    shape = value.shape
    extents = tuple(extent for extent in shape or () if isinstance(extent, int))
    return None if shape is None or len(extents) != len(shape) else extents


def _is_finite(value: Value) -> bool:
    """Whether all elements are finite, so that products with 0 are 0."""
    storage = value.storage if value.is_constant else None
    return storage is not None and bool(np.isfinite(storage.numpy()).all())
