"""Recurrent layers unrolled over time, or as a loop for dialects with loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed, folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import (
    Clip,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
)
from graphport.ops.definitions.arithmetic import Add, Mul, Sub
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.control.loops import Scan
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.recurrent.sequences import DIRECTIONS
from graphport.ops.definitions.reshape import Concat, Expand, Identity, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.operands import dtype_of, integers, sizes, slice_axis, transposed
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.declare import OpDef

Array: TypeAlias = "np.ndarray[Any, Any]"
State: TypeAlias = "tuple[Value, ...]"
Step: TypeAlias = "Callable[[Value, State], State]"
Function: TypeAlias = "Callable[[Builder, Value], Value]"

MAX_UNROLLED_STEPS = 512
"""The maximum number of unrolled steps; each step needs about twenty nodes."""


_SCANNING = frozenset(["tract"])
"""The dialects with a loop operator."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A recurrent layer with `gates` gates over `steps` steps: operands and activations."""

    b: Builder
    x: Value
    weights: tuple[Value, Value, Value | None]
    initial: tuple[Value | None, ...]
    gates: int
    functions: tuple[Function, ...]
    clip: float | None
    direction: str
    layout: int
    lengths: tuple[int, ...] | None = None
    """Lengths of the sequences; `None` if all are complete."""
    round_state: Function | None = None
    """Function that quantizes the hidden state before matrix products."""

    def rounded(self, state: Value) -> Value:
        """Apply `round_state` to the hidden state, if it is set."""
        return state if self.round_state is None else self.round_state(self.b, state)

    def gated(self, value: Value) -> list[Value]:
        """Split [N, gates * hidden] into the parts of each gate."""
        hidden = self.hidden_size
        (width,) = sizes(self.b.dims(value)[-1:])
        return [slice_axis(self.b, value, 1, start, start + hidden) for start in range(0, width, hidden)]

    def activations(self, way: int, count: int) -> list[Callable[[Value], Value]]:
        """Return the `count` activations of direction `way` (0 or 1)."""
        return [partial(function, self.b) for function in self.functions[count * way : count * (way + 1)]]

    @property
    def hidden_size(self) -> int:
        return sizes(self.b.dims(self.weights[1])[2:], "the hidden units")[0]

    def clipped(self, value: Value) -> Value:
        if self.clip is None:
            return value
        return self.b(Clip, value, self.b.like(value, -self.clip), self.b.like(value, self.clip))

    def rows(self, operand: Value, way: int, start: int, stop: int, *, is_transposed: bool = False) -> Value:
        """Slice rows of an operand for a direction; `is_transposed` prepares it for multiplication from the right."""
        b, storage = self.b, folded(operand)
        if storage is not None:
            change = partial(_rows, way, start, stop, is_transposed)
            shape = (stop - start, *storage.shape[2:])
            wanted = shape[::-1] if is_transposed else shape
            return b.constant(Computed(change, (storage,), storage.dtype, wanted), name=operand.name)
        found = slice_axis(b, b(Squeeze, slice_axis(b, operand, 0, way, way + 1), [0]), 0, start, stop)
        return transposed(b, found, (1, 0)) if is_transposed else found


Cell: TypeAlias = "Callable[[_Layer, int], Step]"


def _rows(way: int, start: int, stop: int, is_transposed: bool, array: Array) -> Array:
    found = array[way, start:stop]
    return found.T if is_transposed else found


def _project_inputs(layer: _Layer, way: int, kept: int) -> Value:
    """Return x W + b for all steps: [S, N, gates * hidden]; the first `kept` gates include the recurrence bias."""
    b, (w, _, bias) = layer.b, layer.weights
    x = transposed(b, layer.x, (1, 0, 2)) if layer.layout else layer.x
    width = layer.gates * layer.hidden_size
    total = b(MatMul, x, layer.rows(w, way, 0, width, is_transposed=True))
    if bias is None:
        return total
    shift = layer.rows(bias, way, width, 2 * width)
    if kept < layer.gates:
        shift = _fold_or_emit(b, Mul, np.multiply, shift, b.like(shift, np.arange(width) < kept * layer.hidden_size))
    return b(Add, total, _fold_or_emit(b, Add, np.add, layer.rows(bias, way, 0, width), shift))


