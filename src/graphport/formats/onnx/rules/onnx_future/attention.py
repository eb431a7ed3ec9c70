"""Attention that came after the pinned opset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx.rules.onnx_future import DIALECT, JUDGED
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Add, Exp, Mul, Sub
from graphport.ops.definitions.control.loops import Scan
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Transpose
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, vector

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value

_GATED = {"linear": False, "gated": True, "delta": False, "gated_delta": True}
"""Whether the state fades, by rule."""
_BESIDE = {"linear": False, "gated": False, "delta": True, "gated_delta": True}
"""Whether the prediction of the state is subtracted from the value, by rule."""
_RANK = 3


@lower(DIALECT, "LinearAttention", until=JUDGED)
def linear_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    past_state: Value | None = None,
    decay: Value | None = None,
    beta: Value | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
    chunk_size: int = 64,
) -> tuple[Value, ...]:
    """Linear attention: a scan over time of a state S [batch, kv heads, dk, dv], in float32.

    `S = exp(decay) S;  S = S + k (v - k S) beta`, without the terms that the rule omits; `y = scale q S`. Queries of a
    group share the state: they are rows of one product. `chunk_size` does not affect the result.
    """
    del chunk_size
    _check(update_rule, decay, beta, q_num_heads, kv_num_heads)
    dk, dv = _width(b, query, q_num_heads, "query"), _width(b, value, kv_num_heads, "value")
    if _width(b, key, kv_num_heads, "key") != dk:
        message = f"the key size {b.dims(key, at_least=3)[2]} is not {kv_num_heads} heads of {dk}"
        raise ShapeError(message)
    own = dtype_of(query)
    q, k, v = (cast(b, x, DType.FLOAT32) for x in (query, key, value))
    fades, rate, state = (None if x is None else cast(b, x, DType.FLOAT32) for x in (decay, beta, past_state))
    factor = scale or 1 / np.sqrt(dk)
    parts = {
        "q": reshaped(b, b(Mul, q, b.like(q, factor)), (0, 0, kv_num_heads, q_num_heads // kv_num_heads, dk)),
        "k": reshaped(b, k, (0, 0, kv_num_heads, 1, dk)),
        "v": reshaped(b, v, (0, 0, kv_num_heads, 1, dv)),
    }
    if fades is not None:
        # One per head, or one per row of the state.
        parts["decay"] = reshaped(b, b(Exp, fades), (0, 0, kv_num_heads, _width(b, fades, kv_num_heads, "decay"), 1))
    if rate is not None:
        parts["beta"] = reshaped(b, rate, (0, 0, sizes(b.dims(rate, 3)[2:], "beta")[0], 1, 1))
    start = _nothing(b, q, (kv_num_heads, dk, dv)) if state is None else state
    last, every = _scanned(b, start, parts)
    y = cast(b, reshaped(b, every, (0, 0, q_num_heads * dv)), own)
    if not b.wants(1):
        return (y, last)[: b.count]
    return y, cast(b, last, own if past_state is None else dtype_of(past_state))


def _check(rule: str, decay: Value | None, beta: Value | None, heads: int, groups: int) -> None:
    if rule not in _GATED:
        message = f"update_rule is {rule!r}"
        raise ShapeError(message, f"known: {', '.join(_GATED)}")
    for name, operand, wanted in (("decay", decay, _GATED[rule]), ("beta", beta, _BESIDE[rule])):
        if (operand is not None) != wanted:
            message = f"{name} is {'missing' if wanted else 'given'}, and update_rule is {rule!r}"
            raise ShapeError(message)
    if heads <= 0 or groups <= 0 or heads % groups:
        message = f"{heads} query heads are not a multiple of {groups} key heads"
        raise ShapeError(message)


def _width(b: Builder, x: Value, heads: int, name: str) -> int:
    """Return the head size: the last dim of `x`, which has rank 3, divided by `heads`."""
    dims = b.dims(x)
    if len(dims) != _RANK:
        message = f"{name} has rank {len(dims)}"
        raise ShapeError(message, "rank 3: batch, time, heads * size")
    (count,) = sizes(dims[2:], f"the last axis of {name}")
    if count % heads:
        message = f"the size {count} of {name} is not divisible by the {heads} heads"
        raise ShapeError(message)
    return count // heads


def _nothing(b: Builder, like: Value, tail: tuple[int, ...]) -> Value:
    """Return zeros [batch, *tail], float32."""
    batch = b.dims(like, at_least=1)[0]
    if isinstance(batch, int):
        return b.constant(np.zeros((batch, *tail), np.float32))
    shape = b(Concat, b(Shape, like, end=1), vector(b, tail), axis=0)
    return b(Expand, b.constant(np.zeros((1, *tail), np.float32)), shape)


def _scanned(b: Builder, start: Value, parts: dict[str, Value]) -> tuple[Value, ...]:
    """Return the last state, and the outputs of all steps [batch, time, kv heads, group, dv]."""
    body = Graph(f"{b.stem}.step")
    if b.graph is not None:
        b.graph.share_names(body)
    state = body.add_input(body.fresh(f"{b.stem}.state"), start.fact)
    given = {
        name: body.add_input(body.fresh(f"{b.stem}.{name}"), TensorFact(DType.FLOAT32, _step_of(b.dims(x))))
        for name, x in parts.items()
    }
    inside = Builder(b.inference, body, origin=b.origin, stem=f"{b.stem}.step")
    body.set_outputs(list(_step(inside, state, **given)))
    count = len(parts)
    axes = (1,) * count
    return b.results(
        Scan, 2, start, *parts.values(), body=body, num_scan_inputs=count, scan_input_axes=axes, scan_output_axes=(1,)
    )


def _step_of(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return (dims[0], *dims[2:])


def _step(
    b: Builder, state: Value, q: Value, k: Value, v: Value, decay: Value | None = None, beta: Value | None = None
) -> tuple[Value, Value]:
    if decay is not None:
        state = b(Mul, state, decay)
    if beta is not None:
        v = b(Mul, b(Sub, v, b(MatMul, k, state)), beta)
    new = b(Add, state, b(MatMul, b(Transpose, k, perm=(0, 1, 3, 2)), v))
    return new, b(MatMul, q, new)
