"""Recurrent layers of ncnn: one sequence, [time, features]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import (
    blob_dims,
    constant_float32,
    emitted,
    lacking,
    rearranged,
    restore_leading_batch,
    shaped,
    stretched,
)
from graphport.formats.ncnn.rules.quantization import TERM, inverse, rounded_rows
from graphport.formats.pytorch.rules.projected_lstm import projected_lstm
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed
from graphport.ops.declare import OpDef, UnsupportedError
from graphport.ops.decompositions.recurrent_in_steps import (
    RESETS_STATE,
    Recurrent,
    in_steps,
    rounded_loop,
    unsupported_parts,
)
from graphport.ops.definitions.quantization import DequantizeLinear
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from graphport.ops.definitions.reshape import Concat, Reshape, Split, Transpose
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

_WAYS = (None, "reverse", "bidirectional")


def _permute_gates(at: Layer, weight: Value, order: Sequence[int]) -> Value:
    """Reorder the gate blocks along axis 1 of a weight by `order`."""
    if list(order) == list(range(len(order))):
        return weight
    hidden = int(str(at.b.dims(weight, at_least=2)[1])) // len(order)
    blocks = at.b.results(Split, len(order), weight, vector(at.b, [hidden] * len(order)), axis=1)
    return at.b(Concat, *(blocks[place] for place in order), axis=1)


def _run(at: Layer, op_def: OpDef, w: Value, r: Value, bias: Value, hidden: int, **attributes: Any) -> list[Value]:
    x, given = _sequence(at)
    if at.integer(TERM):
        loop = rounded_loop(
            at.b, op_def.name, rounded_rows(at.b, x), (w, r, bias), given, _direction(at) or "forward", rounded_rows
        )
        return _answered(at, *loop)
    count = 3 if op_def is LSTM else 2
    attributes |= {"hidden_size": hidden, "direction": _direction(at)}
    return _answered(at, *at.b.results(op_def, count, x, w, r, bias, None, *given, **attributes))


def _direction(at: Layer) -> str | None:
    return at.choice(2, _WAYS, "direction")


def _sequence(at: Layer) -> tuple[Value, list[Value]]:
    """Return the input sequence as [time, batch, features], and the initial states as [direction, batch, hidden]."""
    return at.b(Transpose, at.x, perm=(1, 0, 2)), [at.b(Transpose, state, perm=(1, 0, 2)) for state in at.inputs[1:]]


def _answered(at: Layer, y: Value, *last: Value) -> list[Value]:
    """Return the results of all steps, [time, directions * hidden], and the final states."""
    b = at.b
    # [time, direction, batch, hidden]
    permuted = b(Reshape, b(Transpose, y, perm=(2, 0, 1, 3)), [0, 0, -1])
    return [permuted, *(b(Transpose, state, perm=(1, 0, 2)) for state in last)][: b.count]


def _num_directions(at: Layer) -> int:
    return 2 if at.integer(2) == 2 else 1


_GATES = {"LSTM": (0, 2, 1, 3), "GRU": (1, 0, 2), "RNN": (0,)}
"""Permutation between ONNX's and ncnn's gates, which is its own inverse."""


def _matrices(at: Layer, order: Sequence[int], hidden: int, width: int) -> tuple[Value, Value]:
    """Return W [directions, gates * hidden, inputs] and R [directions, gates * hidden, width] with reordered gates.

    `order` permutes the gates; `width` is the size of the recurrent state: of an LSTM's projection, else `hidden`.
    """
    ways, rows = _num_directions(at), len(order) * hidden
    shapes = {0: [ways, rows, at.integer(1) // (ways * rows)], 2: [ways, rows, width]}
    if not at.integer(TERM):
        w, r = (at.weight(index, shape) for index, shape in shapes.items())
    else:
        if width != hidden:
            message = "int8 weights of an LSTM with a projection"
            raise UnsupportedError(message)
        w, r = (_dequantized(at, index, 3 + index // 2, shape) for index, shape in shapes.items())
    return _permute_gates(at, w, order), _permute_gates(at, r, order)


def _dequantized(at: Layer, index: int, place: int, shape: Sequence[int]) -> Value:
    """Dequantize the int8 weight `index` by its per-row scales, weight `place`, in integers per real unit."""
    scales = at.stored(place)
    rows = shape[0] * shape[1]
    if scales.count != rows or at.stored(index).dtype is not DType.INT8:
        message = f"{scales.count} scales for {rows} rows of {at.stored(index).dtype}, expected one scale per int8 row"
        raise UnsupportedError(message)
    steps = Computed(lambda array: inverse(array.reshape(-1)), (scales,), DType.FLOAT32, (rows,))
    codes = at.b.constant(at.stored(index).reshaped([rows, shape[2]]))
    return at.b(Reshape, at.b(DequantizeLinear, codes, at.b.constant(steps), axis=0), list(shape))


def _bias(at: Layer, order: Sequence[int], hidden: int) -> Value:
    """Return ONNX's bias [directions, 2 * gates * hidden]: weight 1 as input bias, zeros as recurrence bias."""
    half = _permute_gates(at, at.weight(1, [_num_directions(at), len(order) * hidden]), order)
    return at.b(
        Concat, half, at.b.constant(np.zeros((_num_directions(at), len(order) * hidden)), dtype_of(half)), axis=1
    )


