"""Export rules of recurrent layers to ATen: gates in torch's order, one weight for each direction."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, aten_results, size_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.recurrent_in_steps import RESETS_STATE, Recurrent, in_steps, unsupported_parts
from graphport.ops.definitions.recurrent.sequences import DIRECTIONS
from graphport.ops.lowering.operands import dtype_of, transposed
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

_LSTM, _GRU, _RNN = (0, 2, 3, 1), (1, 0, 2), (0,)
"""Index of each of torch's gates in ONNX's order."""


def _gates(b: Builder, x: Value, way: int, order: tuple[int, ...], start: int = 0, count: int | None = None) -> Value:
    """Return `count` gates of one direction from the gate `start` on, in torch's order."""
    own = aten(b, "select.int", x, 0, way)
    hidden = _hidden_size(b, x, count or len(order))
    parts = [aten(b, "slice.Tensor", own, 0, (start + k) * hidden, (start + k + 1) * hidden) for k in order]
    return parts[0] if len(parts) == 1 else aten(b, "cat", parts)


def _hidden_size(b: Builder, x: Value, gates: int) -> int:
    size = b.dims(x)[1]
    if not isinstance(size, int):
        message = "the hidden size is not constant"
        raise UnsupportedError(message)
    return size // gates


def _layer(
    b: Builder, name: str, order: tuple[int, ...], op: Recurrent, states: list[Value | None]
) -> tuple[Value, ...]:
    """Export one layer as one operator; axis 0 is time."""
    ways = len(DIRECTIONS[op.direction])
    x = transposed(b, op.x, (1, 0, 2)) if op.layout else op.x
    if op.direction == "reverse":
        x = aten(b, "flip", x, (0,))
    hidden = _hidden_size(b, op.w, len(order))
    initial = [_initial(b, op, x, state, ways, hidden) for state in states]
    parameters: list[Value] = []
    for way in range(ways):
        parameters += [_gates(b, op.w, way, order), _gates(b, op.r, way, order)]
        if op.b is not None:
            halves = (0, len(order))
            parameters += [_gates(b, op.b, way, order, start, 2 * len(order)) for start in halves]
    options: tuple[Any, ...] = (op.b is not None, 1, 0.0, False, ways == 2, False)
    given = initial if len(initial) > 1 else initial[0]
    y, *last = aten_results(b, name, 1 + len(states), x, given, parameters, *options)
    if op.direction == "reverse":
        y = aten(b, "flip", y, (0,))
    sizes = (size_of(b, x, 0), size_of(b, x, 1), ways, hidden)
    parted = aten(b, "reshape", y, sizes)
    order_of_axes = (1, 0, 2, 3) if op.layout else (0, 2, 1, 3)
    ends = [transposed(b, end, (1, 0, 2)) if op.layout else end for end in last]
    return transposed(b, parted, order_of_axes), *ends


def _initial(b: Builder, op: Recurrent, x: Value, state: Value | None, ways: int, hidden: int) -> Value:
    if state is None:
        return aten(b, "full", (ways, size_of(b, x, 1), hidden), 0.0, dtype=dtype_of(x))
    return transposed(b, state, (1, 0, 2)) if op.layout else state


def _export_recurrent(
    b: Builder, op: Recurrent, name: str, order: tuple[int, ...], states: list[Value | None], reason: str
) -> tuple[Value, ...]:
    if not reason and dtype_of(op.x) not in (DType.FLOAT32, DType.FLOAT64):
        reason = f"PyTorch has no recurrent layer of {dtype_of(op.x)}"
    if reason:
        return in_steps(b, op, reason)
    return _layer(b, name, order, op, states)[: b.count]


@LSTMView.export_rule(DIALECT)
def export_lstm(b: Builder, op: LSTMView) -> tuple[Value, ...]:
    reason = unsupported_parts(op, ("Sigmoid", "Tanh", "Tanh"))
    return _export_recurrent(b, op, "lstm.input", _LSTM, [op.initial_h, op.initial_c], reason)


@GRUView.export_rule(DIALECT)
def export_gru(b: Builder, op: GRUView) -> tuple[Value, ...]:
    reason = unsupported_parts(op, ("Sigmoid", "Tanh")) or ("" if op.linear_before_reset else RESETS_STATE)
    return _export_recurrent(b, op, "gru.input", _GRU, [op.initial_h], reason)


@RNNView.export_rule(DIALECT)
def export_rnn(b: Builder, op: RNNView) -> tuple[Value, ...]:
    name = "relu" if op.activations and op.activations[0].lower() == "relu" else "tanh"
    return _export_recurrent(b, op, f"rnn_{name}.input", _RNN, [op.initial_h], unsupported_parts(op, (name,)))
