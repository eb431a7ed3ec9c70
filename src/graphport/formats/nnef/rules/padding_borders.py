"""NNEF's borders in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import decide_less
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MODES = {"constant": "constant", "replicate": "edge", "reflect": "reflect"}
MOST_ELEMENTS = 1 << 20
"""Longest index list that is stored as a constant."""
_FARTHEST = np.iinfo(np.int64).min


def check_border(border: str, *others: str) -> None:
    """Refuse a border that NNEF does not have.

    Raises:
        ShapeError: it is none of NNEF's, nor one of `others`.
    """
    if border not in (*_MODES, "reflect-even", *others):
        message = f"border is {border!r}"
        raise ShapeError(message, ", ".join((*_MODES, "reflect-even")))


def pad_mode(border: str) -> str | None:
    """Return the `Pad` mode of a border; `None` for zeros, the default.

    Raises:
        UnsupportedError: there is none.
    """
    if border not in _MODES:
        message = f"border {border!r} along an axis of unknown extent"
        raise UnsupportedError(message)
    return None if border == "constant" else _MODES[border]


def padded(b: Builder, x: Value, padding: Sequence[tuple[int, int]], border: str, value: float = 0.0) -> Value:
    """Pad `x` by NNEF's `border`, one pair per axis; negative amounts crop."""
    if border == "reflect-even":
        for axis, pair in enumerate(padding):
            x = _mirrored(b, x, axis, pair) if any(pair) else x
        return x
    check_border(border)
    pads = b.constant([*(begin for begin, _ in padding), *(end for _, end in padding)])
    fill = b.like(x, value) if border == "constant" and (value or np.signbit(value)) else None
    return b(Pad, x, pads, fill, mode=pad_mode(border))


def _mirrored(b: Builder, x: Value, axis: int, pair: tuple[int, int]) -> Value:
    """Mirror images on both ends of one axis, the edge doubled; ONNX has no mode for that."""
    n = b.dims(x)[axis]
    begin, end = pair
    if begin >= 0 and end >= 0 and decide_less(n, max(begin, end)) is False:
        parts = [x]
        if begin:
            parts.insert(0, _slice(b, x, axis, begin - 1, _FARTHEST))
        if end:
            parts.append(_slice(b, x, axis, -1, -1 - end))
        return b(Concat, *parts, axis=axis)
    if not isinstance(n, int) or n + abs(begin) + abs(end) > MOST_ELEMENTS:
        message = f"mirror padding of ({begin}, {end}) along an axis of {n}"
        raise UnsupportedError(message)
    kept = np.arange(max(-begin, 0), n - max(-end, 0), dtype=np.int64)
    indices = np.pad(kept, (max(begin, 0), max(end, 0)), "symmetric")
    return b(Gather, x, b.constant(indices), axis=axis)


def _slice(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    return b(Slice, x, b.constant([start]), b.constant([stop]), b.constant([axis]), b.constant([-1]))
