"""Element-wise layers of Keras."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.keras.rules.binding import Layer, layer
from graphport.formats.keras.rules.tensors import binary, constant_of, unsqueezed
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul, Sub
from graphport.ops.lowering.operands import cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Value
    from graphport.ops.declare import OpDef


def _merge(name: str, op_def: OpDef) -> Callable[..., Value]:
    @layer(name, mask="merge")
    def merge(at: Layer) -> Value:
        """All inputs, one operation after another; axes of size 1 are inserted after the batch where ranks differ."""
        return reduce(lambda x, y: at.b(op_def, x, y), _aligned(at))

    return merge


def _aligned(at: Layer) -> list[Value]:
    rank = max(len(at.b.dims(x)) for x in at.inputs)
    return [unsqueezed(at.b, x, list(range(1, 1 + rank - len(at.b.dims(x))))) for x in at.inputs]


_MERGES = [
    _merge(*each) for each in (("Add", Add), ("Subtract", Sub), ("Multiply", Mul), ("Maximum", Max), ("Minimum", Min))
]


@layer("Average", mask="merge")
def average(at: Layer) -> Value:
    """The mean of all inputs."""
    inputs = _aligned(at)
    return binary(at.b, Div, reduce(lambda x, y: at.b(Add, x, y), inputs), float(len(inputs)))


@layer("Rescaling", mask="keep")
def rescaling(at: Layer, *, scale: Any = 1.0, offset: Any = 0.0) -> Value:
    """`x * scale + offset`, in the compute type."""
    b, x = at.b, cast(at.b, at.x, at.dtype)
    scaled = b(Mul, x, constant_of(b, scale, at.dtype))
    return b(Add, scaled, constant_of(b, offset, at.dtype)) if np.any(np.asarray(offset)) else scaled
