"""Layers of ncnn: parameters by number, weights in the order of loading.

Blobs of ncnn have no batch axis; the values that stand for them have one of length 1 in front. Axes of a blob are
counted from its outermost one: channels, depth, height, width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, TensorFact
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.folded import Computed, folded

DIALECT = "ncnn"
_MISMATCHES = (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError)
NONE = -233
"""What stands for a number that is not given."""

Answer: TypeAlias = "Value | Sequence[Value]"
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

    def integer(self, key: int, default: int = 0) -> int:
        """A parameter that is an integer."""
        value = self.parameters.get(str(key), default)
        if not isinstance(value, int | float):
            message = f"parameter {key} is {value!r}, a number is needed"
            raise UnsupportedError(message)
        return int(value)

    def real(self, key: int, default: float = 0.0) -> float:
        """A parameter that is a real number."""
        value = self.parameters.get(str(key), default)
        if not isinstance(value, int | float):
            message = f"parameter {key} is {value!r}, a number is needed"
            raise UnsupportedError(message)
        return float(value)

    def array(self, key: int) -> tuple[Any, ...]:
        """A parameter that is an array; empty where it is not given."""
        value = self.parameters.get(str(key), ())
        return tuple(value) if is_sequence(value) else (value,)

    def weight(self, index: int, shape: Sequence[int]) -> Value:
        """A weight in a shape, as float32.

        Raises:
            ShapeError: it has another number of elements, or is missing.
        """
        storage = self.parameters.get(f"@{index}")
        if not isinstance(storage, Storage):
            message = f"weight {index} is missing"
            raise ShapeError(message)
        try:
            value = self.b.constant(storage.reshaped(shape))
        except ValueError as error:
            message = f"weight {index} has {storage.count} elements, and {list(shape)} is needed"
            raise ShapeError(message) from error
        return value if storage.dtype is DType.FLOAT32 else self.b(registry.pages()["Cast"], value, to=DType.FLOAT32)

    def count(self, index: int) -> int:
        """How many elements a weight has."""
        storage = self.parameters.get(f"@{index}")
        return storage.count if isinstance(storage, Storage) else 0

    def axis(self, axis: int) -> int:
        """An axis of the first blob as one of the value that stands for it."""
        rank = self.rank
        if not -rank <= axis < rank:
            message = f"axis {axis} is outside of a blob of {rank} axes"
            raise ShapeError(message)
        return axis % rank + 1

    def refuse(self, *keys: int) -> None:
        """Refuse parameters that are set and have no rule."""
        said = [key for key in keys if self.parameters.get(str(key), 0) not in (0, 0.0)]
        if said:
            message = f"there is no rule for parameter {', '.join(map(str, said))}"
            raise UnsupportedError(message)


def layer(*types: str) -> Callable[[F], F]:
    """Register a function as the meaning of layers of these types."""

    def register(function: F) -> F:
        def lowered(b: Builder, *inputs: Value, **parameters: Any) -> Answer:
            try:
                return function(Layer(b, inputs, parameters))
            except ShapeError:
                raise
            except _MISMATCHES as error:
                # An array that is too short, a length of 0: what a file may say, and its writers never do.
                message = f"its parameters do not go together: {error}"
                raise ShapeError(message) from error

        for type_ in types:
            lower(DIALECT, type_)(lowered)
        return function

    return register


# ── on the way to ncnn ────────────────────────────────────────────────────────────────────────────────────────────────

MOST_AXES = 4
_KEYS = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}
"""The parameters that say lengths, for each axis from the outermost in."""


def lengths_of(b: Builder, x: Value) -> list[int]:
    """The lengths of a blob, without the batch.

    Raises:
        UnsupportedError: the batch is not of length 1, a length is not known, or there are more than four.
    """
    dims = b.dims(x)
    numbers = [dim for dim in dims[1:] if isinstance(dim, int)]
    if not dims or (isinstance(dims[0], int) and dims[0] != 1):
        message = f"{x.name} is {x.fact}: a blob stands for a batch of 1"
        raise UnsupportedError(message)
    if len(numbers) < len(dims) - 1 or not 1 <= len(numbers) <= MOST_AXES:
        message = f"{x.name} is {x.fact}: a blob has one to four axes of known length behind the batch"
        raise UnsupportedError(message)
    return numbers


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


def said(b: Builder, type_: str, *blobs: Value, fact: Fact | None = None, **parameters: Any) -> Value:
    """The first result of a layer; `p3` is parameter 3 and `w0` the first weight, what is `None` is not said."""
    named = {
        (f"@{key[1:]}" if key[0] == "w" else key[1:]): value for key, value in parameters.items() if value is not None
    }
    for each in blobs:
        dims = b.dims(each)
        if not dims or (isinstance(dims[0], int) and dims[0] != 1):
            message = f"{each.name} is {each.fact}: a blob stands for a batch of 1"
            raise UnsupportedError(message)
    own = fact if fact is not None else blobs[0].fact if blobs else UNKNOWN
    return b.word(type_, *blobs, facts=[own], **named)[0]


def shaped(lengths: Sequence[int]) -> dict[str, int]:
    """Parameters that say the lengths of a blob."""
    return {f"p{key}": length for key, length in zip(_KEYS[len(lengths)], lengths, strict=True)}


def reshaped(b: Builder, x: Value, lengths: Sequence[int]) -> Value:
    """A blob in another shape."""
    if not 1 <= len(lengths) <= MOST_AXES:
        message = f"{len(lengths)} axes, a blob has one to four"
        raise UnsupportedError(message)
    fact = TensorFact(x.fact.dtype if isinstance(x.fact, TensorFact) else None, (1, *lengths))
    return said(b, "Reshape", x, fact=fact, **shaped(lengths))


def blob(b: Builder, x: Value, rank: int) -> Value:
    """`x` with `rank` axes behind the batch, aligned at the last one; a constant becomes a layer that has it."""
    storage = folded(x)
    if storage is None:
        lengths = lengths_of(b, x)
        missing = rank - len(lengths)
        return reshaped(b, x, [1] * missing + lengths) if missing > 0 else x
    shape = [1] * (rank + 1 - len(storage.shape)) + list(storage.shape)
    if not 1 <= rank <= MOST_AXES or len(shape) != rank + 1 or shape[0] != 1:
        message = f"{x.name} is {x.fact}: a blob stands for a batch of 1"
        raise UnsupportedError(message)
    fact = TensorFact(DType.FLOAT32, tuple(shape))
    return said(b, "MemoryData", fact=fact, **shaped(shape[1:]), w0=numbers_of(x))


def blob_axis(axis: int, rank: int) -> int:
    """An axis of a value as one of its blob.

    Raises:
        UnsupportedError: it is that of the batch.
    """
    found = axis % rank - 1 if rank else -1
    if found < 0:
        message = "it works along the batch, which a blob does not have"
        raise UnsupportedError(message)
    return found
