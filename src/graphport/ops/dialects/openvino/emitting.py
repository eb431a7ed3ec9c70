"""OpenVINO's words that liftings of every family need: other shapes, other orders of axes, other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.builder import Builder
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.operands import vector
from graphport.ops.pages.reshape import Reshape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value

_BYTE = 8


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


def renamed(b: Builder, x: Value) -> Value:
    """`x` under another name: converted to the type that it has, which every operation set can say."""
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    if dtype is None or dtype is DType.STRING or dtype.bits < _BYTE:
        return b.word("opset16.Identity", x, facts=[x.fact])[0]
    return b.word("opset1.Convert", x, facts=[x.fact], destination_type=dtype)[0]
