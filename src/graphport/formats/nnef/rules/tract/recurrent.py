"""Cells of recurrent layers in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.recurrent_in_steps import gru_in_steps, lstm_in_steps, rnn_in_steps
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _gates(b: Builder, x: Value, count: int) -> tuple[Value, ...]:
    return b.results(registry.op_defs()["Split"], count, x, None, axis=-1, num_outputs=count)


@import_rule("tract_core_lstm_epilogue")
def lstm_epilogue(b: Builder, preact: Value, c_prev: Value, *, hidden: int) -> tuple[Value, Value]:
    """State and cell after one step, from the concatenated gates i, o, f and c."""
    del hidden
    emit = OpBuilder(b)
    i, o, f, c = _gates(b, preact, 4)
    kept = emit("Mul", emit("Sigmoid", f), c_prev)
    cell = emit("Add", kept, emit("Mul", emit("Sigmoid", i), emit("Tanh", c)))
    return emit("Mul", emit("Sigmoid", o), emit("Tanh", cell)), cell


@import_rule("tract_core_gru_epilogue")
def gru_epilogue(b: Builder, xh: Value, rh: Value, h_prev: Value, *, hidden: int) -> Value:
    """Return the GRU state after one step from the gates (z, r, h) of the input `xh` and of the state `rh`."""
    del hidden
    emit = OpBuilder(b)
    xz, xr, xn = _gates(b, xh, 3)
    hz, hr, hn = _gates(b, rh, 3)
    z, r = emit("Sigmoid", emit("Add", xz, hz)), emit("Sigmoid", emit("Add", xr, hr))
    new = emit("Tanh", emit("Add", xn, emit("Mul", r, hn)))
    return emit("Add", emit("Mul", z, h_prev), emit("Mul", emit("Sub", 1.0, z), new))


@import_rule("tract_core_gru_seq")
def gru_seq(
    b: Builder,
    x: Value,
    w: Value | None,
    r: Value,
    bias: Value | None,
    initial_h: Value,
    *,
    hidden: int,
    chunk: int = 1,
    projected: int = 0,
    **flags: int,
) -> tuple[Value, Value]:
    """GRU layer over x [batch, time, input]; return all states and the last state [batch, 1, hidden]."""
    if projected or w is None or flags.get("reset_every_turn"):
        message = "a layer with an external input product, or one that resets its state in each step"
        raise UnsupportedError(message)
    emit = OpBuilder(b)
    front = b.constant(np.array([0], np.int64))
    weights = [emit("Unsqueeze", each, front) for each in (w, r)]
    operands = [emit("Transpose", x, perm=(1, 0, 2)), *weights, bias if flags.get("has_bias", 1) else None, None]
    way = "reverse" if chunk < 0 else "forward"
    given = {"hidden_size": hidden, "linear_before_reset": 1, "direction": way}
    start = emit("Transpose", initial_h, perm=(1, 0, 2))
    every, last = b.results(registry.op_defs()["GRU"], 2, *operands, start, **given)
    ways = b.constant(np.array([1], np.int64))
    return emit("Transpose", emit("Squeeze", every, ways), perm=(1, 0, 2)), emit("Transpose", last, perm=(1, 0, 2))


# Export rules: loops, where the standard's flavour unrolls

LSTMView.export_rule(DIALECT)(lstm_in_steps)
GRUView.export_rule(DIALECT)(gru_in_steps)
RNNView.export_rule(DIALECT)(rnn_in_steps)
