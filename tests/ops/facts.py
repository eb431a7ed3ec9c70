"""Facts in a word or two, and what pages say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import OpDef, ShapeError
from graphport.ops.infer import Inference


def f32(*shape: Any) -> TensorFact:
    """Real numbers of this shape."""
    return TensorFact(DType.FLOAT32, shape)


def i64(*shape: Any) -> TensorFact:
    """Integers of this shape."""
    return TensorFact(DType.INT64, shape)


def ints(*elements: Any) -> TensorFact:
    """A vector whose elements are known."""
    return i64(len(elements)).with_elements(elements)


def single(data: Any) -> Any:
    """An array of single floats."""
    return np.array(data, np.float32)


def facts_of(op_def: OpDef, operands: Any, attributes: dict[str, Any], count: int) -> Any:
    """What is known of the first `count` results of a page."""
    return Inference().infer_operator(op_def, operands, attributes, count)


def rule(op_def: OpDef) -> Any:
    """The shape rule of a page by itself."""
    return op_def.shape


def fact_of(op_def: OpDef, *operands: Any, count: int = 1, **attributes: Any) -> Any:
    """What is known of a page's result, or a tuple for the first `count` of them."""
    found = facts_of(op_def, operands, attributes, count)
    return found[0] if count == 1 else found


def refuse(op_def: OpDef, operands: Any, match: str, **attributes: Any) -> None:
    """The page's shape rule refuses these operands and attributes with such a sentence."""
    with pytest.raises(ShapeError, match=match):
        facts_of(op_def, operands, attributes, max(1, len(op_def.outputs)))
