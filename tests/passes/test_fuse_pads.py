"""Zero padding before a convolution is fused into its pads; other padding is unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.passes.fuse_pads import fuse_pads
from tests.passes.alone import applied, reasons
from tests.passes.cases import I64, info, model, node, some

X = some(1, 2, 5, 6)
W = some(3, 2, 2, 3)


def padded(pads, *, operands="x p", outputs=("y",), mode=None, more=(), feeds=None, conv=None, **constants):
    attributes = {} if mode is None else {"mode": mode}
    nodes = [node("Pad", operands, "h", **attributes), node("Conv", "h w", "y", **(conv or {}))]
    given = {"p": np.array(pads, np.int64)} if pads is not None else {}
    proto = model(
        nodes,
        [info("x", X.shape), *more],
        [info(name, None) for name in outputs],
        {**given, "w": W, **constants},
        opset=18,
    )
    return applied(proto, fuse_pads, {"x": X, **(feeds or {})})


@pytest.mark.parametrize(
    ("pads", "options"),
    [
        ([0, 0, 1, 2, 0, 0, 3, 0], {}),
        ([0, 0, 1, 2, 0, 0, 3, 0], {"conv": {"pads": [1, 0, 0, 2], "strides": [2, 1]}}),
        ([0, 0, 1, 2, 0, 0, 3, 0], {"conv": {"auto_pad": "VALID"}}),
        ([0] * 8, {}),
        ([1, 2, 3, 0], {"operands": "x p _ axes", "axes": np.array([-2, 3])}),
        ([2, 1, 0, 3], {"operands": "x p _ axes", "axes": np.array([3, 2])}),
        ([0, 0, 1, 1, 0, 0, 1, 1], {"operands": "x p zero", "zero": np.float32(0)}),
    ],
    ids=["all", "and its own", "none of its own", "nothing", "axes", "axes in another order", "zero"],
)
def test_zeros_are_pads_of_the_convolution(pads, options):
    assert padded(pads, **options)[0] == ["Conv"]


@pytest.mark.parametrize(
    ("pads", "options", "reason"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], {"mode": "edge"}, "fill value is computed"),
        ([0, 0, 1, 1, 0, 0, 1, 1], {"operands": "x p one", "one": np.float32(1)}, "fill value is not 0"),
        (
            [0, 0, 1, 1, 0, 0, 1, 1],
            {"operands": "x p c", "more": [info("c", [])], "feeds": {"c": np.float32(0)}},
            "fill value is not 0",
        ),
        ([0, 0, 1, 1, 0, 0, 1, 1], {"conv": {"auto_pad": "SAME_UPPER"}}, "uses auto_pad"),
        ([1, 0, 0, 0, 0, 0, 0, 0], {}, "pads batch or channels"),
        ([0, 0, 0, 0, 1, 0, 0, 0], {}, "pads batch or channels"),
        ([0, 0, -1, 1, 0, 0, 1, 1], {}, "it crops"),
        (None, {"more": [info("p", [8], I64)], "feeds": {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}}, "are computed"),
        (
            [1, 1],
            {"operands": "x p _ axes", "more": [info("axes", [1], I64)], "feeds": {"axes": np.array([2])}},
            "axes are computed",
        ),
    ],
    ids=["edges", "ones", "computed number", "auto_pad", "batch", "batch at the end", "cuts", "computed", "axes"],
)
def test_unsupported_pad_is_not_fused(pads, options, reason):
    ops, journal = padded(pads, **options)
    assert ops == ["Pad", "Conv"]
    assert [text for text in reasons(journal) if reason in text]


def test_pad_along_channels_is_not_fused():
    nodes = [node("Pad", "x p", "h"), node("Conv", "h w", "y")]
    constants = {"p": np.array([0, 1, 0, 0, 0, 0, 0, 0]), "w": some(3, 3, 2, 3)}
    proto = model(nodes, [info("x", X.shape)], [info("y", None)], constants, opset=18)
    assert applied(proto, fuse_pads, {"x": X})[0] == ["Pad", "Conv"]


def test_values_with_another_consumer_are_unchanged():
    assert padded([0, 0, 1, 1, 0, 0, 1, 1], outputs=("y", "h"))[0] == ["Pad", "Conv"]
    nodes = [node("Pad", "w p", "h"), node("Conv", "x h", "y")]
    constants = {"p": np.array([0, 0, 1, 0, 0, 0, 0, 0])}
    proto = model(nodes, [info("x", X.shape), info("w", W.shape)], [info("y", None)], constants, opset=18)
    assert applied(proto, fuse_pads, {"x": X, "w": W})[0] == ["Pad", "Conv"]
