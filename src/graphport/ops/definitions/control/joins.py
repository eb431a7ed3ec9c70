"""Join of facts: the fact of a value that comes from one of two branches or from any iteration of a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import OPEN, UNKNOWN, OptionalFact, SequenceFact, TensorFact

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact


def join(a: Fact, b: Fact) -> Fact:
    """Return the most specific fact that both facts imply, with open dims where they differ."""
    if isinstance(a, SequenceFact) and isinstance(b, SequenceFact):
        return SequenceFact(join(a.element, b.element))
    if isinstance(a, OptionalFact) and isinstance(b, OptionalFact):
        return OptionalFact(join(a.element, b.element))
    if not isinstance(a, TensorFact) or not isinstance(b, TensorFact):
        return a if a == b else UNKNOWN
    dtype = a.dtype if a.dtype is b.dtype else None
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorFact(dtype, None)
    shape: list[Dim] = [x if x == y else OPEN for x, y in zip(a.shape, b.shape, strict=True)]
    return TensorFact(dtype, tuple(shape), a.elements if a.elements == b.elements else None)
