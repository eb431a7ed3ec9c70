"""Affine maps `y = x * factor + summand` per channel, the common form of normalizations, biases and scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.passes.journal import NotApplicable
from graphport.passes.substitution import float_elements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphport.ir.graph import Node, Value

    Reals: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """`y = x * factor + summand`; each is a scalar, or a vector with one element per index of axis 1.

    None stands for a factor of 1 and a summand of 0.
    """

    factor: Reals | None
    summand: Reals | None


def of_batchnorm(node: Node) -> Affine:
    """Return the map of a `BatchNormalization` with constant parameters: factor `scale / sqrt(var + epsilon)`.

    Raises:
        Left: the node trains, its statistics have consumers, or a parameter is not constant or not finite.
    """
    if node.attributes.get("training_mode"):
        raise NotApplicable("it is in training mode and uses the statistics of its operand")
    if any(value.uses for value in node.results if value.index):
        raise NotApplicable("its running statistics have consumers")
    found = [float_elements(node.operand(index)) for index in range(1, 5)]
    names = ("scale", "B", "input_mean", "input_var")
    unknown = [name for name, array in zip(names, found, strict=True) if array is None]
    if unknown:
        raise NotApplicable(f"{' and '.join(unknown)} are not float constants")
    scale, shift, mean, var = (array for array in found if array is not None)
    epsilon = np.float64(np.float32(node.attributes.get("epsilon", 1e-5)))  # pyright: ignore[reportArgumentType]
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(var + epsilon)
        summand = shift - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(summand).all()):
        raise NotApplicable("scale / sqrt(var + epsilon) is not finite")
    return Affine(factor, summand)


def of_arithmetic(node: Node) -> tuple[Value, Value, Affine]:
    """Split an `Add`, `Sub`, `Mul` or `Div` with a constant into the other operand, the constant, and the map.

    Raises:
        Left: neither or both operands are float constants, the constant enlarges the result or varies along another
        axis
            than the channels, or a division has no finite factor.
    """
    left, right = node.operands
    a, b = float_elements(left), float_elements(right)
    if (a is None) == (b is None):
        raise NotApplicable("no operand is constant" if a is None else "both operands are constant")
    value, constant, array = (left, right, b) if b is not None else (right, left, a)
    if array is None:
        raise NotApplicable("no operand is constant")
    along = per_channel(array, value)
    is_right = value is left
    match node.op:
        case "Add":
            return value, constant, Affine(None, along)
        case "Sub":
            return value, constant, Affine(None, -along) if is_right else Affine(np.array([-1.0]), along)
        case "Mul":
            return value, constant, Affine(along, None)
        case _:
            return value, constant, Affine(_inverse(along, is_divisor=is_right), None)


def _inverse(array: Reals, *, is_divisor: bool) -> Reals:
    if not is_divisor:
        raise NotApplicable("its divisor is computed")
    with np.errstate(all="ignore"):
        inverse = 1.0 / array
    if not np.isfinite(inverse).all() or not inverse.all():
        raise NotApplicable("a divisor has no finite inverse")
    return inverse


def per_channel(array: Reals, value: Value) -> Reals:
    """Return `array`, which broadcasts to `value`, as a scalar or a vector along axis 1.

    Raises:
        Left: the rank of `value` is unknown, or `array` enlarges it or varies along another axis.
    """
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        raise NotApplicable(f"the rank of {value.name} is unknown")
    rank = len(fact.shape)
    if array.size == 1 and array.ndim <= rank:
        return array.reshape(1)
    if array.ndim > rank:
        raise NotApplicable(f"a constant of rank {array.ndim} enlarges the result")
    padded = (1,) * (rank - array.ndim) + array.shape
    if rank < 2 or any(length != 1 for axis, length in enumerate(padded) if axis != 1):
        raise NotApplicable(f"the constant of shape {list(array.shape)} is not per-channel")
    if fact.shape[1] != padded[1]:
        raise NotApplicable(f"{padded[1]} elements may not match {fact.shape[1]} channels")
    return array.reshape(-1)
