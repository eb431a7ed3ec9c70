"""Reduce the rank of tensors to ncnn's maximum by merging adjacent axes.

Before  h = Transpose(Reshape(x, [1, 4, 6, 2, 6, 2]), [0, 1, 3, 5, 2, 4]);  y = Reshape(h, [1, 16, 6, 6])
After   h = Transpose(Reshape(x, [1, 24, 2, 6, 2]), [0, 2, 4, 1, 3]), …;  y = Reshape(h, [1, 16, 6, 6])

A permutation without such a form is decomposed into several, each of which exchanges two runs of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any

from graphport.core.facts import TensorFact, Unknown
from graphport.formats.ncnn.rules.emitting import MOST_AXES
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.ops.lowering.operands import vector
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import Broadcasting

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_Rule = Callable[["_Fold"], "Value | Sequence[Value] | None"]


def fold_axes(graph: Graph) -> None:
    """Limit operands and results of all operators except reshapes to the rank of a blob."""
    is_changed = False
    for node in list(graph):
        if not node.dialect and node.op_type not in registry.stating("reshapes") and _exceeds_max_axes(node):
            is_changed |= _fold(graph, node)
    if is_changed:
        _join(graph)
        rewrite.remove_dead(graph)


def _lengths(value: Value | None) -> list[int] | None:
    """Return the shape of a tensor, if known."""
    dims = value.fact.shape if value is not None and isinstance(value.fact, TensorFact) else None
    numbers = [dim for dim in dims or () if isinstance(dim, int)]
    return numbers if dims is not None and len(numbers) == len(dims) else None


def _exceeds_max_axes(node: Node) -> bool:
    for value in (*node.inputs, *node.outputs):
        # Asked of every node: most have few axes.
        shape = value.fact.shape if value is not None and isinstance(value.fact, TensorFact) else None
        if shape is None or len(shape) <= MOST_AXES:
            continue
        lengths = _lengths(value) or []
        if len(lengths) - (lengths[:1] == [1]) > MOST_AXES:
            return True
    return False


class _Fold:
    """A node whose operands are reshaped to fewer axes, and a builder at its position."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.node = node
        stem = node.results[0].name
        self.b = Builder(Inference(), graph, node, count=len(node.outputs), origin=node.unasked_origin, stem=stem)

    @property
    def lengths(self) -> list[int]:
        """The shape of the first operand; raises `Unknown` if a dim is not static."""
        found = _lengths(self.node.operand(0))
        if found is None:
            raise Unknown
        return found

    def emit(self, op_type: str, *operands: Value | None, **attributes: Any) -> Value:
        return self.b(registry.op_defs()[op_type], *operands, **attributes)

    def shaped(self, x: Value, lengths: Sequence[int]) -> Value:
        constant = self.b.reshaped(x, lengths)
        return constant if constant is not None else self.emit("Reshape", x, vector(self.b, lengths))

    def axis(self, default: int | None = None) -> int:
        return int(self.node.attributes.get("axis", default)) % len(self.lengths)  # pyright: ignore[reportArgumentType]


def _fold(graph: Graph, node: Node) -> bool:
    op_def = registry.op_defs().get(node.op_type)
    rule = _RULES.get(node.op_type)
    if rule is None and op_def is not None:
        name = getattr(op_def.shape, "__name__", "")
        is_pointwise = isinstance(op_def.shape, Broadcasting) or name.startswith("like_")
        rule = _pointwise if is_pointwise else None
    if rule is None or any(_lengths(value) is None for value in node.results) or not node.results:
        return False
    before = node.previous
    try:
        answer = rule(_Fold(graph, node))
    except (Unknown, ValueError, OverflowError):  # the last of extents past 64 bits
        answer = None
    if answer is None:
        while node.previous is not before and node.previous is not None:
            graph.remove(node.previous)
        return False
    for old, new in zip(node.results, registry.results(answer), strict=True):
        rewrite.replace(old, new)  # pyright: ignore[reportArgumentType]
    return True


def _join(graph: Graph) -> None:
    """Merge a Reshape with the Reshape before it."""
    reshaping = registry.stating("reshapes")
    for node in graph:
        if node.dialect or node.op_type not in reshaping:
            continue
        value = node.operands[0]
        made, lengths = value.producer, _lengths(node.results[0])
        if made is None or made.dialect or made.op_type not in reshaping or lengths is None or 0 in lengths:
            continue
        target = graph.add_constant(graph.fresh(f"{node.results[0].name}.shape"), *_constant(lengths))
        node.op_type = "Reshape"
        node.attributes.clear()
        node.inputs = [made.operands[0], target]


