"""One element type's bits read as another's."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_13, STRING, Tensor, Types

T1 = Annotated[Tensor, Types("T1", ALL_13 - STRING)]
T2 = Annotated[Tensor, Types("T2", ALL_13 - STRING)]


def _bitcast_shape(input: TensorFact, *, to: DType | None) -> TensorFact:
    if to is None or to is DType.STRING or (input.dtype is not None and input.dtype.bits != to.bits):
        message = f"{input.dtype} cannot be reinterpreted as {to}"
        raise ShapeError(message, "both types must have equal bit widths")
    return TensorFact(to, input.shape)


@op(shape=_bitcast_shape, since=26, outputs=("output",), exactness="exact")
def BitCast(input: T1, *, to: DType) -> T2:
    """Reinterpret the bits of each element as type `to` of equal width.  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: the widths differ.

    Source: ONNX BitCast-26.
    """
    if to.bits >= 8:
        return np.ascontiguousarray(input).reshape(input.shape).view(to.numpy)
    # In memory an element of this type occupies a byte; its upper bits are undefined.
    raw = np.ascontiguousarray(input).reshape(input.shape).view(np.uint8) & (1 << to.bits) - 1
    if to.is_floating:
        return raw.view(to.numpy)
    sign = 1 << to.bits - 1
    return ((raw.astype(np.int16) ^ sign) - sign if to.kind == "i" else raw).astype(np.int8).astype(to.numpy)
