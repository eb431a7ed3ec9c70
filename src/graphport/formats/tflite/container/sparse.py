"""Expand sparse constants to dense tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.tflite.container.flatbuffer import CorruptFileError, Extent, FlatBuffer, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPARSE = 1
_MAX_LEVELS = 128
"""Maximum number of levels: dims and block dims of a tensor of maximum rank."""


def dense(
    buffer: FlatBuffer, sparsity: Record, values: np.ndarray[Any, Any], shape: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Return the dense tensor with `values` at the indices of `sparsity`, zero elsewhere.

    Dims are traversed in the given order; those beyond the rank of the tensor are the block dims of the dims in the
    block map.

    Raises:
        CorruptFileError: indices are outside of the shape, or their count differs from the number of values.
    """
    order, levels = _order(sparsity, shape)
    sizes = _sizes(sparsity, order, shape)
    positions = np.zeros((1, len(order)), np.int64)
    groups = np.zeros(1, np.int64)
    for level, axis in enumerate(order):
        record = levels[level]
        if record["format"] == _SPARSE:
            groups, indices, origin = _compressed(buffer, record, groups, sizes[axis])
        else:
            if groups.size * sizes[axis] > max(values.size, 1):
                message = f"it has more indices than its {values.size} values"
                raise CorruptFileError(message)
            origin = np.repeat(np.arange(groups.size), sizes[axis])
            indices = np.tile(np.arange(sizes[axis]), groups.size)
            groups = groups[origin] * sizes[axis] + indices
        positions = positions[origin]
        positions[:, axis] = indices
    if len(positions) != values.size:
        message = f"it has {values.size} values, expected {len(positions)}, one per index"
        raise CorruptFileError(message)
    rank = len(shape)
    block_map = [int(axis) for axis in _index_array(buffer, sparsity["block_map"])]
    at = positions[:, :rank].copy()
    for block, axis in enumerate(block_map):
        at[:, axis] = at[:, axis] * sizes[rank + block] + positions[:, rank + block]
    result = np.zeros(tuple(shape), values.dtype)
    if len(at):
        result[tuple(at.T)] = values
    return result


def _order(sparsity: Record, shape: Sequence[int]) -> tuple[list[int], list[Record]]:
    order = [int(axis) for axis in (() if sparsity["traversal_order"] is None else sparsity["traversal_order"])]
    levels: list[Record] = sparsity.records("dim_metadata")
    is_order = len(levels) == len(order) and len(shape) <= len(order) <= _MAX_LEVELS
    if not is_order or sorted(order) != list(range(len(order))):
        message = (
            f"its traversal order {order} does not match the {len(shape)} dims and {len(levels) - len(shape)} blocks"
        )
        raise CorruptFileError(message)
    return order, levels


def _sizes(sparsity: Record, order: list[int], shape: Sequence[int]) -> list[int]:
    """Return the size of each dim in `order`'s numbering: of `shape`, counted in blocks, then of the blocks."""
    rank = len(shape)
    block_map = [int(axis) for axis in (() if sparsity["block_map"] is None else sparsity["block_map"])]
    if len(block_map) != len(order) - rank or any(not 0 <= axis < rank for axis in block_map):
        message = f"its block map {block_map} does not match {len(order) - rank} block dims"
        raise CorruptFileError(message)
    sizes = [*shape, *[0] * len(block_map)]
    for block, axis in enumerate(block_map):
        level = sparsity["dim_metadata"][order.index(rank + block)]
        size = int(level["dense_size"])
        if size <= 0 or sizes[axis] % size:
            message = f"blocks of {size} do not divide size {sizes[axis]} of dim {axis}"
            raise CorruptFileError(message)
        sizes[rank + block] = size
        sizes[axis] //= size
    if prod(sizes) > 1 << 40:
        message = f"it expands to {prod(sizes)} elements"
        raise CorruptFileError(message)
    return sizes


def _compressed(
    buffer: FlatBuffer, record: Record, groups: np.ndarray[Any, Any], size: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Expand a compressed (CSR) level: return positions in `array_indices`, indices along the dim, and parent segments.

    Raises:
        CorruptFileError: the segments or indices are invalid.
    """
    segments = _index_array(buffer, record["array_segments"])
    indices = _index_array(buffer, record["array_indices"])
    if len(segments) < 1 or segments[0] != 0 or segments[-1] != len(indices) or (np.diff(segments) < 0).any():
        message = f"its segments do not cover the {len(indices)} indices"
        raise CorruptFileError(message)
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        message = f"an index is outside of 0 to {size - 1}"
        raise CorruptFileError(message)
    if len(groups) and groups.max() + 1 >= len(segments):
        message = f"it has {len(segments) - 1} segments, expected {groups.max() + 1}"
        raise CorruptFileError(message)
    counts = segments[groups + 1] - segments[groups]
    if counts.sum() > len(indices):
        message = "its segments overlap"
        raise CorruptFileError(message)
    origin = np.repeat(np.arange(len(groups)), counts)
    rows = [np.arange(int(segments[g]), int(segments[g + 1])) for g in groups.tolist()]
    positions = np.concatenate([np.zeros(0, np.int64), *rows])
    return positions, indices[positions], origin


def _index_array(buffer: FlatBuffer, vector: Any) -> np.ndarray[Any, Any]:
    values = vector["values"] if isinstance(vector, Record) else vector
    if values is None:
        return np.zeros(0, np.int64)
    if isinstance(values, Extent):
        values = np.frombuffer(buffer.view(values.offset, values.length), np.uint8)
    return np.asarray(values, np.int64)
