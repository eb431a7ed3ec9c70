"""Decoders: the graph of a causal language model with its key and value caches as inputs and outputs."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.checkpoint.architecture.masks import Masks
from graphport.formats.checkpoint.architecture.mlp import mlp
from graphport.formats.checkpoint.architecture.projections import Projections
from graphport.formats.checkpoint.architecture.rope import (
    Rotation,
    dense_layers,
    layer_types,
    read_rotation,
    rotated_layers,
)
from graphport.ir import states
from graphport.ops.definitions.activation import Softmax
from graphport.ops.definitions.arithmetic import Add, Cos, Max, Mul, Pow, Sin, Sub
from graphport.ops.definitions.attention import Attention, RotaryEmbedding
from graphport.ops.definitions.comparison import Greater, Where
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction.reduce import ReduceMax
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape

if TYPE_CHECKING:
    from graphport.formats.checkpoint.architecture.declaration import Decoder
    from graphport.formats.checkpoint.architecture.net import Net
    from graphport.formats.checkpoint.architecture.weights import Weights
    from graphport.formats.checkpoint.container.config import Config
    from graphport.ir.graph import Graph, Value


class Rotations:
    """Cosines and sines of the positions, computed once for each rotation.  Shapes: [B, S, pairs]."""

    def __init__(self, net: Net, positions: Value) -> None:
        self.net = net
        self.positions = positions
        self._tables: dict[int, tuple[Value, Value]] = {}

    def tables(self, rotation: Rotation) -> tuple[Value, Value]:
        found = self._tables.get(id(rotation))
        if found is None:
            found = self._tables[id(rotation)] = self._compute(rotation)
        return found

    def _compute(self, rotation: Rotation) -> tuple[Value, Value]:
        net = self.net
        frequencies = self._frequencies(rotation)
        places = net.unsqueeze(net.cast(self.positions, DType.FLOAT32), 2)
        angles = net.op(Mul, places, frequencies, stem="angles")
        cos, sin = net.op(Cos, angles, stem="cos"), net.op(Sin, angles, stem="sin")
        return net.scaled(cos, rotation.factor), net.scaled(sin, rotation.factor)

    def _frequencies(self, rotation: Rotation) -> Value:
        net = self.net
        fixed = net.floats(rotation.frequencies, "frequencies")
        if rotation.long is None and rotation.dynamic is None:
            return fixed
        last = net.op(ReduceMax, self.positions, keepdims=0, stem="last_position")
        if rotation.long is not None:
            is_long = net.op(Greater, last, net.integer(rotation.limit - 1), stem="is_long")
            return net.op(Where, is_long, net.floats(rotation.long, "frequencies"), fixed, stem="frequencies")
        return self._grown(rotation, last)

    def _grown(self, rotation: Rotation, last: Value) -> Value:
        """Return theta(L)^(-2i/d) with theta(L) = theta (factor L / limit - factor + 1)^(d / (d - 2))."""
        net = self.net
        theta, factor, width = rotation.dynamic or (1.0, 1.0, 2)
        count = net.op(Max, net.op(Add, last, net.integer(1)), net.integer(rotation.limit), stem="positions")
        growth = net.scaled(net.cast(count, DType.FLOAT32), factor / rotation.limit)
        growth = net.op(Sub, growth, net.floats(factor - 1), stem="growth")
        base = net.scaled(net.op(Pow, growth, net.floats(width / max(width - 2, 1))), theta)
        exponents = -np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        return net.op(Pow, base, net.floats(exponents, "exponents"), stem="frequencies")


class DecoderNet:
    """A decoder under construction."""

    def __init__(self, net: Net, decoder: Decoder, config: Config, weights: Weights) -> None:
        self.net = net
        self.decoder = decoder
        self.parts = Projections(net, decoder, weights)
        self.weights = weights
        self.windowed = layer_types(config, decoder)
        self.parts.dense_layers = dense_layers(config, decoder)
        self.rotated = rotated_layers(config, decoder, self.windowed)
        kinds = set(self.windowed) if any(self.rotated) else set[bool]()
        self.rotations = {
            each: read_rotation(config, decoder, "sliding_attention" if each else "full_attention") for each in kinds
        }
        self.presents: list[tuple[str, Value]] = []

    def graph(self) -> Graph:
        """Return the graph."""
        net, decoder = self.net, self.decoder
        extents = net.graph.extents
        batch, length = extents.declare("batch"), extents.declare("sequence")
        past = extents.declare("past", 0)
        ids = net.input("input_ids", DType.INT64, batch, length)
        mask = net.input("attention_mask", DType.INT64, batch, past + length)
        self.masks = Masks(net, ids, mask)
        has_positions = decoder.positions in {"rope", "learned"} and not decoder.positions_from_mask
        positions = net.input("position_ids", DType.INT64, batch, length) if has_positions else None
        cache = (batch, decoder.kv_heads, past, decoder.head_size)
        self.pasts = [
            tuple(net.input(f"past_key_values.{i}.{kind}", DType.FLOAT32, *cache) for kind in ("key", "value"))
            for i in range(decoder.layers)
        ]
        self.alibi = None
        if decoder.positions == "alibi":
            scale = self._scale(0) if decoder.alibi_rounded else 1.0
            most, is_rounded = decoder.alibi_max, decoder.alibi_rounded
            self.alibi = self.masks.alibi(decoder.heads, most, is_rounded=is_rounded, scale=scale)
        self.tables = None if positions is None else Rotations(net, positions)
        x = self._embed(ids, positions)
        for layer in range(decoder.layers):
            x = self._layer(x, layer)
        outputs = [("logits", self._logits(x)), *self.presents]
        graph = net.finish(outputs)
        for layer, pair in enumerate(self.pasts):
            for value, kind in zip(pair, ("key", "value"), strict=True):
                name = f"present.{layer}.{kind}"
                states.mark(value, states.State(name, f"{value.name}{name}"))
        return graph

    def _embed(self, ids: Value, positions: Value | None) -> Value:
        net, decoder, parts = self.net, self.decoder, self.parts
        width = decoder.embed_size or decoder.hidden
        self.table = net.weight(parts.tensor("embed", (decoder.vocab, width)), f"{decoder.names['embed']}.weight")
        x = net.op(Gather, self.table, ids, stem="embedding")
        scale = decoder.embed_scale * (float(np.float32(sqrt(decoder.hidden))) if decoder.embed_scale_root else 1)
        x = net.scaled(x, scale)
        if width != decoder.hidden:
            x = parts.named_linear(x, decoder.names["project_in"], decoder.hidden, width)
        if decoder.positions == "learned":
            if positions is None:
                positions = self.masks.positions(is_clipped=False)
            if decoder.position_offset:
                positions = net.op(Add, positions, net.integer(decoder.position_offset), stem="positions")
            rows = decoder.context + decoder.position_offset
            table = parts.tensor("positions", (rows, decoder.hidden))
            table_value = net.weight(table, f"{decoder.names['positions']}.weight")
            x = net.add(x, net.op(Gather, table_value, positions, stem="position_embedding"))
        return parts.norm(x, decoder.names["embed_norm"]) if decoder.embed_norm else x

    def _layer(self, x: Value, layer: int) -> Value:
        """Append a block: attention and MLP with their norms and sums."""
        net, decoder = self.net, self.decoder
        if decoder.residual == "parallel":
            h = self._norm(x, layer, "norm1")
            g = self._norm(x, layer, "norm2") if decoder.mlp_norm else h
            return net.add(net.add(self._attention(h, layer), mlp(self.parts, g, layer)), x)
        if decoder.residual == "post":
            x = self._norm(net.add(x, self._attention(x, layer)), layer, "norm1")
            return self._norm(net.add(x, mlp(self.parts, x, layer)), layer, "norm2")
        for op_def, before, after in ((self._attention, "norm1", "after1"), (self._mlp, "norm2", "after2")):
            h = self._norm(x, layer, before) if decoder.norm_before else x
            x = h if decoder.residual_from_norm else x
            h = op_def(h, layer)
            h = self._norm(h, layer, after) if decoder.norm_after else h
            x = net.add(x, net.scaled(h, decoder.residual_scale))
        return x

    def _mlp(self, x: Value, layer: int) -> Value:
        return mlp(self.parts, x, layer)

    def _norm(self, x: Value, layer: int, role: str) -> Value:
        return self.parts.norm(x, self.parts.name(role, layer))

    def _attention(self, x: Value, layer: int) -> Value:
        net, decoder = self.net, self.decoder
        q, k, v = self.parts.queries_keys_values(x, layer)
        if self.rotated[layer] and self.tables is not None:
            rotation = self.rotations[self.windowed[layer]]
            cos, sin = self.tables.tables(rotation)
            size = rotation.size if rotation.size != decoder.head_size else 0
            options = {"interleaved": int(decoder.interleaved), "rotary_embedding_dim": size}
            q, k = (net.op(RotaryEmbedding, each, cos, sin, stem="rotated", **options) for each in (q, k))
            if decoder.qk_norm_after_rotation:
                q, k = self.parts.normalized_heads(q, k, layer)
        past_key, past_value = self.pasts[layer]
        k = net.op(Concat, past_key, k, axis=2, stem="key")
        v = net.op(Concat, past_value, v, axis=2, stem="value")
        self.presents += [(f"present.{layer}.key", k), (f"present.{layer}.value", v)]
        bias = self.masks.bias(decoder.window if self.windowed[layer] else 0, self.alibi)
        scale = self._scale(layer)
        if decoder.sinks:
            y = self._attention_with_sinks(q, k, v, bias, layer)
        else:
            y = net.op(Attention, q, k, v, bias, scale=scale, softcap=decoder.softcap, stem="attention")
        y = net.join_heads(y, decoder.heads * decoder.head_size)
        return self.parts.output(y, layer)

    def _scale(self, layer: int) -> float:
        decoder = self.decoder
        if decoder.scale:
            return decoder.scale
        scale = 1.0 if not decoder.scaled else 1 / sqrt(decoder.query_scalar or decoder.head_size)
        return scale / (layer + 1) if decoder.scale_by_layer else scale

    def _attention_with_sinks(self, q: Value, k: Value, v: Value, bias: Value, layer: int) -> Value:
        """Append attention with one more logit a head, whose share is dropped.

        Shapes: q [B, N, S, H], k and v [B, M, T, H] → [B, N, S, H]; queries of a group are rows of one product.
        """
        net, decoder = self.net, self.decoder
        heads, groups, size = decoder.heads, decoder.kv_heads, decoder.head_size
        each = heads // groups
        lead = net.op(Shape, q, start=0, end=1, stem="batch")
        length = net.op(Shape, q, start=2, end=3, stem="length")
        rows = net.reshape(net.scaled(q, self._scale(layer)), 0, groups, -1, size)
        scores = net.op(MatMul, rows, net.transpose(k, 0, 1, 3, 2), stem="scores")
        total = net.op(Shape, k, start=2, end=3, stem="length")
        shape = net.op(Concat, lead, net.integers(heads), length, total, axis=0, stem="shape")
        scores = net.add(net.op(Reshape, scores, shape, stem="scores"), bias)
        name = self.parts.name("sinks", layer)
        sinks = net.weight(self.weights.float(name, (heads,)).reshaped((1, heads, 1, 1)), name)
        shape = net.op(Concat, lead, net.integers(heads), length, net.integers(1), axis=0, stem="shape")
        widened = net.op(Concat, scores, net.op(Expand, sinks, shape, stem="sinks"), axis=3, stem="scores")
        shares = net.op(Softmax, widened, axis=-1, stem="shares")
        shares = net.op(Slice, shares, net.integers(0), net.integers(-1), net.integers(3), stem="shares")
        group_shape = net.op(
            Concat, lead, net.integers(groups), net.op(Mul, length, net.integers(each)), total, axis=0, stem="shape"
        )
        y = net.op(MatMul, net.op(Reshape, shares, group_shape, stem="shares"), v, stem="attention")
        shape = net.op(Concat, lead, net.integers(heads), length, net.integers(size), axis=0, stem="shape")
        return net.op(Reshape, y, shape, stem="attention")

    def _logits(self, x: Value) -> Value:
        net, decoder, parts = self.net, self.decoder, self.parts
        if decoder.final_norm:
            x = parts.norm(x, decoder.names["final_norm"])
        width = decoder.embed_size or decoder.hidden
        if width != decoder.hidden:
            x = parts.named_linear(x, decoder.names["project_out"], width, decoder.hidden)
        head = decoder.names["head"]
        if decoder.tied:
            logits = net.tied_linear(x, self.table, head)
            if self.weights.has(f"{head}.weight"):
                self.weights.stored(f"{head}.weight", (decoder.vocab, width))
            if decoder.head_bias:
                bias = self.weights.float(f"{head}.bias", (decoder.vocab,))
                logits = net.add(logits, net.weight(bias, f"{head}.bias"))
        else:
            weight = self.weights.float(f"{head}.weight", (decoder.vocab, width))
            bias = self.weights.float(f"{head}.bias", (decoder.vocab,)) if decoder.head_bias else None
            logits = net.linear(x, weight, bias, head)
        logits = net.divided(net.scaled(logits, decoder.logit_scale), decoder.logit_divisor)
        return net.softcapped(logits, decoder.final_softcap)