def _fold_or_emit(b: Builder, op_def: OpDef, function: Callable[..., Any], x: Value, y: Value) -> Value:
    """Emit `op_def(x, y)` for equal shapes; for two constants return the constant computed by `function`."""
    first, second = x.storage, y.storage
    if first is None or second is None:
        return b(op_def, x, y)
    return b.constant(Computed(function, (first, second), first.dtype, first.shape), name=x.name)


def _unroll(layer: _Layer, cell: Cell, kept: int, count: int) -> tuple[Value, ...]:
    """Unroll all steps. Return the hidden state of each step and the final value of each of `count` states."""
    b = layer.b
    if b.dialect in _SCANNING and layer.lengths is None:
        return _emit_loop(layer, cell, kept, count)
    dims = b.dims(layer.x)
    (length,) = sizes(dims[layer.layout : layer.layout + 1], "the steps, which stand one behind the other,")
    batch = dims[1 - layer.layout]
    if not 0 < length <= MAX_UNROLLED_STEPS:
        message = f"a sequence of length {length} cannot be unrolled; at most {MAX_UNROLLED_STEPS} are supported"
        raise UnsupportedError(message)
    every: list[list[Value]] = []
    last: list[State] = []
    for way, backwards in enumerate(DIRECTIONS[layer.direction]):
        entries = _project_inputs(layer, way, kept)
        step = cell(layer, way)
        state = tuple(_before(layer, value, way, batch) for value in layer.initial)
        found: list[Value] = []
        for place in reversed(range(length)) if backwards else range(length):
            entry = b(Squeeze, slice_axis(b, entries, 0, place, place + 1), [0])
            state, result = _masked(layer, partial(step, entry), state, place)
            found.append(result)
        every.append(found[::-1] if backwards else found)
        last.append(state)
    return _assemble_results(layer, [_stacked(b, found, 0) for found in every], last, count)


def _masked(layer: _Layer, step: Callable[[State], State], state: State, place: int) -> tuple[State, Value]:
    """Run step `place`; shorter sequences keep their state and output 0. Return the state and the output."""
    b, lengths = layer.b, layer.lengths
    if lengths is None or min(lengths) > place:
        new = step(state)
        return new, new[0]
    zeros = b.like(layer.x, np.zeros((len(lengths), layer.hidden_size)))
    if max(lengths) <= place:
        return state, zeros
    runs = b.constant(np.array(lengths)[:, None] > place, DType.BOOL)
    new = tuple(b(Where, runs, after, before) for after, before in zip(step(state), state, strict=True))
    return new, b(Where, runs, new[0], zeros)


def _emit_loop(layer: _Layer, cell: Cell, kept: int, count: int) -> tuple[Value, ...]:
    """As `_unroll`, by a loop over time."""
    b = layer.b
    batch = b.dims(layer.x)[0 if layer.layout else 1]
    every: list[Value] = []
    last: list[State] = []
    for way, backwards in enumerate(DIRECTIONS[layer.direction]):
        entries = _project_inputs(layer, way, kept)
        initial = [_before(layer, value, way, batch) for value in layer.initial]
        widths = (*[layer.hidden_size] * count, layer.gates * layer.hidden_size)
        facts = [TensorFact(dtype_of(layer.x), (batch, width)) for width in widths]
        inner, body, (*state, entry) = step_body(b, facts)
        new = cell(replace(layer, b=inner), way)(entry, tuple(state))
        # A body must not return one value twice.
        body.set_outputs([*new, inner(Identity, new[0])])
        directions = {"scan_input_directions": (int(backwards),), "scan_output_directions": (int(backwards),)}
        found = b.results(Scan, count + 1, *initial, entries, body=body, num_scan_inputs=1, **directions)
        every.append(found[-1])
        last.append(found[:-1])
    return _assemble_results(layer, every, last, count)


