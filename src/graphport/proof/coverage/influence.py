"""Find input values and sizes of open dims that bring a value inside a graph near a number.

`solve` follows the value back to the graph inputs and inverts each operator elementwise. The result is a candidate: the
caller runs the graph to see whether the value is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic, bounds, symbols
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value

MAX_STEPS = 64
"""Operators between a value and an input."""
MAX_SIZE = 1 << 16
"""Largest size of an open dim that is looked for."""
MAX_SETTINGS = 4
"""Alternatives that are returned for one value."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Numbers for inputs, each for all elements or along the last axes, and sizes of open dims."""

    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])


def solve(value: Value, target: Any, sizes: Mapping[str, int], steps: int = MAX_STEPS) -> list[Setting]:
    """Yield settings that should bring `value` to `target`, a number or numbers along its last axis.

    Args:
        value: a value of a canonical graph or of a body in it.
        target: the requested number.
        sizes: usual sizes of open dims, for dims that are not changed.
        steps: maximum number of operators to follow back.
    """
    if steps <= 0 or value.graph is None:
        return []
    root = value.graph.root
    if value in root.input_set:
        return [Setting({value.name: target})] if value.storage is None and _is_finite_or_nan(target) else []
    elements = value.fact.elements if isinstance(value.fact, TensorFact) else None
    if elements is not None and any(isinstance(element, Symbolic) for element in elements):
        return _of_dims(root, elements, target, sizes)
    if value.producer is None:
        return _of_body_input(value, target, sizes, steps)
    return _before(value.producer, value, target, sizes, steps)[:MAX_SETTINGS]


def _is_finite_or_nan(target: Any) -> bool:
    return np.asarray(target).dtype.kind in "biuf"


def _of_dims(graph: Graph, elements: tuple[Dim, ...], target: Any, sizes: Mapping[str, int]) -> list[Setting]:
    """Return settings of one open dim each with which a dim expression reaches the target."""
    wanted = float(np.max(target))
    found: list[Setting] = []
    for element in elements:
        if not isinstance(element, Symbolic) or not isfinite(wanted):
            continue
        for name in sorted(graph.extents.free(element)):
            size = _least_size(graph, element, name, wanted, sizes)
            if size is not None:
                found.append(Setting(sizes={name: size}))
    return found


