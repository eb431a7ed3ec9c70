"""Pooling of TFLite, channels-last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.tflite.rules.binding import Operator, import_rule, pads_of, to_channels_first, to_channels_last
from graphport.formats.tflite.rules.convolution_kernels import patches
from graphport.formats.tflite.rules.fixed_point import quotient
from graphport.formats.tflite.rules.integer_kernels import KernelOperands, integer_kernel
from graphport.ops.definitions.arithmetic import Mul, Sqrt
from graphport.ops.definitions.pooling import AveragePool, MaxPool
from graphport.ops.lowering.windows import window_attributes

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value
    from graphport.ops.declare import OpDef


def _pooled(op: Operator, op_def: OpDef, x: Value) -> Value:
    b, kernel = op.b, op.positive("filter_height", "filter_width")
    strides = op.positive("stride_h", "stride_w")
    stated = window_attributes(kernel, strides, (1, 1)) | pads_of(op, op.dims(0)[1:-1], kernel, strides, (1, 1))
    return b(op_def, to_channels_first(b, x), **stated)


@import_rule("AVERAGE_POOL_2D", is_even=True)
def average_pool_2d(op: Operator) -> Value:
    """AVERAGE_POOL_2D: mean of the elements inside the input."""
    return to_channels_last(op.b, _pooled(op, AveragePool, op[0]))


@import_rule("MAX_POOL_2D", is_even=True)
def max_pool_2d(op: Operator) -> Value:
    """MAX_POOL_2D."""
    return to_channels_last(op.b, _pooled(op, MaxPool, op[0]))


@import_rule("L2_POOL_2D")
def l2_pool_2d(op: Operator) -> Value:
    """L2_POOL_2D: square root of the mean of squares."""
    b, x = op.b, op[0]
    return to_channels_last(b, b(Sqrt, _pooled(op, AveragePool, b(Mul, x, x))))


@integer_kernel("AVERAGE_POOL_2D")
def average_pool_2d_of_integers(given: KernelOperands) -> Numbers:
    """Mean of the stored integers inside the input, rounded half away from zero."""
    kernel = int(given.option("filter_height", 1)), int(given.option("filter_width", 1))
    x = given.stored(0)
    total = patches(given, x, kernel).sum(axis=(4, 5))
    count = patches(given, np.ones_like(x), kernel).sum(axis=(4, 5))
    return given.clamped(quotient(total, count) - given.zero)
