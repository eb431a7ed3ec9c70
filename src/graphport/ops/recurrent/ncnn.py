"""Recurrent layers of ncnn: one sequence, [time, features]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.ir.graph import Value
from graphport.ops.blobs import Layer, layer
from graphport.ops.declare import Page, UnsupportedError
from graphport.ops.pytorch import dtype_of, vector
from graphport.ops.recurrent import GRU, LSTM, RNN
from graphport.ops.reshape import Concat, Reshape, Split, Transpose

_WAYS = (None, "reverse", "bidirectional")


def _ordered(at: Layer, weight: Value, order: Sequence[int]) -> Value:
    """Blocks along axis 1, one for each gate, in another order."""
    if list(order) == list(range(len(order))):
        return weight
    hidden = int(str(at.b.dims(weight)[1])) // len(order)
    blocks = at.b.results(Split, len(order), weight, vector(at.b, [hidden] * len(order)), axis=1)
    return at.b(Concat, *(blocks[place] for place in order), axis=1)


def _run(at: Layer, page: Page, w: Value, r: Value, bias: Value, hidden: int, **attributes: Any) -> list[Value]:
    b, way = at.b, at.integer(2)
    if not 0 <= way < len(_WAYS):
        message = f"there is no direction {way}"
        raise UnsupportedError(message)
    given = [b(Transpose, state, perm=(1, 0, 2)) for state in at.inputs[1:]]
    x = b(Transpose, at.x, perm=(1, 0, 2))
    count = 3 if page is LSTM else 2
    y, *last = b.results(
        page, count, x, w, r, bias, None, *given, hidden_size=hidden, direction=_WAYS[way], **attributes
    )
    # [time, direction, batch, hidden]
    turned = b(Reshape, b(Transpose, y, perm=(2, 0, 1, 3)), vector(b, [0, 0, -1]))
    return [turned, *(b(Transpose, state, perm=(1, 0, 2)) for state in last)][: b.count]


def _ways(at: Layer) -> int:
    return 2 if at.integer(2) == 2 else 1


@layer("LSTM")
def lstm(at: Layer) -> list[Value]:
    """Gates stand in the order input, forget, output, cell."""
    at.refuse(8)
    ways, hidden = _ways(at), at.integer(0)
    if at.integer(3, hidden) != hidden:
        message = "a projection of the hidden state"
        raise UnsupportedError(message)
    size = at.integer(1) // (ways * hidden * 4)
    order = (0, 2, 1, 3)
    w = _ordered(at, at.weight(0, [ways, 4 * hidden, size]), order)
    r = _ordered(at, at.weight(2, [ways, 4 * hidden, hidden]), order)
    half = _ordered(at, at.weight(1, [ways, 4 * hidden]), order)
    zeros = at.b.constant(np.zeros((ways, 4 * hidden)), dtype_of(half))
    return _run(at, LSTM, w, r, at.b(Concat, half, zeros, axis=1), hidden)


@layer("GRU")
def gru(at: Layer) -> list[Value]:
    """Gates stand in the order reset, update, new; the new one has a bias for each of both sums."""
    at.refuse(8)
    ways, hidden = _ways(at), at.integer(0)
    size = at.integer(1) // (ways * hidden * 3)
    order = (1, 0, 2)
    w = _ordered(at, at.weight(0, [ways, 3 * hidden, size]), order)
    r = _ordered(at, at.weight(2, [ways, 3 * hidden, hidden]), order)
    parts = at.b.results(Split, 4, at.weight(1, [ways, 4 * hidden]), vector(at.b, [hidden] * 4), axis=1)
    zeros = at.b.constant(np.zeros((ways, 2 * hidden)), dtype_of(parts[0]))
    bias = at.b(Concat, parts[1], parts[0], parts[2], zeros, parts[3], axis=1)
    return _run(at, GRU, w, r, bias, hidden, linear_before_reset=1)


@layer("RNN")
def rnn(at: Layer) -> list[Value]:
    at.refuse(8)
    ways, hidden = _ways(at), at.integer(0)
    size = at.integer(1) // (ways * hidden)
    w = at.weight(0, [ways, hidden, size])
    r = at.weight(2, [ways, hidden, hidden])
    half = at.weight(1, [ways, hidden])
    zeros = at.b.constant(np.zeros((ways, hidden)), dtype_of(half))
    return _run(at, RNN, w, r, at.b(Concat, half, zeros, axis=1), hidden)
