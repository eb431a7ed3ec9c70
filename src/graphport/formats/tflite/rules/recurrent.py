"""Recurrent operators of TFLite. Each import rule returns the final states after the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.formats.tflite.rules.binding import RELU, TANH, Operator, activated, import_rule
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Clip, Sigmoid, Tanh
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sqrt, Sub
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.recurrent import LSTM, RNN
from graphport.ops.definitions.reduction.reduce import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat, Split
from graphport.ops.lowering.operands import reshaped, sizes, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

    _Given = tuple[Value, Value, Value | None]

_MAX_UNROLLED_STEPS = 512
"""Maximum number of unrolled steps, for cells that no ONNX operator computes."""
_ACTIVATION_NAMES = {0: "Affine", RELU: "Relu", TANH: "Tanh"}
_EPSILON = 1e-8


def _activated(b: Builder, x: Value, activation: int) -> Value:
    return b(Tanh, x) if activation == TANH else activated(b, x, activation)


def _linear(b: Builder, x: Value, w: Value) -> Value:
    """Multiply `x` by transposed weights [units, inputs]."""
    return b(MatMul, x, transposed(b, w, (1, 0)))


# RNN cells


def _rnn_step(op: Operator, x: Value, h: Value, at: int) -> Value:
    b = op.b
    total = b(Add, b(Add, _linear(b, x, op[at]), _linear(b, h, op[at + 1])), op[at + 2])
    return _activated(b, total, int(op.option("fused_activation_function")))


@import_rule("RNN", has_states=True)
def rnn(op: Operator) -> tuple[Value, ...]:
    """RNN: one step. Operands: x, weights, recurrent weights, bias, state."""
    y = _rnn_step(op, op[0], op[4], 1)
    return y, y


class _Order(NamedTuple):
    """Memory layout (time-major or batch-major) and direction of a recurrent operator's time steps."""

    is_time_major: bool
    is_reverse: bool = False


def _order(op: Operator, *, default: bool = False) -> _Order:
    return _Order(bool(op.option("time_major", default=default)))


def _all_steps(
    b: Builder,
    op_def: OpDef,
    x: Value,
    weights: Sequence[Value | None],
    states: Sequence[Value],
    order: _Order,
    peepholes: Value | None = None,
    **stated: Any,
) -> list[Value]:
    """Return results [*, *, units] of an ONNX recurrent operator over all steps, and the final states."""
    front = vector(b, [0])
    steps = x if order.is_time_major else transposed(b, x, (1, 0, 2))
    begins = [b(Unsqueeze, state, front) for state in states]
    operands = [*weights, None, *begins, *([] if peepholes is None else [peepholes])]
    direction = "reverse" if order.is_reverse else None
    y, *ends = b.results(op_def, 1 + len(states), steps, *operands, direction=direction, **stated)
    y = b(Squeeze, y, [1])
    return [y if order.is_time_major else transposed(b, y, (1, 0, 2)), *(b(Squeeze, end, front) for end in ends)]


def _rnn_sequence(op: Operator, x: Value, at: int, order: _Order) -> list[Value]:
    """Run one direction whose operands begin at `at`: results [*, *, units], final state."""
    b, activation = op.b, int(op.option("fused_activation_function"))
    h = op[at + 3]
    if activation not in _ACTIVATION_NAMES:

        def step(x_t: Value, states: Sequence[Value]) -> list[Value]:
            return [_rnn_step(op, x_t, states[0], at)]

        return _unrolled(b, x, [h], step, order)
    front = vector(b, [0])
    (units,) = sizes(op.dims(at + 2, 1), "the units")
    weights = [b(Unsqueeze, op[at + k], front) for k in range(2)]
    bias = b(Unsqueeze, b(Concat, op[at + 2], b.like(op[at + 2], [0.0] * units), axis=0), front)
    attributes: dict[str, Any] = {"activation_alpha": (1.0,), "activation_beta": (0.0,)} if not activation else {}
    return _all_steps(
        b,
        RNN,
        x,
        [*weights, bias],
        [h],
        order,
        activations=(_ACTIVATION_NAMES[activation],),
        hidden_size=units,
        **attributes,
    )


