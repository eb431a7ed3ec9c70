"""Information about a value that its blob lacks, in parameters that ncnn ignores.

On `Noop` and `Input`, which have no parameters with these numbers: `13` is the axis of length 1 that the blob lacks,
233 if it has all axes, as in `Reshape`; `14=1` means that the blob's only axis is not in the value; `15` is ONNX's
number of the element type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value

PLACE, BARE, TYPE = "13", "14", "15"
NO_BATCH = 233
_TYPES = {9: DType.BOOL, 6: DType.INT32, 7: DType.INT64, 2: DType.UINT8, 3: DType.INT8, 5: DType.INT16}
_NUMBERS = {dtype: number for number, dtype in _TYPES.items()}
LINE = "ncnn.line"
"""Note of a node with its original line."""
FUNCTION = "ncnn.function"
"""Note of a node that is a function of its second operand: the function's number."""
BATCH = "ncnn.batch"
"""Note of a value during export: the axis that the blob lacks, if it is not axis 0."""


def batch_of(x: Value) -> int | None:
    """Return the axis of length 1 that the blob of a value lacks; `None` if the blob has all axes."""
    found = x.notes.get(BATCH, 0) if x.has_notes else 0
    return found if isinstance(found, int) and found >= 0 else None


def annotation_parameters(value: Value) -> dict[str, int]:
    """Return the parameters for information that the blob lacks; empty if it is complete."""
    fact = value.fact
    if not isinstance(fact, TensorFact):
        return {}
    found: dict[str, int] = {}
    dims, batch = fact.shape, batch_of(value)
    if dims is not None:
        if batch != 0 or not dims:
            found[PLACE] = batch if batch is not None and dims else NO_BATCH
        if len(dims) == (batch is not None and bool(dims)):
            found |= {PLACE: found.get(PLACE, 0), BARE: 1}
    if fact.dtype in _NUMBERS:
        found[TYPE] = _NUMBERS[fact.dtype]
    return found


def type_of(parameters: Mapping[str, Any]) -> DType | None:
    """Return the element type that the annotation parameters declare; `None` if they declare none."""
    number = parameters.get(TYPE)
    return _TYPES.get(number) if isinstance(number, int) else None


def missing_axis(parameters: Mapping[str, Any]) -> int:
    """Return the axis of length 1 that a blob lacks by its annotation parameters; `NO_BATCH` if it has all axes."""
    place = parameters.get(PLACE, 0)
    return place if isinstance(place, int) else NO_BATCH


def shape_of(parameters: Mapping[str, Any], dims: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the shape of a value: blob sizes `dims` with the missing axis inserted; [] for an annotated scalar."""
    own = () if parameters.get(BARE) == 1 and dims == (1,) else dims
    place = missing_axis(parameters)
    if not 0 <= place <= len(own):
        return own
    return (*own[:place], 1, *own[place:])
