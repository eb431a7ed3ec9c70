"""Layers of ncnn: parameters by number, weights in loading order.

ncnn's blobs have no batch axis; the corresponding values have a first axis of length 1. Axes of a blob are counted from
the outermost one: channels, depth, height, width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.formats.pytorch.rules.binding import length
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError, lower

DIALECT = "ncnn"
_MISMATCHES = (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, StopIteration)
AXES = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}
"""The names of the axes of a blob, from the outermost in."""
NONE = -233
"""Value of an absent number."""

Answer: TypeAlias = "Value | Sequence[Value]"
C = TypeVar("C")
F = TypeVar("F", bound="Callable[[Layer], Answer]")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer during import: builder, input blobs and parameters by number."""

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
        """The number of axes of the first blob, without the batch."""
        return len(self.b.dims(self.x)) - 1

    def lengths(self, first: int = 1) -> list[int]:
        """Return the static sizes of the first blob from an axis of its value on."""
        dims = self.b.dims(self.x)
        return [length(dims, axis) for axis in range(first, len(dims))]

    def integer(self, key: int, default: int = 0) -> int:
        """Return parameter `key` as an integer."""
        return int(self._parameter(key, default))

    def float_value(self, key: int, default: float = 0.0) -> float:
        """Return parameter `key` as a float."""
        return float(self._parameter(key, default))

    def _parameter(self, key: int, default: float) -> float:
        value = self.parameters.get(str(key), default)
        if not isinstance(value, int | float):
            message = f"parameter {key} is {value!r}, expected an integer or a float"
            raise UnsupportedError(message)
        return value

    def choice(self, key: int, choices: Sequence[C] | Mapping[int, C], what: str, default: int = 0) -> C:
        """Return the member of `choices` that the enumeration parameter `key` selects; `what` is its name for messages.

        Raises:
            UnsupportedError: the number is unknown.
        """
        number = self.integer(key, default)
        found = choices if isinstance(choices, Mapping) else dict(enumerate(choices))
        if number not in found:
            message = f"unsupported {what} {number}"
            raise UnsupportedError(message)
        return found[number]

    def text(self, key: int) -> str | None:
        """Return parameter `key` if it is a string, else `None`."""
        found = self.parameters.get(str(key))
        return found if isinstance(found, str) else None

    def array(self, key: int) -> tuple[Any, ...]:
        """Return parameter `key` as a tuple; empty if it is absent."""
        value = self.parameters.get(str(key), ())
        return tuple(value) if is_sequence(value) else (value,)

    def weight(self, index: int, shape: Sequence[int]) -> Value:
        """Return weight `index` as a float32 constant of this shape.

        Raises:
            ShapeError: it is missing, or has another number of elements.
        """
        storage = self.stored(index)
        try:
            value = self.b.constant(storage.reshaped(shape))
        except ValueError as error:
            message = f"weight {index} has {storage.count} elements, expected shape {list(shape)}"
            raise ShapeError(message) from error
        return value if storage.dtype is DType.FLOAT32 else self.b(registry.op_defs()["Cast"], value, to=DType.FLOAT32)

    def stored(self, index: int) -> Storage:
        """Return weight `index` in the element type of the file.

        Raises:
            ShapeError: it is missing.
        """
        storage = self.parameters.get(f"@{index}")
        if not isinstance(storage, Storage):
            message = f"weight {index} is missing"
            raise ShapeError(message)
        return storage

    def count(self, index: int) -> int:
        """Return the number of elements of weight `index`; 0 if it is missing."""
        storage = self.parameters.get(f"@{index}")
        return storage.count if isinstance(storage, Storage) else 0

    def axis(self, axis: int) -> int:
        """Convert an axis of the first blob to an axis of its value."""
        return axis_of(self.b, axis, self.x)

    def refuse(self, *keys: int) -> None:
        """Raise `UnsupportedError` if one of the parameters `keys` is not 0."""
        emitted = [key for key in keys if self.parameters.get(str(key), 0) not in (0, 0.0)]
        if emitted:
            message = f"unsupported parameter {', '.join(map(str, emitted))}"
            raise UnsupportedError(message)


def axis_of(b: Builder, axis: int, x: Value) -> int:
    """Convert an axis of a blob to an axis of its value.

    Raises:
        ShapeError: there is no such axis.
    """
    rank = len(b.dims(x)) - 1
    if not -rank <= axis < rank:
        message = f"axis {axis} is out of range for a blob of rank {rank}"
        raise ShapeError(message)
    return axis % rank + 1


def _complete(b: Builder, answer: Answer) -> Answer:
    """Return the results of a rule after a check that all results used in the file are among them."""
    found = registry.results(answer)
    if any(b.wants(place) for place in range(len(found), b.count)):
        message = f"the layer has {b.count} output blobs, its type computes {len(found)}"
        raise ShapeError(message)
    return answer


def layer(*types: str) -> Callable[[F], F]:
    """Register the import rule of layer types."""

    def register(function: F) -> F:
        def lowered(b: Builder, *inputs: Value, **parameters: Any) -> Answer:
            try:
                return _complete(b, function(Layer(b, inputs, parameters)))
            except ShapeError:
                raise
            except _MISMATCHES as error:
                # Truncated arrays or sizes of 0: files may contain them, writers never produce them.
                message = f"inconsistent parameters: {error}"
                raise ShapeError(message) from error

        vars(lowered)["__wrapped__"] = getattr(function, "__wrapped__", function)
        for type_ in types:
            lower(DIALECT, type_)(lowered)
        return function

    return register
