"""Recurrent layers of PyTorch: gates are permuted to ONNX's order, and each layer is an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from graphport.formats.pytorch.rules.binding import emits, length, scalar_of
from graphport.formats.pytorch.rules.projected_lstm import projected_lstm, with_direction
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef, ShapeError, UnsupportedError
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from graphport.ops.definitions.reshape import Concat, Reshape, Split, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.operands import vector

Weights = Mapping[str, Value]
Answer = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _CellType:
    """A kind of layer: its operator definition, and the index of each of ONNX's gates in PyTorch's order."""

    op_def: OpDef
    order: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def gates(self) -> int:
        return len(self.order)


LSTM_KIND = _CellType(LSTM, (0, 3, 1, 2))
GRU_KIND = _CellType(GRU, (1, 0, 2), MappingProxyType({"linear_before_reset": 1}))


def rnn_kind(activation: str) -> _CellType:
    """Return the kind of RNN layers with this activation: `Tanh` or `Relu`."""
    return _CellType(RNN, (0,), MappingProxyType({"activations": (activation,)}))


def _reordered(b: Builder, weight: Value, kind: _CellType) -> Value:
    """Reorder the gate blocks of a weight to ONNX's order, and add a direction axis."""
    if kind.gates > 1:
        hidden = length(b.dims(weight), 0) // kind.gates
        blocks = b.results(Split, kind.gates, weight, [hidden] * kind.gates, axis=0)
        weight = b(Concat, *(blocks[place] for place in kind.order), axis=0)
    return b(Unsqueeze, weight, [0])


