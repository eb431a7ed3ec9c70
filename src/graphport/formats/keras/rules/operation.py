"""Operations of Keras 3 and functions of TensorFlow: operands that may be tensors or Python scalars."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.binding import DTYPES, Layer, checked_axis, layer
from graphport.ir.graph import Value
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.ops.builder import Builder

Given: TypeAlias = "Value | bool | int | float | list[Any]"
"""An operand: a tensor, a number or a list of numbers."""

_FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


def operation(
    *names: str, count: Callable[..., int] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the import rule of operations.

    Positional parameters after the builder are operands, `*xs` is a list of operands.
    Keyword-only parameters are options.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        operands = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]

        def rule(at: Layer, **options: Any) -> Any:
            given: list[Any] = []
            for each in operands:
                constant = options.pop(each.name, None)
                values = at.operands.get(each.name, ())
                if each.kind is each.VAR_POSITIONAL:
                    found = _merged(values, constant)
                else:
                    found = [values[0] if values else constant if constant is not None else _default(each)]
                for operand in found:
                    _check_operand(each, operand)
                given += found
            for name in options:
                values = at.operands.get(name)
                if values:
                    message = f"{name} is computed"
                    raise UnsupportedError(message)
            return function(at.b, *given, **options)

        keywords = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=_default_of(each))
            for each in parameters
        ]
        first = inspect.Parameter("at", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        vars(rule)["__signature__"] = inspect.Signature([first, *keywords])
        call = " ".join(each.name for each in parameters)
        layer(*(f"ops.{name}" for name in names), call=call, autocast=False, count=count)(rule)
        return function

    return register


def _default_of(parameter: inspect.Parameter) -> Any:
    return None if parameter.default is inspect.Parameter.empty else parameter.default


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        message = f"the operand {parameter.name!r} is missing"
        raise ShapeError(message)
    return parameter.default


def _check_operand(parameter: inspect.Parameter, operand: Any) -> None:
    """Check an operand against its annotation: `Value` is a tensor, `Any` a tensor, a scalar or a list of scalars.

    Raises:
        ShapeError: it is something else.
    """
    if isinstance(operand, Value) or operand is parameter.default:
        return
    takes_scalars = parameter.annotation not in ("Value", "Value | None")
    if takes_scalars and _is_numeric(operand):
        return
    message = f"{parameter.name} is {operand!r:.60}, expected a tensor{' or scalars' if takes_scalars else ''}"
    raise ShapeError(message)


def _is_numeric(operand: Any) -> bool:
    """Whether an operand is a scalar or a nested list of scalars whose lists at each depth have equal lengths."""
    if not is_sequence(operand):
        return isinstance(operand, bool | int | float)
    items = list(operand)
    lengths = {len(each) if is_sequence(each) else -1 for each in items}
    return len(lengths) <= 1 and all(map(_is_numeric, items))


def _merged(values: Any, constant: Any) -> list[Any]:
    """Tensors and scalars of a list in order: `constant` has `None` where a tensor is."""
    if not is_sequence(constant):
        return list(values)
    tensors = iter(values)
    return [next(tensors) if each is None else each for each in constant]


def two_results(options: Any) -> int:
    """The number of results of an operation that has two_results."""
    del options
    return 2


def promote_types(types: list[DType], weak: list[DType]) -> DType:
    """The element type of a result, as Keras promotes: Python scalars do not widen tensors of their kind."""
    found = types[0] if types else weak[0]
    for each in types[1:]:
        found = _promoted(found, each)
    for each in weak if types else weak[1:]:
        if each is DType.FLOAT32 and not found.is_floating:
            found = DType.FLOAT32
        elif found is DType.BOOL and each is not DType.BOOL:
            found = each
    return found


def _promoted(one: DType, other: DType) -> DType:
    if one is other or other is DType.BOOL:
        return one
    if one is DType.BOOL:
        return other
    if one.is_floating != other.is_floating:
        return one if one.is_floating else other
    if one.is_floating:
        if {one, other} == {DType.FLOAT16, DType.BFLOAT16}:
            return DType.FLOAT32
        return max(one, other, key=_FLOATS.index)
    is_signed = [each.name.startswith("INT") for each in (one, other)]
    if is_signed[0] == is_signed[1]:
        return one if one.bits >= other.bits else other
    signed, unsigned = (one, other) if is_signed[0] else (other, one)
    if signed.bits > unsigned.bits:
        return signed
    return {8: DType.INT16, 16: DType.INT32, 32: DType.INT64}.get(unsigned.bits, DType.FLOAT32)


def _weak(value: Any) -> DType:
    kind = np.asarray(value).dtype.kind
    return {"b": DType.BOOL, "i": DType.INT32, "u": DType.INT32}.get(kind, DType.FLOAT32)


def promoted(b: Builder, *operands: Any, is_float: bool = False) -> list[Value]:
    """Operands as tensors of one element type; of a float type if `is_float`."""
    tensors = [each for each in operands if not _is_scalar(each)]
    wanted = promote_types([dtype_of(each) for each in tensors], [_weak(each) for each in operands if _is_scalar(each)])
    if is_float and not wanted.is_floating:
        wanted = DType.FLOAT32
    return [tensor(b, each, wanted) for each in operands]


def _is_scalar(value: Any) -> bool:
    return is_sequence(value) or isinstance(value, bool | int | float)


def tensor(b: Builder, value: Any, dtype: DType) -> Value:
    """A tensor or number in an element type."""
    if not _is_scalar(value):
        return cast(b, value, dtype)
    with np.errstate(over="ignore"):
        return b.constant(np.asarray(value).astype(dtype.numpy), dtype)


def floating(b: Builder, x: Value) -> Value:
    """`x` as floats: integers and booleans are cast to float32."""
    return x if dtype_of(x).is_floating else cast(b, x, DType.FLOAT32)


def named_dtype(name: Any) -> DType:
    """Return the dtype with the Keras name `name`.

    Raises:
        UnsupportedError: the name is unknown.
    """
    found = DTYPES.get(str(name).rpartition(".")[2]) if isinstance(name, str) else None
    if found is None:
        message = f"the element type {name!r}"
        raise UnsupportedError(message)
    return found


def axes_of(b: Builder, x: Value, axis: Any) -> list[int]:
    """Axes counted from 0; all axes for `None`."""
    rank = len(b.dims(x))
    given = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    return [checked_axis(each, rank) for each in given]
