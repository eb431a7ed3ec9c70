"""Element types of tensors, named as ONNX names them, in NumPy's spelling."""

from __future__ import annotations

from enum import Enum
from functools import cache, lru_cache
from typing import Any

import numpy as np


class DType(Enum):
    """The type of a tensor's elements.

    `bits` is the width in a file; `kind` is `f` floating, `i` signed, `u` unsigned, `b` logical, `c` complex, `s` text.
    """

    FLOAT32 = ("float32", 32, "f")
    FLOAT64 = ("float64", 64, "f")
    FLOAT16 = ("float16", 16, "f")
    BFLOAT16 = ("bfloat16", 16, "f")
    FLOAT8E4M3FN = ("float8_e4m3fn", 8, "f")
    FLOAT8E4M3FNUZ = ("float8_e4m3fnuz", 8, "f")
    FLOAT8E5M2 = ("float8_e5m2", 8, "f")
    FLOAT8E5M2FNUZ = ("float8_e5m2fnuz", 8, "f")
    FLOAT8E8M0 = ("float8_e8m0fnu", 8, "f")
    FLOAT4E2M1 = ("float4_e2m1fn", 4, "f")
    INT2 = ("int2", 2, "i")
    INT4 = ("int4", 4, "i")
    INT8 = ("int8", 8, "i")
    INT16 = ("int16", 16, "i")
    INT32 = ("int32", 32, "i")
    INT64 = ("int64", 64, "i")
    UINT2 = ("uint2", 2, "u")
    UINT4 = ("uint4", 4, "u")
    UINT8 = ("uint8", 8, "u")
    UINT16 = ("uint16", 16, "u")
    UINT32 = ("uint32", 32, "u")
    UINT64 = ("uint64", 64, "u")
    BOOL = ("bool", 8, "b")
    COMPLEX64 = ("complex64", 64, "c")
    COMPLEX128 = ("complex128", 128, "c")
    STRING = ("string", 0, "s")

    bits: int
    kind: str

    def __init__(self, text: str, bits: int, kind: str) -> None:
        self.text = text
        self.bits = bits
        self.kind = kind

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"DType.{self.name}"

    # Facts are hashed by the thousand: the default hash of an Enum is a Python function.
    __hash__ = object.__hash__

    @property
    def is_floating(self) -> bool:
        """Whether the type is a floating-point type."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers; bool is not one."""
        return self.kind in "iu"

    @property
    def finite_limits(self) -> tuple[float, float]:
        """The smallest and largest finite number of a floating-point or integer type."""
        import ml_dtypes  # 0.03 s that most models need not pay

        read: Any = ml_dtypes.finfo if self.is_floating else ml_dtypes.iinfo
        limits, convert = read(self.numpy), float if self.is_floating else int
        return convert(limits.min), convert(limits.max)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type used for computations: NumPy's, that of `ml_dtypes`, or `object` for strings."""
        return _numpy(self)

    def size(self, count: int) -> int:
        """Bytes that `count` elements take, packed."""
        return (count * self.bits + 7) // 8

    @classmethod
    def of(cls, dtype: np.dtype[Any] | type[Any] | str) -> DType:
        """The element type of a NumPy type, of its name, or of one of our names.

        Raises:
            ValueError: no element type at all, or one that no format of ours has (`datetime64`).
        """
        if isinstance(dtype, str) and dtype in _BY_TEXT:
            return _BY_TEXT[dtype]
        try:
            converted = np.dtype(dtype)
        except TypeError as error:
            message = f"{dtype!r} is not an element type"
            raise ValueError(message) from error
        found = _of_numpy(converted)
        if found is None:
            message = f"tensors cannot hold {converted.name}"
            raise ValueError(message)
        return found


def is_numpy_own(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy brings the type, in any byte order, rather than another library."""
    return dtype.isbuiltin != 2


_BY_TEXT = {dtype.text: dtype for dtype in DType}


@lru_cache(maxsize=256)
def _of_numpy(dtype: np.dtype[Any]) -> DType | None:
    # NumPy computes the name at each access.
    return DType.STRING if dtype.kind in "OUST" else _BY_TEXT.get(dtype.name)


@cache
def _numpy(dtype: DType) -> np.dtype[Any]:
    if dtype is DType.STRING:
        return np.dtype(object)
    try:
        return np.dtype(dtype.text)
    except TypeError:
        import ml_dtypes  # 0.03 s that float32 models need not pay

        return np.dtype(getattr(ml_dtypes, dtype.text))
