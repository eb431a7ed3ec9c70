"""Parse and format values of parameters, and shapes and element types of operands."""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbol, Symbolic
from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute

DTYPES: Mapping[str, DType] = MappingProxyType(
    {
        "f32": DType.FLOAT32,
        "f64": DType.FLOAT64,
        "f16": DType.FLOAT16,
        "i32": DType.INT32,
        "i64": DType.INT64,
        "i16": DType.INT16,
        "i8": DType.INT8,
        "u8": DType.UINT8,
        "bool": DType.BOOL,
        "c64": DType.COMPLEX64,
        "c128": DType.COMPLEX128,
        "bf16": DType.BFLOAT16,
    }
)
"""Element types by name; `null` is an unknown type, and `c32` is not supported by graphport."""

NAMES: Mapping[DType, str] = MappingProxyType({dtype: name for name, dtype in DTYPES.items()})

_UNTYPED = ("null", "c32")
_FLOAT = r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
_COMPLEX = re.compile(rf"({_FLOAT})\+?([-+]?{_FLOAT[2:]})j", re.ASCII)
_NUMBER = re.compile(r"-?\d", re.ASCII)
_SPECIAL = MappingProxyType({"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "nan.0": math.nan, "-nan": math.nan})
_TENSOR = re.compile(r"\(([^()]*)\)([a-z0-9]+)", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_LONGEST_INTEGER = 40
_OPEN_LENGTHS = ("?", "-1")
_TEXTS = ("expr",)


def parse_value(key: str, text: str) -> Attribute:
    """Parse `text` as the value of parameter `key`.

    Raises:
        ValueError: the text starts like a number but is not one.
    """
    if key in _TEXTS or "%" in text:
        return text
    if text in ("None", "()", "[]"):
        return None
    if text[:1] in ("(", "["):
        if text[-1:] not in (")", "]"):
            message = f"the list {text!r} has no closing bracket"
            raise ValueError(message)
        return tuple(_parse_scalar(item) for item in text[1:-1].split(","))
    return _parse_scalar(text)


def _parse_scalar(text: str) -> Attribute:
    if text in ("True", "False"):
        return text == "True"
    if text == "None":
        return None
    if text in _SPECIAL:
        return _SPECIAL[text]
    if not _NUMBER.match(text):
        return text
    if text.endswith("j"):
        found = _COMPLEX.fullmatch(text)
        if found is None:
            message = f"expected a complex number, found {text!r}"
            raise ValueError(message)
        return complex(float(found[1]), float(found[2]))
    if "." in text or "e" in text:
        return float(text)
    if len(text) > _LONGEST_INTEGER:
        message = f"{text[:_LONGEST_INTEGER]}… is too long for an integer"
        raise ValueError(message)
    return int(text)


def format_value(value: Attribute) -> str:
    """Format a value like pnnx.

    Raises:
        ValueError: PNNX has no text for it.
    """
    match value:
        case None:
            return "None"
        case bool():
            return str(value)
        case int():
            return str(value)
        case float():
            return format_float(value)
        case complex():
            return f"{value.real:e}+{value.imag:e}j"
        case str() if value and not any(c.isspace() for c in value):
            return value
        case tuple():
            return f"({','.join(map(format_value, value))})" if value else "None"
        case _:
            message = f"PNNX files cannot represent {value!r}"
            raise ValueError(message)


def format_float(number: float) -> str:
    """Format the shortest decimal that rounds to the same float32, with an exponent if very small or large."""
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    single = float(np.float32(number)) if abs(number) < float(np.finfo(np.float32).max) else number
    if single == 0:
        return "0.0"
    if abs(single) < 1e-4 or abs(single) >= 1e6:
        text = f"{single:e}" if _equals_float32(f"{single:e}", single) else f"{single:.8e}"
        digits, exponent = text.split("e")
        return f"{digits}e{int(exponent)}"
    text = f"{single:g}" if _equals_float32(f"{single:g}", single) else f"{single:.9g}"
    return text if "." in text or "e" in text else f"{text}.0"


def _equals_float32(text: str, single: float) -> bool:
    return bool(np.float32(float(text)) == np.float32(single))


def parse_tensor(text: str, name: str) -> tuple[DType | None, tuple[Dim, ...]]:
    """Parse element type and shape of `(1,?,%h)f32`; open sizes are symbols named after `name` and the axis.

    Raises:
        ValueError: the text is not a shape with an element type.
    """
    found = _TENSOR.fullmatch(text)
    if found is None or (found[2] not in DTYPES and found[2] not in _UNTYPED):
        message = f"expected a shape with an element type, for example (1,3)f32; found {text!r}"
        raise ValueError(message)
    items = found[1].split(",") if found[1] else []
    return DTYPES.get(found[2]), tuple(_length(item, f"{name}.{axis}") for axis, item in enumerate(items))


def _length(text: str, name: str) -> Dim:
    if text in _OPEN_LENGTHS:
        return Symbol(name)
    if text.startswith("%") and len(text) > 1:
        return Symbol(text[1:])
    if not _LENGTH.fullmatch(text):
        message = f"expected a size, found {text!r}"
        raise ValueError(message)
    return int(text)


def format_tensor(dtype: DType | None, shape: Sequence[Dim]) -> str:
    """Format `(1,?,224)f32`: an unknown size is `?`.

    Raises:
        ValueError: PNNX does not have the element type.
    """
    if dtype is not None and dtype not in NAMES:
        message = f"PNNX has no tensors of {dtype}"
        raise ValueError(message)
    lengths = ",".join("?" if isinstance(dim, Symbolic) else str(dim) for dim in shape)
    return f"({lengths}){'null' if dtype is None else NAMES[dtype]}"
