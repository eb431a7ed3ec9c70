"""Convert outputs of two runtimes to a common type and shape, and record the evidence of each output."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from graphport.proof.runners import Runner

_BLOCK = 1 << 18
"""Elements that are examined at a time."""


class Manner(NamedTuple):
    """Whether two runtimes preserve a model's element types and its batch axis."""

    has_exact_types: bool
    has_batches: bool
    is_edge: bool
    """Whether values are so large that results may overflow: elements that are not finite are not compared."""

    @classmethod
    def common(cls, first: Runner, second: Runner, *, is_edge: bool) -> Manner:
        """Return the properties that the runtimes of both runners preserve."""
        runtimes = [w.side.runtime for w in (first, second) if w.side.runtime is not None]
        return cls(all(r.has_exact_types for r in runtimes), all(r.has_batches for r in runtimes), is_edge)


def aligned(x: Any, y: Any, manner: Manner) -> tuple[Any, Any]:
    """Convert both arrays to one type and shape; zero the elements whose overflow is not compared."""
    if is_sequence(x) and is_sequence(y) and len(x) == len(y):
        pairs = [aligned(a, b, manner) for a, b in zip(x, y, strict=True)]
        return [a for a, _ in pairs], [b for _, b in pairs]
    if x is None or y is None or is_sequence(x) or is_sequence(y):
        return x, y
    x, y = np.asarray(x), np.asarray(y)
    # Empty outputs are equal; LiteRT reports 0 for their remaining dims.
    if x.size == y.size == 0 and x.ndim == y.ndim:
        y = y.reshape(x.shape)
    if not manner.has_batches and x.shape != y.shape and x.size == y.size:
        y = y.reshape(x.shape)
    if not manner.has_exact_types and x.dtype != y.dtype and "O" not in (x.dtype.kind, y.dtype.kind):
        x, y = _of_one_type(x, y, is_loose=not manner.has_batches)
    if manner.is_edge and x.shape == y.shape and x.dtype == y.dtype and x.dtype.kind not in "biuOSU":
        kept = _finite(x)
        if not kept.all():
            x, y = np.where(kept, x, np.zeros((), x.dtype)), np.where(kept, y, np.zeros((), y.dtype))
    return x, y


def _of_one_type(x: Any, y: Any, *, is_loose: bool) -> tuple[Any, Any]:
    """Cast `y` to the type of `x` unless only one is float; with `is_loose` cast both to float64."""
    if is_loose:
        return x.astype(np.float64), y.astype(np.float64)
    real, other = (_has_float_kind(each) for each in (x, y))
    if real != other:
        return x, y
    with np.errstate(all="ignore"):
        return x, y.astype(x.dtype)


def _has_float_kind(array: Any) -> bool:
    return array.dtype.kind not in "biuc"


def _finite(x: Any) -> Any:
    if x.dtype.kind in "fc":
        return np.isfinite(x)
    with np.errstate(all="ignore"):
        return np.isfinite(x.astype(np.float64))


@dataclass(slots=True)
class Evidence:
    """Properties of one output over all test inputs, without the arrays."""

    count: int = 0
    is_empty: bool = True
    is_nothing: bool = True
    digests: set[bytes] = field(default_factory=set[bytes])

    def see(self, answer: Any) -> None:
        """Record the output of one test input: its count, digest, and whether it is empty or all NaN."""
        if answer is None:
            return
        self.count += 1
        self.is_empty = self.is_empty and _is_empty(answer)
        self.is_nothing = self.is_nothing and _is_nothing(answer)
        digest = sha256()
        _digest(answer, digest)
        self.digests.add(digest.digest())

    def lack(self, *, has_inputs: bool) -> str | None:
        """Return why the output is no evidence (absent, empty, NaN or constant); `None` if it is evidence."""
        if not self.count:
            return "was absent"
        if self.is_empty:
            return "was empty for all test inputs"
        if self.is_nothing:
            return "was NaN for all test inputs"
        if has_inputs and self.count > 1 and len(self.digests) == 1:
            return "was the same for all test inputs"
        return None


def _is_empty(answer: Any) -> bool:
    return all(map(_is_empty, answer)) if is_sequence(answer) else np.size(answer) == 0


def _is_nothing(answer: Any) -> bool:
    if is_sequence(answer):
        return all(map(_is_nothing, answer))
    array = np.asarray(answer)
    if array.dtype.kind in "biuOSU":
        return array.size == 0
    flat = array.reshape(-1)
    blocks = (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))
    return all(_is_nan(block).all() for block in blocks)


def _is_nan(array: Any) -> Any:
    return np.isnan(array if array.dtype.kind in "fc" else array.astype(np.float64))


def _digest(answer: Any, digest: Any) -> None:
    if is_sequence(answer):
        digest.update(f"[{len(answer)}".encode())
        for each in answer:
            _digest(each, digest)
        return
    array = np.asarray(answer)
    digest.update(f"{array.dtype.name}{array.shape}".encode())
    if array.dtype.kind in "OSU":
        digest.update(repr(array.reshape(-1).tolist()).encode("utf-8", "surrogateescape"))
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
