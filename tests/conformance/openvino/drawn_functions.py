"""Functions of each element, from Negative on, reductions and what is normalized by them."""

from __future__ import annotations

import numpy as np

from tests.conformance.openvino.cases import Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register
from tests.conformance.openvino.drawn_elementwise import ANY, FLOATS, NUMBERS, SIGNED, pair

GENERATORS: dict[str, Generator] = {}

of = register(GENERATORS)

_OF_ONE = {
    "opset1.Negative": SIGNED,
    "opset1.ReLU": NUMBERS,
    "opset1.Sigmoid": FLOATS,
    "opset1.Sign": SIGNED,
    "opset1.Sin": FLOATS,
    "opset1.Sinh": FLOATS,
    "opset4.SoftPlus": FLOATS,
    "opset9.SoftSign": FLOATS,
    "opset1.Sqrt": FLOATS,
    "opset1.Tan": FLOATS,
    "opset1.Tanh": FLOATS,
}
_FINITE = {"opset1.Sin", "opset1.Tan", "opset9.SoftSign", "opset4.SoftPlus"}
"""Those whose kernels make other numbers of infinities and NaN than the formula has."""


def _of_one(op_type: str, dtypes: tuple[str, ...]) -> Generator:
    def drawn(r: Draw) -> Case:
        special = op_type not in _FINITE and r.chance()
        return one(op_type, r.operand(r.tensor(r.shape(least=r.one(0, 1, 1, 1)), r.one(*dtypes), special=special)))

    return drawn


GENERATORS.update({op_type: _of_one(op_type, dtypes) for op_type, dtypes in _OF_ONE.items()})

_OF_TWO = {
    "opset1.NotEqual": ANY,
    "opset1.SquaredDifference": ("float32", "float16", "int32"),
    "opset1.Subtract": SIGNED,
    "opset1.Xor": ("bool",),
}


def _of_two(op_type: str, dtypes: tuple[str, ...]) -> Generator:
    def drawn(r: Draw) -> Case:
        dtype = r.one(*dtypes)
        left, right, rule = pair(r)
        operands = [r.operand(r.tensor(shape, dtype, special=r.chance(0.3)), constant=0.25) for shape in (left, right)]
        return one(op_type, *operands, **rule)

    return drawn


GENERATORS.update({op_type: _of_two(op_type, dtypes) for op_type, dtypes in _OF_TWO.items()})


@of("opset1.Power")
def power(r: Draw, op_type: str) -> Case:
    dtype = r.one("float32", "float32", "float16", "int32")
    left, right, rule = pair(r)
    x = r.tensor(left, dtype)
    y = r.integers(right, 0, 3).astype(dtype) if r.chance() or dtype == "int32" else r.reals(right, dtype)
    return one(op_type, r.operand(x), r.operand(y, constant=0.5), **rule)


@of("opset1.PReLU")
def prelu(r: Draw, op_type: str) -> Case:
    dtype = r.one(*FLOATS)
    shape = r.shape(1, 4, least=1)
    if r.chance():
        slope = (shape[1] if len(shape) > 1 else shape[0],)
    else:
        slope = tuple(r.one(1, n) for n in shape[r.number(0, len(shape)) :])
    if r.chance(0.2):
        slope = r.one((), (1,))
    x = r.operand(r.tensor(shape, dtype), dynamic=0)
    return one(op_type, x, r.operand(r.reals(slope, dtype), constant=0.6, dynamic=0))


@of("opset5.Round")
def round_(r: Draw, op_type: str) -> Case:
    dtype = r.one("float32", "float16", "float32", "int32")
    x = r.tensor(r.shape(), dtype, special=r.chance(0.3))
    if dtype != "int32" and r.chance():
        x = (r.integers(x.shape, -12, 12) / 2).astype(dtype)
    mode = r.one({}, {"mode": "half_to_even"}, {"mode": "half_away_from_zero"}, {"mode": "HALF_AWAY_FROM_ZERO"})
    return one(op_type, r.operand(x), **mode)


@of("opset1.Selu")
def selu(r: Draw, op_type: str) -> Case:
    dtype = r.one(*FLOATS)
    ends = [r.operand(np.array([x], "float32").astype(dtype), constant=1) for x in (1.67, r.one(1.05, 0.5))]
    return one(op_type, r.operand(r.tensor(r.shape(), dtype)), *ends)


@of("opset4.Swish")
def swish(r: Draw, op_type: str) -> Case:
    dtype = r.one(*FLOATS)
    beta = [r.operand(np.array(r.one(1.0, 0.5, -2.0, 0.0)).astype(dtype), constant=0.6)] if r.chance(0.7) else []
    return one(op_type, r.operand(r.tensor(r.shape(), dtype)), *beta)


@of("opset1.SoftMax", "opset8.SoftMax")
def softmax(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 5)
    axis = r.number(0 if op_type == "opset1.SoftMax" else -len(shape), len(shape) - 1)
    said = {"axis": axis}
    if r.chance(0.2) and len(shape) > 1:
        said = {}
    return one(op_type, r.operand(r.tensor(shape, r.one(*FLOATS))), **said)


_REDUCED = {
    "opset4.ReduceL1": ("float32", "float16", "int32"),
    "opset4.ReduceL2": ("float32", "float16", "int32"),
    "opset1.ReduceLogicalAnd": ("bool",),
    "opset1.ReduceLogicalOr": ("bool",),
    "opset1.ReduceMax": (*NUMBERS, "float32"),
    "opset1.ReduceMean": ("float32", "float16", "int32"),
    "opset1.ReduceMin": (*NUMBERS, "float32"),
    "opset1.ReduceProd": ("float32", "float16", "int32"),
    "opset1.ReduceSum": ("float32", "float16", "int32", "int64"),
}


@of(*_REDUCED)
def reduced(r: Draw, op_type: str) -> Case:
    # Of nothing, ONNX Runtime keeps an axis that is reduced, and the plugin's extremes are finite.
    shape = r.shape(1, 5, most=3)
    rank = len(shape)
    axes = r.random.permutation(rank)[: r.number(0, rank)]
    axes = np.array([k - rank if r.chance(0.3) else k for k in axes], r.one("int64", "int32"))
    if len(axes) == 1 and r.chance(0.4):
        axes = axes.reshape(())
    flags = {"keep_dims": r.one(True, False)} if r.chance(0.8) else {}
    x = r.tensor(shape, r.one(*_REDUCED[op_type]))
    return one(op_type, r.operand(x), r.operand(axes, constant=0.8, dynamic=0), **flags)


@of("opset1.NormalizeL2")
def normalize(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    rank = len(shape)
    axes = np.sort(r.random.permutation(rank)[: r.number(1, rank)]).astype("int64")
    flags = {"eps": r.one(1e-6, 0.1, 1.0), "eps_mode": r.one("add", "max")}
    return one(op_type, r.operand(r.reals(shape)), constant(axes), **flags)
