"""Operators that remain in single precision by rule, independent of observed ranges.

Samples rarely contain the largest positions and images that a model supports. An angle of 8,000 has no fraction in
float16, and the squares of 1,000 pixels overflow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.constant_folding import folded
from graphport.ops.registry import op_defs
from graphport.quantization.placement import is_float32, moves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Node, Value

_PERIODIC = frozenset({"Sin", "Cos", "Tan"})
_ARITHMETIC = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Neg", "Pow", "Exp", "Log", "Reciprocal", "Sqrt", "Mod", "Floor", "Cast"),
        *("Concat", "Expand", "Tile", "Where", "Range", "CumSum", "Identity"),
    }
)
"""Operators that compute an angle from positions and frequencies; layers with weights are excluded."""
_DISCONTINUOUS = frozenset({"Floor", "Ceil", "Round", "Mod"})
_LAYERS = frozenset({"MatMul", "Gemm", "Conv"})
_MAX_ANGLE_NODES = 64
_MAX_REMAINDER_NODES = 3
"""Maximum number of nodes between Floor and the difference that it is a part of: x - floor(x / y) * y."""
_LARGE_ANGLE = 8.0
"""Root mean square of an angle in radians from which float16 has too few digits after the point."""
_MAX_TIMESTEP_RANK = 2
_NORMS = frozenset({"ReduceL2", "ReduceSumSquare", "LpNormalization", "GlobalLpPool"})
_SUMS = frozenset({"ReduceSum", "ReduceMean"})
_NORM_OPERATORS = frozenset({"Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal", "Pow", "Max", "Clip"})
"""Operators between a sum of squares and the resulting norm or deviation."""
_MIN_SUMMED_ELEMENTS = 256
"""Number of summed elements from which a sum of squares stays wide; open sizes count as that many."""


def angles(graph: Graph, rms: Mapping[Value, float]) -> set[Node]:
    """Return each Sin, Cos, Tan, Floor, Ceil, Round, Mod and cast to integers of positions, with the nodes before it.

    Positions are integers or graph inputs. A large angle that a layer computes counts as well, with the layer. The
    difference of a value and its Floor is included: it has fewer digits than both. `rms` is the root mean square
    of each value.
    """
    found: set[Node] = set()
    for node in graph:
        is_cast = node.op_type == "Cast" and _is_integer(node.output) and is_float32(node.operands[0])
        if node.dialect or not (node.op_type in _PERIODIC or node.op_type in _DISCONTINUOUS or is_cast):
            continue
        angle = node.operands[0]
        is_large = node.op_type in _PERIODIC and rms.get(angle, 0.0) > _LARGE_ANGLE
        made = _positional(angle, with_layer=is_large)
        if made is not None:
            found |= made | {node} | _differences(node, made)
    return found


def position_inputs(graph: Graph) -> set[Value]:
    """Return the inputs that are positions or timesteps: integers, or a float for each row."""
    found: set[Value] = set()
    for node in angles(graph, {}):
        for operand in node.operands:
            value = operand
            while (maker := value.producer) is not None and moves_elements(maker):
                value = maker.operands[0]
            shape = tuple(value.shape or ())
            is_single = len(shape) < _MAX_TIMESTEP_RANK or (len(shape) == _MAX_TIMESTEP_RANK and shape[-1:] == (1,))
            if value.is_input and value.storage is None and (_is_integer(value) or is_single):
                found.add(value)
    return found


def moves_elements(node: Node) -> bool:
    """Whether a node returns the elements of its first operand, of any type."""
    op_def = None if node.dialect else op_defs().get(node.op_type)
    return op_def is not None and op_def.role == "passive" and op_def.moves_data and len(node.operands) > 0


def _is_integer(value: Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer


def _differences(node: Node, made: set[Node]) -> set[Node]:
    """Return the nodes from `node` (Floor) to a Sub from an earlier value, as in x - floor(x); empty without one."""
    sources = {value for each in (*made, node) for value in each.operands}
    path: list[Node] = []
    current = node
    for _ in range(_MAX_REMAINDER_NODES):
        users = [user for user in current.output.users if not user.dialect and user.op_type in _ARITHMETIC]
        if not users:
            break
        ending = next((user for user in users if user.op_type == "Sub" and sources.intersection(user.operands)), None)
        path.append(ending or users[0])
        if ending is not None:
            return set(path)
        current = path[-1]
    return set()


def _positional(angle: Value, *, with_layer: bool = False) -> set[Node] | None:
    """Return the nodes that compute `angle`; `None` if one is a layer or the angle is an input.

    `with_layer` ends at layers instead.
    """
    found: set[Node] = set()
    waiting = [angle]
    while waiting:
        node = waiting.pop().producer
        if node is None or node in found:
            continue
        if with_layer and not node.dialect and node.op_type in _LAYERS:
            found.add(node)
            continue
        is_plain = not node.dialect and not node.has_bodies and (node.op_type in _ARITHMETIC or moves(node))
        if len(found) == _MAX_ANGLE_NODES or not (is_plain or _is_outer_product(node)):
            return None
        found.add(node)
        waiting += [value for value in node.operands if is_float32(value)]
    return found or None


def _is_outer_product(node: Node) -> bool:
    if node.op_type == "MatMul" and not node.dialect:
        shape = node.operands[0].shape
        return bool(shape) and shape[-1] == 1
    if node.op_type == "Einsum" and not node.dialect:
        left, _, right = str(node.attributes.get("equation", "")).replace(" ", "").partition("->")
        return set(left) - {","} <= set(right)
    return False


def sums_of_squares(graph: Graph) -> set[Node]:
    """Yield each reduction of many squares, with the squaring node and the nodes up to the norm or deviation."""
    found: set[Node] = set()
    for node in graph:
        if node.dialect or not (node.op_type in _NORMS or (node.op_type in _SUMS and _squares(node.operands[0]))):
            continue
        if _num_summed(node) >= _MIN_SUMMED_ELEMENTS:
            square = node.operands[0].producer
            found |= {node} | ({square} if square is not None and node.op_type in _SUMS else set())
            found |= _followers(node)
    return found


def _squares(value: Value) -> bool:
    node = value.producer
    if node is None or node.dialect:
        return False
    if node.op_type == "Mul":
        return node.operands[0] is node.operands[1]
    exponent = folded(node.operands[1]) if node.op_type == "Pow" else None
    return exponent is not None and exponent.count == 1 and float(exponent.numpy().reshape(-1)[0]) == 2


def _num_summed(node: Node) -> int:
    """Return the number of summed elements; open sizes count as `_MIN_ENTRIES`."""
    given, result = node.operands[0].shape or (), node.output.shape or ()
    sizes = [dim if isinstance(dim, int) else _MIN_SUMMED_ELEMENTS for dim in given]
    left = [dim if isinstance(dim, int) else _MIN_SUMMED_ELEMENTS for dim in result]
    total = 1
    for size in sizes:
        total *= size
    if node.op_type == "LpNormalization":
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
        if node.dialect or node.op_type not in _NORM_OPERATORS or len(others) - len(constants) > 1:
            break
        found.add(node)
    return found
