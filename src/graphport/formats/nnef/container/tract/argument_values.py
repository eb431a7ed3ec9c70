"""Conversion of argument values to numbers, dims and rows.

tract's language is untyped, so conversions may fail: a `GivenError` is reported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dims import Symbolic, TooLong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.dtypes import DType

_LARGEST = (1 << 63) - 1
_MOST_POWER = 64


class GivenError(ValueError):
    """An argument has not the expected form; the message contains the reason."""


def apply_operator(operator: str, left: Any, right: Any) -> Any:
    """Apply an operator to compile-time numbers; return `None` if the result must be a tensor.

    Raises:
        GivenError: the result is not finite or exceeds 64 bits.
    """
    try:
        return check_int64(_computed(operator, left, right))
    except TooLong as error:
        raise GivenError(str(error)) from error
    except (ArithmeticError, GivenError) as error:
        message = f"{left!r} {operator} {right!r} is not finite or exceeds the int64 range"
        raise GivenError(message) from error


def _computed(operator: str, left: Any, right: Any) -> Any:
    is_whole = not isinstance(left, float) and not isinstance(right, float)
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right != 0:
            return left // right if is_whole else left / right
        case "^" if not isinstance(left, Symbolic) and not isinstance(right, Symbolic):
            # Larger powers exceed 64 bits.
            return left**right if not is_whole or abs(left) < 2 or right <= _MOST_POWER else _LARGEST + 1
        case _:
            return None


def check_int64(number: Any) -> Any:
    """A number that 64 bits hold.

    Raises:
        GivenError: they do not.
    """
    is_other = isinstance(number, complex) or (isinstance(number, int) and not -_LARGEST - 1 <= number <= _LARGEST)
    if is_other or (isinstance(number, float) and math.isnan(number)):
        message = f"{number!r} is not a 64-bit number"
        raise GivenError(message)
    return number


def extents(items: Sequence[Any]) -> list[Dim]:
    """Extents of a tensor: integers from 0 on, or expressions of symbols.

    Raises:
        GivenError: an item is none.
    """
    for each in items:
        is_count = isinstance(each, int) and not isinstance(each, bool) and each >= 0
        if not is_count and not isinstance(each, Symbolic):
            message = f"{_named(each)} is not an extent"
            raise GivenError(message)
    return list(items)


def array_of(items: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """Numbers or texts of a document as an array, of `dtype` or of the type that they have.

    Raises:
        GivenError: rows have several lengths, or an item is no number.
    """
    try:
        # Texts as NumPy's own would each take as much memory as the longest.
        kind = dtype.numpy if dtype is not None else object if _holds_text(items) else None
        array = np.asarray(items, kind)
    except (ValueError, TypeError, OverflowError) as error:
        message = "expected numeric rows of equal length"
        raise GivenError(message) from error
    is_text = array.dtype.kind == "O" and all(isinstance(each, str) for each in array.flat)
    if dtype is None and array.dtype.kind not in "biuf" and not is_text:
        message = "expected numeric rows of equal length"
        raise GivenError(message)
    return array


def _holds_text(items: Any) -> bool:
    waiting = [items]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting += cast("Sequence[Any]", each)
        elif isinstance(each, str):
            return True
    return False


def fill(items: Any, shape: Sequence[Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return a tensor of `shape` with `items`, or with a single repeated one.

    Raises:
        GivenError: a dim is unknown, or the number of items differs.
    """
    known = [each for each in extents(shape) if isinstance(each, int)]
    array = array_of(items, dtype)
    if len(known) < len(shape):
        message = "the shape of a constant is unknown"
        raise GivenError(message)
    wanted = bounded(known)
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), wanted)
    if array.size != math.prod(wanted):
        message = f"{array.size} elements cannot have shape {list(wanted)}"
        raise GivenError(message)
    return array.reshape(wanted)


def rows(given: Any, kinds: Sequence[type], least: int, name: str) -> list[tuple[Any, ...]]:
    """Return the tuples of an argument, with `least` to `len(kinds)` items; missing items are 1.

    Raises:
        GivenError: it is not an array of such tuples.
    """
    found: list[tuple[Any, ...]] = []
    for each in _as_list(given):
        row = _as_list(each)
        row += [1] * (len(kinds) - len(row) if least <= len(row) else 0)
        if len(row) != len(kinds) or not all(map(_is_a, row, kinds)):
            message = f"an item of '{name}' is not a tuple of {', '.join(_NAMES[kind] for kind in kinds[:least])}"
            raise GivenError(message)
        found.append(tuple(row))
    return found


def _as_list(given: Any) -> list[Any]:
    return list(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else [given]


_NAMES: dict[type, str] = {str: "a string", int: "an integer", object: "a tensor"}


def _is_a(item: Any, kind: type) -> bool:
    return isinstance(item, kind) and not (kind is int and isinstance(item, bool))


def _named(item: Any) -> str:
    return repr(item) if isinstance(item, int | float | str) else "a tensor" if hasattr(item, "fact") else "an array"
