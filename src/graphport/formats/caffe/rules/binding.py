"""Registration of Caffe layers: operands, attributes, and import rules.

The operands of a layer node are its bottoms and then its blobs (weights); the attribute `bottoms` is the number of
bottoms if there are blobs. Other attributes are the fields of the layer type's parameter messages that the file sets.
Defaults are in the signature of the import rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.sequences import is_sequence
from graphport.ir.graph import Value
from graphport.ops.constant_folding import MAX_COMPUTED_BYTES
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ops.builder import Builder

DIALECT = "caffe"
BOTTOMS = "bottoms"
"""Attribute with the number of operands that are bottoms."""


@dataclass(frozen=True, slots=True)
class LayerType:
    """A layer type and the parameter messages that contain its attributes."""

    name: str
    parameters: tuple[str, ...]


LAYERS: dict[str, LayerType] = {}
"""Layer types by name; `@layer` registers them when the rule modules are imported."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer during import: builder, bottoms and blobs."""

    b: Builder
    bottoms: tuple[Value, ...]
    blobs: tuple[Value, ...]

    @property
    def x(self) -> Value:
        """The first bottom."""
        return self.bottom(0)

    def bottom(self, index: int) -> Value:
        """Return bottom `index`.

        Raises:
            ShapeError: the layer has fewer bottoms.
        """
        if index >= len(self.bottoms):
            message = f"{len(self.bottoms)} bottoms, expected at least {index + 1}"
            raise ShapeError(message)
        return self.bottoms[index]

    @property
    def tops(self) -> int:
        """Number of results."""
        return self.b.count

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Return the shape of a bottom; raises `Unknown` if the rank is unknown."""
        return self.b.dims(self.bottom(index))

    def axis(self, axis: int, index: int = 0) -> int:
        """Normalize `axis` of a bottom.

        Raises:
            ShapeError: the axis is out of range.
        """
        return checked_axis(axis, len(self.dims(index)))

    def blob(self, index: int, shape: Sequence[Dim], what: str = "weights") -> Value:
        """Return blob `index` in `shape`; without data in the file, a constant without elements.

        Raises:
            ShapeError: the blob is missing, or has another number of elements.
        """
        if not self.blobs:
            return self._absent(shape, what)
        if index >= len(self.blobs):
            message = f"{len(self.blobs)} weight blobs, but the {what} is blob {index + 1}"
            raise ShapeError(message, "pass the weights of this network")
        value = self.blobs[index]
        dims = self.b.dims(value)
        if len(dims) == len(shape) and all(decide_equal(a, n) is not False for a, n in zip(dims, shape, strict=True)):
            return value
        wanted = [n for n in shape if isinstance(n, int)]
        counted = [n for n in dims if isinstance(n, int)]
        if len(wanted) == len(shape) and prod(wanted) == prod(counted) and len(counted) == len(dims):
            reshaped = self.b.reshaped(value, wanted)
            return self._absent(shape, what) if reshaped is None else reshaped
        message = f"the {what} have shape {list(dims)}, expected {list(shape)}"
        raise ShapeError(message, "pass the weights of this network, or correct the layer parameters")

    def _absent(self, shape: Sequence[Dim], what: str) -> Value:
        fact = TensorFact(DType.FLOAT32, tuple(shape))
        owner = self.b.before.name if self.b.before is not None else ""
        name = f"{owner or self.b.stem}.{what}"
        return Value(name, fact) if self.b.graph is None else self.b.graph.add_constant(name, fact)

    def blob_elements(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the elements of a small blob, flat; `None` if the file has none."""
        storage = self.blobs[index].storage if index < len(self.blobs) else None
        return None if storage is None else storage.numpy().reshape(-1)

    def bounded(self, count: int) -> int:
        """Return `count` after a check against the element budget.

        Raises:
            OverBudgetError: the count exceeds the budget.
        """
        return reserve(count)

    def integers(self, *blob_elements: int) -> Value:
        """Create an int64 constant of rank 1."""
        return self.b.constant(np.array(blob_elements, np.int64))

    def float_scalar(self, number: float) -> Value:
        """Create a float constant of rank 0."""
        with np.errstate(over="ignore"):
            return self.b.constant(np.float32(number))


_FLAT = ("Shaped", "tuple[int, ...]", "tuple[float, ...]")
"""Annotations of parameters that are lists of numbers."""
_SINGLE = frozenset(f"{kind}{rest}" for kind in ("int", "float", "bool", "str") for rest in ("", " | None"))
"""Annotations of scalar parameters."""


