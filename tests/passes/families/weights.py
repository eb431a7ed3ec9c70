"""Normalization behind weights: convolutions, matrices, products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.passes.cases import NO_BN, SPATIAL, Case, bn, info, model, node, norm, some


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
