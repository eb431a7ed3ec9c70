"""A Scan whose body is the cell of a recurrent layer becomes the operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.folded import Computed
from graphport.ops.infer import Inference
from graphport.ops.loops.cells import Cell, Gate, cell_of
from graphport.ops.loops.pairs import join_directions
from graphport.ops.loops.rows import Part, Rows, columns, dims_of, matrix_of, row_of
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage

Array: TypeAlias = "np.ndarray[Any, Any]"

_LAYER = 3
"""Axes of what a layer is given: steps, batch, columns."""


def recognize(graph: Graph) -> int:
    """Let each Scan of `graph` and of its bodies that is a recurrent layer be the operator; returns how many were.

    Before  p = MatMul(x, w) + b;  h, y = Scan(h0, p) { s = Tanh(p[t] + MatMul(s, r)) }
    After   y, h = RNN(x, w, r, b, , h0)

    Bodies of LSTM, GRU (reset before or behind the product) and RNN, gates together or apart, forwards or backwards.
    Leaves alone: weights that are no constants or stay in blocks, states of which every step is wanted but the first,
    steps of which the batch is not one axis.
    """
    found = 0
    for inner in list(walk(graph)):
        made: list[Node] = []
        for node in inner:
            layer = None if node.dialect or node.word != "Scan" else _layer(node)
            if layer is not None:
                made.append(_replace(inner, node, layer))
        join_directions(inner, made)
        found += len(made)
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """A tensor that all gates multiply: its axes of steps and of the batch."""

    value: Value
    steps: int
    batch: int


@dataclass(frozen=True, slots=True)
class _Layer:
    cell: Cell
    source: _Source
    weights: tuple[Part, ...]
    shifts: tuple[tuple[Part, ...], ...]
    hidden: int
    is_backwards: bool


def _layer(node: Node) -> _Layer | None:
    body = next(iter(node.bodies()), None)
    scans = node.attributes.get("num_scan_inputs")
    if body is None or not isinstance(scans, int):
        return None
    count = len(node.inputs) - scans
    ways = [
        *_numbers(node, "scan_input_directions", scans),
        *_numbers(node, "scan_output_directions", len(node.outputs) - count),
    ]
    dims = dims_of(body.inputs[0]) if count else None
    if not dims or len(dims) < 2 or len(set(ways)) > 1 or not isinstance(dims[-1], int):
        return None
    hidden, others = dims[-1], [dim for dim in dims[:-1] if dim != 1]
    if len(others) > 1:
        return None
    batch = others[0] if others else 1
    rows = Rows(body, batch)
    if any(not rows.is_row(value) or rows.width(value) != hidden for value in body.inputs[:count]):
        return None
    cell = cell_of(body, count, rows, hidden)
    if cell is None or not _returns(node, body, rows, cell, count):
        return None
    found = [_fed(node, body, gate, batch, count) for gate in cell.gates]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or any(each[0] != known[0][0] for each in known):
        return None
    weights = tuple(each[1] for each in known)
    return _Layer(cell, known[0][0], weights, tuple(each[2] for each in known), hidden, bool(ways and ways[0]))


def _numbers(node: Node, name: str, count: int) -> tuple[int, ...]:
    """An attribute that has a number for each of `count` operands or results; zeros where it is left out."""
    found = cast("tuple[int, ...] | None", node.attributes.get(name))
    return tuple(found) if found else (0,) * count


def _returns(node: Node, body: Graph, rows: Rows, cell: Cell, count: int) -> bool:
    """Whether all that is read of the steps is the first state."""
    first = rows.without_unit_axes(body.outputs[cell.states[0]])
    for value, result in zip(body.outputs[count:], node.outputs[count:], strict=False):
        is_wanted = result is not None and (result.uses or result.is_output)
        if is_wanted and (not rows.is_row(value) or rows.without_unit_axes(value) is not first):
            return False
    return True


# ── what the steps are given ──


def _fed(node: Node, body: Graph, gate: Gate, batch: Dim, count: int) -> tuple[_Source, Part, tuple[Part, ...]] | None:
    """The tensor that a gate multiplies over all steps, its matrix, and what is added."""
    products: list[tuple[_Source, Part]] = []
    shifts = list(gate.shifts)
    axes = _numbers(node, "scan_input_axes", len(node.inputs) - count)
    for entry in gate.entries:
        place = body.inputs.index(entry.value) if entry.value is not None else 0
        outer, axis = node.operand(place), axes[place - count]
        dims = dims_of(outer)
        if outer is None or dims is None or len(dims) != _LAYER or axis % _LAYER > 1:
            return None
        steps = axis % _LAYER
        source = _Source(outer, steps, 1 - steps)
        if decide_equal(dims[1 - steps], batch) is not True:
            return None
        if entry.matrix is not None:
            products.append((source, entry))
            continue
        parts = _projected(source, entry.start, entry.stop)
        if parts is None:
            return None
        products += parts[0]
        shifts += parts[1]
    return (*products[0], tuple(shifts)) if len(products) == 1 else None


def _projected(source: _Source, start: int, stop: int) -> tuple[list[tuple[_Source, Part]], list[Part]] | None:
    """Products and shifts that columns of a tensor [steps, batch, columns], in either order, are the sum of."""
    products: list[tuple[_Source, Part]] = []
    shifts: list[Part] = []
    waiting = [(source, start, stop)]
    while waiting:
        at, begin, end = waiting.pop()
        dims = dims_of(at.value)
        node = at.value.producer
        if node is None or node.dialect or dims is None or len(waiting) > 16:
            return None
        match node.word:
            case "Identity":
                waiting.append((_Source(node.operands[0], at.steps, at.batch), begin, end))
            case "Transpose":
                order = cast("tuple[int, ...] | None", node.attributes.get("perm"))
                if order is None or order[-1] != len(dims) - 1:
                    return None
                moved = _Source(node.operands[0], order[at.steps], order[at.batch])
                waiting.append((moved, begin, end))
            case "Add":
                for each in node.operands:
                    own = dims_of(each)
                    if own is not None and len(own) == len(dims) and _same(own, dims):
                        waiting.append((_Source(each, at.steps, at.batch), begin, end))
                        continue
                    row = row_of(each, dims[-1])
                    if row is None:
                        return None
                    shifts.append(Part(None, row, False, begin, end))
            case "MatMul" | "Einsum":
                matrix, x = matrix_of(node), node.operands[0]
                own = dims_of(x)
                if matrix is None or own is None or len(own) != _LAYER or not _same(own[:-1], dims[:-1]):
                    return None
                part = Part(x, matrix[0], matrix[1], begin, end)
                products.append((_Source(x, at.steps, at.batch), part))
            case _:
                return None
    return products, shifts


def _same(one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    return all(decide_equal(a, b) is True for a, b in zip(one, other, strict=True))


# ── the operator ──


def _replace(graph: Graph, node: Node, layer: _Layer) -> Node:
    b = Builder(Inference(), graph, node, origin=node.unasked_origin, stem=node.results[0].name)
    emit = OpBuilder(b)
    source, cell = layer.source, layer.cell
    x = source.value
    if (source.steps, source.batch) != (0, 1):
        x = emit("Transpose", x, perm=(source.steps, source.batch, 2))
    w = _stacked(b, layer.weights)
    r = _stacked(b, [gate.recurrent for gate in cell.gates])
    bias = _biases(b, layer, w.storage)
    count = len(cell.states)
    initial = [_laid_out(b, node.operands[place]) for place in cell.states]
    given: dict[str, Any] = {"hidden_size": layer.hidden, **cell.attributes}
    given["direction"] = "reverse" if layer.is_backwards else "forward"
    if cell.activations != _USUAL[cell.op]:
        given["activations"] = cell.activations
    page = registry.pages()[cell.op]
    every, *last = b.results(page, count + 1, x, w, r, bias, None, *initial, **given)
    body = next(iter(node.bodies()))
    axes = _numbers(node, "scan_output_axes", len(node.outputs) - count)
    taken: set[Value] = set()
    for place, old in enumerate(node.outputs):
        if old is None:
            continue
        if place < count:
            new = _back(b, last[cell.states.index(place)], node.operands[place])
        else:
            new = _in_order(b, every, body.outputs[place], axes[place - count])
        # One value has one name.
        new = emit("Identity", new) if new in taken else new
        taken.add(new)
        _stand_in(old, new)
    operands = node.operands
    made = every.producer
    graph.remove(node)
    _remove_unread(operands)
    if made is None:
        message = "a layer was not made"
        raise RuntimeError(message)
    return made


_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


def _stacked(b: Builder, parts: Sequence[Part]) -> Value:
    """The matrices of all gates, one below another: [1, gates * hidden, columns of the operand]."""
    storages = tuple(part.matrix for part in parts if part.matrix is not None)
    first = storages[0]
    columns_of_x = first.shape[-1] if parts[0].is_transposed else first.shape[-2]
    height = sum(part.stop - part.start for part in parts)
    change = partial(_rows_of, tuple(parts))
    return b.constant(Computed(change, storages, first.dtype, (1, height, columns_of_x)))


def _rows_of(parts: tuple[Part, ...], *arrays: Array) -> Array:
    return np.concatenate([columns(part, array) for part, array in zip(parts, arrays, strict=True)])[None]


def _biases(b: Builder, layer: _Layer, like: Storage | None) -> Value | None:
    """What is added to the products of all gates, then what is added to those of the state."""
    early, late = layer.shifts, [gate.late for gate in layer.cell.gates]
    parts = tuple(part for group in (*early, *late) for part in group)
    if not parts or like is None:
        return None
    counts = tuple(len(group) for group in (*early, *late))
    storages = tuple(part.matrix for part in parts if part.matrix is not None)
    change = partial(_sums_of, parts, counts, layer.hidden)
    return b.constant(Computed(change, storages, like.dtype, (1, len(counts) * layer.hidden)))


def _sums_of(parts: tuple[Part, ...], counts: tuple[int, ...], width: int, *arrays: Array) -> Array:
    found, rows = [], iter(zip(parts, arrays, strict=True))
    for count in counts:
        total = np.zeros(width, arrays[0].dtype)
        for _ in range(count):
            part, array = next(rows)
            total = total + columns(part, array)
        found.append(total)
    return np.concatenate(found)[None]


def _place(dims: Sequence[Dim]) -> int:
    """The axis of the batch among others of length 1, before the last one."""
    return next((axis for axis, dim in enumerate(dims[:-1]) if dim != 1), len(dims) - 2)


def _units(dims: Sequence[Dim]) -> list[int]:
    return [axis for axis in range(len(dims) - 1) if axis != _place(dims)]


def _laid_out(b: Builder, state: Value) -> Value:
    """A state as the layer takes it: [1, batch, hidden]."""
    dims, emit = b.dims(state), OpBuilder(b)
    if _units(dims) == [0]:
        return state
    if units := _units(dims):
        state = emit("Squeeze", state, vector(b, units))
    return emit("Unsqueeze", state, vector(b, [0]))


def _back(b: Builder, state: Value, given: Value) -> Value:
    """A state of the layer with the axes that the loop's had."""
    units, emit = _units(b.dims(given)), OpBuilder(b)
    if units == [0]:
        return state
    state = emit("Squeeze", state, vector(b, [0]))
    return emit("Unsqueeze", state, vector(b, units)) if units else state


