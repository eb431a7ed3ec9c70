"""Input values that expose differences which samples of N(0, 1) do not.

Each kind of values is a function of a random generator and a shape. Kinds are derived from the operators that an input
reaches: rows of small variance for a normalization, equal elements for an ArgMax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.ir.graph import Node
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphport.core.dtypes import DType
    from graphport.ir.graph import Graph, Value

    Make = Callable[[np.random.Generator, Sequence[int]], Any]

MAX_NODES = 20_000
"""Nodes that are looked at from one input."""
SCALES = (1e-4, 1e-2, 0.1, 10.0, 100.0, 1e3, 1e4)
ROW_SCALES = (1.0, 1e-4, 1e-2, 0.1, 10.0, 100.0, 1e3)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of values for real inputs."""

    name: str
    make: Make
    operators: frozenset[str] = frozenset()
    """Operators that ask for it; every input has it if there are none."""
    is_special: bool = False
    """Whether the values are NaN, infinite or so large that runtimes may legitimately differ."""
    is_finite: bool = True
    """Whether no value is NaN or infinite. Others are no use of products of matrices or of convolutions."""


def _rows(shape: Sequence[int]) -> tuple[int, int]:
    """Return the number of rows and their length; the last axis is a row if the rank is at least 2."""
    if len(shape) < 2:
        return 1, int(np.prod(shape, dtype=np.int64))
    return int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]


def _of_scale(scale: float) -> Make:
    return lambda random, shape: random.normal(size=shape) * scale


def _scaled_rows(random: np.random.Generator, shape: Sequence[int]) -> Any:
    """Rows of different scales, a row of zeros and a row of equal elements among them."""
    count, length = _rows(shape)
    scales = np.resize((*ROW_SCALES, 0.0), count)
    if count > len(ROW_SCALES) + 1:
        random.shuffle(scales)
    found = random.normal(size=(count, length)) * scales[:, None]
    found[len(ROW_SCALES) + 1 :: len(ROW_SCALES) + 2] = 0.5
    return found.reshape(shape)


def _shifted_rows(random: np.random.Generator, shape: Sequence[int]) -> Any:
    """Rows of small variance around different means."""
    count, length = _rows(shape)
    means = np.resize((0.0, 1.0, -3.0, 10.0), count)
    return (means[:, None] + 0.01 * random.normal(size=(count, length))).reshape(shape)


def _ties(random: np.random.Generator, shape: Sequence[int]) -> Any:
    return random.integers(-2, 3, shape).astype(np.float64)


def _negative(random: np.random.Generator, shape: Sequence[int]) -> Any:
    return -np.abs(random.normal(size=shape)) - 0.1


def _large_negative(random: np.random.Generator, shape: Sequence[int]) -> Any:
    """Values below -1e4, which masks use instead of minus infinity."""
    return -3e4 - 10 * np.abs(random.normal(size=shape))


def _positive(random: np.random.Generator, shape: Sequence[int]) -> Any:
    return np.abs(random.normal(size=shape)) + 0.1


def _unit(random: np.random.Generator, shape: Sequence[int]) -> Any:
    return random.uniform(size=shape)


def _pixels(random: np.random.Generator, shape: Sequence[int]) -> Any:
    return random.integers(0, 256, shape).astype(np.float64)


def _half_steps(random: np.random.Generator, shape: Sequence[int]) -> Any:
    return random.integers(-6, 7, shape) / 2.0


def _zeros(_: np.random.Generator, shape: Sequence[int]) -> Any:
    """Zeros with alternating signs."""
    return np.resize((0.0, -0.0), shape)


def _single_channels(random: np.random.Generator, shape: Sequence[int]) -> Any:
    """One large element in each row, zeros elsewhere."""
    count, length = _rows(shape)
    found = np.zeros((count, length))
    if length:
        found[np.arange(count), np.arange(count) % length] = random.choice((-30.0, 5.0, 30.0), count)
    return found.reshape(shape)


