"""Forms of older opsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from tests.passes.cases import I64, NO_BN, B, Case, F, bn, info, model, node, norm, some


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
