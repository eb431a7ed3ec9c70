"""Where weights come from, and windows of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.passes.cases import NO_BN, Case, bn, info, model, node, norm, some

X, Y = info("x", ["N", 4, 8, 7]), info("y", ["N", 6, None, None])
W = some(6, 4, 3, 3)


def sources() -> Iterator[Case]:
    conv = [node("Conv", "x w", "h"), bn("h", "y")]
    folded: dict[str, tuple[Any, dict[str, Any]]] = {
        "chain_of_copies": (node("Identity", "w0", "w"), {"w0": W}),
        "double": (node("Cast", "w0", "w", to=1), {"w0": W.astype(np.float64)}),
        "transposed": (node("Transpose", "w0", "w", perm=[3, 2, 0, 1]), {"w0": W.transpose(2, 3, 1, 0).copy()}),
        "reshaped": (node("Reshape", "w0 s", "w"), {"w0": W.reshape(6, -1), "s": np.array(W.shape)}),
        "scaled": (node("Mul", "w0 k", "w"), {"w0": W, "k": some(6, 1, 1, 1)}),
        "constant_node": (node("Constant", "", "w", value=numpy_helper.from_array(W)), {}),
    }
    for name, (made, constants) in folded.items():
        proto = model([made, *conv], [X], [Y], {**constants, **norm(6)})
        yield Case(f"weight_{name}_conv_bn", proto, (*NO_BN, "nodes:1", "dynamic"))
    half = model([node("Cast", "w0", "w", to=1), *conv], [X], [Y], {"w0": W.astype(np.float16), **norm(6)})
    yield Case("weight_stored_in_half_conv_bn", half, NO_BN)
    yield Case("weight_is_output_conv_bn", model(conv, [X], [Y, info("w", W.shape)], {"w": W, **norm(6)}), NO_BN)
    summed = [node("Conv", "x w", "h"), bn("h", "k"), node("ReduceSum", "w", "q", keepdims=0), node("Add", "k q", "y")]
    yield Case("weight_is_read_elsewhere_conv_bn", model(summed, [X], [Y], {"w": W, **norm(6)}), NO_BN)
    defaulted = model(conv, [X, info("w", W.shape)], [Y], {"w": W, **norm(6)})
    defaulted.ir_version = 3
    yield Case("weight_is_an_input_with_a_default_conv_bn", defaulted)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([1.5, 2.5]), ""), numpy_helper.from_array(np.array([1, 3]), ""), [6]
    )
    nodes = [node("Constant", "", "k", sparse_value=sparse), node("Add", "x k", "y")]
    yield Case("constant_sparse", model(nodes, [info("x", ["N", 6])], [info("y", ["N", 6])]), ("no:Constant",))
    lstm = [node("LSTM", "x w r b", f"{name} _ _", hidden_size=3) for name in ("f", "g")]
    constants = {"w": some(1, 12, 5), "r": some(1, 12, 3), "b": some(1, 24)}
    proto = model([*lstm, node("Add", "f g", "y")], [info("x", [4, "N", 5])], [info("y", [4, 1, "N", 3])], constants)
    yield Case("recurrent_weights_shared", proto, ("unshared", "dynamic"))


def windows() -> Iterator[Case]:
    said: dict[str, tuple[str, dict[str, Any]]] = {
        "same_upper": ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        "same_lower": ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        "uneven_pads": ("Conv", {"pads": [0, 1, 2, 0]}),
        "holes": ("Conv", {"dilations": [2, 3]}),
        "transposed_output_padding": ("ConvTranspose", {"strides": [2, 2], "output_padding": [1, 1]}),
        "transposed_output_shape": ("ConvTranspose", {"strides": [2, 2], "output_shape": [16, 14]}),
        "transposed_same": ("ConvTranspose", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        "transposed_uneven_pads": ("ConvTranspose", {"pads": [0, 1, 1, 0]}),
    }
    for name, (op, attributes) in said.items():
        w = W if op == "Conv" else some(4, 6, 3, 3)
        nodes = [node(op, "x w c", "h", **attributes), node("Mul", "k h", "m"), bn("m", "y")]
        proto = model(nodes, [X], [Y], {"w": w, "c": some(6), "k": some(6, 1, 1), **norm(6)})
        yield Case(f"window_{name}_mul_bn", proto, (*NO_BN, "nodes:1", "dynamic"))
    x = info("x", ["N", 4, 8, 7], TensorProto.FLOAT16)
    y = info("y", ["N", 6, None, None], TensorProto.FLOAT16)
    nodes = [node("Conv", "x w", "h"), bn("h", "k"), node("Add", "k c", "y")]
    constants = {"w": W.astype(np.float16), "c": some(6, 1, 1, dtype=np.float16), **norm(6, dtype=np.float16)}
    yield Case("window_in_half_bn_add", model(nodes, [x], [y], constants), (*NO_BN, "nodes:1"), tolerance=2e-2)
