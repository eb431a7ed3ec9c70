"""Decoders with and without past in the branches of one `If`, in the layout of optimum's `merge_decoders`.

Each branch gives its results the names of the outputs of the model, and all weights are constants of the outer graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

VOCABULARY = 96


@dataclass(frozen=True)
class Decoder:
    """Options of a merged decoder.

    Attributes:
        layers: number of attention layers; each has a cache of keys and one of values.
        width: size of the hidden states.
        is_tied: the projection to the vocabulary uses the transposed embedding.
        is_chained: a node after the `If` computes the model's output, so that its names are later ones.
        opset: of the file.
        seed: of the weights.
    """

    layers: int = 1
    width: int = 16
    is_tied: bool = True
    is_chained: bool = False
    opset: int = 17
    seed: int = 0

    def names(self) -> list[str]:
        return [f"present.{layer}.{part}" for layer in range(self.layers) for part in ("key", "value")]


def merged_decoder(options: Decoder) -> ModelProto:
    rng = np.random.default_rng(options.seed)
    weights = {"embed": rng.normal(size=(VOCABULARY, options.width)).astype(np.float32)}
    for layer in range(options.layers):
        for part in "qkvo":
            array = rng.normal(size=(options.width, options.width)) / np.sqrt(options.width)
            weights[f"w{layer}{part}"] = array.astype(np.float32)
    if not options.is_tied:
        weights["head"] = rng.normal(size=(options.width, VOCABULARY)).astype(np.float32)
    logits = "raw" if options.is_chained else "logits"
    branches: dict[str, Any] = {f"{key}_branch": _branch(options, key, logits) for key in ("then", "else")}
    nodes = [helper.make_node("If", ["use_cache_branch"], [logits, *options.names()], "optimum::if", **branches)]
    if options.is_chained:
        nodes.append(helper.make_node("Neg", [logits], ["logits"]))
    caches = [_info(name.replace("present", "past"), ["b", "q", options.width]) for name in options.names()]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"]), *caches]
    inputs.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    outputs = [_info("logits", ["b", "s", VOCABULARY])]
    outputs += [_info(name, ["b", "t", options.width]) for name in options.names()]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "merged", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", options.opset)], ir_version=8)


def feeds(options: Decoder, *, is_cached: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(options.seed + 1)
    found: dict[str, np.ndarray] = {
        "input_ids": rng.integers(0, VOCABULARY, (2, 3)),
        "use_cache_branch": np.array([is_cached]),
    }
    for name in options.names():
        found[name.replace("present", "past")] = rng.normal(size=(2, 4, options.width)).astype(np.float32)
    return found


def _info(name: str, shape: list[str | int]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _branch(options: Decoder, key: str, logits: str) -> GraphProto:
    """The `then` branch appends to the caches, the `else` branch begins new ones."""
    nodes: list[NodeProto] = [helper.make_node("Gather", ["embed", "input_ids"], ["h0"])]
    for layer in range(options.layers):
        nodes += _layer(options, layer, is_cached=key == "then")
    head = "head"
    if options.is_tied:
        nodes.append(helper.make_node("Transpose", ["embed"], ["tied"], perm=[1, 0]))
        head = "tied"
    nodes.append(helper.make_node("MatMul", [f"h{options.layers}", head], [logits]))
    outputs = [_info(logits, ["b", "s", "v"]), *(_info(name, ["b", "t", "d"]) for name in options.names())]
    return helper.make_graph(nodes, key, [], outputs)


def _layer(options: Decoder, layer: int, *, is_cached: bool) -> list[NodeProto]:
    nodes = [helper.make_node("MatMul", [f"h{layer}", f"w{layer}q"], [f"q{layer}"])]
    for part, name in zip("kv", options.names()[2 * layer : 2 * layer + 2], strict=True):
        own = f"{part}{layer}" if is_cached else name
        nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}{part}"], [own]))
        if is_cached:
            nodes.append(helper.make_node("Concat", [name.replace("present", "past"), own], [name], axis=1))
    key, value = options.names()[2 * layer : 2 * layer + 2]
    return [
        *nodes,
        helper.make_node("Transpose", [key], [f"kt{layer}"], perm=[0, 2, 1]),
        helper.make_node("MatMul", [f"q{layer}", f"kt{layer}"], [f"s{layer}"]),
        helper.make_node("Softmax", [f"s{layer}"], [f"p{layer}"], axis=-1),
        helper.make_node("MatMul", [f"p{layer}", value], [f"a{layer}"]),
        helper.make_node("MatMul", [f"a{layer}", f"w{layer}o"], [f"o{layer}"]),
        helper.make_node("Add", [f"h{layer}", f"o{layer}"], [f"h{layer + 1}"]),
    ]
