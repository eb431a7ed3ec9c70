"""Size expressions of ncnn over blob sizes: `"*(0w,2),0h,-1"`, innermost axis first.

The runtime ignores parentheses and commas, reads tokens from last to first and uses a stack; so does this module. `0w`
is the width of the first blob, likewise `h`, `d`, `c`, and `n` for the batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.binding import AXES, Layer
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import vector

Number: TypeAlias = "int | float"
Length: TypeAlias = "Number | Value"
"""A number, or a vector of one integer that is computed."""

_LENGTH = re.compile(r"(\d)([whdcn])", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d{1,10}", re.ASCII)
_REAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_MOST_WORDS = 256


def _quotient(a: Number, b: Number) -> Number:
    """Integer division, truncated as in C."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    return math.floor(a / b)


def _remainder(a: Number, b: Number) -> Number:
    return math.fmod(a, b) + (b if a * b < 0 else 0)


_OF_TWO: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "//": _quotient,
        "max": max,
        "min": min,
        "/": lambda a, b: a / b,
        "atan2": math.atan2,
        "fmod": math.fmod,
        "pow": lambda a, b: float(a) ** b,
        "remainder": _remainder,
        "logaddexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "lshift": lambda a, b: a << min(b, 31),
        "rshift": lambda a, b: a >> min(b, 31),
    }
)
_OF_ONE: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "abs": abs,
        "neg": lambda a: -a,
        "sign": lambda a: (a > 0) - (a < 0),
        "square": lambda a: a * a,
        "trunc": math.trunc,
        "ceil": math.ceil,
        "floor": math.floor,
        "round": lambda a: math.floor(abs(a) + 0.5) * (1 if a > 0 else -1),
        "reciprocal": lambda a: 1 / a,
        "rsqrt": lambda a: 1 / math.sqrt(a),
        **{
            name: getattr(math, name)
            for name in (
                *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "log10"),
                *("sin", "sinh", "sqrt", "tan", "tanh"),
            )
        },
    }
)
_OF_VALUES: Mapping[str, str] = MappingProxyType(
    {"+": "Add", "-": "Sub", "*": "Mul", "//": "Div", "max": "Max", "min": "Min"}
)
"""Functions that are supported for open sizes: all integer ones."""


def lengths_of_text(at: Layer, text: str) -> list[Length]:
    """Evaluate an expression; sizes that depend on open ones are values.

    Raises:
        UnsupportedError: an unknown token, missing operands, or a function without an integer form for open sizes.
    """
    tokens = [token for token in re.split(r"[(),]", text.strip('"')) if token]
    stack: list[Length] = []
    if len(tokens) > _MOST_WORDS:
        message = f"the size expression has {len(tokens)} tokens, at most {_MOST_WORDS} are supported"
        raise UnsupportedError(message)
    for token in reversed(tokens):
        count = 2 if token in _OF_TWO else 1 if token in _OF_ONE else 0
        if len(stack) < count:
            message = f"missing operands of {token!r} in the size expression {text!r}"
            raise UnsupportedError(message)
        operands = [stack.pop() for _ in range(count)]
        stack.append(_computed(at, token, operands) if count else _read(at, token, text))
    return [length if isinstance(length, Value) else math.trunc(length) for length in reversed(stack)]


def list_of(at: Layer, text: str) -> list[int]:
    """Evaluate a size expression to integers.

    Raises:
        UnsupportedError: a size is not static.
    """
    found = lengths_of_text(at, text)
    known = [length for length in found if isinstance(length, int)]
    if len(known) < len(found) or not found:
        message = f"the size expression {text!r} is not constant"
        raise UnsupportedError(message)
    return known


def _read(at: Layer, token: str, text: str) -> Length:
    named = _LENGTH.fullmatch(token)
    if named is not None:
        return length_of(at, int(named.group(1)), named.group(2))
    if _INTEGER.fullmatch(token):
        return int(token)
    if not _REAL.fullmatch(token):
        message = f"unsupported token {token!r} in the size expression {text!r}"
        raise UnsupportedError(message)
    return float(token)


def length_of(at: Layer, place: int, name: str) -> Length:
    """Return the size of axis `name` (`w`, `h`, `d`, `c`) of input `place`; 1 if the blob lacks this axis."""
    if place >= len(at.inputs):
        message = f"the size expression refers to input {place}, the layer has {len(at.inputs)} inputs"
        raise UnsupportedError(message)
    x = at.inputs[place]
    dims = at.b.dims(x)
    own = AXES[len(dims) - 1]
    if name not in own:
        return 1
    axis = own.index(name) + 1
    dim = dims[axis]
    if isinstance(dim, int):
        return dim
    op_defs = registry.op_defs()
    return at.b(op_defs["Shape"], x, start=axis, end=axis + 1)


def _computed(at: Layer, token: str, operands: Sequence[Length]) -> Length:
    if not any(isinstance(each, Value) for each in operands):
        return (_OF_TWO if len(operands) == 2 else _OF_ONE)[token](*operands)
    if token not in _OF_VALUES or any(isinstance(each, float) for each in operands):
        message = f"{token!r} of sizes that are not constant"
        raise UnsupportedError(message)
    return at.b(registry.op_defs()[_OF_VALUES[token]], *(_vector(at, each) for each in operands))


def _vector(at: Layer, length: Length) -> Value:
    return length if isinstance(length, Value) else vector(at.b, [int(length)])


def joined(at: Layer, lengths: Sequence[Length]) -> Value:
    """Concatenate sizes, integers or run-time values, to an int64 vector."""
    if all(isinstance(each, int) for each in lengths):
        return at.b.constant([int(each) for each in lengths if isinstance(each, int)], DType.INT64)
    return at.b(registry.op_defs()["Concat"], *(_vector(at, each) for each in lengths), axis=0)
