"""Bind operands and attributes of PNNX nodes to the parameters of import rules by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite, isnan
from types import MappingProxyType
from typing import Any, TypeAlias

from graphport.core.budget import reserve
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, TensorFact, Unknown
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import MAX_COMPUTED_BYTES, folded
from graphport.ops.declare import FALLBACKS, ShapeError, UnsupportedError, lower
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.pattern import constant_numbers

Function: TypeAlias = Callable[..., Any]
Scalar: TypeAlias = bool | int | float
Tensor: TypeAlias = Value | Scalar

DIALECT = "pnnx"
KEYS = "$"
"""Attribute with the names of the operands."""

QDQ = "pt2.qdq"
"""Note of a graph whose quantization is written as operators of `quantized_decomposed`."""

COMPLEX = "complex:"
"""Prefix of op types with complex operands or results, and the attribute that marks the operands."""

DTYPES: Mapping[str, DType] = MappingProxyType(
    {
        "torch.float": DType.FLOAT32,
        "torch.float32": DType.FLOAT32,
        "torch.double": DType.FLOAT64,
        "torch.float64": DType.FLOAT64,
        "torch.half": DType.FLOAT16,
        "torch.float16": DType.FLOAT16,
        "torch.bfloat16": DType.BFLOAT16,
        "torch.float8_e4m3fn": DType.FLOAT8E4M3FN,
        "torch.float8_e4m3fnuz": DType.FLOAT8E4M3FNUZ,
        "torch.float8_e5m2": DType.FLOAT8E5M2,
        "torch.float8_e5m2fnuz": DType.FLOAT8E5M2FNUZ,
        "torch.float8_e8m0fnu": DType.FLOAT8E8M0,
        "torch.uint8": DType.UINT8,
        "torch.uint16": DType.UINT16,
        "torch.uint32": DType.UINT32,
        "torch.uint64": DType.UINT64,
        "torch.int8": DType.INT8,
        "torch.short": DType.INT16,
        "torch.int16": DType.INT16,
        "torch.int": DType.INT32,
        "torch.int32": DType.INT32,
        "torch.long": DType.INT64,
        "torch.int64": DType.INT64,
        "torch.bool": DType.BOOL,
        "torch.complex64": DType.COMPLEX64,
        "torch.complex128": DType.COMPLEX128,
    }
)
"""Element types by PNNX's names."""

_CODES = (
    *("torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.float16", "torch.float32"),
    *("torch.float64", None, "torch.complex64", "torch.complex128", "torch.bool", None, None, None, "torch.bfloat16"),
)
"""Names of element types by ScalarType code, which functions that pnnx did not convert have as arguments."""

PLACE, ITEM = "#", "*"
"""Operand names: `#2` is the third operand, `name*` an item of the list argument `name`."""

EXPORTED = "pytorch"
"""The dialect of exported programs."""
LEFT = "aten::"
"""Prefix of ATen functions that pnnx did not convert; their operands are unnamed."""

_MODULE = "nn."
_MODULES = (_MODULE, "torchvision.ops.DeformConv2d")
_FLAGS = ("bias",)
_LAYOUT = "layout"
_FAR = 2**63
_MISMATCHES = (
    *(TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, AttributeError),
    StopIteration,
)
_ALIASES = MappingProxyType({"self": "input", "x": "input"})

