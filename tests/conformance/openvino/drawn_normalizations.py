"""Operations that normalize, or that take logarithms of shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)

FLOATS = ("float32", "float32", "float16")


@of("opset1.BatchNormInference", "opset5.BatchNormInference")
def batch_normalization(r: Draw, op_type: str) -> Case:
    shape, dtype = r.shape(2, 5), r.one(*FLOATS)
    x = r.operand(r.reals(shape, dtype))
    sides = [r.operand(r.reals(shape[1:2], dtype), constant=0.7) for _ in range(3)]
    variance = r.operand((np.abs(r.reals(shape[1:2])) + 0.1).astype(dtype), constant=0.7)
    order = [sides[0], sides[1], x] if op_type == "opset1.BatchNormInference" else [x, sides[0], sides[1]]
    return one(op_type, *order, sides[2], variance, epsilon=r.one(1e-5, 0.01))


@of("opset12.GroupNormalization")
def group_normalization(r: Draw, op_type: str) -> Case:
    groups, dtype = r.number(1, 3), r.one(*FLOATS)
    channels = groups * r.number(1, 3)
    x = r.reals((r.number(1, 2), channels, *r.shape(1, 3)), dtype)
    sides = [r.operand(r.reals((channels,), dtype), constant=0.7) for _ in range(2)]
    return one(op_type, r.operand(x), *sides, num_groups=groups, epsilon=r.one(1e-5, 0.01))


@of("opset1.GRN")
def grn(r: Draw, op_type: str) -> Case:
    return one(op_type, r.operand(r.reals(r.shape(2, 4), r.one(*FLOATS))), bias=r.one(1e-4, 1.0))


@of("opset1.LRN")
def lrn(r: Draw, op_type: str) -> Case:
    shape = r.shape(3, 4, least=2, most=6)
    axes = r.one((1,), (1,), tuple(range(2, len(shape))))
    size, numbers = r.one(1, 3, 5), np.array(axes, r.one("int64", "int32"))
    flags = {"alpha": r.one(1e-4, 0.5), "beta": r.one(0.75, 1.5), "bias": r.one(1.0, 2.0), "size": size}
    return one(op_type, r.operand(r.reals(shape, r.one(*FLOATS))), constant(numbers), **flags)


@of("opset2.MVN")
def variance_normalization(r: Draw, op_type: str) -> Case:
    shape = r.shape(3, 5, least=2)
    flags: dict[str, Any] = {"eps": r.one(1e-5, 0.1), "normalize_variance": r.one(True, False)}
    flags |= {"across_channels": r.one(True, False)}
    return one(op_type, r.operand(r.reals(shape, r.one(*FLOATS))), **flags)


@of("opset6.MVN")
def variance_normalization_of_axes(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4, least=2)
    axes = r.random.permutation(len(shape))[: r.number(1, len(shape))]
    axes = np.where(r.random.random(axes.shape) < 0.5, axes - len(shape), axes).astype(r.one("int64", "int32"))
    flags = {"eps": r.one(1e-5, 0.1), "normalize_variance": r.one(True, False)}
    flags |= {"eps_mode": r.one("inside_sqrt", "outside_sqrt")}
    return one(
        op_type, r.operand(r.reals(shape, r.one(*FLOATS))), constant(axes), case={"judges": ("plugin",)}, **flags
    )


@of("opset5.LogSoftmax")
def log_softmax(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    axis = {"axis": r.number(-len(shape), len(shape) - 1)} if r.chance(0.9) or len(shape) < 2 else {}
    return one(op_type, r.operand(r.reals(shape, r.one(*FLOATS), spread=4)), **axis)
