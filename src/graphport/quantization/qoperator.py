"""Convert QDQ graphs to QOperator form, for runtimes that do not fuse QDQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.formats.onnx.rules.com_microsoft.binding import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Graph

_BYTE = 8
_ELEMENTWISE = {"Add": "QLinearAdd", "Mul": "QLinearMul"}
_CURVES = {
    "Sigmoid": "QLinearSigmoid",
    "LeakyRelu": "QLinearLeakyRelu",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
}
_REDUNDANT_CLAMPS = frozenset({"Relu", "Clip"})


@dataclass(frozen=True, slots=True)
class _Rounded:
    """Codes with scale and zero point."""

    codes: Value
    scale: Value
    zero: Value

    @property
    def all(self) -> list[Value]:
        return [self.codes, self.scale, self.zero]


def as_qoperators(graph: Graph) -> Graph:
    """Return a copy of `graph` with integer operators in place of nodes between 8-bit Q and DQ nodes.

    Before  y = QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b))))
    After   y = QLinearConv(x, …, w, …, b)

    Likewise MatMul (QLinearMatMul) and, in domain com.microsoft, Add, Mul, Sigmoid, LeakyRelu and GlobalAveragePool. A
    Relu or Clip is removed if no code exceeds its bounds. Does not apply to results with float consumers, to other
    types, and to nodes without such an operator.
    """
    twin = rewrite.copy(graph)
    for node in list(twin):
        end = None if node.dialect else _end(node)
        new = None if end is None else _emitted(twin, node, end)
        if end is None or new is None:
            continue
        twin.insert_before(node, new)
        rewrite.replace(end.output, new.output, keep=[new])
    rewrite.remove_dead(twin)
    return twin


def _emitted(graph: Graph, node: Node, end: Node) -> Node | None:
    """Emit `node` as an integer operator with the result of `end`."""
    scale, zero = end.operands[1], end.operands[2]
    sources = [_taken_back(node.operand(index)) for index in range(len(node.inputs))]
    result = Value(graph.fresh(f"{end.output.name}_said"), end.output.fact)
    first = sources[0] if sources else None
    second = sources[1] if len(sources) > 1 else None
    attributes = dict(node.attributes)
    if first is None or first.scale.storage is None or first.scale.storage.count != 1:
        return None
    if node.op_type == "Conv" and second is not None:
        bias = _bias(node.operand(2))
        if node.operand(2) is not None and bias is None:
            return None
        more = [] if bias is None else [bias]
        return Node("QLinearConv", [*first.all, *second.all, scale, zero, *more], [result], attributes, name=node.name)
    if node.op_type == "MatMul" and second is not None:
        return Node("QLinearMatMul", [*first.all, *second.all, scale, zero], [result], name=node.name)
    if node.op_type in _ELEMENTWISE and second is not None:
        return _integer_node(_ELEMENTWISE[node.op_type], [*first.all, *second.all, scale, zero], result, {}, node.name)
    if node.op_type in _CURVES:
        return _integer_node(_CURVES[node.op_type], [*first.all, scale, zero], result, attributes, node.name)
    return None


def _integer_node(op: str, operands: list[Value], result: Value, attributes: dict[str, Attribute], name: str) -> Node:
    return Node(op, operands, [result], attributes, dialect=DIALECT, name=name)


def _end(node: Node) -> Node | None:
    """Return the 8-bit QuantizeLinear that is the only consumer of `node`, directly or after redundant clamps."""
    if len(node.results) != 1:
        return None
    value, low, high = node.output, -np.inf, np.inf
    while True:
        reader = value.users[0] if len(value.uses) == 1 and not value.is_output else None
        if reader is None or reader.dialect:
            return None
        if reader.op_type == "QuantizeLinear":
            return reader if reader.operands[0] is value and _is_within(reader, low, high) else None
        bounds = _bounds(reader) if reader.op_type in _REDUNDANT_CLAMPS and reader.operands[0] is value else None
        if bounds is None:
            return None
        low, high, value = max(low, bounds[0]), min(high, bounds[1]), reader.output


def _bounds(node: Node) -> tuple[float, float] | None:
    """Return the bounds of a Relu or Clip; `None` if they are computed."""
    if node.op_type == "Relu":
        return 0.0, np.inf
    found = [-np.inf, np.inf]
    for place in (1, 2):
        value = node.operand(place)
        if value is not None:
            if value.storage is None or value.storage.count != 1:
                return None
            found[place - 1] = float(value.storage.numpy().reshape(-1)[0])
    return found[0], found[1]


def _is_within(end: Node, low: float, high: float) -> bool:
    """Whether a QuantizeLinear has per-tensor 8-bit qparams whose codes are within these bounds."""
    fact = end.output.fact
    numbers = [value.storage for value in end.operands[1:3] if value.storage is not None]
    if not isinstance(fact, TensorFact) or fact.dtype is None or len(numbers) != 2:
        return False
    if not fact.dtype.is_integer or fact.dtype.bits != _BYTE or numbers[0].count != 1:
        return False
    scale, zero = (float(each.numpy().reshape(-1)[0]) for each in numbers)
    least = -128 if fact.dtype.kind == "i" else 0
    return (least - zero) * scale >= low - scale / 2 and (least + 255 - zero) * scale <= high + scale / 2


def _taken_back(value: Value | None) -> _Rounded | None:
    """Return the 8-bit integers, scale and zero point that a DequantizeLinear converts to `value`; `None` without."""
    made = None if value is None else value.producer
    if made is None or made.dialect or made.op_type != "DequantizeLinear" or len(made.operands) != 3:
        return None
    fact = made.operands[0].fact
    is_byte = (
        isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.bits == _BYTE and fact.dtype.is_integer
    )
    return None if not is_byte or made.attributes.get("block_size") else _Rounded(*made.operands)


def _bias(value: Value | None) -> Value | None:
    """Return the integers of a bias."""
    made = None if value is None else value.producer
    if made is None or made.dialect or made.op_type != "DequantizeLinear":
        return None
    fact = made.operands[0].fact
    return (
        made.operands[0] if isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.bits == 32 else None
    )
