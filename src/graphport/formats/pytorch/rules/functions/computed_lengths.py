"""Symbolic sizes as PNNX expressions of tensor sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import Functions, prefixed
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim, Symbolic
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_FUNCTIONS = Functions("add", "sub", "mul", "floor_divide", "maximum", "minimum")
_MOST_INPUTS = 64
"""Maximum number of model inputs that are searched for a size."""


def elements_of(value: Value) -> tuple[Dim, ...] | None:
    """Return the known elements of a shape tensor."""
    return value.fact.elements if isinstance(value.fact, TensorFact) else None


def computed_list(b: Builder, numbers: Sequence[Dim], *near: Value) -> tuple[int, ...] | Value | None:
    """Return integers, or an expression of the sizes of `near` and of model inputs, as an argument.

    Returns `None` if an element cannot be expressed.
    """
    if all(isinstance(number, int) for number in numbers):
        return tuple(number for number in numbers if isinstance(number, int))
    found = _texts(b, numbers, near)
    if found is None:
        return None
    texts, operands = found
    fact = TensorFact(DType.INT64, (len(numbers),), tuple(numbers))
    return b.emit("Expression", *operands, facts=[fact], expr=f"[{','.join(texts)}]")[0]


def computed_number(b: Builder, number: Dim, *near: Value) -> int | Value | None:
    """Return a dim as an argument: an integer, or an expression of sizes of `near` and inputs; else `None`."""
    if isinstance(number, int):
        return number
    found = _texts(b, [number], near)
    if found is None:
        return None
    texts, operands = found
    return b.emit("Expression", *operands, facts=[TensorFact(DType.INT64, (), (number,))], expr=texts[0])[0]


def _texts(b: Builder, numbers: Sequence[Dim], near: Sequence[Value]) -> tuple[list[str], list[Value]] | None:
    inputs = [] if b.graph is None else list(b.graph.root.inputs)[:_MOST_INPUTS]
    asked = list(dict.fromkeys([*near, *inputs]))
    used: list[Value] = []

    def length(dim: Symbolic) -> str | None:
        for value in asked:
            dims = value.shape
            if dims is not None and dim in dims:
                if value not in used:
                    used.append(value)
                return f"size(@{used.index(value)},{dims.index(dim)})"
        return None

    texts = [prefixed(number, _FUNCTIONS, length) for number in numbers]
    known = [text for text in texts if text is not None]
    return (known, used) if len(known) == len(texts) and used else None