@layer("LSTM")
def lstm(at: Layer) -> list[Value]:
    order, width, hidden = _GATES["LSTM"], at.integer(0), at.integer(3, at.integer(0))
    w, r = _matrices(at, order, hidden, width)
    bias = _bias(at, order, hidden)
    if width == hidden:
        return _run(at, LSTM, w, r, bias, hidden)
    x, given = _sequence(at)
    p = at.weight(3, [_num_directions(at), width, hidden])
    state, cell = given or (None, None)
    return _answered(at, *projected_lstm(at.b, x, w, r, bias, p, state, cell, _direction(at)))


@layer("GRU")
def gru(at: Layer) -> list[Value]:
    """GRU; only the new gate has separate input and recurrence biases (ONNX's `linear_before_reset`)."""
    ways, hidden = _num_directions(at), at.integer(0)
    w, r = _matrices(at, _GATES["GRU"], hidden, hidden)
    parts = at.b.results(Split, 4, at.weight(1, [ways, 4 * hidden]), vector(at.b, [hidden] * 4), axis=1)
    zeros = at.b.constant(np.zeros((ways, 2 * hidden)), dtype_of(parts[0]))
    bias = at.b(Concat, parts[1], parts[0], parts[2], zeros, parts[3], axis=1)
    return _run(at, GRU, w, r, bias, hidden, linear_before_reset=1)


@layer("RNN")
def rnn(at: Layer) -> list[Value]:
    order, hidden = _GATES["RNN"], at.integer(0)
    return _run(at, RNN, *_matrices(at, order, hidden, hidden), _bias(at, order, hidden), hidden)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = {"forward": 0, "reverse": 1, "bidirectional": 2}


