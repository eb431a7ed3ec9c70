"""Element types of tensors by their number in the schema."""

from __future__ import annotations

from types import MappingProxyType

from graphport.core.dtypes import DType

RESOURCE, VARIANT = 13, 14
"""Types of resource handles: tensors without elements."""

TYPES = MappingProxyType(
    dict(
        enumerate(
            (
                DType.FLOAT32,
                DType.FLOAT16,
                DType.INT32,
                DType.UINT8,
                DType.INT64,
                DType.STRING,
                DType.BOOL,
                DType.INT16,
                DType.COMPLEX64,
                DType.INT8,
                DType.FLOAT64,
                DType.COMPLEX128,
                DType.UINT64,
                None,
                None,
                DType.UINT32,
                DType.UINT16,
                DType.INT4,
                DType.BFLOAT16,
                DType.INT2,
                DType.UINT4,
                DType.FLOAT8E4M3FN,
                DType.FLOAT8E5M2,
            )
        )
    )
)
TYPE_NUMBERS = MappingProxyType({dtype: number for number, dtype in TYPES.items() if dtype is not None})
"""Number of each element type that the schema has."""
