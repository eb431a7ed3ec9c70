"""Recurrent layers in OpenVINO, held against its runtime."""

import numpy as np
import pytest

from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.recurrent import GRU, LSTM, RNN
from graphport.ops.infer import Inference
from tests.at_once import at_once
from tests.every import every
from tests.ops.openvino_oracle import check_operator, check_word

BATCH, STEPS, WIDTH, HIDDEN = 2, 3, 4, 5
WAYS = {"forward": 1, "reverse": 1, "bidirectional": 2}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OP_DEFS = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}


def numbers(*shape, seed=0):
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * 0.5).astype(np.float32)


def sequence(kind, ways, lengths, *, extra=0):
    """Return operands of an op type: input, states, sequence lengths, weights of both kinds, bias."""
    gates = GATES[kind]
    states = [numbers(BATCH, ways, HIDDEN, seed=i) for i in range(2 if kind == "LSTM" else 1)]
    return [
        numbers(BATCH, STEPS, WIDTH),
        *states,
        np.array(lengths, np.int32),
        numbers(ways, gates * HIDDEN, WIDTH, seed=3),
        numbers(ways, gates * HIDDEN, HIDDEN, seed=4),
        numbers(ways, (gates + extra) * HIDDEN, seed=5),
    ]


@at_once("kind", GATES)
@at_once("direction", WAYS)
@at_once("lengths", [(3, 3), (3, 1)])
def test_sequence_is_what_the_runtime_computes(kind, direction, lengths):
    operands = sequence(kind, WAYS[direction], lengths)
    count = len(operands)
    check_word(
        f"opset5.{kind}Sequence",
        operands,
        constants=range(count - 4, count),
        outputs=3 if kind == "LSTM" else 2,
        hidden_size=HIDDEN,
        direction=direction,
        tolerance=1e-4,
    )


def test_gru_resets_after_its_product():
    operands = sequence("GRU", 1, (3, 3), extra=1)
    constants = range(2, 6)
    attributes = {"hidden_size": HIDDEN, "direction": "forward", "linear_before_reset": True}
    check_word("opset5.GRUSequence", operands, constants=constants, outputs=2, tolerance=1e-4, **attributes)


@at_once("clip", [0.0, 0.4])
@at_once(("kind", "op_type"), [("LSTM", "opset4.LSTMCell"), ("GRU", "opset3.GRUCell"), ("RNN", "opset1.RNNCell")])
def test_cell_is_one_step(kind, op_type, clip):
    gates = GATES[kind]
    states = [numbers(BATCH, HIDDEN, seed=i) for i in range(2 if kind == "LSTM" else 1)]
    weights = [
        numbers(gates * HIDDEN, WIDTH, seed=3),
        numbers(gates * HIDDEN, HIDDEN, seed=4),
        numbers(gates * HIDDEN, seed=5),
    ]
    operands = [numbers(BATCH, WIDTH), *states, *weights]
    count = len(operands)
    check_word(
        op_type,
        operands,
        constants=range(count - 3, count),
        outputs=2 if kind == "LSTM" else 1,
        hidden_size=HIDDEN,
        clip=clip,
        tolerance=1e-4,
    )


@at_once("said", [{}, {"weights_format": "iofc"}, {"input_forget": True}])
@at_once("spread", [None, 0.0, 1.0])
def test_first_cell_is_computed_as_if_its_own_options_were_absent(said, spread):
    states = [numbers(BATCH, HIDDEN, seed=i) for i in range(2)]
    weights = [numbers(4 * HIDDEN, WIDTH, seed=3), numbers(4 * HIDDEN, HIDDEN, seed=4), numbers(4 * HIDDEN, seed=5)]
    peepholes = [] if spread is None else [numbers(3 * HIDDEN, seed=6) * np.float32(spread)]
    operands = [numbers(BATCH, WIDTH), *states, *weights, *peepholes]
    check_word(
        "opset1.LSTMCell",
        operands,
        constants=range(3, len(operands)),
        outputs=2,
        tolerance=1e-4,
        hidden_size=HIDDEN,
        **said,
    )


def test_unknown_activation_is_refused():
    operands = sequence("RNN", 1, (3, 3))
    with pytest.raises((UnsupportedError, AssertionError)):
        check_word(
            "opset5.RNNSequence",
            operands,
            outputs=2,
            expected=[],
            hidden_size=HIDDEN,
            direction="forward",
            activations=("cosine",),
        )


