"""Sizes of open dims that show what sizes of 1 and 7 hide: above each limit in the graph, and sizes of real use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.ir.graph import walk
from graphport.proof.coverage.influence import input_of
from graphport.runtimes.inputs import open_axes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphport.ir.graph import Graph, Node, Value

IMAGE_SIZE, SEQUENCE_LENGTH = 224, 64
"""Sizes of real use."""
EVEN_SIZE = 8
BATCH = 6
"""A batch above 4."""
MAX_SIZE = 2048
"""Largest size that is tried to exceed a limit of the graph."""
MAX_TELLING = 2
"""Telling sizes that are tried, the largest of a graph."""

_COMPARING = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Max", "Min", "Clip", "Mod"})


def telling_sizes(graph: Graph) -> set[int]:
    """Return critical sizes: each constant that a size may be compared with plus 1, and the lengths of tables."""
    found: set[int] = set()
    for inner in walk(graph):
        for node in inner:
            found.update(n for n in _sizes_of(node) if 1 < n <= MAX_SIZE)
    return found


def _sizes_of(node: Node) -> Iterator[int]:
    if node.op in _COMPARING and not _is_of_real_tensors(node):
        yield from (n + 1 for value in node.operands for n in _integer_constants(value))
    elif node.op in {"Gather", "Slice"} and node.operands[0].storage is not None:
        axis = node.attributes.get("axis", 0)
        shape = node.operands[0].storage.shape
        if node.op == "Slice":
            yield from shape[:-1]
        elif isinstance(axis, int) and shape and input_of(node.operands[1]) is None:
            yield shape[axis]


def _is_of_real_tensors(node: Node) -> bool:
    """Whether a node compares float tensors of possibly several elements, which cannot be sizes."""
    x = next((value for value in node.operands if value.storage is None), None)
    if x is None or (x.dtype is not None and not x.dtype.is_floating):
        return False
    return x.shape is None or any(dim != 1 for dim in x.shape)


def _integer_constants(value: Value) -> Iterator[int]:
    """Return the elements of a scalar constant that are integers."""
    storage = value.storage
    if storage is None or storage.count != 1 or storage.dtype.kind not in "iuf":
        return
    number: Any = storage.numpy().reshape(-1)[0]
    if np.isfinite(number) and float(number).is_integer():
        yield int(number)


def more_sizes(graph: Graph, telling: Iterable[int], usual: dict[str, int]) -> list[dict[str, int]]:
    """Yield further choices of sizes, most promising first.

    Args:
        graph: the graph with the open dims.
        telling: critical sizes, near limits of both graphs.
        usual: accepted sizes of the symbols that may change.
    """
    ones, other = open_axes(graph)
    batches = [name for name in ones if name in usual]
    dims = [name for name in other if name in usual]
    ordered = sorted(telling, reverse=True)[:MAX_TELLING]
    if not dims:
        choices = [dict.fromkeys(batches, n) for n in (BATCH, *(n for n in ordered if n > BATCH))]
        return [{**usual, **sizes} for sizes in choices if sizes]
    of_use = _sizes_of_use(graph, dims)
    choices = [{**of_use, **dict.fromkeys(batches, 2)}]
    # A table shorter than the sizes of real use limits the size.
    choices += [{**dict.fromkeys(dims, n), **dict.fromkeys(batches, 1)} for n in ordered if n > EVEN_SIZE]
    # An even size, and a batch above 4 of small samples.
    choices.append({**dict.fromkeys(dims, EVEN_SIZE), **dict.fromkeys(batches, BATCH)})
    return [{**usual, **sizes} for sizes in choices]


def _sizes_of_use(graph: Graph, dims: list[str]) -> dict[str, int]:
    """Return 224 for the open dims of images, 64 for sequences."""
    of_images: set[str] = set()
    for value in graph.inputs:
        shape = value.shape
        spatial = [dim for dim in (shape or ())[1:] if isinstance(dim, Symbolic)]
        if shape is not None and len(shape) >= 4 and len(spatial) >= 2:
            of_images.update(name for dim in spatial for name in graph.extents.free(dim))
    return {name: IMAGE_SIZE if name in of_images else SEQUENCE_LENGTH for name in dims}
