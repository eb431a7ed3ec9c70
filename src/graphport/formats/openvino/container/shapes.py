"""Text form of shapes in IR files: `1,3,?,2..5,3..,..10`; `...` for any rank, empty for a scalar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.dims import Symbol, Symbolic, bounds, symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim

MOST_DIMS = 1 << 16
"""Dims of one shape."""
_LONGEST = 1 << 63
_DIM = re.compile(r"(?P<low>\d+)?(?P<dots>\.\.)?(?P<high>\d+)?")
_LEADING = re.compile(r"\s*([+-]?\d{1,19})")


class UnreadableError(ValueError):
    """A text is not a shape; the message names the faulty dim."""


def read_shape(text: str, name: str, lower: int = 1) -> tuple[Dim, ...] | None:
    """Parse a shape; open dims become symbols `name.axis` with the bounds in the text, else `lower`.

    Raises:
        UnreadableError: names the dim that cannot be read.
    """
    text = text.strip()
    if text[:1] == "[" and text[-1:] == "]":
        text = text[1:-1].strip()
    if text == "...":
        return None
    if not text:
        return ()
    dims = text.split(",")
    if len(dims) > MOST_DIMS:
        message = f"the shape has {len(dims)} dims, the limit is {MOST_DIMS}"
        raise UnreadableError(message)
    return tuple(_dim(dim.strip(), f"{name}.{axis}", lower) for axis, dim in enumerate(dims))


def _dim(text: str, name: str, least: int) -> Dim:
    if text in ("?", "-1", ".."):
        return Symbol(name, least)
    match = _DIM.fullmatch(text)
    if match is None or not text:
        message = f"{text!r} is not a dim"
        raise UnreadableError(message)
    low, dots, high = match["low"], match["dots"], match["high"]
    if any(len(number or "") > 19 or int(number or 0) >= _LONGEST for number in (low, high)):
        message = f"the dim {text[:40]} is 2^63 or more"
        raise UnreadableError(message)
    if not dots:
        return int(text)
    lower, upper = int(low or 0), int(high) if high else None
    if upper is not None and lower > upper:
        message = f"the upper bound of {text!r} is below the lower bound"
        raise UnreadableError(message)
    return lower if lower == upper else Symbol(name, lower, upper)


def leading_int(text: str) -> int | None:
    """Return the integer at the start of a text; OpenVINO ignores the remainder of `<dim>`."""
    match = _LEADING.match(text)
    return None if match is None else int(match[1])


def write_shape(shape: Sequence[Dim] | None, least: int = 0) -> str:
    """Format a shape for a `Parameter`; a dim that is not a plain symbol is `?` or its bounds above `least`."""
    return "..." if shape is None else ",".join(_dim_text(dim, least) for dim in shape)


def _dim_text(dim: Dim, least: int) -> str:
    if not isinstance(dim, Symbolic):
        return str(dim)
    lower, upper = bounds(dim) if len(symbols(dim)) == 1 else (0, None)
    is_stated = lower is not None and lower > least
    if upper is not None:
        return f"{lower}..{upper}" if is_stated else f"..{upper}"
    return f"{lower}.." if is_stated else "?"
