"""Numbers and text in another element type."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, decide_less
from graphport.core.dtypes import DType, is_numpy_own
from graphport.core.facts import MOST_REALS, OPEN_ELEMENT, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_13, COMPLEX, Tensor, Types

_TYPES = ALL_13 - COMPLEX
T1 = Annotated[Tensor, Types("T1", _TYPES)]
T2 = Annotated[Tensor, Types("T2", _TYPES)]

_NARROW = frozenset(dtype for dtype in _TYPES if dtype.is_floating and dtype.bits <= 8)
_WITHOUT_INFINITY = frozenset({DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2FNUZ})
_FAR = 2**31
"""Dims are below it in every runtime, so that no integer type of 32 bits or more changes them."""


def _cast_shape(input: TensorFact, *, to: DType, saturate: int = 1, round_mode: str = "up") -> TensorFact:
    if round_mode not in ("up", "down", "nearest"):
        message = f"unknown round_mode {round_mode!r}"
        raise ShapeError(message, "up, down or nearest")
    if not isinstance(to, DType) or to in COMPLEX:  # pyright: ignore[reportUnnecessaryIsInstance]  a file may say any
        message = f"a cast to {to} is not defined"
        raise ShapeError(message)
    if input.dtype is to:
        return input
    fact = TensorFact(to, input.shape)
    known = input.elements
    if known is None:
        return _truncate_elements(fact, input.reals)
    numbers = [dim for dim in known if isinstance(dim, int)]
    if to.is_floating and to.bits >= 32 and len(numbers) == len(known) <= MOST_REALS:
        return TensorFact(to, input.shape, reals=tuple(map(float, numbers)))
    if to.is_floating and to.bits >= 32 and len(known) <= MOST_REALS and OPEN_ELEMENT not in known:
        return fact.with_elements(known)
    return fact.with_elements(known) if all(_is_representable(dim, to) for dim in known) else fact


def _is_representable(dim: Dim, to: DType) -> bool:
    """Whether type `to` represents a number exactly; negative numbers may wrap to large unsigned ones."""
    if not to.is_integer or to.bits < 32 or (isinstance(dim, int) and not -_FAR <= dim < _FAR):
        return False
    return to.kind == "i" or decide_less(dim, 0) is False


def _truncate_elements(fact: TensorFact, reals: tuple[float, ...] | None) -> TensorFact:
    """Return the elements of a small float constant after truncation to another type."""
    if reals is None or fact.dtype is None or not all(abs(real) < _FAR for real in reals):
        return fact
    integers = [int(real) for real in reals]
    return fact.with_elements(integers) if all(_is_representable(each, fact.dtype) for each in integers) else fact


@op(shape=_cast_shape, since=6, outputs=("output",), exactness="exact", role="passive")
def Cast(input: T1, *, round_mode: str = "up", saturate: int = 1, to: DType) -> T2:
    """Convert `input` to element type `to`.

    Float to integer truncates toward zero; float to a narrower float rounds ties to even; to bool is `input != 0`;
    integers wrap around. Numbers beyond the range of an 8-bit float become its largest number if `saturate`, else
    infinity or NaN. `round_mode` (`up`, `down`, `nearest`) applies to float8_e8m0fnu only. Strings are parsed and
    formatted as decimal literals, with the shortest digits that parse to an equal number.

    Shapes: input [*s] → [*s].

    Raises:
        ShapeError: an unknown `round_mode`.
        ValueError: a string is not a number.

    Source: ONNX Cast-25.
    """
    return cast(input, to, saturate=bool(saturate), round_mode=round_mode)


def _cast_like_shape(
    input: TensorFact, target_type: TensorFact, *, round_mode: str = "up", saturate: int = 1
) -> TensorFact:
    if target_type.dtype is None:
        return TensorFact(None, input.shape)
    return _cast_shape(input, to=target_type.dtype, saturate=saturate, round_mode=round_mode)


@op(shape=_cast_like_shape, since=15, outputs=("output",), exactness="exact", role="passive")
def CastLike(input: T1, target_type: T2, *, round_mode: str = "up", saturate: int = 1) -> T2:
    """Convert `input` to the element type of `target_type`; see `Cast`.

    Shapes: input [*s], target_type any → [*s].

    Raises:
        ShapeError: an unknown `round_mode`.
        ValueError: a string is not a number.

    Source: ONNX CastLike-25.
    """
    return cast(input, DType.of(target_type.dtype), saturate=bool(saturate), round_mode=round_mode)


def cast(x: Tensor, to: DType, *, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """Convert `x` to the element type `to`; see `Cast`."""
    if to is DType.STRING:
        return _text(x)
    if x.dtype == object:
        x = _read(x, to)
    if to is DType.BOOL:
        return np.asarray(_to_native_type(x) != 0)
    with np.errstate(all="ignore"):
        if to is DType.FLOAT8E8M0:
            return _power_of_two(x, round_mode, saturate=saturate)
        if to in _NARROW:
            return _from_native_type(x, to, saturate=saturate)
        if to.is_integer and to.bits < 8:
            return _wrapped(x, to)
        return (_to_native_type(x) if to.is_integer else x).astype(to.numpy)


def _to_native_type(x: Tensor) -> Tensor:
    """Convert to a native NumPy type that represents all elements exactly; ml_dtypes types convert to few others."""
    if is_numpy_own(x.dtype):
        return x
    return x.astype(np.float32 if DType.of(x.dtype).is_floating else np.int32)


@cache
def _largest(dtype: DType) -> float:
    """Return the largest finite number of an 8-bit or 4-bit float type."""
    codes = np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    return float(np.max(codes, where=np.isfinite(codes), initial=0))


def _from_native_type(x: Tensor, to: DType, *, saturate: bool) -> Tensor:
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    largest = _largest(to)
    if saturate or to is DType.FLOAT4E2M1:
        return np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest)).astype(to.numpy)
    result = wide.astype(to.numpy)
    if to in _WITHOUT_INFINITY:
        return np.where(np.isinf(wide), np.array(np.nan).astype(to.numpy), result)
    return result


def _wrapped(x: Tensor, to: DType) -> Tensor:
    """Convert `x` to an integer type of less than 8 bits, modulo 2**bits in two's complement."""
    wide = _to_native_type(x)
    low = (wide if wide.dtype.kind in "iub" else np.trunc(wide)).astype(np.int64) & ((1 << to.bits) - 1)
    if to.kind == "i":
        sign = 1 << (to.bits - 1)
        low = (low ^ sign) - sign
    return low.astype(np.int8 if to.kind == "i" else np.uint8).astype(to.numpy)


