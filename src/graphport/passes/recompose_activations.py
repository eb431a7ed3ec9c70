"""Recompose Softplus, Mish, HardSigmoid, PRelu and LeakyRelu."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING

from graphport.ops.products import CLOSE, pairs, producer, scalar_element, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import insert_operator
from graphport.passes.substitution import is_real_constant

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def recompose_softplus(graph: Graph, journal: Journal) -> None:
    """Recompose Softplus from its logarithm.

    Before  y = Log(Exp(x) + 1)
    After   y = Softplus(x)

    Does not apply to other constants, or if an inner value has another consumer. Preserves values up to rounding,
    except where the exponential overflows.
    """
    apply(graph, journal, _softplus, {"Log"})


def recompose_mish(graph: Graph, journal: Journal) -> None:
    """Recompose Mish from its product.

    Before  y = x * Tanh(Softplus(x))
    After   y = Mish(x)

    Does not apply to other products, or if an inner value has another consumer. Preserves values up to rounding.
    """
    apply(graph, journal, _mish, {"Mul"})


def recompose_hardsigmoid(graph: Graph, journal: Journal) -> None:
    """Recompose HardSigmoid from a Clip.

    Before  y = Clip(x + 3, 0, 6) / 6
    After   y = HardSigmoid(x, alpha=1/6, beta=1/2)

    Does not apply to other constants, or if an inner value has another consumer. Preserves values up to rounding.
    """
    apply(graph, journal, _hardsigmoid, {"Mul", "Div"})


def recompose_prelu(graph: Graph, journal: Journal) -> None:
    """Recompose PRelu or LeakyRelu from a Where.

    Before  y = Where(x > 0, x, x * slope)
    After   y = PRelu(x, slope)        or, for a scalar slope,  LeakyRelu(x, alpha=slope)

    Does not apply to a computed slope, or one that enlarges the result. Preserves values bit for bit.
    """
    apply(graph, journal, _prelu, {"Where"})


def _softplus(node: Node) -> str | None:
    total = producer(node.operand(0), "Add")
    if total is None or sole_consumer(total.output) is not node:
        return None
    for value, one in pairs(total):
        power = producer(value, "Exp")
        if (
            power is not None
            and sole_consumer(value) is total
            and scalar_element(one) == 1
            and value.fact == total.output.fact
        ):
            return insert_operator(node, "Softplus", [power.operand(0)], {})
    return None


def _mish(node: Node) -> str | None:
    for x, other in pairs(node):
        gate = producer(other, "Tanh")
        inner = None if gate is None or sole_consumer(other) is not node else producer(gate.operand(0), "Softplus")
        if inner is not None and inner.operand(0) is x and sole_consumer(inner.output) is gate:
            return insert_operator(node, "Mish", [x], {})
    return None


def _hardsigmoid(node: Node) -> str | None:
    for value, constant in pairs(node):
        number, clip = scalar_element(constant), producer(value, "Clip")
        if number is None or clip is None or sole_consumer(value) is not node:
            continue
        x = shifted_by_three(clip)
        if x is not None and isclose(number, 6 if node.op == "Div" else 1 / 6, rel_tol=CLOSE):
            return insert_operator(node, "HardSigmoid", [x], {"alpha": 1 / 6, "beta": 0.5})
    return None


def shifted_by_three(clip: Node) -> Value | None:
    """Return `x` if a node is `Clip(x + 3, 0, 6)` and the sum has no other consumer."""
    total = producer(clip.operand(0), "Add")
    if (
        total is None
        or clip.op != "Clip"
        or (scalar_element(clip.operand(1)), scalar_element(clip.operand(2))) != (0, 6)
    ):
        return None
    if sole_consumer(total.output) is not clip:
        return None
    return next((one for one, other in pairs(total) if scalar_element(other) == 3), None)


def _prelu(node: Node) -> str | None:
    test, x, product = producer(node.operand(0), "Greater"), node.operand(1), producer(node.operand(2), "Mul")
    if test is None or x is None or product is None or x.fact != node.output.fact:
        return None
    if test.operand(0) is not x or scalar_element(test.operand(1)) != 0:
        return None
    slope = next((other for one, other in pairs(product) if one is x and is_real_constant(other)), None)
    if slope is None:
        return None
    number = scalar_element(slope)
    if number is not None:
        return insert_operator(node, "LeakyRelu", [x], {"alpha": number})
    return insert_operator(node, "PRelu", [x, slope], {})
