"""How much memory there is, and how much a proof takes."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import TensorFact
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Value

_BYTES = 8
_COPIES = 2.5
"""Times its weights that a runtime takes for a model at most: the file, its own copy, and one in another layout."""

_SHARE = 0.7
"""How much of the memory that is free a run may take."""


def shortage(needed: int) -> str | None:
    """Why a run that takes so many bytes is not begun, if so."""
    free = int(_SHARE * free_bytes())
    if needed <= free:
        return None
    return f"it takes some {needed >> 20} MiB of memory for a run, and {free >> 20} MiB are free for it"


def free_bytes() -> int:
    """Memory that a new process can take without pushing others out."""
    free = _available()
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, now = _number(limit), _number(used)
        if most is not None and now is not None:
            free = min(free, max(most - now, 0))
    return free


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        known = dict(line.split(":", 1) for line in lines)
        return int(known["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) // 2


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