def _constant(lengths: Sequence[int]) -> tuple[Any, Any]:
    storage, fact = Inference().constant(lengths, None)
    return fact, storage


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _transposed(fold: _Fold) -> Value | None:
    """Merge runs of axes that stay adjacent in a Transpose; drop axes of length 1."""
    node, lengths = fold.node, fold.lengths
    given = node.attributes.get("perm")
    perm = list(given) if isinstance(given, tuple) else list(range(len(lengths)))[::-1]
    order = [int(axis) for axis in perm if isinstance(axis, int) and lengths[axis] != 1]
    own = sorted(order)
    indices = [own.index(axis) for axis in order]
    runs = [[axis for _, axis in run] for _, run in groupby(enumerate(indices), key=lambda item: item[1] - item[0])]
    first = sorted(run[0] for run in runs)
    sizes = {run[0]: prod(lengths[own[axis]] for axis in run) for run in runs}
    target = [run[0] for run in runs]
    y, current = node.operands[0], first
    if len(target) <= MOST_AXES:
        x = fold.shaped(y, [1, *(sizes[each] for each in first)])
        y = fold.emit("Transpose", x, perm=(0, *(first.index(each) + 1 for each in target)))
        current = target
    for place, wanted in enumerate(target):
        found = current.index(wanted)
        if found == place:
            continue
        pieces = [current[:place], current[place:found], [wanted], current[found + 1 :]]
        x = fold.shaped(y, [1, *(prod(sizes[each] for each in piece) for piece in pieces)])
        y = fold.emit("Transpose", x, perm=(0, 1, 3, 2, 4))
        current = [*pieces[0], *pieces[2], *pieces[1], *pieces[3]]
    return fold.shaped(y, _lengths(node.results[0]) or [])


def _pointwise(fold: _Fold) -> Value | None:
    """Merge adjacent axes along which equal operands broadcast."""
    node = fold.node
    result = _lengths(node.results[0]) or []
    shapes = [_lengths(x) for x in node.operands]
    if any(shape is None for shape in shapes) or len(node.operands) < len(node.inputs):
        return None
    padded = [[1] * (len(result) - len(shape)) + shape for shape in shapes if shape is not None]
    patterns = [tuple(shape[axis] == 1 for shape in padded) for axis in range(len(result)) if result[axis] != 1]
    axes = [axis for axis, length in enumerate(result) if length != 1]
    runs = [[axis for _, axis in run] for _, run in groupby(zip(patterns, axes, strict=True), key=lambda item: item[0])]
    if len(runs) > MOST_AXES:
        return None
    given = [
        fold.shaped(x, [1, *(prod(shape[axis] for axis in run) for run in runs)])
        for x, shape in zip(node.operands, padded, strict=True)
    ]
    return fold.shaped(fold.emit(node.op_type, *given, **node.attributes), result)


def _along(fold: _Fold) -> Value | None:
    """Merge all axes before the attribute `axis` to one, and all axes after it to one."""
    axis, lengths = fold.axis(-1), fold.lengths
    x = fold.shaped(fold.node.operands[0], _merge_outer_axes(lengths, axis))
    rest = {name: value for name, value in fold.node.attributes.items() if name != "axis"}
    y = fold.emit(fold.node.op_type, x, *fold.node.operands[1:], axis=2, **rest)
    return fold.shaped(y, _lengths(fold.node.results[0]) or [])


def _merge_outer_axes(lengths: Sequence[int], axis: int) -> list[int]:
    return [1, prod(lengths[:axis]), lengths[axis], prod(lengths[axis + 1 :])]


def _gathered(fold: _Fold) -> Value | None:
    """Rewrite a Gather with indices of rank 0 or 1 to one whose operand has the other axes merged."""
    axis, lengths = fold.axis(0), fold.lengths
    indices = _lengths(fold.node.operand(1))
    if indices is None or len(indices) > 1:
        return None
    x = fold.shaped(fold.node.operands[0], _merge_outer_axes(lengths, axis))
    y = fold.emit("Gather", x, fold.node.operands[1], axis=2)
    return fold.shaped(y, _lengths(fold.node.results[0]) or [])


