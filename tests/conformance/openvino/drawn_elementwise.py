"""Operations that work element by element."""

from __future__ import annotations

import numpy as np

from tests.conformance.openvino.cases import Array, Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}

FLOATS = ("float32", "float16")
SIGNED = ("float32", "float16", "int8", "int32", "int64")
NUMBERS = (*SIGNED, "uint8", "int16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int64")
ANY = (*NUMBERS, "bool")

_OF_ONE = {
    "opset1.Abs": SIGNED,
    "opset1.Acos": FLOATS,
    "opset4.Acosh": FLOATS,
    "opset1.Asin": FLOATS,
    "opset4.Asinh": FLOATS,
    "opset1.Atan": FLOATS,
    "opset4.Atanh": FLOATS,
    "opset13.BitwiseNot": ("int32", "uint8", "int8", "bool"),
    "opset1.Ceiling": NUMBERS,
    "opset1.Cos": FLOATS,
    "opset1.Cosh": FLOATS,
    "opset1.Erf": FLOATS,
    "opset17.ErfInv": FLOATS,
    "opset1.Exp": FLOATS,
    "opset1.Floor": NUMBERS,
    "opset2.Gelu": FLOATS,
    "opset5.HSigmoid": FLOATS,
    "opset4.HSwish": FLOATS,
    "opset16.Identity": ANY,
    "opset10.IsFinite": FLOATS,
    "opset10.IsNaN": FLOATS,
    "opset1.Log": FLOATS,
    "opset1.LogicalNot": ("bool",),
    "opset4.Mish": FLOATS,
}
_FINITE = {"opset4.Asinh", "opset1.Cos", "opset2.Gelu", "opset5.HSigmoid"}
"""Those whose kernels make other numbers of infinities and NaN than the formula has."""


def _of_one(op_type: str, dtypes: tuple[str, ...]) -> Generator:
    def drawn(r: Draw) -> Case:
        special = op_type not in _FINITE and r.chance()
        return one(op_type, r.operand(r.tensor(r.shape(least=r.one(0, 1, 1, 1)), r.one(*dtypes), special=special)))

    return drawn


GENERATORS.update({op_type: _of_one(op_type, dtypes) for op_type, dtypes in _OF_ONE.items()})

_OF_TWO = {
    "opset1.Add": NUMBERS,
    "opset13.BitwiseAnd": (*INTEGERS, "bool"),
    "opset13.BitwiseOr": (*INTEGERS, "bool"),
    "opset13.BitwiseXor": (*INTEGERS, "bool"),
    "opset1.Equal": ANY,
    "opset1.Greater": ANY,
    "opset1.GreaterEqual": ANY,
    "opset1.Less": ANY,
    "opset1.LessEqual": ANY,
    "opset1.LogicalAnd": ("bool",),
    "opset1.LogicalOr": ("bool",),
    "opset1.LogicalXor": ("bool",),
    "opset2.LogicalXor": ("bool",),
    "opset1.Maximum": NUMBERS,
    "opset1.Minimum": NUMBERS,
    "opset1.Multiply": NUMBERS,
}


def pair(r: Draw) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, str]]:
    """Draw two broadcastable shapes, and the broadcast attribute."""
    rule = r.one("", "numpy", "none", "numpy")
    shape = r.shape(least=r.one(0, 1, 1, 1, 1))
    if rule == "none":
        return shape, shape, {"auto_broadcast": rule}
    sides = [tuple(1 if r.chance(0.3) else n for n in shape) for _ in range(2)]
    cut = r.number(0, len(shape)) if r.chance() else 0
    sides[r.number(0, 1)] = sides[0][cut:]
    return sides[0], sides[1], {"auto_broadcast": rule} if rule else {}


def _of_two(op_type: str, dtypes: tuple[str, ...]) -> Generator:
    def drawn(r: Draw) -> Case:
        dtype = r.one(*dtypes)
        left, right, rule = pair(r)
        special = dtype in ("float32", "int32", "bool")
        operands = [r.operand(r.tensor(shape, dtype, special=special), constant=0.25) for shape in (left, right)]
        return one(op_type, *operands, **rule)

    return drawn


GENERATORS.update({op_type: _of_two(op_type, dtypes) for op_type, dtypes in _OF_TWO.items()})


of = register(GENERATORS)


def _divisor(r: Draw, shape: tuple[int, ...], dtype: str) -> Array:
    found = r.tensor(shape, dtype)
    return np.where(found == 0, np.ones_like(found), found)


@of("opset1.Divide", "opset1.FloorMod", "opset1.Mod")
def quotient(r: Draw, op_type: str) -> Case:
    """Its plugin rounds quotients of bytes."""
    dtype = r.one("float32", "int32", "int64", "float16", *(["int8", "uint8"] if op_type == "opset1.Mod" else []))
    left, right, rule = pair(r)
    flags = {"m_pythondiv": r.one(True, False)} if op_type == "opset1.Divide" and r.chance() else {}
    operands = r.operand(r.tensor(left, dtype), constant=0.2), r.operand(_divisor(r, right, dtype), constant=0.2)
    return one(op_type, *operands, **rule, **flags)


