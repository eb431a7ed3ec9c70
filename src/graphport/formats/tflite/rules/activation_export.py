"""Export rules of Where and Dropout to TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import cast_to, computed_in, ints
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Hardmax
from graphport.ops.definitions.activation.dropout import Dropout
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, float_element, sizes
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


@Hardmax.export_rule("tflite")
def export_hardmax(b: Builder, input: Value, *, axis: int = -1) -> Exported:
    axis = axis_index(axis, len(b.dims(input)))
    (n,) = sizes(b.dims(input)[axis : axis + 1], "the searched tensor")
    types = frozenset((DType.FLOAT32,))
    best = computed_in(b, types, "ARG_MAX", input, beside=(ints(b, axis),), output_type=2, types=(DType.INT32,))
    on, off = b.constant(np.float32(1)), b.constant(np.float32(0))
    return (cast_to(b, emit(b, "ONE_HOT", best, ints(b, n), on, off, axis=axis), dtype_of(input)),)


@Dropout.export_rule("tflite")
def export_dropout(
    b: Builder, data: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int | None = None
) -> Exported:
    del seed
    is_trained = training_mode is not None and (not _is_false(training_mode)) and float_element(ratio) != 0
    if is_trained:
        message = "Dropout in training mode is random"
        raise UnsupportedError(message)
    mask = b.constant(np.ones(bounded(sizes(b.dims(data), "the mask")), np.bool_)) if b.count > 1 else None
    y = b(Identity, data)
    return (y,) if mask is None else (y, b(Identity, mask))


def _is_false(value: Value) -> bool:
    return value.is_constant and value.storage is not None and not bool(value.storage.numpy().reshape(-1)[0])
