"""Concatenation, splitting and repetition of tensors in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as ordered_choices
from itertools import combinations_with_replacement, pairwise
from math import comb
from typing import Any

import numpy as np

from graphport.core.dims import bounds
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import axis_of, bounded, emits, integers, length, scalar_of
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths, merged
from graphport.formats.pytorch.rules.promotion import promoted
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Abs
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Split, Squeeze, Tile, Unsqueeze
from graphport.ops.lowering.operands import vector
from graphport.ops.shapes import broadcast

# ── concatenate and split ─────────────────────────────────────────────────────────────────────────────────────────────


def _flatten_tensors(tensors: Sequence[Any]) -> list[Value]:
    flat = [item for each in tensors for item in (each if is_sequence(each) else [each])]
    return [item for item in flat if isinstance(item, Value)]


@emits("torch.cat", "torch.concat", "torch.concatenate", "aten::cat", "aten::concat")
def cat(b: Builder, *tensors: Value, dim: Any = 0) -> Value:
    # PyTorch ignores empty tensors of rank 1.
    found = [x for x in _flatten_tensors(tensors) if b.dims(x) != (0,)] or _flatten_tensors(tensors)
    return b(Concat, *promoted(b, *found), axis=axis_of(scalar_of(dim), len(b.dims(found[0]))))


@emits("torch.stack", "aten::stack")
def stack(b: Builder, *tensors: Value, dim: Any = 0) -> Value:
    found = _flatten_tensors(tensors)
    axis = axis_of(scalar_of(dim), len(b.dims(found[0])) + 1)
    return b(Concat, *(b(Unsqueeze, x, [axis]) for x in promoted(b, *found)), axis=axis)


@emits("torch.hstack", "aten::hstack")
def hstack(b: Builder, *tensors: Value) -> Value:
    found = [atleast(b, x, 1) for x in _flatten_tensors(tensors)]
    return b(Concat, *promoted(b, *found), axis=0 if len(b.dims(found[0])) == 1 else 1)


@emits("torch.vstack", "aten::vstack")
def vstack(b: Builder, *tensors: Value) -> Value:
    return b(Concat, *promoted(b, *(atleast(b, x, 2) for x in _flatten_tensors(tensors))), axis=0)


@emits("torch.column_stack", "aten::column_stack")
def column_stack(b: Builder, *tensors: Value) -> Value:
    found = [atleast(b, x, 1) for x in _flatten_tensors(tensors)]
    columns = [b(Unsqueeze, x, [1]) if len(b.dims(x)) == 1 else x for x in found]
    return b(Concat, *promoted(b, *columns), axis=1)


def atleast(b: Builder, x: Value, rank: int) -> Value:
    """Prepend axes of size 1 up to `rank`."""
    missing = rank - len(b.dims(x))
    return b(Unsqueeze, x, list(range(missing))) if missing > 0 else x


PNNX.having(atleast=atleast).lower("""
torch.atleast_1d, aten::atleast_1d(input) -> atleast(input, 1)
torch.atleast_2d, aten::atleast_2d(input) -> atleast(input, 2)
Tensor.expand_as, aten::expand_as(input, other) -> Expand(input, Shape(other))
""")


def _split(b: Builder, x: Value, axis: int, parts: Sequence[int]) -> tuple[Value, ...]:
    if len(parts) == 1:
        return (x,)
    return b.results(Split, len(parts), x, parts, axis=axis)


@emits("torch.chunk", "aten::chunk", "aten::unsafe_chunk")
def chunk(b: Builder, input: Value, chunks: Any, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    extent = length(b.dims(input), axis)
    size = max(-(-extent // int(scalar_of(chunks))), 1)
    return _split(b, input, axis, split_sizes(extent, size))


def split_sizes(extent: int, size: int) -> list[int]:
    full, rest = divmod(extent, size) if size else (0, extent)
    return [size] * full + ([rest] if rest or not full else [])


@emits("torch.split", "aten::split", "aten::split_with_sizes", "aten::unsafe_split", "Tensor.split")
def split(b: Builder, tensor: Value, split_size_or_sections: Any, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(scalar_of(dim), len(b.dims(tensor)))
    sizes = integers(split_size_or_sections)
    if is_sequence(split_size_or_sections) or len(sizes) != 1:
        return _split(b, tensor, axis, sizes)
    (size,) = sizes
    return _split(b, tensor, axis, split_sizes(length(b.dims(tensor), axis), size))


@emits("torch.tensor_split", "aten::tensor_split")
def tensor_split(
    b: Builder, input: Value, sections: Any = None, dim: Any = 0, indices: Any = None
) -> tuple[Value, ...]:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    extent = length(b.dims(input), axis)
    indices_or_sections = indices if indices is not None else sections
    if is_sequence(indices_or_sections):
        bounds: list[int] = [
            0,
            *(min(max(i + extent if i < 0 else i, 0), extent) for i in integers(indices_or_sections)),
            extent,
        ]
        if bounds == sorted(bounds):
            return _split(b, input, axis, [q - p for p, q in pairwise(bounds)])
        # Chunks overlap if an index is less than the previous one.
        return tuple(b(Slice, input, *(vector(b, [n]) for n in (*pair, axis))) for pair in pairwise(bounds))
    count = bounded(int(scalar_of(indices_or_sections)))
    return _split(b, input, axis, [extent // count + (i < extent % count) for i in range(count)])


@emits("torch.unbind", "aten::unbind")
def unbind(b: Builder, input: Value, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    parts = _split(b, input, axis, [1] * bounded(length(b.dims(input), axis)))
    return tuple(b(Squeeze, part, [axis]) for part in parts)


# ── expand and repeat ─────────────────────────────────────────────────────────────────────────────────────────────────


@emits("Tensor.expand", "torch.broadcast_to", "aten::expand", "aten::broadcast_to", ignores=("implicit",))
def expand(b: Builder, input: Value, sizes: Any = None, size: Any = None, shape: Any = None) -> Value:
    """Expand; -1 keeps a size, like 1 in ONNX."""
    target: Any = next((each for each in (sizes, size, shape) if each is not None), ())
    if is_sequence(target):
        target = lengths(b, [item if isinstance(item, Value) or item != -1 else 1 for item in target])
    return b(Expand, input, _without_negative(b, target))


def _without_negative(b: Builder, sizes: Value) -> Value:
    """Replace computed sizes of -1 by 1, and keep sizes of 0."""
    elements = sizes.fact.elements if isinstance(sizes.fact, TensorFact) else None
    if elements is None or any((low := bounds(size)[0]) is None or low < 0 for size in elements):
        return b(Abs, sizes)
    return sizes


@emits("torch.broadcast_tensors", "aten::broadcast_tensors")
def broadcast_tensors(b: Builder, *tensors: Value) -> tuple[Value, ...]:
    found = _flatten_tensors(tensors)
    dims = broadcast(*(b.dims(x) for x in found))
    target = vector(b, [length(dims, axis) for axis in range(len(dims))])
    return tuple(b(Expand, x, target) for x in found)


@emits("Tensor.repeat", "torch.tile", "aten::repeat", "aten::tile", "Tensor.tile")
def repeat(b: Builder, input: Value, sizes: Any = None, dims: Any = None, repeats: Any = None) -> Value:
    stated = next(each for each in (sizes, dims, repeats) if each is not None)
    times = stated if isinstance(stated, Value) else lengths(b, stated if is_sequence(stated) else (stated,))
    rank, count = len(b.dims(input)), length(b.dims(times), 0)
    more = vector(b, [1] * (rank - count))
    return b(Tile, atleast(b, input, count), b(Concat, more, times, axis=0) if rank > count else times)


@emits("torch.repeat_interleave", "aten::repeat_interleave")
def repeat_interleave(b: Builder, input: Value, repeats: Any, dim: Any = None, output_size: Any = None) -> Value:
    del output_size
    x = b(Reshape, input, [-1]) if dim is None else input
    axis = axis_of(0 if dim is None else scalar_of(dim), len(b.dims(x)))
    times = int(scalar_of(repeats))
    rank = len(b.dims(x))
    copies = b(Tile, b(Unsqueeze, x, [axis + 1]), [1] * (axis + 1) + [times] + [1] * (rank - axis - 1))
    return merged(b, copies, axis, axis + 1)


@emits("torch.cartesian_prod", "aten::cartesian_prod")
def cartesian_prod(b: Builder, *tensors: Value) -> Value:
    """Cartesian product of vectors, one combination per row."""
    found = list(_flatten_tensors(tensors))
    if len(found) == 1:
        return found[0]
    columns = [b(Reshape, x, [-1, 1]) for x in meshgrid(b, *found)]
    return b(Concat, *promoted(b, *columns), axis=1)


@emits("torch.combinations", "aten::combinations")
def combinations(b: Builder, input: Value, r: Any = 2, with_replacement: Any = False) -> Value:
    """Combinations of `r` elements of a vector, in lexicographic order of their indices."""
    take = combinations_with_replacement if scalar_of(with_replacement) else ordered_choices
    size, chosen = length(b.dims(input), 0), int(scalar_of(r))
    bounded(comb(size + chosen, chosen) * chosen)
    indices = np.array(list(take(range(size), chosen)), np.int64).reshape(-1, chosen)
    return b(Gather, input, b.constant(indices)) if chosen else b(Slice, input, [0], [0])


@emits("torch.meshgrid", "aten::meshgrid")
def meshgrid(b: Builder, *tensors: Value, indexing: str = "ij") -> tuple[Value, ...]:
    found = [b(Reshape, x, [-1]) for x in _flatten_tensors(tensors)]
    order = list(range(len(found)))
    if indexing == "xy" and len(found) > 1:
        order[:2] = [1, 0]
    counts = [b.dims(found[i])[0] for i in order]
    known = [n for n in counts if isinstance(n, int)]
    whole = vector(b, known) if len(known) == len(counts) else b(Concat, *(b(Shape, found[i]) for i in order), axis=0)
    results: list[Value] = []
    for index, x in enumerate(found):
        place = order.index(index)
        shape = [1] * len(found)
        shape[place] = -1
        results.append(b(Expand, b(Reshape, x, shape), whole))
    return tuple(results)
