"""Layers of ncnn: parameters by number, weights in the order of loading.

Blobs of ncnn have no batch axis; the values that stand for them have one of length 1 in front. Axes of a blob are
counted from its outermost one: channels, depth, height, width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias, TypeVar

from graphport.core.dims import Dim, Functions, Symbolic, prefixed
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, TensorFact
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.dialects.ncnn.annotations import BATCH, batch_of
from graphport.ops.dialects.ncnn.integers import BITS, MOVING, is_bits, is_left, kept, real, refuse_rounded
from graphport.ops.dialects.torch_functions import length
from graphport.ops.folded import Computed, folded

DIALECT = "ncnn"
_MISMATCHES = (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, StopIteration)
AXES = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}
"""The names of the axes of a blob, from the outermost in."""
NONE = -233
"""What stands for a number that is not given."""

Answer: TypeAlias = "Value | Sequence[Value]"
C = TypeVar("C")
F = TypeVar("F", bound="Callable[[Layer], Answer]")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that is being lowered."""

    b: Builder
    inputs: tuple[Value, ...]
    parameters: Mapping[str, Any]

    @property
    def x(self) -> Value:
        """The first blob."""
        if not self.inputs:
            message = "the layer has no input"
            raise ShapeError(message)
        return self.inputs[0]

    @property
    def rank(self) -> int:
        """The number of axes of the first blob."""
        return len(self.b.dims(self.x)) - 1

    def lengths(self, first: int = 1) -> list[int]:
        """The lengths of the first blob from an axis of its value on, where those are known."""
        dims = self.b.dims(self.x)
        return [length(dims, axis) for axis in range(first, len(dims))]

    def integer(self, key: int, default: int = 0) -> int:
        """A parameter that is an integer."""
        return int(self._number(key, default))

    def real(self, key: int, default: float = 0.0) -> float:
        """A parameter that is a real number."""
        return float(self._number(key, default))

    def _number(self, key: int, default: float) -> float:
        value = self.parameters.get(str(key), default)
        if not isinstance(value, int | float):
            message = f"parameter {key} is {value!r}, a number is needed"
            raise UnsupportedError(message)
        return value

    def choice(self, key: int, choices: Sequence[C] | Mapping[int, C], what: str, default: int = 0) -> C:
        """What the number of a parameter stands for.

        Raises:
            UnsupportedError: nothing.
        """
        number = self.integer(key, default)
        found = choices if isinstance(choices, Mapping) else dict(enumerate(choices))
        if number not in found:
            message = f"there is no rule for the {what} {number}"
            raise UnsupportedError(message)
        return found[number]

    def text(self, key: int) -> str | None:
        """A parameter that is a text; `None` where it is none."""
        found = self.parameters.get(str(key))
        return found if isinstance(found, str) else None

    def array(self, key: int) -> tuple[Any, ...]:
        """A parameter that is an array; empty where it is not given."""
        value = self.parameters.get(str(key), ())
        return tuple(value) if is_sequence(value) else (value,)

    def weight(self, index: int, shape: Sequence[int]) -> Value:
        """A weight in a shape, as float32.

        Raises:
            ShapeError: it has another number of elements, or is missing.
        """
        storage = self.stored(index)
        try:
            value = self.b.constant(storage.reshaped(shape))
        except ValueError as error:
            message = f"weight {index} has {storage.count} elements, and {list(shape)} is needed"
            raise ShapeError(message) from error
        return value if storage.dtype is DType.FLOAT32 else self.b(registry.pages()["Cast"], value, to=DType.FLOAT32)

    def stored(self, index: int) -> Storage:
        """A weight as it is stored.

        Raises:
            ShapeError: it is missing.
        """
        storage = self.parameters.get(f"@{index}")
        if not isinstance(storage, Storage):
            message = f"weight {index} is missing"
            raise ShapeError(message)
        return storage

    def count(self, index: int) -> int:
        """How many elements a weight has."""
        storage = self.parameters.get(f"@{index}")
        return storage.count if isinstance(storage, Storage) else 0

    def axis(self, axis: int) -> int:
        """An axis of the first blob as one of the value that stands for it."""
        return axis_of(self.b, axis, self.x)

    def refuse(self, *keys: int) -> None:
        """Refuse parameters that are set and have no rule."""
        emitted = [key for key in keys if self.parameters.get(str(key), 0) not in (0, 0.0)]
        if emitted:
            message = f"there is no rule for parameter {', '.join(map(str, emitted))}"
            raise UnsupportedError(message)


