"""Older forms of activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.onnx.rules.older import RULES, constant_number, unsupported
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import (
    Clip,
    Dropout,
    Hardmax,
    LogSoftmax,
    PRelu,
    Softmax,
)
from graphport.ops.definitions.arithmetic import Max, Min
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.generate import ConstantOfShape
from graphport.ops.definitions.reshape import Flatten, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef


@Softmax.lower("onnx", until=12)
def softmax_12(b: Builder, input: Value, *, axis: int = 1) -> Value:
    """Softmax-1 and -11: the axes from `axis` on are flattened."""
    return _over_the_rest(b, Softmax, input, axis)


@LogSoftmax.lower("onnx", until=12)
def log_softmax_12(b: Builder, input: Value, *, axis: int = 1) -> Value:
    """LogSoftmax-1 and -11: the axes from `axis` on are flattened."""
    return _over_the_rest(b, LogSoftmax, input, axis)


@Hardmax.lower("onnx", until=12)
def hardmax_12(b: Builder, input: Value, *, axis: int = 1) -> Value:
    """Hardmax-1 and -11: the axes from `axis` on are flattened."""
    return _over_the_rest(b, Hardmax, input, axis)


def _over_the_rest(b: Builder, op_def: OpDef, input: Value, axis: int) -> Value:
    dims = b.dims(input)
    rank = len(dims)
    long = [place for place in range(axis_index(axis, rank), rank) if dims[place] != 1] if rank else [0, 0]
    if len(long) < 2:
        place = long[0] if long else rank - 1
        return b(op_def, input, axis=-1 if place == rank - 1 else place)
    flat = b(op_def, b(Flatten, input, axis=axis), axis=-1)
    return b(Reshape, flat, b(Shape, input))


RULES.lower(
    """
# `consumed_inputs` allowed to compute in place; it never changed a result.
Relu, Sigmoid, Tanh(x, *, consumed_inputs: ignored = None) -> _(x)
LeakyRelu(x, *, alpha=0.01, consumed_inputs: ignored = None) -> LeakyRelu(x, alpha=alpha)
Elu(x, *, alpha=1.0, consumed_inputs: ignored = None) -> Elu(x, alpha=alpha)
HardSigmoid(x, *, alpha=0.2, beta=0.5, consumed_inputs: ignored = None) -> HardSigmoid(x, alpha=alpha, beta=beta)
# The constants had fewer digits.
Selu(x, *, alpha=1.6732, gamma=1.0507, consumed_inputs: ignored = None) -> Selu(x, alpha=alpha, gamma=gamma)
""",
    until=5,
)


@PRelu.lower("onnx", until=8)
def prelu_7(b: Builder, x: Value, slope: Value, *, consumed_inputs: tuple[int, ...] | None = None) -> Value:
    """PRelu-1 to -7: before opset 7, a slope of rank 1 applies to the channels."""
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
    """Clip-6: bounds are attributes."""
    del consumed_inputs
    dtype = input.dtype
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
    """Dropout-1: an attribute selects training; the mask has the type of the data."""
    del consumed_inputs
    trains = None if is_test else b.constant(np.array(True))
    return _dropped(b, data, ratio, trains)


@Dropout.lower("onnx", until=9)
def dropout_7(b: Builder, data: Value, *, ratio: float = 0.5) -> tuple[Value, ...]:
    """Dropout-7: the ratio is an attribute, and the mask has the type of the data."""
    return _dropped(b, data, ratio, None)


def _dropped(b: Builder, data: Value, ratio: float, trains: Value | None) -> tuple[Value, ...]:
    share = None if trains is None else b.constant(ratio, DType.FLOAT32)
    results = b.results(Dropout, b.count, data, share, trains)
    if len(results) == 1:
        return results
    one, zero = b.like(data, 1), b.like(data, 0)
    return results[0], b(Where, results[1], one, zero)


RULES.lower(
    """
# The ratio was an attribute, and without training of no account.
Dropout(data, *, ratio: ignored = 0.5) -> Dropout(data)
""",
    until=11,
)


def _emitted_over_the_rest(op_def: OpDef) -> None:
    @op_def.export_rule("onnx", until=12)
    def exported(b: Builder, input: Value, *, axis: int = -1) -> Value:
        dims = b.dims(input)
        rank = len(dims)
        unsupported((rank == 0, "rank 0 is not supported"))
        place = axis_index(axis, rank)
        if all(length == 1 for length in dims[place + 1 :]):
            return b.emit(op_def.name, input, facts=[input.fact], axis=place)[0]
        perm = tuple({place: rank - 1, rank - 1: place}.get(n, n) for n in range(rank))
        transposed = b(Transpose, input, perm=perm)
        return b(Transpose, b.emit(op_def.name, transposed, facts=[transposed.fact], axis=rank - 1)[0], perm=perm)


for _op_def in (Softmax, LogSoftmax, Hardmax):
    _emitted_over_the_rest(_op_def)


@Clip.export_rule("onnx", until=10)
def clip_with_attributes(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """Export Clip to attributes; bounds known only at run time become `Max` and `Min`."""
    limits = {"min": min, "max": max}
    try:
        known = {name: constant_number(value, name) for name, value in limits.items() if value is not None}
    except UnsupportedError:
        above = input if min is None else b(Max, input, min)
        return above if max is None else b(Min, above, max)
    return b.emit("Clip", input, facts=[input.fact], **known)[0]


@Dropout.export_rule("onnx", until=11)
def dropout_with_attributes(
    b: Builder,
    data: Value,
    ratio: Value | None = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> tuple[Value, ...]:
    """Export Dropout without the operand training_mode."""
    del seed
    unsupported(
        (
            training_mode is not None and constant_number(training_mode, "training_mode") != 0,
            "training mode is not supported",
        )
    )
    share = 0.5 if ratio is None else constant_number(ratio, "ratio")
    in_use = {"is_test": 1} if (b.version or 0) < 7 else {}
    stated = b.emit("Dropout", data, facts=[data.fact], ratio=share, **in_use)
    if not b.wants(1):
        return stated
    return *stated, b(ConstantOfShape, b(Shape, data), value=storage_of([True]))


RULES.export_rules(
    """
Gelu
    -> approximate == "none": Mul(Mul(x, 0.5), Add(Erf(Div(x, math.sqrt(2))), 1))
    -> Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, like(x, 3)), 0.044715)), math.sqrt(2 / math.pi))), 1))
""",
    until=19,
)
RULES.decompose("HardSwish", "Mish", "Swish")
