"""Short constructors of facts, and assertions on facts of operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import OpDef, ShapeError
from graphport.ops.infer import Inference


def f32(*shape: Any) -> TensorFact:
    """Return a float32 fact of this shape."""
    return TensorFact(DType.FLOAT32, shape)


def i64(*shape: Any) -> TensorFact:
    """Integers of this shape."""
    return TensorFact(DType.INT64, shape)


def ints(*elements: Any) -> TensorFact:
    """Return the fact of an int64 vector with known elements."""
    return i64(len(elements)).with_elements(elements)


def single(data: Any) -> Any:
    """An array of single floats."""
    return np.array(data, np.float32)


def facts_of(op_def: OpDef, operands: Any, attributes: dict[str, Any], count: int) -> Any:
    """Infer the facts of the first `count` results of an operator."""
    return Inference().infer_operator(op_def, operands, attributes, count)


def rule(op_def: OpDef) -> Any:
    """The shape rule of a page by itself."""
    return op_def.shape


def fact_of(op_def: OpDef, *operands: Any, count: int = 1, **attributes: Any) -> Any:
    """Infer the fact of an operator's result, or a tuple for the first `count` results."""
    found = facts_of(op_def, operands, attributes, count)
    return found[0] if count == 1 else found


def refuse(op_def: OpDef, operands: Any, match: str, **attributes: Any) -> None:
    """Assert that the operator's shape rule refuses the operands and attributes with a matching message."""
    with pytest.raises(ShapeError, match=match):
        facts_of(op_def, operands, attributes, max(1, len(op_def.outputs)))
