"""Reductions of integers along axes with the rounding of LiteRT's kernels."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.fixed_point import factors, in_fifteen_bits, shifted, times, twice
from graphport.formats.tflite.rules.integer_kernels import BYTES, KernelOperands, integer_kernel
from graphport.ops.definitions.arithmetic import Add, Floor, Max, Min, Mul, Sub
from graphport.ops.definitions.indexing import Slice
from graphport.ops.lowering.operands import cast, integers, reshaped, transposed, vector

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.binding import Operator
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value


_SIGNED = frozenset((DType.INT8, DType.INT16))
_MAX_FACTORS = 64
"""Maximum number of factors that are multiplied in sequence; longer products are rounded once."""


def product(op: Operator) -> Value | None:
    """Product along axes in steps of the result; `None` without scales or with too many factors.

    After each of n factors, kernels multiply by the n-th root of the combined scale with 15 bits, and round.
    """
    quantization, wanted, axes, dims = op.quantization(0), op.result, integers(op.raw(1)), op.dims(0)
    if (
        quantization is None
        or wanted is None
        or quantization[0] not in _SIGNED
        or wanted[0] is not quantization[0]
        or not axes
        or quantization[1] >= 0
    ):
        return None
    extents = [n for n in dims if isinstance(n, int)]
    reduced = sorted({axis % len(dims) for axis in axes})
    count = prod(extents[axis] for axis in reduced) if len(extents) == len(dims) else 0
    if not 1 <= count <= _MAX_FACTORS:
        return None
    b, kept = op.b, [axis for axis in range(len(dims)) if axis not in reduced]
    result = [extents[axis] for axis in kept]
    # float64 represents these products.
    x = b(Sub, cast(b, op.raw(0), DType.FLOAT64), b.constant(np.float64(quantization[3][0])))
    rows = reshaped(b, transposed(b, x, (*kept, *reduced)), (*result, count))
    step = float(np.float32(quantization[2][0])) ** count / float(np.float32(wanted[2][0]))
    factor = b.constant(np.float64(in_fifteen_bits(step ** (1 / count))))
    half, last = b.constant(np.float64(0.5)), vector(b, [len(result)])
    columns = [b(Slice, rows, vector(b, [place]), vector(b, [place + 1]), last) for place in range(count)]
    total = reduce(lambda total, each: b(Floor, b(Add, b(Mul, b(Mul, total, each), factor), half)), columns)
    steps = b(Add, b(Floor, b(Add, b(Mul, total, factor), half)), b.constant(np.float64(wanted[3][0])))
    limits = np.iinfo(wanted[0].numpy)
    inside = b(Min, b(Max, steps, b.constant(np.float64(limits.min))), b.constant(np.float64(limits.max)))
    op.is_raw = True
    if op.option("keep_dims", default=False):
        result = [1 if axis in reduced else n for axis, n in enumerate(extents)]
    return cast(b, reshaped(b, inside, result), wanted[0])


def _total(given: KernelOperands, x: Numbers) -> tuple[Numbers, int]:
    """Return sums over axes, and the number of summed elements."""
    axes = tuple(sorted({int(axis) % x.ndim for axis in given.stored(1).reshape(-1)}))
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    return x.sum(axis=axes, keepdims=bool(given.option("keep_dims", default=False))), count


@integer_kernel("MEAN")
def mean(given: KernelOperands) -> Numbers:
    """Mean over axes: the multiplier, not the sum, is divided by the count."""
    total, count = _total(given, given.centred(0))
    factor, exponent = (int(each) for each in factors(float(given.scale(0)) / float(given.step)))
    bits = min(count.bit_length() - 1, 32, 31 + exponent)
    exponent -= bits
    return given.clamped(shifted(times(total << max(exponent, 0), (factor << bits) // count), max(-exponent, 0)))


@integer_kernel("SUM", BYTES)
def add_up(given: KernelOperands) -> Numbers:
    """Sum over axes; int8 is read as uint8, and the result saturates likewise."""
    total, _ = _total(given, given.stored(0) % 256 - given.quantization(0)[3][0])
    steps = twice(total, float(given.scale(0)) / float(given.step)) + given.zero
    return np.clip(steps, 0, 255).astype(np.uint8).view(given.result[0].numpy)
