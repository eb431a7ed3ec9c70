"""Recurrent layers: LSTM, GRU and RNN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import op
from graphport.ops.definitions.recurrent.activations import Activation
from graphport.ops.definitions.recurrent.activations import activations as named_activations
from graphport.ops.definitions.recurrent.sequences import (
    DIRECTIONS,
    Step,
    check_peepholes,
    clipped,
    recurrent_macs,
    recurrent_shapes,
    run,
)
from graphport.ops.integer_ranges import steps_of_sequence
from graphport.ops.types import FLOATS, INT32, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

__all__ = ["GRU", "LSTM", "RNN"]

T = Annotated[Tensor, Types("T", FLOATS)]
T1 = Annotated[Tensor, Types("T1", INT32)]

Names = tuple[str, ...]
Numbers = tuple[float, ...]


def _activation_names(activations: Names | None, default: Names, direction: str) -> Names:
    """Return the activation names of all directions; the defaults are repeated for each direction."""
    return activations or default * len(DIRECTIONS.get(direction, ()))


@viewed
def _lstm_shape(op: LSTMView[TensorFact]) -> list[TensorFact]:
    facts = recurrent_shapes(
        op,
        {"initial_h": op.initial_h, "initial_c": op.initial_c},
        gates=4,
        activations=_activation_names(op.activations, ("Sigmoid", "Tanh", "Tanh"), op.direction),
        each=3,
    )
    check_peepholes(op.p, len(DIRECTIONS[op.direction]), facts[0].dims[-1])
    return facts


@op(
    states=("initial_h", "initial_c"),
    shape=_lstm_shape,
    since=7,
    outputs=("y", "y_h", "y_c"),
    exactness="accumulation",
    role="weighted",
    index_operands=("sequence_lens",),
    holds={"sequence_lens": steps_of_sequence},
    macs=recurrent_macs,
    ranks={"x": 3, "w": 3, "r": 3, "b": 2, "sequence_lens": 1, "initial_h": 3, "initial_c": 3, "p": 2},
)
def LSTM(
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    sequence_lens: T1 | None = None,
    initial_h: T | None = None,
    initial_c: T | None = None,
    p: T | None = None,
    *,
    activation_alpha: Numbers | None = None,
    activation_beta: Numbers | None = None,
    activations: Names | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[T, T, T]:
    """Long short-term memory: hidden states of all steps, final hidden state, final cell state.

    Gates in the order i, o, f, c, each with weights W, R and biases, and peepholes P for i, o, f: `i = f(W x + R h + P
    c)`, likewise `f`, `c' = f * c + i * g(W x + R h)`, `o = f(W x + R h + P c')`, `h' = o * h(c')`. `activations` are
    f, g, h per direction; with `input_forget` f is `1 - i`; `clip` bounds the activation inputs.

    Shapes: x [S, N, I] (or [N, S, I] with `layout` 1), w [D, 4H, I], r [D, 4H, H], b [D, 8H], sequence_lens [N],
    initial_h and initial_c [D, N, H] (or [N, D, H]), p [D, 3H] → [S, D, N, H] (or [N, S, D, H]), twice [D, N, H] (or
    [N, D, H]); D is 2 for a bidirectional layer.

    Raises:
        ShapeError: operands disagree on directions, batch or hidden units; an unknown activation or direction.

    Source: ONNX LSTM-22.
    """
    hidden = r.shape[2]
    names = _activation_names(activations, ("Sigmoid", "Tanh", "Tanh"), direction)
    functions = named_activations(names, activation_alpha, activation_beta)
    wide = np.result_type(x.dtype, np.float32)
    cells = [
        _lstm_cell(
            w[way].astype(wide),
            r[way].astype(wide),
            _of(way, b, wide),
            _of(way, p, wide),
            functions[3 * way : 3 * way + 3],
            clip,
            couples=bool(input_forget),
        )
        for way in range(len(DIRECTIONS[direction]))
    ]
    y, y_h, y_c = run(
        x.astype(wide),
        sequence_lens,
        (initial_h, initial_c),
        cells,
        hidden=hidden,
        direction=direction,
        layout=layout,
    )
    return y.astype(x.dtype), y_h.astype(x.dtype), y_c.astype(x.dtype)


def _of(way: int, value: Tensor | None, dtype: np.dtype[np.generic]) -> Tensor | None:
    """Return an operand's slice for direction `way` (0 or 1), converted to `dtype`."""
    return None if value is None else value[way].astype(dtype)


def _bias(b: Tensor | None, gates: int, hidden: int) -> tuple[Tensor, Tensor]:
    """Return input and recurrence bias, [gates * hidden] each; zeros without `b`."""
    if b is None:
        zeros = np.zeros(gates * hidden, np.float32)
        return zeros, zeros
    return b[: gates * hidden], b[gates * hidden :]


def _lstm_cell(
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    p: Tensor | None,
    functions: list[Activation],
    clip: float | None,
    *,
    couples: bool,
) -> Step:
    hidden = r.shape[1]
    bias = sum(_bias(b, 4, hidden))
    peep_i, peep_o, peep_f = np.split(p, 3) if p is not None else (0, 0, 0)
    f, g, h = functions

    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        before, cell = state
        i, o, forget, c = np.split(x @ w.T + before @ r.T + bias, 4, axis=1)
        i = f(clipped(i + peep_i * cell, clip))
        forget = 1 - i if couples else f(clipped(forget + peep_f * cell, clip))
        cell = forget * cell + i * g(clipped(c, clip))
        o = f(clipped(o + peep_o * cell, clip))
        return o * h(cell), cell

    return step


