"""Quantization parameters: scale, zero point and range of codes of a tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType

Array: TypeAlias = "np.ndarray[Any, Any]"

MIN_SCALE = float(np.finfo(np.float32).tiny)
"""Minimum scale, for tensors of zeros."""

_BITS = 16
"""Significant bits of the scales of activations."""
_LARGEST = {DType.FLOAT8E4M3FN: 448.0, DType.FLOAT8E5M2: 57344.0}
"""Maxima of the narrow float types."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizationParameters:
    """Codes `least` to `most` of type `dtype`, each `scale * (code - zero_point)`.

    `scale` and `zero_point` have the shape [] (per-tensor), [n] (per-axis, along `axis`) or, with `block`, the shape of
    the tensor with `axis` divided into blocks of that size.
    """

    dtype: DType
    scale: Array
    zero_point: Array
    least: int
    most: int
    axis: int = 0
    block: int = 0

    @property
    def min_value(self) -> float:
        """Least representable value, per-tensor."""
        if self.dtype.is_floating:
            return -self.max_value
        return (self.least - float(self.zero_point)) * float(self.scale)

    @property
    def max_value(self) -> float:
        """Largest representable value, per-tensor."""
        if self.dtype.is_floating:
            return _LARGEST[self.dtype] * float(self.scale)
        return (self.most - float(self.zero_point)) * float(self.scale)

    def codes(self, x: Array) -> Array:
        """Quantize: the nearest codes, half to even, saturated."""
        scale, zero_point = self.broadcast_to(self.scale, x), self.broadcast_to(self.zero_point, x)
        # 32-bit codes exceed float32 precision; infinite quotients saturate.
        with np.errstate(over="ignore"):
            found = np.asarray((x.astype(np.float64) if self.dtype.bits > 16 else x) / scale)
        if self.dtype.is_floating:
            most = _LARGEST[self.dtype]
            return np.clip(found, -most, most).astype(self.dtype.numpy)
        found = np.asarray(np.rint(found))
        found += zero_point
        return np.clip(found, self.least, self.most, out=found).astype(self.dtype.numpy)

    def values(self, codes: Array) -> Array:
        """Dequantize `codes` to float32."""
        # In place and block by block: copies of large weights are expensive.
        found = codes.astype(np.float32, order="C")
        if self.block and codes.shape[self.axis] % self.block == 0:
            shape = codes.shape
            split = found.reshape(*shape[: self.axis], -1, self.block, *shape[self.axis + 1 :])
            split -= np.expand_dims(self.zero_point.astype(np.float32), self.axis + 1)
            split *= np.expand_dims(self.scale.astype(np.float32), self.axis + 1)
            return found
        found -= self.broadcast_to(self.zero_point, codes)
        found *= self.broadcast_to(self.scale, codes)
        return found

    def nearest(self, x: Array) -> Array:
        """Quantize and dequantize."""
        return self.values(self.codes(x))

    def broadcast_to(self, parameter: Array, x: Array) -> Array:
        """Broadcast a parameter to the shape of `x`."""
        parameter = parameter.astype(np.float32)
        if self.block:
            wide = np.repeat(parameter, self.block, axis=self.axis)
            return wide[tuple(slice(0, n) for n in x.shape)]
        return parameter if parameter.ndim == 0 else parameter.reshape(-1, *[1] * (x.ndim - self.axis - 1))


def limits(dtype: DType, *, symmetric: bool = False) -> tuple[int, int]:
    """Return the minimum and maximum code of an integer type; symmetric signed types exclude the minimum."""
    if dtype.is_floating:
        return (0, 0)
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    half = 1 << (dtype.bits - 1)
    return (1 - half if symmetric else -half), half - 1


def asymmetric(low: float, high: float, dtype: DType, *, power_of_two: bool = False) -> QuantizationParameters:
    """Return asymmetric per-tensor qparams for `low` to `high`; zero is representable, as padding requires.

    Units: `scale` is real units per integer step. The range is extended to include zero.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    least, most = limits(dtype)
    scale = float(_rounded(np.asarray(max((high - low) / (most - least), MIN_SCALE)), power_of_two=power_of_two))
    zero_point = int(np.clip(np.rint(least - low / scale), least, most))
    return QuantizationParameters(dtype, np.asarray(scale, np.float32), _integers(zero_point, dtype), least, most)


def symmetric(
    bound: Array | float, dtype: DType, *, axis: int = 0, power_of_two: bool = False
) -> QuantizationParameters:
    """Return symmetric qparams for `-bound` to `bound`, per-tensor or per-axis."""
    least, most = limits(dtype, symmetric=True)
    middle = (most + 1) // 2 if dtype.kind == "u" else 0
    steps = _LARGEST[dtype] if dtype.is_floating else most - middle
    raw = np.maximum(np.asarray(bound, np.float64) / steps, MIN_SCALE)
    scale = np.asarray(_rounded(raw, power_of_two=power_of_two), np.float32)
    return QuantizationParameters(dtype, scale, _integers(np.full(scale.shape, middle), dtype), least, most, axis)


def activation_qparams(
    low: float, high: float, dtype: DType, *, is_symmetric: bool, power_of_two: bool = False
) -> QuantizationParameters:
    """Return qparams of an activation with observed range `low` to `high`.

    The scale has few significant bits: 255 times it is exact in float32, so that runtimes that receive range limits
    compute equal scales. And values such as half of the range are not ties, where runtimes differ.
    """
    if dtype.is_floating or is_symmetric:
        found = symmetric(max(-low, high, 0.0), dtype, power_of_two=power_of_two)
    else:
        found = asymmetric(low, high, dtype, power_of_two=power_of_two)
    return replace(found, scale=_short(found.scale))


def _short(scale: Array) -> Array:
    """Round up to few significant bits."""
    mantissa, exponent = np.frexp(scale.astype(np.float64))
    return np.asarray(np.ldexp(np.ceil(mantissa * 2.0**_BITS), exponent - _BITS), np.float32)


def _rounded(scale: Array, *, power_of_two: bool) -> Array:
    # Upwards: a smaller scale would clip the range.
    return 2.0 ** np.ceil(np.log2(scale) - 1e-6) if power_of_two else scale


def _integers(numbers: Array | int, dtype: DType) -> Array:
    return np.asarray(numbers).astype(dtype.numpy)
