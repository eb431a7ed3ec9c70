"""Recurrent layers against ONNX Runtime, and what their shape rules refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator, run_word

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
# Bounded ones: an unbounded state overflows to what differs from one runtime to the next.
SCALED = {"HardSigmoid": 2, "ScaledTanh": 2, "LeakyRelu": 1, "Elu": 1, "ThresholdedRelu": 1}
PLAIN = ["Sigmoid", "Tanh", "Relu", "Softsign"]
OP_DEFS = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}


def random(*shape, seed=0):
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * 0.5).astype(np.float32)


@st.composite
def layers(draw, name):
    """Operands and attributes of a recurrent layer."""
    steps, batch, entries, hidden = (draw(st.integers(1, 4)) for _ in range(4))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[name]
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if draw(st.booleans()):
        chosen = [draw(st.sampled_from(PLAIN + sorted(SCALED))) for _ in range(FUNCTIONS[name] * ways)]
        attributes["activations"] = tuple(chosen)
        attributes["activation_alpha"] = tuple(0.3 for name in chosen if name in SCALED) or None
        attributes["activation_beta"] = tuple(0.4 for name in chosen if SCALED.get(name) == 2) or None
    if draw(st.booleans()):
        attributes["clip"] = 0.5
    lengths = draw(st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
    optional = [
        random(ways, 2 * gates * hidden, seed=1),
        np.array(lengths, np.int32),
        random(ways, batch, hidden, seed=2),
    ]
    if name == "LSTM":
        optional += [random(ways, batch, hidden, seed=3), random(ways, 3 * hidden, seed=4)]
        attributes["input_forget"] = draw(st.integers(0, 1))
    if name == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    given_operands = [operand if draw(st.booleans()) else None for operand in optional]
    weights = [random(ways, gates * hidden, entries, seed=5), random(ways, gates * hidden, hidden, seed=6)]
    said: dict[str, Any] = {key: value for key, value in attributes.items() if value is not None}
    return [random(steps, batch, entries), *weights, *given_operands], said


@given(layers("LSTM"))
def test_lstm_is_that_of_onnx_runtime(case):
    inputs, attributes = case
    check_operator(LSTM, inputs, outputs=3, tolerance=1e-4, **attributes)


@given(layers("GRU"))
def test_gru_is_that_of_onnx_runtime(case):
    inputs, attributes = case
    check_operator(GRU, inputs, outputs=2, tolerance=1e-4, **attributes)


@given(layers("RNN"))
def test_rnn_is_that_of_onnx_runtime(case):
    inputs, attributes = case
    check_operator(RNN, inputs, outputs=2, tolerance=1e-4, **attributes)


def weights_of(name, ways=1, hidden=3, entries=2):
    gates = GATES[name]
    return [random(ways, gates * hidden, entries, seed=5), random(ways, gates * hidden, hidden, seed=6)]


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_with_the_batch_first_the_axes_are_exchanged(name):
    op_def, x = OP_DEFS[name], random(4, 5, 2)
    first = random(2, 5, 3, seed=7)
    states = [None, None, first, first] if name == "LSTM" else [None, None, first]
    swapped = [None if state is None else np.swapaxes(state, 0, 1) for state in states]
    weights = weights_of(name, ways=2)
    y, *last = run_operator(op_def, [x, *weights, *states], direction="bidirectional")
    inputs = [np.swapaxes(x, 0, 1), *weights, *swapped]
    found = run_operator(op_def, inputs, direction="bidirectional", layout=1)
    compare(found[0], np.moveaxis(y, 2, 0))
    for a, b in zip(found[1:], last, strict=True):
        compare(a, np.swapaxes(b, 0, 1))
    check_shapes(op_def, inputs, found, direction="bidirectional", layout=1)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_float16_values_are_computed_in_single_precision(name):
    x, weights = random(3, 2, 2), weights_of(name)
    narrow = [a.astype(DType.BFLOAT16.numpy) for a in (x, *weights)]
    found = run_operator(OP_DEFS[name], narrow)
    expected = run_operator(OP_DEFS[name], [a.astype(np.float32) for a in narrow])
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == DType.BFLOAT16.numpy
        compare(a.astype(np.float32), b, tolerance=1e-2)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("opset", [7, 14])
def test_old_layers_are_equivalent(name, opset):
    inputs = [random(3, 2, 2), *weights_of(name)]
    old_opset(name, opset, inputs, outputs=2, hidden_size=3, tolerance=1e-4)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_the_first_layers_could_leave_out_the_steps(name):
    inputs = [random(3, 2, 2), *weights_of(name)]
    found = run_word("onnx", name, inputs, opset=1, outputs=2, output_sequence=1, direction="foward")
    for a, b in zip(found, run_operator(OP_DEFS[name], inputs)[:2], strict=True):
        compare(a, b)


def fact(*shape, dtype=DType.FLOAT32):
    return TensorFact(dtype, shape)


def test_shapes_follow_symbolic_extents():
    steps, batch = Symbol("S"), Symbol("B")
    operands = [fact(steps, batch, 2), fact(2, 12, 2), fact(2, 12, 3)]
    y, h, c = Inference().infer_operator(LSTM, operands, {"direction": "bidirectional"}, 3)
    assert y == fact(steps, 2, batch, 3)
    assert h == c == fact(2, batch, 3)
    y, h = Inference().infer_operator(GRU, [fact(batch, steps, 2), fact(1, 9, 2), fact(1, 9, 3)], {"layout": 1}, 2)
    assert y == fact(batch, steps, 1, 3)
    assert h == fact(batch, 1, 3)


X, W, R = fact(4, 5, 2), fact(1, 12, 2), fact(1, 12, 3)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        pytest.param([fact(5, 2), W, R], {}, "x has rank 2", id="x's rank"),
        pytest.param([X, fact(1, 12, 4), R], {}, "entries of a step", id="entries"),
        pytest.param([X, fact(2, 12, 2), R], {}, "directions of w", id="directions"),
        pytest.param([X, fact(1, 11, 2), R], {}, "not 4 times", id="gates"),
        pytest.param([X, W, fact(1, 12, 4)], {}, "hidden units of r", id="hidden units"),
        pytest.param([X, W, R], {"hidden_size": 4}, "hidden units of w", id="hidden_size"),
        pytest.param([X, W, R, fact(1, 12)], {}, "b has 12 entries", id="bias"),
        pytest.param([X, W, R, fact(24)], {}, "b has rank 1", id="bias rank"),
        pytest.param([X, W, R, None, None, fact(1, 4, 3)], {}, "batch of initial_h", id="batch"),
        pytest.param([X, W, R, None, None, fact(1, 5, 4)], {}, "units of initial_h", id="state"),
        pytest.param([X, W, R, None, None, fact(5, 3)], {}, "initial_h has rank 2", id="state's rank"),
        pytest.param([X, W, R, *[None] * 4, fact(1, 8)], {}, "entries of p", id="peepholes"),
        pytest.param([X, W, R, *[None] * 4, fact(9)], {}, "p has rank 1", id="peepholes' rank"),
        pytest.param([X, W, R], {"direction": "both"}, "unknown direction 'both'", id="direction"),
        pytest.param([X, W, R], {"layout": 2}, "layout is 2", id="layout"),
        pytest.param([X, W, R], {"activations": ("Tanh",)}, "activations", id="too few activations"),
        pytest.param([X, W, R], {"activations": ("Tanh", "Sine", "Tanh")}, "'Sine'", id="unknown activation"),
    ],
)
def test_lstm_refuses(operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(LSTM, operands, attributes, 3)
