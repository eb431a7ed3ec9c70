"""Complex tensors and Fourier transforms of exported programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import COMPLEX, axes_of, bounded, named_dtype, scalar_of
from graphport.formats.pytorch.rules.binding import DIALECT as PNNX
from graphport.formats.pytorch.rules.functions.generate import fill
from graphport.formats.pytorch.rules.functions.signal import dims_of, fft, ifft, irfft, rfft
from graphport.formats.pytorch.rules.functions.signal_pairs import Pair, Part, both, like_component
from graphport.formats.pytorch.rules.overloads import DIALECT, RULES, aten, without_layout
from graphport.formats.pytorch.rules.promotion import cast
from graphport.formats.pytorch.rules.signal_pairs import ALIKE, pairs
from graphport.formats.pytorch.rules.signal_pairs import RULES as PAIRS
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.reshape import Shape

_NORMS = {0: (None, None), 1: ("ortho", "ortho"), 2: ("forward", "backward")}
"""Normalization of the forward and the inverse transform by code: none, 1 / sqrt(n), 1 / n."""


@pairs("aten._fft_r2c")
def fft_r2c(b: Builder, self: Value, dim: Any, normalization: Any, onesided: Any) -> Part:
    norm, _ = _NORMS[int(scalar_of(normalization))]
    *rest, last = axes_of(dim, len(b.dims(self)))
    found: Part = rfft(b, self, None, last, norm) if scalar_of(onesided) else fft(b, self, None, last, norm)
    for axis in rest:
        found = fft(b, found, None, axis, norm)
    return found


@pairs("aten._fft_c2c")
def fft_c2c(b: Builder, self: Pair, dim: Any, normalization: Any, forward: Any) -> Part:
    found: Part = self
    for axis in axes_of(dim, len(dims_of(b, self))):
        found = _transform_complex_axis(b, found, axis, int(scalar_of(normalization)), forward=bool(scalar_of(forward)))
    return found


def _transform_complex_axis(b: Builder, x: Part, axis: int, normalization: int, *, forward: bool) -> Part:
    """Complex DFT along one axis; without normalization, PyTorch's inverse is not divided by n."""
    if forward:
        return fft(b, x, None, axis, _NORMS[normalization][0])
    return ifft(b, x, None, axis, {0: "forward", 1: "ortho", 2: "backward"}[normalization])


@pairs("aten._fft_c2r")
def fft_c2r(b: Builder, self: Pair, dim: Any, normalization: Any, last_dim_size: Any) -> Value:
    kind = int(scalar_of(normalization))
    *rest, last = axes_of(dim, len(dims_of(b, self)))
    found: Part = self
    for axis in rest:
        found = _transform_complex_axis(b, found, axis, kind, forward=False)
    norm = {0: "forward", 1: "ortho", 2: "backward"}[kind]
    return irfft(b, found, int(scalar_of(last_dim_size)), last, norm)


RULES.lower("""
aten._neg_view(self) -> Neg(self)
# 0 or half a turn.
aten.angle(self)
    -> Where(IsNaN(x := floating(self)), x, Where(Less(x, 0), like(x, math.pi), like(x, 0)))
aten.real, aten.conj, aten.conj_physical, aten.resolve_neg(self) -> self
""")


# ── arithmetic on scalars ─────────────────────────────────────────────────────────────────────────────────────────────


def _binary(name: str, b: Builder, self: Any, other: Any, alpha: Any = 1) -> Part:
    like = next((x for x in (self, other) if isinstance(x, Pair)), None)
    if like is None:
        reals = [x for x in (self, other) if isinstance(x, Value)]
        like = Pair(reals[0], b.like(reals[0], 0))
    x, y = (like_component(b, each, like.real) for each in (self, other))
    if scalar_of(alpha) != 1:
        factor = b.like(like.real, scalar_of(alpha))
        y = both(b, "mul", y, factor)
    if isinstance(x, Value) and isinstance(y, Value):
        x = Pair(x, b.like(x, 0))
    return both(b, name, x, y)


PAIRS.having(binary=lambda b, name, x, y, alpha: _binary(name, b, x, y, alpha)).lower("""
aten._neg_view(self) -> opposite(self)
aten.add(self, other, alpha: any = 1) -> binary("add", self, other, alpha)
aten.sub(self, other, alpha: any = 1) -> binary("sub", self, other, alpha)
aten.mul(self, other, alpha: any = 1) -> binary("mul", self, other, alpha)
aten.div(self, other, alpha: any = 1) -> binary("div", self, other, alpha)
aten.rsub(self, other, alpha: any = 1) -> binary("sub", other, self, alpha)
aten.alias, aten.detach, aten.lift_fresh, aten.lift_fresh_copy,
    aten.contiguous(input, memory_format: ignored = None) -> input
""")
ALIKE.lower("""
aten.reshape, aten.view, aten._unsafe_view, aten.permute, aten.select, aten.slice, aten.expand, aten.repeat,
    aten.unflatten, aten.index, aten.flatten, aten.transpose, aten.squeeze, aten.unsqueeze, aten.cat, aten.stack,
    aten.flip, aten.roll, aten.sum, aten.mean, aten.cumsum, aten.diff, aten.split, aten.split_with_sizes, aten.chunk,
    aten.unbind, aten.index_select, aten.narrow, aten.tile, aten.t, aten.movedim, aten.gather, aten.fft_fftshift,
    aten.fft_ifftshift, aten.swapaxes, aten.mT, aten.numpy_T, aten.slice_scatter, aten.select_scatter, aten.copy,
    aten.expand_as, aten.view_as, aten.reshape_as, aten.constant_pad_nd, aten.pad, aten.diagonal, aten.tril, aten.triu,
    aten.ravel -> _
""")