def _assemble_results(layer: _Layer, every: Sequence[Value], last: Sequence[State], count: int) -> tuple[Value, ...]:
    """Stack the directions: return Y and the final value of each of `count` states, in ONNX's layout."""
    b = layer.b
    y = _stacked(b, every, 1)
    finals = [_stacked(b, [state[index] for state in last], 0) for index in range(count)]
    if not layer.layout:
        return (y, *finals)
    return (transposed(b, y, (2, 0, 1, 3)), *(transposed(b, final, (1, 0, 2)) for final in finals))


def _before(layer: _Layer, value: Value | None, way: int, batch: Dim) -> Value:
    b = layer.b
    if value is None:
        zeros = b.like(layer.x, np.zeros((batch if isinstance(batch, int) else 1, layer.hidden_size)))
        if isinstance(batch, int):
            return zeros
        place = 0 if layer.layout else 1
        shape = b(Concat, b(Shape, layer.x, start=place, end=place + 1), [layer.hidden_size], axis=0)
        return b(Expand, zeros, shape)
    axis = layer.layout
    return b(Squeeze, slice_axis(b, value, axis, way, way + 1), [axis])


def _stacked(b: Builder, values: Sequence[Value], axis: int) -> Value:
    parts = [b(Unsqueeze, value, [axis]) for value in values]
    return parts[0] if len(parts) == 1 else b(Concat, *parts, axis=axis)


def _known_lengths(b: Builder, x: Value, lengths: Value | None, layout: int) -> tuple[int, ...] | None:
    """Return the constant lengths of the sequences; `None` if all are complete."""
    if lengths is None:
        return None
    storage, extent = folded(lengths), b.dims(x)[layout]
    if storage is not None and not isinstance(extent, int):
        message = "the sequence length is dynamic"
        raise UnsupportedError(message)
    found, (steps,) = integers(lengths), sizes(b.dims(x)[layout : layout + 1], "the number of steps")
    if found is None:
        message = "sequence_lens is not constant"
        raise UnsupportedError(message)
    return None if all(length == steps for length in found) else tuple(found)


def _activation_functions(
    names: Sequence[str], alpha: Sequence[float] | None, beta: Sequence[float] | None
) -> tuple[Function, ...]:
    """Return the activation functions, each with its next parameters from `alpha` and `beta`."""
    alphas, betas = iter(alpha or ()), iter(beta or ())
    without_unit_axes = {"sigmoid": Sigmoid, "tanh": Tanh, "relu": Relu, "softsign": Softsign, "softplus": Softplus}
    sloped = {"leakyrelu": (LeakyRelu, 0.01), "thresholdedrelu": (ThresholdedRelu, 1.0), "elu": (Elu, 1.0)}
    found: list[Function] = []
    for name in (each.lower() for each in names):
        if name in without_unit_axes:
            found.append(partial(_called, without_unit_axes[name]))
        elif name in sloped:
            op_def, slope = sloped[name]
            found.append(partial(_called, op_def, alpha=next(alphas, slope)))
        elif name == "hardsigmoid":
            found.append(partial(_called, HardSigmoid, alpha=next(alphas, 0.2), beta=next(betas, 0.5)))
        elif name == "affine":
            found.append(partial(_affine, next(alphas, 1.0), next(betas, 0.0)))
        else:
            found.append(partial(_scaled_tanh, next(alphas, 1.0), next(betas, 1.0)))
    return tuple(found)


def _called(op_def: OpDef, b: Builder, x: Value, **attributes: Attribute) -> Value:
    return b(op_def, x, **attributes)


def _affine(alpha: float, beta: float, b: Builder, x: Value) -> Value:
    return b(Add, b(Mul, x, alpha), beta)


