"""Words inside a lifting, with the facts that their own lowerings find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact, Unknown
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.operands import dtype_of, scalar, vector
from graphport.ops.pages.reshape import Reshape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute


def emit(b: Builder, word: str, *operands: Value | float | None, **attributes: Attribute) -> Value:
    """The first result of a word; numbers become constants of rank 0 of the element type of the first tensor."""
    return emits(b, word, 1, *operands, **attributes)[0]


def emits(
    b: Builder, word: str, count: int, *operands: Value | float | None, **attributes: Attribute
) -> tuple[Value, ...]:
    """The first `count` results of a word.

    Raises:
        Unknown: there are numbers, and nobody knows the element type.
    """
    values = numbered(b, operands)
    return b.word(word, *values, facts=_facts(b, word, count, values, attributes), **attributes)


def numbered(b: Builder, operands: Sequence[Value | float | None]) -> list[Value | None]:
    """Operands with numbers as constants of rank 0 of the element type of the first tensor.

    Raises:
        Unknown: nobody knows it.
    """
    first = next((operand for operand in operands if isinstance(operand, Value)), None)
    values: list[Value | None] = []
    for operand in operands:
        if isinstance(operand, Value) or operand is None:
            values.append(operand)
            continue
        if first is None:
            raise Unknown
        values.append(scalar(b, operand, dtype_of(first)))
    return values


def _facts(
    b: Builder, word: str, count: int, values: list[Value | None], attributes: dict[str, Attribute]
) -> list[Fact]:
    rule = registry.lowering(b.dialect, word)
    if rule is None:
        return [UNKNOWN] * count
    try:
        answer = registry.results(
            rule(Builder(b.inference, dialect=b.dialect, count=count, stem=b.stem), *values, **attributes)
        )
    except (UnsupportedError, Unknown):
        return [UNKNOWN] * count
    return [UNKNOWN if value is None else value.fact for value in answer[:count]]


def emitted_reshape(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """`x` in another shape, in which one number may be -1; a constant stays one, and is not copied."""
    constant = b.reshaped(x, shape) if all(n > 0 for n in shape) else None
    if constant is not None:
        return constant
    wanted = vector(b, shape)
    fact = Builder(b.inference, stem=b.stem)(Reshape, x, wanted, allowzero=1).fact
    return b.word("opset1.Reshape", x, wanted, facts=[fact], special_zero=False)[0]


def emitted_transpose(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """`x` with its axes in another order."""
    return x if list(perm) == list(range(len(perm))) else emit(b, "opset1.Transpose", x, vector(b, perm))


def itself(b: Builder, x: Value) -> Value:
    """`x` under another name: converted to the type that it has, which every operation set can say."""
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    if dtype is None or dtype is DType.STRING or dtype.bits < _BYTE:
        return b.word("opset16.Identity", x, facts=[x.fact])[0]
    return b.word("opset1.Convert", x, facts=[x.fact], destination_type=dtype)[0]


_BYTE = 8
