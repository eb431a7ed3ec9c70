"""Recurrent layers of Caffe; the second bottom resets the state where it is 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphport.core.dims import product
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.caffe.rules.binding import Layer, layer
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.activation import Sigmoid, Tanh
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.control.loops import Scan
from graphport.ops.definitions.generate import ConstantOfShape
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Flatten, Identity, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat, Split
from graphport.ops.lowering.captures import step_body

_Step = Callable[[Builder, Sequence[Value], Value, Value], tuple[list[Value], Value]]
"""Function of states, input term and continuation flag that returns new states and output."""


@layer("LSTM", "recurrent_param", bottoms=None)
def lstm(at: Layer, *, num_output: int, expose_hidden: bool = False) -> tuple[Value, ...]:
    """LSTM with gates in the order input, forget, output, candidate."""
    driven, used = _driven(at, 4 * num_output, 2 if expose_hidden else 0)
    recurrent = at.b(Transpose, at.blob(used, (4 * num_output, num_output), "recurrent weights"), perm=(1, 0))

    def step(b: Builder, states: Sequence[Value], x: Value, go_on: Value) -> tuple[list[Value], Value]:
        h, c = states
        gates = b(Add, b(MatMul, b(Mul, h, go_on), recurrent), x)
        i, f, o, g = b.results(Split, 4, gates, axis=-1, num_outputs=4)
        kept = b(Mul, b(Mul, go_on, b(Sigmoid, f)), c)
        c = b(Add, kept, b(Mul, b(Sigmoid, i), b(Tanh, g)))
        h = b(Mul, b(Sigmoid, o), b(Tanh, c))
        return [h, c], h

    return _scanned(at, driven, step, num_output, 2, expose_hidden=expose_hidden)


@layer("RNN", "recurrent_param", bottoms=None)
def rnn(at: Layer, *, num_output: int, expose_hidden: bool = False) -> tuple[Value, ...]:
    """Vanilla RNN with an output layer."""
    driven, used = _driven(at, num_output, 1 if expose_hidden else 0)
    recurrent = at.b(Transpose, at.blob(used, (num_output, num_output), "recurrent weights"), perm=(1, 0))
    outward = at.b(Transpose, at.blob(used + 1, (num_output, num_output), "output weights"), perm=(1, 0))
    bias = at.blob(used + 2, (num_output,), "output bias")

    def step(b: Builder, states: Sequence[Value], x: Value, go_on: Value) -> tuple[list[Value], Value]:
        h = b(Tanh, b(Add, b(MatMul, b(Mul, states[0], go_on), recurrent), x))
        return [h], b(Tanh, b(Add, b(MatMul, h, outward), bias))

    return _scanned(at, driven, step, num_output, 1, expose_hidden=expose_hidden)


def _driven(at: Layer, width: int, exposed: int) -> tuple[Value, int]:
    """Return W x + b, [steps, batch, width], including the static input's term; and the index of the next blob.

    `exposed` is the number of bottoms with initial states.

    Raises:
        ShapeError: wrong number of bottoms.
    """
    own = len(at.bottoms) - exposed
    if own not in (2, 3):
        message = f"{len(at.bottoms)} bottoms"
        raise ShapeError(message, f"{2 + exposed}, or {3 + exposed} with a static input")
    depth = product(at.dims()[2:])
    flat = at.x if len(at.dims()) == 3 else at.b(Reshape, at.x, at.integers(0, 0, -1))
    weights = at.b(Transpose, at.blob(0, (width, depth)), perm=(1, 0))
    y = at.b(Add, at.b(MatMul, flat, weights), at.blob(1, (width,), "bias"))
    if own == 2:
        return y, 2
    same = at.b(Flatten, at.bottoms[2])
    shape = (width, product(at.dims(2)[1:]))
    added = at.b(MatMul, same, at.b(Transpose, at.blob(2, shape, "weights of the constant input"), perm=(1, 0)))
    return at.b(Add, y, added), 3


def _scanned(
    at: Layer, driven: Value, step: _Step, width: int, count: int, *, expose_hidden: bool
) -> tuple[Value, ...]:
    """Return the outputs of all steps, and the last states if exposed: [1, batch, width] each."""
    b = at.b
    batch = at.dims()[1]
    go_on = b(Unsqueeze, at.bottoms[1], at.integers(2))
    if expose_hidden:
        states = [b(Squeeze, state, at.integers(0)) for state in at.bottoms[-count:]]
    else:
        shape = b(Concat, b(Shape, at.x, start=1, end=2), at.integers(width), axis=0)
        states = [b(ConstantOfShape, shape) for _ in range(count)]
    facts = [TensorFact(DType.FLOAT32, (batch, n)) for n in (*[width] * count, b.dims(driven, at_least=3)[2], 1)]
    inner, body, (*own, x, cont) = step_body(b, facts)
    new, out = step(inner, own, x, cont)
    # A body returns a value once.
    body.set_outputs([*new, inner(Identity, out) if out in new else out])
    results = b.results(Scan, count + 1, *states, driven, go_on, body=body, num_scan_inputs=2)
    hidden = [b(Unsqueeze, state, at.integers(0)) for state in results[:count]]
    return (results[count], *hidden)[: at.tops]
