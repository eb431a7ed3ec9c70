"""MLPs and mixtures of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.checkpoint.architecture.masks import LOWEST
from graphport.formats.checkpoint.architecture.net import transposed
from graphport.formats.checkpoint.container.tensors import leading, mapped, rows
from graphport.ops.definitions.activation import Clip, Sigmoid, Softmax
from graphport.ops.definitions.arithmetic import Abs, Div, Max, Min, Mul
from graphport.ops.definitions.comparison import Greater, Where
from graphport.ops.definitions.indexing.gathering import GatherElements
from graphport.ops.definitions.indexing.scattering import ScatterElements
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.indices import TopK
from graphport.ops.definitions.reduction.reduce import ReduceSum
from graphport.ops.definitions.reshape import Expand, Reshape, Shape

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.checkpoint.architecture.projections import Projections
    from graphport.ir.graph import Value


def mlp(parts: Projections, x: Value, layer: int) -> Value:
    """Append the MLP of a layer, or its mixture of experts.  Shapes: [B, S, hidden] → [B, S, hidden]."""
    decoder = parts.decoder
    if decoder.experts and layer not in parts.dense_layers:
        return _experts(parts, x, layer)
    down = parts.name("down", layer)
    has_bias = decoder.mlp_bias
    if decoder.mlp == "plain":
        h = parts.named_linear(x, parts.name("up", layer), decoder.inner, decoder.hidden, has_bias=has_bias)
        h = parts.net.activate(h, decoder.act)
        return parts.named_linear(h, down, decoder.hidden, decoder.inner, has_bias=has_bias)
    if decoder.mlp == "joined":
        return _joined_mlp(parts, x, parts.name("gate_up", layer), down, decoder.inner, has_bias=has_bias)
    gate = parts.named_linear(x, parts.name("gate", layer), decoder.inner, decoder.hidden, has_bias=has_bias)
    h = parts.named_linear(x, parts.name("up", layer), decoder.inner, decoder.hidden, has_bias=has_bias)
    h = parts.net.op(Mul, parts.net.activate(gate, decoder.act), h)
    return parts.named_linear(h, down, decoder.hidden, decoder.inner, has_bias=has_bias)


def _joined_mlp(parts: Projections, x: Value, name: str, down: str, inner: int, *, has_bias: bool = False) -> Value:
    """Append an MLP whose gate and up projections are the matrix `name` [2 inner, hidden]."""
    hidden = parts.decoder.hidden
    both = parts.matrix(name, 2 * inner, hidden)
    gate, up = rows(both, np.arange(inner)), rows(both, np.arange(inner, 2 * inner))
    bias = parts.weights.float(f"{name}.bias", (2 * inner,)) if has_bias else None
    h = _gated(parts, x, (gate, up, bias), name)
    return parts.named_linear(h, down, hidden, inner, has_bias=has_bias)


def _gated(parts: Projections, x: Value, weights: tuple[Storage, Storage, Storage | None], name: str) -> Value:
    """Append act(gate(x)) * up(x).  Shapes: gate and up [I, H], bias of both [2 I] → [B, S, I]."""
    net, (gate, up, bias) = parts.net, weights
    inner = gate.shape[0]
    shifts = (None, None) if bias is None else (rows(bias, np.arange(inner)), rows(bias, np.arange(inner, 2 * inner)))
    h = net.activate(net.linear(x, gate, shifts[0], f"{name}.gate"), parts.decoder.act)
    return net.op(Mul, h, net.linear(x, up, shifts[1], f"{name}.up"))


def _experts(parts: Projections, x: Value, layer: int) -> Value:
    """Append a mixture of experts: every expert computes all tokens, weighted by the router."""
    net, decoder = parts.net, parts.decoder
    router_weights = _router_weights(parts, x, layer)
    total: Value | None = None
    for expert in range(decoder.experts):
        share = net.op(
            Slice,
            router_weights,
            net.integers(expert),
            net.integers(expert + 1),
            net.integers(2),
            stem=f"share{expert}",
        )
        y = net.op(Mul, _expert(parts, x, layer, expert), share)
        total = y if total is None else net.add(total, y)
    if total is None:
        return x
    inner = decoder.shared_inner * decoder.shared_experts
    if not inner:
        return total
    name = parts.name("shared", layer)
    if decoder.expert_layout == "stacked":
        shared = _joined_mlp(parts, x, parts.name("shared_gate_up", layer), parts.name("shared_down", layer), inner)
    else:
        shared = _gated_mlp(parts, x, name, inner, has_bias=decoder.mlp_bias)
    if decoder.shared_gate:
        gate = parts.named_linear(x, parts.name("shared_gate", layer), 1, decoder.hidden)
        shared = net.op(Mul, net.op(Sigmoid, gate), shared)
    return net.add(total, shared)


def _router_weights(parts: Projections, x: Value, layer: int) -> Value:
    """Append the router.  Shapes: [B, S, hidden] → [B, S, experts], 0 for experts that are not chosen."""
    net, decoder = parts.net, parts.decoder
    name = parts.name("router", layer)
    scores = parts.named_linear(x, name, decoder.experts, decoder.hidden, has_bias=decoder.router_bias)
    if decoder.router == "sparsemixer":
        return _sparsemixer(parts, scores)
    if decoder.router == "softmax":
        scores = net.op(Softmax, scores, axis=-1, stem="router")
    elif decoder.router == "sigmoid":
        scores = net.op(Sigmoid, scores, stem="router")
    ranked = _ranked(parts, scores, layer)
    values, chosen = _largest(parts, ranked, decoder.experts_per_token)
    if ranked is not scores:
        values = net.op(GatherElements, scores, chosen, axis=2, stem="router")
    if decoder.router == "chosen":
        values = net.op(Softmax, values, axis=-1, stem="router")
    elif decoder.router_normalized:
        values = net.op(Div, values, net.op(ReduceSum, values, net.integers(-1), keepdims=1), stem="router")
    values = net.scaled(values, decoder.router_scale)
    empty = net.op(Expand, net.floats(0), net.op(Shape, scores), stem="router")
    return net.op(ScatterElements, empty, chosen, values, axis=2, stem="router")


def _largest(parts: Projections, scores: Value, count: int) -> tuple[Value, Value]:
    """Append the choice of the largest scores along the last axis; return values and indices."""
    net = parts.net
    net.build.stem = "chosen"
    values, chosen = net.build.results(TopK, 2, scores, net.integers(count), axis=-1)
    return values, chosen


def _ranked(parts: Projections, scores: Value, layer: int) -> Value:
    """Append the scores that rank experts: biased, lowest outside of the kept groups.  Shapes: [B, S, E]."""
    net, decoder = parts.net, parts.decoder
    if decoder.router_correction:
        name = parts.name("router_correction", layer)
        bias = parts.weights.float(name, (decoder.experts,), (1, decoder.experts)).reshaped((decoder.experts,))
        scores = net.add(scores, net.weight(bias, name))
    groups, kept = decoder.router_groups, decoder.router_groups_kept
    if kept >= groups:
        return scores
    grouped = net.reshape(scores, 0, 0, groups, -1)
    pairs, _ = _largest(parts, grouped, 2)
    sums = net.op(ReduceSum, pairs, net.integers(-1), keepdims=0)
    _, best = _largest(parts, sums, kept)
    marks = net.op(Expand, net.floats(0), net.op(Shape, sums))
    ones = net.op(Expand, net.floats(1), net.op(Shape, best))
    marks = net.op(ScatterElements, marks, best, ones, axis=2, stem="groups")
    is_kept = net.cast(net.unsqueeze(marks, 3), DType.BOOL)
    return net.op(Reshape, net.op(Where, is_kept, grouped, net.floats(LOWEST)), net.op(Shape, scores), stem="ranked")


def _sparsemixer(parts: Projections, scores: Value) -> Value:
    """Append the router of PhiMoE: two experts in turn, each weighed among those with scores near the largest.

    Before  z = scores, without the first expert for the second
    After   softmax(z where (max z - z) / max(|scores|, max z) <= 2 jitter) at the largest z
    """
    net, decoder = parts.net, parts.decoder
    total: Value | None = None
    left = scores
    for _ in range(2):
        most, chosen = _largest(parts, left, 1)
        magnitude = net.op(Max, net.op(Abs, scores), most)
        distance = net.op(Div, net.subtract(most, left), magnitude)
        is_far = net.op(Greater, distance, net.floats(2 * decoder.router_jitter))
        shares = net.op(Softmax, net.op(Where, is_far, net.floats(LOWEST), left), axis=-1, stem="router")
        share = net.op(GatherElements, shares, chosen, axis=2, stem="router")
        empty = net.op(Expand, net.floats(0), net.op(Shape, scores), stem="router")
        part = net.op(ScatterElements, empty, chosen, share, axis=2, stem="router")
        lowest = net.op(Expand, net.floats(LOWEST), net.op(Shape, chosen), stem="router")
        left = net.op(ScatterElements, left, chosen, lowest, axis=2, stem="router")
        total = part if total is None else net.add(total, part)
    return scores if total is None else total


def _expert(parts: Projections, x: Value, layer: int, expert: int) -> Value:
    decoder = parts.decoder
    if decoder.expert_layout == "gpt_oss":
        return _gpt_oss_expert(parts, x, layer, expert)
    name = parts.name("expert", layer)
    if decoder.expert_layout == "stacked":
        return _stacked_expert(parts, x, name, expert)
    if decoder.expert_layout == "parts":
        return _parted_expert(parts, x, name, expert)
    return _gated_mlp(parts, x, name.format(expert), decoder.expert_inner)


def _gated_mlp(parts: Projections, x: Value, name: str, inner: int, *, has_bias: bool = False) -> Value:
    net, decoder = parts.net, parts.decoder
    gate, up, down = (name + decoder.names[f"expert_{role}"] for role in ("gate", "up", "down"))
    h = net.activate(parts.named_linear(x, gate, inner, decoder.hidden, has_bias=has_bias), decoder.act)
    h = net.op(Mul, h, parts.named_linear(x, up, inner, decoder.hidden, has_bias=has_bias))
    return parts.named_linear(h, down, decoder.hidden, inner, has_bias=has_bias)


def _stacked_expert(parts: Projections, x: Value, name: str, expert: int) -> Value:
    """Append one of several experts in two tensors: gate and up [E, 2 I, H], and down [E, H, I]."""
    net, decoder = parts.net, parts.decoder
    count, inner, hidden = decoder.experts, decoder.expert_inner, decoder.hidden
    both = leading(parts.weights.float(name + decoder.names["expert_gate_up"], (count, 2 * inner, hidden)), expert)
    down = leading(parts.weights.float(name + decoder.names["expert_down"], (count, hidden, inner)), expert)
    gate, up = rows(both, np.arange(inner)), rows(both, np.arange(inner, 2 * inner))
    label = f"{name}{expert}"
    return net.linear(_gated(parts, x, (gate, up, None), label), down, None, f"{label}.down")


def _parted_expert(parts: Projections, x: Value, name: str, expert: int) -> Value:
    """Append one of several experts in three tensors: gate and up [E, I, H], and down [E, H, I]."""
    net, decoder = parts.net, parts.decoder
    inner, hidden = decoder.expert_inner, decoder.hidden
    gate, up, down = (
        leading(
            parts.weights.float(f"{name}{decoder.names[f'expert_{role}']}.weight", (decoder.experts, *shape)), expert
        )
        for role, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner)))
    )
    label = f"{name}expert{expert}"
    return net.linear(_gated(parts, x, (gate, up, None), label), down, None, f"{label}.down")


def _gpt_oss_expert(parts: Projections, x: Value, layer: int, expert: int) -> Value:
    """Append an expert of gpt-oss: gate and up interleaved [E, H, 2 I], clipped, (up + 1) * gate * sigmoid(a gate)."""
    net, decoder = parts.net, parts.decoder
    count, inner, hidden = decoder.experts, decoder.expert_inner, decoder.hidden
    name = parts.name("expert", layer)
    both = leading(parts.weights.float(f"{name}gate_up_proj", (count, hidden, 2 * inner)), expert)
    bias = leading(parts.weights.float(f"{name}gate_up_proj_bias", (count, 2 * inner)), expert)
    halves: list[Value] = []
    for half, label in ((0, "gate"), (1, "up")):
        weight = mapped(both, lambda array, half=half: array[:, half::2], (hidden, inner))
        shift = mapped(bias, lambda array, half=half: array[half::2], (inner,))
        halves.append(net.linear(x, transposed(weight), shift, f"{name}{expert}.{label}"))
    limit = decoder.swiglu_limit
    gate = net.op(Min, halves[0], net.floats(limit))
    up = net.op(Clip, halves[1], net.floats(-limit), net.floats(limit))
    h = net.op(Mul, gate, net.op(Sigmoid, net.scaled(gate, decoder.swiglu_alpha)))
    h = net.op(Mul, h, net.add(up, net.floats(1)))
    down = leading(parts.weights.float(f"{name}down_proj", (count, inner, hidden)), expert)
    shift = leading(parts.weights.float(f"{name}down_proj_bias", (count, hidden)), expert)
    return net.linear(h, transposed(down), shift, f"{name}{expert}.down")