def axis_of(b: Builder, axis: int, x: Value) -> int:
    """An axis of a blob as one of the value that stands for it.

    Raises:
        ShapeError: there is no such axis.
    """
    rank = len(b.dims(x)) - 1
    if not -rank <= axis < rank:
        message = f"axis {axis} is outside of a blob of {rank} axes"
        raise ShapeError(message)
    return axis % rank + 1


def _complete(b: Builder, answer: Answer) -> Answer:
    """The answer, if it has all blobs that the file reads."""
    found = registry.results(answer)
    if any(b.wants(place) for place in range(len(found), b.count)):
        message = f"the layer gives {len(found)} blobs, {b.count} are read"
        raise ShapeError(message)
    return answer


def layer(*types: str) -> Callable[[F], F]:
    """Register a function as the meaning of layers of these types."""

    def register(function: F) -> F:
        def lowered(b: Builder, *inputs: Value, **parameters: Any) -> Answer:
            try:
                return _complete(b, function(Layer(b, inputs, parameters)))
            except ShapeError:
                raise
            except _MISMATCHES as error:
                # An array that is too short, a length of 0: what a file may say, and its writers never do.
                message = f"its parameters do not go together: {error}"
                raise ShapeError(message) from error

        vars(lowered)["__wrapped__"] = getattr(function, "__wrapped__", function)
        for type_ in types:
            lower(DIALECT, type_)(lowered)
        return function

    return register


# ── on the way to ncnn ────────────────────────────────────────────────────────────────────────────────────────────────

MOST_AXES = 4
KEYS = {"w": 0, "h": 1, "d": 11, "c": 2}
"""The parameters that say lengths, or which axes are meant, by the names of axes."""


def placed(y: Value, batch: int | None) -> Value:
    """`y`, whose blob lacks the axis `batch`; there is no such axis if it is `None`."""
    if batch != 0:
        y.notes[BATCH] = -1 if batch is None else batch
    elif y.has_notes:
        y.notes.pop(BATCH, None)
    return y


def lacking(b: Builder, x: Value, axis: int) -> Value:
    """`x` as a blob that lacks `axis`, which is of length 1.

    Raises:
        UnsupportedError: it is of another length.
    """
    if batch_of(x) == axis:
        return x
    if b.dims(x)[axis] != 1:
        raise _no_item(b, x)
    return restored(b, x, x.fact, axis)


def _no_item(b: Builder, x: Value, what: str = "") -> UnsupportedError:
    """`x` has another batch than 1; where inputs of the model have, that is the cause of it."""
    message = what or f"{x.name} is {x.fact}: a blob stands for a batch of 1"
    given = [] if b.graph is None else [(each.name, each.fact) for each in b.graph.root.inputs]
    facts = {name: fact for name, fact in given if isinstance(fact, TensorFact)}
    batches = {name: str(fact) for name, fact in facts.items() if fact.shape and fact.shape[0] != 1}
    if not batches or is_left(x):
        return UnsupportedError(message, is_secondary=is_left(x))
    name, fact = next(iter(batches.items()))
    more = f", and {len(batches) - 1} inputs more are so" if len(batches) > 1 else ""
    cause = f"a blob is one item of a batch, and the input {name} is {fact}{more}"
    return UnsupportedError(message, cause=cause, help="--batch 1 writes the model of one item")


def laid(b: Builder, x: Value) -> list[Dim]:
    """The lengths of the blob of a value, wherever its batch is; those that are open are expressions.

    A number, and a batch of nothing else, is a blob of one element.

    Raises:
        UnsupportedError: the batch is not of length 1, or there are more than four.
    """
    dims, batch = b.dims(x), batch_of(x)
    if batch is not None and dims and (len(dims) <= batch or (isinstance(dims[batch], int) and dims[batch] != 1)):
        raise _no_item(b, x)
    rest = [dim for axis, dim in enumerate(dims) if axis != batch]
    if not rest and x.is_input:
        message = f"the input {x.name} is {x.fact}: ncnn is given arrays of an axis at least behind the batch"
        raise UnsupportedError(message, help="give it an axis more")
    if len(rest) > MOST_AXES:
        raise _too_many(x)
    return rest or [1]


def _too_many(x: Value) -> UnsupportedError:
    return UnsupportedError(f"{x.name} is {x.fact}: a blob has four axes at most, without one of length 1")


def lengths_of(b: Builder, x: Value) -> list[Dim]:
    """The lengths of a blob, without the batch, which is in front.

    Raises:
        UnsupportedError: it is not, or not of length 1, or there are more than four.
    """
    if batch_of(x) != 0 or not b.dims(x):
        raise _no_item(b, x, f"{x.name} is {x.fact}: its first axis is not a batch of 1")
    return laid(b, x)


