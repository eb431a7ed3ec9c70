"""Detect index tensors that enumerate all elements in order: such a gather or scatter is the identity."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.ops import registry
from graphport.ops.products import constant_elements, producer
from graphport.passes.parts import same_dims, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Node, Value


def takes_all(node: Node) -> bool:
    """Whether a Gather, GatherND or GatherElements returns its operand unchanged."""
    data, indices = shape_of(node.operand(0)), node.operand(1)
    if not data:
        return False
    match node.op:
        case "GatherND":
            return not node.attributes.get("batch_dims") and _covers_all(indices, data)
        case "GatherElements":
            return _numbers_all(indices, data, _axis(node, data))
        case _:
            return _counts(indices, (data[_axis(node, data)],))


def writes_all(node: Node) -> bool:
    """Whether a ScatterND or ScatterElements overwrites its whole operand with the updates in order."""
    data, indices, updates = (shape_of(node.operand(index)) for index in range(3))
    if not data or updates is None or not same_dims(data, updates) or indices is None:
        return False
    if node.attributes.get("reduction", "none") != "none":
        return False
    if node.op == "ScatterND":
        return _covers_all(node.operand(1), data)
    return _numbers_all(node.operand(1), data, _axis(node, data))


def _axis(node: Node, dims: Sequence[Dim]) -> int:
    axis = node.attributes.get("axis", 0)
    return axis % len(dims) if isinstance(axis, int) else 0


def _covers_all(indices: Value | None, dims: Sequence[Dim]) -> bool:
    """Whether index rows enumerate all positions along the first axes of `dims`, in order."""
    shape = shape_of(indices)
    depth = shape[-1] if shape else None
    if not isinstance(depth, int) or not 0 < depth <= len(dims):
        return False
    if depth == 1:
        return _counts(indices, (dims[0], 1))
    positions, counted = constant_elements(indices), _closed(dims[:depth])
    if positions is None or counted is None or shape is None or not same_dims(shape[:-1], counted):
        return False
    return bool((positions == np.moveaxis(np.indices(counted), 0, -1)).all())


def _numbers_all(indices: Value | None, dims: Sequence[Dim], axis: int) -> bool:
    """Whether `indices`, of shape `dims`, are constant and equal 0, 1, 2, … along `axis`."""
    positions, counted = constant_elements(indices), _closed(dims)
    if positions is None or counted is None or positions.shape != counted:
        return False
    return bool((positions == np.arange(counted[axis]).reshape(-1, *[1] * (len(counted) - axis - 1))).all())


def _counts(indices: Value | None, dims: Sequence[Dim]) -> bool:
    """Whether `indices` have shape `dims` and are 0, 1, 2, … in row-major order (constant or a Range)."""
    shape = shape_of(indices)
    if indices is None or shape is None or not same_dims(shape, dims):
        return False
    counted = constant_elements(indices)
    if counted is not None:
        return bool((counted.reshape(-1) == np.arange(counted.size)).all())
    # Reshapes keep the order of elements.
    reshaping = registry.stating("reshapes")
    while (maker := indices.producer) is not None and (maker.op in reshaping or maker.op == "Identity"):
        source = maker.operand(0)
        if source is None:
            return False
        indices = source
    made = producer(indices, "Range")
    start, step = (
        (None, None) if made is None else (constant_elements(made.operand(0)), constant_elements(made.operand(2)))
    )
    return start is not None and step is not None and not start.any() and bool((step == 1).all())


def _closed(dims: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return the dims as integers if their product is at most `_MOST`, else None."""
    found = tuple(each for each in dims if isinstance(each, int))
    return found if len(found) == len(dims) and prod(found) <= _MOST else None


_MOST = 1 << 20
"""Limit of compared indices."""