def _in_order(b: Builder, every: Value, step: Value, axis: int) -> Value:
    """All steps of the layer, [steps, 1, batch, hidden], with the axes that the loop stacked them on."""
    dims, emit = b.dims(step), OpBuilder(b)
    units, axis = _units(dims), axis % (len(dims) + 1)
    if axis == 0 and units == [0]:
        return every
    own = ["unit" if place in units else "batch" for place in range(len(dims) - 1)] + ["width"]
    own.insert(axis, "steps")
    found = emit("Squeeze", every, vector(b, [1]))
    order = tuple(("steps", "batch", "width").index(each) for each in own if each != "unit")
    if order != (0, 1, 2):
        found = emit("Transpose", found, perm=order)
    wanted = [place for place, each in enumerate(own) if each == "unit"]
    return emit("Unsqueeze", found, vector(b, wanted)) if wanted else found


def _stand_in(old: Value, new: Value) -> None:
    """Let `new` be what `old` was, name and notes included."""
    rewrite.swap_names(old, new)
    new.origin = old.unasked_origin
    if old.has_notes:
        new.notes.update(old.notes)
    if isinstance(new.fact, TensorFact) and (new.fact.shape is None or new.fact.dtype is None):
        new.fact = old.fact
    old.replace_uses(new)


def _remove_unread(values: Sequence[Value]) -> None:
    """Remove the nodes that made values nobody reads any more, and what those alone read."""
    waiting = list(values)
    while waiting:
        node = waiting.pop().producer
        if node is None or node.graph is None or any(each.uses or each.is_output for each in node.results):
            continue
        waiting += node.operands
        node.graph.remove(node)
