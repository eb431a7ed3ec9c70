"""Shared helpers of the import rules of ONNX Runtime's domain `com.microsoft`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.declare import ImportRule, UnsupportedError, lower
from graphport.ops.definitions.activation import Clip, HardSigmoid, LeakyRelu, Relu, Sigmoid, Tanh
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.definitions.reshape import Transpose
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

DIALECT = "com.microsoft"


def import_rule(name: str) -> Callable[[ImportRule], ImportRule]:
    """Register an import rule for an operator of the domain.

    The domain has no schema: operands and attributes without a parameter of the function are unsupported forms.
    """

    def register(function: ImportRule) -> ImportRule:
        signature = inspect.signature(function)
        names = {each.name for each in signature.parameters.values() if each.kind is not each.KEYWORD_ONLY}

        @lower(DIALECT, name)
        def lowered(b: Builder, *operands: Value | None, **attributes: object) -> object:
            if unknown := names.intersection(attributes):
                message = f"unknown attribute {min(unknown)}"
                raise UnsupportedError(message)
            try:
                signature.bind(b, *operands, **attributes)
            except TypeError as error:
                message = f"unsupported arguments: {error}"
                raise UnsupportedError(message) from error
            return function(b, *operands, **attributes)

        vars(lowered)["__wrapped__"] = function
        return function

    return register


RULES = RuleTable(DIALECT, register=import_rule)


def only(what: str, *, holds: bool) -> None:
    """Raise `UnsupportedError` unless `holds`; `what` describes the supported form."""
    if not holds:
        message = f"supported only with {what}"
        raise UnsupportedError(message)


def dtype_of(value: Value) -> DType | None:
    """Return the element type of a value, if known."""
    return value.dtype


def dequantize(b: Builder, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """Dequantize with one scale and zero point."""
    return b(DequantizeLinear, x, scale, zero_point)


def stepped(b: Builder, y: Value, scale: Value, zero_point: Value | None, like: Value) -> Value:
    """Quantize to the dtype of `like`."""
    dtype = dtype_of(like)
    if zero_point is None and dtype is not None and not b.dims(scale):
        zero_point = b.constant(0, dtype)
    return b(QuantizeLinear, y, scale, zero_point, output_dtype=None if zero_point else dtype)


def activated(b: Builder, x: Value, activation: str | None, parameters: Sequence[float]) -> Value:
    """Apply the activation of a fused operator; parameters are in its own order."""
    given = iter(parameters)
    match activation:
        case None | "":
            return x
        case "Relu" | "Sigmoid" | "Tanh":
            return b({"Relu": Relu, "Sigmoid": Sigmoid, "Tanh": Tanh}[activation], x)
        case "LeakyRelu":
            return b(LeakyRelu, x, alpha=next(given, 0.01))
        case "HardSigmoid":
            return b(HardSigmoid, x, alpha=next(given, 0.2), beta=next(given, 0.5))
        case "Clip":
            low, high = (None if (end := next(given, None)) is None else b.like(x, end) for _ in range(2))
            return b(Clip, x, low, high)
        case _:
            message = f"unsupported activation {activation}"
            raise UnsupportedError(message)


def channels_first(b: Builder, x: Value) -> Value:
    """`x` with its last axis as the second one."""
    rank = len(b.dims(x))
    return b(Transpose, x, perm=(0, rank - 1, *range(1, rank - 1)))


def channels_last(b: Builder, x: Value) -> Value:
    """`x` with its second axis as the last one."""
    rank = len(b.dims(x))
    return b(Transpose, x, perm=(0, *range(2, rank), 1))
