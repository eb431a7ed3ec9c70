"""Recurrent layers in the words of PNNX: gates in PyTorch's order, a weight for each layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.dialects.torch_functions import DIALECT, called, dtype_of, weight_of
from graphport.ops.folded import Computed
from graphport.ops.pages.recurrent import GRU, LSTM, RNN

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
    b: Builder,
    word: str,
    order: Sequence[int],
    operands: Sequence[Value | None],
    states: Sequence[Value | None],
    options: dict[str, Any],
) -> tuple[Value, ...] | None:
    """A layer of one module; operands are x, weights, recurrent weights and biases."""
    x, w, r, bias = operands
    ways = _WAYS.get(options.pop("direction"), 0)
    hidden = options.pop("hidden_size")
    known = [None if value is None else weight_of(value) for value in (w, r, bias)]
    if x is None or known[0] is None or known[1] is None or (bias is not None and known[2] is None):
        return None
    time, batch, size = b.dims(x)
    if not (isinstance(time, int) and isinstance(batch, int) and isinstance(size, int)):
        return None
    hidden = hidden if hidden is not None else known[1].shape[2]
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
        **options,
        **weights,
    )
    apart = TensorFact(DType.FLOAT32, (time, batch, ways, hidden))
    y = called(b, "Tensor.reshape", apart, input=found[0], shape=(time, batch, ways, hidden))
    turned = TensorFact(DType.FLOAT32, (time, ways, batch, hidden))
    return called(b, "Tensor.permute", turned, input=y, dims=(0, 2, 1, 3)), *found[1:]


def _is_plain(options: dict[str, Any], activations: Sequence[str]) -> bool:
    """Whether nothing is said that PyTorch has no word for."""
    stated = options.pop("activations", None)
    usual = [name.lower() for name in activations]
    ways = _WAYS.get(options["direction"], 0)
    return (stated is None or [str(name).lower() for name in stated] == usual * ways) and not any(
        options.pop(name, None) for name in ("activation_alpha", "activation_beta", "clip", "input_forget", "layout")
    )


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {"direction": "forward", "hidden_size": None} | options


@LSTM.lift(DIALECT)
def lift_lstm(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    **attributes: Any,
) -> tuple[Value, ...] | None:
    options = _options(attributes)
    if sequence_lens is not None or p is not None or not _is_plain(options, ("Sigmoid", "Tanh", "Tanh")):
        return None
    return _lifted(b, "nn.LSTM", _LSTM, (x, w, r, bias), (initial_h, initial_c), options)


@GRU.lift(DIALECT)
def lift_gru(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    **attributes: Any,
) -> tuple[Value, ...] | None:
    options = _options(attributes)
    if sequence_lens is not None or not options.pop("linear_before_reset", 0):
        return None
    if not _is_plain(options, ("Sigmoid", "Tanh")):
        return None
    return _lifted(b, "nn.GRU", _GRU, (x, w, r, bias), (initial_h,), options)


@RNN.lift(DIALECT)
def lift_rnn(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    **attributes: Any,
) -> tuple[Value, ...] | None:
    options = _options(attributes)
    ways = _WAYS.get(options["direction"], 0)
    # ONNX has one activation for each direction, and two by default.
    names = [str(name).lower() for name in options.get("activations") or ("tanh",) * ways][:ways]
    if sequence_lens is not None or names not in (["tanh"] * ways, ["relu"] * ways) or not ways:
        return None
    options["activations"] = tuple(names)
    if not _is_plain(options, names[:1]):
        return None
    return _lifted(b, "nn.RNN", _RNN, (x, w, r, bias), (initial_h,), options | {"nonlinearity": names[0]})
