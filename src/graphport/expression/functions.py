"""The function table: names, arities, types and NumPy implementations.

The semantics of a function with a canonical operator are those of its operator definition, from which `function_table`
takes them. This module defines the accepted types, the other functions, and in-place implementations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphport.expression.kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Mapping


Compute = Callable[..., Any]
"""A function of arrays that share one element type, with broadcasting."""
ComputeInto = Callable[..., Any]
"""A function with the keyword argument `out`, the result array."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How many arguments a function has, and of which kinds (`b` logical, `iu` integer, `f` real, `c` complex).

    With `floats`, logical and integer arguments are computed in the default floating type.
    """

    arities: tuple[int, ...]
    accepts: str
    floats: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the expression language.

    `compute` implements it; `into`, if present, computes into `out`.
    """

    name: str
    signature: Signature
    compute: Compute
    into: ComputeInto | None = None


_ANALYTIC = Signature((1,), "biufc", floats=True)
_ROUNDING = Signature((1,), "iuf")
_EXTREME = Signature((2,), "biuf")
_DIVISION = Signature((2,), "iuf")
_BITWISE = Signature((2,), "biu")
_SHIFT = Signature((2,), "iu")
_CAST = Signature((1,), "biufc")

SIGNATURES: Mapping[str, Signature] = MappingProxyType(
    {
        "abs": Signature((1,), "iufc"),
        "acos": _ANALYTIC,
        "acosh": _ANALYTIC,
        "asin": _ANALYTIC,
        "asinh": _ANALYTIC,
        "atan": _ANALYTIC,
        "atanh": _ANALYTIC,
        "ceil": _ROUNDING,
        "cos": _ANALYTIC,
        "cosh": _ANALYTIC,
        "erf": Signature((1,), "biuf", floats=True),
        "exp": _ANALYTIC,
        "expm1": _ANALYTIC,
        "floor": _ROUNDING,
        "log": _ANALYTIC,
        "log10": _ANALYTIC,
        "log1p": _ANALYTIC,
        "neg": Signature((1,), "iufc"),
        "reciprocal": _ANALYTIC,
        "round": _ROUNDING,
        "rsqrt": _ANALYTIC,
        "sign": Signature((1,), "biuf"),
        "sin": _ANALYTIC,
        "sinh": _ANALYTIC,
        "sqrt": _ANALYTIC,
        "square": Signature((1,), "iufc"),
        "tan": _ANALYTIC,
        "tanh": _ANALYTIC,
        "trunc": _ROUNDING,
        "add": Signature((2,), "biufc"),
        "sub": Signature((2,), "iufc"),
        "mul": Signature((2,), "biufc"),
        "div": Signature((2,), "biufc", floats=True),
        "floor_divide": _DIVISION,
        "remainder": _DIVISION,
        "fmod": _DIVISION,
        "pow": Signature((2,), "iufc"),
        "atan2": Signature((2,), "biuf", floats=True),
        "logaddexp": Signature((2,), "fc"),
        "max": _EXTREME,
        "maximum": _EXTREME,
        "min": _EXTREME,
        "minimum": _EXTREME,
        "and": _BITWISE,
        "or": _BITWISE,
        "xor": _BITWISE,
        "lshift": _SHIFT,
        "rshift": _SHIFT,
        "int": _CAST,
        "torch.float": _CAST,
        "torch.long": _CAST,
        "torch.bool": _CAST,
        "size": Signature((1, 2), "biufc"),
    }
)
"""Every function that pnnx writes."""

ARITIES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {name: signature.arities for name, signature in SIGNATURES.items()}
)
"""How many arguments each takes: all that reading needs."""


def function_table(op_defs: Mapping[str, Compute]) -> Mapping[str, Function]:
    """Return the functions of PNNX; those with a canonical operator use its operator definition.

    Raises:
        ValueError: an operator definition names an unknown function.
    """
    unknown = sorted(op_defs.keys() - SIGNATURES.keys())
    if unknown:
        message = f"unknown expression function {', '.join(unknown)}"
        raise ValueError(message)
    return MappingProxyType(
        {
            name: Function(name, signature, op_defs.get(name, KERNELS[name]), KERNELS[name])
            for name, signature in SIGNATURES.items()
        }
    )


NUMPY_FUNCTIONS = function_table({})
"""The functions as NumPy computes them."""
