"""Maps `y = x * factor + summand` with a number per channel: what normalizations, biases and scales are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.passes.journal import Left
from graphport.passes.substitution import reals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphport.ir.graph import Node, Value

    Reals: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """`y = x * factor + summand`; each is one number, or a vector with one for every entry of axis 1.

    `None` is a factor of 1 and a summand of 0.
    """

    factor: Reals | None
    summand: Reals | None


def of_batchnorm(node: Node) -> Affine:
    """The map of a `BatchNormalization` with known numbers: `scale / sqrt(var + epsilon)` and what belongs to it.

    Raises:
        Left: it is in training, somebody reads its statistics, a number is not known or not finite.
    """
    if node.attributes.get("training_mode"):
        raise Left("it is in training: it normalizes by statistics of its operand")
    if any(value.uses for value in node.results if value.index):
        raise Left("somebody reads its running statistics")
    found = [reals(node.operand(index)) for index in range(1, 5)]
    names = ("scale", "B", "input_mean", "input_var")
    unknown = [name for name, array in zip(names, found, strict=True) if array is None]
    if unknown:
        raise Left(f"{' and '.join(unknown)} are no floating constants")
    scale, shift, mean, var = (array for array in found if array is not None)
    epsilon = np.float64(np.float32(node.attributes.get("epsilon", 1e-5)))  # pyright: ignore[reportArgumentType]
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(var + epsilon)
        summand = shift - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(summand).all()):
        raise Left("scale / sqrt(var + epsilon) is not finite")
    return Affine(factor, summand)


def of_arithmetic(node: Node) -> tuple[Value, Value, Affine]:
    """Of an `Add`, `Sub`, `Mul` or `Div` with a constant: the other operand, the constant, and the map.

    Raises:
        Left: neither operand is a floating constant or both are, the constant makes the result larger or differs along
            another axis than the channels', or a division has no finite factor.
    """
    left, right = node.operands
    a, b = reals(left), reals(right)
    if (a is None) == (b is None):
        raise Left("not one operand is a constant" if a is None else "both operands are constants")
    value, constant, array = (left, right, b) if b is not None else (right, left, a)
    if array is None:
        raise Left("not one operand is a constant")
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
        raise Left("it divides by what is computed")
    with np.errstate(all="ignore"):
        inverse = 1.0 / array
    if not np.isfinite(inverse).all() or not inverse.all():
        raise Left("a divisor has no finite inverse")
    return inverse


def per_channel(array: Reals, value: Value) -> Reals:
    """`array`, which broadcasts to `value`, as a vector along axis 1, or of one number.

    Raises:
        Left: the rank of `value` is not known, or `array` makes it larger or differs along another axis.
    """
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        raise Left(f"the rank of {value.name} is not known")
    rank = len(fact.shape)
    if array.size == 1 and array.ndim <= rank:
        return array.reshape(1)
    if array.ndim > rank:
        raise Left(f"a constant of rank {array.ndim} makes the result larger")
    padded = (1,) * (rank - array.ndim) + array.shape
    if rank < 2 or any(length != 1 for axis, length in enumerate(padded) if axis != 1):
        raise Left(f"the constant of shape {list(array.shape)} is not one number per channel")
    if fact.shape[1] != padded[1]:
        raise Left(f"{padded[1]} numbers are not known to be one for each of {fact.shape[1]} channels")
    return array.reshape(-1)
