"""Models that compute the same for usual inputs, and differ in a segment: none is called verified; equal ones all are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.api.verify import side
from graphport.proof.segments import matching
from graphport.proof.segments.comparing import compare_segments
from graphport.proof.segments.extraction import RawModel
from graphport.proof.segments.values import decides_sizes, draw_elements, free_input
from graphport.proof.test_inputs import TestInput
from tests import models
from tests.models import write_onnx
from tests.passes.cases import I64, B, graph, info, model, node, some


@dataclass(frozen=True)
class Pair:
    """Nodes of two models of one input `x` and one output `y`, each line an operator with operands and results."""

    a: list[Any]
    b: list[Any]
    shape: tuple[int, ...] = (4, 8)
    constants: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """Constants of the second model that differ."""
    dtype: int = 1


def number(value: float) -> Any:
    return np.float32(value)


def one(op: str, inputs: str = "x", output: str = "y", **attributes: Any) -> list[Any]:
    return [node(op, inputs, output, **attributes)]


def changed(constants: dict[str, Any], name: str, make: Any) -> dict[str, Any]:
    return {name: make(constants[name].copy())}


def scaled_row(w: Any) -> Any:
    w[-1] *= 1.5
    return w


def scaled_column(w: Any) -> Any:
    w[:, 2] *= 1.02
    return w


def residual(scale: float) -> list[Any]:
    return [node("MatMul", "x w", "h"), node("Mul", "h g", "r"), node("Add", "x r", "y")]


def head(*, factor: str) -> list[Any]:
    boxes = [node("MatMul", "x wb", "b0"), node("Sigmoid", "b0", "b1"), node("Mul", "b1 size", "b")]
    scores = [node("MatMul", "x ws", "s0"), node("Sigmoid", "s0", "s1"), node("Mul", f"s1 {factor}", "s")]
    return [*boxes, *scores, node("Concat", "b s", "y", axis=-1)]


def normalized(epsilon: float) -> list[Any]:
    return [node("MatMul", "x w", "h"), node("LayerNormalization", "h g b", "y", epsilon=epsilon)]


def manual_norm() -> list[Any]:
    first = [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Mul", "d d", "q")]
    second = [node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v e", "ve"), node("Sqrt", "ve", "s")]
    return [*first, *second, node("Div", "d s", "y")]


def exponents() -> list[Any]:
    return [node("Exp", "x", "e"), node("Neg", "x", "n"), node("Exp", "n", "f")]


def branches(*, factor: str, of: str = "x") -> list[Any]:
    then = graph([node("Mul", f"x {factor}", "t")], [], [info("t", None)])
    other = graph([node("Add", "x x", "e")], [], [info("e", None)])
    then.name, other.name = "then", "other"
    mean = node("ReduceMean", of, "mean", keepdims=0)
    return [mean, node("Greater", "mean limit", "c"), node("If", "c", "y", then_branch=then, else_branch=other)]


def loop(*, limit: str) -> list[Any]:
    first = [node("Less", f"i {limit}", "l"), node("Where", "l two three", "f"), node("Mul", "v f", "vo")]
    inputs = [info("i", [], I64), info("c", [], B), info("v", [4, 8])]
    body = graph([*first, node("Identity", "c", "co")], inputs, [info("co", [], B), info("vo", [4, 8])])
    return [node("Loop", "n _ x", "y", body=body)]


def attention(*, factor: str) -> list[Any]:
    first = [node("MatMul", "x w", "q"), node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "q t", "s")]
    return [*first, node("Mul", f"s {factor}", "sc"), node("Softmax", "sc", "p", axis=-1), node("MatMul", "p x", "y")]


LINEAR = {"w": some(8, 8), "g": some(8, seed=1), "b": some(8, seed=2)}
NORM = {"s": some(4) + 3, "o": some(4, seed=1), "m": some(4, seed=2), "v": np.ones(4, np.float32)}
CONV = {"w": some(4, 4, 3, 3), "b": some(4)}
HEAD = {"wb": some(8, 4), "ws": some(8, 80), "size": number(640), "whole": number(1), "less": number(0.94)}
TABLE = {"t": some(9000, 8), "z": number(0), "k": number(8999)}
IMAGE = (1, 4, 6, 6)
LOOP = {"n": np.int64(2), "two": number(2), "three": number(3), "k": np.int64(100), "j": np.int64(20)}


PAIRS = {
    "epsilon of LayerNormalization": Pair(normalized(1e-5), normalized(1e-4), constants=LINEAR),
    "epsilon of LayerNormalization by default": Pair(
        one("LayerNormalization", "x g"), one("LayerNormalization", "x g", epsilon=1e-6), constants=LINEAR
    ),
    "epsilon of BatchNormalization": Pair(
        one("BatchNormalization", "x s o m v"),
        one("BatchNormalization", "x s o m v", epsilon=1e-4),
        IMAGE,
        NORM,
    ),
    "epsilon of InstanceNormalization": Pair(
        one("InstanceNormalization", "x s o"), one("InstanceNormalization", "x s o", epsilon=1e-3), IMAGE, NORM
    ),
    "epsilon of a norm of single nodes": Pair(
        manual_norm(), manual_norm(), constants={"e": number(1e-5)}, others={"e": number(1e-4)}
    ),
    "least norm": Pair(
        [node("ReduceL2", "x", "n", axes=[-1]), node("Max", "n e", "m"), node("Div", "x m", "y")],
        [node("ReduceL2", "x", "n", axes=[-1]), node("Max", "n e", "m"), node("Div", "x m", "y")],
        constants={"e": number(1e-12)},
        others={"e": number(1e-2)},
    ),
    "clip at 500 dropped": Pair(one("Clip", "x _ h"), one("Identity"), constants={"h": number(500)}),
    "clip at -2000 dropped": Pair(one("Clip", "x l"), one("Identity"), constants={"l": number(-2000)}),
    "clip behind a norm dropped": Pair(
        [*one("LayerNormalization", "x g", "h"), node("Clip", "h l u", "y")],
        [*one("LayerNormalization", "x g", "h"), node("Identity", "h", "y")],
        constants={"g": LINEAR["g"], "l": number(-40), "u": number(40)},
    ),
    "clip at 6 in the middle dropped": Pair(
        [*one("MatMul", "x w", "h"), node("Clip", "h l u", "c"), node("Tanh", "c", "y")],
        [*one("MatMul", "x w", "h"), node("Identity", "h", "c"), node("Tanh", "c", "y")],
        constants={"w": LINEAR["w"] / 100, "l": number(-2), "u": number(2)},
    ),
    "Gelu by tanh": Pair(one("Gelu"), one("Gelu", approximate="tanh"), (8, 64)),
    "Softmax without maximum": Pair(
        one("Softmax", axis=-1),
        [node("Exp", "x", "e"), node("ReduceSum", "e a", "s"), node("Div", "e s", "y")],
        constants={"a": np.array([-1])},
    ),
    "Softplus without limit": Pair(
        one("Softplus"),
        [node("Exp", "x", "e"), node("Add", "e o", "s"), node("Log", "s", "y")],
        constants={"o": number(1)},
    ),
    "Tanh by exponents": Pair(
        one("Tanh"),
        [*exponents(), node("Sub", "e f", "u"), node("Add", "e f", "v"), node("Div", "u v", "y")],
    ),
    "saturated Sigmoid": Pair(
        [*one("Mul", "x k", "h"), node("Sigmoid", "h", "y")],
        [*one("Mul", "x j", "h"), node("Sigmoid", "h", "y")],
        constants={"k": number(200), "j": number(300)},
    ),
    "saturated Softmax": Pair(
        attention(factor="k"), attention(factor="j"), constants={"w": LINEAR["w"], "k": number(100), "j": number(150)}
    ),
    "axis of Softmax": Pair(one("Softmax", axis=-1), one("Softmax", axis=0)),
    "row of a table": Pair(
        [node("Clip", "x z k", "c"), node("Cast", "c", "i", to=I64), node("Gather", "t i", "y")],
        [node("Clip", "x z k", "c"), node("Cast", "c", "i", to=I64), node("Gather", "t i", "y")],
        constants=TABLE,
        others=changed(TABLE, "t", scaled_row),
    ),
    "residual branch of 1e-5": Pair(residual(1e-5), one("Identity"), constants={"w": LINEAR["w"], "g": number(3e-5)}),
    "NaN replaced": Pair(
        [node("IsNaN", "x", "n"), node("Where", "n z x", "y")], one("Identity"), constants={"z": number(0)}
    ),
    "scores beside boxes": Pair(head(factor="whole"), head(factor="less"), (16, 8), HEAD),
    "one column before ArgMax": Pair(
        [*one("MatMul", "x w", "h"), node("ArgMax", "h", "y", axis=-1)],
        [*one("MatMul", "x w", "h"), node("ArgMax", "h", "y", axis=-1)],
        constants=LINEAR,
        others=changed(LINEAR, "w", scaled_column),
    ),
    "ties of ArgMax": Pair(
        [node("Relu", "x", "h"), node("ArgMax", "h", "y", axis=-1)],
        [node("Relu", "x", "h"), node("ArgMax", "h", "y", axis=-1, select_last_index=1)],
    ),
    "branch never taken": Pair(
        branches(factor="k"), branches(factor="j"), constants={"k": number(2), "j": number(3), "limit": number(1e4)}
    ),
    "turn never made": Pair(loop(limit="k"), loop(limit="j"), constants=LOOP),
    "half up": Pair(
        [node("Mul", "x k", "h"), node("Round", "h", "y")],
        [node("Mul", "x k", "h"), node("Add", "h o", "g"), node("Floor", "g", "y")],
        constants={"k": number(3), "o": number(0.5)},
    ),
    "limit included": Pair(
        [*one("Greater", "x k", "c"), node("Cast", "c", "y", to=1)],
        [*one("GreaterOrEqual", "x k", "c"), node("Cast", "c", "y", to=1)],
        constants={"k": number(0.37)},
    ),
    "division by zero guarded": Pair(
        [
            node("ReduceSum", "x a", "s"),
            node("Equal", "s z", "c"),
            node("Where", "c o s", "d"),
            node("Div", "x d", "y"),
        ],
        [node("ReduceSum", "x a", "s"), node("Div", "x s", "y")],
        constants={"a": np.array([-1]), "z": number(0), "o": number(1)},
    ),
    "slope of LeakyRelu": Pair(one("LeakyRelu"), one("LeakyRelu", alpha=0.0101)),
    "slope of LeakyRelu where inputs are positive": Pair(
        [*one("Add", "x k", "h"), node("LeakyRelu", "h", "y", alpha=0.1)],
        [*one("Add", "x k", "h"), node("LeakyRelu", "h", "y", alpha=0.2)],
        constants={"k": number(1e5)},
    ),
    "alpha of Elu": Pair(one("Elu"), one("Elu", alpha=1.001)),
    "beta of HardSigmoid": Pair(one("HardSigmoid"), one("HardSigmoid", alpha=1 / 6)),
    "padding of AveragePool": Pair(
        one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        IMAGE,
    ),
    "weight of Conv": Pair(
        one("Conv", "x w b"), one("Conv", "x w b"), IMAGE, CONV, changed(CONV, "w", lambda w: w * number(1.0005))
    ),
    "bias of Conv": Pair(
        one("Conv", "x w b"), one("Conv", "x w b"), IMAGE, CONV, changed(CONV, "b", lambda b: b + number(1e-3))
    ),
    "exclusive sum": Pair(one("CumSum", "x k"), one("CumSum", "x k", exclusive=1), constants={"k": np.int64(1)}),
    "sign of Mod": Pair(
        one("Mod", "x k", fmod=1),
        [node("Abs", "x", "m"), node("Mod", "m k", "y", fmod=1)],
        constants={"k": number(3)},
    ),
    "lambda of Shrink": Pair(one("Shrink", lambd=0.5), one("Shrink", lambd=0.5, bias=1e-3)),
    "limit of a hidden Relu": Pair(
        [*one("Mul", "x k", "h"), node("Relu", "h", "r"), node("Exp", "r", "y")],
        [*one("Mul", "x k", "h"), node("Clip", "h z u", "r"), node("Exp", "r", "y")],
        constants={"k": number(1e-3), "z": number(0), "u": number(30)},
    ),
    "mode of rounding of a resize": Pair(
        one("Resize", "x _ s", mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
        one("Resize", "x _ s", mode="nearest", nearest_mode="ceil", coordinate_transformation_mode="asymmetric"),
        IMAGE,
        {"s": np.array([1, 1, 1.5, 1.5], np.float32)},
    ),
}


def built(nodes: list[Any], pair: Pair, constants: dict[str, Any]) -> Any:
    read = {name for each in nodes for name in each.input}
    for each in nodes:
        for attribute in each.attribute:
            read |= {name for inner in attribute.g.node for name in inner.input}
    used = {name: value for name, value in constants.items() if name in read}
    is_index = nodes[-1].op_type == "ArgMax"
    opset = 20 if any(each.op_type == "Gelu" for each in nodes) else 17
    return model(nodes, [info("x", pair.shape)], [info("y", None, I64 if is_index else 1)], used, opset=opset)


@pytest.mark.parametrize("name", PAIRS)
def test_differing_segment_is_never_verified(name, tmp_path):
    pair = PAIRS[name]
    a = write_onnx(tmp_path / "a.onnx", built(pair.a, pair, pair.constants))
    b = write_onnx(tmp_path / "b.onnx", built(pair.b, pair, pair.constants | pair.others))
    assert gp.verify(a, a).passed
    proof = gp.verify(a, b)
    assert not proof.passed, proof.sentence


def net(opset: int = 20) -> Any:
    """A network with norms, activations, attention, a folded normalization and a table."""
    nodes = [
        node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c0 s o m v", "n0"),
        node("Relu", "n0", "r0"),
        node("AveragePool", "r0", "p0", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "p0 rows", "t0"),
        node("Transpose", "t0", "t1", perm=[0, 2, 1]),
        node("LayerNormalization", "t1 g0 h0", "l0"),
        node("MatMul", "l0 wq", "q"),
        node("MatMul", "l0 wk", "k"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "a0"),
        node("Mul", "a0 scale", "a1"),
        node("Softmax", "a1", "a2", axis=-1),
        node("MatMul", "a2 l0", "a3"),
        node("Add", "t1 a3", "d0"),
        node("Gelu", "d0", "d1"),
        node("ReduceMean", "d1 middle", "d2", keepdims=0),
        node("Gemm", "d2 w1 b1", "e0"),
        node("Sigmoid", "e0", "y"),
    ]
    constants = {
        "w0": some(8, 3, 3, 3),
        "b0": some(8),
        "rows": np.array([0, 8, -1]),
        "g0": some(8, seed=4),
        "h0": some(8),
        "s": some(8) + 3,
        "o": some(8, seed=1),
        "m": some(8, seed=2),
        "v": np.abs(some(8, seed=3)) + 0.5,
        "wq": some(8, 8),
        "wk": some(8, 8, seed=1),
        "scale": number(8**-0.5),
        "middle": np.array([1]),
        "w1": some(8, 5),
        "b1": some(5),
    }
    return model(nodes, [info("x", [1, 3, 8, 8])], [info("y", [1, 5])], constants, opset=opset)


@pytest.mark.parametrize("name", ["net.xml", "net.tflite", "net.nnef.tgz", "net.ncnn.param", "simple.onnx"])
def test_a_true_conversion_is_not_refuted(name, tmp_path):
    source = write_onnx(tmp_path / "source.onnx", net())
    if name == "simple.onnx":
        gp.save(gp.simplify(gp.load(source), verify=False)[0], tmp_path / name)
    else:
        gp.convert(source, tmp_path / name, verify=False)
    proof = gp.verify(source, tmp_path / name)
    assert proof.passed, proof.sentence
    a, b = side("a", gp.load(source)), side("b", gp.load(tmp_path / name))
    x = some(1, 3, 8, 8)
    found = compare_segments(a, b, TestInput("normal", 0, {}, {"x": x}), 60)
    assert not found.differences
    assert len(found.compared) >= 5 or len(found.equal) >= 5


def test_a_difference_shows_its_input(tmp_path):
    pair = PAIRS["clip at 500 dropped"]
    a = write_onnx(tmp_path / "a.onnx", built(pair.a, pair, pair.constants))
    b = write_onnx(tmp_path / "b.onnx", built(pair.b, pair, pair.constants))
    x = some(4, 8)
    found = compare_segments(side("a", gp.load(a)), side("b", gp.load(b)), TestInput("normal", 0, {}, {"x": x}), 60)
    (difference,) = found.differences
    difference.save(tmp_path / "shown.npz")
    shown = np.load(tmp_path / "shown.npz")["x"]
    outputs = [gp.run(gp.load(path), {"x": shown})["y"] for path in (a, b)]
    assert np.abs(outputs[0] - outputs[1]).max() == pytest.approx(difference.max_abs, rel=1e-6)
    assert difference.is_native


def test_equal_models_of_one_format_need_no_run(tmp_path):
    a, b = (write_onnx(tmp_path / name, net()) for name in ("a.onnx", "b.onnx"))
    sides = side("a", gp.load(a)), side("b", gp.load(b))
    found = compare_segments(*sides, TestInput("normal", 0, {}, {}), 60)
    assert len(found.equal) == 19
    assert not found.matches


def test_clip_outside_the_value_range_does_not_fail(tmp_path):
    # x - max(x) <= 0 for all x, and the second model limits it to that.
    shared = [node("ReduceMax", "x", "m", axes=[-1]), node("Sub", "x m", "d")]
    a = model([*shared, node("Exp", "d", "y")], [info("x", [4, 8])], [info("y", [4, 8])], {})
    limited = [*shared, node("Clip", "d _ z", "c"), node("Exp", "c", "y")]
    b = model(limited, [info("x", [4, 8])], [info("y", [4, 8])], {"z": number(0)})
    names = write_onnx(tmp_path / "a.onnx", a), write_onnx(tmp_path / "b.onnx", b)
    assert gp.verify(*names).passed


def test_dependent_segment_inputs_do_not_fail(tmp_path):
    # max(m, x) is m for the largest element m of x, not for any m.
    shared = [node("Relu", "x", "r"), node("ReduceMax", "r", "m", keepdims=1)]
    a = model([*shared, node("Add", "r m", "y")], [info("x", [4, 8])], [info("y", [4, 8])], {})
    larger = [*shared, node("Max", "m r", "n"), node("Add", "r n", "y")]
    b = model(larger, [info("x", [4, 8])], [info("y", [4, 8])], {})
    names = write_onnx(tmp_path / "a.onnx", a), write_onnx(tmp_path / "b.onnx", b)
    assert gp.verify(*names).passed


@pytest.mark.parametrize("name", ["copy.onnx", "copy.xml"])
def test_a_branch_that_no_input_reaches_is_covered_by_its_segment(name, tmp_path):
    # The mean of the absolute tanh is at most 1.
    nodes = [node("Tanh", "x", "th"), node("Abs", "th", "a"), *branches(factor="k", of="a")]
    constants = {"k": number(2), "limit": number(5)}
    source = write_onnx(tmp_path / "a.onnx", model(nodes, [info("x", [4, 8])], [info("y", None)], constants))
    copy = tmp_path / name
    gp.convert(source, copy, verify=False)
    proof = gp.verify(source, copy)
    assert proof.passed
    assert not [phrase for phrase in proof.matrix.coverage.never if "branch" in phrase], proof.sentence


def test_a_branch_that_no_input_reaches_is_refuted_by_its_segment(tmp_path):
    nodes = [node("Tanh", "x", "th"), node("Abs", "th", "a")]
    files = []
    for factor in (2.0, 2.5):
        constants = {"k": number(factor), "limit": number(5)}
        graph_of = model([*nodes, *branches(factor="k", of="a")], [info("x", [4, 8])], [info("y", None)], constants)
        files.append(write_onnx(tmp_path / f"{factor}.onnx", graph_of))
    proof = gp.verify(*files)
    assert proof.failed
    assert "segment" in proof.sentence


def test_unreached_clip_is_not_paired_with_its_operand(tmp_path):
    # Before and after the Clip values are equal, and none has the name of the result of HardSigmoid.
    one = [node("Tanh", "x", "t"), node("HardSigmoid", "t", "h", alpha=0.25), node("Neg", "h", "y")]
    parts = [node("Tanh", "x", "u"), node("Mul", "u k", "m"), node("Add", "m o", "n"), node("Clip", "n z e", "c")]
    constants = {"k": number(0.25), "o": number(0.5), "z": number(0), "e": number(1)}
    files = [
        write_onnx(tmp_path / f"{len(nodes)}.onnx", model(nodes, [info("x", [4, 8])], [info("y", [4, 8])], used))
        for nodes, used in ((one, {}), ([*parts, node("Neg", "c", "y")], constants))
    ]
    found = compare_segments(*sides(*files), TestInput("normal", 0, {}, {"x": some(4, 8)}), 60)
    assert {each.b.name for each in found.matches} == {"x", "u", "y"}
    assert not found.differences


def sides(a: Any, b: Any) -> tuple[Any, Any]:
    return side("a", gp.load(a)), side("b", gp.load(b))


def test_resize_scales_as_segment_input_are_not_varied():
    """Other scales would make a result of terabytes."""
    nodes = [node("Mul", "s two", "scales"), node("Resize", "x roi scales", "y", mode="nearest")]
    constants = {"two": np.float32(2), "roi": np.zeros(0, np.float32)}
    net = gp.from_onnx(
        model(nodes, [info("x", [1, 1, 2, 2]), info("s", [4])], [info("y", None)], constants, opset=18)
    ).graph
    x, s = net.inputs
    assert decides_sizes(s)
    assert not decides_sizes(x)
    seen = np.ones(4, np.float32)
    inputs = [free_input(each, (each, each), array) for each, array in ((x, np.ones((1, 1, 2, 2))), (s, seen))]
    drawn = [elements for _, elements in draw_elements(net, inputs)]
    assert all((elements[1] == seen).all() for elements in drawn)
    assert not all((elements[0] == 1).all() for elements in drawn)


def test_equal_elements_do_not_show_the_order_of_axes(tmp_path):
    """The sign of a mean of squares is 1 everywhere, in the layout of either format."""
    pytest.importorskip("ai_edge_litert")
    nodes = [
        models.node("Mul", ["x", "x"], ["squares"]),
        models.node("AveragePool", ["squares"], ["mean"], kernel_shape=[3, 3], strides=[3, 3]),
        models.node("Equal", ["mean", "mean"], ["is_number"]),
        models.node("Sign", ["mean"], ["raw_sign"]),
        models.node("Where", ["is_number", "raw_sign", "zero"], ["sign"]),
        models.node("Abs", ["mean"], ["size"]),
        models.node("Relu", ["size"], ["relu"]),
        models.node("Mul", ["sign", "relu"], ["product"]),
        models.node("Mul", ["product", "nine"], ["y"]),
    ]
    made = models.model(nodes, [("x", [1, 2, 8, 7])], [("y", None)], {"nine": np.float32(9), "zero": np.float32(0)})
    path = write_onnx(tmp_path / "a.onnx", made)
    proof = gp.convert(path, tmp_path / "b.tflite").proof
    assert str(proof.verdict) == "verified where covered"
    assert proof.coverage.never == ("segment 'product' by itself",)


def layers(path, count: int, *, epsilon: float, last: float, weights: int = 0):
    """Write `count` layers of MatMul and LayerNormalization; the last one has another epsilon and its own weights."""
    draw = np.random.default_rng(0)
    nodes: list[Any] = []
    constants: dict[str, Any] = {}
    for index in range(count):
        constants |= {f"w{index}": draw.normal(size=(32, 32)).astype(np.float32) / 6, f"g{index}": some(32, seed=index)}
        if index == count - 1 and weights:
            constants[f"w{index}"][0, 0] += 1.0
        given = f"v{index}" if index else "x"
        out = "y" if index == count - 1 else f"v{index + 1}"
        least = last if index == count - 1 else epsilon
        nodes += [
            node("Gemm", f"{given} w{index} g{index}", f"h{index}"),
            node("LayerNormalization", f"h{index} g{index}", out, epsilon=least),
        ]
    return write_onnx(path, model(nodes, [info("x", [4, 32])], [info("y", None)], constants))


def count_runs(a, b, monkeypatch) -> tuple[Any, list[str]]:
    written: list[str] = []
    write = RawModel.write

    def count(self, graph):
        written.append(graph.outputs[0].name)
        return write(self, graph)

    monkeypatch.setattr(RawModel, "write", count)
    return compare_segments(*sides(a, b), TestInput("normal", 0, {}, {"x": some(4, 32)}), 10.0), written


def test_segments_that_differ_in_weights_alone_run_once(tmp_path, monkeypatch):
    path = layers(tmp_path / "a.onnx", 8, epsilon=1e-3, last=1e-3)
    gp.convert(path, tmp_path / "a.xml", verify=False)
    found, written = count_runs(path, tmp_path / "a.xml", monkeypatch)
    assert not found.differences
    assert len(found.compared) >= 8, "all layers count as compared"
    assert len(written) <= 2 * 4, "two kinds of layers; the first has an input of another range"


@pytest.mark.parametrize("change", [{"last": 1e-2}, {"weights": 1}], ids=["epsilon", "weight"])
def test_repeated_segment_with_another_constant_runs(change, tmp_path, monkeypatch):
    a = layers(tmp_path / "a.onnx", 8, epsilon=1e-3, last=1e-3)
    b = layers(tmp_path / "b.onnx", 8, **{"epsilon": 1e-3, "last": 1e-3} | change)
    gp.convert(b, tmp_path / "b.xml", verify=False)
    found, _ = count_runs(a, tmp_path / "b.xml", monkeypatch)
    assert found.differences


def test_values_of_equal_structure_match_without_a_run(tmp_path, monkeypatch):
    nodes = [node("Gemm", "x w g", "h", transB=1), node("Relu", "h", "r"), node("Gemm", "r m g", "y")]
    path = write_onnx(
        tmp_path / "a.onnx", model(nodes, [info("x", ["N", 8])], [info("y", None)], LINEAR | {"m": some(8, 8, seed=3)})
    )
    gp.convert(path, tmp_path / "a.xml", verify=False)
    a, b = sides(path, tmp_path / "a.xml")
    given = TestInput("normal", 0, {"N": 4}, {"x": some(4, 8)})

    def matches():
        found = matching.match_values(a.graph, b.graph, given)
        return {(each.a.name, each.b.name, each.x.shape, each.y.shape, each.is_equal) for each in found}

    with monkeypatch.context() as patched:
        patched.setattr(matching, "_match_same_structure", lambda *_: [])
        by_run = matches()
    monkeypatch.setattr(matching, "_match_all", None)
    assert matches() == by_run
    assert len(by_run) == 4
