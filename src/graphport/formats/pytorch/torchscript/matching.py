"""Overload resolution: select the schema of an operator by the arguments, like torch's schema matcher."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from graphport.formats.pytorch.schemas import MISSING, Schema, schemas
from graphport.formats.pytorch.torchscript.values import (
    Device,
    List,
    NamedTuple,
    Quantized,
    RuntimeScalar,
    Tensor,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INTEGERS = ("int", "SymInt", "ScalarType", "MemoryFormat", "Layout")
_LIST = re.compile(r"(.+)\[(\d*)\]")


def match(name: str, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Schema, dict[str, Any]] | None:
    """Return the first overload that accepts the arguments, preferably without conversions, and the bound arguments."""
    for convert in (False, True):
        for schema in schemas(name):
            bound = _bound(schema, given, named, convert=convert)
            if bound is not None:
                return schema, bound
    return None


def described(name: str, given: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Format a call with the types of its arguments."""
    shown = [type_name(x) for x in given] + [f"{key}={type_name(x)}" for key, x in named.items()]
    return f"{name}({', '.join(shown)})"


def _bound(schema: Schema, given: Sequence[Any], named: Mapping[str, Any], *, convert: bool) -> dict[str, Any] | None:
    if len(given) > len(schema.positional):
        return None
    bound: dict[str, Any] = {}
    for argument, value in zip(schema.positional, given, strict=False):
        if argument.name in named or not _accepts(argument.type, value, convert=convert):
            return None
        bound[argument.name] = value
    rest = (*schema.positional[len(given) :], *schema.keyword)
    for argument in rest:
        if argument.name in named:
            if not _accepts(argument.type, named[argument.name], convert=convert):
                return None
            bound[argument.name] = named[argument.name]
        elif argument.default is MISSING:
            return None
    return bound if len(bound) == len(given) + len(named) else None


def _accepts(type_: str, value: Any, *, convert: bool) -> bool:
    if type_.endswith("?"):
        return value is None or _accepts(type_[:-1], value, convert=convert)
    as_list = _LIST.fullmatch(type_)
    if as_list:
        return _accepts_list(as_list[1], as_list[2], value, convert=convert)
    return _accepts_item(type_, value, convert=convert)


def _accepts_item(type_: str, value: Any, *, convert: bool) -> bool:
    kind = type_name(value)
    match type_:
        case "Tensor":
            return kind == "Tensor"
        case "Scalar" | "number":
            return kind in ("int", "float", "complex") or (convert and kind in ("bool", "Tensor"))
        case _ if type_ in _INTEGERS:
            return kind == "int" or (convert and kind in ("Tensor", "bool"))
        case "float":
            return kind == "float" or (convert and kind in ("int", "Tensor"))
        case "bool":
            return kind == "bool" or (convert and kind in ("Tensor", "int"))
        case "str" | "complex":
            return kind == type_
        case "Device":
            return isinstance(value, Device | str)
        case "Generator":
            return False
        case _:
            return True


def _accepts_list(item: str, size: str, value: Any, *, convert: bool) -> bool:
    if isinstance(value, List) and value.stacked is not None:
        return item in ("Tensor", "Tensor?", "t")
    if isinstance(value, List) or (isinstance(value, tuple | NamedTuple) and convert):
        items = value.items if isinstance(value, List | NamedTuple) else cast("tuple[Any, ...]", value)
        if not items and isinstance(value, List) and value.element:
            return (
                item == "t" or (value.element.lower() == item.lower()) or (item == "SymInt" and value.element == "int")
            )
        return all(_accepts(item, each, convert=convert) for each in items)
    return (
        bool(size)
        and _accepts_item(item, value, convert=convert)
        and isinstance(value, bool | int | float | RuntimeScalar)
    )


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, Tensor | Quantized)


def has_tensor(values: Sequence[Any]) -> bool:
    """Whether a value is a tensor or a list with a tensor."""
    return any(
        is_tensor(value)
        or (isinstance(value, List) and (value.stacked is not None or has_tensor(value.items)))
        or (isinstance(value, tuple) and has_tensor(cast("tuple[Any, ...]", value)))
        for value in values
    )
