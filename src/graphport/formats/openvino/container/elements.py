"""Element types of IR files: spelled `f32` in attributes and `FP32` on ports."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {
    "boolean": DType.BOOL,
    "bf16": DType.BFLOAT16,
    "f16": DType.FLOAT16,
    "f32": DType.FLOAT32,
    "f64": DType.FLOAT64,
    "f4e2m1": DType.FLOAT4E2M1,
    "f8e4m3": DType.FLOAT8E4M3FN,
    "f8e5m2": DType.FLOAT8E5M2,
    "f8e8m0": DType.FLOAT8E8M0,
    "i4": DType.INT4,
    "i8": DType.INT8,
    "i16": DType.INT16,
    "i32": DType.INT32,
    "i64": DType.INT64,
    "u2": DType.UINT2,
    "u4": DType.UINT4,
    "u8": DType.UINT8,
    "u16": DType.UINT16,
    "u32": DType.UINT32,
    "u64": DType.UINT64,
    "string": DType.STRING,
}
DTYPES: Mapping[str, DType] = MappingProxyType(_NAMES)
"""What tensors here can have, by the name of attributes."""

STORAGE_DTYPES: Mapping[str, DType] = MappingProxyType(
    {"u1": DType.UINT8, "u3": DType.UINT8, "u6": DType.UINT8, "nf4": DType.FLOAT32}
)
"""Types that only weights have, and the dtype that stores them."""

OPEN = frozenset({"dynamic", "undefined", "unspecified"})
"""Names of no type in particular."""

NAMES: Mapping[DType, str] = MappingProxyType({dtype: name for name, dtype in _NAMES.items()})
"""The name in attributes of each element type that IR files have."""

_PRECISIONS = {
    "BOOL": "boolean",
    "BIN": "u1",
    "FP16": "f16",
    "FP32": "f32",
    "FP64": "f64",
    "UNSPECIFIED": "dynamic",
}
_OF_NAMES = {name: precision for precision, name in _PRECISIONS.items()}


def precision_of(name: str) -> str:
    """The spelling on ports of an element type's name."""
    return _OF_NAMES.get(name, name.upper())


def is_precision(precision: str) -> bool:
    """Whether OpenVINO reads that spelling on ports: `FP32`, and `f32` too, but no `fp32`."""
    name = name_of(precision)
    return precision in (precision_of(name), name, name.upper())


def name_of(precision: str) -> str:
    """Return the attribute spelling (`f32`) of a port precision (`FP32`)."""
    return _PRECISIONS.get(precision.upper(), precision.lower())


def is_element_type(name: str) -> bool:
    """Whether an element type has this name."""
    return name in DTYPES or name in STORAGE_DTYPES or name in OPEN


def storage_dtype(name: str) -> DType | None:
    """Return the dtype that stores a tensor of this element type; `None` for `dynamic`."""
    return DTYPES.get(name) or STORAGE_DTYPES.get(name)
