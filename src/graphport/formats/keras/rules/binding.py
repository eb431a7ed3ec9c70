"""Layers of Keras: the operands and options of an import rule, and the table of layers that the reader uses.

A node has its inputs and weights as operands; the attribute `operands` names the role of each one (`x`, `kernel`,
`mask`). Its other attributes are the options of the layer's configuration, and `compute_dtype`, the compute type of
its dtype policy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

DIALECT = "keras"
OPERANDS = "operands"
"""The attribute that names the roles of the operands."""
COMPUTE_TYPE = "compute_dtype"
"""The attribute that has the compute type of the layer's dtype policy."""
X = "x"
"""The role of the inputs of a layer that has no other name for them."""

DTYPES: Mapping[str, DType] = MappingProxyType(
    {
        "bool": DType.BOOL,
        "uint8": DType.UINT8,
        "uint16": DType.UINT16,
        "uint32": DType.UINT32,
        "uint64": DType.UINT64,
        "int8": DType.INT8,
        "int16": DType.INT16,
        "int32": DType.INT32,
        "int64": DType.INT64,
        "bfloat16": DType.BFLOAT16,
        "float16": DType.FLOAT16,
        "float32": DType.FLOAT32,
        "float64": DType.FLOAT64,
    }
)
"""Element types by the names that Keras has for them."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight of a layer: its role, the option that it needs, and whether it is trained."""

    role: str
    option: str = ""
    is_trainable: bool = True

    @property
    def folder(self) -> str:
        """The part of the layer that owns it: `cell` of `cell/kernel`; empty for the layer itself."""
        return self.role.rpartition("/")[0]


def _one_result(options: Mapping[str, Any]) -> int:
    """The number of results of most layers."""
    del options
    return 1


@dataclass(frozen=True, slots=True)
class LayerType:
    """A class of layers: the data that the reader needs to create a node."""

    name: str
    options: Mapping[str, Any]
    """Options of the configuration by name, with their defaults."""
    weights: tuple[Weight, ...] = ()
    call: tuple[str, ...] = (X,)
    """Parameters of the method `call`: roles of operands, or names of options."""
    mask: str = "drop"
    """Mask of the result: `keep` that of the input, `drop`, or another name in `container.masks`."""
    takes_mask: bool = False
    """Whether the masks of its inputs are operands."""
    count: Callable[[Mapping[str, Any]], int] = _one_result
    """Number of results, from the options."""


LAYERS: dict[str, LayerType] = {}
"""Filled by `layer` while the modules of rules are imported."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that is being lowered."""

    b: Builder
    operands: Mapping[str, Sequence[Value]]
    dtype: DType

    @property
    def x(self) -> Value:
        """The first input."""
        return self.need(X)

    @property
    def inputs(self) -> Sequence[Value]:
        """All inputs."""
        return self.operands.get(X, ())

    def get(self, role: str) -> Value | None:
        """The operand of a role; `None` if it is absent."""
        found = self.operands.get(role)
        return found[0] if found else None

    def need(self, role: str) -> Value:
        """The operand of a role.

        Raises:
            ShapeError: it is absent.
        """
        found = self.get(role)
        if found is None:
            message = f"missing operand {role!r}"
            raise ShapeError(message, f"operands: {', '.join(self.operands) or 'none'}")
        return found

    def dims(self, role: str = X) -> tuple[Dim, ...]:
        """The shape of an operand; raises `Unknown` where its rank is not known."""
        return self.b.dims(self.need(role))

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        return len(self.dims())

    def axis(self, axis: int) -> int:
        """An axis of the first input, counted from 0."""
        return checked_axis(axis, self.rank)


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from 0.

    Raises:
        ShapeError: the axis is out of range.
    """
    if not -rank <= axis < rank:
        message = f"axis {axis} is out of range for rank {rank}"
        raise ShapeError(message, f"from {-rank} to {rank - 1}")
    return axis % rank


def layer(
    *names: str,
    weights: str = "",
    call: str = X,
    mask: str = "drop",
    takes_mask: bool = False,
    autocast: bool = True,
    count: Callable[[Mapping[str, Any]], int] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the import rule of layers; its keyword-only parameters are the options of their configuration.

    Args:
        names: classes of layers.
        weights: roles in the order of creation: `gamma:scale` needs the option `scale`, `~moving_mean` is not trained.
        call: parameters of the method `call` in order: roles of operands, or options.
        mask: the mask of the result, see `LayerType`.
        takes_mask: whether masks of inputs are passed as operands `mask`.
        autocast: whether floats among the operands are cast to the compute type, as Keras does before `call`.
        count: the number of results.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(function).parameters.values()
        options = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}

        @wraps(function)
        def lowered(b: Builder, /, *given: Value | None, operands: Sequence[str] = (), **attributes: Any) -> Any:
            dtype = DTYPES[attributes.pop(COMPUTE_TYPE, "float32")]
            unknown = [name for name in attributes if name not in options]
            if unknown:
                message = f"unknown option {unknown[0]!r}"
                raise UnsupportedError(message)
            bound: dict[str, list[Value]] = {}
            for role, value in zip(operands, given, strict=True):
                if value is not None:
                    bound.setdefault(role, []).append(_autocast(b, value, dtype) if autocast else value)
            answer = function(Layer(b, bound, dtype), **attributes)
            return answer if is_sequence(answer) else [answer]

        for name in names:
            lower(DIALECT, name)(lowered)
            known = LayerType(name, options, read_weights(weights), tuple(call.split()), mask, takes_mask)
            LAYERS[name] = known if count is None else _counted(known, count)
        return function

    return register


def _counted(known: LayerType, count: Callable[[Mapping[str, Any]], int]) -> LayerType:
    return LayerType(known.name, known.options, known.weights, known.call, known.mask, known.takes_mask, count)


def read_weights(text: str) -> tuple[Weight, ...]:
    """Weights in the notation of `layer`."""
    found: list[Weight] = []
    for word in text.split():
        role, _, option = word.removeprefix("~").partition(":")
        found.append(Weight(role, option, not word.startswith("~")))
    return tuple(found)


def _autocast(b: Builder, value: Value, dtype: DType) -> Value:
    """Cast a float to the compute type; other types are unchanged."""
    own = value.dtype
    return cast(b, value, dtype) if own is not None and own.is_floating and own is not dtype else value


def in_compute_type(at: Layer, value: Value) -> Value:
    """A value in the compute type of the layer."""
    return value if dtype_of(value) is at.dtype else cast(at.b, value, at.dtype)


def pair(value: Any, rank: int, name: str = "an option") -> tuple[int, ...]:
    """An integer for each spatial dim; a single integer applies to all dims.

    Raises:
        ShapeError: there are as many as other than `rank`, or one is no integer.
    """
    found = (value,) * rank if isinstance(value, int) else tuple(value) if is_sequence(value) else ()
    if len(found) != rank or not all(isinstance(each, int) for each in found):
        message = f"{name} is {value!r}, expected {rank} integers"
        raise ShapeError(message)
    return found