def _scaled_tanh(alpha: float, beta: float, b: Builder, x: Value) -> Value:
    return b(Mul, b(Tanh, b(Mul, x, beta)), alpha)


def lstm_in_steps(b: Builder, op: LSTMView) -> tuple[Value, ...]:
    """Unroll LSTM, or convert it to a loop if the dialect has loops."""
    lengths = _known_lengths(b, op.x, op.sequence_lens, op.layout)
    names = op.activations or ("Sigmoid", "Tanh", "Tanh") * len(DIRECTIONS[op.direction])
    stated = _activation_functions(names, op.activation_alpha, op.activation_beta)
    layer = _Layer(
        b,
        op.x,
        (op.w, op.r, op.b),
        (op.initial_h, op.initial_c),
        4,
        stated,
        op.clip,
        op.direction,
        op.layout,
        lengths,
    )
    return _unroll(layer, lambda at, way: _lstm_step(at, way, p=op.p, couples=bool(op.input_forget)), 4, 2)[: b.count]


def _lstm_step(layer: _Layer, way: int, *, p: Value | None, couples: bool) -> Step:
    b, (f, g, h) = layer.b, layer.activations(way, 3)
    hidden = layer.hidden_size
    weights = layer.rows(layer.weights[1], way, 0, 4 * hidden, is_transposed=True)
    peeps = None if p is None else [layer.rows(p, way, start, start + hidden) for start in range(0, 3 * hidden, hidden)]

    def peeped(gate: Value, index: int, cell: Value) -> Value:
        return gate if peeps is None else b(Add, gate, b(Mul, cell, peeps[index]))

    def step(entry: Value, state: State) -> State:
        before, cell = state
        i, o, forget, c = layer.gated(b(Add, entry, b(MatMul, layer.rounded(before), weights)))
        i = f(layer.clipped(peeped(i, 0, cell)))
        forget = b(Sub, 1.0, i) if couples else f(layer.clipped(peeped(forget, 2, cell)))
        cell = b(Add, b(Mul, forget, cell), b(Mul, i, g(layer.clipped(c))))
        o = f(layer.clipped(peeped(o, 1, cell)))
        return b(Mul, o, h(cell)), cell

    return step


def gru_in_steps(b: Builder, op: GRUView) -> tuple[Value, ...]:
    """Unroll GRU, or convert it to a loop if the dialect has loops."""
    lengths = _known_lengths(b, op.x, op.sequence_lens, op.layout)
    names = op.activations or ("Sigmoid", "Tanh") * len(DIRECTIONS[op.direction])
    stated = _activation_functions(names, op.activation_alpha, op.activation_beta)
    layer = _Layer(b, op.x, (op.w, op.r, op.b), (op.initial_h,), 3, stated, op.clip, op.direction, op.layout, lengths)
    kept = 2 if op.linear_before_reset else 3
    return _unroll(layer, lambda at, way: _gru_step(at, way, resets_after=bool(op.linear_before_reset)), kept, 1)[
        : b.count
    ]


def _gru_step(layer: _Layer, way: int, *, resets_after: bool) -> Step:
    b, (f, g) = layer.b, layer.activations(way, 2)
    hidden, bias = layer.hidden_size, layer.weights[2]
    gates = layer.rows(layer.weights[1], way, 0, 2 * hidden, is_transposed=True)
    candidate = layer.rows(layer.weights[1], way, 2 * hidden, 3 * hidden, is_transposed=True)
    shift = layer.rows(bias, way, 5 * hidden, 6 * hidden) if resets_after and bias is not None else None

    def step(entry: Value, state: State) -> State:
        (before,) = state
        seen = layer.rounded(before)
        z, reset, n = layer.gated(entry)
        state_z, state_r = layer.gated(b(MatMul, seen, gates))
        z, reset = f(layer.clipped(b(Add, z, state_z))), f(layer.clipped(b(Add, reset, state_r)))
        if resets_after:
            product = b(MatMul, seen, candidate)
            n = b(Add, n, b(Mul, reset, product if shift is None else b(Add, product, shift)))
        else:
            n = b(Add, n, b(MatMul, b(Mul, reset, before), candidate))
        rest = b(Mul, b(Sub, 1.0, z), g(layer.clipped(n)))
        return (b(Add, rest, b(Mul, z, before)),)

    return step


