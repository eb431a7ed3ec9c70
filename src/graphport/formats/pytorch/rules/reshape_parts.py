"""Concatenation and splitting in exported programs, also along open dims."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from graphport.core.dims import Symbolic
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import axis_of, scalar_of
from graphport.formats.pytorch.rules.functions.reshape_parts import chunk as pnnx_chunk
from graphport.formats.pytorch.rules.functions.reshape_parts import split as pnnx_split
from graphport.formats.pytorch.rules.functions.reshape_parts import tensor_split as pnnx_tensor_split
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths, merged
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import promoted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Min, Mul, Sub
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Split, Tile, Unsqueeze
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import vector


@aten("aten.chunk", "aten.unsafe_chunk")
def chunk(b: Builder, self: Value, chunks: Any, dim: Any = 0) -> tuple[Value, ...]:
    """chunk into the node's number of results; along an open dim, all but the last have ceil(n / chunks) elements."""
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    if not isinstance(b.dims(self)[axis], Symbolic):
        return pnnx_chunk(b, self, chunks, dim)
    return _shared(b, self, axis, int(scalar_of(chunks)))


def _shared(b: Builder, x: Value, axis: int, count: int) -> tuple[Value, ...]:
    size = extent(b, x, axis)
    share = b(Div, b(Add, size, [count - 1]), [count])
    bounds = [vector(b, [0]), *(b(Mul, share, [k]) for k in range(1, b.count)), size]
    place = vector(b, [axis])
    return tuple(b(Slice, x, *pair, place) for pair in pairwise(bounds))


@aten("aten.tensor_split.sections")
def tensor_split(b: Builder, self: Value, sections: Any, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    if not isinstance(b.dims(self)[axis], Symbolic):
        return pnnx_tensor_split(b, self, sections, dim)
    count, size = int(scalar_of(sections)), extent(b, self, axis)
    # The first chunks have one element more if the size is not divisible.
    share = b(Div, size, [count])
    rest = b(Sub, size, b(Mul, share, [count]))
    starts = [(vector(b, [k]), b(Mul, share, [k])) for k in range(1, count)]
    bounds = [vector(b, [0]), *(b(Add, start, b(Min, rest, place)) for place, start in starts), size]
    return tuple(b(Slice, self, *pair, vector(b, [axis])) for pair in pairwise(bounds))


@aten("aten.split", "aten.split.sizes", "aten.unsafe_split")
def split(b: Builder, self: Value, split_size: Any = None, dim: Any = 0, split_sizes: Any = None) -> Any:
    """split by one size, or by a list of sizes, which may be run-time values."""
    sizes = split_size if split_size is not None else split_sizes
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    if is_sequence(sizes):
        if len(sizes) == 1:
            return (self,)
        if not any(isinstance(size, Value) for size in sizes):
            return pnnx_split(b, self, tuple(sizes), axis)
        return b.results(Split, len(sizes), self, lengths(b, sizes), axis=axis)
    if not isinstance(b.dims(self)[axis], Symbolic) and not isinstance(sizes, Value):
        return pnnx_split(b, self, sizes, axis)
    step = b(Reshape, sizes, [1]) if isinstance(sizes, Value) else vector(b, [int(sizes)])
    bounds = [b(Mul, step, [k]) for k in range(b.count)]
    place = vector(b, [axis])
    return tuple(b(Slice, self, start, b(Add, start, step), place) for start in bounds)


RULES.lower("""
aten.split_with_sizes, aten.split_with_sizes_copy, aten.unsafe_split_with_sizes(self, split_sizes, dim=0)
    -> aten.split(self, split_sizes, dim)
aten.hsplit(self, sections=None, indices=None)
    -> torch.tensor_split(self, indices if sections is None else sections, 0 if rank(self) == 1 else 1)
aten.vsplit(self, sections=None, indices=None)
    -> torch.tensor_split(self, indices if sections is None else sections, 0)
aten.dsplit(self, sections=None, indices=None)
    -> torch.tensor_split(self, indices if sections is None else sections, 2)
""")


@aten("aten.cat", "aten.concat", "aten.concatenate")
def cat(b: Builder, tensors: Any, dim: Any = 0) -> Value:
    """Concatenate in the promoted element type."""
    found = [x for x in tensors if b.dims(x) != (0,)] or list(tensors)
    wide = promoted(b, *found)
    return b(Concat, *wide, axis=axis_of(scalar_of(dim), len(b.dims(wide[0]))))


@aten("aten.stack")
def stack(b: Builder, tensors: Any, dim: Any = 0) -> Value:
    wide = promoted(b, *tensors)
    axis = axis_of(scalar_of(dim), len(b.dims(wide[0])) + 1)
    return b(Concat, *(b(Unsqueeze, x, [axis]) for x in wide), axis=axis)


@aten("aten.repeat", "aten.tile")
def repeat(b: Builder, self: Value, repeats: Any = None, dims: Any = None) -> Value:
    times = list(repeats if repeats is not None else dims)
    rank = len(b.dims(self))
    x = b(Unsqueeze, self, list(range(len(times) - rank))) if len(times) > rank else self
    return b(Tile, x, lengths(b, [1] * (rank - len(times)) + times))


@aten("aten.repeat_interleave.self_int")
def repeat_interleave(b: Builder, self: Value, repeats: Any, dim: Any = None, output_size: Any = None) -> Value:
    del output_size
    x = b(Reshape, self, [-1]) if dim is None else self
    axis = axis_of(0 if dim is None else scalar_of(dim), len(b.dims(x)))
    rank = len(b.dims(x))
    times: list[Any] = [1] * (rank + 1)
    times[axis + 1] = repeats
    copies = b(Tile, b(Unsqueeze, x, [axis + 1]), lengths(b, times))
    return merged(b, copies, axis, axis + 1)


@aten("aten.meshgrid")
def meshgrid(b: Builder, tensors: Any, indexing: str = "ij") -> tuple[Value, ...]:
    found = [b(Reshape, x, [-1]) for x in tensors]
    order = list(range(len(found)))
    if indexing == "xy" and len(found) > 1:
        order[:2] = [1, 0]
    counts = [b(Shape, found[i]) for i in order]
    target = b(Concat, *counts, axis=0) if len(counts) > 1 else counts[0]
    results: list[Value] = []
    for index, x in enumerate(found):
        shape = [1] * len(found)
        shape[order.index(index)] = -1
        results.append(b(Expand, b(Reshape, x, shape), target))
    return tuple(results)


@aten("aten.broadcast_tensors")
def broadcast_tensors(b: Builder, tensors: Any) -> tuple[Value, ...]:
    if all(b.dims(x) == b.dims(tensors[0]) for x in tensors):
        return tuple(tensors)
    results: list[Value] = []
    for x in tensors:
        wide = x
        for other in tensors:
            wide = wide if other is x else b(Expand, wide, b(Shape, other))
        results.append(wide)
    return tuple(results)