def known(x: Value, lengths: Sequence[Dim]) -> list[int]:
    """The lengths of the blob of `x`, where a layer has them as numbers.

    Raises:
        UnsupportedError: one is open.
    """
    numbers = [dim for dim in lengths if isinstance(dim, int)]
    if len(numbers) < len(lengths):
        raise _open_lengths(f"{x.name} is {x.fact}")
    return numbers


def _open_lengths(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what}: a layer has its lengths as numbers", cause="a layer has lengths that are open")


def numbers_of(value: Value) -> Storage:
    """A constant as float32.

    Raises:
        UnsupportedError: it is no constant.
    """
    storage = folded(value)
    if storage is None:
        message = f"{value.name} is computed, and a layer has its weights in the file"
        raise UnsupportedError(message)
    if storage.dtype is DType.FLOAT32:
        return storage
    return Computed(lambda array: array, (storage,), DType.FLOAT32, storage.shape)


def rearranged(value: Value, function: Callable[..., Any], shape: Sequence[int]) -> Storage:
    """A constant as float32, in another layout."""
    return Computed(function, (numbers_of(value),), DType.FLOAT32, tuple(shape))


def refuse_constants(*blobs: Value) -> None:
    """Leave what is computed from constants alone to its readers: they have it as numbers.

    Raises:
        UnsupportedError: there are blobs, and all of them are constants.
    """
    if blobs and all(folded(each) is not None for each in blobs):
        message = f"{blobs[0].name} is a constant"
        raise UnsupportedError(message, is_secondary=True)


def emitted(b: Builder, type_: str, *blobs: Value, fact: Fact | None = None, **parameters: Any) -> Value:
    """The first result of a layer; `p3` is parameter 3 and `w0` the first weight, what is `None` is not said.

    Without a fact of its own it is laid out as the first blob is.
    """
    named = {
        (f"@{key[1:]}" if key[0] == "w" else key[1:]): value for key, value in parameters.items() if value is not None
    }
    refuse_constants(*blobs)
    blobs = tuple(each if folded(each) is None else remembered(b, each) for each in blobs)
    moves = type_ in MOVING and all(is_bits(each) for each in blobs)
    if not moves and type_ not in ("Embed", "Dequantize", "Requantize"):
        blobs = tuple(real(b, each) for each in blobs)
    for each in blobs:
        laid(b, each)
    if any(isinstance(n, Symbolic) for value in named.values() for n in (value if is_sequence(value) else (value,))):
        raise _open_lengths(f"a layer {type_}")
    if any(isinstance(n, float) and not isfinite(n) for n in named.values()):
        message = f"a layer {type_} with a parameter that is not finite, which the text of ncnn has no word for"
        raise UnsupportedError(message)
    own = fact if fact is not None else blobs[0].fact if blobs else UNKNOWN
    if fact is None and type_ not in MOVING and isinstance(own, TensorFact):
        # What layers compute is real; what they compute of integers is not always one.
        own = TensorFact(DType.FLOAT32, own.shape)
    y = b.word(type_, *blobs, facts=[own], **named)[0]
    if moves:
        refuse_rounded(b, blobs[0])
        y.notes[BITS] = 1
    elif type_ in MOVING:
        kept(y, *blobs)
    return placed(y, batch_of(blobs[0])) if blobs and fact is None else y


def shaped(lengths: Sequence[int]) -> dict[str, int]:
    """Parameters that say the lengths of a blob."""
    return {f"p{KEYS[name]}": length for name, length in zip(AXES[len(lengths)], lengths, strict=True)}


def reshaped(b: Builder, x: Value, lengths: Sequence[Dim]) -> Value:
    """A blob in another shape; lengths that are open are computed from those of blobs."""
    lengths = lengths or [1]
    if len(lengths) > MOST_AXES:
        message = f"{len(lengths)} axes, a blob has one to four"
        raise UnsupportedError(message)
    fact = TensorFact(x.dtype, (1, *lengths))
    numbers = [n for n in lengths if isinstance(n, int)]
    if len(numbers) == len(lengths):
        return emitted(b, "Reshape", x, fact=fact, **shaped(numbers))
    if len(numbers) == len(lengths) - 1:
        # One that is not told takes what is left.
        numbers = [n if isinstance(n, int) else -1 for n in lengths]
        return emitted(b, "Reshape", x, fact=fact, **shaped(numbers))
    text, blobs = computed(b, lengths[::-1], x)
    return emitted(b, "Reshape", *blobs, fact=fact, p6=text)


