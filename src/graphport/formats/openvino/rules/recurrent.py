"""Recurrent layers in OpenVINO: batch first, gates in the order f i c o, one bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.emitting import emitted_gather, emitted_transpose
from graphport.formats.openvino.rules.recurrent_lengths import over_lengths
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.recurrent_in_steps import gru_in_steps, lstm_in_steps, rnn_in_steps
from graphport.ops.definitions.arithmetic import Cast, Mul
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from graphport.ops.definitions.reshape import Concat, Split, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.extents import cut
from graphport.ops.lowering.operands import index, integers, vector
from graphport.ops.view import Attributes
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

if TYPE_CHECKING:
    from graphport.ops.declare import OpDef


Exported = tuple[Value | None, ...] | None
Names = tuple[str, ...]
Numbers = tuple[float, ...]

_ACTIVATION_NAMES = {
    name.lower(): name for name in ("Sigmoid", "Tanh", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu")
} | {name.lower(): name for name in ("ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus")}
"""OpenVINO's activation names in ONNX's spelling."""
_SHARED = frozenset({"Sigmoid", "Tanh", "Relu"})
"""Activations that OpenVINO's recurrent layers compute."""
_GATES, _ONNX_GATES = "fico", "iofc"
_FARTHEST = 8
"""So many operators are looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Attributes):
    """Attributes of all recurrent op types; without `activations` the defaults of the cell apply."""

    hidden_size: int
    activations: Names = ()
    activations_alpha: Numbers = ()
    activations_beta: Numbers = ()
    clip: float = 0.0

    def attributes(self, usual: Names, direction: str = "forward") -> dict[str, Any]:
        """Return the ONNX attributes; activations are repeated for each direction, `usual` are the defaults."""
        ways, names = 2 if direction == "bidirectional" else 1, self.activations or usual
        unknown = [name for name in names if name.lower() not in _ACTIVATION_NAMES]
        if unknown:
            message = f"ONNX has no activation {', '.join(unknown)}"
            raise UnsupportedError(message)
        return {
            "hidden_size": self.hidden_size,
            "direction": direction,
            "activations": tuple(_ACTIVATION_NAMES[name.lower()] for name in names) * ways,
            "activation_alpha": self.activations_alpha * ways or None,
            "activation_beta": self.activations_beta * ways or None,
            "clip": self.clip or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(Cell):
    """Attributes of recurrent layers over sequences."""

    direction: str = "forward"


_LSTM = ("sigmoid", "tanh", "tanh")
_GRU = ("sigmoid", "tanh")
_RNN = ("tanh",)
"""Default activations of the cells."""


Weights = tuple[Value, Value, Value | None]
"""Input weights, recurrent weights and bias in ONNX's layout."""


@Layer.lower("openvino", "opset5.LSTMSequence")
def lstm_sequence(
    b: Builder, op: Layer, x: Value, h: Value, c: Value, lengths: Value, w: Value, r: Value, bias: Value
) -> tuple[Value, ...]:
    """LSTM over sequences.  Shapes: x [batch, length, n] → [batch, directions, length, hidden], two states."""
    options = op.attributes(_LSTM, op.direction)
    return _over_sequence(b, LSTM, x, (h, c), lengths, _of_lstm(b, w, r, bias), options)


@Layer.lower("openvino", "opset5.GRUSequence")
def gru_sequence(
    b: Builder,
    op: Layer,
    x: Value,
    h: Value,
    lengths: Value,
    w: Value,
    r: Value,
    bias: Value,
    *,
    linear_before_reset: bool = False,
) -> tuple[Value, ...]:
    """GRU over sequences.  Shapes: x [batch, length, n] → [batch, directions, length, hidden], the state."""
    options = op.attributes(_GRU, op.direction) | {"linear_before_reset": int(linear_before_reset)}
    both = _reset_biases(b, bias, op.hidden_size) if linear_before_reset else _both_biases(b, bias)
    return _over_sequence(b, GRU, x, (h,), lengths, (w, r, both), options)


