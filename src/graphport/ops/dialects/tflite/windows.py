"""Windows over images whose channels are last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.declare import ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ops.dialects.tflite.fixed_point import Numbers
    from graphport.ops.dialects.tflite.integer_kernels import Given


def patches(given: Given, x: Numbers, kernel: Sequence[int]) -> Numbers:
    """What a window sees at each place: [batch, rows, columns, channels, rows of the window, its columns]."""
    strides = [int(given.option(f"stride_{axis}", 1)) for axis in "hw"]
    gaps = [int(given.option(f"dilation_{axis}_factor", 1)) or 1 for axis in "hw"]
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    if given.option("padding") == 0:
        more = [max(0, (-(-n // s) - 1) * s + r - n) for n, s, r in zip(x.shape[1:3], strides, reach, strict=True)]
        x = np.pad(x, ((0, 0), *((m // 2, m - m // 2) for m in more), (0, 0)))
    if any(n < r for n, r in zip(x.shape[1:3], reach, strict=True)):
        message = f"a window of {reach} is larger than the {list(x.shape[1:3])} that it slides over"
        raise ShapeError(message)
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(1, 2))  # type: ignore[call-overload]
    return seen[:, :: strides[0], :: strides[1], :, :: gaps[0], :: gaps[1]]
