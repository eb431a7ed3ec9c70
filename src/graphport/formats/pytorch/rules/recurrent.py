"""Recurrent layers of exported programs: cells, and LSTM with projected hidden state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphport.formats.pytorch.rules.binding import length, scalar_of
from graphport.formats.pytorch.rules.functions.recurrent import (
    LSTM_KIND,
    Weights,
    function,
    gru_cell,
    lstm_cell,
    rnn_cell,
)
from graphport.formats.pytorch.rules.overloads import aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Sigmoid, Tanh
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Split, Transpose, Unsqueeze
from graphport.ops.lowering.operands import vector

_MOST_STEPS = 256


def _weights(w_ih: Value, w_hh: Value, b_ih: Value | None, b_hh: Value | None) -> Weights:
    found = {"weight_ih": w_ih, "weight_hh": w_hh}
    if b_ih is not None and b_hh is not None:
        found |= {"bias_ih": b_ih, "bias_hh": b_hh}
    return found


@aten("aten.lstm_cell")
def lstm_step(
    b: Builder, input: Value, hx: Any, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Any:
    return lstm_cell(b, input, *hx, **_weights(w_ih, w_hh, b_ih, b_hh))


@aten("aten.gru_cell")
def gru_step(
    b: Builder, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Any:
    return gru_cell(b, input, hx, **_weights(w_ih, w_hh, b_ih, b_hh))


@aten("aten.rnn_tanh_cell")
def rnn_tanh_step(
    b: Builder, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Any:
    return rnn_cell(b, input, hx, "tanh", **_weights(w_ih, w_hh, b_ih, b_hh))


@aten("aten.rnn_relu_cell")
def rnn_relu_step(
    b: Builder, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Any:
    return rnn_cell(b, input, hx, "relu", **_weights(w_ih, w_hh, b_ih, b_hh))


@aten("aten.lstm.input")
def lstm_layers(
    b: Builder,
    input: Value,
    hx: Any,
    params: Any,
    has_biases: Any = True,
    num_layers: Any = 1,
    dropout: Any = 0.0,
    train: Any = False,
    bidirectional: Any = False,
    batch_first: Any = False,
) -> Any:
    """LSTM as ONNX layers; with a projection by `projected_lstm`."""
    each = 4 if scalar_of(has_biases) else 2
    count = int(scalar_of(num_layers)) * (2 if scalar_of(bidirectional) else 1)
    if len(params) == each * count:
        options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return function(LSTM_KIND, b, input, hx, params, *options)
    if len(params) != (each + 1) * count or (scalar_of(train) and scalar_of(dropout)) or len(b.dims(input)) != 3:
        message = f"lstm with {len(params)} weights, expected {(each + 1) * count}, rank 3 and no dropout"
        raise UnsupportedError(message)
    groups = [tuple(params[place : place + each + 1]) for place in range(0, len(params), each + 1)]
    return _projected(
        b,
        input,
        hx,
        groups,
        directions=2 if scalar_of(bidirectional) else 1,
        first=bool(scalar_of(batch_first)),
    )


def _projected(
    b: Builder, input: Value, hx: Any, groups: Sequence[tuple[Value, ...]], *, directions: int, first: bool
) -> Any:
    x = b(Transpose, input, perm=(1, 0, 2)) if first else input
    hidden, cell = ([b(Gather, state, b.constant(place), axis=0) for place in range(len(groups))] for state in hx)
    ends: list[tuple[Value, Value]] = []
    for layer in range(len(groups) // directions):
        outputs: list[Value] = []
        for way in range(directions):
            place = layer * directions + way
            y, *last = _steps(b, x, groups[place], hidden[place], cell[place], backward=way == 1)
            outputs.append(y)
            ends.append((last[0], last[1]))
        x = outputs[0] if directions == 1 else b(Concat, *outputs, axis=2)
    front = vector(b, [0])
    finals = [b(Concat, *(b(Unsqueeze, end[side], front) for end in ends), axis=0) for side in (0, 1)]
    return b(Transpose, x, perm=(1, 0, 2)) if first else x, *finals


def _steps(
    b: Builder, x: Value, weights: Sequence[Value], h: Value, c: Value, *, backward: bool
) -> tuple[Value, Value, Value]:
    w_ih, w_hh, *biases, w_hr = weights
    count = length(b.dims(x), 0)
    if count > _MOST_STEPS:
        message = f"an LSTM with projection over a sequence of length {count}, at most {_MOST_STEPS} are supported"
        raise UnsupportedError(message)
    turn = [b(Transpose, w, perm=(1, 0)) for w in (w_ih, w_hh, w_hr)]
    inputs = b(MatMul, x, turn[0])
    for bias in biases:
        inputs = b(Add, inputs, bias)
    size = length(b.dims(w_ih), 0) // 4
    found: list[Value] = []
    for t in reversed(range(count)) if backward else range(count):
        gates = b(Add, b(Gather, inputs, b.constant(t), axis=0), b(MatMul, h, turn[1]))
        i, f, g, o = b.results(Split, 4, gates, [size] * 4, axis=-1)
        c = b(Add, b(Mul, b(Sigmoid, f), c), b(Mul, b(Sigmoid, i), b(Tanh, g)))
        h = b(MatMul, b(Mul, b(Sigmoid, o), b(Tanh, c)), turn[2])
        found.append(b(Unsqueeze, h, [0]))
    return b(Concat, *(found[::-1] if backward else found), axis=0), h, c
