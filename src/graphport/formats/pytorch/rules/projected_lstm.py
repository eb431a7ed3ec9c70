"""LSTM with projected hidden state (`proj_size`), for which ONNX has no operator."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.rules.binding import length
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.recurrent import LSTM
from graphport.ops.definitions.reshape import Concat, Split, Transpose, Unsqueeze


def projected_lstm(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None,
    p: Value,
    state: Value | None,
    cell: Value | None,
    direction: str | None,
) -> tuple[Value, Value, Value]:
    """Return y, the last h and the last c of an LSTM with h = P (o * tanh(c)).

    R h = (R P) (o * tanh(c)), so an ONNX LSTM with recurrence weights R P computes the unprojected states. The initial
    state is already projected; it is added as features of the first input.

    Shapes: x [S, N, I]; w [D, 4H, I]; r [D, 4H, Q]; bias [D, 8H]; p [D, Q, H]; state [D, N, Q]; cell [D, N, H].
    """
    ways, size = length(b.dims(p), 0), length(b.dims(p), 2)
    if state is not None:
        x, w = _entered(b, x, w, r, state, ways, is_reverse=direction == "reverse")
    # An initial cell state without a hidden state implies a hidden state of zeros.
    given: list[Any] = [None, cell] if cell is not None else []
    inner = b(MatMul, r, p)
    y, last, end = b.results(LSTM, 3, x, w, inner, bias, None, *given, hidden_size=size, direction=direction)
    transposed = b(Transpose, p, perm=(0, 2, 1))
    return b(MatMul, y, transposed), b(MatMul, last, transposed), end


def _entered(
    b: Builder, x: Value, w: Value, r: Value, state: Value, ways: int, *, is_reverse: bool
) -> tuple[Value, Value]:
    """Append the initial state of each direction to the features of its first input; return input and weights."""
    steps, width = length(b.dims(x), 0), length(b.dims(r), 2)
    states = b.results(Split, ways, state, [1] * ways, axis=0) if ways > 1 else (state,)
    blocks = b.results(Split, ways, r, [1] * ways, axis=0) if ways > 1 else (r,)
    inputs, rows = [x], list[Value]()
    for way, (own, block) in enumerate(zip(states, blocks, strict=True)):
        behind = is_reverse or way == 1
        pads = [steps - 1 if behind else 0, 0, 0, 0 if behind else steps - 1, 0, 0]
        inputs.append(b(Pad, own, pads))
        rows.append(b(Pad, block, [0, 0, way * width, 0, 0, (ways - 1 - way) * width]))
    more = b(Concat, *rows, axis=0) if ways > 1 else rows[0]
    return b(Concat, *inputs, axis=2), b(Concat, w, more, axis=2)


def with_direction(b: Builder, weights: list[Value]) -> Value:
    """Stack the weights of all directions on a new axis 0."""
    front = [b(Unsqueeze, each, [0]) for each in weights]
    return front[0] if len(front) == 1 else b(Concat, *front, axis=0)
