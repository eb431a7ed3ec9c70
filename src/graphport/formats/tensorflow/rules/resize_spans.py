"""`ScaleAndTranslate` of TensorFlow: resizing with a filter that may be stretched against aliasing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.lowering.extents import mixed
from graphport.ops.lowering.operands import cast, dtype_of, needed, sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Floats = np.ndarray[Any, Any]
_MIN_SUM = 1000 * float(np.finfo(np.float32).tiny)
"""The smallest sum of weights that is scaled to 1."""


def _lanczos(radius: int) -> Callable[[Floats], Floats]:
    return lambda x: np.where(x > radius, 0, np.sinc(x) * np.sinc(x / radius))


def _cubic(near: tuple[float, ...], far: tuple[float, ...]) -> Callable[[Floats], Floats]:
    return lambda x: np.where(x >= 2, 0, np.where(x >= 1, np.polyval(far, x), np.polyval(near, x)))


_FILTERS: dict[str, tuple[float, Callable[[Floats], Floats]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0, np.exp(-(x**2) * 2))),
    "box": (1, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": (1, lambda x: np.maximum(1 - x, 0)),
    "keyscubic": (2, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}
"""The radius of each filter, and its weight at a distance."""


def _weights(kind: str, n: int, m: int, scale: float, shift: float, *, antialias: bool) -> Floats:
    """The share of each of `n` pixels in each of `m` pixels: [m, n], in float32 as TensorFlow computes it."""
    radius, weight = _FILTERS[kind]
    one = np.float32(1)
    step = one / np.float32(scale)
    stretch = max(step, one) if antialias else one
    spots = (np.arange(m, dtype=np.float32) + np.float32(0.5)) * step - step * np.float32(shift)
    first = np.clip(np.ceil(spots - radius * stretch - 0.5), 0, n - 1)
    last = np.clip(np.floor(spots + radius * stretch - 0.5), 0, n - 1)
    columns = np.arange(n)[None, :]
    is_covered = (columns >= first[:, None]) & (columns <= last[:, None])
    is_inside = (spots >= 0) & (spots <= n)
    gaps = np.abs(columns.astype(np.float32) + np.float32(0.5) - spots[:, None]) * (one / stretch)
    shares = weight(gaps) * (is_covered & is_inside[:, None])
    total = shares.sum(1, keepdims=True)
    return shares / np.where(np.abs(total) < _MIN_SUM, 1, total)


@operator("ScaleAndTranslate")
def scale_and_translate(
    b: Builder,
    x: Value,
    size: Value,
    scale: Value,
    translation: Value,
    *,
    kernel_type: str = "lanczos3",
    antialias: bool = True,
) -> Value:
    """Images [n, h, w, c] of another size, in float32.

    Raises:
        ShapeError: the filter is unknown.
        UnsupportedError: the size, the scale or the translation is computed when the model runs.
    """
    if kernel_type not in _FILTERS:
        message = f"kernel_type is {kernel_type!r}"
        raise ShapeError(message, ", ".join(_FILTERS))
    wanted = needed(size, "the size")
    factors, shifts = (_floats(each, name) for each, name in ((scale, "the scale"), (translation, "the translation")))
    y = cast(b, x, DType.FLOAT32) if dtype_of(x) is not DType.FLOAT32 else x
    for place, n in enumerate(sizes(b.dims(x)[1:3], "the size of images")):
        if not factors[place] > 0:
            message = f"a scale of {factors[place]}"
            raise ShapeError(message, "use a positive scale")
        reserve(n, wanted[place])
        shares = _weights(kernel_type, n, wanted[place], factors[place], shifts[place], antialias=antialias)
        y = mixed(b, y, place + 1, b.constant(shares.T.astype(np.float32)))
    return y


def _floats(value: Value, name: str) -> tuple[float, float]:
    storage = folded(value)
    if storage is None or storage.count != 2:
        message = f"{name} is not constant"
        raise UnsupportedError(message)
    first, second = storage.numpy().reshape(-1)
    return float(first), float(second)
