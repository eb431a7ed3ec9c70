"""Ranges of values that hold for all inputs of the graph."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Node, Value

    Range = tuple[float, float]

EVERY: Range = (-inf, inf)
MAX_DEPTH = 12
"""Operators that are followed backward."""
MAX_READ = 1 << 16
"""Bytes of a constant that is looked at for its range."""

_RANGES: dict[str, Range] = {
    "Relu": (0, inf),
    "Sigmoid": (0, 1),
    "HardSigmoid": (0, 1),
    "Softmax": (0, 1),
    "LogSoftmax": (-inf, 0),
    "Softplus": (0, inf),
    "Tanh": (-1, 1),
    "Sin": (-1, 1),
    "Cos": (-1, 1),
    "Erf": (-1, 1),
    "Abs": (0, inf),
    "Exp": (0, inf),
    "Sqrt": (0, inf),
    "ReduceL1": (0, inf),
    "ReduceL2": (0, inf),
    "ReduceSumSquare": (0, inf),
    "Softsign": (-1, 1),
    "Sign": (-1, 1),
    "Hardmax": (0, 1),
    "HardSwish": (-0.375, inf),
    "Gelu": (-0.17, inf),
    "Mish": (-0.31, inf),
    "Swish": (-0.28, inf),
    "Acos": (0, float(np.pi)),
    "Atan": (-float(np.pi) / 2, float(np.pi) / 2),
    "Asin": (-float(np.pi) / 2, float(np.pi) / 2),
    "Cosh": (1, inf),
    "Acosh": (0, inf),
}
"""Ranges of the results of bounded operators."""

_KEPT = frozenset(
    {
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "Identity",
        "Dropout",
        "Gather",
        "GatherElements",
        "GatherND",
        "Slice",
        "Split",
        "Expand",
        "Tile",
        "DepthToSpace",
        "SpaceToDepth",
    }
)
"""Operators whose results lie in the range of their first operand."""
_MERGED = frozenset({"Concat", "Where", "Max", "Min"})
"""Operators whose results lie in the union of the ranges of their operands (of `Where`, all but the condition)."""
_ROOTS = frozenset({"Sqrt", "Log"})
_NAN_FREE = frozenset({"Add", "Where", "Max", "Min", "Concat"})
"""Operators that compute no NaN from -inf in a mask and finite elements."""
_NAN_PRODUCERS = frozenset({
    "Log", "Sqrt", "Div", "Reciprocal", "Mod", "Pow", "Acos", "Acosh", "Asin", "Atanh",
    "LpNormalization", "ReduceLogSum", "Det", "Mean", "ReduceMean", "If", "Loop", "Scan",
})  # fmt: skip
"""Operators that may compute NaN from finite elements."""
_SOFTMAX = frozenset({"Softmax", "LogSoftmax", "ReduceLogSumExp"})
"""Operators that compute NaN from rows of -inf."""


def may_be_nan(value: Value, depth: int = MAX_DEPTH, *, is_infinity_safe: bool = True) -> bool:
    """Whether an element can be NaN if the operands of convolutions and of products of matrices are finite.

    Args:
        value: the value.
        depth: operators that are followed backward.
        is_infinity_safe: whether the users of the value compute no NaN from -inf.
    """
    node = value.producer
    op_def = None if node is None or node.dialect else registry.op_defs().get(node.op)
    if node is None or op_def is None or depth == 0 or node.op in _NAN_PRODUCERS:
        return True
    if op_def.role == "weighted":
        return False
    is_safe = is_infinity_safe and node.op not in _SOFTMAX
    for operand in node.operands:
        if operand.storage is None or operand.is_input:
            if may_be_nan(operand, depth - 1, is_infinity_safe=is_safe):
                return True
        elif not (is_safe and node.op in _NAN_FREE) and not _is_finite(operand):
            return True
    return False


def _is_finite(constant: Value) -> bool:
    storage = constant.storage
    return storage is not None and (storage.dtype.kind != "f" or bool(np.isfinite(storage.numpy()).all()))


def range_of(value: Value, depth: int = MAX_DEPTH) -> Range:
    """Return lower and upper bound of a value's elements; infinite if unbounded."""
    if value.storage is not None and value.producer is None and not value.is_input:
        return _of_constant(value)
    node = value.producer
    if node is None or depth == 0:
        return EVERY
    if node.op in _RANGES:
        return _RANGES[node.op]
    return _of_node(node, depth - 1)


