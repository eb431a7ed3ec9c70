"""How much memory there is, and how much a proof takes."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core import budget
from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import TensorFact
from graphport.core.storage import Bits, FileStorage, MappedFile, View
from graphport.core.system import free_memory
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Value

_BYTES = 8
_COPIES = 2.5
"""Times its weights that a runtime takes for a model at most: the file, its own copy, and one in another layout."""

MOST_UNASKED = 1 << 30
"""Bytes of arrays that a run which nobody asked for by itself, of a proof for one, may hold for a small file."""

_FOR_A_BYTE = 1 << 10
"""What it may hold beyond that for each byte of the file."""

_ARRAY_COPIES = 2
"""Times the arrays of a run that a runtime holds at most: each may be copied between layouts or types."""

_RUNTIME_BYTES = 1 << 28
"""What a runtime takes by itself, its libraries and threads included."""

_DRAWS = 6
"""Sets of inputs that a proof keeps: three kinds of numbers of two sizes."""

_DRAWING = 8
"""Times its bytes that an input takes while it is drawn in double precision, and what is drawn is chosen from."""

_SHARE = 0.7
"""How much of the memory that is free a run may take."""


def shortage(needed: int) -> str | None:
    """Why a run that takes so many bytes is not begun, if so."""
    free = int(_SHARE * free_bytes())
    if needed <= free:
        return None
    return f"it takes some {needed >> 20} MiB of memory for a run, and {free >> 20} MiB are free for it"


def excess(graph: Graph, sizes: Mapping[str, int], size: int | None) -> str | None:
    """Why a run of a graph is not made unless its user allows it, if so; `size` is that of its file, if it has one."""
    if size is None:
        return None
    most = most_unasked(size)
    needed = held(graph, sizes)
    if needed <= most:
        return None
    allowed = f"a file of {size} bytes is given {most >> 20} MiB; {budget.LIMITS}=proof.memory=N allows more"
    return f"a run holds arrays of some {needed >> 20} MiB, and {allowed}"


def most_unasked(size: int) -> int:
    """Bytes of arrays that a run which a verb starts by itself may hold for files of `size` bytes."""
    return budget.limit("proof.memory", MOST_UNASKED) + _FOR_A_BYTE * size


def allowance(size: int | None) -> int:
    """Bytes that such a run may add to its process: the arrays and their copies, and at most what is free now."""
    free = int(_SHARE * free_bytes())
    return free if size is None else min(free, _RUNTIME_BYTES + _ARRAY_COPIES * most_unasked(size))


def held(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Bytes of the arrays beside weights that a proof of `graph` holds at once, as far as they can be told."""
    sizes = graph.extents.numbers(sizes)
    inputs = [nbytes(value, sizes) for value in graph.inputs]
    drawn = _DRAWS * sum(inputs) + _DRAWING * max(inputs, default=0)
    outputs = sum(nbytes(value, sizes) for value in graph.outputs)
    outer, *bodies = (_alive(each, sizes) for each in walk(graph))
    # The outputs of both sides wait while a third computes its own.
    return drawn + 2 * outputs + outer + max(bodies, default=0)


def _alive(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Bytes of the results that are still read, and twice those that are computed, where they are the most."""
    left = {value: len(value.uses) for node in graph for value in node.results}
    most = now = 0
    for node in graph:
        made = sum(nbytes(value, sizes) for value in node.results)
        most = max(most, now + 2 * made)
        now += sum(nbytes(value, sizes) for value in node.results if left[value])
        for value in node.operands:
            if value in left:
                left[value] -= 1
                now -= 0 if left[value] else nbytes(value, sizes)
    return most


def size_of(graph: Graph, path: Path | None) -> int | None:
    """Bytes of the files that `graph` was read from, of which one is at `path`; `None` if it was made in memory."""
    if path is None:
        return None
    files = {each.path: each.size for each in map(_file, _constants(graph)) if each is not None}
    with suppress(OSError):
        files[path.absolute()] = path.stat().st_size
    return sum(files.values())


def _constants(graph: Graph) -> Iterator[Storage]:
    for inner in walk(graph):
        yield from (value.storage for value in inner.constants if value.storage is not None)


def _file(storage: Storage) -> MappedFile | None:
    while isinstance(storage, View | Bits):
        storage = storage.of
    file = storage.file if isinstance(storage, FileStorage) else None
    return file if isinstance(file, MappedFile) else None


def free_bytes() -> int:
    """Memory that a new process can take without pushing others out."""
    free = free_memory()
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, now = _number(limit), _number(used)
        if most is not None and now is not None:
            free = min(free, max(most - now, 0))
    return free


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None


def weights(graph: Graph) -> int:
    """Bytes of the constants that are read."""
    constants = [value for inner in walk(graph) for value in inner.constants if value.uses]
    return sum(value.storage.nbytes for value in constants if value.storage is not None)


def needed(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Bytes that a runtime takes for `graph`, as far as they can be told: weights, inputs, the largest results."""
    sizes = graph.extents.numbers(sizes)
    largest = max((nbytes(value, sizes) for node in graph for value in node.results), default=0)
    inputs = sum(nbytes(value, sizes) for value in graph.inputs)
    return int(_COPIES * weights(graph)) + 2 * inputs + 3 * largest


def nbytes(value: Value, sizes: Mapping[str, int]) -> int:
    """Bytes of a tensor where symbols are as long as `sizes` says; 0 where its shape cannot be told."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return 0
    bits = _BYTES * 8 if fact.dtype is None or not fact.dtype.bits else fact.dtype.bits
    try:
        return prod(_length(dim, sizes) for dim in fact.shape) * bits // 8
    except (KeyError, TypeError, ZeroDivisionError):
        return 0


def _length(dim: Dim, sizes: Mapping[str, int]) -> int:
    return evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim
