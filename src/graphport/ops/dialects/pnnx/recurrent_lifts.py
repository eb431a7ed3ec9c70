"""Recurrent layers in the words of PNNX: gates in PyTorch's order, a weight for each layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.dialects.torch_functions import DIALECT, called, dtype_of, weight_of
from graphport.ops.folded import Computed
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

Recurrent: TypeAlias = GRUView | LSTMView | RNNView

_WAYS = {"forward": 1, "bidirectional": 2}
_LSTM, _GRU, _RNN = (0, 2, 3, 1), (1, 0, 2), (0,)
"""Where each of PyTorch's gates stands among ONNX's."""


def _part(storage: Storage, way: int, order: Sequence[int], half: int | None = None) -> Storage:
    """What belongs to one direction, its gates in another order; of a bias, its first or its second half."""
    count = len(order)
    length = storage.shape[1] // (2 if half is not None else 1)

    def moved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        own = array[way] if half is None else array[way][half * length : (half + 1) * length]
        blocks = own.reshape(count, length // count, *own.shape[1:])
        return blocks[list(order)].reshape(own.shape)

    return Computed(moved, (storage,), storage.dtype, (length, *storage.shape[2:]))


def _lifted(
    b: Builder, word: str, order: Sequence[int], op: Recurrent, states: Sequence[Value | None], **more: Any
) -> tuple[Value, ...] | None:
    """A layer of one module."""
    x, ways = op.x, _WAYS.get(op.direction, 0)
    known = [None if value is None else weight_of(value) for value in (op.w, op.r, op.b)]
    if known[0] is None or known[1] is None or (op.b is not None and known[2] is None):
        return None
    time, batch, size = b.dims(x)
    if not (isinstance(time, int) and isinstance(batch, int) and isinstance(size, int)):
        return None
    hidden = known[1].shape[2] if op.hidden_size is None else op.hidden_size
    if not ways or any(state is None for state in states) != all(state is None for state in states):
        return None
    if dtype_of(x) is not DType.FLOAT32:
        return None
    weights: dict[str, Any] = {}
    for way, end in enumerate(("", "_reverse")[:ways]):
        weights[f"@weight_ih_l0{end}"] = _part(known[0], way, order)
        weights[f"@weight_hh_l0{end}"] = _part(known[1], way, order)
        if known[2] is not None:
            weights[f"@bias_ih_l0{end}"] = _part(known[2], way, order, 0)
            weights[f"@bias_hh_l0{end}"] = _part(known[2], way, order, 1)
    given = [state for state in states if state is not None]
    last = TensorFact(DType.FLOAT32, (ways, batch, hidden))
    found = b.word(
        word,
        x,
        *given,
        facts=[TensorFact(DType.FLOAT32, (time, batch, ways * hidden)), *[last] * len(states)],
        input_size=size,
        hidden_size=hidden,
        num_layers=1,
        bias=known[2] is not None,
        batch_first=False,
        bidirectional=ways == 2,
        **more,
        **weights,
    )
    apart = TensorFact(DType.FLOAT32, (time, batch, ways, hidden))
    y = called(b, "Tensor.reshape", apart, input=found[0], shape=(time, batch, ways, hidden))
    turned = TensorFact(DType.FLOAT32, (time, ways, batch, hidden))
    return called(b, "Tensor.permute", turned, input=y, dims=(0, 2, 1, 3)), *found[1:]


def _is_plain(op: Recurrent, activations: Sequence[str]) -> bool:
    """Whether nothing is said that PyTorch has no word for."""
    usual = [name.lower() for name in activations] * _WAYS.get(op.direction, 0)
    # ONNX has one activation of a plain recurrence for each direction, and two by default.
    is_usual = not op.activations or [name.lower() for name in op.activations][: len(usual)] == usual
    couples = isinstance(op, LSTMView) and op.input_forget
    return is_usual and not any((op.activation_alpha, op.activation_beta, op.clip, couples, op.layout))


@LSTMView.lift(DIALECT)
def lift_lstm(b: Builder, op: LSTMView) -> tuple[Value, ...] | None:
    if op.sequence_lens is not None or op.p is not None or not _is_plain(op, ("Sigmoid", "Tanh", "Tanh")):
        return None
    return _lifted(b, "nn.LSTM", _LSTM, op, (op.initial_h, op.initial_c))


@GRUView.lift(DIALECT)
def lift_gru(b: Builder, op: GRUView) -> tuple[Value, ...] | None:
    if op.sequence_lens is not None or not op.linear_before_reset or not _is_plain(op, ("Sigmoid", "Tanh")):
        return None
    return _lifted(b, "nn.GRU", _GRU, op, (op.initial_h,))


@RNNView.lift(DIALECT)
def lift_rnn(b: Builder, op: RNNView) -> tuple[Value, ...] | None:
    name = op.activations[0].lower() if op.activations else "tanh"
    if op.sequence_lens is not None or name not in ("tanh", "relu") or not _is_plain(op, (name,)):
        return None
    return _lifted(b, "nn.RNN", _RNN, op, (op.initial_h,), nonlinearity=name)
