"""Normalizations in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.nnef.rules.normalization import named
from graphport.formats.nnef.rules.tract.binding import DIALECT, axis_of, import_rule
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.views.normalization import LRNView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@import_rule("tract_core_rms_norm", "tract_transformers_rms_norm")
def rms_norm(b: Builder, input: Value, *, axis: int, eps: float = 1e-6) -> Value:
    """RMS normalization: x / sqrt(mean(x²) + eps) over one axis."""
    place = axis_of(axis, len(b.dims(input)))
    emit = OpBuilder(b)
    squares = emit("ReduceMean", emit("Mul", input, input), [place], keepdims=1)
    return emit("Div", input, emit("Sqrt", emit("Add", squares, eps)))


@import_rule("tract_core_scaled_rms_norm")
def scaled_rms_norm(b: Builder, input: Value, scale: Value, *, axis: int, eps: float = 1e-6) -> Value:
    """RMS normalization, multiplied by `scale`, which starts at the axis."""
    rank = len(b.dims(input))
    place = axis_of(axis, rank)
    emit = OpBuilder(b)
    behind = rank - place - len(b.dims(scale))
    if behind > 0:
        ends = np.arange(len(b.dims(scale)), len(b.dims(scale)) + behind)
        scale = emit("Unsqueeze", scale, b.constant(ends.astype(np.int64)))
    return emit("Mul", rms_norm(b, input, axis=place, eps=eps), scale)


@import_rule("tract_onnx_lrn")
def lrn(b: Builder, input: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Value:
    """Local response normalization over channels (ONNX LRN)."""
    return OpBuilder(b)("LRN", input, alpha=alpha, beta=beta, bias=bias, size=size)


def _spatial(size: Shaped) -> Shaped:
    return (1, 1, *size[2:]) if len(size) > 2 else size


@import_rule("local_response_normalization")
def local_response(
    b: Builder, input: Value, *, size: Shaped, alpha: float = 1.0, beta: float = 0.5, bias: float = 1.0
) -> Value:
    """Local response normalization; tract's windows have size 1 over batch and channels."""
    return named.local_response_normalization(b, input, size=_spatial(size), alpha=alpha, beta=beta, bias=bias)


@import_rule("local_mean_normalization")
def local_mean(b: Builder, input: Value, *, size: Shaped) -> Value:
    """Local mean normalization; tract's windows have size 1 over batch and channels."""
    return named.local_mean_normalization(b, input, size=_spatial(size))


@import_rule("local_variance_normalization")
def local_variance(b: Builder, input: Value, *, size: Shaped, bias: float = 0.0, epsilon: float = 0.0) -> Value:
    """Local variance normalization; tract's windows have size 1 over batch and channels."""
    return named.local_variance_normalization(b, input, size=_spatial(size), bias=bias, epsilon=epsilon)


@import_rule("local_contrast_normalization")
def local_contrast(b: Builder, input: Value, *, size: Shaped, bias: float = 0.0, epsilon: float = 0.0) -> Value:
    """Local contrast normalization; tract's windows have size 1 over batch and channels."""
    return named.local_contrast_normalization(b, input, size=_spatial(size), bias=bias, epsilon=epsilon)


@import_rule("tract_extra_exp_unit_norm")
def exp_unit_norm(
    b: Builder,
    input: Value,
    state: Value,
    *,
    axis: int,
    alpha: float,
    skip: int = 0,
    stateless: bool = False,
    complex: bool = False,
    epsilon: float = 1e-14,
) -> Value:
    """Divide by the square root of the exponential moving average of magnitudes."""
    return _running(b, input, state, axis, alpha, skip, "unit", complex=complex, epsilon=epsilon)


@import_rule("tract_extra_exp_mean_norm")
def exp_mean_norm(
    b: Builder,
    input: Value,
    state: Value,
    *,
    axis: int,
    alpha: float,
    skip: int = 0,
    stateless: bool = False,
    scaling_factor: float = 1.0,
) -> Value:
    """Subtract the exponential moving average, then divide by `scaling_factor`."""
    return _running(b, input, state, axis, alpha, skip, "mean", factor=scaling_factor)


def _running(
    b: Builder,
    input: Value,
    state: Value,
    axis: int,
    alpha: float,
    skip: int,
    kind: str,
    *,
    complex: bool = False,
    epsilon: float = 0.0,
    factor: float = 1.0,
) -> Value:
    """Normalize by an exponential moving average along an axis of static length, element by element."""
    from graphport.ops.declare import UnsupportedError

    dims = b.dims(input)
    place = axis_of(axis, len(dims))
    length = dims[place]
    if not isinstance(length, int) or length > 4096 or skip:
        message = (
            f"a running mean over {length} elements that skips {skip}; at most 4096 without skipping are supported"
        )
        raise UnsupportedError(message)
    emit = OpBuilder(b)
    found: list[Value] = []
    for step in range(length):
        x = emit("Gather", input, b.constant(np.array(step, np.int64)), axis=place)
        size = x
        if kind == "unit":
            size = emit("Abs", x) if not complex else _size(b, x)
            size = emit("Max", size, epsilon) if epsilon else size
        state = emit("Add", emit("Mul", size, 1 - alpha), emit("Mul", state, alpha))
        if kind == "mean":
            y = emit("Div", emit("Sub", x, state), factor)
        else:
            root = emit("Sqrt", state)
            y = emit("Div", x, emit("Unsqueeze", root, [-1]) if complex else root)
        found.append(emit("Unsqueeze", y, [place]))
    return emit("Concat", *found, axis=place)


def _size(b: Builder, x: Value) -> Value:
    """Absolute value of complex numbers, stored as pairs on the last axis."""
    emit = OpBuilder(b)
    return emit("Sqrt", emit("ReduceSum", emit("Mul", x, x), [-1], keepdims=0))


@LRNView.export_rule(DIALECT)
def export_lrn(b: Builder, op: LRNView) -> Any:
    return b.emit("tract_onnx_lrn", op.x, alpha=op.alpha, beta=op.beta, bias=op.bias, size=op.size)