_BY_INDEX = frozenset(("gather", "take_along_dim"))
"""Functions whose result has the rank of the index operand."""
_AS_VECTORS = _BY_INDEX | frozenset(
    (
        *("argmax", "argmin", "max", "min", "median", "nanmedian", "mode", "kthvalue", "quantile", "nanquantile"),
        *("var", "std", "var_mean", "std_mean", "nansum", "nanmean", "logcumsumexp", "cummax", "cummin"),
        *("softmax", "log_softmax", "softmin", "sort", "argsort", "topk", "msort", "flip", "roll", "prelu"),
        *("transpose", "swapdims", "swapaxes", "cosine_similarity", "index_select", "index_add", "index_copy"),
        *("index_fill", "index_reduce", "scatter", "scatter_add", "scatter_reduce"),
    )
)
"""Functions that treat a tensor of rank 0 as a vector of one element."""
_TENSORS = ("input", "self", "x", "x1", "x2")
_INDICES = ("index", "indices")
_UPDATES = ("src", "source")


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Parameters of a function after the builder."""

    names: tuple[str, ...]
    defaults: Mapping[str, Any]
    is_variadic: bool
    takes_weights: bool


@dataclass(frozen=True, slots=True)
class _Bound:
    """An import rule that binds a node's operands and attributes to the parameters of a function."""

    op_type: str
    function: Function
    ignores: frozenset[str]

    @property
    def __wrapped__(self) -> Function:
        return self.function

    @property
    def parameters(self) -> _Parameters:
        """Return the parameters of the function."""
        return _parameters(self.function)

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        given, rest = self._operands(operands, attributes.pop(KEYS, ()))
        weights = {key[1:].replace(".", "_"): attributes.pop(key) for key in list(attributes) if key.startswith("@")}
        for name, value in attributes.items():
            own = self._name(name)
            if own.startswith(PLACE) and _LAYOUT in self.ignores:
                # The memory layout of a created tensor does not affect its elements.
                continue
            if own not in self.ignores and not self._is_flag(own, value):
                given[own] = value
        for name, storage in weights.items():
            if not isinstance(storage, Storage):
                raise Unknown
            given[name] = b.constant(storage)
        rest = self._without_shared(b, rest, given)
        if self.parameters.is_variadic:
            return self._call(b, rest, given)
        free = iter([name for name in self.parameters.names if name not in given])
        for operand in rest:
            name = next(free, None)
            if name is None:
                message = f"{self.op_type} has no overload with {len(operands)} operands"
                raise UnsupportedError(message)
            given[name] = operand
        return self._call(b, [], given)

    def _complete(self, b: Builder, answer: Any) -> Any:
        """Return the results if their count covers the node's results."""
        found = registry.results(answer)
        if any(b.wants(place) for place in range(len(found), b.count)):
            message = f"{self.op_type} has {len(found)} results, but {b.count} are used"
            raise ShapeError(message)
        return answer

    def _operands(
        self, operands: Sequence[Value | None], keys: Sequence[str]
    ) -> tuple[dict[str, Any], list[Value | None]]:
        """Return operands by name, and unnamed ones; a name with `*` is one item of a list."""
        given: dict[str, Any] = {}
        rest: list[Value | None] = []
        # Trailing absent operands are not stored in the node.
        padded = [*operands, *[None] * (len(keys) - len(operands))]
        for index, operand in enumerate(padded):
            key = keys[index] if index < len(keys) else ""
            if not key or self.parameters.is_variadic:
                rest.append(operand)
            elif key.endswith(ITEM):
                name = self._name(key.removesuffix(ITEM))
                given[name] = (*given.get(name, ()), operand)
            else:
                given[self._name(key)] = operand
        return given, rest

    def _without_shared(self, b: Builder, rest: list[Value | None], given: Mapping[str, Any]) -> list[Value | None]:
        """Drop the operand that repeats a module's weight; pnnx writes weights shared by modules as operands, too."""
        weight = given.get("weight")
        if not self.op_type.startswith(_MODULE) or len(rest) != 2 or not isinstance(weight, Value):
            return rest
        kept = [x for x in rest if x is None or not x.is_constant or b.dims(x) != b.dims(weight)]
        return kept if len(kept) == 1 else rest

    def _name(self, key: str) -> str:
        """Return the parameter with a name or index (`#2`)."""
        if key.startswith(PLACE) and key[1:].isdecimal():
            # The operands of a variadic function are one list.
            place = int(key[1:]) - self.parameters.is_variadic
            return self.parameters.names[place] if 0 <= place < len(self.parameters.names) else key
        return key if key in self.parameters.names else _ALIASES.get(key, key)

    def _is_flag(self, name: str, value: object) -> bool:
        """Whether an argument only declares that a weight exists."""
        return isinstance(value, bool) and self.op_type.startswith(_MODULES) and name in _FLAGS

    def _call(self, b: Builder, rest: Sequence[Value | None], given: dict[str, Any]) -> Any:
        unknown = [name for name in given if name not in self.parameters.names]
        if unknown and not self.parameters.takes_weights:
            message = f"{self.op_type}: unsupported argument {', '.join(unknown)}"
            raise UnsupportedError(message)
        missing = [name for name in self.parameters.names if name not in given and name not in self.parameters.defaults]
        if missing:
            message = f"{self.op_type}: missing argument {', '.join(missing)}"
            raise ShapeError(message)
        try:
            return self._complete(b, self._called(b, rest, given))
        except ShapeError:
            raise
        except _MISMATCHES as error:
            # An argument of a wrong type: possible in a file, but not in PyTorch.
            message = f"{self.op_type}: an argument has an unexpected type: {error}"
            raise ShapeError(message) from error

    def _called(self, b: Builder, rest: Sequence[Value | None], given: dict[str, Any]) -> Any:
        """Call the function; operands of rank 0 are passed as vectors of one element if PyTorch treats them so."""
        name = self._function_name()
        if name not in _AS_VECTORS:
            return self.function(b, *rest, **given)
        is_scalar, is_place = (any(_has_rank_0(given.get(key)) for key in keys) for keys in (_TENSORS, _INDICES))
        if not is_scalar and not is_place:
            return self.function(b, *rest, **given)
        widened = {
            key: b(Reshape, value, [1]) if key in (*_TENSORS, *_INDICES, *_UPDATES) and _has_rank_0(value) else value
            for key, value in given.items()
        }
        answer = self.function(b, *rest, **widened)
        if not (is_place if name in _BY_INDEX else is_scalar):
            return answer
        found = tuple(b(Reshape, each, []) for each in registry.results(answer))
        return found if isinstance(answer, tuple) else found[0]

    def _function_name(self) -> str:
        """Return the name of PyTorch's function, without namespace, overload and leading or trailing underscores."""
        parts = self.op_type.replace("::", ".").split(".")
        return (parts[1] if len(parts) > 1 else parts[0]).strip("_").lower()


