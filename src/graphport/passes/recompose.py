"""Recompose operators that exporters decompose: normalizations, Gelu, HardSwish and Swish."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.products import (
    CLOSE,
    constant_elements,
    gelu_of,
    is_inner_factor,
    pairs,
    producer,
    product_of,
    scalar_element,
    sole_consumer,
)
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.parts import insert_operator, is_available, opset_of
from graphport.passes.recompose_activations import shifted_by_three
from graphport.passes.substitution import add_constant, float_elements, graph_of

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Graph, Node, Value


def recompose_layernorm(graph: Graph, journal: Journal) -> None:
    """Recompose LayerNormalization from means, differences and square root.

    Before  d = x - ReduceMean(x);  y = d / Sqrt(ReduceMean(d ** 2) + epsilon) * scale + bias
    After   y = LayerNormalization(x, scale, bias)

    The means are over the last axes. Does not apply if an inner value has another consumer, or to scales and biases of
    other shapes. Preserves values up to rounding.
    """
    apply(graph, journal, _layernorm, {"Div", "Mul"})


def recompose_rmsnorm(graph: Graph, journal: Journal) -> None:
    """Recompose RMSNormalization from mean, square root and quotient.

    Before  y = x / Sqrt(ReduceMean(x ** 2) + epsilon) * scale
    After   y = RMSNormalization(x, scale)

    Does not apply if an inner value has another consumer, to scales of other shapes, or to opsets without the operator.
    Preserves values up to rounding.
    """
    apply(graph, journal, _rmsnorm, {"Div", "Mul"})


def recompose_gelu(graph: Graph, journal: Journal) -> None:
    """Recompose Gelu from Erf or Tanh.

    Before  y = 0.5 * x * (1 + Erf(x / sqrt(2)))        or  0.5 * x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
    After   y = Gelu(x)

    The factors may have any order. Does not apply to other constants, or if an inner value has another consumer.
    Preserves values up to rounding.
    """
    apply(graph, journal, _gelu, {"Mul", "Div"})


def recompose_swish(graph: Graph, journal: Journal) -> None:
    """Recompose HardSwish and Swish from their product.

    Before  y = x * Clip(x + 3, 0, 6) / 6        or  x * HardSigmoid(x)        or  x * Sigmoid(x)
    After   y = HardSwish(x)                                                   or  y = Swish(x)

    Does not apply to other constants, if an inner value has another consumer, or for Swish to opsets other than 24, in
    which runtimes do not support it. Preserves values up to rounding.
    """
    apply(graph, journal, _swish, {"Mul", "Div"})


# Normalizations


@dataclass(frozen=True, slots=True)
class _Quotient:
    """`value / Sqrt(ReduceMean(value ** 2) + epsilon)` over the last axes."""

    value: Value
    first_axis: int
    dims: tuple[int, ...]
    epsilon: float
    parts: tuple[Value, ...]


def _match_quotient(node: Node) -> _Quotient | None:
    """Match a Div by a root, or a Mul by its reciprocal."""
    for value, other in pairs(node):
        root, inverses = other, ()
        if node.op == "Mul":
            inverse = producer(other, "Reciprocal") or producer(other, "Div")
            if inverse is None or (inverse.op == "Div" and scalar_element(inverse.operand(0)) != 1):
                continue
            root, inverses = inverse.operands[-1], (other,)
        found = _over_root(value, root, inverses)
        if found is not None:
            return found
    return None


def _over_root(value: Value, root: Value, inverses: tuple[Value, ...]) -> _Quotient | None:
    taken = producer(root, "Sqrt")
    total = None if taken is None else producer(taken.operand(0), "Add")
    if taken is None or total is None:
        return None
    for mean, constant in pairs(total):
        epsilon = scalar_element(constant)
        reduced = producer(mean, "ReduceMean")
        square = None if reduced is None else reduced.operand(0)
        if epsilon is None or reduced is None or square is None or not _is_square(square, value):
            continue
        axes = _last_axes(reduced)
        if axes is not None:
            return _Quotient(value, axes[0], axes[1], epsilon, (*inverses, root, total.output, mean, square))
    return None


def _is_square(square: Value, value: Value) -> bool:
    node = square.producer
    if node is None or node.operand(0) is not value:
        return False
    return (node.op == "Pow" and scalar_element(node.operand(1)) == 2) or (
        node.op == "Mul" and node.operand(1) is value
    )


def _last_axes(reduced: Node) -> tuple[int, tuple[int, ...]] | None:
    """Return first axis and lengths of a reduction over the last axes with keepdims and known lengths."""
    value = reduced.operand(0)
    axes = constant_elements(reduced.operand(1))
    fact = None if value is None else value.fact
    if axes is None or not reduced.attributes.get("keepdims", 1) or not isinstance(fact, TensorFact):
        return None
    if fact.shape is None:
        return None
    rank = len(fact.shape)
    found = sorted(int(axis) % rank for axis in axes.reshape(-1))
    if not found or found != list(range(rank - len(found), rank)):
        return None
    dims = tuple(dim for dim in fact.shape[found[0] :] if isinstance(dim, int))
    return (found[0] - rank, dims) if len(dims) == len(found) else None


def _layernorm(node: Node) -> str | None:
    quotient = _match_quotient(node)
    difference = None if quotient is None else producer(quotient.value, "Sub")
    if quotient is None or difference is None:
        return None
    x, mean = difference.operand(0), difference.operand(1)
    reduced = producer(mean, "ReduceMean")
    if x is None or mean is None or reduced is None or reduced.operand(0) is not x:
        return None
    if _last_axes(reduced) != (quotient.first_axis, quotient.dims):
        return None
    parts = {*quotient.parts, quotient.value, mean}
    scaled = _match_scale(node, quotient, parts)
    if scaled is None:
        return None
    last, scale = scaled
    shift = sole_consumer(last.output)
    bias = _constant_operand(shift, last.output, quotient.dims) if shift is not None and shift.op == "Add" else None
    if bias is not None and shift is not None:
        last = shift
    attributes: dict[str, Attribute] = {"axis": quotient.first_axis, "epsilon": quotient.epsilon}
    return insert_operator(last, "LayerNormalization", [x, scale, bias], attributes)


def _rmsnorm(node: Node) -> str | None:
    quotient = _match_quotient(node)
    if quotient is None or not is_available(node, "RMSNormalization"):
        return None
    scaled = _match_scale(node, quotient, set(quotient.parts))
    if scaled is None:
        return None
    attributes: dict[str, Attribute] = {"axis": quotient.first_axis, "epsilon": quotient.epsilon}
    return insert_operator(scaled[0], "RMSNormalization", [quotient.value, scaled[1]], attributes)


def _match_scale(node: Node, quotient: _Quotient, parts: set[Value]) -> tuple[Node, Value] | None:
    """Return the product of `node` with a scale and the scale; `node` and ones if there is none.

    Raises:
        Left: an inner value has another consumer.
    """
    reader = sole_consumer(node.output)
    scale = None if reader is None or reader.op != "Mul" else _constant_operand(reader, node.output, quotient.dims)
    last = node if reader is None or scale is None else reader
    inside = {value.producer for value in [*parts, node.output]} | {last}
    if any(use.user not in inside for value in parts for use in value.uses):
        raise NotApplicable("an inner value has another consumer")
    if scale is None:
        fact = node.output.fact
        if not isinstance(fact, TensorFact) or fact.dtype is None:
            return None
        ones = np.ones(quotient.dims, fact.dtype.numpy)
        scale = add_constant(graph_of(node), ones, f"{node.output.name}.scale")
    return last, scale


def _constant_operand(node: Node, value: Value, dims: tuple[int, ...]) -> Value | None:
    """Return the constant operand of a node with operand `value`, as a tensor of shape `dims`."""
    for one, other in pairs(node):
        array = float_elements(other)
        if one is not value or array is None or other.storage is None:
            continue
        if array.shape == dims:
            return other
        if array.size == np.prod(dims) and array.ndim > len(dims) and array.shape[-len(dims) :] == dims:
            return add_constant(graph_of(node), other.storage.reshaped(dims), other.name)
    return None


# Products


def _gelu(node: Node) -> str | None:
    found = gelu_of(node)
    if found is None:
        return None
    x, approximate = found
    return insert_operator(node, "Gelu", [x], {} if approximate is None else {"approximate": approximate})


def _swish(node: Node) -> str | None:
    if is_inner_factor(node):
        return None
    product = product_of(node)
    if len(product.factors) != 2:
        return None
    for x, other in (product.factors, product.factors[::-1]):
        gate = other.producer
        if gate is None or sole_consumer(other) is None or x.fact != node.output.fact:
            continue
        # ONNX Runtime 1.31 runs Swish in models of its own opset only.
        is_known = opset_of(node) == registry.op_defs()["Swish"].since
        if gate.op == "Sigmoid" and gate.operand(0) is x and product.constant == 1 and is_known:
            return insert_operator(node, "Swish", [x], {})
        if _is_hard_sigmoid(gate, x, product.constant):
            return insert_operator(node, "HardSwish", [x], {})
    return None


def _is_hard_sigmoid(gate: Node, x: Value, constant: float) -> bool:
    if gate.op == "HardSigmoid":
        alpha, beta = gate.attributes.get("alpha", 0.2), gate.attributes.get("beta", 0.5)
        is_third = isinstance(alpha, float) and isclose(alpha, 1 / 6, rel_tol=CLOSE) and beta == 0.5
        return is_third and gate.operand(0) is x and constant == 1
    return shifted_by_three(gate) is x and isclose(constant, 1 / 6, rel_tol=CLOSE)
