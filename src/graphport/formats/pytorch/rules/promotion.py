"""Type promotion of PyTorch."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.expression.faults import Fault
from graphport.expression.functions import SIGNATURES
from graphport.expression.promotion import Operand, Priority, resolve, result_dtype, scalar_dtype
from graphport.formats.pytorch.rules.binding import Scalar
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Cast
from graphport.ops.lowering.operands import dtype_of

DEFAULT = DType.FLOAT32
"""The dtype of Python floats without tensor operands."""
_LARGEST = 2.0**127


def cast(b: Builder, x: Value, dtype: DType) -> Value:
    """Cast `x`; return it unchanged if it has the element type."""
    if x.dtype is dtype:
        return x
    if dtype.kind == "c":
        message = "cast to the complex type {dtype}"
        raise UnsupportedError(message)
    if dtype is DEFAULT and x.dtype is DType.FLOAT64:
        known = static_scalar(x)
        if known is not None and abs(known) < _LARGEST:
            return b.constant(known, dtype)
    # Overflow to float8 is infinite or NaN.
    return b(Cast, x, to=dtype, saturate=0 if dtype.is_floating and dtype.bits == 8 else None)


def static_scalar(x: Value | Scalar | None) -> Scalar | None:
    """Return the element of a rank-0 tensor if it is static."""
    if not isinstance(x, Value):
        return x
    fact = x.fact
    if not isinstance(fact, TensorFact) or fact.shape != () or fact.dtype is None:
        return None
    if fact.elements:
        return fact.elements[0] if isinstance(fact.elements[0], int) else None
    storage = folded(x) if fact.dtype in (DType.FLOAT64, DType.INT64) else None
    return None if storage is None else storage.numpy().item()


def operand_of(b: Builder, x: Value | Scalar, default: DType = DEFAULT) -> Operand:
    """Return the promotion category of an operand: dtype, and tensor, rank-0 tensor or Python number."""
    if not isinstance(x, Value):
        return Operand(scalar_dtype(x, default), Priority.SCALAR, x)
    return Operand(dtype_of(x), Priority.TENSOR if b.dims(x) else Priority.ZERO_DIM)


def common(b: Builder, *operands: Value | Scalar, default: DType = DEFAULT) -> DType:
    """Return the promoted element type; `default` is the type of Python floats without a tensor operand.

    Raises:
        UnsupportedError: the types have no promotion.
    """
    try:
        return result_dtype([operand_of(b, x, default) for x in operands], default)
    except Fault as fault:
        raise UnsupportedError(fault.message) from fault


def tensor(b: Builder, x: Value | Scalar, dtype: DType) -> Value:
    """Convert a tensor or Python number to a tensor of `dtype`."""
    return cast(b, x, dtype) if isinstance(x, Value) else b.constant(x, dtype)


def promoted(b: Builder, *operands: Value | Scalar, default: DType = DEFAULT) -> list[Value]:
    """Cast all operands to their promoted element type."""
    dtype = common(b, *operands, default=default)
    return [tensor(b, x, dtype) for x in operands]


def floating(b: Builder, x: Value) -> Value:
    """Cast integers and booleans to float32; return floats unchanged."""
    dtype = dtype_of(x)
    return x if dtype.kind in "fc" else cast(b, x, DEFAULT)


def computed(b: Builder, name: str, *operands: Value | Scalar, default: DType = DEFAULT) -> Value:
    """Emit a function of the expression language with PyTorch's type promotion.

    Raises:
        UnsupportedError: the function does not support the types, or has no canonical operator.
    """
    try:
        found = resolve(name, SIGNATURES[name], [operand_of(b, x, default) for x in operands], default)
    except Fault as fault:
        raise UnsupportedError(fault.message) from fault
    given = [tensor(b, x, found.computed) for x in operands[: found.takes]]
    return cast(b, kernel(b, found.kernel, *given), found.result)


def kernel(b: Builder, name: str, *operands: Value) -> Value:
    """Emit the function `name` of graphport's expression language (`add`, `sqrt`) on tensors of one element type.

    Raises:
        UnsupportedError: the function has no canonical operator.
    """
    if name == "copy":
        return operands[0]
    rule = registry.lowering("expression", name)
    result = None if rule is None else registry.results(rule(b, *operands))[0]
    if result is None:
        message = f"no canonical operator for {name}"
        raise UnsupportedError(message)
    return result
