"""Import of output annotations that graphport's ncnn files contain; see `annotations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphport.formats.ncnn.rules.annotations import BARE, NO_BATCH, PLACE, missing_axis, type_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Cast
from graphport.ops.definitions.reshape import Identity, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of


@layer("Noop")
def import_annotations(at: Layer) -> Value:
    """Return the value that annotation parameters describe, from a value whose axis 0 is the batch."""
    b, y, place = at.b, at.x, at.integer(int(PLACE))
    if at.integer(int(BARE)):
        y = b(Squeeze, y, [1])
    if place == NO_BATCH:
        y = b(Squeeze, y, [0])
    elif 0 < place < len(b.dims(y)):
        y = b(Transpose, y, perm=(*range(1, place + 1), 0, *range(place + 1, len(b.dims(y)))))
    dtype = type_of(at.parameters)
    return y if dtype is None or dtype_of(y) is dtype else b(Cast, y, to=dtype)


def strip_annotations(b: Builder, x: Value, parameters: Mapping[str, Any]) -> Value:
    """Invert `import_annotations`: return the annotated `x` as a value whose axis 0 is the batch."""
    place = missing_axis(parameters)
    rank = len(b.dims(x))
    if place == NO_BATCH:
        x = b(Unsqueeze, x, [0])
    elif 0 < place < rank:
        x = b(Transpose, x, perm=(place, *(axis for axis in range(rank) if axis != place)))
    return b(Unsqueeze, x, [1]) if parameters.get(BARE) else b(Identity, x)
