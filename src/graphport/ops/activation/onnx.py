"""Older forms of activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.activation import (
    Clip,
    Dropout,
    Elu,
    Hardmax,
    HardSigmoid,
    LeakyRelu,
    LogSoftmax,
    PRelu,
    Relu,
    Selu,
    Sigmoid,
    Softmax,
    Tanh,
)
from graphport.ops.comparison import Where
from graphport.ops.in_place import allowed_in_place
from graphport.ops.reshape import Flatten, Reshape, Shape, Unsqueeze
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


@Softmax.lower("onnx", until=12)
def softmax_12(b: Builder, input: Value, *, axis: int = 1) -> Value:
    """Softmax over all axes from `axis` on, taken together as one."""
    return _over_the_rest(b, Softmax, input, axis)


@LogSoftmax.lower("onnx", until=12)
def log_softmax_12(b: Builder, input: Value, *, axis: int = 1) -> Value:
    """LogSoftmax over all axes from `axis` on, taken together as one."""
    return _over_the_rest(b, LogSoftmax, input, axis)


@Hardmax.lower("onnx", until=12)
def hardmax_12(b: Builder, input: Value, *, axis: int = 1) -> Value:
    """Hardmax over all axes from `axis` on, taken together as one."""
    return _over_the_rest(b, Hardmax, input, axis)


def _over_the_rest(b: Builder, page: Page, input: Value, axis: int) -> Value:
    rank = len(b.dims(input))
    if rank and axis_index(axis, rank) == rank - 1:
        return b(page, input, axis=-1)
    flat = b(page, b(Flatten, input, axis=axis), axis=-1)
    return b(Reshape, flat, b(Shape, input))


for _page in (Relu, Sigmoid, Tanh, LeakyRelu, Elu, HardSigmoid):
    allowed_in_place(_page, until=5)


@Selu.lower("onnx", until=5)
def selu_1(
    b: Builder,
    x: Value,
    *,
    alpha: float = 1.6732,
    gamma: float = 1.0507,
    consumed_inputs: tuple[int, ...] | None = None,
) -> Value:
    """The constants had fewer digits."""
    del consumed_inputs
    return b(Selu, x, alpha=alpha, gamma=gamma)


@PRelu.lower("onnx", until=8)
def prelu_7(b: Builder, x: Value, slope: Value, *, consumed_inputs: tuple[int, ...] | None = None) -> Value:
    """A slope of rank 1 was one number a channel, until opset 7 let it broadcast."""
    del consumed_inputs
    rank, dims = len(b.dims(x)), b.dims(slope)
    version = b.version or 0
    if len(dims) == 1 and dims[0] != 1 and rank > 2 and version < 7:
        slope = b.reshaped(slope, (*[d for d in dims if isinstance(d, int)], *[1] * (rank - 2))) or b(
            Unsqueeze, slope, b.constant(np.arange(1, rank - 1, dtype=np.int64))
        )
    return b(PRelu, x, slope)


@Clip.lower("onnx", until=10)
def clip_6(
    b: Builder,
    input: Value,
    *,
    min: float | None = None,
    max: float | None = None,
    consumed_inputs: tuple[int, ...] | None = None,
) -> Value:
    """Bounds were attributes; an absent one stays absent."""
    del consumed_inputs
    dtype = input.fact.dtype if isinstance(input.fact, TensorFact) else None
    low, high = (None if bound is None else b.constant(bound, dtype) for bound in (min, max))
    return b(Clip, input, low, high)


@Dropout.lower("onnx", until=6)
def dropout_1(
    b: Builder,
    data: Value,
    *,
    is_test: int = 0,
    ratio: float = 0.5,
    consumed_inputs: tuple[int, ...] | None = None,
) -> tuple[Value, ...]:
    """An attribute, not an operand, told training from use; the mask had the type of the data."""
    del consumed_inputs
    trains = None if is_test else b.constant(np.array(True))
    return _dropped(b, data, ratio, trains)


@Dropout.lower("onnx", until=9)
def dropout_7(b: Builder, data: Value, *, ratio: float = 0.5) -> tuple[Value, ...]:
    """The ratio was an attribute, and the mask had the type of the data."""
    return _dropped(b, data, ratio, None)


def _dropped(b: Builder, data: Value, ratio: float, trains: Value | None) -> tuple[Value, ...]:
    share = None if trains is None else b.constant(ratio, DType.FLOAT32)
    results = b.results(Dropout, b.count, data, share, trains)
    if len(results) == 1:
        return results
    one, zero = b.like(data, 1), b.like(data, 0)
    return results[0], b(Where, results[1], one, zero)


@Dropout.lower("onnx", until=11)
def dropout_10(b: Builder, data: Value, *, ratio: float = 0.5) -> tuple[Value, ...]:
    """The ratio was an attribute, and without training of no account."""
    del ratio
    return b.results(Dropout, b.count, data)
