"""Numbers and text in another element type."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import op
from graphport.ops.types import ALL_13, COMPLEX, Tensor, Types

_TYPES = ALL_13 - COMPLEX
T1 = Annotated[Tensor, Types("T1", _TYPES)]
T2 = Annotated[Tensor, Types("T2", _TYPES)]

_NARROW = frozenset(dtype for dtype in _TYPES if dtype.is_floating and dtype.bits <= 8)
_WITHOUT_INFINITY = frozenset({DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2FNUZ})


def _cast_shape(input: TensorFact, *, to: DType, saturate: int = 1, round_mode: str = "up") -> TensorFact:
    del saturate, round_mode
    fact = TensorFact(to, input.shape)
    # Dims are below 2^31 in every runtime, so that no integer type of 32 bits or more changes them.
    if input.elements is not None and to.is_integer and to.bits >= 32:
        return fact.with_elements(input.elements)
    return fact


@op(shape=_cast_shape, since=6, outputs=("output",), exactness="exact")
def Cast(input: T1, *, round_mode: str = "up", saturate: int = 1, to: DType) -> T2:
    """`input` in the element type `to`.

    Floating to integer truncates, to a narrower floating type rounds to even; what is too large for an eight-bit
    floating type becomes its largest number if `saturate`, else infinity or NaN.  `round_mode` (`up`, `down`,
    `nearest`) is for float8_e8m0fnu alone.  Text is read and written as decimal literals.

    Shapes: input [*s] → [*s].

    Source: ONNX Cast-25.
    """
    return cast(input, to, saturate=bool(saturate), round_mode=round_mode)


def _cast_like_shape(
    input: TensorFact, target_type: TensorFact, *, round_mode: str = "up", saturate: int = 1
) -> TensorFact:
    if target_type.dtype is None:
        return TensorFact(None, input.shape)
    return _cast_shape(input, to=target_type.dtype, saturate=saturate, round_mode=round_mode)


@op(shape=_cast_like_shape, since=15, outputs=("output",), exactness="exact")
def CastLike(input: T1, target_type: T2, *, round_mode: str = "up", saturate: int = 1) -> T2:
    """`input` in the element type of `target_type`, as `Cast` does it.

    Shapes: input [*s], target_type any → [*s].

    Source: ONNX CastLike-25.
    """
    return cast(input, DType.of(target_type.dtype), saturate=bool(saturate), round_mode=round_mode)


def cast(x: Tensor, to: DType, *, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """`x` in the element type `to`; see `Cast`."""
    if to is DType.STRING:
        return _text(x)
    if x.dtype == object:
        x = _read(x, to)
    if to is DType.BOOL:
        return x.astype(np.float32) != 0 if x.dtype.kind == "V" else x != 0
    if to is DType.FLOAT8E8M0:
        return _power_of_two(x, round_mode, saturate=saturate)
    with np.errstate(all="ignore"):
        if to in _NARROW:
            return _narrow(x, to, saturate=saturate)
        if to.is_integer and to.bits < 8:
            # Two's complement, as the wider integers do it.
            return _wrapped(x, to)
        wide = x.astype(np.float32) if x.dtype.kind == "V" and to.is_integer else x
        return wide.astype(to.numpy)


def _narrow(x: Tensor, to: DType, *, saturate: bool) -> Tensor:
    import ml_dtypes

    wide = x.astype(np.float32) if x.dtype != np.float64 else x
    largest = float(ml_dtypes.finfo(to.numpy).max)
    if saturate or to is DType.FLOAT4E2M1:
        return np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest)).astype(to.numpy)
    result = wide.astype(to.numpy)
    if to in _WITHOUT_INFINITY:
        return np.where(np.isinf(wide), np.array(np.nan).astype(to.numpy), result)
    return result


def _wrapped(x: Tensor, to: DType) -> Tensor:
    integers = np.trunc(x.astype(np.float64)).astype(np.int64) if x.dtype.kind not in "iub" else x.astype(np.int64)
    low = integers & ((1 << to.bits) - 1)
    if to.kind == "i":
        sign = 1 << (to.bits - 1)
        low = (low ^ sign) - sign
    return low.astype(np.int8 if to.kind == "i" else np.uint8).astype(to.numpy)


def _power_of_two(x: Tensor, round_mode: str, *, saturate: bool) -> Tensor:
    wide = np.abs(x.astype(np.float32)).astype(np.float64)
    with np.errstate(all="ignore"):
        exponent = np.log2(wide)
    rounded: Any = {"up": np.ceil, "down": np.floor}.get(round_mode, np.rint)(exponent)
    if saturate:
        rounded = np.clip(rounded, -127, 127)
    codes = np.where(
        np.isnan(wide) | (rounded > 127) | np.isinf(wide) & (not saturate), 255, np.clip(rounded, -127, 127) + 127
    )
    return codes.astype(np.uint8).view(DType.FLOAT8E8M0.numpy).reshape(x.shape)


def _read(x: Tensor, to: DType) -> Tensor:
    flat = [str(word).strip() for word in x.reshape(-1)]
    if to.is_integer:
        return np.array([int(float(word)) if not _is_integer(word) else int(word) for word in flat]).reshape(x.shape)
    return np.array([float(word) for word in flat], np.float64).reshape(x.shape)


def _is_integer(word: str) -> bool:
    return word.lstrip("+-").isdigit()


def _text(x: Tensor) -> Tensor:
    if x.dtype == object:
        return x
    wide = x.astype(np.float32) if x.dtype.kind in "fV" and x.dtype.itemsize < 4 else x
    words = [_literal(number) for number in wide.reshape(-1)]
    result = np.empty(len(words), object)
    result[:] = words
    return result.reshape(x.shape)


def _literal(number: Any) -> str:
    if isinstance(number, np.bool_):
        return str(int(number))
    if isinstance(number, np.floating):
        if np.isnan(number):
            return "NaN"
        if np.isinf(number):
            return "INF" if number > 0 else "-INF"
        return np.format_float_positional(number, trim="-") if 1e-4 <= abs(number) < 1e8 or number == 0 else str(number)
    return str(number)
