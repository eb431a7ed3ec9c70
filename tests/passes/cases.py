"""Small models, each for one corner of one rule of preparation, with what has to hold of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Family = Callable[[], Iterator["Case"]]


@dataclass(frozen=True)
class Case:
    name: str
    model: ModelProto
    facts: tuple[str, ...] = ()
    """`no:Op`, `no_deep:Op`, `count:Op=1`, `nodes:3` (at most), `unshared`, `has:domain:Op`."""
    feeds: dict[str, Any] | None = None
    tolerance: float = 1e-4


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Operands and results as words; `_` is an absent one."""
    given = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, given, ["" if n == "_" else n for n in outputs.split()], **attributes)


def info(name: str, shape: Sequence[Any] | None, dtype: int = F) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], constants: dict[str, Any] | None = None):
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    return helper.make_graph(nodes, "case", list(inputs), list(outputs), tensors)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    domains: dict[str, int] | None = None,
) -> ModelProto:
    imports = [helper.make_opsetid(d, v) for d, v in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph(nodes, inputs, outputs, constants), opset_imports=imports, ir_version=8)


def some(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def norm(channels: int, prefix: str = "", dtype: Any = np.float32) -> dict[str, Any]:
    """Operands of a BatchNormalization."""
    random = np.random.default_rng(channels)
    return {
        f"{prefix}scale": random.uniform(0.5, 2, channels).astype(dtype),
        f"{prefix}shift": random.normal(size=channels).astype(dtype),
        f"{prefix}mean": random.normal(size=channels).astype(dtype),
        f"{prefix}var": random.uniform(0.5, 2, channels).astype(dtype),
    }


def bn(x: str, y: str, prefix: str = "", **attributes: Any) -> Any:
    p = prefix
    return node("BatchNormalization", f"{x} {p}scale {p}shift {p}mean {p}var", y, **attributes)


NO_BN = ("no:BatchNormalization",)
SPATIAL = {1: (7,), 2: (7, 6), 3: (5, 4, 6)}


# Normalization behind weights


def convolutions() -> Iterator[Case]:
    for rank, spatial in SPATIAL.items():
        for group in (1, 2):
            for bias in (False, True):
                w = some(6, 4 // group, *[3] * rank)
                yield _windowed("Conv", rank, group, bias, w, 6, spatial)
                w = some(4, 6 // group, *[3] * rank)
                yield _windowed("ConvTranspose", rank, group, bias, w, 6, spatial)


def _windowed(op: str, rank: int, group: int, bias: bool, w: Any, maps: int, spatial: tuple[int, ...]) -> Case:
    constants = {"w": w, **norm(maps)} | ({"c": some(maps)} if bias else {})
    nodes = [
        node(op, "x w c" if bias else "x w", "h", group=group, strides=[2] * rank, pads=[1] * 2 * rank),
        bn("h", "y"),
    ]
    y = info("y", [2, maps, *[None] * rank])
    name = f"{op.lower()}{rank}d_group{group}{'_bias' if bias else ''}_bn"
    facts = (*NO_BN, f"count:{op}=1", "nodes:1")
    return Case(name, model(nodes, [info("x", [2, 4, *spatial])], [y], constants), facts)


def gemms() -> Iterator[Case]:
    summands = {
        "none": None,
        "scalar": some(1),
        "vector": some(6),
        "row": some(1, 6),
        "column": some(3, 1),
        "full": some(3, 6),
    }
    for what, c in summands.items():
        for attributes in ({}, {"alpha": 0.5, "beta": 2.5}, {"transB": 1}, {"transA": 1, "alpha": -1.5}):
            w = some(6, 5) if attributes.get("transB") else some(5, 6)
            x = [5, 3] if attributes.get("transA") else [3, 5]
            constants = {"w": w, **norm(6)} | ({} if c is None else {"c": c})
            nodes = [node("Gemm", "x w" if c is None else "x w c", "h", **attributes), bn("h", "y")]
            name = "_".join(["gemm", what, *(f"{k}{v}" for k, v in attributes.items()), "bn"])
            yield Case(name, model(nodes, [info("x", x)], [info("y", [3, 6])], constants), (*NO_BN, "nodes:1"))
    constants = {"w": some(5, 6), **norm(6)}
    nodes = [node("Gemm", "x w c", "h"), bn("h", "y")]
    inputs = [info("x", [3, 5]), info("c", [6])]
    yield Case("gemm_computed_c_bn", model(nodes, inputs, [info("y", [3, 6])], constants), NO_BN)
    nodes = [node("Gemm", "x w", "h"), bn("h", "y")]
    inputs = [info("x", [3, 5]), info("w", [5, 6])]
    yield Case("gemm_computed_weight_bn", model(nodes, inputs, [info("y", [3, 6])], norm(6)), NO_BN)


def products() -> Iterator[Case]:
    yield Case(
        "matmul_bn",
        model(
            [node("MatMul", "x w", "h"), bn("h", "y")],
            [info("x", ["N", 5])],
            [info("y", ["N", 6])],
            {"w": some(5, 6), **norm(6)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "matmul_add_bn",
        model(
            [node("MatMul", "x w", "h"), node("Add", "h c", "k"), bn("k", "y")],
            [info("x", ["N", 5])],
            [info("y", ["N", 6])],
            {"w": some(5, 6), "c": some(6), **norm(6)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "matmul_rank3_right_weight_bn",
        model(
            [node("MatMul", "x w", "h"), bn("h", "y")],
            [info("x", [2, 4, 5])],
            [info("y", [2, 4, 6])],
            {"w": some(5, 6), **norm(4)},
        ),
        NO_BN,
    )
    yield Case(
        "matmul_rank3_left_weight_bn",
        model(
            [node("MatMul", "w x", "h"), bn("h", "y")],
            [info("x", [2, 5, 3])],
            [info("y", [2, 4, 3])],
            {"w": some(4, 5), **norm(4)},
        ),
        (*NO_BN, "nodes:2"),
    )
    yield Case(
        "matmul_rank3_left_weight_add_bn",
        model(
            [node("MatMul", "w x", "h"), node("Add", "h c", "k"), bn("k", "y")],
            [info("x", ["N", 5, 3])],
            [info("y", ["N", 4, 3])],
            {"w": some(4, 5), "c": some(4, 1), **norm(4)},
        ),
        (*NO_BN, "nodes:2"),
    )
    yield Case(
        "matmul_batched_weight_bn",
        model(
            [node("MatMul", "x w", "h"), bn("h", "y")],
            [info("x", [2, 4, 3, 5])],
            [info("y", [2, 4, 3, 6])],
            {"w": some(4, 5, 6), **norm(4)},
        ),
        (*NO_BN, "nodes:2"),
    )
    yield Case(
        "matmul_left_constant_rank2_bn",
        model(
            [node("MatMul", "w x", "h"), bn("h", "y")],
            [info("x", [5, 6])],
            [info("y", [4, 6])],
            {"w": some(4, 5), **norm(6)},
        ),
        NO_BN,
    )
    yield Case(
        "matmul_two_computed_bn",
        model(
            [node("MatMul", "x w", "h"), bn("h", "y")],
            [info("x", [3, 5]), info("w", [5, 6])],
            [info("y", [3, 6])],
            norm(6),
        ),
        NO_BN,
    )
    yield Case(
        "matmul_vector_bn_reshape_between",
        model(
            [node("MatMul", "x w", "h"), node("Reshape", "h s", "r"), bn("r", "y")],
            [info("x", [2, 5])],
            [info("y", [2, 3, 2])],
            {"w": some(5, 6), "s": np.array([2, 3, 2]), **norm(3)},
        ),
        NO_BN,
    )


def normalizations() -> Iterator[Case]:
    x = info("x", [2, 4, 7, 6])
    conv = {"w": some(6, 4, 3, 3)}
    out = [info("y", [2, 6, 5, 4])]
    c = node("Conv", "x w", "h")
    yield Case(
        "conv_bn_bn",
        model([c, bn("h", "k"), bn("k", "y", "z")], [x], out, {**conv, **norm(6), **norm(6, "z")}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_bn",
        model([bn("x", "k"), bn("k", "y", "z")], [x], [info("y", [2, 4, 7, 6])], {**norm(4), **norm(4, "z")}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "conv_feeds_two_bns",
        model(
            [c, bn("h", "a"), bn("h", "b2", "z"), node("Add", "a b2", "y")],
            [x],
            out,
            {**conv, **norm(6), **norm(6, "z")},
        ),
        NO_BN,
    )
    yield Case(
        "conv_is_output_bn", model([c, bn("h", "y")], [x], [info("h", [2, 6, 5, 4]), *out], {**conv, **norm(6)}), NO_BN
    )
    yield Case(
        "conv_weight_through_identity_bn",
        model([node("Identity", "w0", "w"), c, bn("h", "y")], [x], out, {"w0": conv["w"], **norm(6)}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_scale_through_identity",
        model(
            [node("Identity", "g0", "scale"), c, bn("h", "y")],
            [x],
            out,
            {**conv, "g0": norm(6)["scale"], **{k: v for k, v in norm(6).items() if k != "scale"}},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_operands_are_one_constant",
        model([c, node("BatchNormalization", "h g g g g", "y")], [x], out, {**conv, "g": norm(6)["scale"]}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "conv_weight_shared_by_two",
        model(
            [c, bn("h", "a"), node("Conv", "x w", "i"), bn("i", "b2", "z"), node("Add", "a b2", "y")],
            [x],
            out,
            {**conv, **norm(6), **norm(6, "z")},
        ),
        (*NO_BN, "nodes:3", "unshared"),
    )
    yield Case("conv_computed_weight_bn", model([c, bn("h", "y")], [x, info("w", [6, 4, 3, 3])], out, norm(6)), NO_BN)
    yield Case(
        "conv_computed_bias_bn",
        model([node("Conv", "x w c", "h"), bn("h", "y")], [x, info("c", [6])], out, {**conv, **norm(6)}),
        NO_BN,
    )
    yield Case(
        "bn_computed_scale",
        model(
            [c, bn("h", "y")],
            [x, info("scale", [6])],
            out,
            {**conv, **{k: v for k, v in norm(6).items() if k != "scale"}},
        ),
    )
    yield Case(
        "bn_computed_mean_reshaped",
        model(
            [c, node("Relu", "m0", "mean"), bn("h", "y")],
            [x, info("m0", [6])],
            out,
            {**conv, **{k: v for k, v in norm(6).items() if k != "mean"}},
        ),
    )
    yield Case(
        "bn_training_14",
        model(
            [c, bn("h", "y _ _".replace(" _ _", " rm rv"), training_mode=1)],
            [x],
            [*out, info("rm", [6]), info("rv", [6])],
            {**conv, **norm(6)},
        ),
    )
    yield Case(
        "bn_training_unused_statistics", model([c, bn("h", "y rm rv", training_mode=1)], [x], out, {**conv, **norm(6)})
    )
    yield Case(
        "bn_unknown_rank",
        model([bn("x", "y")], [info("x", None)], [info("y", None)], norm(4)),
        (),
        {"x": some(2, 4, 5, 3)},
    )
    yield Case(
        "bn_zero_variance",
        model([c, bn("h", "y", epsilon=0.0)], [x], out, {**conv, **norm(6), "var": np.zeros(6, np.float32)}),
    )
    for rank, spatial in ((2, ()), (3, (7,)), (4, (5, 6)), (5, (3, 4, 5)), (6, (2, 3, 2, 3))):
        dims = ["N", 4, *spatial]
        yield Case(
            f"bn_alone_rank{rank}",
            model([node("Relu", "x", "h"), bn("h", "y")], [info("x", dims)], [info("y", dims)], norm(4)),
            NO_BN,
        )
    yield Case(
        "bn_alone_double",
        model(
            [node("Relu", "x", "h"), bn("h", "y")],
            [info("x", [2, 4, 5], TensorProto.DOUBLE)],
            [info("y", [2, 4, 5], TensorProto.DOUBLE)],
            norm(4, dtype=np.float64),
        ),
        NO_BN,
    )
    yield Case(
        "bn_half_with_float_statistics",
        model(
            [node("Cast", "x", "h", to=TensorProto.FLOAT16), bn("h", "k"), node("Cast", "k", "y", to=F)],
            [info("x", [2, 4, 5])],
            [info("y", [2, 4, 5])],
            norm(4),
            opset=15,
        ),
        NO_BN,
        tolerance=5e-3,  # results are rounded to ten bits
    )
    yield Case(
        "bn_spatial0",
        model(
            [bn("x", "y", spatial=0)],
            [info("x", [2, 3, 4, 5])],
            [info("y", [2, 3, 4, 5])],
            {k: v.reshape(3, 4, 5) for k, v in norm(60).items()},
            opset=8,
        ),
    )
    yield Case(
        "bn_before_conv",
        model([bn("x", "h"), node("Conv", "h w", "y")], [x], out, {**conv, **norm(4)}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_before_conv_group_bias",
        model(
            [bn("x", "h"), node("Conv", "h w c", "y", group=2)],
            [x],
            out,
            {"w": some(6, 2, 3, 3), "c": some(6), **norm(4)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_before_padded_conv",
        model(
            [bn("x", "h"), node("Conv", "h w", "y", pads=[1, 1, 1, 1])],
            [x],
            [info("y", [2, 6, 7, 6])],
            {**conv, **norm(4)},
        ),
        NO_BN,
    )
    yield Case(
        "bn_before_conv_same",
        model(
            [bn("x", "h"), node("Conv", "h w", "y", auto_pad="SAME_UPPER")],
            [x],
            [info("y", [2, 6, 7, 6])],
            {**conv, **norm(4)},
        ),
        NO_BN,
    )
    yield Case(
        "bn_without_summand_before_padded_conv",
        model(
            [bn("x", "h"), node("Conv", "h w", "y", pads=[1, 1, 1, 1])],
            [x],
            [info("y", [2, 6, 7, 6])],
            {**conv, **norm(4), "shift": np.zeros(4, np.float32), "mean": np.zeros(4, np.float32)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_before_gemm",
        model(
            [bn("x", "h"), node("Gemm", "h w c", "y", transB=1, alpha=0.5, beta=3.0)],
            [info("x", ["N", 4])],
            [info("y", ["N", 6])],
            {"w": some(6, 4), "c": some(6), **norm(4)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_before_gemm_transA",
        model(
            [bn("x", "h"), node("Gemm", "h w", "y", transA=1)],
            [info("x", [3, 4])],
            [info("y", [4, 6])],
            {"w": some(3, 6), **norm(4)},
        ),
        NO_BN,
    )
    yield Case(
        "bn_before_matmul",
        model(
            [bn("x", "h"), node("MatMul", "h w", "y")],
            [info("x", ["N", 4])],
            [info("y", ["N", 6])],
            {"w": some(4, 6), **norm(4)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "bn_before_matmul_rank3",
        model(
            [bn("x", "h"), node("MatMul", "h w", "y")],
            [info("x", [2, 4, 5])],
            [info("y", [2, 4, 6])],
            {"w": some(5, 6), **norm(4)},
        ),
        NO_BN,
    )
    yield Case(
        "bn_before_conv_as_weight",
        model(
            [bn("w", "h"), node("Conv", "x h", "y")],
            [info("x", [2, 4, 7, 7]), info("w", [6, 4, 3, 3])],
            [info("y", [2, 6, 5, 5])],
            norm(4),
        ),
        NO_BN,
    )
    yield Case(
        "bn_relu_conv",
        model([bn("x", "h"), node("Relu", "h", "r"), node("Conv", "r w", "y")], [x], out, {**conv, **norm(4)}),
        NO_BN,
    )
    yield Case("bn_is_output", model([c, bn("h", "y")], [x], out, {**conv, **norm(6)}), (*NO_BN, "nodes:1"))
    yield Case(
        "conv_reshape_bn",
        model(
            [c, node("Reshape", "h s", "r"), bn("r", "y")],
            [x],
            [info("y", [2, 3, 40])],
            {**conv, "s": np.array([2, 3, 40]), **norm(3)},
        ),
        NO_BN,
    )
    yield Case(
        "conv_add_bn",
        model([c, node("Add", "h c", "k"), bn("k", "y")], [x], out, {**conv, "c": some(1, 6, 1, 1), **norm(6)}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "conv_mul_add_bn",
        model(
            [c, node("Mul", "h s", "k"), node("Add", "k c", "l"), bn("l", "y")],
            [x],
            out,
            {**conv, "c": some(6, 1, 1), "s": some(1, 6, 1, 1), **norm(6)},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "conv_bn_add_bn",
        model(
            [c, bn("h", "k"), node("Add", "k c", "l"), bn("l", "y", "z")],
            [x],
            out,
            {**conv, "c": some(6, 1, 1), **norm(6), **norm(6, "z")},
        ),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "conv_name_clash",
        model([node("Conv", "x w", "h", name="a"), bn("h", "y")], [x], out, {"w": conv["w"], **norm(6)}),
        (*NO_BN, "nodes:1"),
    )
    yield Case(
        "conv_bn_scalar_channels_1",
        model(
            [c, bn("h", "y")],
            [info("x", ["N", 4, "H", "W"])],
            [info("y", ["N", 1, None, None])],
            {"w": some(1, 4, 3, 3), **norm(1)},
        ),
        (*NO_BN, "nodes:1"),
        {"x": some(2, 4, 7, 6)},
    )


# Biases and scales


def arithmetic() -> Iterator[Case]:
    x, out = info("x", [2, 3, 6, 6]), [info("y", [2, 4, 4, 4])]
    w = {"w": some(4, 3, 3, 3)}
    shapes: dict[str, tuple[int, ...]] = {
        "1C11": (1, 4, 1, 1),
        "C11": (4, 1, 1),
        "one": (1,),
        "scalar": (),
        "1111": (1, 1, 1, 1),
    }
    for op in ("Add", "Sub", "Mul", "Div"):
        for what, shape in shapes.items():
            for side in ("right", "left"):
                for bias in (False, True):
                    constants = {**w, "c": some(*shape) + np.float32(2)} | ({"d": some(4)} if bias else {})
                    nodes = [
                        node("Conv", "x w d" if bias else "x w", "h"),
                        node(op, "h c" if side == "right" else "c h", "y"),
                    ]
                    facts = () if op == "Div" and side == "left" else ("nodes:1",)
                    name = f"conv{'_bias' if bias else ''}_{op.lower()}_{what}_{side}"
                    yield Case(name, model(nodes, [x], out, constants), facts)
    for what, shape in {
        "N1HW": (2, 1, 4, 4),
        "1CHW": (1, 4, 4, 4),
        "11H1": (1, 1, 4, 1),
        "W": (4,),
        "2C11": (2, 4, 1, 1),
        "rank5": (1, 1, 4, 1, 1),
    }.items():
        y = [info("y", [1, 2, 4, 4, 4] if len(shape) == 5 else [2, 4, 4, 4])]
        constants = {**w, "c": some(*shape), "d": some(4)}
        yield Case(
            f"conv_bias_add_{what}", model([node("Conv", "x w d", "h"), node("Add", "h c", "y")], [x], y, constants)
        )
    grow = model(
        [node("Conv", "x w", "h"), node("Add", "h c", "y")],
        [x],
        [info("y", [2, 5, 4, 4])],
        {"w": some(1, 3, 3, 3), "c": some(1, 5, 1, 1)},
    )
    yield Case("conv_one_map_add_grows", grow)
    grow = model(
        [node("Conv", "x w", "h"), node("Mul", "h c", "y")],
        [x],
        [info("y", [2, 5, 4, 4])],
        {"w": some(1, 3, 3, 3), "c": some(1, 5, 1, 1)},
    )
    yield Case("conv_one_map_mul_grows", grow)
    square = model(
        [node("Conv", "x w d", "h"), node("Add", "h c", "y")], [x], out, {**w, "d": some(4), "c": some(1, 4, 1, 1)}
    )
    yield Case("conv_bias_add_W_equals_C", square, ("nodes:1",))
    yield Case(
        "conv_add_twice",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "k"), node("Add", "k e", "y")],
            [x],
            out,
            {**w, "c": some(4, 1, 1), "e": some(1)},
        ),
        ("nodes:1",),
    )
    yield Case(
        "conv_add_computed",
        model([node("Conv", "x w", "h"), node("Add", "h z", "y")], [x, info("z", [2, 4, 4, 4])], out, w),
    )
    yield Case("conv_add_itself", model([node("Conv", "x w", "h"), node("Add", "h h", "y")], [x], out, w))
    yield Case(
        "conv_is_output_add",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "y")],
            [x],
            [info("h", [2, 4, 4, 4]), *out],
            {**w, "c": some(4, 1, 1)},
        ),
    )
    yield Case(
        "conv_computed_bias_add",
        model(
            [node("Conv", "x w d", "h"), node("Add", "h c", "y")], [x, info("d", [4])], out, {**w, "c": some(4, 1, 1)}
        ),
    )
    yield Case(
        "conv_computed_weight_add",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "y")], [x, info("w", [4, 3, 3, 3])], out, {"c": some(4, 1, 1)}
        ),
        ("nodes:1",),
    )
    yield Case(
        "conv_computed_weight_mul",
        model(
            [node("Conv", "x w", "h"), node("Mul", "h c", "y")], [x, info("w", [4, 3, 3, 3])], out, {"c": some(4, 1, 1)}
        ),
    )
    yield Case(
        "conv_div_zero",
        model(
            [node("Conv", "x w", "h"), node("Div", "h c", "y")],
            [x],
            out,
            {**w, "c": np.float32([[[1]], [[0]], [[2]], [[3]]])},
        ),
    )
    yield Case(
        "conv_dynamic_add",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "y")],
            [info("x", ["N", 3, "H", "W"])],
            [info("y", ["N", 4, None, None])],
            {**w, "c": some(1, 4, 1, 1)},
        ),
        ("nodes:1",),
        {"x": some(2, 3, 6, 5)},
    )
    yield Case(
        "conv_unknown_rank_add",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "y")],
            [info("x", None)],
            [info("y", None)],
            {**w, "c": some(1, 4, 1, 1)},
        ),
        (),
        {"x": some(2, 3, 6, 5)},
    )
    yield Case(
        "conv1d_add",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [2, 3, 9])],
            [info("y", [2, 4, 7])],
            {"w": some(4, 3, 3), "c": some(4, 1)},
        ),
        ("nodes:1",),
    )
    yield Case(
        "conv3d_add",
        model(
            [node("Conv", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [1, 3, 5, 5, 5])],
            [info("y", [1, 4, 3, 3, 3])],
            {"w": some(4, 3, 3, 3, 3), "c": some(1, 4, 1, 1, 1)},
        ),
        ("nodes:1",),
    )
    for op in ("Add", "Mul"):
        yield Case(
            f"convtranspose_group_{op.lower()}",
            model(
                [node("ConvTranspose", "x w", "h", group=3), node(op, "h c", "y")],
                [x],
                [info("y", [2, 6, 8, 8])],
                {"w": some(3, 2, 3, 3), "c": some(6, 1, 1)},
            ),
            ("nodes:1",),
        )
    for what, shape in {
        "vector": (6,),
        "row": (1, 6),
        "scalar": (),
        "one": (1,),
        "column": (3, 1),
        "full": (3, 6),
    }.items():
        for attributes in ({}, {"alpha": 2.0, "beta": 0.5, "transB": 1}):
            g = {"w": some(6, 5) if attributes else some(5, 6), "c": some(*shape), "d": some(6)}
            for c in ("x w", "x w d"):
                name = f"gemm{'_c' if 'd' in c else ''}{'_scaled' if attributes else ''}_add_{what}"
                yield Case(
                    name,
                    model(
                        [node("Gemm", c, "h", **attributes), node("Add", "c h", "y")],
                        [info("x", [3, 5])],
                        [info("y", [3, 6])],
                        g,
                    ),
                    ("nodes:1",),
                )
    for op in ("Sub", "Mul", "Div"):
        yield Case(
            f"gemm_{op.lower()}",
            model(
                [node("Gemm", "x w d", "h", beta=0.5), node(op, "h c", "y")],
                [info("x", ["N", 5])],
                [info("y", ["N", 6])],
                {"w": some(5, 6), "c": some(6) + np.float32(3), "d": some(6)},
            ),
            ("nodes:1",),
        )
    yield Case(
        "gemm_dynamic_add_full",
        model(
            [node("Gemm", "x w", "h"), node("Add", "h c", "y")],
            [info("x", ["N", 5])],
            [info("y", ["N", 6])],
            {"w": some(5, 6), "c": some(3, 6)},
        ),
        (),
        {"x": some(3, 5)},
    )
    yield Case(
        "gemm_add_rank3",
        model(
            [node("Gemm", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [3, 5])],
            [info("y", [2, 3, 6])],
            {"w": some(5, 6), "c": some(2, 3, 6)},
        ),
    )
    yield Case(
        "gemm_one_row_add_grows",
        model(
            [node("Gemm", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [1, 5])],
            [info("y", [3, 6])],
            {"w": some(5, 6), "c": some(3, 6)},
        ),
    )
    yield Case(
        "gemm_computed_c_add",
        model(
            [node("Gemm", "x w d", "h", beta=0.5), node("Add", "h c", "y")],
            [info("x", [3, 5]), info("d", [6])],
            [info("y", [3, 6])],
            {"w": some(5, 6), "c": some(6)},
        ),
    )
    yield Case(
        "gemm_integers_add",
        model(
            [node("Gemm", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [3, 5], TensorProto.INT32)],
            [info("y", [3, 6], TensorProto.INT32)],
            {"w": np.arange(30, dtype=np.int32).reshape(5, 6), "c": np.arange(6, dtype=np.int32)},
        ),
    )
    yield Case(
        "matmul_add",
        model(
            [node("MatMul", "x w", "h"), node("Add", "h c", "y")],
            [info("x", ["N", 5])],
            [info("y", ["N", 6])],
            {"w": some(5, 6), "c": some(6)},
        ),
        ("nodes:1", "count:Gemm=1"),
    )
    yield Case(
        "matmul_add_scalar",
        model(
            [node("MatMul", "x w", "h"), node("Add", "h c", "y")],
            [info("x", ["N", 5])],
            [info("y", ["N", 6])],
            {"w": some(5, 6), "c": some()},
        ),
    )
    yield Case(
        "matmul_rank3_add",
        model(
            [node("MatMul", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [2, 3, 5])],
            [info("y", [2, 3, 6])],
            {"w": some(5, 6), "c": some(6)},
        ),
    )
    yield Case(
        "matmul_add_grows",
        model(
            [node("MatMul", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [1, 5])],
            [info("y", [3, 6])],
            {"w": some(5, 6), "c": some(3, 6)},
        ),
    )
    yield Case(
        "matmul_left_constant_add",
        model(
            [node("MatMul", "w x", "h"), node("Add", "h c", "y")],
            [info("x", [5, 6])],
            [info("y", [4, 6])],
            {"w": some(4, 5), "c": some(6)},
        ),
    )
    yield Case(
        "matmul_add_is_output",
        model(
            [node("MatMul", "x w", "h"), node("Add", "h c", "y")],
            [info("x", [3, 5])],
            [info("h", [3, 6]), info("y", [3, 6])],
            {"w": some(5, 6), "c": some(6)},
        ),
    )
    yield Case(
        "matmul_mul",
        model(
            [node("MatMul", "x w", "h"), node("Mul", "h c", "y")],
            [info("x", [2, 3, 5])],
            [info("y", [2, 3, 6])],
            {"w": some(5, 6), "c": some(1)},
        ),
        ("nodes:1",),
    )


# Constants, copies, dead code


def constants() -> Iterator[Case]:
    x, y = info("x", [2, 3]), info("y", [2, 3])
    tensor = numpy_helper.from_array(some(2, 3), "t")
    forms = {
        "value": {"value": tensor},
        "float": {"value_float": 1.5},
        "floats": {"value_floats": [1.0, 2.0, 3.0]},
    }
    for what, attributes in forms.items():
        yield Case(
            f"constant_{what}",
            model([node("Constant", "", "k", **attributes), node("Add", "x k", "y")], [x], [y]),
            ("no:Constant", "nodes:1"),
        )
    ints = model([node("Constant", "", "s", value_ints=[3, 2]), node("Reshape", "x s", "y")], [x], [info("y", [3, 2])])
    yield Case("constant_ints", ints, ("no:Constant",))
    yield Case(
        "constant_int",
        model([node("Constant", "", "s", value_int=1), node("Gather", "x s", "y")], [x], [info("y", [3])]),
        ("no:Constant",),
    )
    k = node("Constant", "", "k", value=tensor)
    yield Case("constant_is_output", model([node("Relu", "x", "y"), k], [x], [y, info("k", [2, 3])]), ("no:Constant",))
    yield Case("constant_is_output_and_used", model([k, node("Add", "x k", "y")], [x], [y, info("k", [2, 3])]))
    yield Case(
        "constant_is_output_twice",
        model([k, node("Identity", "k", "l"), node("Add", "x k", "y")], [x], [y, info("k", [2, 3]), info("l", [2, 3])]),
    )
    yield Case(
        "initializer_is_output", model([node("Add", "x k", "y")], [x], [y, info("k", [2, 3])], {"k": some(2, 3)})
    )
    yield Case("constant_unused", model([k, node("Relu", "x", "y")], [x], [y]), ("nodes:1",))
    yield Case(
        "constant_chain",
        model(
            [
                k,
                node("Neg", "k", "n"),
                node("Transpose", "n", "t2", perm=[1, 0]),
                node("Transpose", "t2", "u", perm=[1, 0]),
                node("Add", "x u", "y"),
            ],
            [x],
            [y],
        ),
        ("nodes:1",),
    )
    yield Case(
        "constant_folded_is_output",
        model([node("Neg", "k", "y2"), node("Add", "x y2", "y")], [x], [y, info("y2", [2, 3])], {"k": some(2, 3)}),
    )
    yield Case("all_constant", model([node("Neg", "k", "y")], [], [y], {"k": some(2, 3)}))
    yield Case(
        "strings",
        model(
            [node("Constant", "", "s", value_strings=[b"a", b"b"]), node("Identity", "s", "y")],
            [],
            [info("y", [2], TensorProto.STRING)],
        ),
    )
    large = model(
        [node("ConstantOfShape", "s", "k"), node("Add", "x k", "y")],
        [info("x", [1])],
        [info("y", [1000, 1000])],
        {"s": np.array([1000, 1000])},
    )
    yield Case("large_constant_of_shape", large, ("count:ConstantOfShape=1",))
    shared = {"c": some(3)}
    yield Case(
        "shared_initializer",
        model([node("Add", "x c", "a"), node("Mul", "a c", "b"), node("Sub", "b c", "y")], [x], [y], shared),
        ("unshared",),
    )
    yield Case(
        "initializer_twice_in_node",
        model([node("Add", "x x", "a"), node("Clip", "a c c", "y")], [x], [y], {"c": np.float32(0.5)}),
        ("unshared",),
    )
    yield Case(
        "shared_is_output",
        model([node("Add", "x c", "a"), node("Mul", "a c", "y")], [x], [y, info("c", [3])], shared),
        ("unshared",),
    )
    yield Case(
        "shared_axes",
        model(
            [node("Unsqueeze", "x a", "u"), node("Squeeze", "u a", "v"), node("Unsqueeze", "v a", "y")],
            [x],
            [info("y", [1, 2, 3])],
            {"a": np.array([0])},
        ),
        ("unshared",),
    )
    yield Case(
        "shared_slope",
        model([node("PRelu", "x s", "a"), node("PRelu", "a s", "y")], [x], [y], {"s": some(3)}),
        ("unshared",),
    )
    names = {"PPQ_Variable_0": some(3), "generated_name_0": some(3)}
    yield Case(
        "names_of_others",
        model(
            [
                node("Add", "x PPQ_Variable_0", "a", name="generated_name_0"),
                node("Mul", "a PPQ_Variable_0", "b"),
                node("Add", "b generated_name_0", "y"),
            ],
            [x],
            [y],
            names,
        ),
        ("unshared",),
    )


def copies() -> Iterator[Case]:
    x, y = info("x", [2, 3]), info("y", [2, 3])
    i = node("Identity", "x", "h")
    yield Case("identity_first", model([i, node("Relu", "h", "y")], [x], [y]), ("no:Identity",))
    yield Case("identity_last", model([node("Relu", "x", "h"), node("Identity", "h", "y")], [x], [y]), ("no:Identity",))
    yield Case(
        "identity_between_input_and_output", model([node("Identity", "x", "y")], [x], [y]), ("count:Identity=1",)
    )
    yield Case(
        "identity_chain_between_input_and_output",
        model([i, node("Identity", "h", "y")], [x], [y]),
        ("count:Identity=1",),
    )
    yield Case(
        "identity_two_outputs",
        model(
            [node("Relu", "x", "h"), node("Identity", "h", "y"), node("Identity", "h", "z")],
            [x],
            [y, info("z", [2, 3])],
        ),
        ("nodes:2",),
    )
    yield Case(
        "identity_output_is_used",
        model([node("Relu", "x", "h"), node("Identity", "h", "y"), node("Neg", "h", "z")], [x], [y, info("z", [2, 3])]),
        ("no:Identity",),
    )
    yield Case(
        "identity_both_outputs",
        model([node("Relu", "x", "h"), node("Identity", "h", "y")], [x], [y, info("h", [2, 3])]),
    )
    yield Case(
        "identity_of_initializer",
        model([node("Identity", "c", "h"), node("Add", "x h", "y")], [x], [y], {"c": some(3)}),
        ("no:Identity",),
    )
    yield Case(
        "identity_of_shared_initializer",
        model([node("Identity", "c", "h"), node("Add", "x h", "a"), node("Add", "a c", "y")], [x], [y], {"c": some(3)}),
        ("no:Identity", "unshared"),
    )
    yield Case("input_is_output", model([node("Relu", "x", "y")], [x], [y, x]))
    yield Case("input_unused", model([node("Relu", "x", "y")], [x, info("z", ["N", 4])], [y]))
    yield Case("output_twice", model([node("Relu", "x", "y"), node("Identity", "y", "z")], [x], [y, info("z", [2, 3])]))
    yield Case(
        "dead_chain",
        model([node("Relu", "x", "a"), node("Neg", "a", "b"), node("Neg", "b", "c"), node("Relu", "x", "y")], [x], [y]),
        ("nodes:1",),
    )
    yield Case(
        "dead_part_of_split",
        model(
            [node("Split", "x", "a b c", axis=1), node("Relu", "a", "d"), node("Neg", "b", "y")],
            [x],
            [info("y", [2, 1])],
            opset=11,
        ),
        ("nodes:2",),
    )
    for opset in (7, 10, 12, 13):
        yield Case(
            f"dropout_{opset}",
            model([node("Dropout", "x", "h"), node("Relu", "h", "y")], [x], [y], opset=opset),
            ("no:Dropout", "nodes:1"),
        )
    yield Case(
        "dropout_last", model([node("Relu", "x", "h"), node("Dropout", "h", "y")], [x], [y], opset=13), ("no:Dropout",)
    )
    yield Case("dropout_alone", model([node("Dropout", "x", "y")], [x], [y], opset=13), ("no:Dropout",))
    yield Case(
        "dropout_ratio_off",
        model(
            [node("Dropout", "x r t", "h"), node("Relu", "h", "y")],
            [x],
            [y],
            {"r": np.float32(0.5), "t": np.array(False)},
            opset=13,
        ),
        ("no:Dropout",),
    )
    yield Case(
        "dropout_training_ratio_0",
        model(
            [node("Dropout", "x r t", "h"), node("Relu", "h", "y")],
            [x],
            [y],
            {"r": np.float32(0), "t": np.array(True)},
            opset=13,
        ),
        ("no:Dropout",),
    )
    yield Case(
        "dropout_mask",
        model(
            [node("Dropout", "x", "h k"), node("Cast", "k", "z", to=F), node("Relu", "h", "y")],
            [x],
            [y, info("z", [2, 3])],
            opset=13,
        ),
        ("no:Dropout",),
    )
    yield Case(
        "dropout_mask_is_output",
        model([node("Dropout", "x", "y k")], [x], [y, info("k", [2, 3], B)], opset=13),
        ("no:Dropout",),
    )
    yield Case("cast_same", model([node("Cast", "x", "h", to=F), node("Relu", "h", "y")], [x], [y]), ("no:Cast",))
    yield Case(
        "transpose_same",
        model([node("Transpose", "x", "h", perm=[0, 1]), node("Relu", "h", "y")], [x], [y]),
        ("no:Transpose",),
    )
    yield Case(
        "reshape_same",
        model(
            [node("Reshape", "x s", "h"), node("Relu", "h", "y")],
            [info("x", ["N", 3])],
            [info("y", ["N", 3])],
            {"s": np.array([-1, 3])},
        ),
        ("no:Reshape",),
    )
    yield Case(
        "pad_0",
        model([node("Pad", "x p", "h"), node("Relu", "h", "y")], [x], [y], {"p": np.zeros(4, np.int64)}),
        ("no:Pad",),
    )
    yield Case(
        "slice_all",
        model(
            [node("Slice", "x s e", "h"), node("Relu", "h", "y")],
            [x],
            [y],
            {"s": np.zeros(2, np.int64), "e": np.array([2, 1 << 60])},
        ),
        ("no:Slice",),
    )
    yield Case(
        "concat_one", model([node("Concat", "x", "h", axis=0), node("Relu", "h", "y")], [x], [y]), ("no:Concat",)
    )
    yield Case(
        "expand_same",
        model([node("Expand", "x s", "h"), node("Relu", "h", "y")], [x], [y], {"s": np.array([1, 3])}),
        ("no:Expand",),
    )


# Old forms


def old_forms() -> Iterator[Case]:
    x, y = info("x", [2, 5]), info("y", [2, 5])
    feeds = {"x": np.array([[-3e10, -1, 0, 1, 3e10], [np.inf, -np.inf, 0.25, 7, -7]], np.float32)}
    for opset in (7, 10):
        for what, attributes in {
            "none": {},
            "min": {"min": 0.5},
            "max": {"max": 0.5},
            "both": {"min": -1.0, "max": 6.0},
        }.items():
            yield Case(
                f"clip{opset}_{what}", model([node("Clip", "x", "y", **attributes)], [x], [y], opset=opset), (), feeds
            )
    low, high = {"a": np.float32(-1)}, {"b": np.float32(6)}
    for opset in (11, 13):
        for what, (operands, given) in {
            "none": ("x", {}),
            "min": ("x a", low),
            "max": ("x _ b", high),
            "both": ("x a b", low | high),
        }.items():
            yield Case(
                f"clip{opset}_{what}", model([node("Clip", operands, "y")], [x], [y], given, opset=opset), (), feeds
            )
    yield Case(
        "clip_named_bounds",
        model(
            [node("Clip", "x", "y", name="c", min=0.0), node("Identity", "c_min", "z")],
            [x],
            [y, info("z", [1])],
            {"c_min": some(1)},
            opset=10,
        ),
        (),
        feeds,
    )
    s = info("x", [4, 6, 5])
    for what, attributes in {
        "plain": {"starts": [1, 2], "ends": [3, 5]},
        "axes": {"starts": [1], "ends": [4], "axes": [1]},
        "negative": {"starts": [-3], "ends": [-1], "axes": [2]},
        "beyond": {"starts": [0, -100], "ends": [1000, 2147483647], "axes": [0, 1]},
    }.items():
        yield Case(
            f"slice1_{what}", model([node("Slice", "x", "y", **attributes)], [s], [info("y", [None] * 3)], opset=9)
        )
    slices = {
        "steps": ([0], [6], [1], [2]),
        "backwards": ([-1], [-(1 << 62)], [1], [-1]),
        "empty": ([3], [3], [1], [1]),
    }
    for what, parts in slices.items():
        given = dict(zip("abcd", map(np.array, parts), strict=True))
        yield Case(
            f"slice_{what}", model([node("Slice", "x a b c d", "y")], [s], [info("y", [None] * 3)], given, opset=10)
        )
    p = info("x", [1, 2, 4, 4])
    for mode in ("constant", "reflect", "edge"):
        for value in (0.0, 1.5):
            attributes = {"pads": [0, 0, 1, 2, 0, 0, 2, 1], "mode": mode, "value": value}
            yield Case(
                f"pad2_{mode}_{value}",
                model([node("Pad", "x", "y", **attributes)], [p], [info("y", [1, 2, 7, 7])], opset=10),
            )
    yield Case(
        "pad2_negative",
        model([node("Pad", "x", "y", pads=[0, 0, -1, 1, 0, 0, 0, -1])], [p], [info("y", [1, 2, 3, 4])], opset=10),
    )
    for opset, mode in ((11, "constant"), (13, "reflect"), (18, "edge"), (19, "wrap")):
        given = {"p": np.array([0, 0, 1, 2, 0, 0, 2, 1]), "v": np.float32(1.5)}
        yield Case(
            f"pad{opset}_{mode}",
            model([node("Pad", "x p v", "y", mode=mode)], [p], [info("y", [1, 2, 7, 7])], given, opset=opset),
        )
    r = info("x", [1, 2, 5, 6])
    for mode in ("nearest", "linear"):
        for what, scales in {"up": [1, 1, 2, 2], "down": [1, 1, 0.5, 0.5], "fraction": [1, 1, 1.3, 0.7]}.items():
            out = [info("y", [1, 2, None, None])]
            given = {"s": np.float32(scales)}
            yield Case(
                f"resize10_{mode}_{what}", model([node("Resize", "x s", "y", mode=mode)], [r], out, given, opset=10)
            )
            if what != "down":
                yield Case(
                    f"upsample9_{mode}_{what}",
                    model(
                        [node("Upsample", "x s", "y", mode=mode)], [r], out, {"s": np.maximum(given["s"], 1)}, opset=9
                    ),
                )
        yield Case(
            f"upsample7_{mode}",
            model(
                [node("Upsample", "x", "y", mode=mode, scales=[1.0, 1.0, 2.0, 3.0])],
                [r],
                [info("y", [1, 2, 10, 18])],
                opset=7,
            ),
        )
        for how in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            yield Case(
                f"resize11_{mode}_{how}",
                model(
                    [
                        node(
                            "Resize",
                            "x _ _ z".replace(" _ _", " q q"),
                            "y",
                            mode=mode,
                            coordinate_transformation_mode=how,
                        )
                    ],
                    [r],
                    [info("y", [1, 2, 9, 4])],
                    {"q": np.zeros(0, np.float32), "z": np.array([1, 2, 9, 4])},
                    opset=11,
                ),
            )
    kinds = [
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT32,
        I64,
        B,
        TensorProto.UINT16,
    ]
    for kind in kinds:
        name = TensorProto.DataType.Name(kind).lower()
        yield Case(
            f"cast_{name}",
            model(
                [node("Cast", "x", "h", to=kind), node("Cast", "h", "y", to=F)],
                [info("x", [2, 3])],
                [info("y", [2, 3])],
            ),
            ("count:Cast=2",),
        )
    for kind in (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2):
        for saturate in (0, 1):
            name = f"cast_{TensorProto.DataType.Name(kind).lower()}_saturate{saturate}"
            yield Case(
                name,
                model(
                    [node("Cast", "x", "h", to=kind, saturate=saturate), node("Cast", "h", "y", to=F)],
                    [info("x", [2, 3])],
                    [info("y", [2, 3])],
                    opset=19,
                ),
                (),
                {"x": np.float32([[1e5, -1e5, 3.3], [0.1, 449, -0.0]])},
            )
    yield Case(
        "cast_string",
        model(
            [node("Cast", "x", "h", to=TensorProto.STRING), node("Cast", "h", "y", to=F)],
            [info("x", [2, 3])],
            [info("y", [2, 3])],
        ),
    )
    for opset in range(7, 22):
        yield _network(opset)


def _network(opset: int) -> Case:
    """Every rule at once, at every opset."""
    constants = {
        "w": some(8, 3, 3, 3),
        **norm(8),
        "w2": some(8, 1, 3, 3),
        **norm(8, "z"),
        "bias": some(8, 1, 1),
        "fc": some(4, 8),
        "fb": some(4),
    }
    if opset < 11:
        clip = node("Clip", "k", "l", min=0.0, max=6.0)
    else:
        clip = node("Clip", "k lo hi", "l")
        constants |= {"lo": np.float32(0), "hi": np.float32(6)}
    nodes = [
        node("Conv", "x w", "h", pads=[1, 1, 1, 1]),
        bn("h", "k"),
        clip,
        node("Conv", "l w2", "m", group=8),
        node("Add", "m bias", "n"),
        bn("n", "o", "z"),
        node("Relu", "o", "p"),
        node("Identity", "p", "q"),
        node("GlobalAveragePool", "q", "r"),
        node("Flatten", "r", "s"),
        node("Dropout", "s", "t"),
        node("Gemm", "t fc fb", "u", transB=1),
        node("Softmax", "u", "y", axis=1),
    ]
    facts = (*NO_BN, "no:Identity", "no:Dropout", "nodes:8", "dynamic")
    return Case(
        f"network_opset{opset:02}",
        model(nodes, [info("x", ["N", 3, 8, 8])], [info("y", ["N", 4])], constants, opset=opset),
        facts,
    )


# Bodies


def bodies() -> Iterator[Case]:
    x, y, c = info("x", [2, 4, 5]), info("y", [2, 4, 5]), info("c", [], B)
    yield Case(
        "if_captures",
        model(
            [
                node("Relu", "x", "h"),
                node(
                    "If",
                    "c",
                    "y",
                    then_branch=graph([node("Neg", "h", "a")], [], [info("a", [2, 4, 5])]),
                    else_branch=graph([node("Abs", "h", "b")], [], [info("b", [2, 4, 5])]),
                ),
            ],
            [x, c],
            [y],
        ),
    )
    yield Case("if_bn_inside", _branches([bn("h", "a")], norm(4)), ("no_deep:BatchNormalization",))
    yield Case(
        "if_conv_bn_inside",
        _branches([node("Conv", "h w", "i", pads=[1, 1]), bn("i", "a")], {"w": some(4, 4, 3), **norm(4)}),
        ("no_deep:BatchNormalization",),
    )
    yield Case("if_identity_of_outer", _branches([node("Identity", "h", "a")], {}))
    yield Case("if_identity_of_constant", _branches([node("Identity", "k", "a")], {"k": some(2, 4, 5)}))
    yield Case(
        "if_constant_inside",
        _branches([node("Constant", "", "k", value=numpy_helper.from_array(some(4, 1))), node("Add", "h k", "a")], {}),
        ("no_deep:Constant",),
    )
    yield Case(
        "if_returns_constant", _branches([node("Constant", "", "a", value=numpy_helper.from_array(some(2, 4, 5)))], {})
    )
    yield Case("if_dropout_of_outer", _branches([node("Dropout", "h", "a")], {}), ("no_deep:Dropout",))
    yield Case(
        "if_shares_constant",
        _branches([node("Add", "h k", "a")], {"k": some(4, 1)}, [node("Add", "x k", "h")]),
        ("unshared",),
    )
    conv = [node("Conv", "x w", "h", pads=[1, 1])]
    yield Case(
        "if_bn_of_outer_conv",
        _branches([bn("h", "a")], {"w": some(4, 4, 3), **norm(4)}, conv),
        ("no_deep:BatchNormalization",),
    )
    yield Case(
        "if_captures_bn",
        _branches(
            [node("Neg", "h", "a")],
            {"w": some(4, 4, 3), **norm(4)},
            [node("Conv", "x w", "i", pads=[1, 1]), bn("i", "h")],
        ),
        NO_BN,
    )
    yield Case("loop_bn", _loop([bn("s", "t")], norm(4)), ("no_deep:BatchNormalization",))
    yield Case(
        "loop_conv_bn_add",
        _loop(
            [node("Conv", "s w", "u", pads=[1, 1]), node("Add", "u k", "v"), bn("v", "t")],
            {"w": some(4, 4, 3) / 4, "k": some(4, 1), **norm(4)},
        ),
        ("no_deep:BatchNormalization",),
    )
    yield Case("loop_passes_through", _loop([node("Identity", "s", "t")], {}))
    yield Case("loop_shape_grows", _growing())
    scan = graph(
        [node("Add", "s e", "t"), node("Mul", "t k", "o")],
        [info("s", [3]), info("e", [3])],
        [info("t", [3]), info("o", [3])],
    )
    yield Case(
        "scan_captures",
        model(
            [node("Identity", "k0", "k"), node("Scan", "z x", "f y", body=scan, num_scan_inputs=1)],
            [info("x", [4, 3])],
            [info("f", [3]), info("y", [4, 3])],
            {"z": some(3), "k0": some(3)},
        ),
    )
    nested = graph(
        [
            node(
                "If",
                "c",
                "a",
                then_branch=graph([bn("h", "p")], [], [info("p", [2, 4, 5])]),
                else_branch=graph([node("Neg", "h", "q")], [], [info("q", [2, 4, 5])]),
            )
        ],
        [],
        [info("a", [2, 4, 5])],
    )
    other = graph([node("Abs", "h", "b")], [], [info("b", [2, 4, 5])])
    yield Case(
        "if_in_if",
        model(
            [node("Relu", "x", "h"), node("If", "c", "y", then_branch=nested, else_branch=other)], [x, c], [y], norm(4)
        ),
        ("no_deep:BatchNormalization",),
    )
    yield Case(
        "if_dead",
        model(
            [
                node(
                    "If",
                    "c",
                    "z",
                    then_branch=graph([node("Neg", "x", "a")], [], [info("a", [2, 4, 5])]),
                    else_branch=other_of("x"),
                ),
                node("Relu", "x", "y"),
            ],
            [x, c],
            [y],
        ),
        ("nodes:1",),
    )


def other_of(name: str):
    return graph([node("Abs", name, "b")], [], [info("b", [2, 4, 5])])


def _branches(inside: Sequence[Any], constants: dict[str, Any], before: Sequence[Any] | None = None) -> ModelProto:
    shape = [2, 4, 5]
    then = graph(inside, [], [info("a", shape)])
    otherwise = graph([node("Abs", "x", "b")], [], [info("b", shape)])
    nodes = [
        *([node("Relu", "x", "h")] if before is None else before),
        node("If", "c", "y", then_branch=then, else_branch=otherwise),
    ]
    return model(nodes, [info("x", shape), info("c", [], B)], [info("y", shape)], constants)


def _loop(inside: Sequence[Any], constants: dict[str, Any]) -> ModelProto:
    shape = [2, 4, 5]
    body = graph(
        [*inside, node("Identity", "go", "on")],
        [info("i", [], I64), info("go", [], B), info("s", shape)],
        [info("on", [], B), info("t", shape)],
    )
    given = {"n": np.array(3), "yes": np.array(True), **constants}
    return model([node("Loop", "n yes x", "y", body=body)], [info("x", shape)], [info("y", shape)], given)


def _growing() -> ModelProto:
    """A loop whose state is longer after every turn: its shape in the body is that of no single turn."""
    body = graph(
        [
            node("Shape", "s", "h"),
            node("Concat", "s s", "t", axis=0),
            node("Reshape", "t m", "u"),
            node("Identity", "go", "on"),
        ],
        [info("i", [], I64), info("go", [], B), info("s", [None, 3])],
        [info("on", [], B), info("t", [None, 3]), info("h", [2], I64)],
    )
    given = {"n": np.array(3), "yes": np.array(True), "m": np.array([-1, 3])}
    return model(
        [node("Loop", "n yes x", "y shapes", body=body)],
        [info("x", [2, 3])],
        [info("y", [None, 3]), info("shapes", [3, 2], I64)],
        given,
    )


# Names, domains, quantized models, files


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


# What exporters take apart


def composed() -> Iterator[Case]:
    x, y = info("x", ["N", 5, 8]), info("y", ["N", 5, 8])
    given = {"two": np.float32(2), "eps": np.float32(1e-5), "g": some(8), "b": some(8), "last": np.array([-1])}
    mean = node("ReduceMean", "x last", "m", keepdims=1)
    middle = [node("Sub", "x m", "d"), node("Pow", "d two", "p"), node("ReduceMean", "p last", "v", keepdims=1)]
    root = [node("Add", "v eps", "e"), node("Sqrt", "e", "s")]
    ends = {
        "div": [node("Div", "d s", "n"), node("Mul", "n g", "k"), node("Add", "k b", "y")],
        "reciprocal": [
            node("Reciprocal", "s", "r"),
            node("Mul", "d r", "n"),
            node("Mul", "g n", "k"),
            node("Add", "b k", "y"),
        ],
        "without_bias": [node("Div", "d s", "n"), node("Mul", "n g", "y")],
    }
    for what, end in ends.items():
        proto = model([mean, *middle, *root, *end], [x], [y], given, opset=18)
        yield Case(f"layernorm_{what}", proto, ("count:LayerNormalization=1", "nodes:1"))
    other = [node("ReduceMean", "x first", "m", keepdims=1), *middle, *root, *ends["div"]]
    yield Case(
        "layernorm_of_two_axes",
        model(other, [x], [y], {**given, "first": np.array([1])}, opset=18),
        ("no:LayerNormalization",),
    )
    read = [mean, *middle, *root, *ends["div"], node("Identity", "s", "z")]
    yield Case(
        "layernorm_whose_root_is_output", model(read, [x], [y, info("z", ["N", 5, 1])], given, opset=18), ("dynamic",)
    )
    wide = model([mean, *middle, *root, *ends["div"]], [x], [y], {**given, "g": some(5, 8)}, opset=18)
    yield Case("layernorm_with_a_scale_per_row", wide, ("no:LayerNormalization",))
    rms = [
        node("Mul", "x x", "p"),
        node("ReduceMean", "p last", "v", keepdims=1),
        *root,
        node("Div", "x s", "n"),
        node("Mul", "n g", "y"),
    ]
    yield Case("rmsnorm_of_an_old_opset", model(rms, [x], [y], given, opset=18), ("no:RMSNormalization",))
    yield Case("rmsnorm", model(rms, [x], [y], given, opset=23), ("count:RMSNormalization=1", "nodes:1"))
    yield from _activations()


def _activations() -> Iterator[Case]:
    x, y = info("x", ["N", 5]), info("y", ["N", 5])
    given = {
        name: np.float32(value)
        for name, value in {
            "one": 1,
            "half": 0.5,
            "root": 2**0.5,
            "three": 3,
            "c": 0.044715,
            "t": (2 / np.pi) ** 0.5,
            "zero": 0,
            "six": 6,
            "sixth": 1 / 6,
        }.items()
    }
    erf = [node("Div", "x root", "u"), node("Erf", "u", "e"), node("Add", "e one", "a")]
    tanh = [
        node("Pow", "x three", "p"),
        node("Mul", "p c", "q"),
        node("Add", "x q", "r"),
        node("Mul", "r t", "u"),
        node("Tanh", "u", "e"),
        node("Add", "one e", "a"),
    ]
    for what, inner in {"erf": erf, "tanh": tanh}.items():
        for how, end in {
            "half_last": [node("Mul", "x a", "h"), node("Mul", "h half", "y")],
            "half_first": [node("Mul", "x half", "h"), node("Mul", "h a", "y")],
            "half_inside": [node("Mul", "a half", "h"), node("Mul", "x h", "y")],
        }.items():
            proto = model([*inner, *end], [x], [y], given, opset=13)
            yield Case(f"gelu_{what}_{how}", proto, ("count:Gelu=1", "nodes:1"))
    like = model([*erf, node("Mul", "x a", "h"), node("Mul", "h three", "y")], [x], [y], given)
    yield Case("gelu_look_alike_of_another_factor", like, ("no:Gelu",))
    like = model(
        [*erf, node("Mul", "x a", "h"), node("Mul", "h half", "y")], [x], [y], {**given, "root": np.float32(1.5)}
    )
    yield Case("gelu_look_alike_of_another_root", like, ("no:Gelu",))
    like = model([*erf, node("Mul", "w a", "h"), node("Mul", "h half", "y")], [x, info("w", ["N", 5])], [y], given)
    yield Case("gelu_look_alike_of_another_operand", like, ("no:Gelu",))
    clip = [node("Add", "x three", "a"), node("Clip", "a zero six", "k")]
    yield Case(
        "hardswish_div",
        model([*clip, node("Mul", "x k", "h"), node("Div", "h six", "y")], [x], [y], given, opset=13),
        ("count:HardSwish=1", "nodes:1"),
    )
    yield Case(
        "hardswish_mul",
        model([*clip, node("Mul", "k sixth", "h"), node("Mul", "x h", "y")], [x], [y], given, opset=13),
        ("count:HardSwish=1", "nodes:1"),
    )
    yield Case(
        "hardswish_sigmoid",
        model([node("HardSigmoid", "x", "k", alpha=1 / 6, beta=0.5), node("Mul", "x k", "y")], [x], [y], opset=13),
        ("count:HardSwish=1", "nodes:1"),
    )
    yield Case(
        "hardswish_look_alike",
        model([*clip, node("Mul", "x k", "h"), node("Div", "h three", "y")], [x], [y], given, opset=13),
        ("no:HardSwish",),
    )
    silu = [node("Sigmoid", "x", "k"), node("Mul", "k x", "y")]
    yield Case("silu_of_an_old_opset", model(silu, [x], [y], opset=17), ("no:Swish",))
    yield Case("silu", model(silu, [x], [y], opset=24), ("count:Swish=1", "nodes:1"))


FAMILIES: tuple[Family, ...] = (
    convolutions,
    gemms,
    products,
    normalizations,
    arithmetic,
    constants,
    copies,
    old_forms,
    bodies,
    odds,
    composed,
)


def cases() -> list[Case]:
    found = [case for family in FAMILIES for case in family()]
    names = [case.name for case in found]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"two cases are called {', '.join(sorted(repeated))}")
    return found
