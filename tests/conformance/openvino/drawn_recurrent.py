"""Cells and sequences: LSTM, GRU and RNN, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, Operand, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}

of = register(GENERATORS)

_FUNCTIONS = ("sigmoid", "tanh", "relu")
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _said(r: Draw, kind: str, size: int, *, is_sequence: bool) -> dict[str, Any]:
    """Attributes; activations of which a plugin has no kernel are left to its decomposition."""
    flags: dict[str, Any] = {"hidden_size": size}
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
    # The plugin does not know the defaults of a sequence that it takes apart.
    if r.chance(0.4) or is_sequence:
        flags["activations"] = tuple(r.one(*_FUNCTIONS) for _ in range(count))
    if r.chance(0.3) and not is_sequence:
        flags["clip"] = r.one(0.3, 1.0)
    if kind == "GRU" and r.chance(0.6):
        flags["linear_before_reset"] = r.one(True, False)
    return flags


def _weights(r: Draw, kind: str, front: tuple[int, ...], size: int, width: int, *, doubled: bool) -> list[Operand]:
    gates = _GATES[kind]
    biases = (gates + 1 if doubled and kind == "GRU" else gates) * size
    shapes = [(*front, gates * size, width), (*front, gates * size, size), (*front, biases)]
    return [r.operand(r.reals(shape, spread=0.6), constant=0.9, dynamic=0) for shape in shapes]


@of("opset1.LSTMCell", "opset4.LSTMCell", "opset3.GRUCell", "opset1.RNNCell")
def cell(r: Draw, op_type: str) -> Case:
    kind = op_type.split(".")[1].removesuffix("Cell")
    batch, width, size = r.number(1, 3), r.number(1, 4), r.number(1, 4)
    flags = _said(r, kind, size, is_sequence=False)
    weights = _weights(r, kind, (), size, width, doubled=flags.get("linear_before_reset", False))
    states = [r.operand(r.reals((batch, size)), dynamic=0.2) for _ in range(2 if kind == "LSTM" else 1)]
    if kind != "GRU" and r.chance(0.1):
        weights.pop()
    x = r.operand(r.reals((batch, width)), dynamic=0.2)
    return one(op_type, x, *states, *weights, results=len(states), case={"tolerance": 1e-4}, **flags)


@of("opset5.LSTMSequence", "opset5.GRUSequence", "opset5.RNNSequence")
def sequence(r: Draw, op_type: str) -> Case:
    kind = op_type.split(".")[1].removesuffix("Sequence")
    direction = r.one("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    batch, steps, width, size = r.number(1, 3), r.number(1, 4), r.number(1, 3), r.number(1, 3)
    flags = _said(r, kind, size, is_sequence=True) | {"direction": direction}
    weights = _weights(r, kind, (ways,), size, width, doubled=flags.get("linear_before_reset", False))
    states = [r.operand(r.reals((batch, ways, size)), dynamic=0.1) for _ in range(2 if kind == "LSTM" else 1)]
    # The plugin reads a plain sequence to its end, whatever lengths there are.
    lengths = np.full(batch, steps) if r.chance(0.4) or kind == "RNN" else r.integers((batch,), 1, steps)
    given = r.operand(lengths.astype(r.one("int32", "int64")), dynamic=0.1)
    x = r.operand(r.reals((batch, steps, width)), dynamic=0.2)
    return one(op_type, x, *states, given, *weights, results=len(states) + 1, case={"tolerance": 1e-4}, **flags)