def _power_of_two(x: Tensor, round_mode: str, *, saturate: bool) -> Tensor:
    """Convert `x` to float8e8m0: the exponent of |x| plus 127; code 255 is NaN."""
    wide = np.abs(x.astype(np.float32)).astype(np.float64)
    half, above = np.frexp(wide)  # wide is half * 2 ** above, with half in [0.5, 1)
    least = {"up": 0.5, "nearest": 0.75, "down": 1.0}[round_mode]
    goes_up = half > least if round_mode == "up" else half >= least
    exponent = np.where(wide == 0, -np.inf, np.where(np.isinf(wide), np.inf, above - 1 + goes_up))
    is_outside = np.zeros(x.shape, np.bool_) if saturate else (exponent > 127) | (wide < 2.0**-127)
    codes = np.where(np.isnan(wide) | is_outside, 255, np.clip(exponent, -127, 127) + 127)
    return codes.astype(np.uint8).view(DType.FLOAT8E8M0.numpy).reshape(x.shape)


def _read(x: Tensor, to: DType) -> Tensor:
    words = [str(word).strip() for word in x.reshape(-1)]
    if not to.is_integer:
        return np.array([float(word) for word in words], np.float64).reshape(x.shape)
    half = 1 << (to.bits - 1) if to.kind == "i" else 0
    numbers = [int(word) if word.lstrip("+-").isdigit() else int(float(word)) for word in words]
    wrapped = [(number + half) % (1 << to.bits) - half for number in numbers]
    return np.array(wrapped, to.numpy if to.bits >= 8 else np.int64).reshape(x.shape)


def _text(x: Tensor) -> Tensor:
    if x.dtype == object:
        return x
    result = np.empty(x.size, object)
    # Narrower types print with the digits of float32 too: the type of a later parse is unknown.
    wide = x.astype(np.float32) if x.dtype == np.float16 else _to_native_type(x)
    result[:] = [_literal(number) for number in wide.reshape(-1)]
    return result.reshape(x.shape)


def _literal(number: Any) -> str:
    if not isinstance(number, np.floating):
        return str(int(number))
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "INF" if number > 0 else "-INF"
    if number == 0 or 1e-4 <= abs(float(number)) < 1e16:
        return np.format_float_positional(number, trim="-")
    return np.format_float_scientific(number, trim="-", exp_digits=2)
