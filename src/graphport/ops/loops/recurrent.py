"""Replacement of a Scan whose body is a recurrent cell by the recurrent operator."""

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
from graphport.ops.constant_folding import Computed
from graphport.ops.infer import Inference
from graphport.ops.loops.cells import Cell, Gate, cell_of
from graphport.ops.loops.pairs import join_directions
from graphport.ops.loops.rows import ColumnPart, Rows, columns, dims_of, matrix_of, row_of
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage

Array: TypeAlias = "np.ndarray[Any, Any]"

_LAYER = 3
"""The number of axes of a layer's input: steps, batch, columns."""


def recognize(graph: Graph) -> int:
    """Replace each Scan of `graph` and its bodies that computes a recurrent layer. Return the number of replacements.

    Before  p = MatMul(x, w) + b;  h, y = Scan(h0, p) { s = Tanh(p[t] + MatMul(s, r)) }
    After   y, h = RNN(x, w, r, b, , h0)

    Matches LSTM, GRU (reset before or after the product) and RNN, with joined or separate gates, in both directions.
    Does not apply if weights are not constant or are quantized in blocks, if all steps of a state other than the first
    are used, or if the batch is not one axis.
    """
    found = 0
    for inner in list(walk(graph)):
        made: list[Node] = []
        for node in inner:
            layer = None if node.dialect or node.op_type != "Scan" else _layer(node)
            if layer is not None:
                made.append(_replace(inner, node, layer))
        join_directions(inner, made)
        found += len(made)
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """A tensor that the input weights of all gates multiply, with its step axis and its batch axis."""

    value: Value
    steps: int
    batch: int


@dataclass(frozen=True, slots=True)
class _Layer:
    cell: Cell
    source: _Source
    weights: tuple[ColumnPart, ...]
    shifts: tuple[tuple[ColumnPart, ...], ...]
    hidden: int
    is_backwards: bool