@at_once("kind", GATES)
@at_once("direction", WAYS)
@at_once("has_bias", [False, True])
@at_once(("has_state", "symbolic"), [(False, False), (True, False), (False, True), (True, True)])
def test_page_is_written(kind, direction, has_bias, has_state, symbolic):
    ways, gates = WAYS[direction], GATES[kind]
    states = [numbers(ways, BATCH, HIDDEN, seed=i) if has_state else None for i in range(2 if kind == "LSTM" else 1)]
    operands = [
        numbers(STEPS, BATCH, WIDTH),
        numbers(ways, gates * HIDDEN, WIDTH, seed=3),
        numbers(ways, gates * HIDDEN, HIDDEN, seed=4),
        numbers(ways, 2 * gates * HIDDEN, seed=5) if has_bias else None,
        np.array([3, 2], np.int32) if has_state else None,
        *states,
    ]
    # With symbolic dims and run-time lengths, only OpenVINO itself can return the last cell state.
    outputs = 3 if kind == "LSTM" and not (symbolic and has_state) else 2
    words = check_operator(
        OP_DEFS[kind],
        operands,
        constants=(1, 2, 3),
        outputs=outputs,
        hidden_size=HIDDEN,
        direction=direction,
        symbolic=symbolic,
        tolerance=1e-4,
    )
    assert f"opset5.{kind}Sequence" in words


def test_gru_with_both_biases_of_the_candidate_is_written():
    operands = [
        numbers(STEPS, BATCH, WIDTH),
        numbers(1, 3 * HIDDEN, WIDTH, seed=3),
        numbers(1, 3 * HIDDEN, HIDDEN, seed=4),
        numbers(1, 6 * HIDDEN, seed=5),
    ]
    assert check_operator(
        GRU, operands, constants=(1, 2, 3), outputs=2, hidden_size=HIDDEN, linear_before_reset=1, tolerance=1e-4
    )


VARIANTS = [
    pytest.param("LSTM", "forward", {}, True, id="peepholes"),
    pytest.param("LSTM", "bidirectional", {"input_forget": 1}, False, id="coupled gates"),
    pytest.param("LSTM", "forward", {"activations": ("HardSigmoid", "Tanh", "Tanh")}, False, id="hard sigmoid"),
    pytest.param("GRU", "reverse", {"activations": ("Sigmoid", "Softsign")}, False, id="softsign"),
    pytest.param(
        "GRU",
        "bidirectional",
        {"activations": ("Sigmoid", "Tanh", "HardSigmoid", "Relu"), "activation_alpha": (0.3,)},
        False,
        id="different activations of the directions",
    ),
    pytest.param("RNN", "bidirectional", {"activations": ("Elu", "Tanh")}, False, id="elu"),
]


@pytest.mark.parametrize(("kind", "direction", "attributes", "has_peepholes"), VARIANTS)
def test_variants_that_openvino_lacks_are_unrolled(kind, direction, attributes, has_peepholes):
    ways, gates = WAYS[direction], GATES[kind]
    operands = [
        numbers(STEPS, BATCH, WIDTH),
        numbers(ways, gates * HIDDEN, WIDTH, seed=3),
        numbers(ways, gates * HIDDEN, HIDDEN, seed=4),
        numbers(ways, 2 * gates * HIDDEN, seed=5),
    ]
    if has_peepholes:
        operands += [None, None, None, numbers(ways, 3 * HIDDEN, seed=6)]
    words = check_operator(
        OP_DEFS[kind],
        operands,
        constants=(1, 2, 3),
        outputs=3 if kind == "LSTM" else 2,
        hidden_size=HIDDEN,
        direction=direction,
        tolerance=1e-4,
        **attributes,
    )
    assert words
    assert not any("Sequence" in op_type for op_type in words)


@every("kind, direction", [(kind, direction) for kind in GATES for direction in WAYS])
def test_lengths_that_are_whole_are_no_lengths_when_they_are_read_again(kind, direction):
    gates, ways = GATES[kind], WAYS[direction]
    weights = [numbers(ways, gates * HIDDEN, WIDTH, seed=3), numbers(ways, gates * HIDDEN, HIDDEN, seed=4)]
    graph = Graph("open")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("steps"), Symbol("batch"), WIDTH)))
    stored = [
        graph.add_constant(f"w{place}", TensorFact.of(storage), storage)
        for place, storage in enumerate(map(storage_of, weights))
    ]
    made = Builder(Inference(), graph).results(OP_DEFS[kind], 2, x, *stored, hidden_size=HIDDEN, direction=direction)
    graph.add_output(made[0])
    said, _ = export_graph(graph, "openvino")
    back, _ = legalize(said)
    (layer,) = [node for node in back if node.op == kind]
    assert layer.operand(4) is None
