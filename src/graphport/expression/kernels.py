"""NumPy implementations of expression functions that compute into preallocated memory.

Arguments share one element type. Undefined results are NaN or wrap around without a warning: callers disable NumPy's
floating-point warnings around a whole evaluation.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from graphport.expression.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = np.ndarray[Any, Any]


def is_array(entry: object) -> TypeGuard[Array]:
    """Whether `entry` is an array (NumPy scalars are not)."""
    return isinstance(entry, np.ndarray)


def sign(x: Array, out: Array | None = None) -> Array:
    """-1, 0 or 1; 0 for NaN as in PyTorch.  Source: `torch.sign`."""
    result = np.asarray(np.sign(x, out=out))
    if result.dtype.kind == "f":
        np.copyto(result, 0, where=np.isnan(result))
    return result


def rsqrt(x: Array, out: Array | None = None) -> Array:
    """1 / sqrt(x)."""
    root = np.sqrt(x, out=out)
    return np.reciprocal(root, out=out)


def power(x: Array, y: Array, out: Array | None = None) -> Array:
    """x to the power y; integers with a negative exponent give 0, except 1 and -1."""
    if x.dtype.kind == "f" and y.size == 1 and y == 0.5:
        return _root(x, out)
    if x.dtype.kind != "i":
        return np.power(x, y, out=out)
    is_negative = y < 0
    if not is_negative.any():
        return np.power(x, y, out=out)
    # For bases 1 and -1 only the parity of the exponent matters, which y and -y share.
    base = np.where(is_negative & (np.abs(x) != 1), np.zeros_like(x), x)
    exponent = np.where(is_negative, 2 - (y & 1), y)
    return np.power(base, exponent, out=out)


def _root(x: Array, out: Array | None) -> Array:
    """Compute x ** 0.5 by the square root; for -inf the power is inf, but the root NaN."""
    is_endless = np.isinf(x)
    result = np.asarray(np.sqrt(x + 0.0, out=out))
    np.copyto(result, np.inf, where=is_endless)
    return result


def logaddexp(x: Array, y: Array, out: Array | None = None) -> Array:
    """log(exp(x) + exp(y)), without intermediate overflow."""
    if x.dtype.kind != "c":
        return np.logaddexp(x, y, out=out)
    is_larger = x.real >= y.real
    larger, smaller = np.where(is_larger, x, y), np.where(is_larger, y, x)
    return np.add(larger, np.log1p(np.exp(smaller - larger)), out=out)


def erf(x: Array, out: Array | None = None) -> Array:
    """The error function, within one unit in the last place of doubles (`_ERF`, `_ERFC`)."""
    from graphport.expression.approximations import erf_of

    result = erf_of(np.asarray(x, np.float64))
    if out is None:
        return result.astype(x.dtype)
    np.copyto(out, result, casting="same_kind")
    return out


def floor_divide(x: Array, y: Array, out: Array | None = None) -> Array:
    """The largest integer not above x / y."""
    refuse_zero("floor_divide", x, y)
    return np.floor_divide(x, y, out=out)


def remainder(x: Array, y: Array, out: Array | None = None) -> Array:
    """x - y * floor(x / y): it has the sign of y, but for a zero, which has that of x.  Source: `torch.remainder`."""
    refuse_zero("remainder", x, y)
    if x.dtype.kind != "f":
        return np.remainder(x, y, out=out)
    rest = np.asarray(np.fmod(x, y))
    is_below = ((rest < 0) != (y < 0)) & (rest != 0)
    rest = np.where(is_below, rest + y, rest)
    return rest if out is None else copy(rest, out)


def fmod(x: Array, y: Array, out: Array | None = None) -> Array:
    """x - y * trunc(x / y): it has the sign of x."""
    refuse_zero("fmod", x, y)
    return np.fmod(x, y, out=out)


def copy(x: Array, out: Array | None = None) -> Array:
    """Copy the elements; with `out`, cast to its type."""
    if out is None:
        return x
    np.copyto(out, x, casting="unsafe")
    return out


def refuse_zero(function: str, x: Array, y: Array) -> None:
    """Refuse an integer division by zero.

    Raises:
        Fault: `EXPR0204`; not if there is nothing to divide.
    """
    if y.dtype.kind in "iu" and x.size and y.size and not y.all():
        raise Fault(
            "EXPR0204",
            f"{function} divides an integer by zero",
            "cast an operand to float, where the result is inf or nan",
        )


def _no_array(*_: Array, out: Array | None = None) -> Array:  # noqa: ARG001
    message = "size looks at the shape of its argument, not at its values"
    raise TypeError(message)


KERNELS: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "abs": np.absolute,
        "acos": np.arccos,
        "acosh": np.arccosh,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atan": np.arctan,
        "atanh": np.arctanh,
        "ceil": np.ceil,
        "cos": np.cos,
        "cosh": np.cosh,
        "erf": erf,
        "exp": np.exp,
        "expm1": np.expm1,
        "floor": np.floor,
        "log": np.log,
        "log10": np.log10,
        "log1p": np.log1p,
        "neg": np.negative,
        "reciprocal": np.reciprocal,
        "round": np.rint,
        "rsqrt": rsqrt,
        "sign": sign,
        "sin": np.sin,
        "sinh": np.sinh,
        "sqrt": np.sqrt,
        "square": np.square,
        "tan": np.tan,
        "tanh": np.tanh,
        "trunc": np.trunc,
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.true_divide,
        "floor_divide": floor_divide,
        "remainder": remainder,
        "fmod": fmod,
        "pow": power,
        "atan2": np.arctan2,
        "logaddexp": logaddexp,
        "max": np.maximum,
        "maximum": np.maximum,
        "min": np.minimum,
        "minimum": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "lshift": np.left_shift,
        "rshift": np.right_shift,
        "int": copy,
        "torch.float": copy,
        "torch.long": copy,
        "torch.bool": copy,
        "copy": copy,
        "size": _no_array,
    }
)
"""How NumPy computes every function that pnnx writes."""
