"""Fuse activations into ncnn layers, as ncnn's optimizer does."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Node, Value

_TAKING = frozenset(
    {
        *("Convolution", "ConvolutionDepthWise", "Convolution1D", "ConvolutionDepthWise1D", "Convolution3D"),
        *("ConvolutionDepthWise3D", "Deconvolution", "DeconvolutionDepthWise", "InnerProduct"),
    }
)
"""Layers with a fused activation: parameter 9 is its type, 10 its parameters."""
_TYPE, _NUMBERS = "9", "10"
_PLAIN: Mapping[str, int] = MappingProxyType({"Sigmoid": 4, "Mish": 5})
_TERM = "8"
"""Parameter of integer layers, whose activations are not fused."""


def fuse_activations(graph: Graph) -> int:
    """Fuse each activation into the layer that computes its operand; return the number of fusions.

    Before  h = Convolution(x);  y = ReLU(h)
    After   y = Convolution(x, 9=1)

    Does not apply if the layer has an activation or int8 weights, or if h has another consumer.
    """
    count = 0
    for node in list(graph):
        known = _activation(node)
        value = node.operand(0)
        layer = None if value is None else value.producer
        if known is None or layer is None or layer.op_type not in _TAKING or layer.dialect != node.dialect:
            continue
        if len(layer.results[0].uses) != 1 or layer.attributes.get(_TYPE) or layer.attributes.get(_TERM):
            continue
        number, numbers = known
        layer.set_attribute(_TYPE, number)
        if numbers:
            layer.set_attribute(_NUMBERS, numbers)
        pass_on(graph, node, layer)
        count += 1
    return count


def fuse_swish(graph: Graph) -> int:
    """Fuse the product of a blob and its sigmoid into a Swish layer; return the number of fusions.

    Before  a, b = Split(x);  s = Sigmoid(a);  y = BinaryOp(b, s, 0=2)
    After   y = Swish(x)

    Does not apply if the sigmoid has another consumer. Values are equal up to rounding.
    """
    count = 0
    for node in list(graph):
        if node.op_type != "BinaryOp" or node.attributes.get("0") != _PRODUCT or len(node.operands) != 2:
            continue
        for x, y in (node.operands, node.operands[::-1]):
            sigmoid, split = y.producer, x.producer
            if sigmoid is None or sigmoid.op_type != "Sigmoid" or len(y.uses) != 1 or split is None:
                continue
            if split.op_type != "Split" or sigmoid.operands[0].producer is not split:
                continue
            _swish(graph, node, x, sigmoid)
            count += 1
            break
    return count


def _swish(graph: Graph, node: Node, x: Value, sigmoid: Node) -> None:
    copy = sigmoid.operands[0]
    node.op_type, node.inputs = "Swish", [x]
    node.attributes.clear()
    graph.remove(sigmoid)
    drop_copies(graph, [copy])


_PRODUCT = 2


def drop_copies(graph: Graph, copies: list[Value]) -> None:
    """Remove unused results of Split layers, and Splits with one result."""
    for copy in copies:
        split = copy.producer
        if split is None or split.op_type != "Split" or copy.uses or copy.returns:
            continue
        split.drop_output(split.outputs.index(copy))
        if len(split.results) == 1 and not split.results[0].returns:
            split.results[0].replace_uses(split.operands[0])
            graph.remove(split)


def pass_on(graph: Graph, node: Node, layer: Node) -> None:
    """Replace the result of `node` by the result of `layer`, which takes its name and fact; remove `node`."""
    old, new = node.results[0], layer.results[0]
    old.name, new.name = new.name, old.name
    new.fact = old.fact
    if old.has_notes:
        new.notes.update(old.notes)
    old.replace_uses(new)
    graph.remove(node)


def _activation(node: Node) -> tuple[int, tuple[float, ...]] | None:
    """Return number and parameters of an activation (parameters 9 and 10 of a layer); `None` for other nodes."""
    if len(node.results) != 1:
        return None

    def parameter(key: str, default: float) -> float:
        value = node.attributes.get(key, default)
        return float(value) if isinstance(value, int | float) else default

    match node.op_type:
        case "ReLU":
            slope = parameter("0", 0.0)
            return (2, (slope,)) if slope else (1, ())
        case "Clip":
            return 3, (parameter("0", -3.4028235e38), parameter("1", 3.4028235e38))
        case "HardSwish":
            return 6, (parameter("0", 0.2), parameter("1", 0.5))
        case op_type if op_type in _PLAIN:
            return _PLAIN[op_type], ()
        case _:
            return None