def _least_size(graph: Graph, element: Symbolic, name: str, wanted: float, sizes: Mapping[str, int]) -> int | None:
    """Return the least size of dim `name` with which `element`, which grows with it, is at least `wanted`."""
    known = dict.fromkeys(graph.extents.free(element), 1) | dict(sizes)

    def is_sufficient(size: int) -> bool:
        return graph.extents.evaluate(element, known | {name: size}) >= wanted

    symbol = symbols(element).get(name) or graph.extents.declared.get(name)
    low, high = bounds(symbol) if symbol is not None else (1, None)
    low, high = max(low or 0, 1), min(high or MAX_SIZE, MAX_SIZE)
    try:
        if not is_sufficient(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_sufficient(middle) else (middle + 1, high)
    except (KeyError, ZeroDivisionError, OverflowError):
        return None
    return low


def _of_body_input(value: Value, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings for an input of a body: from the operands of its node, or the trip count for an iteration."""
    body = value.graph
    node = None if body is None else body.parent
    if body is None or node is None or not value.is_input:
        return []
    index = body.inputs.index(value)
    if node.op == "Loop":
        trip = node.operand(0)
        if index == 0:
            return [] if trip is None else solve(trip, np.max(target) + 1, sizes, steps - 1)
        operand = node.operand(index)
    else:
        operand = node.operand(index)
    return [] if operand is None else solve(operand, target, sizes, steps - 1)


def _before(node: Node, value: Value, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings with which result `value` of a node should reach `target`."""
    if node.op in _ARITHMETIC:
        return _of_arithmetic(node, target, sizes, steps)
    special = _SPECIAL.get(node.op)
    if special is not None:
        return special(node, target, sizes, steps)
    if node.has_bodies:
        return _of_result_of_body(node, value, target, sizes, steps)
    x = node.operand(0)
    inverse = _INVERSE.get(node.op)
    if x is None or inverse is None:
        return []
    with np.errstate(all="ignore"):
        wanted = inverse(node, np.asarray(target, np.float64))
    return [] if wanted is None or not np.all(np.isfinite(wanted)) else solve(x, wanted, sizes, steps - 1)


def constant_of(value: Value | None) -> Any:
    """Return the elements of a small constant, possibly moved by operators (Reshape, Transpose); else `None`."""
    for _ in range(MAX_STEPS):
        if value is None:
            return None
        if value.storage is not None and not value.is_input:
            return value.storage.numpy()
        node = value.producer
        if node is None or node.op not in _MOVES:
            return None
        value = node.operand(0)
    return None


def input_of(value: Value | None) -> Value | None:
    """Return the graph input whose elements a value has, possibly moved; `None` if there is none."""
    for _ in range(MAX_STEPS):
        if value is None or value.graph is None or value.producer is None:
            break
        node = value.producer
        value = node.operand(0) if node.op in _MOVES else None
    is_input = value is not None and value.graph is not None and value in value.graph.root.input_set
    return value if is_input else None


_MOVES = frozenset({
    "Identity", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand", "Flatten", "Dropout", "Tile", "Slice",
    "Concat", "Split", "Gather", "Pad", "ReduceMean", "ReduceMax", "ReduceMin", "MaxPool", "AveragePool", "Resize",
    "GlobalAveragePool", "GlobalMaxPool", "DepthToSpace", "SpaceToDepth", "CastLike", "GatherElements", "Round",
    "Floor", "Ceil", "Relu", "LeakyRelu", "PRelu", "Gelu", "HardSwish", "Swish", "Mish", "CumSum", "Trilu",
    "ConstantOfShape",
})  # fmt: skip
"""Operators that give a constant tensor, of positive numbers at least, back as it is, approximately."""

_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod"})


def _of_arithmetic(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Yield settings for an operator: one operand is constant or remains unchanged."""
    x, y = node.operands[0], node.operands[-1]
    found: list[Setting] = []
    for position, (one, two) in enumerate(((x, y), (y, x))):
        if constant_of(one) is not None:
            continue
        known = constant_of(two)
        other = _NEUTRAL.get(node.op, 0.0) if known is None else _scalar_of(known, target)
        with np.errstate(all="ignore"):
            wanted = _without(node.op, np.asarray(target, np.float64), other, is_first=position == 0)
        if wanted is not None and np.all(np.isfinite(wanted)):
            found += solve(one, wanted, sizes, steps - 1)
    return found


_NEUTRAL = {"Mul": 1.0, "Div": 1.0, "Pow": 2.0}


def _scalar_of(known: Any, target: Any) -> Any:
    """Return the constant along the last axis if `target` has that length, else its element of largest magnitude."""
    known = np.asarray(known, np.float64)
    if np.ndim(target) and known.ndim and known.shape[-1] == np.shape(target)[-1]:
        return known.reshape(-1, known.shape[-1])[0]
    flat = known.reshape(-1)
    return flat[np.abs(flat).argmax()] if flat.size else 0.0


def _without(op: str, target: Any, other: Any, *, is_first: bool) -> Any:
    """Solve `op(x, other) = target` for x, the first operand if `is_first`, else the second."""
    match op:
        case "Add":
            return target - other
        case "Sub":
            return target + other if is_first else other - target
        case "Mul":
            return target / other
        case "Div":
            return target * other if is_first else other / target
        case "Pow":
            return np.power(target, 1 / other) if is_first else None
        case _:
            return target


def _of_product(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings for a product with a constant matrix: rows parallel to its column of largest norm."""
    x, y = node.operands[0], node.operands[1]
    weights, position = constant_of(y), 0
    if weights is None:
        weights, position = constant_of(x), 1
    if weights is None or np.ndim(weights) != 2:
        return [s for each in (x, y) for s in solve(each, np.sqrt(np.abs(np.max(target))), sizes, steps - 1)]
    matrix = np.asarray(weights, np.float64)
    is_turned = bool(node.attributes.get("transB" if position == 0 else "transA", 0))
    columns = matrix if (position == 0) != is_turned else matrix.T
    lengths = np.sum(columns**2, axis=0)
    if not lengths.size or not lengths.max():
        return []
    column = int(lengths.argmax())
    wanted = float(np.max(target)) * columns[:, column] / lengths[column]
    operand = (x, y)[position]
    return solve(operand, wanted if position == 0 else wanted[:, None], sizes, steps - 1)


def _of_convolution(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings for a convolution with constant weights: equal elements, from the largest filter sum."""
    weights = constant_of(node.operand(1))
    if weights is None or not np.size(weights):
        return []
    sums = np.asarray(weights, np.float64).reshape(weights.shape[0], -1).sum(axis=1)
    largest = sums[np.abs(sums).argmax()]
    return solve(node.operands[0], float(np.max(target)) / largest, sizes, steps - 1) if largest else []


def _of_comparison(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings that make a comparison true or false."""
    x, y = node.operands[0], node.operands[1]
    is_wanted = bool(np.max(target) > 0)
    sign = {"Less": -1, "LessOrEqual": -1, "Greater": 1, "GreaterOrEqual": 1}.get(node.op, 0)
    sign = sign if is_wanted else -sign if sign else 1
    found: list[Setting] = []
    for one, two, way in ((x, y, sign), (y, x, -sign)):
        known = constant_of(two)
        if constant_of(one) is None:
            bound = 0.0 if known is None else float(_scalar_of(known, 0.0))
            found += solve(one, bound + way * step_of(one, bound), sizes, steps - 1)
    return found


def step_of(value: Value, bound: float) -> float:
    """Return a distance from a bound at which a value is clearly on one side."""
    dtype = value.dtype
    if dtype is not None and dtype.is_integer:
        return 1.0
    return max(abs(bound) * 0.25, 1e-3 if abs(bound) < 1e-2 else 0.05)


def _of_not(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    return solve(node.operands[0], 0 if np.max(target) > 0 else 1, sizes, steps - 1)


def _of_any_operand(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    return [found for x in node.operands if constant_of(x) is None for found in solve(x, target, sizes, steps - 1)]


def _of_choice(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    operands = [x for x in node.inputs[1:] if x is not None and constant_of(x) is None]
    return [found for x in operands for found in solve(x, target, sizes, steps - 1)]


def _of_range(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    return solve(node.operands[1], np.max(target) + 1, sizes, steps - 1)


def _of_sum(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings for a reduction, with equal elements along the reduced axes."""
    x = node.operands[0]
    dims, kept = x.shape, node.output.shape
    if dims is None or kept is None or x.graph is None:
        return []
    extents = x.graph.root.extents
    try:
        whole, left = (prod(_size(extents, dim, sizes) for dim in shape) for shape in (dims, kept))
    except KeyError:
        return []
    count = max(whole // max(left, 1), 1)
    number = np.asarray(target, np.float64)
    with np.errstate(all="ignore"):
        each = {"ReduceSum": number / count, "ReduceL1": number / count, "ReduceL2": number / np.sqrt(count)}
        wanted = each.get(node.op, np.sqrt(np.abs(number) / count))
    return solve(x, wanted, sizes, steps - 1)


def _size(extents: Any, dim: Dim, sizes: Mapping[str, int]) -> int:
    return extents.evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim


def _of_index(node: Node, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Return settings for ArgMax along the last axis: 8 at the index `target`, 0 elsewhere."""
    x = node.operands[0]
    length = x.shape[-1] if x.shape else None
    place = int(np.max(target))
    if not isinstance(length, int) or not 0 <= place < length or node.attributes.get("axis", 0) not in {-1, _rank(x)}:
        return []
    return solve(x, np.where(np.arange(length) == place, 8.0, 0.0), sizes, steps - 1)


def _rank(value: Value) -> int:
    return len(value.shape or ()) - 1


def _of_result_of_body(node: Node, value: Value, target: Any, sizes: Mapping[str, int], steps: int) -> list[Setting]:
    """Yield settings for a result of If, Loop or Scan, from the result of its body."""
    skipped = 1 if node.op == "Loop" else 0
    position = list(node.outputs).index(value) + skipped
    found: list[Setting] = []
    for body in node.bodies():
        if position < len(body.outputs):
            found += solve(body.outputs[position], target, sizes, steps // 2)
    return found


_SPECIAL: dict[str, Any] = {
    "MatMul": _of_product,
    "Gemm": _of_product,
    "Conv": _of_convolution,
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"), _of_comparison),
    "Not": _of_not,
    "And": _of_any_operand,
    "Or": _of_any_operand,
    "Xor": _of_any_operand,
    "Sum": _of_any_operand,
    "Concat": _of_any_operand,
    "Where": _of_choice,
    "Range": _of_range,
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), _of_sum),
    "ArgMax": _of_index,
}


def _keep_target(_: Node, target: Any) -> Any:
    return target


def _of_normalization(node: Node, target: Any) -> Any:
    """Return the operand row for a target: a row unchanged, a scalar as the first element of a row of zeros."""
    x = node.operands[0]
    length = x.shape[-1] if x.shape else None
    if np.ndim(target) or not isinstance(length, int):
        return target
    return np.where(np.arange(length) == 0, target, 0.0)


def _logit(_: Node, target: Any) -> Any:
    return np.log(target / (1 - target))


_INVERSE: dict[str, Callable[[Node, Any], Any]] = {
    **dict.fromkeys(_MOVES, _keep_target),
    **dict.fromkeys(("Clip", "Abs", "Softmax", "LogSoftmax", "ReduceProd"), _keep_target),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "InstanceNormalization"), _of_normalization),
    **dict.fromkeys(("GroupNormalization", "BatchNormalization"), _keep_target),
    "Neg": lambda _, t: -t,
    "Reciprocal": lambda _, t: 1 / t,
    "Sqrt": lambda _, t: t * t,
    "Exp": lambda _, t: np.log(t),
    "Log": lambda _, t: np.exp(np.minimum(t, 60.0)),
    "Sigmoid": _logit,
    "Tanh": lambda _, t: np.arctanh(t),
    "Erf": lambda _, t: t,
    "Softplus": lambda _, t: np.log(np.expm1(np.minimum(t, 60.0))),
    "Sin": lambda _, t: np.arcsin(t),
    "Cos": lambda _, t: np.arccos(t),
    "Sign": lambda _, t: t,
    "IsNaN": lambda _, t: np.full_like(t, np.nan) if np.max(t) > 0 else np.zeros_like(t),
}
