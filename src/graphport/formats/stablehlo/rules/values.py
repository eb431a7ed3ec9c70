"""Canonical counterparts of an SSA value of StableHLO: a tensor, the parts of a complex tensor, or integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from graphport.formats.stablehlo.program import Quantization
    from graphport.ir.graph import Value


@dataclass(frozen=True, slots=True)
class Pair:
    """The real and the imaginary part of a complex tensor."""

    real: Value
    imaginary: Value


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized tensor: stored integers and their parameters."""

    codes: Value
    parameters: Quantization


@dataclass(frozen=True, slots=True)
class Token:
    """An order of side effects; no tensor."""


@dataclass(frozen=True, slots=True)
class TupleValue:
    """Several values."""

    items: tuple[Held, ...]


Held: TypeAlias = "Value | Pair | Quantized | Token | TupleValue"


def flattened(held: Held) -> list[Value]:
    """The tensors of a value in order."""
    match held:
        case Pair():
            return [held.real, held.imaginary]
        case Quantized():
            return [held.codes]
        case Token():
            return []
        case TupleValue():
            return [value for item in held.items for value in flattened(item)]
        case _:
            return [held]


def rebuilt(like: Held, values: list[Value]) -> Held:
    """A value with the structure of `like`, of tensors removed from the front of `values`."""
    match like:
        case Pair():
            return Pair(values.pop(0), values.pop(0))
        case Quantized():
            return Quantized(values.pop(0), like.parameters)
        case Token():
            return like
        case TupleValue():
            return TupleValue(tuple([rebuilt(item, values) for item in like.items]))
        case _:
            return values.pop(0)
