"""Recognition of products that exporters decompose into nodes, such as Gelu."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose, pi, sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ir.graph import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Value

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
_PAIR = 2
CLOSE = 2e-4
"""The relative tolerance of constants: float16 has no more digits."""


def constant_elements(value: Value | None) -> Array | None:
    """Return the elements of a constant; `None` for other values and unavailable data."""
    if value is None or value.storage is None or not value.is_constant:
        return None
    return value.storage.numpy()


def sole_consumer(value: Value) -> Node | None:
    """Return the only consumer of `value` in the same graph; `None` if there are others or it is an output."""
    if len(value.uses) != 1:
        return None
    user = next(iter(value.uses)).user
    return user if isinstance(user, Node) and user.graph is value.graph else None


def pairs(node: Node) -> Iterator[tuple[Value, Value]]:
    """Return the two operands, in both orders for commutative operators."""
    if len(node.operands) == 2:
        one, two = node.operands
        yield one, two
        if node.op in ("Add", "Mul"):
            yield two, one


def producer(value: Value | None, op: str) -> Node | None:
    """Return the producer of `value` if its operator is `op`."""
    return value.producer if value is not None and value.producer is not None and value.producer.op == op else None


def scalar_element(value: Value | None) -> float | None:
    """Return the only element of a constant that does not change the shape by broadcasting."""
    array = constant_elements(value)
    if value is None or array is None or array.size != 1 or array.dtype.kind not in "fiuV":
        return None
    return float(array.reshape(-1)[0]) if array.ndim <= 1 or _adds_no_axes(value, array.ndim) else None


def _adds_no_axes(value: Value, rank: int) -> bool:
    """Whether each consumer has another operand of at least this rank."""
    for use in value.uses:
        operands = use.user.operands if isinstance(use.user, Node) else ()
        others = [operand.fact for operand in operands if operand is not value]
        if not any(isinstance(fact, TensorFact) and len(fact.shape or ()) >= rank for fact in others):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Product:
    """`constant` times all of `factors`."""

    constant: float
    factors: tuple[Value, ...]


def product_of(node: Node) -> Product:
    """Collect the factors of a tree of Mul, and Div by constants; only nodes with one consumer are followed."""
    constant = 1.0
    factors: list[Value] = []
    pending = [node]
    while pending:
        part = pending.pop()
        for index, value in enumerate(part.operands):
            number = scalar_element(value)
            if number is not None and (part.op == "Mul" or (index == 1 and number)):
                constant *= number if part.op == "Mul" else 1 / number
            elif part.op == "Div" and index == 1:
                return Product(constant, ())
            elif value.producer is not None and value.producer.op in ("Mul", "Div") and sole_consumer(value) is part:
                pending.append(value.producer)
            else:
                factors.append(value)
    return Product(constant, tuple(factors))


def gelu_of(node: Node) -> tuple[Value, str | None] | None:
    """Return the operand and `approximate` if `node` is the last node of a decomposed Gelu.

    `0.5 * x * (1 + Erf(x / sqrt(2)))`, or `0.5 * x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`, with factors
    in any order and no other consumers of the parts.
    """
    if is_inner_factor(node):
        return None
    product = product_of(node)
    if len(product.factors) != _PAIR or not isclose(product.constant, 0.5, rel_tol=CLOSE):
        return None
    for x, other in (product.factors, product.factors[::-1]):
        total = producer(other, "Add")
        if total is None or sole_consumer(other) is None or x.fact != node.output.fact:
            continue
        for value, one in pairs(total):
            if scalar_element(one) != 1:
                continue
            if _is_erf(value, x):
                return x, None
            if _is_tanh(value, x):
                return x, "tanh"
    return None


def _is_erf(value: Value, x: Value) -> bool:
    erf = producer(value, "Erf")
    scaled = None if erf is None or sole_consumer(value) is None else erf.operand(0)
    if scaled is None or scaled.producer is None or scaled.producer.op not in ("Mul", "Div"):
        return False
    product = product_of(scaled.producer)
    return product.factors == (x,) and isclose(product.constant, 1 / sqrt(2), rel_tol=CLOSE)


def _is_tanh(value: Value, x: Value) -> bool:
    tanh = producer(value, "Tanh")
    scaled = None if tanh is None or sole_consumer(value) is None else tanh.operand(0)
    if scaled is None or scaled.producer is None or scaled.producer.op != "Mul":
        return False
    product = product_of(scaled.producer)
    if len(product.factors) != 1 or not isclose(product.constant, sqrt(2 / pi), rel_tol=CLOSE):
        return False
    total = producer(product.factors[0], "Add")
    return total is not None and any(one is x and _is_cube(other, x) for one, other in pairs(total))


def _is_cube(value: Value, x: Value) -> bool:
    if value.producer is None or value.producer.op != "Mul":
        return False
    product = product_of(value.producer)
    if not isclose(product.constant, 0.044715, rel_tol=CLOSE):
        return False
    if product.factors == (x, x, x):
        return True
    power = producer(product.factors[0], "Pow") if len(product.factors) == 1 else None
    return power is not None and power.operand(0) is x and scalar_element(power.operand(1)) == 3


def is_inner_factor(node: Node) -> bool:
    """Whether the only consumer of `node` multiplies or divides it by a scalar, so that it is an inner factor."""
    reader = sole_consumer(node.output)
    if reader is None or reader.op not in ("Mul", "Div"):
        return False
    return any(scalar_element(value) is not None for value in reader.operands if value is not node.output)