@import_rule("UNIDIRECTIONAL_SEQUENCE_RNN", has_states=True)
def unidirectional_sequence_rnn(op: Operator) -> tuple[Value, ...]:
    """UNIDIRECTIONAL_SEQUENCE_RNN: x [batch, time, inputs], or time-major."""
    return tuple(_rnn_sequence(op, op[0], 1, _order(op)))


@import_rule("BIDIRECTIONAL_SEQUENCE_RNN", has_states=True)
def bidirectional_sequence_rnn(op: Operator) -> tuple[Value, ...]:
    """BIDIRECTIONAL_SEQUENCE_RNN: forward and backward results, concatenated if merged."""
    if any(op.has(index) for index in range(10, 12)):
        message = "unsupported weights of an auxiliary input"
        raise UnsupportedError(message)
    order = _order(op)
    forward = _rnn_sequence(op, op[0], 1, order)
    # Without auxiliary weights, the auxiliary input feeds the backward direction; kernels do so if time-major.
    x = op[9] if op.has(9) and order.is_time_major else op[0]
    return _merged(op, forward, _rnn_sequence(op, x, 5, order._replace(is_reverse=True)))


def _merged(op: Operator, forward: Sequence[Value], backward: Sequence[Value]) -> tuple[Value, ...]:
    states = (*forward[1:], *backward[1:])
    if op.option("merge_outputs", default=False):
        return (op.b(Concat, forward[0], backward[0], axis=-1), *states)
    return (forward[0], backward[0], *states)


def _unrolled(
    b: Builder,
    x: Value,
    states: Sequence[Value],
    step: Callable[[Value, Sequence[Value]], list[Value]],
    order: _Order,
) -> list[Value]:
    """Unroll all steps; return results and final states. The first state is the result of a step."""
    axis = 0 if order.is_time_major else 1
    (count,) = sizes(b.dims(x, at_least=2)[axis : axis + 1], "the number of steps")
    if not 0 < count <= _MAX_UNROLLED_STEPS:
        message = f"a sequence of length {count} cannot be unrolled; at most {_MAX_UNROLLED_STEPS} are supported"
        raise UnsupportedError(message)
    parts = b.results(Split, count, x, axis=axis, num_outputs=count) if count > 1 else (x,)
    found: list[Value] = []
    held = list(states)
    for part in parts[::-1] if order.is_reverse else parts:
        held = step(b(Squeeze, part, [axis]), held)
        found.append(b(Unsqueeze, held[0], [axis]))
    return [b(Concat, *(found[::-1] if order.is_reverse else found), axis=axis), *held]


# Long short-term memory


class _Cell(NamedTuple):
    """Operand indices of one LSTM direction by kind, in the gate order i, f, c, o; -1 if absent."""

    inputs: tuple[int, int, int, int]
    recurrent: tuple[int, int, int, int]
    peepholes: tuple[int, int, int]
    biases: tuple[int, int, int, int]
    projection: tuple[int, int]
    states: tuple[int, int]
    norms: tuple[int, int, int, int] = (-1, -1, -1, -1)
    auxiliary: tuple[int, int, int, int] = (-1, -1, -1, -1)


def _cell(at: int, states: tuple[int, int], norms: int = -1, auxiliary: int = -1) -> _Cell:
    def row(start: int) -> tuple[int, int, int, int]:
        return (start, start + 1, start + 2, start + 3) if start >= 0 else (-1, -1, -1, -1)

    peepholes = (at + 8, at + 9, at + 10)
    return _Cell(row(at), row(at + 4), peepholes, row(at + 11), (at + 15, at + 16), states, row(norms), row(auxiliary))


_ONE = _cell(1, (18, 19), 20)


def _has(op: Operator, index: int) -> bool:
    return index >= 0 and op.has(index)


def _clipped(b: Builder, x: Value, bound: float) -> Value:
    return b(Clip, x, -bound, bound) if bound > 0 else x


