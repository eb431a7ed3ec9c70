"""Ranges of valid integers for operands that are indices or lengths (`holds` of operator definitions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.core.facts import TensorFact

    Range = tuple[Dim, Dim | tuple[Dim, ...]]


def index_along_axis(data: TensorFact, *_: object, axis: int = 0, **__: object) -> Range:
    """An index along `axis` of the first operand."""
    return 0, data.dims[axis_index(axis, data.rank)]


def count_along_axis(data: TensorFact, *_: object, axis: int = -1, **__: object) -> Range:
    """A count of elements along `axis` of the first operand, at least 1: some runtimes refuse 0."""
    return 1, data.dims[axis_index(axis, data.rank)] + 1


def index_in_axes(data: TensorFact, indices: TensorFact, *_: object, batch_dims: int = 0, **__: object) -> Range:
    """An index along any of the axes that index vectors address."""
    count = indices.dims[-1]
    axes = data.dims[batch_dims:] if not isinstance(count, int) else data.dims[batch_dims : batch_dims + count]
    return 0, axes


def index_in_depth(_: TensorFact, depth: TensorFact, *__: object, **___: object) -> Range:
    """An index below the depth, which is the second operand."""
    return 0, (depth.elements or (1,))[0]


def row_of_table(x: TensorFact, table: TensorFact, *_: object, **__: object) -> Range:
    """A row index of the table, which is the second operand."""
    del x
    return 0, table.dims[0]


def class_of_score(scores: TensorFact, *_: object, **__: object) -> Range:
    """A class index along the second axis of the first operand."""
    return 0, scores.dims[1]


def steps_of_sequence(x: TensorFact, *_: object, layout: int = 0, **__: object) -> Range:
    """A sequence length: at least 1 and at most the number of steps."""
    return 1, _after(x.dims[1 if layout else 0])


def steps_along_time(x: TensorFact, *_: object, time_axis: int = 0, **__: object) -> Range:
    """A number of steps along `time_axis`."""
    return 1, _after(x.dims[time_axis])


def keys_of_sample(q: TensorFact, k: TensorFact, *_: object, **__: object) -> Range:
    """A number of keys."""
    del q
    return 1, _after(k.dims[-2])


def index_of_update(cache: TensorFact, update: TensorFact, *_: object, axis: int = -2, **__: object) -> Range:
    """The start index along `axis` of a cache at which an update fits."""
    return 0, _after(cache.dims[axis] - update.dims[axis])


def _after(dim: Any) -> Dim:
    return dim + 1
