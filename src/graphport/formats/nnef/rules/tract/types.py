"""The element types of tract by the names that its texts give them."""

from __future__ import annotations

import re

from graphport.core.dtypes import DType

_QUANTIZED = re.compile(r"q(u8|i8|i32)\(.*\)", re.IGNORECASE)
_TYPES = {
    "bool": DType.BOOL,
    "u8": DType.UINT8,
    "u16": DType.UINT16,
    "u32": DType.UINT32,
    "u64": DType.UINT64,
    "i8": DType.INT8,
    "i16": DType.INT16,
    "i32": DType.INT32,
    "i64": DType.INT64,
    "f16": DType.FLOAT16,
    "f32": DType.FLOAT32,
    "f64": DType.FLOAT64,
    "string": DType.STRING,
    "tdim": DType.INT64,  # integers and expressions of symbols
}
_NAMES = {dtype: name for name, dtype in _TYPES.items() if name != "tdim"}


def datum(name: str) -> DType | None:
    """The element type that tract calls `name`; of a quantized one that of its codes."""
    quantized = _QUANTIZED.fullmatch(name)
    return _TYPES.get((quantized[1] if quantized else name).lower())


def datum_name(dtype: DType) -> str | None:
    """Return tract's name of a dtype; `None` if it has none."""
    return _NAMES.get(dtype)