@Layer.lower("openvino", "opset5.RNNSequence")
def rnn_sequence(
    b: Builder, op: Layer, x: Value, h: Value, lengths: Value, w: Value, r: Value, bias: Value
) -> tuple[Value, ...]:
    """Simple RNN over sequences.  Shapes: x [batch, length, n] → [batch, directions, length, hidden], the state."""
    options = op.attributes(_RNN, op.direction)
    return _over_sequence(b, RNN, x, (h,), lengths, (w, r, _both_biases(b, bias)), options)


def _over_sequence(
    b: Builder,
    op_def: OpDef,
    x: Value,
    states: tuple[Value, ...],
    lengths: Value,
    weights: Weights,
    options: dict[str, Any],
) -> tuple[Value, ...]:
    """Emit an ONNX recurrent layer for operands whose first axis is the batch; transpose the results back."""
    x_, *states_ = (b(Transpose, each, perm=(1, 0, 2)) for each in (x, *states))
    emit_layer = b.results(op_def, 1 + len(states), x_, *weights, _lengths(b, lengths, x), *states_, **options)
    y = b(Transpose, emit_layer[0], perm=(2, 1, 0, 3))
    return y, *(b(Transpose, each, perm=(1, 0, 2)) for each in emit_layer[1:])


@Cell.lower("openvino", "opset4.LSTMCell")
def lstm_cell(
    b: Builder, op: Cell, x: Value, h: Value, c: Value, w: Value, r: Value, bias: Value | None = None
) -> tuple[Value, ...]:
    """One LSTM step.  Shapes: x [batch, n], states [batch, hidden] → two states."""
    return _step(b, LSTM, x, (h, c), _of_lstm(b, *_add_direction_axis(b, w, r, bias)), op.attributes(_LSTM))


@Cell.lower("openvino", "opset1.LSTMCell")
def old_lstm_cell(
    b: Builder,
    op: Cell,
    x: Value,
    h: Value,
    c: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    peepholes: Value | None = None,
    *,
    weights_format: str = "ifco",
    input_forget: bool = False,
) -> tuple[Value, ...]:
    """LSTMCell-1: OpenVINO ignores its peepholes and additional attributes."""
    del peepholes, weights_format, input_forget
    return lstm_cell(b, op, x, h, c, w, r, bias)


@Cell.lower("openvino", "opset3.GRUCell")
def gru_cell(
    b: Builder,
    op: Cell,
    x: Value,
    h: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    *,
    linear_before_reset: bool = False,
) -> Value:
    """One GRU step.  Shapes: x [batch, n], h [batch, hidden] → [batch, hidden]."""
    options = op.attributes(_GRU) | {"linear_before_reset": int(linear_before_reset)}
    w, r, both = _add_direction_axis(b, w, r, bias)
    if both is not None:
        both = _reset_biases(b, both, op.hidden_size) if linear_before_reset else _both_biases(b, both)
    return _step(b, GRU, x, (h,), (w, r, both), options)[0]


@Cell.lower("openvino", "opset1.RNNCell")
def rnn_cell(b: Builder, op: Cell, x: Value, h: Value, w: Value, r: Value, bias: Value | None = None) -> Value:
    """One step of a simple RNN.  Shapes: x [batch, n], h [batch, hidden] → [batch, hidden]."""
    w, r, one = _add_direction_axis(b, w, r, bias)
    return _step(b, RNN, x, (h,), (w, r, None if one is None else _both_biases(b, one)), op.attributes(_RNN))[0]


def _step(
    b: Builder, op_def: OpDef, x: Value, states: tuple[Value, ...], weights: Weights, options: dict[str, Any]
) -> tuple[Value, ...]:
    """Return the states after one step, emitted as an ONNX layer over a sequence of length 1."""
    front = vector(b, [0])
    x, *given = (b(Unsqueeze, each, front) for each in (x, *states))
    emit_layer = b.results(op_def, 1 + len(states), x, *weights, None, *given, **options)
    return tuple(b(Squeeze, each, front) for each in emit_layer[1:])