@of("opset15.BitwiseLeftShift", "opset15.BitwiseRightShift")
def shift(r: Draw, op_type: str) -> Case:
    dtype = r.one("int32", "uint8", "int64", "uint32", "int8", "uint16")
    left, right, rule = pair(r)
    x = r.tensor(left, dtype)
    return one(op_type, r.operand(x), r.operand(r.integers(right, 0, 5, dtype), constant=0.3), **rule)


@of("opset1.Clamp")
def clamp(r: Draw, op_type: str) -> Case:
    """Bounds of integers that are fractions go to the inside; its plugin rounds them."""
    dtype = r.one(*NUMBERS)
    low = r.one(-2.0, 0.0, -1e38, *([-1.5, 1.25] if dtype.startswith("float") else [1.0]))
    return one(op_type, r.operand(r.tensor(r.shape(), dtype)), min=low, max=low + r.one(1.0, 3.0, 1e20))


@of("opset1.Elu")
def elu(r: Draw, op_type: str) -> Case:
    return one(op_type, r.operand(r.tensor(r.shape(), r.one(*FLOATS))), alpha=r.one(1.0, 0.5, 2.0, 0.0))


@of("opset7.Gelu")
def gelu(r: Draw, op_type: str) -> Case:
    mode = r.one({}, {"approximation_mode": "erf"}, {"approximation_mode": "TANH"})
    return one(op_type, r.operand(r.tensor(r.shape(), r.one(*FLOATS))), **mode)


@of("opset1.HardSigmoid")
def hard_sigmoid(r: Draw, op_type: str) -> Case:
    dtype = r.one(*FLOATS)
    ends = [r.operand(np.array(x, "float32").astype(dtype), constant=1) for x in (r.one(0.2, 0.3), 0.5)]
    return one(op_type, r.operand(r.tensor(r.shape(), dtype)), *ends)


@of("opset10.IsInf")
def is_inf(r: Draw, op_type: str) -> Case:
    flags = {name: r.one(True, False) for name in ("detect_negative", "detect_positive") if r.chance()}
    return one(op_type, r.operand(r.tensor(r.shape(), r.one(*FLOATS), special=True)), **flags)


_KINDS = {"f32": "float32", "f16": "float16", "i32": "int32", "i64": "int64", "u8": "uint8", "i8": "int8"}
_KINDS |= {"boolean": "bool", "u16": "uint16", "i16": "int16", "bf16": "bfloat16", "f64": "float64"}


@of("opset1.Convert")
def convert(r: Draw, op_type: str) -> Case:
    """Values that both types represent: other conversions are unspecified."""
    x = r.tensor(r.shape(), r.one(*_KINDS.values()))
    to = r.one(*_KINDS)
    if to.startswith("u") and x.dtype.kind not in "ub":
        x = np.abs(x)
    return one(op_type, r.operand(x), destination_type=r.one(to, to.upper()))


@of("opset1.ConvertLike")
def convert_like(r: Draw, op_type: str) -> Case:
    x = np.abs(r.tensor(r.shape(), r.one("float32", "int32", "uint8", "bool", "int64", "float16")))
    like = r.tensor(r.shape(), r.one("float32", "int32", "uint8", "bool", "int64", "float16"))
    return one(op_type, r.operand(x), r.operand(like, constant=0.3))


@of("opset14.ConvertPromoteTypes")
def promote(r: Draw, op_type: str) -> Case:
    kinds = ("float32", "float16", "int32", "int64", "uint8", "int8", "int16", "bool", "bfloat16", "uint16", "float64")
    operands = [r.operand(np.abs(r.tensor(r.shape(0, 2), r.one(*kinds)))) for _ in range(2)]
    flags = {"promote_unsafe": True, "pytorch_scalar_promotion": r.one(True, False)}
    return one(op_type, *operands, results=2, **flags)


@of("opset13.FakeConvert")
def fake_convert(r: Draw, op_type: str) -> Case:
    dtype = r.one(*FLOATS)
    shape = r.shape(1, 3)
    along = r.one((), (1,), tuple(n if k == 0 else 1 for k, n in enumerate(shape)))
    scale = np.abs(r.reals(along)) * 10 + 0.5
    shift = [constant(r.reals(along).astype(dtype))] if r.chance() else []
    x = r.operand(r.reals(shape, dtype, spread=8))
    flags = {"destination_type": r.one("f8e4m3", "f8e5m2")} if r.chance(0.7) else {}
    return one(op_type, x, constant(scale.astype(dtype)), *shift, **flags)


@of("opset1.FakeQuantize")
def fake_quantize(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    along = r.one((), (1,) * len(shape), tuple(n if k == 1 else 1 for k, n in enumerate(shape)))
    low, span = -np.abs(r.reals(along)) - 0.1, np.abs(r.reals(along)) + 0.2
    flipped = r.chance(0.15)
    back, step = r.reals(along), np.abs(r.reals(along)) + 0.1
    ends = [low, low + span, back, back + (-step if flipped else step)]
    if r.chance():
        ends[2:] = ends[:2]
    levels = r.one(2, 4, 16, 255, 256, 65536)
    x = r.operand(r.reals(shape, spread=1.5))
    return one(
        op_type, x, *(r.operand(np.asarray(end, np.float32), constant=0.85, dynamic=0) for end in ends), levels=levels
    )
