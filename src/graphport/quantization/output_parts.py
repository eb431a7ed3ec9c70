"""Divide the outputs of a model into parts that are judged separately.

A detector concatenates box coordinates up to 640 and class scores up to 1. The noise of the scores disappears in the
energy of the coordinates, so that each concatenated value has its own signal-to-noise ratio. Its signal is the variance
of the elements: a constant offset carries no information.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.comparison.stream import is_array
from graphport.quantization.require_layers import is_weighted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

Array: TypeAlias = "np.ndarray[Any, Any]"
Axes: TypeAlias = "tuple[int | None, ...]"

_ELEMENTWISE = frozenset(
    {
        *(
            "Abs",
            "Cast",
            "Clip",
            "Elu",
            "Erf",
            "Exp",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "Identity",
            "LeakyRelu",
            "Log",
        ),
        *("Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh", "Add", "Sub", "Mul", "Div"),
        *("QuantizeLinear", "DequantizeLinear"),
    }
)
_BOUNDED = frozenset({"Sigmoid", "HardSigmoid", "Tanh", "Softmax", "LogSoftmax", "Clip"})
"""Operators whose results have one scale in all channels."""
_RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_CHANNELS_FIRST = frozenset({"Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization"})
_CHANNELS_LAST = frozenset({"MatMul", "Gemm", "LayerNormalization"})
_DECISIONS = {"ArgMax": (0,), "ArgMin": (0,), "TopK": (0,), "NonMaxSuppression": (0, 1)}
"""Operators that decide, and the operands with the scores."""
_GATHERS = frozenset({"Gather", "GatherElements", "GatherND"})
_MAX_PARTS = 64
_MAX_NESTED_CONCATS = 4
_MIN_SCALE_RATIO = 8.0
"""Ratio of neighbouring standard deviations, in ascending order, between channels of different scales."""
_NEGLIGIBLE = 1e-6
"""Standard deviation of a constant channel, as a fraction of the largest."""
_CONSTANT = 1e-12
"""Variance of a constant output, as a fraction of its energy."""
_MIN_COUNT = 4
"""Minimum number of elements for the mean of a channel."""
_MIN_GROUPED_COUNT = 16
"""Minimum number of elements of a channel whose scale is compared with others."""


@dataclass(frozen=True, slots=True)
class OutputPart:
    """A part of an output, and the mean to subtract from it.

    `correction` is n / (n - 1) for a mean of n elements.
    """

    name: str
    index: tuple[Any, ...] = ()
    mean: Array | float = 0.0
    correction: float = 1.0

    def select(self, x: Array) -> Array:
        """Return the elements of the part."""
        return x[self.index] if self.index else x

    def centered(self, x: Array) -> Array:
        """Return the elements of the part without their mean."""
        return self.select(x) - self.mean


@dataclass(frozen=True, slots=True)
class Region:
    """Ranges `(axis, start, stop)` of an output that one value fills; `channels` is the channel axis, if known.

    With `has_one_scale`, channels of little variance are rare classes, for example, and no quantity of its own.
    """

    name: str
    ranges: tuple[tuple[int, int, int], ...] = ()
    channels: int | None = None
    has_one_scale: bool = False


@dataclass(frozen=True, slots=True)
class Decisions:
    """Operands of ArgMax, TopK and NonMaxSuppression before the outputs of a model.

    `operands` maps a node's first result and the operand's index to the operand's name. `replaced` are the float
    outputs that these operands replace, `results` the integer outputs; sets of rows for NonMaxSuppression.
    """

    operands: Mapping[tuple[str, int], str] = field(default_factory=dict["tuple[str, int]", str])
    replaced: frozenset[str] = frozenset()
    results: Mapping[str, bool] = field(default_factory=dict[str, bool])


def find_output_parts(
    values: Mapping[str, Value], expected: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[OutputPart, ...]]:
    """Return the parts of `values`, by output name; `expected` has the outputs of each run."""
    found: dict[str, tuple[OutputPart, ...]] = {}
    for name, value in values.items():
        arrays = [run[name] for run in expected if name in run and is_array(run[name]) and run[name].dtype.kind == "f"]
        if not arrays or len({x.ndim for x in arrays}) > 1:
            continue
        whole = [Region(value.name, channels=1 if arrays[0].ndim == 2 else None)]
        regions = find_regions(value) if len(value.shape or ()) == arrays[0].ndim else whole
        found[name] = tuple(
            part for region in regions for part in _split_region(name, region, arrays, len(regions) > 1)
        )
    return found


def find_regions(output: Value) -> list[Region]:
    """Return the regions that the last Concat nodes before `output` fill; one for the whole output without them."""
    return _regions(output, tuple(range(len(output.shape or ()))), _MAX_NESTED_CONCATS, {})


def find_decisions(graph: Graph) -> Decisions:
    """Return the decisions whose results are outputs, or select them, without layers with weights in between."""
    operands: dict[tuple[str, int], str] = {}
    selected: set[Value] = set()
    rows: set[Value] = set()
    for node in graph:
        if node.dialect or is_weighted(node) or not node.results:
            continue
        scores = [index for index in _DECISIONS.get(node.op_type, ()) if _is_computed(node.operand(index))]
        is_gather = node.op_type in _GATHERS and node.operand(1) in selected
        if is_gather and node.operand(0) not in selected and _is_computed(node.operand(0)):
            scores = [0]
        floats = [value for value in node.operands if _is_computed(value)]
        is_selected = any(value in selected for value in node.operands) and all(value in selected for value in floats)
        if not (scores or is_gather or is_selected):
            continue
        for index in scores:
            operand = node.operand(index)
            if operand is not None and operand not in selected:
                operands[node.results[0].name, index] = operand.name
        selected.update(node.results)
        if node.op_type == "NonMaxSuppression":
            rows.update(node.results)
    outputs = {value for value in graph.outputs if value in selected}
    if not outputs:
        return Decisions()
    integers = {value.name: value in rows for value in outputs if value.dtype is not None and value.dtype.is_integer}
    return Decisions(operands, frozenset(value.name for value in outputs if value.name not in integers), integers)


def operands_of(graph: Graph, decisions: Decisions) -> dict[str, Value]:
    """Return the operands of `decisions` in `graph`, a rewritten copy of the model, by their names in the model."""
    nodes = {node.results[0].name: node for node in graph if node.results} if decisions.operands else {}
    found = {
        name: nodes[result].operand(index) for (result, index), name in decisions.operands.items() if result in nodes
    }
    return {name: value for name, value in found.items() if value is not None and not value.is_constant}


def _is_computed(value: Value | None) -> bool:
    return value is not None and value.producer is not None and value.dtype is not None and value.dtype.is_floating


def _regions(value: Value, axes: Axes, depth: int, known: dict[tuple[Value, Axes], list[Region]]) -> list[Region]:
    """Return the regions of `value`; `axes` maps each axis of the output to an axis of `value`."""
    start = (value, axes)
    if start not in known:
        name = value.name
        value, axes, has_one_scale = _source(value, axes)
        whole = Region(name, channels=_channel_axis(value, axes), has_one_scale=has_one_scale)
        known[start] = (_concatenated(value, axes, depth, known) if depth else []) or [whole]
    return known[start]


def _concatenated(value: Value, axes: Axes, depth: int, known: dict[tuple[Value, Axes], list[Region]]) -> list[Region]:
    """Return the regions of the operands of a Concat; empty without one, or with too many of them."""
    node = value.producer
    if node is None or node.dialect or node.op_type != "Concat" or len(node.operands) > _MAX_PARTS:
        return []
    axis = int(str(node.attributes.get("axis", 0))) % len(value.shape or (0,))
    if axis not in axes[1:]:
        return []
    outer = axes.index(axis, 1)
    inner = [_regions(operand, axes, depth - 1, known) for operand in node.operands]
    sizes = [operand.shape[axis] for operand in node.operands if operand.shape is not None]
    if any(not isinstance(size, int) for size in sizes) or len(sizes) != len(inner):
        # Pieces of unknown size can be judged together if they have equal regions along other axes.
        is_alike = len({tuple(region.ranges for region in regions) for regions in inner}) == 1
        return inner[0] if is_alike else []
    found: list[Region] = []
    start = 0
    for size, regions in zip(sizes, inner, strict=True):
        for region in regions:
            others = tuple(each for each in region.ranges if each[0] != outer)
            ends = next(((a + start, b + start) for at, a, b in region.ranges if at == outer), (start, start + size))
            channels = outer if region.channels is None else region.channels
            found.append(replace(region, ranges=(*others, (outer, *ends)), channels=channels))
        start += size
    return found if len(found) <= _MAX_PARTS else []


def _source(value: Value, axes: Axes) -> tuple[Value, Axes, bool]:
    """Follow a value back through transposes, reshapes and element-wise operators; report whether one is bounded."""
    is_bounded = False
    while (node := value.producer) is not None and not node.dialect:
        is_bounded = is_bounded or node.op_type in _BOUNDED
        step = _before(node, value, axes)
        if step is None:
            break
        value, axes = step
    return value, axes, is_bounded


def _before(node: Node, value: Value, axes: Axes) -> tuple[Value, Axes] | None:
    """Return the operand that `node` moves or transforms element by element, with its axes."""
    operand = node.operand(0)
    if node.op_type == "Transpose" and operand is not None:
        perm = node.attributes.get("perm")
        order = (
            [int(str(x)) for x in perm] if isinstance(perm, tuple | list) else [*range(len(value.shape or ()))][::-1]
        )
        return operand, tuple(None if axis is None else order[axis] for axis in axes)
    if node.op_type in _RESHAPES and operand is not None and operand.shape is not None and value.shape is not None:
        return operand, _reshaped(tuple(operand.shape), tuple(value.shape), axes)
    if node.op_type in _ELEMENTWISE:
        computed = [each for each in node.operands if not each.is_constant]
        if len(computed) == 1 and computed[0].shape == value.shape and computed[0].shape is not None:
            return computed[0], axes
    return None


def _reshaped(before: tuple[Any, ...], after: tuple[Any, ...], axes: Axes) -> Axes:
    """Return the axes before a reshape; `None` for axes that it splits or merges."""
    count = min(len(before), len(after))
    head = next((i for i in range(count) if before[i] != after[i]), count)
    tail = next((i for i in range(count - head) if before[-1 - i] != after[-1 - i]), count - head)
    shift = len(before) - len(after)

    def mapped(axis: int | None) -> int | None:
        if axis is None or axis < head:
            return axis
        return axis + shift if axis >= len(after) - tail else None

    return tuple(mapped(axis) for axis in axes)


def _channel_axis(value: Value, axes: Axes) -> int | None:
    """Return the axis of the output that holds the channels of `value`."""
    node, rank = value.producer, len(value.shape or ())
    if node is None or node.dialect:
        return 1 if len(axes) == 2 else None
    axis = 1 if node.op_type in _CHANNELS_FIRST else rank - 1 if node.op_type in _CHANNELS_LAST else None
    if axis is not None and axis in axes[1:]:
        return axes.index(axis, 1)
    return 1 if len(axes) == 2 else None


def _split_region(output: str, region: Region, arrays: Sequence[Array], is_divided: bool) -> list[OutputPart]:  # noqa: FBT001
    """Return the parts of a region: one, or one per group of channels of similar standard deviation."""
    index: list[Any] = [slice(None)] * arrays[0].ndim
    for axis, start, stop in region.ranges:
        index[axis] = slice(start, stop)
    name = f"{region.name} = {output}[{_text(index)}]" if is_divided else output
    taken = [_finite(x[tuple(index)]) for x in arrays]
    axis = region.channels
    if axis is None or len({x.shape[axis] for x in taken}) > 1:
        return [_centered(name, tuple(index), taken, None)]
    is_cut = any(axis == at for at, _, _ in region.ranges)
    groups = [] if is_cut or region.has_one_scale else _scales(taken, axis)
    if len(groups) < 2:
        return [_centered(name, tuple(index), taken, axis)]
    found: list[OutputPart] = []
    for channels in groups:
        index[axis] = channels
        label = f"{output}[{_text(index)}]"
        found.append(_centered(label, tuple(index), [np.take(x, channels, axis) for x in taken], axis))
    return found


def _centered(name: str, index: tuple[Any, ...], arrays: Sequence[Array], axis: int | None) -> OutputPart:
    """Return a part with the mean of each channel, or of all elements; of a constant output with no mean."""
    mean, count = _means(arrays, axis)
    if count < _MIN_COUNT and axis is not None:
        mean, count = _means(arrays, None)
    energy = sum(float(np.sum(x**2)) for x in arrays)
    variance = sum(float(np.sum((x - mean) ** 2)) for x in arrays)
    if count < 2 or variance <= _CONSTANT * energy:
        return OutputPart(name, index)
    return OutputPart(name, index, mean, count / (count - 1))


def _means(arrays: Sequence[Array], axis: int | None) -> tuple[Array, int]:
    """Return means that broadcast to the arrays, and the number of elements of each mean."""
    rank = arrays[0].ndim
    others = tuple(at for at in range(rank) if at != axis)
    count = sum(x.size // (x.shape[axis] if axis is not None and x.shape[axis] else 1) for x in arrays)
    sums = [np.sum(x, axis=others, keepdims=True) for x in arrays]
    return np.sum(sums, axis=0) / max(count, 1), count


def _scales(arrays: Sequence[Array], axis: int) -> list[list[int]]:
    """Group channels by their standard deviations; constant channels are in the group of the largest."""
    mean, count = _means(arrays, axis)
    others = tuple(at for at in range(arrays[0].ndim) if at != axis)
    if count < _MIN_GROUPED_COUNT:
        return []
    squares = sum(np.sum((x - mean) ** 2, axis=others) for x in arrays)
    deviations = np.sqrt(np.asarray(squares) / count)
    order = np.argsort(deviations, kind="stable")
    least = _NEGLIGIBLE * float(deviations.max(initial=0.0))
    constant = [int(i) for i in order if deviations[i] <= least]
    groups: list[list[int]] = []
    before = 0.0
    for i in map(int, order[len(constant) :]):
        if not groups or deviations[i] >= _MIN_SCALE_RATIO * before:
            groups.append([])
        groups[-1].append(i)
        before = float(deviations[i])
    if groups:
        groups[-1] += constant
    return [sorted(group) for group in groups]


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0).astype(np.float64)


def _text(index: Iterable[Any]) -> str:
    """Write an index as in NumPy: `:, 4:84`; channels as ranges."""
    written = [_written_slice(each) if isinstance(each, slice) else _ranges(each) for each in index]
    while len(written) > 1 and written[-1] == ":":
        written.pop()
    return ", ".join(written)


def _written_slice(each: Any) -> str:
    return f"{each.start or ''}:{each.stop or ''}"


def _ranges(channels: Sequence[int]) -> str:
    """Write a list of channels as ranges: `4:8|12`."""
    found: list[list[int]] = []
    for i in channels:
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    texts = [f"{a}:{b}" if b - a > 1 else str(a) for a, b in found]
    return "|".join(texts[:4]) + ("|…" if len(texts) > 4 else "")
