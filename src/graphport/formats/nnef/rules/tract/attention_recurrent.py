"""Attention that keeps a state instead of keys and values, and the short convolution before it, in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import import_rule
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value

_LEAST = 1e-6


@import_rule("tract_transformers_gdn_recurrent")
def gated_delta(
    b: Builder, query: Value, key: Value, value: Value, log_decay: Value, beta: Value, initial_state: Value
) -> tuple[Value, Value]:
    """Gated delta rule, a recurrence over time.

    Shapes: query, key and value [batch, time, heads, w]; log_decay and beta [batch, time, heads]; the state
    [batch, heads, w, w].  With unit rows k and q of key and query:
        s = exp(log_decay) s;  s = s + k (v - k s) beta;  y = q s / sqrt(w)
    """
    heads, width = b.dims(query, 4)[2:]
    if b.dims(value, 4)[2] != heads or not isinstance(width, int):
        message = f"values with {b.dims(value, at_least=3)[2]} heads for queries with {heads}, or an unknown head size"
        raise UnsupportedError(message)
    emit = OpBuilder(b)
    q, k = (_unit(b, each) for each in (query, key))
    q = emit("Mul", q, 1.0 / float(np.sqrt(width)))
    rows = [_column(b, each) for each in (q, k, value)]
    factors = [_column(b, each) for each in (emit("Exp", log_decay), beta)]
    factors = [emit("Unsqueeze", each, [-1]) for each in factors]
    given = [*rows, *factors]
    facts = [TensorFact(each.dtype, (b.dims(each, at_least=1)[0], *b.dims(each)[2:])) for each in given]
    inner, body, (state, *entries) = step_body(b, (initial_state.fact, *facts))
    body.set_outputs(list(_step(inner, state, entries)))
    scans = len(given)
    last, every = b.results(
        registry.op_defs()["Scan"],
        2,
        initial_state,
        *given,
        body=body,
        num_scan_inputs=scans,
        scan_input_axes=(1,) * scans,
        scan_output_axes=(1,),
    )
    return emit("Squeeze", every, [3]), last


def _step(b: Builder, state: Value, entries: Sequence[Value]) -> tuple[Value, Value]:
    """Compute the next state [batch, heads, w, w] and the output [batch, heads, 1, w]."""
    q, k, v, decay, beta = entries
    emit = OpBuilder(b)
    faded = emit("Mul", state, decay)
    missing = emit("Mul", emit("Sub", v, emit("MatMul", k, faded)), beta)
    new = emit("Add", faded, emit("MatMul", emit("Transpose", k, perm=(0, 1, 3, 2)), missing))
    return new, emit("MatMul", q, new)


def _unit(b: Builder, x: Value) -> Value:
    """Normalize rows to length 1 (L2)."""
    emit = OpBuilder(b)
    total = emit("ReduceSum", emit("Mul", x, x), [-1], keepdims=1)
    return emit("Div", x, emit("Sqrt", emit("Add", total, _LEAST)))


def _column(b: Builder, x: Value) -> Value:
    """Insert an axis of length 1 after the heads."""
    return OpBuilder(b)("Unsqueeze", x, b.constant(np.array([3], np.int64)))


@import_rule("tract_transformers_causal_conv1d_update")
def causal_convolution(b: Builder, input: Value, weight: Value, initial_state: Value) -> tuple[Value, Value]:
    """Causal depthwise convolution with SiLU, and the updated state.

    Shapes: input [batch, channels, time]; weight [channels, k] or [channels, 1, k]; the state [batch, channels, k].
    """
    emit = OpBuilder(b)
    channels, taps = b.dims(weight, at_least=1)[0], b.dims(weight, at_least=1)[-1]
    if not isinstance(channels, int) or not isinstance(taps, int):
        message = "a filter of unknown length"
        raise UnsupportedError(message)
    filters = emit("Reshape", weight, [channels, 1, taps])
    whole = emit("Concat", initial_state, input, axis=2)
    far, axis = np.iinfo(np.int64).max, b.constant(np.array([2], np.int64))
    newer, last = (
        emit("Slice", whole, b.constant(np.array([begin], np.int64)), b.constant(np.array([far])), axis)
        for begin in (1, -taps)
    )
    y = emit("Conv", newer, filters, group=channels)
    return emit("Mul", y, emit("Sigmoid", y)), last
