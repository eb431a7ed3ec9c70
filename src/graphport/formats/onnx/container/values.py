"""Conversion of Python values to ONNX attributes."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, cast

from graphport.core.dtypes import DType
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact
from graphport.core.storage import Storage
from graphport.formats.onnx.container import attributes as kinds
from graphport.formats.onnx.container.sparse import SparseStorage
from graphport.formats.onnx.container.types import CODES
from graphport.ir.graph import Graph

if TYPE_CHECKING:
    from onnx import AttributeProto

    from graphport.ir.graph import Attribute

_GREATEST = (2 - 2**-24) * 2.0**127
"""Smallest number that rounds to infinity in float32."""


class AttributeMismatchError(Exception):
    """A value that an ONNX attribute cannot hold; the message is the reason."""


def attribute_kind(value: Attribute) -> int:
    """Return the type code of an attribute by its value.

    Raises:
        AttributeMismatchError: ONNX has no type for the value.
    """
    match value:
        case bool() | int() | DType():
            return kinds.INT
        case float():
            return kinds.FLOAT
        case str() | bytes():
            return kinds.STRING
        case SparseStorage():
            return kinds.SPARSE_TENSOR
        case Storage():
            return kinds.TENSOR
        case Graph():
            return kinds.GRAPH
        case TensorFact() | SequenceFact() | OptionalFact():
            return kinds.TYPE_PROTO
        case tuple():
            return _kind_of_list(value)
        case _:
            raise AttributeMismatchError(f"{value!r} has no ONNX attribute type")


def set_value(proto: AttributeProto, kind: int, value: Attribute) -> None:
    """Store numbers or strings in a message.

    Raises:
        AttributeMismatchError: the value does not match `kind`.
    """
    proto.type = cast("AttributeProto.AttributeType", kind)
    if kind == kinds.INT:
        proto.i = _integer(value)
    elif kind == kinds.FLOAT:
        proto.f = _as_float(value)
    elif kind == kinds.STRING:
        proto.s = to_bytes(value)
    elif kind == kinds.INTS:
        proto.ints.extend(map(_integer, list_items(value)))
    elif kind == kinds.FLOATS:
        proto.floats.extend(map(_as_float, list_items(value)))
    else:
        proto.strings.extend(map(to_bytes, list_items(value)))


def list_items(value: Attribute) -> tuple[Attribute, ...]:
    """The entries of a list.

    Raises:
        AttributeMismatchError: it is none.
    """
    if isinstance(value, tuple):
        return value
    raise AttributeMismatchError(f"{value!r} is not a list")


def _kind_of_list(value: tuple[Attribute, ...]) -> int:
    if not value:
        raise AttributeMismatchError("the element type of an empty list is unknown")
    found = {attribute_kind(item) if not isinstance(item, tuple) else 0 for item in value}
    if found == {kinds.INT, kinds.FLOAT}:
        return kinds.FLOATS
    if len(found) > 1 or 0 in found:
        raise AttributeMismatchError("the list mixes types or contains lists")
    return kinds.LISTS[found.pop()]


def _integer(value: Attribute) -> int:
    if isinstance(value, DType):
        return CODES[value]
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise AttributeMismatchError(f"{value!r} is not an int64")
    return int(value)


def _as_float(value: Attribute) -> float:
    if not isinstance(value, int | float):
        raise AttributeMismatchError(f"{value!r} is not a number")
    if isfinite(value) and abs(value) >= _GREATEST:
        raise AttributeMismatchError(f"{value!r} exceeds the float32 range")
    return float(value)


def to_bytes(value: object) -> bytes:
    """Encode a string for ONNX: UTF-8, with invalid bytes restored.

    Raises:
        AttributeMismatchError: it is not a string.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise AttributeMismatchError(f"{value!r} is not a string")
