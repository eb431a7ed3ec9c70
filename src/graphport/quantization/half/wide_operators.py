"""Operators that stay in single precision by rule, independent of observed ranges.

Samples rarely contain the largest positions and images that a model supports. An angle of 8,000 has no fraction in
float16, and the squares of 1,000 pixels overflow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.folded import folded
from graphport.quantization.placement import is_float32, moves

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_PERIODIC = frozenset({"Sin", "Cos", "Tan"})
_ARITHMETIC = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Neg", "Pow", "Exp", "Log", "Reciprocal", "Sqrt", "Mod", "Floor", "Cast"),
        *("Concat", "Expand", "Tile", "Where", "Range", "CumSum", "Identity"),
    }
)
"""Operators that compute an angle from positions and frequencies; layers with weights are excluded."""
_MAX_ANGLE_NODES = 64
_NORMS = frozenset({"ReduceL2", "ReduceSumSquare", "LpNormalization", "GlobalLpPool"})
_SUMS = frozenset({"ReduceSum", "ReduceMean"})
_NORM_OPERATORS = frozenset({"Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal", "Pow", "Max", "Clip"})
"""Operators between a sum of squares and the resulting norm or deviation."""
_MIN_SUMMED_ELEMENTS = 256
"""Number of summed elements from which a sum of squares stays wide; open sizes count as that many."""


def angles(graph: Graph) -> set[Node]:
    """Yield each Sin, Cos and Tan of an angle computed from positions and constants, with the angle.

    Positions are integers or graph inputs.
    """
    found: set[Node] = set()
    for node in graph:
        if not node.dialect and node.word in _PERIODIC:
            made = _positional(node.operands[0])
            found |= set() if made is None else made | {node}
    return found


def _positional(angle: Value) -> set[Node] | None:
    """Return the nodes that compute `angle`; `None` if one is a layer or the angle is an input."""
    found: set[Node] = set()
    waiting = [angle]
    while waiting:
        node = waiting.pop().producer
        if node is None or node in found:
            continue
        is_plain = not node.dialect and not node.has_bodies and (node.word in _ARITHMETIC or moves(node))
        if len(found) == _MAX_ANGLE_NODES or not (is_plain or _is_outer_product(node)):
            return None
        found.add(node)
        waiting += [value for value in node.operands if is_float32(value)]
    return found or None


def _is_outer_product(node: Node) -> bool:
    if node.word == "MatMul" and not node.dialect:
        shape = node.operands[0].shape
        return bool(shape) and shape[-1] == 1
    if node.word == "Einsum" and not node.dialect:
        left, _, right = str(node.attributes.get("equation", "")).replace(" ", "").partition("->")
        return set(left) - {","} <= set(right)
    return False


def sums_of_squares(graph: Graph) -> set[Node]:
    """Yield each reduction of many squares, with the squaring node and the nodes up to the norm or deviation."""
    found: set[Node] = set()
    for node in graph:
        if node.dialect or not (node.word in _NORMS or (node.word in _SUMS and _squares(node.operands[0]))):
            continue
        if _num_summed(node) >= _MIN_SUMMED_ELEMENTS:
            square = node.operands[0].producer
            found |= {node} | ({square} if square is not None and node.word in _SUMS else set())
            found |= _followers(node)
    return found


def _squares(value: Value) -> bool:
    node = value.producer
    if node is None or node.dialect:
        return False
    if node.word == "Mul":
        return node.operands[0] is node.operands[1]
    exponent = folded(node.operands[1]) if node.word == "Pow" else None
    return exponent is not None and exponent.count == 1 and float(exponent.numpy().reshape(-1)[0]) == 2


def _num_summed(node: Node) -> int:
    """Return the number of summed elements; open sizes count as `_MIN_ENTRIES`."""
    given, result = node.operands[0].shape or (), node.output.shape or ()
    sizes = [dim if isinstance(dim, int) else _MIN_SUMMED_ELEMENTS for dim in given]
    left = [dim if isinstance(dim, int) else _MIN_SUMMED_ELEMENTS for dim in result]
    total = 1
    for size in sizes:
        total *= size
    if node.word == "LpNormalization":
        return sizes[int(str(node.attributes.get("axis", -1)))] if sizes else 1
    for size in left:
        total = total // size if size else total
    return total


def _followers(node: Node) -> set[Node]:
    found: set[Node] = set()
    while len(node.output.users) == 1 and not node.output.is_output:
        (node,) = node.output.users
        others = [value for value in node.operands if is_float32(value) and value.producer not in found]
        constants = [value for value in others if folded(value) is not None]
        if node.dialect or node.word not in _NORM_OPERATORS or len(others) - len(constants) > 1:
            break
        found.add(node)
    return found