# Weights


def _add_direction_axis(b: Builder, w: Value, r: Value, bias: Value | None) -> Weights:
    """Weights and a bias with an axis of directions."""
    front = vector(b, [0])
    return b(Unsqueeze, w, front), b(Unsqueeze, r, front), None if bias is None else b(Unsqueeze, bias, front)


def _of_lstm(b: Builder, w: Value, r: Value, bias: Value | None) -> Weights:
    """Weights and biases with their gates in the order of ONNX."""
    w, r = (_permute_gates(b, each) for each in (w, r))
    return w, r, None if bias is None else _both_biases(b, _permute_gates(b, bias))


def _permute_gates(b: Builder, x: Value) -> Value:
    """The blocks of gates along axis 1 in the order of ONNX."""
    parts = b.results(Split, len(_GATES), x, axis=1, num_outputs=len(_GATES))
    return b(Concat, *(parts[_GATES.index(gate)] for gate in _ONNX_GATES), axis=1)


def _both_biases(b: Builder, bias: Value) -> Value:
    """Append a recurrent bias of 0, which ONNX requires, to the input bias."""
    return b(Concat, bias, b(Mul, bias, 0), axis=1)


def _reset_biases(b: Builder, bias: Value, hidden: int) -> Value:
    """With the reset gate after the product, the last block is the recurrent bias of the candidate.

    [z, r, h, s] becomes [z, r, h, 0, 0, s].
    """
    ends = (0, 3 * hidden), (0, 2 * hidden), (3 * hidden, 4 * hidden)
    entry, gates, state = (cut(b, bias, start, stop, 1) for start, stop in ends)
    return b(Concat, entry, b(Mul, gates, 0), state, axis=1)


# Lengths


def _lengths(b: Builder, lengths: Value, x: Value) -> Value | None:
    """Return the sequence lengths as int32; `None` if all sequences have the full length."""
    b.looks_around = True
    fact, whole = lengths.fact, x.fact
    if isinstance(whole, TensorFact) and whole.shape and whole.shape[1] == _only(lengths):
        return None
    is_int32 = isinstance(fact, TensorFact) and fact.dtype is DType.INT32
    return lengths if is_int32 else b(Cast, lengths, to=DType.INT32)


def _only(value: Value) -> Dim | None:
    """Return the value of all elements of an integer tensor if they are certainly equal, also for an open batch."""
    for _ in range(_FARTHEST):
        elements = value.fact.elements if isinstance(value.fact, TensorFact) else None
        if elements:
            return elements[0] if all(element == elements[0] for element in elements) else None
        maker = value.producer
        op_def = None if maker is None else registry.op_defs().get(maker.op)
        if maker is None or op_def is None or op_def.signature.variadic is not None:
            return None
        # Selecting among equal elements gives that element.
        if not op_def.picks and maker.op != "Cast":
            return None
        value = maker.operands[0]
    return None


# Export rules


@LSTMView.export_rule("openvino")
def export_lstm(b: Builder, op: LSTMView) -> Exported:
    """One LSTMSequence; unrolled with peepholes, coupled gates or activations that it lacks."""
    layer = _Layer(b, op, ("Sigmoid", "Tanh", "Tanh"))
    if op.p is not None or op.input_forget or not layer.has_native_activations():
        return lstm_in_steps(b, op)
    weights = [_emitted_gates(b, each) for each in (op.w, op.r)]
    both = _emitted_gates(b, layer.bias(gates=4))
    states = [layer.state(each) for each in (op.initial_h, op.initial_c)]
    operands = (layer.x(), *states, layer.lengths(), *weights, both)
    return layer.results(layer.emit_layer("opset5.LSTMSequence", *operands))


