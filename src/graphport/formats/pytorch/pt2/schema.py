"""Typed access to the JSON objects of a program."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Never, cast

from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES: Mapping[int, DType] = MappingProxyType(
    {
        1: DType.UINT8,
        2: DType.INT8,
        3: DType.INT16,
        4: DType.INT32,
        5: DType.INT64,
        6: DType.FLOAT16,
        7: DType.FLOAT32,
        8: DType.FLOAT64,
        10: DType.COMPLEX64,
        11: DType.COMPLEX128,
        12: DType.BOOL,
        13: DType.BFLOAT16,
        # Codes of 8-bit floats in schema 7.
        23: DType.FLOAT8E5M2,
        24: DType.FLOAT8E4M3FN,
        25: DType.FLOAT8E5M2FNUZ,
        26: DType.FLOAT8E4M3FNUZ,
        28: DType.UINT16,
        29: DType.FLOAT8E4M3FN,
        30: DType.FLOAT8E5M2,
        31: DType.FLOAT8E4M3FNUZ,
        32: DType.FLOAT8E5M2FNUZ,
        33: DType.FLOAT8E8M0,
        34: DType.UINT32,
        35: DType.UINT64,
    }
)
"""Element types by their code in the schema."""

STRIDED = 7
"""Layout code of dense (strided) tensors."""

MEMORY_FORMATS: Mapping[int, str] = MappingProxyType(
    {1: "contiguous", 2: "channels_last", 3: "channels_last_3d", 4: "preserve"}
)
_FAR = 1 << 63
_REALS: Mapping[str, float] = MappingProxyType(
    {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
)


class SchemaError(ValueError):
    """An object does not match the schema."""


def fail(message: str) -> Never:
    """Raise `SchemaError`."""
    raise SchemaError(message)


def fields(found: Any, what: str) -> dict[str, Any]:
    """Return `found` as an object."""
    return cast("dict[str, Any]", found) if isinstance(found, dict) else fail(f"{what} is not a JSON object")


def list_of(found: Any, what: str) -> list[Any]:
    """Return `found` as a list; `None` is an empty list."""
    if found is None:
        return []
    return cast("list[Any]", found) if isinstance(found, list) else fail(f"{what} is not a list")


def text(found: Any, what: str) -> str:
    """Return `found` as a string."""
    return found if isinstance(found, str) else fail(f"{what} is not a string")


def integer(found: Any, what: str) -> int:
    """Return `found` as a 64-bit integer."""
    if isinstance(found, bool) or not isinstance(found, int) or not -_FAR <= found < _FAR:
        fail(f"{what} is not an int64")
    return found


def float_of(found: Any, what: str) -> float:
    """Return `found` as a float; infinities and NaN are strings."""
    if isinstance(found, str) and found in _REALS:
        return _REALS[found]
    if isinstance(found, bool) or not isinstance(found, int | float):
        fail(f"{what} is not a number")
    try:
        return float(found)
    except OverflowError:
        fail(f"{what} is not a float64")


def flag(found: Any, what: str) -> bool:
    """Return `found` as a boolean."""
    return found if isinstance(found, bool) else fail(f"{what} is neither true nor false")


def union(found: Any, what: str) -> tuple[str, Any]:
    """Return the tag and the value of a tagged union."""
    chosen = fields(found, what)
    if len(chosen) != 1:
        fail(f"{what} has {len(chosen)} argument kinds, expected 1")
    return next(iter(chosen.items()))


def name_of(found: Any, what: str) -> str:
    """Return the name in `{"name": …}`."""
    return text(fields(found, what).get("name"), f"the name of {what}")


def dtype_of(found: Any, what: str) -> DType:
    """Return the element type for a code of the schema."""
    dtype = DTYPES.get(integer(found, what))
    return dtype if dtype is not None else fail(f"{what} is {found}, which is not an element type of a dense tensor")
