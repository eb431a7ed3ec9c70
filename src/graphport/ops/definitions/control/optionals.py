"""Values that may be absent; at run time an absent one is `None`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, OptionalFact, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import BOOL, CLASSIC, Tensor, Types

V = Annotated[Any, Types("V", CLASSIC, "any")]
O = Annotated[Any, Types("O", CLASSIC, "any")]  # noqa: E741  the letter of the specification
B = Annotated[Tensor, Types("B", BOOL)]


def _optional_shape(input: Fact | None = None, *, type: Fact | None = None) -> OptionalFact:
    if input is None and type is None:
        message = "the operand and the attribute `type` are both missing"
        raise ShapeError(message, "set `type` to the type of the absent value")
    if input is None or input == UNKNOWN:
        return OptionalFact(type or UNKNOWN)
    return OptionalFact(input)


@op(shape=_optional_shape, since=15, outputs=("output",), moves_data=True, exactness="exact")
def Optional(input: V | None = None, *, type: Fact | None = None) -> O:
    """Wrap `input` in an optional; without input, an empty optional of `type`.  Shapes: any.

    Raises:
        ShapeError: neither input nor `type` is present.

    Source: ONNX Optional-15.
    """
    return input


def _get_shape(input: Fact) -> Fact:
    return input.element if isinstance(input, OptionalFact) else input


@op(shape=_get_shape, since=15, outputs=("output",), moves_data=True, exactness="exact")
def OptionalGetElement(input: O) -> V:
    """Return the element of an optional; a tensor or sequence is returned unchanged.  Shapes: any.

    Raises:
        ValueError: the optional is empty.

    Source: ONNX OptionalGetElement-18.
    """
    if input is None:
        message = "the optional is empty"
        raise ValueError(message)
    return input


def _has_shape(input: Fact | None = None) -> TensorFact:
    fact = TensorFact(DType.BOOL, ())
    if input is None:
        return fact.with_elements([0])
    is_there = not isinstance(input, OptionalFact) and input != UNKNOWN
    return fact.with_elements([1]) if is_there else fact


@op(shape=_has_shape, since=15, outputs=("output",), exactness="exact", role="index")
def OptionalHasElement(input: O | None = None) -> B:
    """Whether an optional has an element; true for a tensor or sequence.  Shapes: any → [].

    Source: ONNX OptionalHasElement-18.
    """
    return np.array(input is not None)
