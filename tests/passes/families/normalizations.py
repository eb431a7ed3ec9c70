"""Normalization behind, before and between everything else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from tests.passes.cases import NO_BN, Case, F, bn, info, model, node, norm, some


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