def _blocks(value: Value, order: Sequence[int]) -> Storage:
    """Return a constant weight [directions, gates * hidden, …] with its gates reordered by `order`."""
    shape = constant_float32(value).shape
    count = len(order)

    def moved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        blocks = array.reshape(shape[0], count, shape[1] // count, *shape[2:])
        return blocks[:, list(order)].reshape(shape)

    return rearranged(value, moved, shape)


def _summed(bias: Value | None, order: Sequence[int], ways: int, hidden: int, extra: int | None = None) -> Storage:
    """Add input and recurrence bias of each gate; of the gate `extra`, keep both, the recurrence bias at the end."""
    count = len(order)
    rows = count + (extra is not None)

    def added(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        both = array.reshape(ways, 2, count, hidden)
        total = both.sum(axis=1)[:, list(order)]
        if extra is not None:
            total[:, -1] = both[:, 0, extra]
            total = np.concatenate([total, both[:, 1:, extra]], axis=1)
        return total.reshape(ways, rows * hidden)

    if bias is None:
        return storage_of(np.zeros((ways, rows * hidden)), DType.FLOAT32)
    return rearranged(bias, added, (ways, rows * hidden))


def _states(b: Builder, states: Sequence[Value | None], layout: int, ways: int, hidden: int) -> list[Value]:
    if all(state is None for state in states):
        return []
    shape = (1, ways, hidden) if layout else (ways, 1, hidden)
    # A layer reads all states or none; an absent one is 0.
    zeros = (b.constant(np.zeros(shape), DType.FLOAT32) if state is None else state for state in states)
    return [stretched(b, state, shape, 0 if layout else 1) for state in zeros]


def _export_recurrent(
    b: Builder, op_type: str, op: Recurrent, states: Sequence[Value | None], weights: Sequence[Storage]
) -> tuple[Value, ...]:
    """Export a recurrent operator on one sequence; the results of the directions are consecutive."""
    layout, ways, hidden = op.layout, weights[0].shape[0], weights[2].shape[2]
    x = lacking(b, op.x, 0 if layout else 1)
    time, size = blob_dims(b, x)
    more = _states(b, states, layout, ways, hidden)
    is_whole = bool(more) or b.count > 1
    facts = [TensorFact(DType.FLOAT32, (1, time, ways * hidden))]
    if is_whole:
        facts += [TensorFact(DType.FLOAT32, (1, ways, hidden))] * len(states)
    attributes: dict[str, Any] = {
        "0": hidden,
        "1": ways * weights[0].shape[1] * size,
        "2": _NUMBERS[op.direction],
        **{f"@{index}": storage for index, storage in enumerate(weights)},
    }
    y, *last = b.emit(op_type, x, *more, facts=facts, **attributes)
    shape = (1, time, ways, hidden) if layout else (time, ways, 1, hidden)
    steps = time if isinstance(time, int) else -1
    split = emitted(b, "Reshape", y, fact=TensorFact(DType.FLOAT32, shape), **shaped([steps, ways, hidden]))
    ends = TensorFact(DType.FLOAT32, (1, ways, hidden) if layout else (ways, 1, hidden))
    finals: list[Value] = []
    for state in last:
        state.fact = ends
        finals.append(restore_leading_batch(b, state, 0 if layout else 1))
    return restore_leading_batch(b, split, 0 if layout else 2), *finals


@LSTMView.export_rule("ncnn")
def export_lstm(b: Builder, op: LSTMView) -> tuple[Value, ...]:
    if reason := unsupported_parts(op, ("Sigmoid", "Tanh", "Tanh")):
        return in_steps(b, op, reason)
    return _export_recurrent(b, "LSTM", op, (op.initial_h, op.initial_c), _weights(op, _GATES["LSTM"]))


@GRUView.export_rule("ncnn")
def export_gru(b: Builder, op: GRUView) -> tuple[Value, ...]:
    if reason := unsupported_parts(op, ("Sigmoid", "Tanh")) or ("" if op.linear_before_reset else RESETS_STATE):
        return in_steps(b, op, reason)
    return _export_recurrent(b, "GRU", op, (op.initial_h,), _weights(op, _GATES["GRU"], extra=2))


@RNNView.export_rule("ncnn")
def export_rnn(b: Builder, op: RNNView) -> tuple[Value, ...]:
    if reason := unsupported_parts(op, ("Tanh",)):
        return in_steps(b, op, reason)
    return _export_recurrent(b, "RNN", op, (op.initial_h,), _weights(op, _GATES["RNN"]))


def _weights(op: Recurrent, order: Sequence[int], extra: int | None = None) -> list[Storage]:
    ways, _, hidden = constant_float32(op.r).shape
    return [_blocks(op.w, order), _summed(op.b, order, ways, hidden, extra), _blocks(op.r, order)]
