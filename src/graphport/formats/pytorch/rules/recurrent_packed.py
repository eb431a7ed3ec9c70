"""Packed sequences of PyTorch: the valid elements of a padded batch [time, batch, …] in time-major order.

Batch entries are sorted by descending length, and `batch_sizes` [time] is the number of entries at each time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.functions.recurrent import GRU_KIND, LSTM_KIND, function, rnn_kind
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths as lengths_of
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Max, Sub
from graphport.ops.definitions.comparison import Less
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather, GatherND, NonZero, ScatterND, Slice
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.operands import transposed, vector
from graphport.ops.pattern import constant_numbers


def _count_up(b: Builder, count: Value) -> Value:
    """Return the integers from 0 to `count` - 1."""
    return b(Range, b.constant(0, DType.INT64), b(Reshape, count, vector(b, [])), b.constant(1, DType.INT64))


def _swap_batch(b: Builder, x: Value, batch_first: Any) -> Value:
    return transposed(b, x, [1, 0, *range(2, len(b.dims(x)))]) if scalar_of(batch_first) else x


def _indices(b: Builder, mask: Value) -> Value:
    """Return the indices [elements, 2] of a mask [time, batch], in time-major order."""
    return b(Transpose, b(NonZero, mask), perm=(1, 0))


def _valid_elements(b: Builder, batch_sizes: Value, batch: Value) -> Value:
    """Return whether an entry has an element, [time, batch]."""
    return b(Less, b(Unsqueeze, _count_up(b, batch), vector(b, [0])), b(Unsqueeze, batch_sizes, vector(b, [1])))


def _pad(b: Builder, data: Value, mask: Value, padding: float) -> Value:
    """Return the padded batch [time, batch, …]."""
    shape = b(Concat, b(Shape, mask), b(Shape, data, start=1), axis=0)
    return b(ScatterND, b(Expand, b.like(data, padding), shape), _indices(b, mask), data)


def _lengths(b: Builder, mask: Value) -> Value:
    return b(ReduceSum, cast(b, mask, DType.INT64), vector(b, [0]), keepdims=0)


@aten("aten._pack_padded_sequence")
def pack(b: Builder, input: Value, lengths: Value, batch_first: Any) -> tuple[Value, Value]:
    """_pack_padded_sequence: the packed elements, and the batch sizes."""
    x, counts = _swap_batch(b, input, batch_first), cast(b, lengths, DType.INT64)
    steps = b(ReduceMax, counts, vector(b, [0]))
    mask = b(Less, b(Unsqueeze, _count_up(b, steps), vector(b, [1])), b(Unsqueeze, counts, vector(b, [0])))
    x = b(Slice, x, vector(b, [0]), steps, vector(b, [0]))
    sizes = b(ReduceSum, cast(b, mask, DType.INT64), vector(b, [1]), keepdims=0)
    return b(GatherND, x, _indices(b, mask)), sizes


@aten("aten._pad_packed_sequence")
def unpack(
    b: Builder, data: Value, batch_sizes: Value, batch_first: Any, padding_value: Any, total_length: Any
) -> tuple[Value, Value]:
    """_pad_packed_sequence: the padded batch, of `total_length` steps if it is positive, and the lengths."""
    sizes = cast(b, batch_sizes, DType.INT64)
    first = b(Gather, sizes, vector(b, [0]))
    total = lengths_of(b, [total_length])
    if constant_numbers(total) is None or scalar_of(total_length) > 0:
        missing = b(Max, b(Sub, total, b(Shape, sizes)), vector(b, [0]))
        sizes = b(Concat, sizes, b(Expand, b.constant(0, DType.INT64), missing), axis=0)
    mask = _valid_elements(b, sizes, first)
    padded = _pad(b, data, mask, float(scalar_of(padding_value)))
    return _swap_batch(b, padded, batch_first), _lengths(b, mask)


def _layers(
    kind: Any, b: Builder, data: Value, batch_sizes: Value, hx: Any, params: Any, **options: Any
) -> tuple[Value, ...]:
    """Recurrent layers over packed sequences; `options` are those of `function`."""
    state = hx[0] if isinstance(hx, tuple | list) else hx
    mask = _valid_elements(b, cast(b, batch_sizes, DType.INT64), b(Shape, state, start=1, end=2))
    lengths = cast(b, _lengths(b, mask), DType.INT32)
    y, *finals = function(kind, b, _pad(b, data, mask, 0.0), hx, params, **options, lengths=lengths)
    return b(GatherND, y, _indices(b, mask)), *finals


for _op_type, _kind in (
    ("aten.lstm.data", LSTM_KIND),
    ("aten.gru.data", GRU_KIND),
    ("aten.rnn_tanh.data", rnn_kind("Tanh")),
    ("aten.rnn_relu.data", rnn_kind("Relu")),
):
    aten(_op_type)(partial(_layers, _kind))
