"""Names, domains, quantized models, odd files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import helper

from tests.passes.cases import NO_BN, Case, F, bn, graph, info, model, node, norm, some


def odds() -> Iterator[Case]:
    x, y = info("x", [2, 3]), info("y", [2, 3])
    yield Case(
        "nodes_without_names", model([node("Relu", "x", "a"), node("Neg", "a", "b"), node("Relu", "b", "y")], [x], [y])
    )
    yield Case(
        "nodes_of_one_name",
        model(
            [node("Relu", "x", "a", name="n"), node("Neg", "a", "b", name="n"), node("Relu", "b", "y", name="n_1")],
            [x],
            [y],
        ),
    )
    yield Case(
        "strange_names",
        model(
            [node("Relu", "x:0", "a/b;c", name="模型"), helper.make_node("Neg", ["a/b;c"], ["y ü"])],
            [info("x:0", [2, 3])],
            [info("y ü", [2, 3])],
        ),
    )
    gelu = model(
        [node("Identity", "x", "h"), node("Gelu", "h", "k", domain="com.microsoft"), node("Relu", "k", "y")],
        [x],
        [y],
        domains={"com.microsoft": 1},
    )
    yield Case("foreign_domain", gelu, ("has:com.microsoft:Gelu", "no:Identity"))
    fused = model(
        [node("FusedConv", "x w", "h", domain="com.microsoft", activation="Relu"), bn("h", "y")],
        [info("x", [2, 4, 7, 7])],
        [info("y", [2, 6, 5, 5])],
        {"w": some(6, 4, 3, 3), **norm(6)},
        domains={"com.microsoft": 1},
    )
    yield Case("foreign_before_bn", fused, ("has:com.microsoft:FusedConv",))
    late = model([node("Neg", "a", "y"), node("Relu", "x", "a")], [x], [y])
    yield Case("nodes_out_of_order", late)
    q = {
        "s": np.float32(0.05),
        "z": np.uint8(128),
        "ws": np.full(6, 0.01, np.float32),
        "wz": np.zeros(6, np.int8),
        "w": np.random.default_rng(0).integers(-127, 127, (6, 4, 3, 3)).astype(np.int8),
    }
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w ws wz", "wd", axis=0),
        node("Conv", "xd wd", "h"),
        node("QuantizeLinear", "h s z", "hq"),
        node("DequantizeLinear", "hq s z", "y"),
    ]
    x4, y4 = info("x", [2, 4, 7, 7]), info("y", [2, 6, 5, 5])
    yield Case(
        "qdq", model(nodes, [x4], [y4], q, opset=13), ("count:DequantizeLinear=3", "count:QuantizeLinear=2", "unshared")
    )
    nodes = [*nodes[:4], bn("h", "k"), node("QuantizeLinear", "k s z", "kq"), node("DequantizeLinear", "kq s z", "y")]
    yield Case("qdq_bn", model(nodes, [x4], [y4], {**q, **norm(6)}, opset=13), ("count:DequantizeLinear=3", *NO_BN))
    int8 = model(
        [node("Cast", "w", "f", to=F), node("Mul", "f s", "g"), node("MatMul", "x g", "y")],
        [info("x", [2, 40])],
        [info("y", [2, 50])],
        {"w": np.random.default_rng(0).integers(-127, 127, (40, 50)).astype(np.int8), "s": some(50)},
    )
    yield Case("int8_weights_behind_cast", int8, ("count:Cast=1",))
    shape = model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Unsqueeze", "n ax", "m"),
            node("Concat", "m minus", "t", axis=0),
            node("Reshape", "x t", "y"),
        ],
        [info("x", ["N", 3, 4])],
        [info("y", ["N", 12])],
        {"zero": np.array(0), "ax": np.array([0]), "minus": np.array([-1])},
    )
    yield Case("reshape_by_own_shape", shape, ("nodes:1", "dynamic"))
    swap = model(
        [
            node("Shape", "x", "s"),
            node("Slice", "s a b", "t"),
            node("Slice", "s b e", "u"),
            node("Concat", "u t", "v", axis=0),
            node("Reshape", "x v", "y"),
        ],
        [info("x", ["N", "M"])],
        [info("y", ["M", "N"])],
        {"a": np.array([0]), "b": np.array([1]), "e": np.array([2])},
    )
    yield Case("reshape_to_swapped_shape", swap, ("dynamic",))
    fixed = model(
        [
            node("Shape", "x", "s"),
            node("Cast", "s", "f", to=F),
            node("ReduceProd", "f", "p", keepdims=0),
            node("Mul", "x p", "y"),
        ],
        [info("x", [2, 3])],
        [y],
    )
    yield Case("arithmetic_on_fixed_shape", fixed, ("nodes:1",))
    declared = model([node("Relu", "x", "y")], [info("x", ["N", 3])], [info("y", ["M", 3])])
    yield Case("output_of_another_symbol", declared, ("dynamic",))
    wrong = model(
        [node("NonZero", "x", "z"), node("Shape", "z", "s"), node("Cast", "s", "y", to=F)], [x], [info("y", [2])]
    )
    yield Case("data_dependent", wrong)
    sub = helper.make_model(
        graph([node("Twice", "x", "h", domain="local"), bn("h", "y")], [x], [y], norm(3)),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
        functions=[
            helper.make_function(
                "local", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 17)]
            )
        ],
        ir_version=8,
    )
    yield Case("model_function", sub, NO_BN)
