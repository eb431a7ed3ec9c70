"""Products of matrices of integers, as LiteRT's reference kernels round them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.dialects.tflite.integer_kernels import SIGNED, Given, integers

if TYPE_CHECKING:
    from graphport.ops.dialects.tflite.fixed_point import Numbers


@integers("FULLY_CONNECTED", SIGNED)
def fully_connected(given: Given) -> Numbers:
    """Sums over columns, rounded once."""
    x, w = given.centred(0), given.stored(1) - np.asarray(given.quantization(1)[3], np.int64).reshape(-1, 1)
    keeps = bool(given.option("keep_num_dims", default=False))
    shape = (*x.shape[:-1], w.shape[0]) if keeps else (-1, w.shape[0])
    sums = np.rint(x.reshape(-1, w.shape[1]).astype(np.float64) @ w.T.astype(np.float64)).astype(np.int64)
    if given.has(2):
        sums = sums + given.stored(2)
    return given.clamped(given.of_sums(sums, given.factor(0, 1), 2, is_long=True)).reshape(shape)


@integers("BATCH_MATMUL", SIGNED, numbers=(0, 1))
def batch_matmul(given: Given) -> Numbers:
    """Sums over the inner axis."""
    operands: list[Numbers] = []
    for index, name in enumerate(("adj_x", "adj_y")):
        x = given.centred(index).astype(np.float64)
        operands.append(np.swapaxes(x, -1, -2) if given.option(name, default=False) else x)
    sums = np.rint(np.matmul(*operands)).astype(np.int64)
    return given.clamped(given.of_sums(sums, given.factor(0, 1), 2))