def _gate(
    op: Operator, cell: _Cell, number: int, given: tuple[Value, Value, Value | None], peep: Value | None
) -> Value:
    """Return the input of a gate's activation: weighted x and h, peephole term, normalization and bias."""
    b, (x, h, aux) = op.b, given
    total = b(Add, _linear(b, x, op[cell.inputs[number]]), _linear(b, h, op[cell.recurrent[number]]))
    if aux is not None and _has(op, cell.auxiliary[number]):
        total = b(Add, total, _linear(b, aux, op[cell.auxiliary[number]]))
    place = {0: 0, 1: 1, 3: 2}.get(number)
    if place is not None and peep is not None and _has(op, cell.peepholes[place]):
        total = b(Add, total, b(Mul, peep, op[cell.peepholes[place]]))
    if _has(op, cell.norms[number]):
        centered = b(Sub, total, b(ReduceMean, total, [-1]))
        variance = b(ReduceMean, b(Mul, centered, centered), [-1])
        total = b(Div, centered, b(Sqrt, b(Add, variance, _EPSILON)))
        total = b(Mul, total, op[cell.norms[number]])
    return b(Add, total, op[cell.biases[number]]) if _has(op, cell.biases[number]) else total


def _lstm_step(op: Operator, cell: _Cell, given: _Given, c: Value) -> list[Value]:
    """Return hidden and cell state after a step."""
    b, activation = op.b, int(op.option("fused_activation_function"))
    forget = b(Sigmoid, _gate(op, cell, 1, given, c))
    new = _activated(b, _gate(op, cell, 2, given, None), activation)
    share = b(Sigmoid, _gate(op, cell, 0, given, c)) if _has(op, cell.inputs[0]) else b(Sub, 1.0, forget)
    c = _clipped(b, b(Add, b(Mul, forget, c), b(Mul, share, new)), float(op.option("cell_clip", 0.0)))
    h = b(Mul, b(Sigmoid, _gate(op, cell, 3, given, c)), _activated(b, c, activation))
    if _has(op, cell.projection[0]):
        h = _linear(b, h, op[cell.projection[0]])
        h = b(Add, h, op[cell.projection[1]]) if _has(op, cell.projection[1]) else h
        h = _clipped(b, h, float(op.option("proj_clip", 0.0)))
    return [h, c]


def _is_onnx_lstm(op: Operator, cell: _Cell) -> bool:
    """Whether ONNX's LSTM computes this cell."""
    odd = any(_has(op, index) for index in (*cell.norms, *cell.auxiliary, *cell.projection))
    whole = all(_has(op, index) for index in (*cell.inputs, *cell.recurrent))
    is_clipped = float(op.option("cell_clip", 0.0)) > 0
    peepholes = [_has(op, index) for index in cell.peepholes]
    return (
        whole
        and not odd
        and not is_clipped
        and int(op.option("fused_activation_function")) in _ACTIVATION_NAMES
        and (all(peepholes) or not any(peepholes))
    )


def _joined(op: Operator, indices: Sequence[int]) -> Value:
    """Concatenate operands i, f, c, o in ONNX's order and add the direction axis."""
    i, f, c, o = indices
    return op.b(Unsqueeze, op.b(Concat, op[i], op[o], op[f], op[c], axis=0), [0])


def _lstm_sequence(op: Operator, cell: _Cell, x: Value, aux: Value | None, order: _Order) -> list[Value]:
    """Return results of all steps and the final hidden and cell state."""
    b, h, c = op.b, op[cell.states[0]], op[cell.states[1]]
    if not _is_onnx_lstm(op, cell):
        if aux is not None and any(_has(op, index) for index in cell.auxiliary):
            message = "unsupported auxiliary input"
            raise UnsupportedError(message)

        def step(x_t: Value, states: Sequence[Value]) -> list[Value]:
            return _lstm_step(op, cell, (x_t, states[0], None), states[1])

        return _unrolled(b, x, [h, c], step, order)
    first = vector(b, [0])
    (units,) = sizes(op.dims(cell.recurrent[1], 2)[:1], "the units")
    activation = _ACTIVATION_NAMES[int(op.option("fused_activation_function"))]
    bias = None
    if all(_has(op, index) for index in cell.biases):
        i, f, g, o = cell.biases
        bias = b(Concat, op[i], op[o], op[f], op[g], b.like(op[i], [0.0] * (4 * units)), axis=0)
        bias = b(Unsqueeze, bias, first)
    peepholes = None
    if _has(op, cell.peepholes[0]):
        i, f, o = cell.peepholes
        peepholes = b(Unsqueeze, b(Concat, op[i], op[o], op[f], axis=0), first)
    attributes: dict[str, Any] = (
        {"activation_alpha": (0.0, 1.0, 1.0), "activation_beta": (0.0,) * 3} if activation == "Affine" else {}
    )
    weights = [_joined(op, cell.inputs), _joined(op, cell.recurrent), bias]
    names = ("Sigmoid", activation, activation)
    return _all_steps(b, LSTM, x, weights, [h, c], order, peepholes, activations=names, hidden_size=units, **attributes)


