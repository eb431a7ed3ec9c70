"""Recurrent layers of Keras: operators of ONNX without masks, loops with masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.keras.rules.activation import apply_activation
from graphport.formats.keras.rules.binding import Layer, layer, pair
from graphport.formats.keras.rules.convolution import convolve, filters_first
from graphport.formats.keras.rules.tensors import (
    FIRST,
    binary,
    expand_like,
    reshape_to,
    squeezed,
    to_channels_first,
    to_data_format,
    unsqueezed,
)
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Mul, Sub
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.control import Scan
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from graphport.ops.definitions.reshape import Concat, Identity, Split
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.operands import cast, sizes, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Step: TypeAlias = "Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]"
"""The states after a step, of which the first one is the output."""

_NAMES: Mapping[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    "tanh": ("Tanh", (), ()),
    "sigmoid": ("Sigmoid", (), ()),
    "relu": ("Relu", (), ()),
    "softsign": ("Softsign", (), ()),
    "softplus": ("Softplus", (), ()),
    "linear": ("Affine", (1.0,), (0.0,)),
    "elu": ("Elu", (1.0,), ()),
    "hard_sigmoid": ("HardSigmoid", (1 / 6,), (0.5,)),
    "keras2.hard_sigmoid": ("HardSigmoid", (0.2,), (0.5,)),
}
"""Activations of the recurrent operators of ONNX: name, alpha and beta."""
_LAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class _Run:
    """Direction, masks and results of a recurrent layer."""

    units: int
    return_sequences: bool
    return_state: bool
    go_backwards: bool
    keep_order: bool
    """Whether sequences of a layer that runs backwards are returned in the order of the input."""
    zero_output_for_mask: bool

    def results(self, at: Layer, sequences: Value, last: Value, states: Sequence[Value]) -> list[Value]:
        """The results of the layer; `sequences` [batch, time, ...] are in the order of the input."""
        if not self.return_sequences:
            y = last
        else:
            y = flipped(at.b, sequences) if self.go_backwards and not self.keep_order else sequences
        return [y, *(states if self.return_state else [])]


def _count(states: int) -> Callable[[Mapping[str, Any]], int]:
    return lambda options: 1 + states * bool(options.get("return_state"))


def flipped(b: Builder, x: Value) -> Value:
    """`x` with its time indices reversed."""
    return b(Slice, x, [-1], [_LAST], [1], [-1])


def _inputs(at: Layer, states: int) -> tuple[Value, list[Value]]:
    """The sequences and the initial states; Keras 2 has both in one list."""
    x, more = at.x, at.inputs[1:]
    found = [*more, *at.operands.get("initial_state", ())]
    if len(found) not in (0, states):
        message = f"{len(found)} initial states, expected {states}"
        raise ShapeError(message)
    return x, found


def _zeros(b: Builder, x: Value, dims: Sequence[Any]) -> Value:
    """Zeros [batch, *dims]."""
    return expand_like(b, b.like(x, np.zeros((1,) * (1 + len(dims)))), [(x, 0), *dims])


# Operators of ONNX


def _attributes(activations: Sequence[Any]) -> dict[str, Any] | None:
    """Activations as attributes of a recurrent operator; `None` if it lacks an activation."""
    found = [_NAMES.get(each) if isinstance(each, str) else None for each in activations]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    alpha = tuple(a for each in known for a in each[1])
    beta = tuple(a for each in known for a in each[2])
    names = tuple(each[0] for each in known)
    return {"activations": names, "activation_alpha": alpha or None, "activation_beta": beta or None}


def _gates(b: Builder, kernel: Value, order: Sequence[int]) -> Value:
    """A kernel [inputs, gates * units] as [1, gates * units, inputs], gates in another order."""
    return unsqueezed(b, _permute_gates(b, transposed(b, kernel, (1, 0)), order), [0])


def _permute_gates(b: Builder, x: Value, order: Sequence[int]) -> Value:
    """The equal parts of axis 0 in another order."""
    if list(order) == list(range(len(order))):
        return x
    parts = b.results(Split, len(order), x, axis=0, num_outputs=len(order))
    return b(Concat, *(parts[each] for each in order), axis=0)


def _operator(
    at: Layer, op_def: Any, run: _Run, operands: Sequence[Value | None], states: Sequence[Value], **attributes: Any
) -> list[Value]:
    """The results of a recurrent operator."""
    b = at.b
    x = transposed(b, operands[0], (1, 0, 2)) if operands[0] is not None else at.x
    initial = [unsqueezed(b, each, [0]) for each in states]
    direction = "reverse" if run.go_backwards else None
    count = 1 + (2 if op_def is LSTM else 1)
    y, *ends = b.results(
        op_def, count, x, *operands[1:], None, *initial, direction=direction, hidden_size=run.units, **attributes
    )
    sequences = transposed(b, squeezed(b, y, [1]), (1, 0, 2)) if run.return_sequences else y
    ends = [squeezed(b, each, [0]) for each in ends]
    return run.results(at, sequences, ends[0], ends)


# Loops


def _loop(at: Layer, run: _Run, entries: Value, states: Sequence[Value], mask: Value | None, step: Step) -> list[Value]:
    """The results of a loop over axis 1 of `entries`."""
    b = at.b
    carried = list(states)
    if mask is not None:
        # A masked step repeats the output before it, which is 0 at first, and not the initial state.
        carried.append(binary(b, Mul, states[0], 0.0))
    scanned = [entries] if mask is None else [entries, mask]
    facts = [each.fact for each in carried]
    for each in scanned:
        dims = b.dims(each)
        facts.append(TensorFact(each.dtype, (dims[0], *dims[2:])))
    inner, body, given = step_body(b, facts)
    before, rest = given[: len(carried)], given[len(carried) :]
    after = list(step(inner, rest[0], before[: len(states)]))
    output = after[0]
    if mask is not None:
        is_kept = unsqueezed(inner, rest[1], list(range(1, len(b.dims(states[0])))))
        repeated = inner.like(output, 0.0) if run.zero_output_for_mask else before[-1]
        output = inner(Where, is_kept, output, repeated)
        after = [inner(Where, is_kept, new, old) for new, old in zip(after, before, strict=False)]
        after.append(inner(Identity, output))
    body.set_outputs([*(inner(Identity, each) for each in after), inner(Identity, output)])
    count = len(scanned)
    way = int(run.go_backwards)
    found = b.results(
        Scan,
        len(after) + 1,
        *carried,
        *scanned,
        body=body,
        num_scan_inputs=count,
        scan_input_axes=(1,) * count,
        scan_output_axes=(1,),
        scan_input_directions=(way,) * count,
        scan_output_directions=(way,),
    )
    last = found[0] if mask is None else found[len(states)]
    return run.results(at, found[-1], last, found[: len(states)])


def _mask(at: Layer) -> Value | None:
    """The mask [batch, time] as booleans."""
    mask = at.get("mask")
    return None if mask is None else cast(at.b, mask, DType.BOOL)


def _projected(b: Builder, x: Value, kernel: Value, bias: Value | None) -> Value:
    y = b(MatMul, x, kernel)
    return y if bias is None else b(Add, y, bias)


_CALL = "x initial_state mask training"
_WEIGHTS = "cell/kernel cell/recurrent_kernel cell/bias:use_bias"


def _weights(at: Layer) -> tuple[Value, Value, Value | None]:
    return at.need("cell/kernel"), at.need("cell/recurrent_kernel"), at.get("cell/bias")


@layer("LSTM", weights=_WEIGHTS, call=_CALL, mask="sequence", takes_mask=True, count=_count(2))
def lstm(
    at: Layer,
    *,
    units: int = 0,
    activation: Any = "tanh",
    recurrent_activation: Any = "sigmoid",
    use_bias: bool = True,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    stateful: bool = False,
    keep_order: bool = False,
    zero_output_for_mask: bool = False,
) -> list[Value]:
    """Long short-term memory; the gates of Keras are input, forget, cell, output."""
    del use_bias, stateful
    run = _Run(units, return_sequences, return_state, go_backwards, keep_order, zero_output_for_mask)
    b, (x, states), (kernel, recurrent, bias), mask = at.b, _inputs(at, 2), _weights(at), _mask(at)
    attributes = _attributes((recurrent_activation, activation, activation))
    if mask is None and attributes is not None:
        order = (0, 3, 1, 2)
        given = None
        if bias is not None:
            given = b(Concat, _permute_gates(b, bias, order), b.like(bias, np.zeros(4 * units)), axis=0)
            given = unsqueezed(b, given, [0])
        operands = [x, _gates(b, kernel, order), _gates(b, recurrent, order), given]
        return _operator(at, LSTM, run, operands, states, **attributes)

    def step(inner: Builder, entry: Value, before: Sequence[Value]) -> list[Value]:
        h, c = before
        total = inner(Add, entry, inner(MatMul, h, recurrent))
        i, f, g, o = inner.results(Split, 4, total, axis=-1, num_outputs=4)
        i, f, o = (apply_activation(inner, each, recurrent_activation, at.dtype) for each in (i, f, o))
        g = apply_activation(inner, g, activation, at.dtype)
        c = inner(Add, inner(Mul, f, c), inner(Mul, i, g))
        return [inner(Mul, o, apply_activation(inner, c, activation, at.dtype)), c]

    states = states or [_zeros(b, x, [units])] * 2
    return _loop(at, run, _projected(b, x, kernel, bias), states, mask, step)


@layer("GRU", weights=_WEIGHTS, call=_CALL, mask="sequence", takes_mask=True, count=_count(1))
def gru(
    at: Layer,
    *,
    units: int = 0,
    activation: Any = "tanh",
    recurrent_activation: Any = "sigmoid",
    use_bias: bool = True,
    reset_after: bool = False,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    stateful: bool = False,
    keep_order: bool = False,
    zero_output_for_mask: bool = False,
) -> list[Value]:
    """Gated recurrent unit; `reset_after` resets the product after it is computed, and adds a recurrent bias."""
    del use_bias, stateful
    run = _Run(units, return_sequences, return_state, go_backwards, keep_order, zero_output_for_mask)
    b, (x, states), (kernel, recurrent, bias), mask = at.b, _inputs(at, 1), _weights(at), _mask(at)
    attributes = _attributes((recurrent_activation, activation))
    if mask is None and attributes is not None:
        given = None
        if bias is not None and reset_after:
            given = unsqueezed(b, reshape_to(b, bias, [6 * units]), [0])
        elif bias is not None:
            given = unsqueezed(b, b(Concat, bias, b.like(bias, np.zeros(3 * units)), axis=0), [0])
        operands = [x, _gates(b, kernel, (0, 1, 2)), _gates(b, recurrent, (0, 1, 2)), given]
        return _operator(at, GRU, run, operands, states, linear_before_reset=int(reset_after) or None, **attributes)
    own, other = bias, None
    if bias is not None and reset_after:
        own, other = (squeezed(b, each, [0]) for each in b.results(Split, 2, bias, axis=0, num_outputs=2))

    def step(inner: Builder, entry: Value, before: Sequence[Value]) -> list[Value]:
        (h,) = before
        x_z, x_r, x_h = inner.results(Split, 3, entry, axis=-1, num_outputs=3)
        if reset_after:
            product = _projected(inner, h, recurrent, other)
            h_z, h_r, h_h = inner.results(Split, 3, product, axis=-1, num_outputs=3)
        else:
            gates, last = _columns(inner, recurrent, 0, 2 * units), _columns(inner, recurrent, 2 * units, 3 * units)
            h_z, h_r = inner.results(Split, 2, inner(MatMul, h, gates), axis=-1, num_outputs=2)
            h_h = last
        z = apply_activation(inner, inner(Add, x_z, h_z), recurrent_activation, at.dtype)
        r = apply_activation(inner, inner(Add, x_r, h_r), recurrent_activation, at.dtype)
        reset = inner(Mul, r, h_h) if reset_after else inner(MatMul, inner(Mul, r, h), h_h)
        new = apply_activation(inner, inner(Add, x_h, reset), activation, at.dtype)
        rest = inner(Mul, inner(Sub, 1.0, z), new)
        return [inner(Add, inner(Mul, z, h), rest)]

    return _loop(at, run, _projected(b, x, kernel, own), states or [_zeros(b, x, [units])], mask, step)


def _columns(b: Builder, x: Value, start: int, stop: int) -> Value:
    return b(Slice, x, [start], [stop], [1])


@layer("SimpleRNN", weights=_WEIGHTS, call=_CALL, mask="sequence", takes_mask=True, count=_count(1))
def simple_rnn(
    at: Layer,
    *,
    units: int = 0,
    activation: Any = "tanh",
    use_bias: bool = True,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    stateful: bool = False,
    keep_order: bool = False,
    zero_output_for_mask: bool = False,
) -> list[Value]:
    """A recurrence of one gate."""
    del use_bias, stateful
    run = _Run(units, return_sequences, return_state, go_backwards, keep_order, zero_output_for_mask)
    b, (x, states), (kernel, recurrent, bias), mask = at.b, _inputs(at, 1), _weights(at), _mask(at)
    attributes = _attributes((activation,))
    if mask is None and attributes is not None:
        given = bias
        if bias is not None:
            given = unsqueezed(b, b(Concat, bias, b.like(bias, np.zeros(units)), axis=0), [0])
        operands = [x, _gates(b, kernel, (0,)), _gates(b, recurrent, (0,)), given]
        return _operator(at, RNN, run, operands, states, **attributes)

    def step(inner: Builder, entry: Value, before: Sequence[Value]) -> list[Value]:
        total = inner(Add, entry, inner(MatMul, before[0], recurrent))
        return [apply_activation(inner, total, activation, at.dtype)]

    return _loop(at, run, _projected(b, x, kernel, bias), states or [_zeros(b, x, [units])], mask, step)


# Convolutional recurrence


@layer(
    "ConvLSTM1D",
    "ConvLSTM2D",
    "ConvLSTM3D",
    weights=_WEIGHTS,
    call=_CALL,
    mask="sequence",
    takes_mask=True,
    count=_count(2),
)
def conv_lstm(
    at: Layer,
    *,
    filters: int = 0,
    kernel_size: Any = (),
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    activation: Any = "tanh",
    recurrent_activation: Any = "sigmoid",
    use_bias: bool = True,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    stateful: bool = False,
    keep_order: bool = False,
    zero_output_for_mask: bool = False,
) -> list[Value]:
    """Long short-term memory whose products are convolutions; the loop runs with channels first."""
    del kernel_size, use_bias, stateful
    run = _Run(filters, return_sequences, return_state, go_backwards, keep_order, zero_output_for_mask)
    b, (x, states), (kernel, recurrent, bias), mask = at.b, _inputs(at, 2), _weights(at), _mask(at)
    spatial, ones = at.rank - 3, (1,) * (at.rank - 3)
    folded = reshape_to(b, x, [-1, *_trailing_dims(b, x, 2)])
    entries = convolve(
        b,
        to_channels_first(b, folded, data_format),
        filters_first(b, kernel),
        bias,
        strides=pair(strides, spatial, "strides"),
        dilations=pair(dilation_rate, spatial, "dilation_rate"),
        padding=padding,
    )
    entries = reshape_to(b, entries, [(x, 0), (x, 1), *_trailing_dims(b, entries, 1)])
    recurrent_filters = filters_first(b, recurrent)

    def step(inner: Builder, entry: Value, before: Sequence[Value]) -> list[Value]:
        h, c = before
        product = convolve(inner, h, recurrent_filters, None, strides=ones, dilations=ones, padding="same")
        i, f, g, o = inner.results(Split, 4, inner(Add, entry, product), axis=1, num_outputs=4)
        i, f, o = (apply_activation(inner, each, recurrent_activation, at.dtype) for each in (i, f, o))
        c = inner(Add, inner(Mul, f, c), inner(Mul, i, apply_activation(inner, g, activation, at.dtype)))
        return [inner(Mul, o, apply_activation(inner, c, activation, at.dtype)), c]

    if states:
        states = [to_channels_first(b, each, data_format) for each in states]
    else:
        states = [_zeros(b, x, [filters, *sizes(b.dims(entries)[3:], "the images")])] * 2
    y, *ends = _loop(at, run, entries, states, mask, step)
    ends = [to_data_format(b, each, data_format) for each in ends]
    if not return_sequences:
        return [to_data_format(b, y, data_format), *ends]
    rank = len(b.dims(y))
    return [y if data_format == FIRST else transposed(b, y, (0, 1, *range(3, rank), 2)), *ends]


def _trailing_dims(b: Builder, x: Value, start: int) -> list[Any]:
    """The dims of `x` from an axis on, as parts of a shape."""
    return [(x, axis) for axis in range(start, len(b.dims(x)))]


# Wrappers


@layer("Bidirectional.merge")
def merge_directions(at: Layer, *, merge_mode: str = "concat") -> Value:
    """The results of both directions as one tensor."""
    b, inputs = at.b, at.inputs
    match merge_mode:
        case "concat":
            return b(Concat, *inputs, axis=-1)
        case "sum":
            return reduce(lambda x, y: b(Add, x, y), inputs)
        case "ave":
            return binary(b, Mul, reduce(lambda x, y: b(Add, x, y), inputs), 0.5)
        case "mul":
            return reduce(lambda x, y: b(Mul, x, y), inputs)
        case _:
            message = f"the merge mode {merge_mode!r}"
            raise UnsupportedError(message)
