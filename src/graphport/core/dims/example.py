"""Example shapes for messages and documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims.bindings import evaluate, symbols
from graphport.core.dims.symbolic import bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims.symbolic import Dim, Symbolic

_LENGTH = 224
BATCH = "example.batch"
"""Note of a graph: the size of symbolic first axes in examples, 1 by default."""


def example(shape: Sequence[Dim]) -> str:
    """Return a shape in command line syntax, such as 1x3x224x224: 1 for a symbolic first axis, 224 for others.

    A symbolic axis with bounds gets the nearest size within them.
    """
    return examples({"": shape})[""]


def examples(shapes: Mapping[str, Sequence[Dim]], batch: int = 1) -> dict[str, str]:
    """Return example shapes in which each symbol has one size: `batch` on the first axis, else 224."""
    sizes: dict[str, int] = {}
    for shape in shapes.values():
        for axis, dim in enumerate(shape):
            for name, symbol in symbols(dim).items():
                sizes.setdefault(name, _nearest(symbol, _LENGTH if axis else batch))
    return {name: "x".join(str(max(evaluate(dim, sizes), 0)) for dim in shape) for name, shape in shapes.items()}


def _nearest(symbol: Symbolic, wanted: int) -> int:
    low, high = bounds(symbol)
    length = max(wanted, low or 0)
    return length if high is None else min(length, high)
