"""Deduction of generic types from argument values, and conversion of argument forms that other tools write."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.formats.nnef.container.emit import as_type, literal
from graphport.formats.nnef.container.operation import Tensor
from graphport.formats.nnef.container.types import GENERIC, SCALAR, ArrayOf, Primitive, TensorOf, TupleOf, Type

if TYPE_CHECKING:
    from graphport.formats.nnef.container.declarations import Declaration, Formal
    from graphport.formats.nnef.container.evaluate import Value


def deduced(declaration: Declaration, bound: dict[str, Value]) -> str | None:
    """Return the type of `?` in a call with the parameter values `bound`; `None` if nothing is generic."""
    if not declaration.is_generic:
        return None
    found = (_data(formal.type, bound[formal.name]) for formal in declaration.formals)
    return next((data for data in found if data), "scalar")


def convert_argument(formal: Formal, value: Value) -> Value | None:
    """Convert an integer to an array, or a tensor or array of one number to that number; `None` for others."""
    if isinstance(formal.type, ArrayOf):
        return cast("Value", value if isinstance(value, list) else [value])
    if formal.type is not SCALAR:
        return value
    if isinstance(value, Tensor):
        value = [value.literal] if value.literal is not None else _constant_values(value)
    if not isinstance(value, list):
        return value
    numbers = cast("list[Value]", value)
    return as_type(numbers[0], SCALAR) if len(numbers) == 1 else None


def _constant_values(tensor: Tensor) -> list[Value]:
    """Return the elements of a tensor made by `constant`; empty for any other."""
    made = tensor.producer
    values = made.attributes["value"] if made is not None and made.name == "constant" else ()
    return list(values) if isinstance(values, tuple) else []


def _data(kind: Type, value: Value) -> str | None:
    """Return the type of `?` in `kind` for the value `value`; `None` if there is no `?`."""
    match kind:
        case TensorOf() if kind.item is GENERIC:
            return (value if isinstance(value, Tensor) else literal(value)).data
        case Primitive() if kind is GENERIC:
            return "string" if isinstance(value, str) else literal(value).data
        case ArrayOf(Primitive() | TensorOf() | ArrayOf() | TupleOf() as item):
            return next((data for each in value if (data := _data(item, each))), None)
        case TupleOf():
            return next(
                (data for inner, each in zip(kind.items, value, strict=True) if (data := _data(inner, each))), None
            )
        case _:
            return None
