"""Factors of what weighted operators compute: in the weights where there is one a channel, else left alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphport.passes.fuse_scale import fuse_scale
from tests.every import every
from tests.passes.alone import applied, reasons
from tests.passes.cases import bn, info, model, node, norm, some

WEIGHTED = {
    # name: the node, the shape of its input and its constants, the shape of its result
    "conv": (node("Conv", "x w", "h"), (2, 4, 5, 5), {"w": some(6, 4, 2, 2)}, (2, 6, 4, 4)),
    "conv of groups": (node("Conv", "x w b", "h", group=2), (2, 4, 7), {"w": some(6, 2, 3), "b": some(6)}, (2, 6, 5)),
    "transposed": (node("ConvTranspose", "x w", "h"), (2, 4, 3, 3), {"w": some(4, 5, 2, 2)}, (2, 5, 4, 4)),
    "transposed groups": (
        node("ConvTranspose", "x w b", "h", group=2),
        (1, 4, 3),
        {"w": some(4, 3, 2), "b": some(6)},
        (1, 6, 4),
    ),
    "gemm": (node("Gemm", "x w", "h", alpha=0.5), (3, 4), {"w": some(4, 6)}, (3, 6)),
    "gemm turned": (
        node("Gemm", "x w b", "h", transB=1, beta=2.0),
        (3, 4),
        {"w": some(6, 4), "b": some(6)},
        (3, 6),
    ),
    "product": (node("MatMul", "x w", "h"), (3, 4), {"w": some(4, 6)}, (3, 6)),
    "product of rows": (node("MatMul", "w x", "h"), (2, 4, 3), {"w": some(5, 4)}, (2, 5, 3)),
    "norm": (bn("x", "h"), (2, 5, 3), norm(5), (2, 5, 3)),
}


def scaled(name, factor, op="Mul", *, is_left=False, outputs=("y",)):
    weighted, shape, constants, _ = WEIGHTED[name]
    last = node("Neg", "h", "y") if op == "Neg" else node(op, "c h" if is_left else "h c", "y")
    given = constants if op == "Neg" else {**constants, "c": np.asarray(factor, np.float32)}
    proto = model([weighted, last], [info("x", shape)], [info(each, None) for each in outputs], given)
    return applied(proto, fuse_scale, {"x": some(*shape, seed=5)}, exact=False)


def channels(name):
    """The shape of one number for each entry of axis 1, as it meets the result."""
    shape = WEIGHTED[name][3]
    return (shape[1], *[1] * (len(shape) - 2))


@every(("name", "op", "is_left"), list(itertools.product(WEIGHTED, ("Mul", "Div"), (False, True))))
def test_scalar_or_per_channel_factor_is_fused_into_the_weights(name, op, is_left):
    if op == "Div" and is_left:
        assert len(scaled(name, 2.0, op, is_left=True)[0]) == 2
        return
    for shape in (channels(name), (), (1,)):
        factor = 1.5 + np.arange(np.prod(shape, dtype=int)).reshape(shape)
        assert len(scaled(name, factor, op, is_left=is_left)[0]) == 1


@every("name", list(WEIGHTED))
def test_negation_is_folded_into_weights(name):
    assert len(scaled(name, None, "Neg")[0]) == 1
    assert len(scaled(name, None, "Neg", outputs=("y", "h"))[0]) == 2


@every("name", list(WEIGHTED))
def test_factors_along_another_axis_stay(name):
    shape = WEIGHTED[name][3]
    for axis in set(range(len(shape))) - {1}:
        if shape[axis] > 1:
            factor = 2 + np.arange(shape[axis]).reshape([-1 if each == axis else 1 for each in range(len(shape))])
            ops, journal = scaled(name, factor)
            assert len(ops) == 2
            assert reasons(journal)


@every("name", list(WEIGHTED))
def test_factors_that_make_the_result_larger_stay(name):
    shape = WEIGHTED[name][3]
    assert len(scaled(name, 2 + np.arange(3).reshape(3, *[1] * len(shape)))[0]) == 2


def test_factor_that_broadcasts_channels_is_not_fused():
    nodes = [node("Conv", "x w", "h"), node("Mul", "h c", "y")]
    constants = {"w": some(1, 2, 2, 2), "c": 1 + np.arange(4, dtype=np.float32).reshape(4, 1, 1)}
    proto = model(nodes, [info("x", (1, 2, 4, 4))], [info("y", None)], constants)
    ops, journal = applied(proto, fuse_scale, {"x": some(1, 2, 4, 4)}, exact=False)
    assert ops == ["Conv", "Mul"]
    assert reasons(journal)


@pytest.mark.parametrize("name", ["conv", "product"])
def test_division_by_zero_and_shared_results_are_not_fused(name):
    assert len(scaled(name, 0.0, "Div")[0]) == 2
    assert len(scaled(name, 1e-45, "Div")[0]) == 2
    ops, journal = scaled(name, 2.0, outputs=("y", "h"))
    assert len(ops) == 2
    assert any("another consumer" in reason for reason in reasons(journal))


def test_a_factor_that_is_computed_stays():
    weighted, shape, constants, _ = WEIGHTED["conv"]
    proto = model([weighted, node("Mul", "h c", "y")], [info("x", shape), info("c", [])], [info("y", None)], constants)
    feeds = {"x": some(*shape), "c": np.float32(2)}
    assert applied(proto, fuse_scale, feeds, exact=False)[0] == ["Conv", "Mul"]