@viewed
def _gru_shape(op: GRUView[TensorFact]) -> list[TensorFact]:
    return recurrent_shapes(
        op,
        {"initial_h": op.initial_h},
        gates=3,
        activations=_activation_names(op.activations, ("Sigmoid", "Tanh"), op.direction),
        each=2,
    )


@op(
    states=("initial_h",),
    shape=_gru_shape,
    since=7,
    outputs=("y", "y_h"),
    exactness="accumulation",
    role="weighted",
    index_operands=("sequence_lens",),
    holds={"sequence_lens": steps_of_sequence},
    macs=recurrent_macs,
    ranks={"x": 3, "w": 3, "r": 3, "b": 2, "sequence_lens": 1, "initial_h": 3},
)
def GRU(
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    sequence_lens: T1 | None = None,
    initial_h: T | None = None,
    *,
    activation_alpha: Numbers | None = None,
    activation_beta: Numbers | None = None,
    activations: Names | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[T, T]:
    """Gated recurrent unit: hidden states of all steps, and the final hidden state.

    Gates in the order z, r, h: `z = f(W x + R h)`, likewise `r`, `n = g(W x + R (r * h))`, or `g(W x + r * (R h))` with
    `linear_before_reset`, and `h' = (1 - z) * n + z * h`. `activations` are f, g per direction; `clip` bounds the
    activation inputs.

    Shapes: x [S, N, I] (or [N, S, I] with `layout` 1), w [D, 3H, I], r [D, 3H, H], b [D, 6H], sequence_lens [N],
    initial_h [D, N, H] (or [N, D, H]) → [S, D, N, H] (or [N, S, D, H]), [D, N, H] (or [N, D, H]).

    Raises:
        ShapeError: operands disagree on directions, batch or hidden units; an unknown activation or direction.

    Source: ONNX GRU-22.
    """
    hidden = r.shape[2]
    names = _activation_names(activations, ("Sigmoid", "Tanh"), direction)
    functions = named_activations(names, activation_alpha, activation_beta)
    wide = np.result_type(x.dtype, np.float32)
    cells = [
        _gru_cell(
            w[way].astype(wide),
            r[way].astype(wide),
            _of(way, b, wide),
            functions[2 * way : 2 * way + 2],
            clip,
            resets_after=bool(linear_before_reset),
        )
        for way in range(len(DIRECTIONS[direction]))
    ]
    y, y_h = run(x.astype(wide), sequence_lens, (initial_h,), cells, hidden=hidden, direction=direction, layout=layout)
    return y.astype(x.dtype), y_h.astype(x.dtype)


def _gru_cell(
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    functions: list[Activation],
    clip: float | None,
    *,
    resets_after: bool,
) -> Step:
    hidden = r.shape[1]
    entry_bias, state_bias = _bias(b, 3, hidden)
    gates, candidate = r[: 2 * hidden], r[2 * hidden :]
    f, g = functions

    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (before,) = state
        z, reset, n = np.split(x @ w.T + entry_bias, 3, axis=1)
        state_z, state_r = np.split(before @ gates.T + state_bias[: 2 * hidden], 2, axis=1)
        z, reset = f(clipped(z + state_z, clip)), f(clipped(reset + state_r, clip))
        if resets_after:
            n = n + reset * (before @ candidate.T + state_bias[2 * hidden :])
        else:
            n = n + (reset * before) @ candidate.T + state_bias[2 * hidden :]
        return ((1 - z) * g(clipped(n, clip)) + z * before,)

    return step


@viewed
def _rnn_shape(op: RNNView[TensorFact]) -> list[TensorFact]:
    return recurrent_shapes(
        op,
        {"initial_h": op.initial_h},
        gates=1,
        activations=op.activations,
        each=1,
    )


@op(
    states=("initial_h",),
    shape=_rnn_shape,
    since=7,
    outputs=("y", "y_h"),
    exactness="accumulation",
    role="weighted",
    index_operands=("sequence_lens",),
    holds={"sequence_lens": steps_of_sequence},
    macs=recurrent_macs,
    ranks={"x": 3, "w": 3, "r": 3, "b": 2, "sequence_lens": 1, "initial_h": 3},
)
def RNN(
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    sequence_lens: T1 | None = None,
    initial_h: T | None = None,
    *,
    activation_alpha: Numbers | None = None,
    activation_beta: Numbers | None = None,
    activations: Names = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[T, T]:
    """Simple recurrent layer, `h' = f(W x + R h)`: hidden states of all steps, and the final hidden state.

    `activations` contains one f per direction; `clip` bounds its input.

    Shapes: x [S, N, I] (or [N, S, I] with `layout` 1), w [D, H, I], r [D, H, H], b [D, 2H], sequence_lens [N],
    initial_h [D, N, H] (or [N, D, H]) → [S, D, N, H] (or [N, S, D, H]), [D, N, H] (or [N, D, H]).

    Raises:
        ShapeError: operands disagree on directions, batch or hidden units; an unknown activation or direction.

    Source: ONNX RNN-22.
    """
    hidden = r.shape[2]
    functions = named_activations(activations, activation_alpha, activation_beta)
    wide = np.result_type(x.dtype, np.float32)
    cells = [
        _rnn_cell(w[way].astype(wide), r[way].astype(wide), _of(way, b, wide), functions[way], clip)
        for way in range(len(DIRECTIONS[direction]))
    ]
    y, y_h = run(x.astype(wide), sequence_lens, (initial_h,), cells, hidden=hidden, direction=direction, layout=layout)
    return y.astype(x.dtype), y_h.astype(x.dtype)


def _rnn_cell(w: Tensor, r: Tensor, b: Tensor | None, function: Activation, clip: float | None) -> Step:
    bias = sum(_bias(b, 1, r.shape[1]))

    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (function(clipped(x @ w.T + state[0] @ r.T + bias, clip)),)

    return step
