"""Softplus, Mish, HardSigmoid, PRelu and LeakyRelu, put together again."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING

from graphport.ops.products import CLOSE, entry, pairs, producer, sole_reader
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import put
from graphport.passes.substitution import is_real_constant

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def recompose_softplus(graph: Graph, journal: Journal) -> None:
    """Put a Softplus together from its logarithm.

    Before  y = Log(Exp(x) + 1)
    After   y = Softplus(x)

    Leaves alone: other constants, parts that somebody else reads. Keeps values up to rounding, and numbers so large
    that their exponential is infinite.
    """
    apply(graph, journal, _softplus, {"Log"})


def recompose_mish(graph: Graph, journal: Journal) -> None:
    """Put a Mish together from its product.

    Before  y = x * Tanh(Softplus(x))
    After   y = Mish(x)

    Leaves alone: products with something else, parts that somebody else reads. Keeps values up to rounding.
    """
    apply(graph, journal, _mish, {"Mul"})


def recompose_hardsigmoid(graph: Graph, journal: Journal) -> None:
    """Put a HardSigmoid together from its clipping.

    Before  y = Clip(x + 3, 0, 6) / 6
    After   y = HardSigmoid(x, alpha=1/6, beta=1/2)

    Leaves alone: other constants, parts that somebody else reads. Keeps values up to rounding.
    """
    apply(graph, journal, _hardsigmoid, {"Mul", "Div"})


def recompose_prelu(graph: Graph, journal: Journal) -> None:
    """Put a PRelu or a LeakyRelu together from its choice.

    Before  y = Where(x > 0, x, x * slope)
    After   y = PRelu(x, slope)        or, where the slope is one number,  LeakyRelu(x, alpha=slope)

    Leaves alone: a slope that is computed, or makes the result larger. Keeps values bit for bit.
    """
    apply(graph, journal, _prelu, {"Where"})


def _softplus(node: Node) -> str | None:
    total = producer(node.operand(0), "Add")
    if total is None or sole_reader(total.output) is not node:
        return None
    for value, one in pairs(total):
        power = producer(value, "Exp")
        if power is not None and sole_reader(value) is total and entry(one) == 1 and value.fact == total.output.fact:
            return put(node, "Softplus", [power.operand(0)], {})
    return None


def _mish(node: Node) -> str | None:
    for x, other in pairs(node):
        gate = producer(other, "Tanh")
        inner = None if gate is None or sole_reader(other) is not node else producer(gate.operand(0), "Softplus")
        if inner is not None and inner.operand(0) is x and sole_reader(inner.output) is gate:
            return put(node, "Mish", [x], {})
    return None


def _hardsigmoid(node: Node) -> str | None:
    for value, constant in pairs(node):
        number, clip = entry(constant), producer(value, "Clip")
        if number is None or clip is None or sole_reader(value) is not node:
            continue
        x = shifted_by_three(clip)
        if x is not None and isclose(number, 6 if node.op == "Div" else 1 / 6, rel_tol=CLOSE):
            return put(node, "HardSigmoid", [x], {"alpha": 1 / 6, "beta": 0.5})
    return None


def shifted_by_three(clip: Node) -> Value | None:
    """`x` where a node is `Clip(x + 3, 0, 6)` and nobody else reads the sum."""
    total = producer(clip.operand(0), "Add")
    if total is None or clip.op != "Clip" or (entry(clip.operand(1)), entry(clip.operand(2))) != (0, 6):
        return None
    if sole_reader(total.output) is not clip:
        return None
    return next((one for one, other in pairs(total) if entry(other) == 3), None)


def _prelu(node: Node) -> str | None:
    test, x, product = producer(node.operand(0), "Greater"), node.operand(1), producer(node.operand(2), "Mul")
    if test is None or x is None or product is None or x.fact != node.output.fact:
        return None
    if test.operand(0) is not x or entry(test.operand(1)) != 0:
        return None
    slope = next((other for one, other in pairs(product) if one is x and is_real_constant(other)), None)
    if slope is None:
        return None
    number = entry(slope)
    if number is not None:
        return put(node, "LeakyRelu", [x], {"alpha": number})
    return put(node, "PRelu", [x, slope], {})