def _zero_one(random: np.random.Generator, shape: Sequence[int]) -> Any:
    """Zeros and ones with rows of each alone, as real masks have."""
    count, length = _rows(shape)
    found = (random.random((count, length)) < 0.5).astype(np.float64)
    found[0::3] = 0.0
    found[1::3] = 1.0
    return found.reshape(shape)


def _sprinkled(*numbers: float) -> Make:
    def make(random: np.random.Generator, shape: Sequence[int]) -> Any:
        found = random.normal(size=shape)
        if found.size:
            flat = found.reshape(-1)
            places = random.choice(flat.size, max(flat.size // 8, 1), replace=False)
            flat[places] = np.resize(numbers, len(places))
        return found

    return make


_NORMALIZING = frozenset({
    "LayerNormalization", "GroupNormalization", "InstanceNormalization", "RMSNormalization", "BatchNormalization",
    "MeanVarianceNormalization", "LpNormalization", "LRN", "ReduceL2", "ReduceSumSquare", "Sqrt", "Div", "Reciprocal",
})  # fmt: skip
_ROUNDING = frozenset({"Round", "Floor", "Ceil", "Cast", "Mod", "QuantizeLinear", "Resize", "Trunc"})
_INDEXING = frozenset({"ArgMax", "ArgMin", "TopK", "NonMaxSuppression", "Unique", "Hardmax"})
_GUARDING = frozenset({"IsNaN", "IsInf"})

KINDS: tuple[ValueKind, ...] = (
    ValueKind("rows of different scales", _scaled_rows),
    *(ValueKind(f"N(0, 1) times {scale:g}", _of_scale(scale), is_special=scale > 100) for scale in SCALES),
    ValueKind("negative numbers", _negative),
    ValueKind("positive numbers", _positive),
    ValueKind("large negative numbers", _large_negative, is_special=True),
    ValueKind("single channels", _single_channels),
    ValueKind("zeros and ones", _zero_one),
    ValueKind("rows of small variance", _shifted_rows, _NORMALIZING),
    ValueKind("zeros", _zeros, _NORMALIZING | _GUARDING | _INDEXING),
    ValueKind("equal numbers", _ties, _INDEXING | _ROUNDING),
    ValueKind("half steps", _half_steps, _ROUNDING),
    ValueKind("numbers in [0, 1]", _unit),
    ValueKind("pixels", _pixels),
    ValueKind("NaN", _sprinkled(np.nan), _GUARDING, is_special=True, is_finite=False),
    ValueKind(
        "infinity",
        _sprinkled(np.inf, -np.inf),
        _GUARDING | frozenset({"Clip", "Min", "Max"}),
        is_special=True,
        is_finite=False,
    ),
)


def uses_reached(value: Value, *, through_products: bool = True) -> set[tuple[str, int]]:
    """Return the operators that depend on a value, with the index of the operand, bodies included.

    Args:
        value: the value.
        through_products: whether to follow the results of convolutions and matrix products.
    """
    seen: set[Value] = {value}
    todo = [value]
    found: set[tuple[str, int]] = set()
    while todo and len(seen) < MAX_NODES:
        for node, index in todo.pop().uses:
            if not isinstance(node, Node):
                continue
            found.add((node.op, index))
            if not through_products and is_product(node):
                continue
            bodies = [inner for body in node.bodies() for inner in (*body.inputs, *_values_of(body))]
            new = [result for result in (*node.results, *bodies) if result not in seen]
            seen.update(new)
            todo += new
    return found


def operators_reached(value: Value, *, through_products: bool = True) -> frozenset[str]:
    """Return the operators that depend on a value, bodies included."""
    return frozenset(op for op, _ in uses_reached(value, through_products=through_products))


def is_product(node: Node) -> bool:
    """Whether a node sums products (convolution, matrix product), where one infinite element causes many NaN."""
    op_def = None if node.dialect else registry.op_defs().get(node.op)
    return op_def is not None and op_def.role == "weighted"


def is_never_zero(value: Value) -> bool:
    """Whether an integer input may reach a divisor or the step of a Range, where 0 is undefined."""
    dtype = value.dtype
    return dtype is not None and dtype.is_integer and bool(uses_reached(value) & _DIVIDING)


_DIVIDING = {("Div", 1), ("Mod", 1), ("Range", 2)}


def _values_of(body: Graph) -> Iterator[Value]:
    return (value for node in body for value in node.results)


def kinds_for(*values: Value) -> list[ValueKind]:
    """Return the kinds of values for an input's operators; `values` are the input in both graphs."""
    reached = _operators_of(values)
    directly = _operators_of(values, through_products=False)
    return [kind for kind in KINDS if not kind.operators or kind.operators & (reached if kind.is_finite else directly)]


def _operators_of(values: Sequence[Value], *, through_products: bool = True) -> frozenset[str]:
    reached = (operators_reached(value, through_products=through_products) for value in values)
    return frozenset[str]().union(*reached)


COUNTS = (0, 1, 2, 3, 5, 24)
"""Iteration counts and lengths for integer inputs."""

_COUNTING = frozenset(
    {"Loop", "Range", "ConstantOfShape", "Expand", "Reshape", "Tile", "Resize", "Pad", "TopK", "OneHot"}
)


def is_count(value: Value) -> bool:
    """Whether an integer input may determine a trip count or a tensor size."""
    return bool(operators_reached(value) & _COUNTING)


def constant_values(number: int) -> Make:
    """Return a generator of arrays filled with `number`."""
    return lambda _, shape: np.full(shape, number)


def integers_of(low: int, high: int, *, is_data: bool, bits: int) -> Iterator[tuple[str, Make]]:
    """Return kinds of values in [low, high) for an integer input; only data (`is_data`) may be large."""
    yield "lowest indices", lambda _, shape: np.full(shape, low)
    yield "highest indices", lambda _, shape: np.full(shape, high - 1)
    yield "increasing indices", lambda _, shape: _increasing(shape, low, high)
    yield "decreasing indices", lambda _, shape: high - 1 - (_increasing(shape, low, high) - low)
    if is_data and bits >= 32:
        yield "hundreds of thousands", lambda random, shape: random.integers(-(10**6), 10**6, shape)
    if is_data and bits == 64:
        ends = np.array([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 + 1, -5, 7], np.int64)
        yield "integers around 2**31", lambda random, shape: random.choice(ends, shape)


def _increasing(shape: Sequence[int], low: int, high: int) -> Any:
    length = shape[-1] if shape else 1
    return np.broadcast_to(low + np.arange(length) % max(high - low, 1), shape)


def _causal(_: np.random.Generator, shape: Sequence[int]) -> Any:
    return np.tril(np.ones(shape, np.bool_)) if len(shape) > 1 else np.ones(shape, np.bool_)


def _padded(*, is_left: bool) -> Make:
    def make(_: np.random.Generator, shape: Sequence[int]) -> Any:
        count, length = _rows(shape)
        kept = np.maximum(length - np.arange(count) % max(length, 1), 1)
        found = np.arange(length) < kept[:, None]
        return (found[:, ::-1] if is_left else found).reshape(shape)

    return make


def _empty_rows(random: np.random.Generator, shape: Sequence[int]) -> Any:
    count, length = _rows(shape)
    found = random.random((count, length)) < 0.5
    found[::2] = False
    return found.reshape(shape)


def _empty_columns(random: np.random.Generator, shape: Sequence[int]) -> Any:
    found = random.random(shape) < 0.5
    found[..., ::2] = False
    return found


MASKS: tuple[tuple[str, Make], ...] = (
    ("all true", lambda _, shape: np.ones(shape, np.bool_)),
    ("all false", lambda _, shape: np.zeros(shape, np.bool_)),
    ("false rows", _empty_rows),
    ("false columns", _empty_columns),
    ("causal", _causal),
    ("right padding", _padded(is_left=False)),
    ("left padding", _padded(is_left=True)),
)


def is_float_input(dtype: DType | None) -> bool:
    """Whether an input is a float tensor with kinds of values."""
    return dtype is not None and dtype.kind == "f" and dtype.bits >= 16
