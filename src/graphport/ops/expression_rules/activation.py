"""Activation functions as expressions of the functions in `ops.arithmetic.expression`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.definitions.activation import (
    Celu,
    Clip,
    Elu,
    Selu,
)
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _emitted(b: Builder, op_type: str, *operands: Value | float) -> Value:
    return b.emit(op_type, *(b.constant(x) if isinstance(x, int | float) else x for x in operands))[0]


def _function_name(
    b: Builder, op_type: str, _is_last: bool, operands: Sequence[Value | float], _attributes: object
) -> Value:
    """Emit `op_type` and convert Python scalars among the operands to constants."""
    return b.emit(op_type, *(b.constant(x) if isinstance(x, int | float) else x for x in operands))[0]


RULES = RuleTable("expression", emit=_function_name)
RULES.export_rules("""
Relu -> maximum(x, 0)
LeakyRelu -> add(maximum(x, 0), mul(minimum(x, 0), alpha))
Sigmoid -> reciprocal(add(exp(neg(x)), 1))
HardSigmoid -> maximum(minimum(add(mul(x, alpha), beta), 1), 0)
HardSwish -> mul(x, maximum(minimum(add(div(x, 6), 0.5), 1), 0))
Swish
    -> alpha == 1: mul(x, reciprocal(add(exp(neg(x)), 1)))
    -> mul(x, reciprocal(add(exp(neg(mul(x, alpha))), 1)))
Softplus -> logaddexp(x, 0)
Softsign -> div(input, add(abs(input), 1))
Mish -> mul(x, tanh(logaddexp(x, 0)))
Gelu
    -> approximate == "tanh":
       mul(mul(x, 0.5), add(tanh(mul(add(x, mul(mul(mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))), 1))
    -> mul(mul(x, 0.5), add(erf(mul(x, math.sqrt(0.5))), 1))
""")


@Elu.export_rule("expression")
def _of_elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return _exponential(b, x, alpha)


@Selu.export_rule("expression")
def _of_selu(b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Value:
    return _emitted(b, "mul", _exponential(b, x, alpha), gamma)


@Celu.export_rule("expression")
def _of_celu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value | None:
    return _exponential(b, x, alpha, 1 / alpha) if alpha > 0 else None


def _exponential(b: Builder, x: Value, alpha: float, slope: float = 1.0) -> Value:
    low = _emitted(b, "minimum", x, 0)
    grown = _emitted(b, "expm1", low if slope == 1 else _emitted(b, "mul", low, slope))
    return _emitted(b, "add", _emitted(b, "maximum", x, 0), _emitted(b, "mul", grown, alpha))


@Clip.export_rule("expression")
def _of_clip(b: Builder, input: Value, low: Value | None = None, high: Value | None = None) -> Value:
    found = input if low is None else _emitted(b, "maximum", input, low)
    return found if high is None else _emitted(b, "minimum", found, high)