def _split(fold: _Fold) -> list[Value]:
    axis, lengths = fold.axis(0), fold.lengths
    x = fold.shaped(fold.node.operands[0], _merge_outer_axes(lengths, axis))
    sizes = [(_lengths(result) or [])[axis] for result in fold.node.results]
    op_def = registry.op_defs()["Split"]
    parts = fold.b.results(op_def, len(sizes), x, vector(fold.b, sizes), axis=2)
    return [fold.shaped(part, _lengths(result) or []) for part, result in zip(parts, fold.node.results, strict=True)]


def _joined(fold: _Fold) -> Value | None:
    axis = fold.axis()
    parts: list[Value] = []
    for x in fold.node.operands:
        lengths = _lengths(x)
        if lengths is None:
            return None
        parts.append(fold.shaped(x, _merge_outer_axes(lengths, axis)))
    return fold.shaped(fold.emit("Concat", *parts, axis=2), _lengths(fold.node.results[0]) or [])


def _sliced(fold: _Fold) -> Value | None:
    """Rewrite a Slice as one Slice per axis, each on an operand with the other axes merged."""
    node, lengths = fold.node, list(fold.lengths)
    given = [None if x is None else constant_numbers(x) for x in node.inputs[1:]]
    first, last, axes, by = [*given, None, None, None, None][:4]
    if first is None or last is None or (by is None and len(node.inputs) > 4 and node.inputs[4] is not None):
        return None
    chosen = range(len(first)) if axes is None else [int(axis) % len(lengths) for axis in axes]
    y = node.operands[0]
    for place, axis in enumerate(chosen):
        step = 1 if by is None else int(by[place])
        x = fold.shaped(y, _merge_outer_axes(lengths, axis))
        bounds = [vector(fold.b, [int(each)]) for each in (first[place], last[place], 2, step)]
        y = fold.emit("Slice", x, *bounds)
        lengths[axis] = (_lengths(y) or [])[2]
    return fold.shaped(y, lengths)


def _reduced(fold: _Fold) -> Value | None:
    """Merge adjacent axes of a reduction that are all reduced, or all not reduced."""
    node, lengths = fold.node, fold.lengths
    axes = None if node.operand(1) is None else constant_numbers(node.operands[1])
    if axes is None or not len(axes):
        return None
    gone = {int(axis) % len(lengths) for axis in axes}
    kept = [axis for axis, length in enumerate(lengths) if length != 1]
    runs = [(is_gone, list(run)) for is_gone, run in groupby(kept, key=lambda axis: axis in gone)]
    if len(runs) > MOST_AXES or not any(is_gone for is_gone, _ in runs):
        return None
    x = fold.shaped(node.operands[0], [1, *(prod(lengths[axis] for axis in run) for _, run in runs)])
    indices = [place for place, (is_gone, _) in enumerate(runs, 1) if is_gone]
    y = fold.emit(node.op_type, x, vector(fold.b, indices))
    return fold.shaped(y, _lengths(node.results[0]) or [])


def _multiplied(fold: _Fold) -> Value | None:
    """Merge the batch axes of a MatMul whose operands have equal batch axes."""
    shapes = [_lengths(x) for x in fold.node.operands]
    if any(shape is None or len(shape) < 3 for shape in shapes):
        return None
    one, two = (shape for shape in shapes if shape is not None)
    if one[:-2] != two[:-2]:
        return None
    operands = [
        fold.shaped(x, [1, prod(shape[:-2]), *shape[-2:]])
        for x, shape in zip(fold.node.operands, (one, two), strict=True)
    ]
    return fold.shaped(fold.emit("MatMul", *operands), _lengths(fold.node.results[0]) or [])


def _normalized(fold: _Fold) -> Value | None:
    """Merge all axes before the last one in a normalization over the last axis."""
    lengths = fold.lengths
    if fold.axis(-1) != len(lengths) - 1 or len(fold.node.outputs) > 1:
        return None
    x = fold.shaped(fold.node.operands[0], [1, prod(lengths[:-1]), lengths[-1]])
    rest = {name: value for name, value in fold.node.attributes.items() if name != "axis"}
    return fold.shaped(fold.emit(fold.node.op_type, x, *fold.node.inputs[1:], axis=-1, **rest), lengths)


_RULES: dict[str, _Rule] = {
    "Transpose": _transposed,
    "Softmax": _along,
    "LogSoftmax": _along,
    "Gather": _gathered,
    "Split": _split,
    "Concat": _joined,
    "Slice": _sliced,
    "MatMul": _multiplied,
    "LayerNormalization": _normalized,
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"), _reduced),
}
