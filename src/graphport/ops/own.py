"""Operators of a user's own: a meaning in NumPy and a shape rule, for nodes of a domain that nobody else knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ops.declare import MEANINGS, OWN, Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ops.declare import ShapeRule

Meaning = TypeVar("Meaning", bound=Callable[..., Any])

_TAKEN = ("", "onnx", "ai.onnx")


def operator(
    domain: str, *, name: str | None = None, shape: ShapeRule | None = None, outputs: Sequence[str] = ("y",)
) -> Callable[[Meaning], Meaning]:
    """Declare an operator of your own; the function below is its meaning.

    From then on nodes of that domain and name have shapes, run on the reference and are verified; in an ONNX file they
    stand as they are. Other runtimes do not know the operator, and a proof says so. A later declaration of the same
    name counts.

    Before  LEG0001: my.domain.Swish is kept unchanged
    After   @gp.operator("my.domain")
            def Swish(x, *, alpha: float = 1.0):
                return x / (1 + np.exp(-alpha * x))

    Args:
        domain: as ONNX files have it.
        name: the operator's name; that of the function if `None`.
        shape: facts of operands and attributes to facts of results, with the parameters of the function; the type and
            shape of the first operand if `None`. `Fact`s have `dtype` and `shape`, whose extents may be symbols.
        outputs: names of the results.

    Raises:
        ValueError: the domain is ONNX's own.
    """
    if domain in _TAKEN:
        message = f"the domain {domain!r} has its operators already"
        raise ValueError(message)

    def declare(function: Meaning) -> Meaning:
        word = name or function.__name__
        OWN[domain, word] = Page(
            name=f"{domain}.{word}", function=function, shape=shape or _like_first, outputs=tuple(outputs), since=1
        )
        MEANINGS[domain, word] = function
        return function

    return declare


def _like_first(*operands: Fact | None, **_: object) -> Fact:
    """The fact of the first operand, whose numbers are others."""
    first = operands[0] if operands else None
    return first.with_shape(first.shape) if isinstance(first, TensorFact) else first or UNKNOWN
