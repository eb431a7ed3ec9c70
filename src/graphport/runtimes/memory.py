"""How much memory there is, and how much a proof takes."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core import budget
from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import TensorFact
from graphport.core.storage import MappedFile, Storage
from graphport.core.system import free_memory
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Value

_BYTES = 8
_COPIES = 2.5
"""Maximum memory of a runtime as a multiple of the weights: the file, its copy, and a copy in another layout."""

MOST_UNASKED = 1 << 30
"""Memory limit in bytes of arrays in automatic runs, such as proofs, for a small file."""

_FOR_A_BYTE = 1 << 10
"""Additional bytes per byte of the file."""

_ARRAY_COPIES = 2
"""Times the arrays of a run that a runtime holds at most: each may be copied between layouts or types."""

_RUNTIME_BYTES = 1 << 28
"""Base memory of a runtime in bytes, including libraries and threads."""

_DRAWS = 6
"""Number of input sets that a proof keeps: three distributions with two sizes."""

_DRAWING = 8
"""Memory of an input during generation as a multiple of its size: float64 values, and the values to choose from."""

_SHARE = 0.7
"""How much of the memory that is free a run may take."""


def shortage(needed: int) -> str | None:
    """Return why a run of `needed` bytes is refused (too little free memory); `None` if it is not."""
    free = int(_SHARE * free_bytes())
    if needed <= free:
        return None
    return f"a run needs about {needed >> 20} MiB of memory, {free >> 20} MiB are available"


def excess(graph: Graph, sizes: Mapping[str, int], size: int | None) -> str | None:
    """Return why a run exceeds the memory limit for a file of `size` bytes; `None` if it does not or has no file."""
    if size is None:
        return None
    most = most_unasked(size)
    needed = estimate_proof_bytes(graph, sizes)
    if needed <= most:
        return None
    allowed = (
        f"the limit for a file of {size} bytes is {most >> 20} MiB; set {budget.LIMITS}=proof.memory=N to raise it"
    )
    return f"the arrays of a run need about {needed >> 20} MiB, and {allowed}"


def most_unasked(size: int) -> int:
    """Return the array bytes that an implicit run (a proof) may hold for files of `size` bytes."""
    return budget.limit("proof.memory", MOST_UNASKED) + _FOR_A_BYTE * size


def allowance(size: int | None) -> int:
    """Return the bytes that a run may add to its process: the arrays and their copies, limited by free memory."""
    free = int(_SHARE * free_bytes())
    return free if size is None else min(free, _RUNTIME_BYTES + _ARRAY_COPIES * most_unasked(size))


def estimate_proof_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return an estimate of the bytes of arrays, without weights, that a proof of `graph` holds at once."""
    sizes = graph.extents.evaluate_symbols(sizes)
    inputs = [nbytes(value, sizes) for value in graph.inputs]
    drawn = _DRAWS * sum(inputs) + _DRAWING * max(inputs, default=0)
    outputs = sum(nbytes(value, sizes) for value in graph.outputs)
    outer, *bodies = (_alive(each, sizes) for each in walk(graph))
    # The outputs of both sides wait while a third computes its own.
    return drawn + 2 * outputs + outer + max(bodies, default=0)


def _alive(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return the peak bytes of live results, with the results of the current node counted twice."""
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
    """Return the bytes of the files that `graph` was read from, one of them at `path`; `None` without files."""
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
    # Storages of formats that convert another storage while it is read have it in `of`, as views do.
    while isinstance(of := getattr(storage, "of", None), Storage):
        storage = of
    file = getattr(storage, "file", None)
    return file if isinstance(file, MappedFile) else None


def free_bytes() -> int:
    """Return the bytes that a new process can allocate without swapping."""
    free = free_memory()
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, now = _read_integer(limit), _read_integer(used)
        if most is not None and now is not None:
            free = min(free, max(most - now, 0))
    return free


def _read_integer(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None


def weights(graph: Graph) -> int:
    """Return the bytes of the constants that have consumers."""
    constants = [value for inner in walk(graph) for value in inner.constants if value.uses]
    return sum(value.storage.nbytes for value in constants if value.storage is not None)


def needed(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return an estimate of the bytes that a runtime needs for `graph`: weights, inputs, the largest results."""
    sizes = graph.extents.evaluate_symbols(sizes)
    largest = max((nbytes(value, sizes) for node in graph for value in node.results), default=0)
    inputs = sum(nbytes(value, sizes) for value in graph.inputs)
    return int(_COPIES * weights(graph)) + 2 * inputs + 3 * largest


def nbytes(value: Value, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a tensor with the symbols bound to `sizes`; 0 if its shape is unknown."""
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
