"""Type promotion of PyTorch.

Operands have priorities: tensors of rank > 0, tensors of rank 0, weak scalars. A lower priority changes the type only
if it has a higher category (bool < integer < float < complex).

Source: `torch.result_type` and the type tables of PyTorch 2.13's element-wise functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.expression.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.expression.functions import Signature
    from graphport.expression.syntax import Number


class Priority(IntEnum):
    """How much an operand's type counts."""

    SCALAR = 0
    ZERO_DIM = 1
    TENSOR = 2


@dataclass(frozen=True, slots=True)
class Operand:
    """Properties of an operand that determine promotion; `value` is the value of a weak scalar."""

    dtype: DType
    priority: Priority
    value: Number | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a function is computed: arguments converted to `computed`, by `kernel`, result rounded to `result`.

    The kernel `copy` only converts; `abs` maps complex to float.
    """

    kernel: str
    computed: DType
    result: DType
    takes: int
    """Number of arguments of the kernel: a power with a special kernel takes the base only."""

    @property
    def produced(self) -> DType:
        """Type of the kernel's result before rounding."""
        return _REAL.get(self.computed, self.computed) if self.kernel == "abs" else self.computed

    def conversions(self, given: DType) -> tuple[DType, ...]:
        """Return the types through which a tensor of type `given` is converted before the kernel.

        Integers are converted to float16 before they are widened: those beyond its range become infinite.
        """
        if self.result in _HALVES and given.kind in "iu":
            return (self.result, self.computed)
        return () if given is self.computed else (self.computed,)


_SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
_BARE_UNSIGNED = frozenset({DType.UINT16, DType.UINT32, DType.UINT64})
_HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})
_REAL = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
ARITHMETIC = frozenset(
    {DType.BOOL, DType.UINT8, *_BARE_UNSIGNED, *_SIGNED, *_HALVES, DType.FLOAT32, DType.FLOAT64, *_REAL}
)
"""The element types that expressions compute with."""
# PyTorch computes some constant exponents by special functions: sqrt(-inf) is NaN, while (-inf) ** 0.5 is inf.
_POWERS = {0.5: "sqrt", 2: "square", -0.5: "rsqrt", -1: "reciprocal"}
_ONE_OPERAND = frozenset({"copy", *_POWERS.values()})
_CASTS = {"torch.float": DType.FLOAT32, "torch.long": DType.INT64, "torch.bool": DType.BOOL, "int": DType.INT64}


def resolve(name: str, signature: Signature, operands: Sequence[Operand], default_float: DType) -> Resolution:
    """Return how function `name` is computed on `operands`, of which at least one is a tensor.

    Raises:
        Fault: `EXPR0203`: unsupported element types.
    """
    if name in _CASTS:
        return _cast(name, operands[0])
    if name == "sub" and any(operand.dtype is DType.BOOL for operand in operands):
        raise Fault("EXPR0203", "sub does not support bool", "use xor for booleans")
    if name == "square":
        # PyTorch squares by pow(x, 2): a bool becomes an integer.
        operands = (*operands, Operand(DType.INT64, Priority.SCALAR, 2))
    common = result_dtype(operands, default_float)
    if common.kind not in signature.accepts:
        raise Fault("EXPR0203", f"{name} does not support {common}", f"use {_kinds(signature.accepts)}")
    if signature.floats and common.kind in "biu":
        common = default_float
    computed = DType.FLOAT32 if common in _HALVES else common
    result = _REAL.get(common, common) if name == "abs" else common
    kernel = _kernel(name, common, operands)
    takes = 1 if kernel in _ONE_OPERAND else len(operands)
    return Resolution(kernel, computed, result, takes)


def result_dtype(operands: Sequence[Operand], default_float: DType) -> DType:
    """The type that arithmetic on `operands` is done in.

    Raises:
        Fault: `EXPR0203`, two types have no common one.
    """
    levels: list[DType | None] = [None, None, None]
    for operand in operands:
        known = levels[operand.priority]
        levels[operand.priority] = operand.dtype if known is None else promote(known, operand.dtype)
    common = reduce(_combine, reversed(levels))
    return default_float if common is None else common


