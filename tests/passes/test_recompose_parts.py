"""Each recomposition rule separately: every equivalent form of its parts, and every part that must match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.passes.journal import Journal
from graphport.passes.recompose import recompose_gelu, recompose_layernorm, recompose_rmsnorm, recompose_swish
from graphport.passes.recompose_activations import (
    recompose_hardsigmoid,
    recompose_mish,
    recompose_prelu,
    recompose_softplus,
)
from tests.every import every
from tests.passes.alone import X, done, read, reasons
from tests.passes.cases import F, info, model, node, some

F32 = np.float32
NUMBERS: dict[str, Any] = {
    "eps": F32(1e-3),
    "one": F32(1),
    "two": F32(2),
    "three": F32(3),
    "six": F32(6),
    "half": F32(0.5),
    "zero": F32(0),
    "sixth": F32(1 / 6),
    "root": F32(np.sqrt(2)),
    "over": F32(1 / np.sqrt(2)),
    "cube": F32(0.044715),
    "slope": F32(np.sqrt(2 / np.pi)),
    "other": F32(0.7),
    "g": np.abs(some(4)) + F32(0.5),
    "b": some(4),
    "last": np.array([-1]),
}


def tried(work, nodes, *, outputs=("y",), shape: Sequence[Any] = X, opset=18, more=(), **constants):
    """Return the remaining operators after a rule; values must be unchanged."""
    used = {name for each in nodes for name in each.input}
    given = {name: each for name, each in (NUMBERS | constants).items() if name in used}
    inputs = (("x", shape), *more)
    return done(work, nodes, inputs, outputs=outputs, opset=opset, exact=False, dtypes={"c": F}, **given)


MEAN, OFF, SQUARE = node("ReduceMean", "x last", "m"), node("Sub", "x m", "d"), node("Pow", "d two", "s")
SPREAD, GROWN, ROOT = node("ReduceMean", "s last", "v"), node("Add", "v eps", "e"), node("Sqrt", "e", "r")
OVER, SCALED, SHIFTED = node("Div", "d r", "n"), node("Mul", "n g", "k"), node("Add", "k b", "y")
NORM = [MEAN, OFF, SQUARE, SPREAD, GROWN, ROOT, OVER, SCALED, SHIFTED]
RMS = [
    node("Mul", "x x", "s"),
    SPREAD,
    GROWN,
    ROOT,
    node("Div", "x r", "n"),
    node("Mul", "n g", "y"),
]


def but(parts, *others):
    """Replace nodes in `parts` by other nodes with the same result names."""
    names = {each.output[0]: each for each in others}
    return [names.get(each.output[0], each) for each in parts]


@pytest.mark.parametrize(
    "others",
    [
        (),
        (node("Mul", "d d", "s"),),
        (node("Add", "eps v", "e"),),
        (node("Mul", "g n", "k"),),
        (node("Add", "b k", "y"),),
        (node("Mul", "g n", "k"), node("Add", "b k", "y")),
    ],
    ids=lambda each: " ".join(one.op_type for one in each),
)
def test_a_layer_normalization_however_it_is_stated(others):
    assert tried(recompose_layernorm, but(NORM, *others))[0] == ["LayerNormalization"]


INVERSES = {
    "reciprocal": [node("Reciprocal", "r", "i"), node("Mul", "d i", "n")],
    "on the left": [node("Reciprocal", "r", "i"), node("Mul", "i d", "n")],
    "one over it": [node("Div", "one r", "i"), node("Mul", "d i", "n")],
}


@every("name", list(INVERSES))
def test_a_layer_normalization_with_the_inverse_of_its_root(name):
    nodes = [*NORM[:6], *INVERSES[name], *NORM[7:]]
    assert tried(recompose_layernorm, nodes)[0] == ["LayerNormalization"]
    ops, journal = tried(recompose_layernorm, nodes, outputs=("y", "i"))
    assert ops == [each.op_type for each in nodes]
    assert set(reasons(journal)) == {"an inner value has another consumer"}


def test_another_quotient_by_its_root_is_no_inverse():
    nodes = [*NORM[:6], node("Div", "two r", "i"), node("Mul", "d i", "n"), *NORM[7:]]
    assert "LayerNormalization" not in tried(recompose_layernorm, nodes)[0]


@pytest.mark.parametrize(
    "others",
    [
        (node("Pow", "d three", "s"),),
        (node("Mul", "d x", "s"),),
        (node("Add", "d d", "s"),),
        (node("Sub", "x eps", "d"),),
        (node("Sub", "m x", "d"),),
        (node("Div", "x r", "n"),),
        (node("Div", "r d", "n"),),
        (node("Div", "d e", "n"),),
        (node("Sub", "v eps", "e"),),
        (node("Add", "v v", "e"),),
        (node("Exp", "e", "r"),),
        (node("ReduceMax", "s last", "v"),),
        (node("ReduceSum", "x last", "m"),),
        (node("Relu", "x", "p"), node("ReduceMean", "p last", "m")),
    ],
    ids=lambda each: " ".join(f"{one.op_type} {one.output[0]}" for one in each),
)
def test_no_layer_normalization(others):
    nodes = [*[each for each in others if each.output[0] == "p"], *but(NORM, *others)]
    assert "LayerNormalization" not in tried(recompose_layernorm, nodes)[0]


@pytest.mark.parametrize(
    ("axes", "shape", "scale", "axis"),
    [
        ([-1], (2, 3, 4), (4,), -1),
        ([2], (2, 3, 4), (4,), -1),
        ([1, 2], (2, 3, 4), (3, 4), -2),
        ([-1, -2], (2, 3, 4), (3, 4), -2),
        ([0, 1], (3, 4), (3, 4), -2),
        ([1], (2, 3, 4), (3, 1), None),
        ([0, 2], (3, 2, 4), (3, 1, 4), None),
        ([-1], (2, 4, "N"), (1,), None),
    ],
)
def test_normalizations_need_means_over_trailing_axes(axes, shape, scale, axis):
    constants = {name: each for name, each in NUMBERS.items() if name in {"eps", "two"}}
    constants |= {"last": np.array(axes), "g": some(*scale) + 2, "b": some(*scale)}
    for parts, work, opset, op_type in (
        (NORM, recompose_layernorm, 18, "LayerNormalization"),
        (RMS, recompose_rmsnorm, 23, "RMSNormalization"),
    ):
        used = {name for each in parts for name in each.input}
        graph = read(parts, (("x", shape),), opset=opset, **{k: v for k, v in constants.items() if k in used})
        work(graph, Journal())
        assert graph.outputs[0].producer.attributes.get("axis") == axis
        assert (graph.outputs[0].producer.op == op_type) is (axis is not None)
        if axis is not None:
            given = {k: v for k, v in constants.items() if k in used}
            assert done(work, parts, (("x", shape),), opset=opset, exact=False, **given)[0] == [op_type]


def test_means_of_other_axes_than_the_squares_and_without_the_axis():
    nodes = but(NORM, node("ReduceMean", "x first", "m"))
    assert "LayerNormalization" not in tried(recompose_layernorm, nodes, first=np.array([1]))[0]
    square = (4, 4)
    for name in ("m", "v"):
        (old,) = [each for each in NORM if each.output[0] == name]
        flat = node("ReduceMean", " ".join(old.input), name, keepdims=0)
        assert "LayerNormalization" not in tried(recompose_layernorm, but(NORM, flat), shape=square)[0]
    both = [*NORM[:3], node("ReduceMean", "s axes", "v"), *NORM[4:]]
    assert "LayerNormalization" not in tried(recompose_layernorm, both, axes=np.array([1, 2]))[0]


@pytest.mark.parametrize(
    ("scale", "left"),
    [
        ((4,), []),
        ((1, 1, 4), []),
        ((1, 4), []),
        ((3, 4), ["Mul"]),
        ((), ["Mul"]),
        ((1,), ["Mul"]),
        ((3, 1), ["Mul"]),
        ((5, 1, 1, 4), ["Mul"]),
    ],
)
def test_scale_and_bias_are_absorbed_if_they_cover_the_normalized_axes(scale, left):
    assert tried(recompose_layernorm, [*NORM[:7], node("Mul", "n g", "y")], g=some(*scale))[0] == [
        "LayerNormalization",
        *left,
    ]
    assert tried(recompose_layernorm, NORM, b=some(*scale))[0] == ["LayerNormalization", *["Add" for _ in left]]
    assert tried(recompose_rmsnorm, RMS, opset=23, g=some(*scale))[0] == ["RMSNormalization", *left]


def test_a_scale_that_is_computed_is_no_part():
    ops, _ = tried(recompose_layernorm, [*NORM[:7], node("Mul", "n z", "y")], more=(("z", (4,)),))
    assert ops == ["LayerNormalization", "Mul"]
    ops, _ = tried(recompose_layernorm, [*NORM[:7], node("Add", "n b", "y")])
    assert ops == ["LayerNormalization"]


@pytest.mark.parametrize("part", ["m", "d", "s", "v", "e", "r", "n", "k"])
def test_layernorm_with_a_shared_inner_value_is_not_recomposed(part):
    ops, journal = tried(recompose_layernorm, NORM, outputs=("y", part))
    kept = {"n": ["LayerNormalization", "Mul", "Add"], "k": ["LayerNormalization", "Add"]}
    if part in kept:
        assert ops == kept[part]
    else:
        assert ops == [each.op_type for each in NORM]
        assert set(reasons(journal)) == {"an inner value has another consumer"}


@pytest.mark.parametrize("part", ["s", "v", "e", "r", "n"])
def test_rmsnorm_with_a_shared_inner_value_is_not_recomposed(part):
    ops, journal = tried(recompose_rmsnorm, RMS, outputs=("y", part), opset=23)
    assert ops == (["RMSNormalization", "Mul"] if part == "n" else [each.op_type for each in RMS])
    assert set(reasons(journal)) == (set() if part == "n" else {"an inner value has another consumer"})


def test_a_root_mean_square_needs_an_opset_that_has_it():
    for opset, op_type in ((22, "Mul"), (23, "RMSNormalization")):
        ops, journal = tried(recompose_rmsnorm, RMS, opset=opset)
        assert (ops[-1], journal.left) == (op_type, [])


def test_default_scale_has_the_dtype_of_the_operand():
    nodes = [*NORM[:6], node("Div", "d r", "y")]
    constants = {"eps": np.float64(1e-3), "two": np.float64(2), "last": np.array([-1])}
    graph = gp.from_onnx(model(nodes, [info("x", X, 11)], [info("y", None, 11)], constants, opset=18)).graph
    recompose_layernorm(graph, Journal())
    made = graph.outputs[0].producer
    assert made.operands[1].fact.dtype is DType.FLOAT64
    assert made.operands[1].fact.shape == (4,)
    assert made.attributes["epsilon"] == pytest.approx(1e-3)
    assert len(made.operands) == 2


# Products


ERF = [node("Div", "x root", "q"), node("Erf", "q", "f"), node("Add", "f one", "p")]
TANH = [
    node("Pow", "x three", "c"),
    node("Mul", "c cube", "k"),
    node("Add", "x k", "s"),
    node("Mul", "s slope", "t"),
    node("Tanh", "t", "h"),
    node("Add", "h one", "p"),
]
HALVES = {
    "behind": [node("Mul", "x p", "z"), node("Mul", "z half", "y")],
    "as a quotient": [node("Mul", "p x", "z"), node("Div", "z two", "y")],
    "before": [node("Mul", "half x", "z"), node("Mul", "z p", "y")],
    "of the sum": [node("Mul", "p half", "z"), node("Mul", "x z", "y")],
}


@every(("parts", "halves"), [(parts, name) for parts in (ERF, TANH) for name in HALVES])
def test_a_gelu_with_its_half_anywhere(parts, halves):
    graph = read([*parts, *HALVES[halves]], **used_of([*parts, *HALVES[halves]]))
    recompose_gelu(graph, Journal())
    made = graph.outputs[0].producer
    assert (made.op, made.attributes.get("approximate", "none")) == ("Gelu", "none" if parts is ERF else "tanh")
    assert tried(recompose_gelu, [*parts, *HALVES[halves]])[0] == ["Gelu"]


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 1, 1)], ids=["of the rank of x", "of a higher rank"])
def test_a_gelu_with_constants_that_have_axes(shape):
    nodes = [*TANH, *HALVES["behind"]]
    constants = {name: np.broadcast_to(each, shape) for name, each in used_of(nodes).items()}
    assert tried(recompose_gelu, nodes, **constants)[0] == (
        ["Gelu"] if len(shape) == 2 else [each.op_type for each in nodes]
    )


def used_of(nodes, **constants):
    used = {name for each in nodes for name in each.input}
    return {name: np.asarray(each) for name, each in (NUMBERS | constants).items() if name in used}


@pytest.mark.parametrize(
    ("base", "others"),
    [
        (ERF, (node("Mul", "x over", "q"),)),
        (ERF, (node("Mul", "over x", "q"),)),
        (ERF, (node("Add", "one f", "p"),)),
        (TANH, (node("Add", "k x", "s"),)),
        (TANH, (node("Mul", "slope s", "t"),)),
        (TANH, (node("Mul", "cube c", "k"),)),
        (TANH, (node("Add", "one h", "p"),)),
    ],
    ids=lambda each: " ".join(one.op_type for one in each),
)
def test_a_gelu_with_its_operands_in_another_order(base, others):
    assert tried(recompose_gelu, [*but(base, *others), *HALVES["behind"]])[0] == ["Gelu"]


def test_a_cube_of_products():
    cube = [node("Mul", "x x", "c2"), node("Mul", "c2 x", "c"), *TANH[1:]]
    assert tried(recompose_gelu, [*cube, *HALVES["behind"]])[0] == ["Gelu"]
    fourth = [node("Mul", "x x", "c2"), node("Mul", "c2 c2", "c"), *TANH[1:]]
    assert tried(recompose_gelu, [*fourth, *HALVES["behind"]])[0][-1] == "Mul"


@pytest.mark.parametrize(
    ("base", "others", "more"),
    [
        (ERF, (node("Div", "root x", "q"),), {}),
        (ERF, (node("Div", "x two", "q"),), {}),
        (ERF, (node("Add", "f two", "p"),), {}),
        (ERF, (node("Add", "f f", "p"),), {}),
        (ERF, (node("Tanh", "q", "f"),), {}),
        (TANH, (node("Pow", "x two", "c"),), {}),
        (TANH, (node("Mul", "c slope", "k"),), {}),
        (TANH, (node("Mul", "s cube", "t"),), {}),
        (TANH, (node("Div", "s slope", "t"),), {}),
        (TANH, (node("Add", "c k", "s"),), {}),
        (TANH, (node("Add", "x c", "s"),), {}),
        (TANH, (node("Sub", "x k", "s"),), {}),
        (TANH, (node("Erf", "t", "h"),), {}),
        (ERF, (node("Relu", "x", "y0"), node("Mul", "y0 p", "z")), {}),
        (ERF, (node("Mul", "p p", "z"),), {}),
        (ERF, (node("Div", "x p", "z"),), {}),
        (ERF, (node("Mul", "z two", "y"),), {}),
        (ERF, (node("Mul", "z x", "y"),), {}),
    ],
    ids=lambda each: " ".join(f"{one.op_type} {one.output[0]}" for one in each) if isinstance(each, tuple) else "",
)
def test_no_gelu(base, others, more):
    nodes = [*[each for each in others if each.output[0] == "y0"], *but([*base, *HALVES["behind"]], *others)]
    assert "Gelu" not in tried(recompose_gelu, nodes, **more)[0]


@pytest.mark.parametrize("part", ["f", "p", "z"])
def test_gelu_with_a_shared_inner_value_is_not_recomposed(part):
    ops, _ = tried(recompose_gelu, [*ERF, *HALVES["behind"]], outputs=("y", part))
    assert "Gelu" not in ops


def test_constants_of_16_bits_are_near_enough_and_others_are_not():
    for off, is_near in ((1e-4, True), (-1e-4, True), (4e-4, False), (-4e-4, False)):
        for name in ("half", "root", "cube", "slope"):
            parts = ERF if name in ("half", "root") else TANH
            nodes = [*parts, *HALVES["behind"]]
            graph = read(nodes, **used_of(nodes, **{name: F32(NUMBERS[name] * (1 + off))}))
            recompose_gelu(graph, Journal())
            assert (graph.outputs[0].producer.op == "Gelu") is is_near


def test_numbers_that_make_a_result_larger_are_no_parts():
    for name in ("half", "one"):
        nodes = [*ERF, *HALVES["behind"]]
        graph = read(nodes, (("x", ()),), **used_of(nodes, **{name: np.full(1, NUMBERS[name])}))
        recompose_gelu(graph, Journal())
        assert graph.outputs[0].producer.op == "Mul"


CLIP = [node("Add", "x three", "a"), node("Clip", "a zero six", "c")]


@every(
    ("nodes", "opset", "op_type"),
    [
        ([node("Sigmoid", "x", "c"), node("Mul", "x c", "y")], 24, "Swish"),
        ([node("Sigmoid", "x", "c"), node("Mul", "c x", "y")], 24, "Swish"),
        ([node("Sigmoid", "x", "c"), node("Mul", "c x", "y")], 23, None),
        ([node("Sigmoid", "x", "c"), node("Mul", "c x", "k"), node("Mul", "k two", "y")], 24, "Swish"),
        ([node("Relu", "x", "h"), node("Sigmoid", "h", "c"), node("Mul", "c x", "y")], 24, None),
        ([node("Tanh", "x", "c"), node("Mul", "c x", "y")], 24, None),
        ([*CLIP, node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, "HardSwish"),
        ([*CLIP, node("Mul", "c x", "k"), node("Mul", "k sixth", "y")], 18, "HardSwish"),
        ([*CLIP, node("Div", "c six", "k"), node("Mul", "k x", "y")], 18, "HardSwish"),
        ([*CLIP, node("Div", "x six", "k"), node("Mul", "k c", "y")], 18, "HardSwish"),
        ([*CLIP, node("Mul", "x c", "y")], 18, None),
        ([*CLIP, node("Mul", "x c", "k"), node("Div", "k three", "y")], 18, None),
        ([*CLIP, node("Mul", "c c", "k"), node("Div", "k six", "y")], 18, None),
        ([node("Add", "three x", "a"), CLIP[1], node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, "HardSwish"),
        ([node("Add", "x two", "a"), CLIP[1], node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, None),
        ([node("Sub", "x three", "a"), CLIP[1], node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, None),
        ([CLIP[0], node("Clip", "a zero three", "c"), node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, None),
        ([CLIP[0], node("Clip", "a one six", "c"), node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, None),
        ([CLIP[0], node("Clip", "a _ six", "c"), node("Mul", "x c", "k"), node("Div", "k six", "y")], 18, None),
        ([node("HardSigmoid", "x", "c", alpha=1 / 6, beta=0.5), node("Mul", "c x", "y")], 18, "HardSwish"),
        ([node("HardSigmoid", "x", "c", alpha=1 / 6), node("Mul", "c x", "y")], 18, "HardSwish"),
        ([node("HardSigmoid", "x", "c", beta=0.5), node("Mul", "c x", "y")], 18, None),
        ([node("HardSigmoid", "x", "c", alpha=1 / 6, beta=0.25), node("Mul", "c x", "y")], 18, None),
        ([node("HardSigmoid", "x", "c", alpha=1 / 6), node("Mul", "c x", "k"), node("Mul", "k two", "y")], 18, None),
        ([node("Relu", "x", "h"), node("HardSigmoid", "h", "c", alpha=1 / 6), node("Mul", "c x", "y")], 18, None),
    ],
    ids=lambda each: " ".join(one.op_type for one in each) if isinstance(each, list) else str(each),
)
def test_swish_and_its_hard_form(nodes, opset, op_type):
    ops, _ = tried(recompose_swish, nodes, opset=opset)
    if "two" in nodes[-1].input and op_type == "Swish":
        assert ops == [each.op_type for each in nodes] or ops == ["Swish", "Mul"]
    else:
        assert ops == ([op_type] if op_type else [each.op_type for each in nodes])


@pytest.mark.parametrize("part", ["a", "c"])
def test_hardswish_with_a_shared_inner_value_is_not_recomposed(part):
    nodes = [*CLIP, node("Mul", "x c", "k"), node("Div", "k six", "y")]
    assert "HardSwish" not in tried(recompose_swish, nodes, outputs=("y", part))[0]


# Activations


@every(
    ("work", "nodes", "op_type"),
    [
        (recompose_softplus, [node("Exp", "x", "e"), node("Add", "e one", "p"), node("Log", "p", "y")], "Softplus"),
        (recompose_softplus, [node("Exp", "x", "e"), node("Add", "one e", "p"), node("Log", "p", "y")], "Softplus"),
        (recompose_softplus, [node("Exp", "x", "e"), node("Add", "e two", "p"), node("Log", "p", "y")], None),
        (recompose_softplus, [node("Exp", "x", "e"), node("Mul", "e one", "p"), node("Log", "p", "y")], None),
        (recompose_softplus, [node("Relu", "x", "e"), node("Add", "e one", "p"), node("Log", "p", "y")], None),
        (recompose_softplus, [node("Exp", "x", "e"), node("Add", "e e", "p"), node("Log", "p", "y")], None),
        (recompose_mish, [node("Softplus", "x", "l"), node("Tanh", "l", "t"), node("Mul", "x t", "y")], "Mish"),
        (recompose_mish, [node("Softplus", "x", "l"), node("Tanh", "l", "t"), node("Mul", "t x", "y")], "Mish"),
        (recompose_mish, [node("Softplus", "x", "l"), node("Tanh", "l", "t"), node("Mul", "t t", "y")], None),
        (recompose_mish, [node("Softplus", "x", "l"), node("Sigmoid", "l", "t"), node("Mul", "t x", "y")], None),
        (recompose_mish, [node("Softsign", "x", "l"), node("Tanh", "l", "t"), node("Mul", "t x", "y")], None),
        (recompose_mish, [node("Tanh", "x", "t"), node("Mul", "t x", "y")], None),
        (recompose_hardsigmoid, [*CLIP, node("Div", "c six", "y")], "HardSigmoid"),
        (recompose_hardsigmoid, [*CLIP, node("Mul", "c sixth", "y")], "HardSigmoid"),
        (recompose_hardsigmoid, [*CLIP, node("Mul", "sixth c", "y")], "HardSigmoid"),
        (recompose_hardsigmoid, [*CLIP, node("Mul", "c six", "y")], None),
        (recompose_hardsigmoid, [*CLIP, node("Div", "c sixth", "y")], None),
        (recompose_hardsigmoid, [CLIP[0], node("Clip", "a one six", "c"), node("Div", "c six", "y")], None),
        (recompose_hardsigmoid, [CLIP[0], node("Relu", "a", "c"), node("Div", "c six", "y")], None),
        (recompose_hardsigmoid, [node("Add", "x x", "a"), CLIP[1], node("Div", "c six", "y")], None),
    ],
    ids=lambda each: (
        " ".join(one.op_type for one in each) if isinstance(each, list) else str(getattr(each, "__name__", each))
    ),
)
def test_activations_are_recomposed_and_similar_patterns_are_not(work, nodes, op_type):
    assert tried(work, nodes)[0] == ([op_type] if op_type else [each.op_type for each in nodes])


@pytest.mark.parametrize(
    ("work", "nodes", "parts"),
    [
        (recompose_softplus, [node("Exp", "x", "e"), node("Add", "e one", "p"), node("Log", "p", "y")], "ep"),
        (recompose_mish, [node("Softplus", "x", "l"), node("Tanh", "l", "t"), node("Mul", "x t", "y")], "lt"),
        (recompose_hardsigmoid, [*CLIP, node("Div", "c six", "y")], "ac"),
    ],
)
def test_activations_with_another_consumer_of_a_slice(work, nodes, parts):
    for part in parts:
        assert tried(work, nodes, outputs=("y", part))[0] == [each.op_type for each in nodes]


def test_softplus_is_not_recomposed_if_the_one_broadcasts():
    nodes = [node("Exp", "x", "e"), node("Add", "e one", "p"), node("Log", "p", "y")]
    graph = read(nodes, (("x", ()),), one=np.ones(1, np.float32))
    recompose_softplus(graph, Journal())
    assert len(graph) == 3


def test_a_hard_sigmoid_has_its_slope_and_its_middle():
    graph = read([*CLIP, node("Div", "c six", "y")], **used_of([*CLIP, node("Div", "c six", "y")]))
    recompose_hardsigmoid(graph, Journal())
    assert graph.outputs[0].producer.attributes == {"alpha": pytest.approx(1 / 6), "beta": 0.5}


TEST, PRODUCT, CHOICE = node("Greater", "x zero", "t"), node("Mul", "x g", "k"), node("Where", "t x k", "y")


@pytest.mark.parametrize(
    ("nodes", "slope", "op_type"),
    [
        ([TEST, PRODUCT, CHOICE], (4,), "PRelu"),
        ([TEST, PRODUCT, CHOICE], (3, 1), "PRelu"),
        ([TEST, node("Mul", "g x", "k"), CHOICE], (4,), "PRelu"),
        ([TEST, PRODUCT, CHOICE], (), "LeakyRelu"),
        ([TEST, PRODUCT, CHOICE], (1,), "LeakyRelu"),
        ([node("Greater", "x one", "t"), PRODUCT, CHOICE], (4,), None),
        ([node("Greater", "zero x", "t"), PRODUCT, CHOICE], (4,), None),
        ([node("Less", "x zero", "t"), PRODUCT, CHOICE], (4,), None),
        ([TEST, PRODUCT, node("Where", "t k x", "y")], (4,), None),
        ([TEST, node("Add", "x g", "k"), CHOICE], (4,), None),
        ([TEST, node("Mul", "x x", "k"), CHOICE], (4,), None),
        ([TEST, node("Relu", "x", "h"), node("Mul", "h g", "k"), CHOICE], (4,), None),
        ([TEST, PRODUCT, CHOICE], (5, 1, 1, 1), None),
    ],
    ids=lambda each: " ".join(one.op_type for one in each) if isinstance(each, list) else str(each),
)
def test_a_choice_between_a_value_and_its_product(nodes, slope, op_type):
    ops, _ = tried(recompose_prelu, nodes, g=some(*slope))
    assert ops == ([op_type] if op_type else [each.op_type for each in nodes])


def test_a_slope_that_is_computed_is_no_parameter():
    ops, _ = tried(recompose_prelu, [TEST, node("Mul", "x z", "k"), CHOICE], more=(("z", (4,)),))
    assert ops == ["Greater", "Mul", "Where"]
