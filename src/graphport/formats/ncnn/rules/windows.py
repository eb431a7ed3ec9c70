"""Windows of ncnn: parameters of width, height and depth have numbers ten apart; height and depth are optional.

Each reading function has a counterpart that writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphport.formats.ncnn.rules.binding import Layer
from graphport.ir.graph import Value
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.convolution.window import Window

Axes = tuple[int, ...]
ENDINGS = {1: "1D", 2: "", 3: "3D"}
"""Suffixes of layer types by number of spatial axes."""


def along(at: Layer, count: int, key: int, default: int = 1) -> Axes:
    """Return a number per axis, outermost first: width in parameter `key`, height in `key + 10`, depth in `key + 20`.

    Height and depth default to the width, the width to `default`.
    """
    width = at.integer(key, default)
    return tuple(at.integer(key + 10 * place, width) for place in range(count))[::-1]


def along_parameters(key: int, numbers: Sequence[int]) -> dict[str, int]:
    """Return the parameters for a number per axis; invert `along`."""
    return {f"p{key + 10 * place}": number for place, number in enumerate(reversed(numbers))}


def padding_of(at: Layer, count: int, key: int) -> tuple[Axes, Axes]:
    """Return begin and end padding of each axis: `key` is the left padding."""
    left = at.integer(key)
    right = at.integer(key + 11, left)
    top = at.integer(key + 10, left)
    bottom = at.integer(key + 12, top)
    front = at.integer(key + 20, left)
    behind = at.integer(key + 13, front)
    return (left, top, front)[:count][::-1], (right, bottom, behind)[:count][::-1]


def padding_parameters(key: int, begin: Sequence[int], end: Sequence[int]) -> dict[str, int]:
    """Return the parameters of begin and end padding: `key` is the left padding."""
    ends = {f"p{key + 11 + place}": number for place, number in enumerate(reversed(end))}
    return along_parameters(key, begin) | ends


def slides(at: Layer, count: int) -> dict[str, Any]:
    """Return strides, dilations and pads of a layer as ONNX attributes."""
    begin, end = padding_of(at, count, 4)
    return {"strides": along(at, count, 3), "dilations": along(at, count, 2), "pads": (*begin, *end)}


def slides_parameters(
    kernel: Sequence[int], dilations: Sequence[int], strides: Sequence[int], begin: Sequence[int], end: Sequence[int]
) -> dict[str, Any]:
    """Return the parameters for kernel, dilations, strides and pads of a window."""
    steps = along_parameters(1, kernel) | along_parameters(2, dilations) | along_parameters(3, strides)
    return steps | padding_parameters(4, begin, end)


def known_padding(x: Value, slid: Window) -> tuple[tuple[int, int], ...]:
    """Return the padding of a window over `x`.

    Raises:
        UnsupportedError: it is dynamic or negative.
    """
    pairs = slid.padding
    if pairs is None or any(p < 0 or q < 0 for p, q in pairs):
        message = f"{x.name} is {x.fact}: its padding is negative or not constant"
        raise UnsupportedError(message)
    return pairs
