"""Norms and projections of a layer, in the arrangements in which families store them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.storage import ArrayStorage
from graphport.formats.checkpoint.architecture.net import transposed
from graphport.formats.checkpoint.container.tensors import mapped, rows
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Mul

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.checkpoint.architecture.declaration import Decoder
    from graphport.formats.checkpoint.architecture.net import Net
    from graphport.formats.checkpoint.architecture.weights import Weights
    from graphport.formats.checkpoint.container.tensors import Array
    from graphport.ir.graph import Value

_CODEGEN_PARTS = 4
"""Parts of a matrix of CodeGen, each with its rows of Q, V and K."""


class Projections:
    """The weights of a decoder by role and layer, as operators."""

    def __init__(self, net: Net, decoder: Decoder, weights: Weights) -> None:
        self.net = net
        self.decoder = decoder
        self.weights = weights
        self.dense_layers: set[int] = set()
        """Layers with an MLP in a decoder that has mixtures of experts."""

    def name(self, role: str, layer: int) -> str:
        """Return the name of a tensor of a layer, without `.weight`."""
        return self.decoder.names["layer"].format(layer) + self.decoder.names[role]

    def tensor(self, role: str, shape: tuple[int, ...]) -> Storage:
        """Return the weight of a role outside the layers."""
        return self.weights.float(f"{self.decoder.names[role]}.weight", shape)

    def matrix(self, name: str, out: int, width: int) -> Storage:
        """Return a matrix [out, width]."""
        if self.decoder.in_by_out:
            return transposed(self.weights.float(f"{name}.weight", (width, out)))
        return self.weights.float(f"{name}.weight", (out, width))

    def named_linear(self, x: Value, name: str, out: int, width: int, *, has_bias: bool = False) -> Value:
        """Append the linear layer of a name.  Shapes: [..., width] → [..., out]."""
        bias = self.weights.float(f"{name}.bias", (out,)) if has_bias else None
        return self.net.linear(x, self.matrix(name, out, width), bias, name)

    def norm(self, x: Value, name: str, *, width: int = 0) -> Value:
        """Append the norm of a name over the last axis."""
        net, decoder = self.net, self.decoder
        width = width or decoder.hidden
        if not decoder.norm_affine:
            ones = ArrayStorage(np.ones(width, np.float32))
            return net.layer_norm(x, ones, None, decoder.norm_eps, name)
        weight = self.weights.float(f"{name}.weight", (width,))
        if decoder.norm_offset:
            weight = _offset(weight, decoder.norm_offset)
        if decoder.norm == "rms":
            return net.rms_norm(x, weight, decoder.norm_eps, name)
        bias = self.weights.float(f"{name}.bias", (width,)) if decoder.norm_bias else None
        return net.layer_norm(x, weight, bias, decoder.norm_eps, name)

    def queries_keys_values(self, x: Value, layer: int) -> tuple[Value, Value, Value]:
        """Append the projections of attention and the norms of queries and keys.

        Shapes: x [B, S, hidden] → q [B, heads, S, size], k and v [B, kv heads, S, size].
        """
        net, decoder = self.net, self.decoder
        weights = self._projections(layer)
        parts: list[Value] = []
        for role, (weight, bias) in zip("qkv", weights, strict=True):
            y = net.linear(x, weight, bias, self.name(role, layer) if role in decoder.names else f"layer{layer}.{role}")
            if decoder.qk_norm == "width" and decoder.qk_norm_on and role != "v":
                size = self._heads(role) * decoder.head_size
                y = self.norm(y, self.name(f"{role}_norm", layer), width=size)
            if decoder.clip_qkv:
                y = net.op(Clip, y, net.floats(-decoder.clip_qkv), net.floats(decoder.clip_qkv))
            parts.append(net.split_heads(y, self._heads(role), decoder.head_size))
        q, k, v = parts
        if decoder.qk_norm in {"head", "heads"} and decoder.qk_norm_on and not decoder.qk_norm_after_rotation:
            q, k = self.normalized_heads(q, k, layer)
        return q, k, v

    def normalized_heads(self, q: Value, k: Value, layer: int) -> tuple[Value, Value]:
        """Append norms along the channels of each head.  Shapes: [B, heads, S, size] → [B, heads, S, size]."""
        decoder = self.decoder
        if decoder.qk_norm == "head":
            names = self.name("q_norm", layer), self.name("k_norm", layer)
            return self.norm(q, names[0], width=decoder.head_size), self.norm(k, names[1], width=decoder.head_size)
        return self._norm_by_head(q, "q", layer), self._norm_by_head(k, "k", layer)

    def _norm_by_head(self, x: Value, role: str, layer: int) -> Value:
        net, decoder = self.net, self.decoder
        heads, size = self._heads(role), decoder.head_size
        ones = ArrayStorage(np.ones(size, np.float32))
        y = net.layer_norm(x, ones, None, decoder.norm_eps, f"{role}_norm")
        name = self.name(f"{role}_norm", layer)
        if self.weights.has(f"{name}.weight"):
            weight = self.weights.float(f"{name}.weight", (heads, size)).reshaped((heads, 1, size))
        else:
            each = [self.weights.float(f"{name}.norms.{head}.weight", (size,)) for head in range(heads)]
            weight = ArrayStorage(np.stack([one.numpy() for one in each]).reshape(heads, 1, size))
        return net.op(Mul, y, net.weight(weight, f"{name}.weight"))

    def output(self, x: Value, layer: int) -> Value:
        """Append the projection after attention."""
        decoder = self.decoder
        width = decoder.heads * decoder.head_size
        return self.named_linear(x, self.name("o", layer), decoder.hidden, width, has_bias=decoder.o_bias)

    def _heads(self, role: str) -> int:
        return self.decoder.heads if role == "q" else self.decoder.kv_heads

    def _projections(self, layer: int) -> list[tuple[Storage, Storage | None]]:
        decoder = self.decoder
        sizes = [self._heads(role) * decoder.head_size for role in "qkv"]
        if decoder.qkv == "separate":
            names = [self.name(role, layer) for role in "qkv"]
            return [
                (self.matrix(name, size, decoder.hidden), self._bias(name, size))
                for name, size in zip(names, sizes, strict=True)
            ]
        name = self.name("qkv", layer)
        weight, bias = self.matrix(name, sum(sizes), decoder.hidden), self._bias(name, sum(sizes))
        return [(rows(weight, part), None if bias is None else rows(bias, part)) for part in self.row_indices()]

    def _bias(self, name: str, size: int) -> Storage | None:
        return self.weights.float(f"{name}.bias", (size,)) if self.decoder.qkv_bias else None

    def row_indices(self) -> list[Array]:
        """Return the rows of Q, K and V in a matrix that contains all three."""
        decoder = self.decoder
        heads, groups, size = decoder.heads, decoder.kv_heads, decoder.head_size
        index = np.arange((heads + 2 * groups) * size)
        match decoder.qkv:
            case "heads":
                parts = index.reshape(heads, 3, size)
                found = [parts[:, i] for i in range(3)]
            case "groups":
                parts = index.reshape(groups, heads // groups + 2, size)
                found = [parts[:, :-2], parts[:, -2], parts[:, -1]]
            case "codegen":
                parts = index.reshape(_CODEGEN_PARTS, 3, -1)
                found = [parts[:, 0], parts[:, 2], parts[:, 1]]
            case _:
                found = np.split(index, [heads * size, (heads + groups) * size])
        return [part.reshape(-1) for part in found]


def _offset(weight: Storage, offset: float) -> Storage:
    return mapped(weight, lambda array: array + np.float32(offset))
