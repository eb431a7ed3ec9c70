"""Weights, normalizations and arithmetic with other operators in between, after and next to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.passes.cases import NO_BN, Case, bn, info, model, node, norm, some

CONSTANTS: dict[str, Any] = {
    "w": some(6, 4, 3, 3),
    "v": some(6, 6, 1, 1),
    **norm(6),
    **norm(6, "q"),
    **norm(12, "t"),
    **norm(4, "p"),
    "a": some(1, 6, 1, 1),
    "m": np.abs(some(6, 1, 1)) + 0.5,
    "d": some(4, 1, 1),
    "last": some(6),
    "edges": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "some": np.array([True, False] * 3).reshape(6, 1, 1),
    "ratio": np.float32(0.5),
    "training": np.array(False),
}
CONV = node("Conv", "x w", "h")
STRUCTURES: dict[str, tuple[list[Any], str, tuple[str, ...]]] = {
    "conv_bn_forks": ([CONV, bn("h", "k"), node("Relu", "k", "r"), node("Sub", "k r", "y")], "y", (*NO_BN, "nodes:3")),
    "conv_two_bns_returned": ([CONV, bn("h", "y"), bn("h", "z", "q")], "y z", NO_BN),
    "conv_doubled_bn": ([CONV, node("Add", "h h", "k"), bn("k", "y")], "y", NO_BN),
    "conv_scaled_shifted_bn": (
        [CONV, node("Mul", "h m", "k"), node("Add", "k a", "l"), bn("l", "y")],
        "y",
        (*NO_BN, "nodes:1"),
    ),
    "conv_subtracted_divided_bn": (
        [CONV, node("Sub", "a h", "k"), node("Div", "k m", "l"), bn("l", "y")],
        "y",
        (*NO_BN, "nodes:1"),
    ),
    "conv_negated_bn": ([CONV, node("Neg", "h", "k"), bn("k", "y")], "y", (*NO_BN, "nodes:1")),
    "conv_moved_sum_of_last_axis": (
        [
            CONV,
            node("Transpose", "h", "k", perm=[0, 2, 3, 1]),
            node("Add", "k last", "l"),
            node("Transpose", "l", "y", perm=[0, 3, 1, 2]),
        ],
        "y",
        (),
    ),
    "conv_pool_bn": ([CONV, node("MaxPool", "h", "k", kernel_shape=[2, 2]), bn("k", "y")], "y", NO_BN),
    "conv_mean_bn": ([CONV, node("GlobalAveragePool", "h", "k"), bn("k", "y")], "y", NO_BN),
    "conv_pad_bn": ([CONV, node("Pad", "h edges", "k"), bn("k", "y")], "y", NO_BN),
    "conv_twice_in_concat_bn": ([CONV, node("Concat", "h h", "k", axis=1), bn("k", "y", "t")], "y", NO_BN),
    "conv_dropout_by_operands_bn": ([CONV, node("Dropout", "h ratio training", "k"), bn("k", "y")], "y", NO_BN),
    "conv_copy_returned_bn": ([CONV, node("Identity", "h", "y"), bn("h", "z")], "y z", NO_BN),
    "bn_conv_bn": ([bn("x", "k", "p"), node("Conv", "k w", "h"), bn("h", "y")], "y", (*NO_BN, "nodes:1")),
    "sum_conv_bn": ([node("Add", "x d", "k"), node("Conv", "k w", "h"), bn("h", "y")], "y", NO_BN),
    "one_weight_two_convs_bn": (
        [CONV, node("Conv", "x w", "i"), node("Add", "h i", "s"), bn("s", "y")],
        "y",
        (*NO_BN, "unshared"),
    ),
    "conv_maximum": ([CONV, node("Max", "h a", "y")], "y", ()),
    "conv_sum_of_one": ([CONV, node("Sum", "h", "y")], "y", ()),
    "conv_chosen": ([CONV, node("Where", "some h a", "y")], "y", ()),
    "conv_slope_bn": ([CONV, node("PRelu", "h a", "k"), bn("k", "y")], "y", NO_BN),
    "conv_returned_conv_sum": (
        [CONV, node("Relu", "h", "y"), node("Conv", "y v", "k"), node("Add", "k a", "z")],
        "y z",
        ("nodes:3",),
    ),
}


def structures() -> Iterator[Case]:
    for name, (nodes, outputs, facts) in STRUCTURES.items():
        used = {operand for each in nodes for operand in each.input}
        constants = {operand: array for operand, array in CONSTANTS.items() if operand in used}
        returned = [info(output, ["N", None, None, None]) for output in outputs.split()]
        proto = model(nodes, [info("x", ["N", 4, 8, 7])], returned, constants)
        yield Case(f"structure_{name}", proto, (*facts, "dynamic"))
