"""Import rules of quantization operators of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import DIALECT, Operator, Quantization, import_rule
from graphport.formats.tflite.rules.fixed_point import twice
from graphport.formats.tflite.rules.integer_kernels import ALL, KernelOperands
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.formats.tflite.rules.tables import halvings, integers_of, quotient_of, requantized, rounded_twice
from graphport.ops.declare import exact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Node, Value


@import_rule("QUANTIZE", layout="any")
def quantize(op: Operator) -> Value:
    """QUANTIZE: quantize floats, or requantize integers."""
    found = requantized(op)
    if found is not None:
        return found
    quantization = op.quantization(0)
    whole = integers_of(op) if quantization is not None and quantization[0] is DType.INT16 else None
    real = quotient_of(op)
    twice = None if whole is None else rounded_twice(op, whole, real, halvings(real))
    return op[0] if twice is None else twice


# DEQUANTIZE of integers or float16.
RULES.lower("DEQUANTIZE(x) -> cast(x, float32)", layout="any")
# DENSIFY: the reader already expands sparse constants.
RULES.lower("DENSIFY(x) -> Identity(x)", moves=True)


def _has_int16_result(node: Node) -> bool:
    quantization = cast("Sequence[Quantization | None]", node.attributes.get("quantized_results") or (None,))[0]
    return quantization is not None and quantization[1] < 0 and quantization[0] in ALL


@exact(DIALECT, "QUANTIZE", when=_has_int16_result)
def quantized_steps(
    x: Numbers,
    *,
    quantized: Sequence[Quantization | None] = (),
    quantized_results: Sequence[Quantization] = (),
    **options: Any,
) -> Numbers:
    """Quantize floats half away from zero; requantize integers with two roundings."""
    given = KernelOperands([x], options, quantized or (None,), quantized_results[0])
    if given.quantized[0] is not None:
        return given.clamped(twice(given.centred(0), float(given.scale(0)) / float(given.step)))
    quotient = np.where(np.isnan(x), 0, x.astype(np.float32) / given.step).astype(np.float64)
    steps = np.trunc(quotient + np.copysign(0.5, quotient))
    return given.clamped(np.clip(steps, -(1 << 40), 1 << 40).astype(np.int64))
