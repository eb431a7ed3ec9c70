"""Shared parts of export rules of ncnn: layers, blobs without batch axis, and lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from graphport.core.dims import Dim, Functions, Symbolic, prefixed
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, TensorFact
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.formats.ncnn.rules.annotations import BATCH, batch_of
from graphport.formats.ncnn.rules.binding import AXES
from graphport.formats.ncnn.rules.integers import (
    BITS,
    MOVING,
    copy_integer_range,
    has_unexported_producer,
    is_bits,
    refuse_rounded,
    to_float_blob,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed, folded
from graphport.ops.declare import UnsupportedError

MOST_AXES = 4
KEYS = {"w": 0, "h": 1, "d": 11, "c": 2}
"""Parameter numbers of sizes or axes by axis name."""


def placed(y: Value, batch: int | None) -> Value:
    """Return `y` with the note that its blob lacks axis `batch`; `None` if the blob has all axes."""
    if batch != 0:
        y.notes[BATCH] = -1 if batch is None else batch
    elif y.has_notes:
        y.notes.pop(BATCH, None)
    return y


def lacking(b: Builder, x: Value, axis: int) -> Value:
    """Return `x` as a blob without `axis`.

    Raises:
        UnsupportedError: the axis is not of length 1.
    """
    if batch_of(x) == axis:
        return x
    if b.dims(x)[axis] != 1:
        raise _batch_error(b, x)
    return restored(b, x, x.fact, axis)


def _batch_error(b: Builder, x: Value, what: str = "") -> UnsupportedError:
    """Return the error for a batch other than 1, naming the graph inputs that cause it."""
    message = what or f"{x.name} is {x.fact}: an ncnn blob represents a batch of size 1"
    given = [] if b.graph is None else [(each.name, each.fact) for each in b.graph.root.inputs]
    facts = {name: fact for name, fact in given if isinstance(fact, TensorFact)}
    batches = {name: str(fact) for name, fact in facts.items() if fact.shape and fact.shape[0] != 1}
    if not batches or has_unexported_producer(x):
        return UnsupportedError(message, is_secondary=has_unexported_producer(x))
    name, fact = next(iter(batches.items()))
    more = f", as are {len(batches) - 1} further inputs" if len(batches) > 1 else ""
    cause = f"an ncnn blob is one sample of a batch, but the input {name} is {fact}{more}"
    return UnsupportedError(message, cause=cause, help="set the batch size to 1: --batch 1")


def blob_dims(b: Builder, x: Value) -> list[Dim]:
    """Return the blob sizes of a value, wherever its batch axis is; open sizes are expressions.

    A scalar or a batch-only value is a blob of one element.

    Raises:
        UnsupportedError: the batch is not 1, or the rank exceeds four.
    """
    dims, batch = b.dims(x), batch_of(x)
    if batch is not None and dims and (len(dims) <= batch or (isinstance(dims[batch], int) and dims[batch] != 1)):
        raise _batch_error(b, x)
    rest = [dim for axis, dim in enumerate(dims) if axis != batch]
    if not rest and x.is_input:
        message = f"the input {x.name} is {x.fact}: an ncnn input has at least one axis besides the batch"
        raise UnsupportedError(message, help="add an axis to the input")
    if len(rest) > MOST_AXES:
        raise _too_many(x)
    return rest or [1]


def _too_many(x: Value) -> UnsupportedError:
    return UnsupportedError(f"{x.name} is {x.fact}: an ncnn blob has at most four axes besides the batch")


def lengths_of(b: Builder, x: Value) -> list[Dim]:
    """Return the blob sizes of a value whose axis 0 is the batch.

    Raises:
        UnsupportedError: axis 0 is not a batch of 1, or more than four axes remain.
    """
    if batch_of(x) != 0 or not b.dims(x):
        raise _batch_error(b, x, f"{x.name} is {x.fact}: its first axis is not a batch of 1")
    return blob_dims(b, x)


def static_sizes(x: Value, lengths: Sequence[Dim]) -> list[int]:
    """Return the static blob sizes of `x`, for layer parameters.

    Raises:
        UnsupportedError: one is open.
    """
    numbers = [dim for dim in lengths if isinstance(dim, int)]
    if len(numbers) < len(lengths):
        raise _open_lengths(f"{x.name} is {x.fact}")
    return numbers


def _open_lengths(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what}: ncnn requires constant sizes", cause="ncnn requires constant sizes")


def constant_float32(value: Value) -> Storage:
    """Return the elements of a constant as float32.

    Raises:
        UnsupportedError: the value is not constant.
    """
    storage = folded(value)
    if storage is None:
        message = f"{value.name} is not constant; ncnn requires constant weights"
        raise UnsupportedError(message)
    if storage.dtype is DType.FLOAT32:
        return storage
    return Computed(lambda array: array, (storage,), DType.FLOAT32, storage.shape)


def rearranged(value: Value, function: Callable[..., Any], shape: Sequence[int]) -> Storage:
    """Return a constant as float32, transformed by `function` to `shape`."""
    return Computed(function, (constant_float32(value),), DType.FLOAT32, tuple(shape))


def refuse_constants(*blobs: Value) -> None:
    """Refuse to emit a layer on constants only: the consumer folds them.

    Raises:
        UnsupportedError: all blobs are constants.
    """
    if blobs and all(folded(each) is not None for each in blobs):
        message = f"{blobs[0].name} is constant; the layer requires a computed blob"
        raise UnsupportedError(message, is_secondary=True)


def emitted(b: Builder, type_: str, *blobs: Value, fact: Fact | None = None, **parameters: Any) -> Value:
    """Emit a layer and return its first result; `p3` is parameter 3, `w0` the first weight, `None` omits a parameter.

    Without `fact`, the result has the shape of the first blob.
    """
    named = {
        (f"@{key[1:]}" if key[0] == "w" else key[1:]): value for key, value in parameters.items() if value is not None
    }
    refuse_constants(*blobs)
    blobs = tuple(each if folded(each) is None else remembered(b, each) for each in blobs)
    moves = type_ in MOVING and all(is_bits(each) for each in blobs)
    if not moves and type_ not in ("Embed", "Dequantize", "Requantize"):
        blobs = tuple(to_float_blob(b, each) for each in blobs)
    for each in blobs:
        blob_dims(b, each)
    if any(isinstance(n, Symbolic) for value in named.values() for n in (value if is_sequence(value) else (value,))):
        raise _open_lengths(f"layer type {type_}")
    if any(isinstance(n, float) and not isfinite(n) for n in named.values()):
        message = f"a parameter of {type_} is infinite or NaN; .param files cannot represent that"
        raise UnsupportedError(message)
    own = fact if fact is not None else blobs[0].fact if blobs else UNKNOWN
    if fact is None and type_ not in MOVING and isinstance(own, TensorFact):
        # Layers compute floats; results for integers are not always integers.
        own = TensorFact(DType.FLOAT32, own.shape)
    y = b.emit(type_, *blobs, facts=[own], **named)[0]
    if moves:
        refuse_rounded(b, blobs[0])
        y.notes[BITS] = 1
    elif type_ in MOVING:
        copy_integer_range(y, *blobs)
    return placed(y, batch_of(blobs[0])) if blobs and fact is None else y


def shaped(lengths: Sequence[int]) -> dict[str, int]:
    """Return the parameters for the sizes of a blob: width, height, depth and channels."""
    return {f"p{KEYS[name]}": length for name, length in zip(AXES[len(lengths)], lengths, strict=True)}


def reshaped(b: Builder, x: Value, lengths: Sequence[Dim]) -> Value:
    """Reshape a blob; open sizes are computed from those of blobs."""
    lengths = lengths or [1]
    if len(lengths) > MOST_AXES:
        message = f"rank {len(lengths)}: an ncnn blob has one to four axes"
        raise UnsupportedError(message)
    fact = TensorFact(x.dtype, (1, *lengths))
    numbers = [n for n in lengths if isinstance(n, int)]
    if len(numbers) == len(lengths):
        return emitted(b, "Reshape", x, fact=fact, **shaped(numbers))
    if len(numbers) == len(lengths) - 1:
        # A single unknown size is -1 (inferred).
        numbers = [n if isinstance(n, int) else -1 for n in lengths]
        return emitted(b, "Reshape", x, fact=fact, **shaped(numbers))
    text, blobs = computed(b, lengths[::-1], x)
    return emitted(b, "Reshape", *blobs, fact=fact, p6=text)


_FUNCTIONS = Functions("+", "-", "*", "//", "max", "min")
_MOST_BLOBS = 10
"""Blobs that a text of lengths can name: by one digit."""


def computed(b: Builder, numbers: Sequence[Dim], *near: Value) -> tuple[str, list[Value]]:
    """Return dims as a size expression such as `"*(0h,2),0w"`, and the blobs that it refers to: `near` and inputs.

    Raises:
        UnsupportedError: a dim is not an expression of these blobs' sizes.
    """
    inputs = [] if b.graph is None else list(b.graph.root.inputs)[:_MOST_BLOBS]
    blobs = list(near)

    def length(dim: Symbolic) -> str | None:
        for value in dict.fromkeys([*near, *inputs]):
            dims, batch = value.shape, batch_of(value)
            axis = dims.index(dim) if dims is not None and dim in dims else batch
            if dims is None or axis is None or axis == batch or len(dims) - (batch is not None) not in AXES:
                continue
            if value not in blobs:
                blobs.append(value)
            names = AXES[len(dims) - (batch is not None)]
            return f"{blobs.index(value)}{names[axis - (batch is not None and axis > batch)]}"
        return None

    texts = [prefixed(number, _FUNCTIONS, length) for number in numbers]
    found = [text for text in texts if text is not None]
    if len(found) < len(texts) or len(blobs) > _MOST_BLOBS:
        raise _open_lengths(", ".join(map(str, numbers)))
    return f'"{",".join(found)}"', blobs


def restored(b: Builder, y: Value, fact: Fact, batch: int | None) -> Value:
    """Reshape a blob to that of a value with `fact` whose blob lacks the axis `batch`."""
    dims = fact.dims if isinstance(fact, TensorFact) else UNKNOWN.dims
    found = reshaped(b, y, [dim for axis, dim in enumerate(dims) if axis != batch])
    found.fact = fact
    return placed(found, batch)


def joining(b: Builder, *operands: Value) -> tuple[list[Value], int | None]:
    """Return blobs of equal rank for broadcasting, and the axis of the result that they lack (`None` if none)."""
    refuse_constants(*operands)
    rank = max(len(b.dims(x)) for x in operands) or 1
    computed = [x for x in operands if folded(x) is None]
    wanted = [None if (own := batch_of(x)) is None else own + rank - len(b.dims(x)) for x in computed]
    padded = {x: [1] * (rank - len(b.dims(x))) + list(b.dims(x)) for x in operands}

    def is_common(batch: int | None) -> bool:
        return batch is None or (0 <= batch < rank and all(own[batch] == 1 for own in padded.values()))

    batch = next((batch for batch in [0, *wanted, None] if is_common(batch)), None)
    return [stretched(b, x, padded[x], batch) for x in operands], batch


def align_for_concat(b: Builder, axis: int, *operands: Value) -> tuple[list[Value], int | None]:
    """Return the blobs of values to concatenate along `axis`, and the common axis of length 1 that they lack."""
    refuse_constants(*operands)
    batches = [batch_of(x) for x in operands if folded(x) is None] or [0]
    dims = [b.dims(x) for x in operands]
    common = [n for n in [0, *batches] if n is not None and n != axis and all(own[n] == 1 for own in dims)]
    batch = common[0] if common else None
    return [stretched(b, x, b.dims(x), batch) for x in operands], batch


def stretched(b: Builder, x: Value, dims: Sequence[object], batch: int | None) -> Value:
    """Return `x` as the blob of a value with shape `dims` that lacks the axis `batch`."""
    storage = folded(x)
    if storage is not None:
        return _memory(b, x, storage, len(dims), batch)
    lengths = blob_dims(b, x)
    own = [dim for axis, dim in enumerate(dims) if axis != batch] or [1]
    target = [dim for dim in own if isinstance(dim, int | Symbolic)]
    if len(target) < len(own):
        message = f"{x.name} is {x.fact}: the batch axes of the operands differ"
        raise UnsupportedError(message)
    return x if target == lengths else reshaped(b, x, target)


def restore_leading_batch(b: Builder, y: Value, batch: int | None) -> Value:
    """Return `y`, whose blob lacks the axis `batch`, as a blob without axis 0 if that axis has length 1."""
    dims = b.dims(y)
    if batch == 0 or not dims or dims[0] != 1:
        return placed(y, batch)
    lengths = [dim for axis, dim in enumerate(dims) if axis != batch]
    rest = list(dims[1:])
    return y if lengths == rest else reshaped(b, y, rest)


def remembered(b: Builder, x: Value) -> Value:
    """Return a constant as the result of a MemoryData layer; an axis 0 of length 1 is the batch.

    Raises:
        UnsupportedError: the constant has more axes than a blob.
    """
    storage, dims = folded(x), b.dims(x)
    if storage is None:
        return x
    batch = 0 if dims[:1] == (1,) else None
    y = _memory(b, x, storage, len(dims), batch)
    y.fact = TensorFact(DType.FLOAT32, dims)
    if batch is None:
        y.notes[BATCH] = -1
    return y


def _memory(b: Builder, x: Value, storage: Storage, rank: int, batch: int | None) -> Value:
    """Emit a MemoryData layer with the constant `x`, expanded to `rank` axes, without the axis `batch`."""
    shape = [1] * (rank - len(storage.shape)) + list(storage.shape)
    lengths = [n for axis, n in enumerate(shape) if axis != batch] or [1]
    if len(lengths) > MOST_AXES:
        raise _too_many(x)
    if len(shape) != rank or (batch is not None and shape and shape[batch] != 1):
        raise _batch_error(b, x)
    fact = TensorFact(DType.FLOAT32, (1, *lengths))
    return emitted(b, "MemoryData", fact=fact, **shaped(lengths), w0=constant_float32(x))


def blob_axis(axis: int, rank: int, batch: int | None = 0) -> int:
    """Convert an axis of a value to an axis of its blob, which lacks the axis `batch`.

    Raises:
        UnsupportedError: `axis` is the batch axis.
    """
    found = axis % rank if rank else batch
    if found is None or found == batch:
        message = "the operator works along the batch axis, which an ncnn blob does not have"
        raise UnsupportedError(message)
    return found - (batch is not None and found > batch)
