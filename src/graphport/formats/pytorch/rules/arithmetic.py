"""Arithmetic of exported programs whose overloads or arguments differ from PNNX's."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Abs, Div, Mod, Mul, Round
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.indexing import NonZero
from graphport.ops.definitions.reshape import Split, Squeeze
from graphport.ops.lowering.operands import dtype_of


def _cast_to_float64(b: Builder, x: Value) -> Value:
    """Cast floats to float64, the precision of Python floats."""
    return cast(b, x, DType.FLOAT64) if dtype_of(x).is_floating else x


RULES.having(real=_cast_to_float64).lower("""
aten.item, aten._local_scalar_dense(self)
    -> number = real(self); rank(self) > 0: Reshape(number, [])
    -> number
""")


@aten("aten.round.decimals")
def round_decimals(b: Builder, self: Value, decimals: Any) -> Value:
    factor = 10.0 ** abs(int(scalar_of(decimals)))
    scale = b.like(self, factor)
    if scalar_of(decimals) < 0:
        return b(Mul, b(Round, b(Div, self, scale)), scale)
    return b(Div, b(Round, b(Mul, self, scale)), scale)


@aten("aten.where.default")
def nonzero_indices(b: Builder, condition: Value) -> tuple[Value, ...]:
    """Return the indices of nonzero elements: one row per axis."""
    rank = len(b.dims(condition))
    indices = b(NonZero, condition)
    rows = b.results(Split, rank, indices, [1] * rank, axis=0) if rank > 1 else (indices,)
    return tuple(b(Squeeze, row, [0]) for row in rows)


@aten("aten.nonzero_numpy")
def nonzero_numpy(b: Builder, self: Value) -> tuple[Value, ...]:
    return nonzero_indices(b, self)


@aten("aten.gcd")
def gcd(b: Builder, self: Value, other: Value) -> Value:
    """Greatest common divisor by Euclid's algorithm, unrolled to the maximum number of iterations."""
    x, y = (b(Abs, each) for each in promoted(b, self, other))
    zero = b.like(x, 0)
    one = b.like(x, 1)
    for _ in range(_EUCLID[dtype_of(x).bits]):
        rest = b(Mod, x, b(Where, b(Equal, y, zero), one, y))
        x, y = b(Where, b(Equal, y, zero), x, y), b(Where, b(Equal, y, zero), y, rest)
    return x


@aten("aten.lcm")
def lcm(b: Builder, self: Value, other: Value) -> Value:
    """Least common multiple: |x| / gcd * |y|; 0 if either is 0."""
    x, y = (b(Abs, each) for each in promoted(b, self, other))
    common = gcd(b, x, y)
    is_zero = b(Equal, common, 0)
    return b(Mul, b(Div, x, b(Where, is_zero, 1, common)), y)


_EUCLID = {8: 12, 16: 24, 32: 47, 64: 93}
"""Maximum number of iterations of Euclid's algorithm by integer width in bits."""

RULES.lower("""
aten.dot(self, tensor) -> aten::dot(input=self, other=tensor)
aten.vdot -> aten::dot
aten.clamp.Tensor, aten.clip -> aten::clamp
aten.special_expm1 -> aten::expm1
aten.special_log1p -> aten::log1p
aten.special_erf -> aten::erf
aten.special_erfc -> aten::erfc
aten.special_expit -> aten::sigmoid
aten.special_exp2 -> aten::exp2
aten.special_logit -> aten::logit
aten.special_xlogy -> aten::xlogy
aten.special_sinc -> aten::sinc
aten.special_round(self, decimals=0)
    -> decimals == 0: aten::round(self)
    -> aten.round.decimals(self, decimals)
aten.special_softmax -> aten::softmax
aten.special_log_softmax -> aten::log_softmax
aten.special_logsumexp -> aten::logsumexp
aten.div.Tensor_mode, aten.true_divide, aten.divide -> aten::div
aten.multiply -> aten::mul
aten.subtract -> aten::sub
aten.negative -> aten::neg
aten.absolute -> aten::abs
aten.fix -> aten::trunc
aten.greater -> aten::gt
aten.greater_equal -> aten::ge
aten.less -> aten::lt
aten.less_equal -> aten::le
aten.not_equal -> aten::ne
aten.arccos -> aten::acos
aten.arcsin -> aten::asin
aten.arctan -> aten::atan
aten.arctan2 -> aten::atan2
aten.arccosh -> aten::acosh
aten.arcsinh -> aten::asinh
aten.arctanh -> aten::atanh
aten.moveaxis -> aten::movedim
aten.row_stack -> aten::vstack
aten.ger -> aten::outer
""")
