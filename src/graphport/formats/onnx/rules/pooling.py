"""Older forms of poolings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.pooling import GlobalLpPool, LpPool

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@GlobalLpPool.lower("onnx", until=1)
def global_lp_pool_1(b: Builder, x: Value, *, p: float = 2.0) -> Value:
    """GlobalLpPool-1: the exponent is a float."""
    return b(GlobalLpPool, x, p=whole_exponent(p))


@LpPool.lower("onnx", until=1)
def lp_pool_1(
    b: Builder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: tuple[int, ...] | None = None,
    p: float = 2.0,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Value:
    """LpPool-1: the exponent is a float, and the kernel may be missing."""
    if kernel_shape is None:
        message = "kernel_shape is missing"
        raise ShapeError(message, "set the window size of each spatial axis")
    exponent = whole_exponent(p)
    return b(LpPool, x, auto_pad=auto_pad, kernel_shape=kernel_shape, p=exponent, pads=pads, strides=strides)


def whole_exponent(p: float) -> int:
    """Convert the exponent of an old version to an integer.

    Raises:
        UnsupportedError: it is no whole number.
    """
    if p % 1 != 0:  # also of NaN and infinity
        message = f"the exponent {p} is not an integer"
        raise UnsupportedError(message)
    return int(p)
