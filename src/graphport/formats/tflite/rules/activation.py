"""Activations of TFLite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules import tables
from graphport.formats.tflite.rules.binding import Operator, import_rule
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.lowering.operands import cast, dtype_of
from graphport.ops.special_functions import erf

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value


def _gelu(op: Operator) -> Value | None:
    return tables.interpolated(op, _by_tanh if op.option("approximate", default=False) else _by_erf)


def _by_erf(x: Numbers) -> Numbers:
    return np.float32(0.5) * x * (1 + erf(x.astype(np.float64) * math.sqrt(0.5)))


def _by_tanh(x: Numbers) -> Numbers:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


RULES.lower(
    """
RELU(x) -> Relu(x)
RELU6(x) -> Clip(x, 0, 6)
RELU_N1_TO_1(x) -> Clip(x, -1, 1)
RELU_0_TO_1(x) -> Clip(x, 0, 1)
ELU(x) -> Elu(x)
HARD_SWISH(x) -> HardSwish(x)
# A slope for each element, which is fitted to the last axes.
PRELU(x, slope) -> PRelu(x, slope)
""",
    layout="any",
)
RULES.lower("LOGISTIC(x) -> Sigmoid(x)", first=tables.logistic, layout="any")
RULES.lower("TANH(x) -> Tanh(x)", first=tables.tanh, layout="any")
RULES.lower("LEAKY_RELU(x, *, alpha=0.0) -> LeakyRelu(x, alpha=alpha)", first=tables.leaky, layout="any")
RULES.lower(
    """
GELU(x, *, approximate=False)
    -> approximate: Gelu(x, approximate="tanh")
    -> Gelu(x)
""",
    first=_gelu,
    layout="any",
)
# Both operate along the last axis.
RULES.lower("LOG_SOFTMAX(x) -> LogSoftmax(x)")
RULES.lower("SOFTMAX(x, *, beta=0.0) -> Softmax(x if beta == 1 else Mul(x, beta))", first=tables.softmax)


@import_rule("FAKE_QUANT")
def fake_quant(op: Operator) -> Value:
    """Quantize and dequantize a number with `num_bits` between min and max."""
    b, bits = op.b, int(op.option("num_bits", 8))
    least, most = float(op.option("min", 0.0)), float(op.option("max", 0.0))
    if not 2 <= bits <= 16 or not least <= most:
        message = f"num_bits {bits} with limits {least} and {most}"
        raise ShapeError(message, "expected 2 to 16 bits and min <= max")
    dtype = DType.UINT8 if bits <= 8 else DType.UINT16
    low, high = (1 if op.option("narrow_range", default=False) else 0), (1 << bits) - 1
    scale = (most - least) / (high - low)
    zero = int(np.clip(np.round(low - least / scale), low, high)) if scale else 0
    nudged_low, nudged_high = np.float32((low - zero) * scale), np.float32((high - zero) * scale)
    x = b(Clip, cast(b, op[0], dtype_of(op[0])), b.like(op[0], nudged_low), b.like(op[0], nudged_high))
    parameters = b.constant(np.float32(scale)), b.constant(np.array(zero), dtype)
    return b(DequantizeLinear, b(QuantizeLinear, x, *parameters), *parameters)
