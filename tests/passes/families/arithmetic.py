"""Biases and scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from tests.passes.cases import Case, info, model, node, some


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