_FUNCTIONS = Functions("+", "-", "*", "//", "max", "min")
_MOST_BLOBS = 10
"""Blobs that a text of lengths can name: by one digit."""


def computed(b: Builder, numbers: Sequence[Dim], *near: Value) -> tuple[str, list[Value]]:
    """A text that computes numbers of the lengths of blobs, `"*(0h,2),0w"`, and the blobs: `near`, and inputs.

    Raises:
        UnsupportedError: a number is no such expression.
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
    """The elements of a blob as those of a value of a shape, whose blob lacks the axis `batch`."""
    dims = fact.dims if isinstance(fact, TensorFact) else UNKNOWN.dims
    found = reshaped(b, y, [dim for axis, dim in enumerate(dims) if axis != batch])
    found.fact = fact
    return placed(found, batch)


def joining(b: Builder, *operands: Value) -> tuple[list[Value], int | None]:
    """The blobs of values of which each is stretched to the shape of all, and the axis of the result they lack."""
    refuse_constants(*operands)
    rank = max(len(b.dims(x)) for x in operands) or 1
    computed = [x for x in operands if folded(x) is None]
    wanted = [None if (own := batch_of(x)) is None else own + rank - len(b.dims(x)) for x in computed]
    padded = {x: [1] * (rank - len(b.dims(x))) + list(b.dims(x)) for x in operands}

    def is_common(batch: int | None) -> bool:
        return batch is None or (0 <= batch < rank and all(own[batch] == 1 for own in padded.values()))

    batch = next((batch for batch in [0, *wanted, None] if is_common(batch)), None)
    return [stretched(b, x, padded[x], batch) for x in operands], batch


def beside(b: Builder, axis: int, *operands: Value) -> tuple[list[Value], int | None]:
    """The blobs of values that are joined along `axis`, and the axis that they lack."""
    refuse_constants(*operands)
    batches = [batch_of(x) for x in operands if folded(x) is None] or [0]
    dims = [b.dims(x) for x in operands]
    common = [n for n in [0, *batches] if n is not None and n != axis and all(own[n] == 1 for own in dims)]
    batch = common[0] if common else None
    return [stretched(b, x, b.dims(x), batch) for x in operands], batch


def stretched(b: Builder, x: Value, dims: Sequence[object], batch: int | None) -> Value:
    """The blob of `x` as that of a value of the shape `dims`, without the axis `batch`."""
    storage = folded(x)
    if storage is not None:
        return _memory(b, x, storage, len(dims), batch)
    lengths = laid(b, x)
    own = [dim for axis, dim in enumerate(dims) if axis != batch] or [1]
    target = [dim for dim in own if isinstance(dim, int | Symbolic)]
    if len(target) < len(own):
        message = f"{x.name} is {x.fact}: its batch is not that of the other operand"
        raise UnsupportedError(message)
    return x if target == lengths else reshaped(b, x, target)


def settled(b: Builder, y: Value, batch: int | None) -> Value:
    """`y`, whose blob lacks the axis `batch`; where its first axis is of length 1, that one is the batch again."""
    dims = b.dims(y)
    if batch == 0 or not dims or dims[0] != 1:
        return placed(y, batch)
    lengths = [dim for axis, dim in enumerate(dims) if axis != batch]
    rest = list(dims[1:])
    return y if lengths == rest else reshaped(b, y, rest)


def remembered(b: Builder, x: Value) -> Value:
    """A constant as a blob; one whose first axis is of length 1 has its batch there.

    Raises:
        UnsupportedError: a blob cannot have its shape.
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
    """A layer that has the numbers of `x`, a value of `rank` axes, without the axis `batch`."""
    shape = [1] * (rank - len(storage.shape)) + list(storage.shape)
    lengths = [n for axis, n in enumerate(shape) if axis != batch] or [1]
    if len(lengths) > MOST_AXES:
        raise _too_many(x)
    if len(shape) != rank or (batch is not None and shape and shape[batch] != 1):
        raise _no_item(b, x)
    fact = TensorFact(DType.FLOAT32, (1, *lengths))
    return emitted(b, "MemoryData", fact=fact, **shaped(lengths), w0=numbers_of(x))


def blob_axis(axis: int, rank: int, batch: int | None = 0) -> int:
    """An axis of a value as one of its blob, which lacks the axis `batch`.

    Raises:
        UnsupportedError: it is that of the batch.
    """
    found = axis % rank if rank else batch
    if found is None or found == batch:
        message = "it works along the batch, which a blob does not have"
        raise UnsupportedError(message)
    return found - (batch is not None and found > batch)