@GRUView.export_rule("openvino")
def export_gru(b: Builder, op: GRUView) -> Exported:
    layer = _Layer(b, op, ("Sigmoid", "Tanh"))
    if not layer.has_native_activations():
        return gru_in_steps(b, op)
    both = layer.reset_bias() if op.linear_before_reset else layer.bias(gates=3)
    operands = (layer.x(), layer.state(op.initial_h), layer.lengths(), op.w, op.r, both)
    return layer.results(
        layer.emit_layer("opset5.GRUSequence", *operands, linear_before_reset=bool(op.linear_before_reset))
    )


@RNNView.export_rule("openvino")
def export_rnn(b: Builder, op: RNNView) -> Exported:
    layer = _Layer(b, op, ("Tanh",))
    if not layer.has_native_activations():
        return rnn_in_steps(b, op)
    operands = (layer.x(), layer.state(op.initial_h), layer.lengths(), op.w, op.r, layer.bias(gates=1))
    return layer.results(layer.emit_layer("opset5.RNNSequence", *operands))


class _Layer:
    """A layer of ONNX on its way to OpenVINO."""

    def __init__(self, b: Builder, op: GRUView | LSTMView | RNNView, default: Names) -> None:
        self._b = b
        self._op = op
        self._x = op.x
        self._is_batch_first = bool(op.layout)
        self._direction = op.direction.lower()
        self._ways = 2 if self._direction == "bidirectional" else 1
        self._default = default
        self._hidden = op.hidden_size or _static_dim(b, op.r, 2)

    def has_native_activations(self) -> bool:
        """Whether OpenVINO has the activations, and the directions have the same."""
        names = self._stated_activations()
        is_same = names == names[: len(self._default)] * self._ways
        return is_same and all(_ACTIVATION_NAMES.get(name) in _SHARED for name in names)

    def _stated_activations(self) -> Names:
        stated = (self._op.activations or self._default * self._ways)[: len(self._default) * self._ways]
        return tuple(name.lower() for name in stated)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the operation."""
        return {
            "hidden_size": self._hidden,
            "direction": self._direction,
            "activations": self._stated_activations()[: len(self._default)],
            "activations_alpha": (),
            "activations_beta": (),
            "clip": self._op.clip or 0.0,
        }

    def x(self) -> Value:
        """The sequences, batch first."""
        return self._x if self._is_batch_first else self._exchanged(self._x)

    def _exchanged(self, x: Value) -> Value:
        # OpenVINO 2026.4.1 computes two layers wrongly that share a pair of Transposes.
        self._b.looks_around = True
        node = x.producer
        if node is not None and node.op_type in {"Transpose", "opset1.Transpose"}:
            perm = integers(node.operands[1]) if len(node.operands) > 1 else node.attributes.get("perm")
            if isinstance(perm, tuple | list) and tuple(perm) == (1, 0, 2):
                return node.operands[0]
        return emitted_transpose(self._b, x, [1, 0, 2])

    def state(self, given: Value | None) -> Value:
        """Return an initial state, batch first; zeros by default."""
        if given is not None:
            return given if self._is_batch_first else self._exchanged(given)
        batch = self._extent(0 if self._is_batch_first else 1)
        if isinstance(batch, int):
            return self._b.like(self._x, np.zeros((batch, self._ways, self._hidden)))
        ends = [vector(self._b, [n]) for n in (self._ways, self._hidden)]
        shape = emit(self._b, "opset1.Concat", batch, *ends, axis=0)
        return emit(self._b, "opset3.Broadcast", self._b.like(self._x, 0.0), shape)

    def _extent(self, axis: int) -> int | Value:
        """Return a dim of the sequences, or a tensor of one element if it is dynamic."""
        fact = self._x.fact
        dim = fact.shape[axis] if isinstance(fact, TensorFact) and fact.shape is not None else None
        if isinstance(dim, int):
            return dim
        return emitted_gather(self._b, emit(self._b, "opset3.ShapeOf", self._x), [axis])

    def lengths(self) -> Value:
        """Return the sequence lengths; by default all have the full length."""
        return self._full_lengths() if self._op.sequence_lens is None else self._op.sequence_lens

    def _full_lengths(self) -> Value:
        batch, steps = (self._extent(axis) for axis in ((0, 1) if self._is_batch_first else (1, 0)))
        if isinstance(batch, int) and isinstance(steps, int):
            if steps > np.iinfo(np.int32).max:
                message = f"the sequence length {steps} exceeds int32"
                raise UnsupportedError(message)
            return self._b.constant(np.full(reserve(batch), steps, np.int32))
        count, length = (vector(self._b, [n]) if isinstance(n, int) else n for n in (batch, steps))
        whole = emit(self._b, "opset3.Broadcast", length, count)
        return emit(self._b, "opset1.Convert", whole, destination_type=DType.INT32)

    def emit_layer(self, op_type: str, *operands: Value, **more: Any) -> tuple[Value, ...]:
        """Emit the layer with sequences, initial states, lengths, weights and a bias."""
        attributes = {**self.attributes(), **more}
        is_open = not all(isinstance(dim, int) for dim in self._b.dims(operands[0])[:2])
        if self._op.sequence_lens is not None and is_open and not (self._have_full_length() or self._reads_cell()):
            return over_lengths(self._b, op_type, operands, attributes, self._full_lengths())
        return emits(self._b, op_type, len(operands) - 4, *operands, **attributes)

    def _have_full_length(self) -> bool:
        """Whether all sequences are known to have the full length."""
        given = self._op.sequence_lens
        return given is not None and self._b.dims(self._x)[self._is_batch_first] == _only(given)

    def _reads_cell(self) -> bool:
        """Whether the last cell state is used; no other result contains it."""
        self._b.looks_around = True
        outputs = () if self._b.before is None else self._b.before.outputs
        return any(value is not None and value.uses for value in outputs[2:])

    def bias(self, *, gates: int) -> Value:
        """The sum of both biases."""
        given, width = self._op.b, gates * self._hidden
        if given is None:
            return self._b.like(self._x, np.zeros((self._ways, width)))
        return emit(self._b, "opset1.Add", *_halves(self._b, given, (width, width)))

    def reset_bias(self) -> Value:
        """With the reset gate after the product, both biases of the candidate are kept."""
        given, h = self._op.b, self._hidden
        if given is None:
            return self._b.like(self._x, np.zeros((self._ways, 4 * h)))
        entry, entry_h, state, state_h = _halves(self._b, given, (2 * h, h, 2 * h, h))
        return emit(self._b, "opset1.Concat", emit(self._b, "opset1.Add", entry, state), entry_h, state_h, axis=1)

    def results(self, emit_layer: tuple[Value, ...]) -> tuple[Value, ...]:
        """Results in the layout of ONNX."""
        if self._is_batch_first:
            return emitted_transpose(self._b, emit_layer[0], [0, 2, 1, 3]), *emit_layer[1:]
        return emitted_transpose(self._b, emit_layer[0], [2, 1, 0, 3]), *map(self._exchanged, emit_layer[1:])


def _static_dim(b: Builder, x: Value, axis: int) -> int:
    dim = b.dims(x)[axis]
    if isinstance(dim, int):
        return dim
    message = f"dim {axis} of {x.name} is {dim}, but the layer needs a static size"
    raise UnsupportedError(message)


def _halves(b: Builder, x: Value, widths: tuple[int, ...]) -> tuple[Value, ...]:
    axis, lengths = index(b, 1), vector(b, widths)
    return emits(b, "opset1.VariadicSplit", len(widths), x, axis, lengths)


def _emitted_gates(b: Builder, x: Value) -> Value:
    """The blocks of gates along axis 1 in the order of OpenVINO."""
    parts = emits(b, "opset1.Split", len(_GATES), x, index(b, 1), num_splits=len(_GATES))
    return emit(b, "opset1.Concat", *(parts[_ONNX_GATES.index(gate)] for gate in _GATES), axis=1)