@pairs("aten.to", "aten._to_copy", ignores=("copy",))
def to(b: Builder, self: Part, dtype: Any = None) -> Part:
    """Convert a real tensor to a complex one, or cast the parts of a complex tensor."""
    text = str(dtype or "")
    wide = DType.FLOAT64 if "complex128" in text else DType.FLOAT32 if "complex64" in text else named_dtype(dtype)
    if "complex" in text and wide is not None:
        if isinstance(self, Value):
            x = cast(b, self, wide)
            return Pair(x, fill(b, b(Shape, x), 0, wide))
        return Pair(cast(b, self.real, wide), cast(b, self.imaginary, wide))
    if isinstance(self, Pair):
        return self if wide is None else cast(b, self.real, wide)
    return self


@pairs("aten.where")
def where(b: Builder, condition: Value, self: Any, other: Any) -> Part:
    like = next(x for x in (self, other) if isinstance(x, Pair))
    sides = [like_component(b, x, like.real) for x in (self, other)]
    wide = [x if isinstance(x, Pair) else Pair(x, b.like(x, 0)) for x in sides]
    return Pair(
        b(Where, condition, wide[0].real, wide[1].real), b(Where, condition, wide[0].imaginary, wide[1].imaginary)
    )


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cosines(b: Builder, coefficients: tuple[float, ...], window_length: Any, periodic: Any, dtype: Any) -> Value:
    """Window function Σ c[k] * cos(k * angle)."""

    def shape(positions: Any, span: int) -> Any:
        angles = 2 * np.pi * positions / span
        return sum(c * np.cos(k * angles) for k, c in enumerate(coefficients))

    return _window(b, shape, window_length, periodic, dtype)


def _window(b: Builder, shape: Callable[[Any, int], Any], window_length: Any, periodic: Any, dtype: Any) -> Value:
    """Window function of index and last index; a periodic window drops the last element of one with n + 1 elements."""
    count = bounded(int(scalar_of(window_length)))
    wanted = named_dtype(dtype) or DType.FLOAT32
    span = count if scalar_of(periodic) else count - 1
    found = shape(np.arange(count), max(span, 1)) if count > 1 else np.ones(count)
    return b.constant(np.asarray(found).astype(wanted.numpy), wanted)


RULES.having(cosines=_cosines).lower(
    """
aten.hann_window(window_length, periodic: any = True, dtype=None)
    -> cosines([0.5, -0.5], window_length, periodic, dtype)
aten.hamming_window(window_length, periodic: any = True, alpha=0.54, beta=0.46, dtype=None)
    -> cosines([alpha, -beta], window_length, periodic, dtype)
aten.blackman_window(window_length, periodic: any = True, dtype=None)
    -> cosines([0.42, -0.5, 0.08], window_length, periodic, dtype)
""",
    by_position=False,
)


@aten("aten.bartlett_window", by_position=False)
def bartlett_window(b: Builder, window_length: Any, periodic: Any = True, dtype: Any = None) -> Value:
    return _window(b, lambda places, span: 1 - np.abs(2 * places / span - 1), window_length, periodic, dtype)


@aten("aten.kaiser_window", by_position=False)
def kaiser_window(b: Builder, window_length: Any, periodic: Any = True, beta: Any = 12.0, dtype: Any = None) -> Value:
    width = float(scalar_of(beta))

    def shape(positions: Any, span: int) -> Any:
        return np.i0(width * np.sqrt(np.maximum(1 - (2 * positions / span - 1) ** 2, 0))) / np.i0(width)

    return _window(b, shape, window_length, periodic, dtype)


@aten("aten.fft_fftfreq")
def fftfreq(b: Builder, n: Any, d: Any = 1.0, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype) or DType.FLOAT32
    found = np.fft.fftfreq(bounded(int(scalar_of(n))), float(scalar_of(d)))
    return b.constant(found.astype(wanted.numpy), wanted)


@aten("aten.fft_rfftfreq")
def rfftfreq(b: Builder, n: Any, d: Any = 1.0, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype) or DType.FLOAT32
    found = np.fft.rfftfreq(bounded(int(scalar_of(n))), float(scalar_of(d)))
    return b.constant(found.astype(wanted.numpy), wanted)


def _uncentered(b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
    """Import `aten.stft` of a signal that the caller has padded, with `center=False`."""
    rule = registry.lowering(PNNX, f"{COMPLEX}aten::stft" if COMPLEX in attributes else "aten::stft")
    if rule is None:
        raise UnsupportedError("stft")
    return rule(b, *operands, center=False, **attributes)


lower(DIALECT, "aten.stft.default")(without_layout(_uncentered))
lower(DIALECT, f"{COMPLEX}aten.stft.default")(without_layout(_uncentered))
