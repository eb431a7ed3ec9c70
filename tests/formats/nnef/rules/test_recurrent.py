"""Recurrent layers in NNEF: unrolled steps compute equal results."""

import numpy as np
import pytest

from graphport.ops.decompositions.recurrent_in_steps import MAX_UNROLLED_STEPS
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from tests.ops.oracle import there_and_back

RANDOM = np.random.default_rng(0)
STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}
OP_DEFS = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}
WAYS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def numbers(*shape):
    return (RANDOM.normal(size=shape) / 2).astype(np.float32)


def operands(kind, ways, layout=0, steps=STEPS):
    gates = GATES[kind]
    x = numbers(BATCH, steps, WIDTH) if layout else numbers(steps, BATCH, WIDTH)
    weights = [numbers(ways, gates * HIDDEN, WIDTH), numbers(ways, gates * HIDDEN, HIDDEN)]
    return [x, *weights, numbers(ways, 2 * gates * HIDDEN)]


def states(kind, ways, layout):
    shape = (BATCH, ways, HIDDEN) if layout else (ways, BATCH, HIDDEN)
    return [numbers(*shape) for _ in range(STATES[kind])]


def said(kind, given, **attributes):
    constants = attributes.pop("constants", (1, 2, 3))
    return there_and_back(
        OP_DEFS[kind], given, outputs=1 + STATES[kind], constants=constants, tolerance=1e-5, **attributes
    )


@pytest.mark.parametrize("kind", OP_DEFS)
@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("layout", [0, 1])
def test_exporting_a_layer_preserves_its_semantics(kind, direction, layout):
    ways = WAYS[direction]
    given = [*operands(kind, ways, layout), np.full(BATCH, STEPS, np.int32), *states(kind, ways, layout)]
    settings = {"activations": ("Tanh",) * ways} if kind == "RNN" else {}
    assert said(kind, given, direction=direction, layout=layout, constants=(1, 2, 3, 4), **settings)


@pytest.mark.parametrize("kind", OP_DEFS)
def test_weights_may_be_computed_and_biases_absent(kind):
    assert said(kind, operands(kind, 1), constants=())
    assert said(kind, operands(kind, 1)[:3], clip=0.2)


def test_peepholes_and_coupled_gates():
    given = [*operands("LSTM", 2), None, None, None, numbers(2, 3 * HIDDEN)]
    assert said("LSTM", given, direction="bidirectional", constants=(1, 2, 3, 7))
    assert said("LSTM", given, direction="bidirectional", input_forget=1, constants=(1, 2, 3, 7))


@pytest.mark.parametrize("bias", [True, False])
def test_a_reset_after_the_product(bias):
    assert said("GRU", operands("GRU", 1)[: 4 if bias else 3], linear_before_reset=1)


@pytest.mark.parametrize(
    "name",
    ["Relu", "Softsign", "softplus", "LeakyRelu", "ThresholdedRelu", "Elu", "HardSigmoid", "Affine", "ScaledTanh"],
)
def test_activations(name):
    assert said("RNN", operands("RNN", 1), activations=(name,))
    assert said("RNN", operands("RNN", 1), activations=(name,), activation_alpha=(0.5,), activation_beta=(0.75,))


def test_sequences_of_different_lengths_are_masked_if_the_lengths_are_constant():
    assert "select" in said("GRU", [*operands("GRU", 1), np.array([4, 2], np.int32)], constants=(4,))
    assert said("GRU", [*operands("GRU", 1), np.array([4, 4], np.int32)]) is None


def test_very_many_steps_are_not_written():
    assert said("RNN", operands("RNN", 1, steps=MAX_UNROLLED_STEPS + 1), activations=("Tanh",)) is None