def rnn_in_steps(b: Builder, op: RNNView) -> tuple[Value, ...]:
    """Unroll RNN, or convert it to a loop if the dialect has loops."""
    lengths = _known_lengths(b, op.x, op.sequence_lens, op.layout)
    stated = _activation_functions(op.activations, op.activation_alpha, op.activation_beta)
    layer = _Layer(b, op.x, (op.w, op.r, op.b), (op.initial_h,), 1, stated, op.clip, op.direction, op.layout, lengths)

    return _unroll(layer, _rnn_step, 1, 1)[: b.count]


def _rnn_step(layer: _Layer, way: int) -> Step:
    b, weights = layer.b, layer.rows(layer.weights[1], way, 0, layer.hidden_size, is_transposed=True)
    (f,) = layer.activations(way, 1)

    def step(entry: Value, state: State) -> State:
        return (f(layer.clipped(b(Add, entry, b(MatMul, layer.rounded(state[0]), weights)))),)

    return step


def rounded_loop(
    b: Builder,
    op_type: str,
    x: Value,
    weights: tuple[Value, Value, Value | None],
    initial: Sequence[Value],
    direction: str,
    round_state: Function,
) -> tuple[Value, ...]:
    """Return a recurrent layer with default activations and a quantized hidden state as a loop (Scan).

    Shapes: x [S, N, I]; weights and biases as in ONNX; initial states [D, N, H].  GRU has `linear_before_reset`.
    """
    names, gates, count, kept, cell = {
        "LSTM": (("Sigmoid", "Tanh", "Tanh"), 4, 2, 4, partial(_lstm_step, p=None, couples=False)),
        "GRU": (("Sigmoid", "Tanh"), 3, 1, 2, partial(_gru_step, resets_after=True)),
        "RNN": (("Tanh",), 1, 1, 1, _rnn_step),
    }[op_type]
    functions = _activation_functions(names * len(DIRECTIONS[direction]), None, None)
    states = tuple(initial) or (None,) * count
    layer = _Layer(b, x, weights, states, gates, functions, None, direction, 0, None, round_state)
    return _emit_loop(layer, lambda at, way: cell(at, way=way), kept, count)


Recurrent: TypeAlias = GRUView | LSTMView | RNNView


def unsupported_parts(op: Recurrent, activations: Sequence[str]) -> str:
    """Return why a layer with the given activations cannot represent the operator; empty if it can."""
    ways = len(DIRECTIONS[op.direction])
    # ONNX's RNN has one activation per direction, and two by default.
    stated = op.activations or ()
    if (
        stated
        and [name.lower() for name in stated][: len(activations) * ways]
        != [name.lower() for name in activations] * ways
    ):
        return f"its activations are {', '.join(stated)}, the layer has {', '.join(activations)}"
    more = ("activation_alpha", "activation_beta", "clip", "input_forget", "sequence_lens", "p")
    given = [name for name in more if getattr(op, name, None)]
    return f"the layer has no {', '.join(given)}" if given else ""


RESETS_STATE = "the layer resets the product, and this operator the state (linear_before_reset=0)"


def in_steps(b: Builder, op: Recurrent, reason: str) -> tuple[Value, ...]:
    """Unroll an operator that a layer of the dialect cannot compute for a reason.

    Raises:
        UnsupportedError: it cannot be unrolled either; the message contains both reasons.
    """
    try:
        match op:
            case LSTMView():
                return lstm_in_steps(b, op)
            case GRUView():
                return gru_in_steps(b, op)
            case RNNView():
                return rnn_in_steps(b, op)
    except UnsupportedError as error:
        message = f"{reason}; {error}"
        raise UnsupportedError(message, help=error.help) from error