def layer(
    type: str, *parameters: str, bottoms: int | None = 1, stated: Any = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the import rule of layers of `type`.

    Args:
        type: in the spelling of the files.
        *parameters: layer fields whose messages contain the attributes.
        bottoms: required number; `None` for any.
        stated: dataclass of further attributes, passed together.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if type in LAYERS:
            message = f"the layer {type} has a lowering already"
            raise ValueError(message)
        LAYERS[type] = LayerType(type, parameters)
        keywords = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        required = [p.name for p in keywords if p.default is p.empty]
        flat = [p.name for p in keywords if p.annotation in _FLAT]
        more = [] if stated is None else fields(stated)
        known = [p.name for p in keywords] + [field.name for field in more]
        single = [p.name for p in keywords if p.annotation in _SINGLE]
        single += [field.name for field in more if field.type in _SINGLE]

        @wraps(function)
        def lowered(b: Builder, *given: Value | None, **attributes: Any) -> Any:
            operands = tuple(operand for operand in given if operand is not None)
            count = attributes.pop(BOTTOMS, len(operands))
            unknown = [name for name in attributes if name not in known]
            if unknown:
                message = f"{type}: unsupported parameter {', '.join(unknown)}"
                raise UnsupportedError(message)
            if len(operands) < len(given):
                message = "missing bottom or weight blob"
                raise ShapeError(message)
            lists = [name for name in single if is_sequence(attributes.get(name))]
            if lists:
                message = f"{lists[0]} is a list"
                raise ShapeError(message, "write a single value")
            nested = [name for name in flat if any(map(is_sequence, attributes.get(name, ())))]
            if nested:
                message = f"{nested[0]} is a list of lists"
                raise ShapeError(message)
            missing = [name for name in required if name not in attributes]
            if missing:
                message = f"missing {' and '.join(missing)}"
                raise ShapeError(message)
            if bottoms is not None and count != bottoms:
                message = f"{count} bottoms, expected {bottoms}"
                raise ShapeError(message)
            answer = function(Layer(b, operands[:count], operands[count:]), **attributes)
            results = len(answer) if is_sequence(answer) else 1
            if results < b.count:
                message = f"{b.count} tops, but the layer computes {results}"
                raise ShapeError(message)
            return answer

        lower(DIALECT, type)(lowered)
        return function

    return register


def checked_axis(axis: int, rank: int) -> int:
    """Normalize a possibly negative axis.

    Raises:
        ShapeError: the axis is out of range.
    """
    if not -rank <= axis < rank:
        message = f"axis {axis} is out of range for a blob of rank {rank}"
        raise ShapeError(message, f"use an axis from {-rank} to {rank - 1}")
    return axis % rank


def aligned(b: Builder, value: Value, axis: int, rank: int) -> Value:
    """Append axes of length 1 to `value`, so that its first axis is aligned to `axis` of `rank`.

    Raises:
        ShapeError: it has too many axes.
    """
    dims = b.dims(value)
    behind = rank - axis - len(dims)
    if behind < 0:
        message = f"{len(dims)} axes from axis {axis} exceed the rank {rank}"
        raise ShapeError(message)
    if not behind or not dims:
        return value
    whole = [dim for dim in dims if isinstance(dim, int)]
    constant = b.reshaped(value, [*whole, *[1] * behind]) if len(whole) == len(dims) else None
    return constant or b(Unsqueeze, value, b.constant(np.arange(len(dims), len(dims) + behind, dtype=np.int64)))


def in_caffe(
    b: Builder,
    type: str,
    *bottoms: Value,
    blobs: Sequence[Value] = (),
    facts: Sequence[Fact] | None = None,
    **attributes: Any,
) -> tuple[Value, ...]:
    """Emit a layer and return its results; attributes that are `None` are omitted.

    The last emitted layer needs no facts: it gets those of the operator.

    Raises:
        UnsupportedError: a blob is not float32, or a weight is not constant.
    """
    for value in (*bottoms, *blobs):
        dtype = value.dtype
        if dtype is not DType.FLOAT32:
            message = f"Caffe supports only float32 blobs, but {value.name} is {value.fact}"
            raise UnsupportedError(message)
    if any(not blob.is_constant for blob in blobs):
        message = "weights that are not constant"
        raise UnsupportedError(message)
    given = {name: attribute for name, attribute in attributes.items() if attribute is not None}
    if blobs:
        given[BOTTOMS] = len(bottoms)
    return b.emit(type, *bottoms, *blobs, facts=(UNKNOWN,) * b.count if facts is None else facts, **given)


def reshaped_in_caffe(b: Builder, x: Value, fact: Fact | None = None) -> tuple[Value, ...]:
    """Reshape `x` to the shape of `fact`, by default the operator's result.

    0 copies a dim, -1 is inferred.

    Raises:
        UnsupportedError: several dims are dynamic.
    """
    fact = b.outcome if fact is None else fact
    own, wanted = b.dims(x), fact.dims if isinstance(fact, TensorFact) else UNKNOWN.dims
    shape: list[int] = []
    for index, dim in enumerate(wanted):
        if isinstance(dim, int):
            shape.append(dim)
        else:
            shape.append(0 if index < len(own) and decide_equal(own[index], dim) is True else -1)
    if shape.count(-1) > 1 or 0 in [dim for dim in wanted if isinstance(dim, int)]:
        message = f"the shape {list(wanted)} depends on unknown dims"
        raise UnsupportedError(message)
    return in_caffe(b, "Reshape", x, facts=[fact], shape=tuple(shape))


def small_numbers(value: Value | None) -> np.ndarray[Any, Any] | None:
    """Return the elements of a small constant, else `None`."""
    if value is None or value.storage is None or not value.is_constant or value.storage.nbytes > MAX_COMPUTED_BYTES:
        return None
    return value.storage.numpy()