def _layer(node: Node) -> _Layer | None:
    body = next(iter(node.bodies()), None)
    scans = node.attributes.get("num_scan_inputs")
    if body is None or not isinstance(scans, int):
        return None
    count = len(node.inputs) - scans
    ways = [
        *_axis_attribute(node, "scan_input_directions", scans),
        *_axis_attribute(node, "scan_output_directions", len(node.outputs) - count),
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
    found = [_gate_input(node, body, gate, batch, count) for gate in cell.gates]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or any(each[0] != known[0][0] for each in known):
        return None
    weights = tuple(each[1] for each in known)
    return _Layer(cell, known[0][0], weights, tuple(each[2] for each in known), hidden, bool(ways and ways[0]))


def _axis_attribute(node: Node, name: str, count: int) -> tuple[int, ...]:
    """Return an attribute with one integer per operand or result, `count` in total; zeros if it is absent."""
    found = cast("tuple[int, ...] | None", node.attributes.get(name))
    return tuple(found) if found else (0,) * count


def _returns(node: Node, body: Graph, rows: Rows, cell: Cell, count: int) -> bool:
    """Whether the first state is the only per-step result that has consumers."""
    first = rows.without_unit_axes(body.outputs[cell.states[0]])
    for value, result in zip(body.outputs[count:], node.outputs[count:], strict=False):
        is_wanted = result is not None and (result.uses or result.is_output)
        if is_wanted and (not rows.is_row(value) or rows.without_unit_axes(value) is not first):
            return False
    return True


# Inputs of the steps


def _gate_input(
    node: Node, body: Graph, gate: Gate, batch: Dim, count: int
) -> tuple[_Source, ColumnPart, tuple[ColumnPart, ...]] | None:
    """Return the tensor that a gate multiplies over all steps, its matrix, and its biases."""
    products: list[tuple[_Source, ColumnPart]] = []
    shifts = list(gate.shifts)
    axes = _axis_attribute(node, "scan_input_axes", len(node.inputs) - count)
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
        parts = _input_sum(source, entry.start, entry.stop)
        if parts is None:
            return None
        products += parts[0]
        shifts += parts[1]
    return (*products[0], tuple(shifts)) if len(products) == 1 else None


def _input_sum(
    source: _Source, start: int, stop: int
) -> tuple[list[tuple[_Source, ColumnPart]], list[ColumnPart]] | None:
    """Return the products and biases whose sum is the given columns of a tensor [steps, batch, columns].

    The first two axes may be in either order.
    """
    products: list[tuple[_Source, ColumnPart]] = []
    shifts: list[ColumnPart] = []
    waiting = [(source, start, stop)]
    while waiting:
        at, begin, end = waiting.pop()
        dims = dims_of(at.value)
        node = at.value.producer
        if node is None or node.dialect or dims is None or len(waiting) > 16:
            return None
        match node.op_type:
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
                    if own is not None and len(own) == len(dims) and _equal_dims(own, dims):
                        waiting.append((_Source(each, at.steps, at.batch), begin, end))
                        continue
                    row = row_of(each, dims[-1])
                    if row is None:
                        return None
                    shifts.append(ColumnPart(None, row, False, begin, end))
            case "MatMul" | "Einsum":
                matrix, x = matrix_of(node), node.operands[0]
                own = dims_of(x)
                if matrix is None or own is None or len(own) != _LAYER or not _equal_dims(own[:-1], dims[:-1]):
                    return None
                part = ColumnPart(x, matrix[0], matrix[1], begin, end)
                products.append((_Source(x, at.steps, at.batch), part))
            case _:
                return None
    return products, shifts


def _equal_dims(one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    return all(decide_equal(a, b) is True for a, b in zip(one, other, strict=True))


# The operator


def _replace(graph: Graph, node: Node, layer: _Layer) -> Node:
    b = Builder(Inference(), graph, node, origin=node.unasked_origin, stem=node.results[0].name)
    emit = OpBuilder(b)
    source, cell = layer.source, layer.cell
    x = source.value
    if (source.steps, source.batch) != (0, 1):
        x = emit("Transpose", x, perm=(source.steps, source.batch, 2))
    w = _stack_matrices(b, layer.weights)
    r = _stack_matrices(b, [gate.recurrent for gate in cell.gates])
    bias = _concat_biases(b, layer, w.storage)
    count = len(cell.states)
    initial = [_to_layer_state(b, node.operands[place]) for place in cell.states]
    given: dict[str, Any] = {"hidden_size": layer.hidden, **cell.attributes}
    given["direction"] = "reverse" if layer.is_backwards else "forward"
    if cell.activations != _USUAL[cell.op]:
        given["activations"] = cell.activations
    op_def = registry.op_defs()[cell.op]
    every, *last = b.results(op_def, count + 1, x, w, r, bias, None, *initial, **given)
    body = next(iter(node.bodies()))
    axes = _axis_attribute(node, "scan_output_axes", len(node.outputs) - count)
    taken: set[Value] = set()
    for place, old in enumerate(node.outputs):
        if old is None:
            continue
        if place < count:
            new = _to_loop_state(b, last[cell.states.index(place)], node.operands[place])
        else:
            new = _to_loop_results(b, every, body.outputs[place], axes[place - count])
        # A value has only one name.
        new = emit("Identity", new) if new in taken else new
        taken.add(new)
        _replace_value(old, new)
    operands = node.operands
    made = every.producer
    graph.remove(node)
    _remove_unused(operands)
    if made is None:
        message = "a layer was not made"
        raise RuntimeError(message)
    return made


_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


def _stack_matrices(b: Builder, parts: Sequence[ColumnPart]) -> Value:
    """Stack the matrices of all gates: [1, gates * hidden, columns of the operand]."""
    storages = tuple(part.matrix for part in parts if part.matrix is not None)
    first = storages[0]
    columns_of_x = first.shape[-1] if parts[0].is_transposed else first.shape[-2]
    height = sum(part.stop - part.start for part in parts)
    change = partial(_rows_of, tuple(parts))
    return b.constant(Computed(change, storages, first.dtype, (1, height, columns_of_x)))


def _rows_of(parts: tuple[ColumnPart, ...], *arrays: Array) -> Array:
    return np.concatenate([columns(part, array) for part, array in zip(parts, arrays, strict=True)])[None]


def _concat_biases(b: Builder, layer: _Layer, like: Storage | None) -> Value | None:
    """Concatenate the biases of all input products and of all state products."""
    early, late = layer.shifts, [gate.late for gate in layer.cell.gates]
    parts = tuple(part for group in (*early, *late) for part in group)
    if not parts or like is None:
        return None
    counts = tuple(len(group) for group in (*early, *late))
    storages = tuple(part.matrix for part in parts if part.matrix is not None)
    change = partial(_bias_sum, parts, counts, layer.hidden)
    return b.constant(Computed(change, storages, like.dtype, (1, len(counts) * layer.hidden)))


def _bias_sum(parts: tuple[ColumnPart, ...], counts: tuple[int, ...], width: int, *arrays: Array) -> Array:
    found, rows = [], iter(zip(parts, arrays, strict=True))
    for count in counts:
        total = np.zeros(width, arrays[0].dtype)
        for _ in range(count):
            part, array = next(rows)
            total = total + columns(part, array)
        found.append(total)
    return np.concatenate(found)[None]


def _batch_axis_position(dims: Sequence[Dim]) -> int:
    """Return the batch axis among axes of length 1, before the last one."""
    return next((axis for axis, dim in enumerate(dims[:-1]) if dim != 1), len(dims) - 2)


def _units(dims: Sequence[Dim]) -> list[int]:
    return [axis for axis in range(len(dims) - 1) if axis != _batch_axis_position(dims)]


def _to_layer_state(b: Builder, state: Value) -> Value:
    """Reshape a state to the layout of the layer: [1, batch, hidden]."""
    dims, emit = b.dims(state), OpBuilder(b)
    if _units(dims) == [0]:
        return state
    if units := _units(dims):
        state = emit("Squeeze", state, units)
    return emit("Unsqueeze", state, [0])


def _to_loop_state(b: Builder, state: Value, given: Value) -> Value:
    """Reshape a state of the layer to the axes of the loop's state."""
    units, emit = _units(b.dims(given)), OpBuilder(b)
    if units == [0]:
        return state
    state = emit("Squeeze", state, [0])
    return emit("Unsqueeze", state, units) if units else state


def _to_loop_results(b: Builder, every: Value, step: Value, axis: int) -> Value:
    """Return all states of the layer, [time, 1, batch, hidden], in the axes of the loop's stacked result."""
    dims, emit = b.dims(step), OpBuilder(b)
    units, axis = _units(dims), axis % (len(dims) + 1)
    if axis == 0 and units == [0]:
        return every
    own = ["unit" if place in units else "batch" for place in range(len(dims) - 1)] + ["width"]
    own.insert(axis, "steps")
    found = emit("Squeeze", every, [1])
    order = tuple(("steps", "batch", "width").index(each) for each in own if each != "unit")
    if order != (0, 1, 2):
        found = emit("Transpose", found, perm=order)
    wanted = [place for place, each in enumerate(own) if each == "unit"]
    return emit("Unsqueeze", found, wanted) if wanted else found


def _replace_value(old: Value, new: Value) -> None:
    """Replace `old` by `new`, including name and notes."""
    rewrite.swap_names(old, new)
    new.origin = old.unasked_origin
    if old.has_notes:
        new.notes.update(old.notes)
    if isinstance(new.fact, TensorFact) and (new.fact.shape is None or new.fact.dtype is None):
        new.fact = old.fact
    old.replace_uses(new)


def _remove_unused(values: Sequence[Value]) -> None:
    """Remove the producers of unused values, recursively."""
    waiting = list(values)
    while waiting:
        node = waiting.pop().producer
        if node is None or node.graph is None or any(each.uses or each.is_output for each in node.results):
            continue
        waiting += node.operands
        node.graph.remove(node)