def emits(*words: str, ignores: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Register a function as the import rule of PNNX op types.

    The parameters after the builder have PyTorch's names. Tensors are passed as `Value`, scalars as Python numbers, the
    weight `out_proj.weight` as `out_proj_weight`. Arguments in `ignores` have no effect. Other unknown arguments make
    the node opaque.
    """

    def register(function: Function) -> Function:
        for op_type in words:
            lower(DIALECT, op_type)(bound(op_type, function, ignores))
        return function

    return register


def bound(op_type: str, function: Function, ignores: Sequence[str] = ()) -> Function:
    """Return `function` as a rule that gets its arguments by PyTorch's names, except those in `ignores`."""
    return _Bound(op_type, function, frozenset(ignores))


@cache
def _parameters(function: Function) -> _Parameters:
    """Return the parameters of a function; inspected on first use, because most op types occur in no model."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kinds = inspect.Parameter
    named = [p for p in parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    return _Parameters(
        tuple(p.name for p in named),
        MappingProxyType({p.name: p.default for p in named if p.default is not kinds.empty}),
        any(p.kind is kinds.VAR_POSITIONAL for p in parameters),
        any(p.kind is kinds.VAR_KEYWORD for p in parameters),
    )


BY_POSITION: dict[str, Function] = {}
"""Import rules of exported programs by name, if their parameters have the order of PyTorch's arguments."""


def _find_exported_rule(op_type: str) -> Function | None:
    """Return the rule of exported programs for an operator that pnnx did not convert."""
    if not op_type.startswith(LEFT):
        return None
    registry.load(EXPORTED)
    return BY_POSITION.get(op_type.removeprefix(LEFT))


FALLBACKS[DIALECT] = _find_exported_rule


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _has_rank_0(argument: Any) -> bool:
    return isinstance(argument, Value) and isinstance(argument.fact, TensorFact) and argument.fact.shape == ()


def named_dtype(name: str | int | None) -> DType | None:
    """Return the element type for a PNNX name or a ScalarType code; `None` for `None`.

    Raises:
        UnsupportedError: no element type has this name.
    """
    if name is None:
        return None
    own = name if isinstance(name, str) else None
    if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < len(_CODES):
        own = _CODES[name]
    if own is None or own not in DTYPES:
        message = f"unsupported element type {name}"
        raise UnsupportedError(message)
    return DTYPES[own]


def scalar_of(argument: Any) -> Any:
    """Return a scalar argument, or the element of a constant tensor; `None` for `None`.

    Raises:
        UnsupportedError: the tensor is not constant.
    """
    if argument is None or isinstance(argument, bool | int | float):
        return argument
    if not isinstance(argument, Value):
        message = f"expected a number, found {argument!r}"
        raise ShapeError(message)
    found = constant_numbers(argument)
    if found is None or len(found) != 1:
        message = f"{argument.name} is not constant, expected a number"
        raise UnsupportedError(message)
    return found[0]


def integers(argument: Any, count: int | None = None) -> tuple[int, ...]:
    """Return the integers of a list or constant tensor; a single integer is repeated `count` times.

    Raises:
        UnsupportedError: they are not constant.
    """
    if isinstance(argument, Value):
        found = constant_numbers(argument)
        if found is None:
            message = f"{argument.name} is not constant, expected integers"
            raise UnsupportedError(message)
        numbers = tuple(int(x) for x in found)
    else:
        found = [scalar_of(x) for x in (argument if is_sequence(argument) else [argument])]
        if None in found or not all(abs(x) < _FAR for x in found):
            message = f"expected integers, found {argument!r}"
            raise ShapeError(message)
        numbers = tuple(int(x) for x in found)
    return numbers * count if count is not None and len(numbers) == 1 else numbers


def axis_of(axis: int, rank: int) -> int:
    """Normalize a possibly negative axis.

    Raises:
        ShapeError: the axis is out of range.
    """
    if not -max(rank, 1) <= axis < max(rank, 1):
        message = f"dim {axis} is out of range for a tensor of rank {rank}"
        raise ShapeError(message)
    return axis % max(rank, 1)


def constant_or_value(value: Any) -> Any:
    """Return the number of a constant tensor; other objects are returned unchanged."""
    return scalar_of(value) if isinstance(value, Value) and value.storage is not None else value


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """Normalize axes; `None` or an empty list means all."""
    if dim is None or (is_sequence(dim) and not dim):
        return tuple(range(rank))
    return tuple(axis_of(axis, rank) for axis in integers(dim))


def length(dims: Sequence[Any], axis: int) -> int:
    """Return the size of an axis; raises `UnsupportedError` if it is not static."""
    found = dims[axis]
    if isinstance(found, Symbolic):
        message = f"the size of axis {axis} is not constant"
        raise UnsupportedError(message)
    return int(found)


def bounded(count: int) -> int:
    """Return `count` after a check against the element budget.

    Raises:
        OverBudgetError: the count exceeds the budget.
    """
    return reserve(count)


# ── on the way to PNNX ────────────────────────────────────────────────────────────────────────────────────────────────


def called(b: Builder, op_type: str, fact: Fact | None = None, /, **arguments: Any) -> Value:
    """Emit a function with PyTorch's argument names: tensors are operands, other arguments are attributes.

    The result has the fact `fact`, by default that of the first tensor. Arguments that are `None` are omitted, unless
    the name ends in an underscore.
    """
    operands = {name: value for name, value in arguments.items() if isinstance(value, Value)}
    rest = {
        name.removesuffix("_"): value
        for name, value in arguments.items()
        if not isinstance(value, Value) and (value is not None or name.endswith("_"))
    }
    keys: dict[str, Any] = {KEYS: tuple(operands)} if len(operands) > 1 else {}
    first = next(iter(operands.values()), None)
    own = fact if fact is not None else UNKNOWN if first is None else first.fact
    return b.emit(op_type, *operands.values(), facts=[own], **rest, **keys)[0]


def weight_of(value: Value | None) -> Storage | None:
    """Return the elements of a constant, which can be a module's weight, else `None`."""
    return None if value is None else folded(value)


def constant_elements(value: Value | None) -> Any:
    """Return the elements of a small constant, else `None`."""
    storage = None if value is None else folded(value)
    return storage.numpy() if storage is not None and storage.nbytes <= MAX_COMPUTED_BYTES else None


def static(value: Value | None) -> tuple[int, ...] | None:
    """Return static integers, else `None`."""
    if value is None or not isinstance(value.fact, TensorFact) or value.fact.elements is None:
        return None
    numbers = tuple(n for n in value.fact.elements if isinstance(n, int))
    return numbers if len(numbers) == len(value.fact.elements) else None


def literal_of(x: Value) -> str | None:
    """Format a scalar constant for an expression; `None` for other values."""
    if x.storage is None or not x.is_constant or x.storage.shape or x.storage.dtype.kind not in "bif":
        return None
    number = x.storage.numpy().reshape(()).item()
    if isinstance(number, bool):
        return str(number)
    if isinstance(number, int):
        return str(number)
    if not isfinite(number):
        return "nan.0" if isnan(number) else "inf" if number > 0 else "-inf"
    return repr(float(number))