def _of_node(node: Node, depth: int) -> Range:
    op_def = registry.op_defs().get(node.op)
    if op_def is not None and (node.op in _KEPT or op_def.moves_data) and node.op not in _MERGED:
        return range_of(node.operands[0], depth)
    operands = node.operands
    match node.op:
        case "Clip":
            low, high = node.operand(1), node.operand(2)
            least, largest = range_of(operands[0], depth)
            least = max(least, -inf if low is None else range_of(low, depth)[0])
            return least, min(max(largest, least), inf if high is None else range_of(high, depth)[1])
        case "Max":
            ranges = [range_of(each, depth) for each in operands]
            return max(low for low, _ in ranges), max(high for _, high in ranges)
        case "Min":
            ranges = [range_of(each, depth) for each in operands]
            return min(low for low, _ in ranges), min(high for _, high in ranges)
        case "Concat" | "Where":
            ranges = [range_of(each, depth) for each in operands[node.op == "Where" :]]
            return min(low for low, _ in ranges), max(high for _, high in ranges)
        case "Sub" if _reduces("ReduceMax", operands):
            return -inf, 0
        case "Sub" if _reduces("ReduceMin", operands):
            return 0, inf
        case "Add" | "Sub":
            (a, b), (c, d) = (range_of(each, depth) for each in operands[:2])
            return (a + c, b + d) if node.op == "Add" else (a - d, b - c)
        case "Mul" if operands[0] is operands[1]:
            return 0, inf
        case "Mul" | "Div":
            return _of_product(node, depth)
        case "Pow" if _is_even(operands[1]):
            return 0, inf
        case "Neg":
            low, high = range_of(operands[0], depth)
            return -high, -low
        case "Cast":
            return range_of(operands[0], depth)
        case "ReduceSum" | "CumSum":
            low, high = range_of(operands[0], depth)
            return (0 if low >= 0 else -inf), (0 if high <= 0 else inf)
        case "Pad":
            low, high = range_of(operands[0], depth)
            filled = node.operand(2)
            least, largest = (0.0, 0.0) if filled is None else range_of(filled, depth)
            return min(low, least), max(high, largest)
        case _:
            return EVERY


def _reduces(op: str, operands: Sequence[Value]) -> bool:
    """Whether the second of two operands is the first one reduced."""
    node = operands[1].producer
    return node is not None and node.op == op and node.operands[0] is operands[0]


def _of_product(node: Node, depth: int) -> Range:
    (a, b), (c, d) = (range_of(each, depth) for each in node.operands[:2])
    if a >= 0 and c >= 0:
        is_bounded = node.op == "Mul" and b < inf and d < inf
        return 0, b * d if is_bounded else inf
    if c == d and c != 0 and np.isfinite(c):
        factor = c if node.op == "Mul" else 1 / c
        low, high = sorted((a * factor, b * factor))
        return low, high
    return EVERY


def _is_even(exponent: Value) -> bool:
    low, high = range_of(exponent, 1)
    return low == high and np.isfinite(low) and low % 2 == 0


def _of_constant(value: Value) -> Range:
    storage = value.storage
    if storage is None or storage.dtype is DType.STRING or storage.nbytes > MAX_READ or not storage.count:
        return EVERY
    if storage.dtype.kind not in "fiu":
        return EVERY
    elements = storage.numpy().astype(np.float64)
    if np.isnan(elements).any():
        return EVERY
    return float(elements.min()), float(elements.max())


_WHOLE = frozenset({"Sign", "Round", "Floor", "Ceil"})


def is_integral(value: Value, depth: int = MAX_DEPTH) -> bool:
    """Whether all elements of a float value are integers for all inputs of the graph."""
    node = value.producer
    if node is None or depth == 0:
        return False
    if node.op in _WHOLE:
        return True
    x = node.operand(0)
    if x is None:
        return False
    if node.op == "Cast":
        return x.dtype is not None and (x.dtype.is_integer or x.dtype.kind == "b")
    op_def = registry.op_defs().get(node.op)
    return op_def is not None and op_def.moves_data and node.op not in _MERGED and is_integral(x, depth - 1)


def domain_of(value: Value) -> Range:
    """Return the range of a value for which its consumers are defined, such as non-negative for Sqrt."""
    if any(user.op in _ROOTS for user in value.users):
        return 0.0, inf
    if any(user.op == "Pow" and user.operand(0) is value for user in value.users):
        return 0.0, inf
    return EVERY
