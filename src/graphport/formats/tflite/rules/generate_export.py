"""Export rules of generators (constants, ranges, windows) to TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import cast_to, in_int32, needed_array, shaped
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.definitions.generate import ConstantOfShape, EyeLike
from graphport.ops.definitions.reshape import Identity
from graphport.ops.definitions.signal import MelWeightMatrix
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


RULES.export_rules("Range -> RANGE(start, limit, delta)")


@ConstantOfShape.export_rule("tflite")
def export_constant_of_shape(b: Builder, input: Value, *, value: object = None) -> Exported:
    array = np.zeros(1, np.float32) if value is None else np.asarray(value.numpy())  # type: ignore[attr-defined]
    return (emit(b, "FILL", in_int32(b, input), b.constant(array.reshape(()))),)


@EyeLike.export_rule("tflite")
def export_eye_like(b: Builder, input: Value, *, dtype: DType | None = None, k: int = 0) -> Exported:
    rows, columns = sizes(b.dims(input), "the shape")
    reserve(rows, columns)
    own = dtype or dtype_of(input)
    return (b(Identity, b.constant(np.eye(rows, columns, k).astype(own.numpy), own)),)


def _sum_of_cosines(b: Builder, size: Value, factors: Sequence[float], periodic: int, dtype: DType) -> Value:
    """Window function: sum over k of factors[k] * cos(2 pi k n / length) for n from 0 to `size` - 1.

    The length is `size` if `periodic`, else `size` - 1.
    """
    count = cast_to(b, shaped(b, size, ()), DType.FLOAT32)
    numbers = emit(b, "RANGE", b.like(count, 0), count, b.like(count, 1))
    whole = count if periodic else emit(b, "MAXIMUM", emit(b, "SUB", count, 1.0), 1.0)
    angle = emit(b, "DIV", emit(b, "MUL", numbers, 2 * np.pi), whole)
    total = emit(b, "ADD", emit(b, "MUL", angle, 0.0), factors[0])
    for times, factor in enumerate(factors[1:], 1):
        total = emit(b, "ADD", total, emit(b, "MUL", emit(b, "COS", emit(b, "MUL", angle, float(times))), factor))
    return cast_to(b, total, dtype)


RULES.having(cosines=_sum_of_cosines).export_rules("""
HannWindow -> cosines(size, [0.5, -0.5], periodic, output_datatype)
HammingWindow -> cosines(size, [25 / 46, -21 / 46], periodic, output_datatype)
BlackmanWindow -> cosines(size, [0.42, -0.5, 0.08], periodic, output_datatype)
""")


@MelWeightMatrix.export_rule("tflite")
def export_mel_weights(
    b: Builder,
    num_mel_bins: Value,
    dft_length: Value,
    sample_rate: Value,
    lower_edge_hertz: Value,
    upper_edge_hertz: Value,
    *,
    output_datatype: DType = DType.FLOAT32,
) -> Exported:
    """Export MelWeightMatrix as a constant: float32 rounds corner frequencies differently from float64."""
    operands = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    stored = [needed_array(each, "the operands of MelWeightMatrix") for each in operands]
    reserve(int(stored[0].item()), int(stored[1].item()))
    weights = MelWeightMatrix.function(*stored, output_datatype=output_datatype)
    return (b(Identity, b.constant(weights, output_datatype)),)