def promote(a: DType, b: DType) -> DType:
    """Return the smallest type of the higher category that contains both types.

    Raises:
        Fault: `EXPR0203`, wide unsigned integers meet other integers.
    """
    if a is b:
        return a
    low, high = sorted((a, b), key=lambda dtype: _CATEGORY[dtype.kind])
    if low.kind == "b":
        return high
    match high.kind:
        case "c":
            is_wide = DType.COMPLEX128 in (a, b) or low is DType.FLOAT64
            return DType.COMPLEX128 if is_wide else DType.COMPLEX64
        case "f" if low.kind != "f":
            return high
        case "f":
            if a.bits == b.bits:
                return DType.FLOAT32
            return a if a.bits > b.bits else b
        case _:
            return _promote_integers(a, b)


def scalar_dtype(value: Number, default_float: DType) -> DType:
    """Return the type of a weak scalar."""
    match value:
        case bool():
            return DType.BOOL
        case int():
            return DType.INT64
        case float():
            return default_float
        case _:
            return complex_of(default_float)


def complex_of(real: DType) -> DType:
    """Return the complex type with parts of type `real`; float16 is widened to complex64."""
    return DType.COMPLEX128 if real is DType.FLOAT64 else DType.COMPLEX64


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "c":
        return higher
    if higher.kind == "f":
        return complex_of(higher) if lower.kind == "c" else higher
    if higher.kind == "b" or lower.kind in "fc":
        return promote(higher, lower)
    return higher


def _promote_integers(a: DType, b: DType) -> DType:
    if {a, b} & _BARE_UNSIGNED:
        raise Fault("EXPR0203", f"{a} and {b} have no common type", "cast one operand")
    if DType.UINT8 in (a, b):
        a, b = (b, a) if a is DType.UINT8 else (a, b)
        return DType.INT16 if a is DType.INT8 else a
    return a if a.bits > b.bits else b


def _cast(name: str, operand: Operand) -> Resolution:
    if operand.dtype not in ARITHMETIC:
        raise Fault("EXPR0203", f"{name} does not support {operand.dtype}")
    if operand.dtype.kind == "c" and name != "torch.bool":
        raise Fault(
            "EXPR0203",
            f"{name} does not support {operand.dtype}",
            "use a real operand: the imaginary part would be lost",
        )
    return Resolution("copy", _CASTS[name], _CASTS[name], 1)


def _kernel(name: str, common: DType, operands: Sequence[Operand]) -> str:
    if name in {"max", "min"}:
        return f"{name}imum"
    if name == "pow" and operands[1].value is not None:
        return _power(operands[1].value, common)
    if name in {"floor", "ceil", "round", "trunc"} and common.kind != "f":
        return "copy"
    if name == "sign" and common.kind == "b":
        return "copy"
    return name


def _power(exponent: Number, common: DType) -> str:
    if common.kind in "iu":
        if not isinstance(exponent, complex) and exponent < 0:
            raise Fault("EXPR0203", "negative power of an integer", "cast the base with torch.float")
        return "square" if exponent == 2 else "pow"
    if common.kind == "c":
        return "square" if exponent == 2 else "pow"
    if common is DType.FLOAT16 and abs(exponent) == 0.5:
        return "pow"  # PyTorch does not use sqrt for these: (-inf) ** 0.5 is inf
    return _POWERS.get(exponent.real, "pow")


def _kinds(accepts: str) -> str:
    words = {"b": "bool", "i": "integers", "f": "floats", "c": "complex numbers"}
    named = [op_type for kind, op_type in words.items() if kind in accepts]
    return ", ".join(named[:-1]) + (" and " if len(named) > 1 else "") + named[-1]