_BASIC = 1


@import_rule("LSTM", has_states=True)
def lstm(op: Operator) -> tuple[Value, ...]:
    """LSTM: one step; or the basic kernel with one weight matrix and states as operands and results."""
    if int(op.option("kernel_type")) == _BASIC:
        return _basic(op)
    h, c = _lstm_step(op, _ONE, (op[0], op[18], None), op[19])
    return h, h, c


def _basic(op: Operator) -> tuple[Value, ...]:
    """Basic kernel. Operands: x, state, weights [4 units, inputs + units] in order i, c, f, o, bias, cell state."""
    b, activation = op.b, int(op.option("fused_activation_function"))
    joined = b(Concat, op[0], op[1], axis=1)
    gates = b(Add, _linear(b, joined, op[2]), op[3])
    share, new, forget, out = b.results(Split, 4, gates, axis=1, num_outputs=4)
    kept = b(Mul, b(Sigmoid, forget), op[4])
    c = b(Add, kept, b(Mul, b(Sigmoid, share), _activated(b, new, activation)))
    h = b(Mul, b(Sigmoid, out), _activated(b, c, activation))
    return h, c, joined, gates


@import_rule("UNIDIRECTIONAL_SEQUENCE_LSTM", has_states=True)
def unidirectional_sequence_lstm(op: Operator) -> tuple[Value, ...]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: x [batch, time, inputs], or time-major."""
    if op.option("diagonal_recurrent_tensors", default=False):
        message = "unsupported option diagonal_recurrent_tensors"
        raise UnsupportedError(message)
    return tuple(_lstm_sequence(op, _ONE, op[0], None, _order(op)))


@import_rule("BIDIRECTIONAL_SEQUENCE_LSTM", has_states=True)
def bidirectional_sequence_lstm(op: Operator) -> tuple[Value, ...]:
    """BIDIRECTIONAL_SEQUENCE_LSTM: forward and backward results, concatenated if merged."""
    order = _order(op, default=True)
    cells = _cell(1, (35, 36), auxiliary=40), _cell(18, (37, 38), auxiliary=44)
    aux = op[39] if op.has(39) else None
    has_weights = any(op.has(index) for index in range(40, 48))
    # Without auxiliary weights, the auxiliary input feeds the backward direction.
    other = aux if aux is not None and not has_weights else op[0]
    beside = aux if has_weights else None
    forward = _lstm_sequence(op, cells[0], op[0], beside, order)
    return _merged(op, forward, _lstm_sequence(op, cells[1], other, beside, order._replace(is_reverse=True)))


@import_rule("SVDF", has_states=True)
def svdf(op: Operator) -> tuple[Value, ...]:
    """SVDF: features of x in a memory of time steps, weighted over time and summed over ranks.

    Operands: x, weights of features [units * rank, inputs] and of time [units * rank, time], bias, memory.
    """
    b, rank = op.b, max(1, int(op.option("rank", 1)))
    filters, time = sizes(op.dims(2, 2), "the weights of time")
    (batch,) = sizes(op.dims(4, at_least=1)[:1], "the batch")
    feature = b(Unsqueeze, _linear(b, op[0], op[1]), [2])
    memory = reshaped(b, op[4], (batch, filters, time))
    memory = b(Slice, memory, [1], [time], [2]) if time > 1 else None
    memory = feature if memory is None else b(Concat, memory, feature, axis=2)
    weighted = b(ReduceSum, b(Mul, memory, op[2]), [2], keepdims=0)
    y = b(ReduceSum, reshaped(b, weighted, (batch, filters // rank, rank)), [2], keepdims=0)
    if op.has(3):
        y = b(Add, y, op[3])
    if op.quantization(0) is None:
        # The integer kernel ignores the activation.
        y = _activated(b, y, int(op.option("fused_activation_function")))
    return y, reshaped(b, memory, (batch, filters * time))
