"""A shape without unknowns, to show users how one is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims.symbolic import Symbolic, bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims.symbolic import Dim

_LENGTH = 224


def example(shape: Sequence[Dim]) -> str:
    """`shape` as the command line takes it, such as 1x3x224x224: 1 for a first axis that is open, 224 for others.

    An open axis with bounds gets the length within them that is nearest to that.
    """
    return "x".join(str(_length(dim, 1 if axis == 0 else _LENGTH)) for axis, dim in enumerate(shape))


def _length(dim: Dim, wanted: int) -> int:
    if not isinstance(dim, Symbolic):
        return dim
    low, high = bounds(dim)
    length = max(wanted, low or 0)
    return length if high is None else min(length, high)
