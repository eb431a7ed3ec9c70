"""Integers in ncnn, whose blobs are float32.

Integers up to 2^24 are exact in a blob. An integer input of the model contains integer bits, which only `Embed` reads
directly; `Dequantize` converts them to floats.
"""

from __future__ import annotations

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError

BITS = "ncnn.bits"
"""The note of a value whose blob has the bits of integers."""
MOST = "ncnn.most"
"""Note of a value whose blob has integers as floats: their maximum magnitude, 0 if unknown."""
LEAST = "ncnn.least"
"""Note of the minimum of these integers, if known."""
ROUNDED = -1
"""Value of `MOST` for unbounded integers, which float32 may round."""
LIMIT = 1 << 24
"""Largest magnitude up to which float32 represents all integers."""
NARROW = 16
"""Maximum width of integer types whose values float32 represents exactly, in bits."""
MOVING = frozenset(
    {
        *("Noop", "Reshape", "Crop", "Concat", "Slice", "Permute", "Flip", "Tile", "Squeeze", "ExpandDims", "Flatten"),
        "Split",
    }
)
"""Layers that only move elements."""


def _is_non_float(x: Value) -> bool:
    dtype = x.dtype
    return dtype is not None and not dtype.is_floating


def is_bits(x: Value) -> bool:
    """Whether the blob of a value contains the bits of integers, not floats."""
    return _is_non_float(x) and folded(x) is None and (x.is_input or (x.has_notes and BITS in x.notes))


def counted(y: Value, most: int = 0) -> Value:
    """Note on `y`, a float blob of integers, that their magnitude is at most `most`; 0 means unknown."""
    y.notes[MOST] = most
    y.notes.pop(LEAST, None)
    return y


def spanned(y: Value, low: int, high: int) -> Value:
    """Note on `y`, a float blob of integers, that they are from `low` to `high`."""
    counted(y, max(-low, high) or 1)
    y.notes[LEAST] = low
    return y


def max_magnitude(x: Value) -> int:
    """Return the maximum magnitude of the integers in `x`; 0 if unknown."""
    span = span_of(x)
    return 0 if span is None else max(-span[0], span[1]) or 1


def span_of(x: Value) -> tuple[int, int] | None:
    """Return the minimum and maximum of the integers in `x`, from its type, elements or notes; `None` if unknown."""
    dtype, storage = x.dtype, folded(x)
    if dtype is DType.BOOL:
        return 0, 1
    if storage is not None:
        numbers = storage.numpy().reshape(-1)
        return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    found = x.notes.get(MOST, 0) if x.has_notes else 0
    if not isinstance(found, int) or found <= 0:
        return range_of(dtype) if dtype is not None and dtype.is_integer and dtype.bits <= NARROW else None
    least = x.notes.get(LEAST, 0 if dtype is not None and dtype.kind == "u" else -found)
    return (least if isinstance(least, int) else -found), found


def range_of(dtype: DType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type."""
    half = 1 << (dtype.bits - 1)
    return (0, 2 * half - 1) if dtype.kind == "u" else (-half, half - 1)


def is_rounded(x: Value) -> bool:
    """Whether integers of a value may exceed the range that float32 represents exactly."""
    return span_of(x) is None and (is_bits(x) or (x.has_notes and x.notes.get(MOST) == ROUNDED))


def copy_integer_range(y: Value, *sources: Value) -> None:
    """Note on `y` the range of the integers in `sources`, the union of their ranges."""
    if sources and _is_non_float(y) and all(map(has_float_blob, sources)):
        spans = [span for x in sources if (span := span_of(x)) is not None]
        if len(spans) == len(sources):
            spanned(y, min(low for low, _ in spans), max(high for _, high in spans))
        else:
            counted(y, ROUNDED if any(map(is_rounded, sources)) else 0)


def moved(y: Value, *sources: Value) -> None:
    """Note that `y` contains elements of `sources`: integer bits if all of them do, else floats in their range."""
    if sources and all(map(is_bits, sources)):
        y.notes[BITS] = 1
    else:
        copy_integer_range(y, *sources)


def has_float_blob(x: Value) -> bool:
    """Whether the blob of a value contains floats, not integer bits."""
    return not _is_non_float(x) or x.dtype is DType.BOOL or folded(x) is not None or (x.has_notes and MOST in x.notes)


def to_float_blob(b: Builder, x: Value) -> Value:
    """Return a value whose blob has floats.

    Raises:
        UnsupportedError: it has integers that float32 may not represent.
    """
    if is_bits(x):
        refuse_rounded(b, x)
        one = storage_of(np.ones(1, np.float32), DType.FLOAT32)
        y = b.emit("Dequantize", x, facts=[x.fact], **{"0": 1, "1": 0, "@0": one})[0]
        if x.has_notes:
            y.notes.update({key: note for key, note in x.notes.items() if key != BITS})
        span = span_of(x)
        return counted(y, ROUNDED) if span is None else spanned(y, *span)
    if not has_float_blob(x):
        message = f"{x.name} is {x.fact}: ncnn blobs are numeric"
        raise UnsupportedError(message, is_secondary=has_unexported_producer(x))
    if x.has_notes and x.notes.get(MOST) == ROUNDED:
        refuse_rounded(b, x)
    return x


def has_unexported_producer(x: Value) -> bool:
    """Whether the producer of a value could not be exported: that error is reported, not those of its consumers."""
    return x.producer is not None and not x.producer.dialect


def refuse_rounded(b: Builder, x: Value) -> None:
    """Reject results with unbounded integers, which float32 rounds.

    Comparisons with constants and casts to float may use them.

    Raises:
        UnsupportedError: they are graph outputs.
    """
    results = () if b.before is None else b.before.results
    if span_of(x) is not None or not any(y.is_output and _is_integer(y) for y in results):
        return
    message = f"{x.name} is {x.fact}: its integers may exceed {LIMIT}, and float32 rounds larger integers"
    raise UnsupportedError(message, help="use a float input, or use the integers only in comparisons and casts")


def _is_integer(x: Value) -> bool:
    dtype = x.dtype
    return dtype is not None and dtype.is_integer


def bounded(what: str, *sizes: int, is_secondary: bool = False) -> int:
    """Return the sum of `sizes`, the maximum magnitudes of integers; 0 is an unknown one.

    Raises:
        UnsupportedError: one is unknown, or float32 does not represent all integers up to the sum.
    """
    if not all(sizes) or sum(sizes) >= LIMIT:
        message = f"{what} of integers may exceed {LIMIT}, the largest range that float32 blobs represent exactly"
        raise UnsupportedError(message, is_secondary=is_secondary)
    return sum(sizes)