def _joined(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else b(Concat, *parts, axis=axis)


def _layer(
    b: Builder,
    kind: _CellType,
    x: Value,
    weights: Weights,
    layer: int,
    states: Sequence[Value | None],
    directions: int,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    """Emit one recurrent layer over sequences of `lengths` [batch]; return all outputs and the final states."""
    ends = [f"l{layer}", f"l{layer}_reverse"][:directions]
    names = [f"{name}_{end}" for end in ends for name in ("weight_ih", "weight_hh")]
    missing = [name for name in names if name not in weights]
    if missing:
        message = f"missing weights of the layer: {', '.join(missing)}"
        raise UnsupportedError(message)
    w = _joined(b, [_reordered(b, weights[f"weight_ih_{end}"], kind) for end in ends], 0)
    r = _joined(b, [_reordered(b, weights[f"weight_hh_{end}"], kind) for end in ends], 0)
    bias = None
    if f"bias_ih_{ends[0]}" in weights:
        rows = [[_reordered(b, weights[f"{name}_{end}"], kind) for name in ("bias_ih", "bias_hh")] for end in ends]
        bias = _joined(b, [b(Concat, *row, axis=1) for row in rows], 0)
    projections = [weights[name] for end in ends if (name := f"weight_hr_{end}") in weights]
    if projections:
        if lengths is not None:
            message = "unsupported projection of an LSTM over packed sequences"
            raise UnsupportedError(message)
        p = with_direction(b, projections)
        return projected_lstm(b, x, w, r, bias, p, *states, direction="bidirectional" if directions == 2 else None)
    attributes = dict(kind.attributes)
    if "activations" in attributes:
        attributes["activations"] = tuple(attributes["activations"]) * directions
    hidden = length(b.dims(r), 2)
    way = "bidirectional" if directions == 2 else None
    count = 3 if kind.op_def is LSTM else 2
    given = (x, w, r, bias, lengths, *states)
    return b.results(kind.op_def, count, *given, hidden_size=hidden, direction=way, **attributes)


def _stacked(
    b: Builder,
    kind: _CellType,
    input: Value,
    states: Sequence[Value | None],
    weights: Weights,
    options: Mapping[str, Any],
) -> Answer:
    """Stack layers."""
    directions = 2 if scalar_of(options.get("bidirectional", False)) else 1
    count = int(scalar_of(options.get("num_layers", 1)))
    if count < 1:
        message = f"num_layers is {count}, expected at least 1"
        raise ShapeError(message)
    is_first = bool(scalar_of(options.get("batch_first", False)))
    is_alone = len(b.dims(input)) == 2
    x = b(Unsqueeze, input, [1]) if is_alone else input
    x = b(Transpose, x, perm=(1, 0, 2)) if is_first and not is_alone else x
    given = [None if state is None or not is_alone else b(Unsqueeze, state, [1]) for state in states]
    given = [state if found is None else found for state, found in zip(states, given, strict=True)]
    ends: list[list[Value]] = [[] for _ in states]
    for layer in range(count):
        parts = [_slice_layer_state(b, state, layer, count, directions) for state in given]
        y, *last = _layer(b, kind, x, weights, layer, parts, directions, options.get("lengths"))
        for column, state in zip(ends, last, strict=True):
            column.append(state)
        # [time, direction, batch, hidden]
        x = b(Reshape, b(Transpose, y, perm=(0, 2, 1, 3)), [0, 0, -1])
    if is_alone:
        x = b(Squeeze, x, [1])
    elif is_first:
        x = b(Transpose, x, perm=(1, 0, 2))
    finals = [_joined(b, column, 0) for column in ends]
    return x, *(b(Squeeze, each, [1]) if is_alone else each for each in finals)


def _slice_layer_state(b: Builder, state: Value | None, layer: int, count: int, directions: int) -> Value | None:
    """Return the state of one layer from the stacked state of all layers."""
    if state is None or count == 1:
        return state
    return b.results(Split, count, state, [directions] * count, axis=0)[layer]


_OPTIONS = ("input_size", "hidden_size", "dropout", "proj_size")


@emits("nn.LSTM", ignores=_OPTIONS)
def lstm(
    b: Builder,
    input: Value,
    hx: Value | None = None,
    cx: Value | None = None,
    num_layers: Any = 1,
    batch_first: Any = False,
    bidirectional: Any = False,
    **weights: Value,
) -> Answer:
    options = {"num_layers": num_layers, "batch_first": batch_first, "bidirectional": bidirectional}
    return _stacked(b, LSTM_KIND, input, (hx, cx), weights, options)


@emits("nn.GRU", ignores=_OPTIONS)
def gru(
    b: Builder,
    input: Value,
    hx: Value | None = None,
    num_layers: Any = 1,
    batch_first: Any = False,
    bidirectional: Any = False,
    **weights: Value,
) -> Answer:
    options = {"num_layers": num_layers, "batch_first": batch_first, "bidirectional": bidirectional}
    return _stacked(b, GRU_KIND, input, (hx,), weights, options)


@emits("nn.RNN", ignores=_OPTIONS)
def rnn(
    b: Builder,
    input: Value,
    hx: Value | None = None,
    num_layers: Any = 1,
    batch_first: Any = False,
    bidirectional: Any = False,
    nonlinearity: str = "tanh",
    **weights: Value,
) -> Answer:
    options = {"num_layers": num_layers, "batch_first": batch_first, "bidirectional": bidirectional}
    names = {"tanh": "Tanh", "relu": "Relu"}
    if nonlinearity not in names:
        message = f"unsupported nonlinearity {nonlinearity}"
        raise UnsupportedError(message)
    kind = rnn_kind(names[nonlinearity])
    return _stacked(b, kind, input, (hx,), weights, options)


# ── functions, whose weights are a list ───────────────────────────────────────────────────────────────────────────────

_LIST = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _named(params: Sequence[Value], count: int, directions: int, *, has_biases: bool) -> Weights:
    """Map a flat list of weights to the parameter names of the module."""
    names = _LIST if has_biases else _LIST[:2]
    ends = [f"l{layer}{end}" for layer in range(count) for end in ("", "_reverse")[:directions]]
    if len(params) != len(names) * len(ends):
        message = f"{len(params)} weight tensors, expected {len(names) * len(ends)}"
        raise UnsupportedError(message)
    return dict(zip([f"{name}_{end}" for end in ends for name in names], params, strict=True))


def function(
    kind: _CellType,
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
    *,
    lengths: Value | None = None,
) -> Answer:
    if scalar_of(train) and scalar_of(dropout):
        message = "dropout between layers in training mode"
        raise UnsupportedError(message)
    directions, count = 2 if scalar_of(bidirectional) else 1, int(scalar_of(num_layers))
    weights = _named(params, count, directions, has_biases=bool(scalar_of(has_biases)))
    options = {
        "num_layers": num_layers,
        "batch_first": batch_first,
        "bidirectional": bidirectional,
        "lengths": lengths,
    }
    return _stacked(b, kind, input, hx if isinstance(hx, tuple) else (hx,), weights, options)


emits("aten::lstm", "torch.lstm")(partial(function, LSTM_KIND))
emits("aten::gru", "torch.gru")(partial(function, GRU_KIND))
for _name, _activation in (("tanh", "Tanh"), ("relu", "Relu")):
    emits(f"aten::rnn_{_name}", f"torch.rnn_{_name}")(partial(function, rnn_kind(_activation)))


# ── recurrent cells ───────────────────────────────────────────────────────────────────────────────────────────────────


def _cell(b: Builder, kind: _CellType, input: Value, states: Sequence[Value | None], weights: Weights) -> Answer:
    """Emit a recurrent cell as a layer on a sequence of length 1."""
    renamed = {f"{name}_l0": weight for name, weight in weights.items()}
    front = vector(b, [0])
    given = [None if state is None else b(Unsqueeze, state, front) for state in states]
    _, *last = _layer(b, kind, b(Unsqueeze, input, front), renamed, 0, given, 1)
    return tuple(b(Squeeze, state, front) for state in last)


@emits("nn.LSTMCell", ignores=_OPTIONS)
def lstm_cell(b: Builder, input: Value, hx: Value | None = None, cx: Value | None = None, **weights: Value) -> Answer:
    return _cell(b, LSTM_KIND, input, (hx, cx), weights)


@emits("nn.GRUCell", ignores=_OPTIONS)
def gru_cell(b: Builder, input: Value, hx: Value | None = None, **weights: Value) -> Answer:
    return _cell(b, GRU_KIND, input, (hx,), weights)


@emits("nn.RNNCell", ignores=_OPTIONS)
def rnn_cell(b: Builder, input: Value, hx: Value | None = None, nonlinearity: str = "tanh", **weights: Value) -> Answer:
    kind = rnn_kind("Relu" if nonlinearity == "relu" else "Tanh")
    return _cell(b, kind, input, (hx,), weights)
