"""Decompositions of exporters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.passes.cases import Case, info, model, node, some


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
    yield Case("layernorm_with_a_scale_per_row", wide, ("count:LayerNormalization=1", "count:Mul=1", "nodes:3"))
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
