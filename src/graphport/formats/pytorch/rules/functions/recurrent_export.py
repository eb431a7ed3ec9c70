"""Export rules of recurrent layers to PNNX: gates in PyTorch's order, a weight per layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.formats.pytorch.rules.binding import DIALECT, called, weight_of
from graphport.formats.pytorch.rules.functions.computed_lengths import computed_list
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed
from graphport.ops.decompositions.recurrent_in_steps import RESETS_STATE, Recurrent, in_steps, unsupported_parts
from graphport.ops.definitions.recurrent.sequences import DIRECTIONS
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

_LSTM, _GRU, _RNN = (0, 2, 3, 1), (1, 0, 2), (0,)
"""Index of each of PyTorch's gates in ONNX's order."""


def _slice_direction(storage: Storage, way: int, order: Sequence[int], half: int | None = None) -> Storage:
    """Return the weights of one direction with reordered gates; for a bias, its input or recurrent half."""
    count = len(order)
    length = storage.shape[1] // (2 if half is not None else 1)

    def moved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        own = array[way] if half is None else array[way][half * length : (half + 1) * length]
        blocks = own.reshape(count, length // count, *own.shape[1:])
        return blocks[list(order)].reshape(own.shape)

    return Computed(moved, (storage,), storage.dtype, (length, *storage.shape[2:]))


def _export_recurrent(
    b: Builder, op_type: str, order: Sequence[int], op: Recurrent, states: Sequence[Value | None], **more: Any
) -> tuple[Value, ...]:
    """Export a layer as a module; unsupported features are unrolled."""
    known = [None if value is None else weight_of(value) for value in (op.w, op.r, op.b)]
    w, r, bias = known
    size = b.dims(op.x, at_least=3)[2]
    are_given = [state is not None for state in states]
    if w is None or r is None or (op.b is not None and bias is None) or not isinstance(size, int):
        return in_steps(b, op, "computed weights")
    if op.layout or any(are_given) != all(are_given):
        return in_steps(b, op, "batch_first layout" if op.layout else "only one of two initial states")
    if dtype_of(op.x) is not DType.FLOAT32:
        return in_steps(b, op, "weights other than float32")
    ways = len(DIRECTIONS[op.direction])
    hidden = r.shape[2] if op.hidden_size is None else op.hidden_size
    x = _in_module_order(b, op, op.x)
    time, batch, _ = b.dims(x, 3)
    lengths = computed_list(b, (time, batch, ways, hidden), x)
    if lengths is None:
        return in_steps(b, op, "sequence lengths that are not expressions of input sizes")
    weights: dict[str, Any] = {}
    for way, end in enumerate(("", "_reverse")[:ways]):
        weights[f"@weight_ih_l0{end}"] = _slice_direction(w, way, order)
        weights[f"@weight_hh_l0{end}"] = _slice_direction(r, way, order)
        if bias is not None:
            weights[f"@bias_ih_l0{end}"] = _slice_direction(bias, way, order, 0)
            weights[f"@bias_hh_l0{end}"] = _slice_direction(bias, way, order, 1)
    given = [state for state in states if state is not None]
    last = TensorFact(DType.FLOAT32, (ways, batch, hidden))
    found = b.emit(
        op_type,
        x,
        *given,
        facts=[TensorFact(DType.FLOAT32, (time, batch, ways * hidden)), *[last] * len(states)],
        input_size=size,
        hidden_size=hidden,
        num_layers=1,
        bias=bias is not None,
        batch_first=False,
        bidirectional=ways == 2,
        **more,
        **weights,
    )
    split_fact = TensorFact(DType.FLOAT32, (time, batch, ways, hidden))
    y = called(b, "Tensor.reshape", split_fact, input=_in_module_order(b, op, found[0]), shape=lengths)
    permuted_fact = TensorFact(DType.FLOAT32, (time, ways, batch, hidden))
    return called(b, "Tensor.permute", permuted_fact, input=y, dims=(0, 2, 1, 3)), *found[1:]


def _in_module_order(b: Builder, op: Recurrent, x: Value) -> Value:
    """Return a sequence in the module's order, reversed if the direction is."""
    return called(b, "torch.flip", x.fact, input=x, dims=(0,)) if op.direction == "reverse" else x


@LSTMView.export_rule(DIALECT)
def export_lstm(b: Builder, op: LSTMView) -> tuple[Value, ...]:
    if reason := unsupported_parts(op, ("Sigmoid", "Tanh", "Tanh")):
        return in_steps(b, op, reason)
    return _export_recurrent(b, "nn.LSTM", _LSTM, op, (op.initial_h, op.initial_c))


@GRUView.export_rule(DIALECT)
def export_gru(b: Builder, op: GRUView) -> tuple[Value, ...]:
    if reason := unsupported_parts(op, ("Sigmoid", "Tanh")) or ("" if op.linear_before_reset else RESETS_STATE):
        return in_steps(b, op, reason)
    return _export_recurrent(b, "nn.GRU", _GRU, op, (op.initial_h,))


@RNNView.export_rule(DIALECT)
def export_rnn(b: Builder, op: RNNView) -> tuple[Value, ...]:
    name = "relu" if op.activations and op.activations[0].lower() == "relu" else "tanh"
    if reason := unsupported_parts(op, (name,)):
        return in_steps(b, op, reason)
    return _export_recurrent(b, "nn.RNN", _RNN, op, (op.initial_h,), nonlinearity=name)
