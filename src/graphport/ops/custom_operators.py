"""User-defined operators: semantics in NumPy and a shape rule for nodes of a custom domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ops.declare import MEANINGS, OWN, OpDef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ops.declare import ShapeRule

Meaning = TypeVar("Meaning", bound=Callable[..., Any])

_TAKEN = ("", "onnx", "ai.onnx")


def operator(
    domain: str, *, name: str | None = None, shape: ShapeRule | None = None, outputs: Sequence[str] = ("y",)
) -> Callable[[Meaning], Meaning]:
    """Define a custom operator; the decorated function is its semantics.

    Nodes of that domain and name then have shapes, run on the reference interpreter and are verified; ONNX files
    contain them unchanged. Other runtimes do not know the operator, and a proof reports that. A later definition
    replaces an earlier one.

    Before  LEG0001: my.domain.Swish is kept unchanged
    After   @gp.operator("my.domain")
            def Swish(x, *, alpha: float = 1.0):
                return x / (1 + np.exp(-alpha * x))

    Args:
        domain: the domain in ONNX files.
        name: the operator's name; the name of the function if `None`.
        shape: maps facts of operands and attributes to facts of results, with the parameters of the function; the
            dtype and shape of the first operand if `None`. A `Fact` has `dtype` and `shape`, whose dims may be
            symbolic.
        outputs: names of the results.

    Raises:
        ValueError: the domain is ONNX's own.
    """
    if domain in _TAKEN:
        message = f"the domain {domain!r} has its operators already"
        raise ValueError(message)

    def declare(function: Meaning) -> Meaning:
        op_type = name or function.__name__
        OWN[domain, op_type] = OpDef(
            name=f"{domain}.{op_type}",
            function=function,
            shape=shape or _fact_of_first_operand,
            outputs=tuple(outputs),
            since=1,
        )
        MEANINGS[domain, op_type] = function
        return function

    return declare


def _fact_of_first_operand(*operands: Fact | None, **_: object) -> Fact:
    """Return the fact of the first operand without its elements."""
    first = operands[0] if operands else None
    return first.with_shape(first.shape) if isinstance(first, TensorFact) else first or UNKNOWN
