"""Evaluate operator calls: tensor operators are nodes, other operators are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.overloads import writes_first_operand
from graphport.formats.pytorch.schemas import Argument, Schema, schemas
from graphport.formats.pytorch.torchscript import containers, nested, quantized, upgraders
from graphport.formats.pytorch.torchscript.emit import CAST, item_key
from graphport.formats.pytorch.torchscript.matching import described, has_tensor, match
from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.scalar_functions import computed, equal, is_scalar, static_items_or_none
from graphport.formats.pytorch.torchscript.values import (
    UNINITIALIZED,
    Device,
    Dict,
    Future,
    Kind,
    List,
    Nested,
    Object,
    Quantized,
    RuntimeScalar,
    Tensor,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.formats.pytorch.torchscript.context import Context
    from graphport.ir.graph import Attribute, Value

DTYPES = (
    *(DType.UINT8, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT16, DType.FLOAT32, DType.FLOAT64),
    *(None, DType.COMPLEX64, DType.COMPLEX128, DType.BOOL, None, None, None, DType.BFLOAT16),
    *(None, None, None, None, None, None, None, DType.FLOAT8E5M2, DType.FLOAT8E4M3FN, None, None),
)
"""Element types by PyTorch's ScalarType code."""
MEMORY_FORMATS = {0: "contiguous", 1: "preserve", 2: "channels_last", 3: "channels_last_3d"}
_RANDOM = frozenset(
    {
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "bernoulli_"),
        *("normal", "normal_", "uniform_", "multinomial", "poisson", "exponential_", "random_", "rrelu_with_noise"),
        *("cauchy_", "geometric_", "log_normal_", "uniform", "binomial"),
    }
)
_TRAINED = frozenset(
    {"dropout", "dropout_", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout"}
)
_TRAINED_IN_PLACE = frozenset({"dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"})
_PROMOTING = frozenset(
    {
        *("add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "rsub", "divide"),
        *("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "where", "atan2", "__and__", "__or__", "__xor__"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "multiply", "subtract", "greater", "less", "greater_equal"),
    }
)
"""Operators with type promotion, in which scalars have lower priority than tensors."""


class Operators:
    """Evaluation of operator calls; `context` evaluates nested calls."""

    def __init__(self, context: Context, version: int) -> None:
        self.context = context
        self.emitter = context.emitter
        self.version = version

    def call(self, space: str, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        """Evaluate a call of `space.name`.

        Raises:
            RefusedError: TS0006 the operator is unknown or has no import rule, TS0009 an argument must be static,
                TS0011 the arguments do not match the operator.
        """
        if any(x is UNINITIALIZED for x in given):
            refuse("TS0011", f"{name} reads an undefined variable")
        if space == "ops.prim":
            return self._prim(name, given, named)
        if space in ("ops.quantized", "ops._quantized"):
            return quantized.call(self, name, given, named)
        if space == "ops.torchvision":
            return self._torchvision(name, given, named)
        if space not in ("torch", "ops.aten"):
            full = f"{space.removeprefix('ops.')}::{name}"
            refuse("TS0006", f"unsupported custom operator {full}: the file does not contain its definition")
        return self.torch(name, given, named)

    def torch(self, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        """Evaluate a call of `torch.name`."""
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, *given, **named)
        if given and isinstance(given[0], List | Dict | str) and name in containers.METHODS:
            found = self._of_container(name, given)
            if found is not NotImplemented:
                return found
        if name in ("add", "mul") and given and static_items_or_none(given[0]) is not None:
            return _joined(name, given)
        if not named and not has_tensor(given):
            found = self._without_tensors(name, given)
            if found is not NotImplemented:
                return found
        if any(isinstance(x, Nested) for x in given):
            refuse("TS0009", f"aten::{name} of a nested tensor: only encoder layers are supported")
        if any(isinstance(x, Quantized) for x in _flat([*given, *named.values()])):
            return quantized.on_quantized(self, name, given, named)
        return self.on_tensors(name, given, named)

    def _of_container(self, name: str, given: list[Any]) -> Any:
        if isinstance(given[0], str) and name not in ("slice", "len", "__getitem__", "__contains__", "list"):
            return NotImplemented
        return containers.METHODS[name](self.context, *given)

    def _without_tensors(self, name: str, given: list[Any]) -> Any:
        if name in ("eq", "ne") and not all(is_scalar(x) for x in given):
            same = equal(*given)
            if same is None:
                return self._open_equal(name, given)
            return same is (name == "eq")
        if name in ("__is__", "__isnot__"):
            return (given[0] is given[1]) is (name == "__is__")
        return computed(self.emitter, name, given)

    def _open_equal(self, name: str, given: list[Any]) -> Any:
        """Emit the comparison of two lists of run-time scalars."""
        found: Any = True
        for a, b in zip(static_items_or_none(given[0]) or (), static_items_or_none(given[1]) or (), strict=True):
            same = computed(self.emitter, "eq", [a, b]) if is_scalar(a) and is_scalar(b) else equal(a, b)
            found = same if found is True else computed(self.emitter, "__and__", [found, same])
        return found if name == "eq" else computed(self.emitter, "__not__", [found])

    # Tensor operators

    def on_tensors(self, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        """Emit a tensor operator and return its results."""
        if not schemas(name):
            refuse("TS0006", f"unsupported operator aten::{name} with arguments {described(name, given, named)}")
        upgraded = upgraders.upgraded(self, name, given, named)
        if upgraded is not None:
            name, given, named = upgraded
        found = match(name, given, named)
        if found is None:
            refuse("TS0011", f"no overload of aten::{name} accepts {described(name, given, named)}")
        schema, bound = found
        self._check_random(name, bound)
        if name in _TRAINED_IN_PLACE:
            return bound.get("self", bound.get("input"))
        result = self._emitted(schema, bound)
        first = bound.get(schema.positional[0].name) if schema.positional else None
        if writes_first_operand(schema.op_type) and isinstance(first, Tensor):
            first.literal = None
            return first
        return result

    def _check_random(self, name: str, bound: Mapping[str, Any]) -> None:
        trains = bool(bound.get("train", False) or bound.get("training", False))
        if name in _RANDOM or (
            name in (*_TRAINED, *_TRAINED_IN_PLACE, "rrelu") and trains and bound.get("p", 0.5) != 0
        ):
            reason = "call eval() before you save the module: it was saved in training mode" if trains else None
            refuse("TS0009", f"unsupported: aten::{name} generates random numbers", help=reason)

    def _emitted(self, schema: Schema, bound: Mapping[str, Any]) -> Any:
        operands: list[tuple[str, Value | None, bool]] = []
        attributes: dict[str, Attribute] = {}
        as_numbers = self._literals(schema, bound)
        for argument in schema.arguments:
            if argument.name not in bound:
                continue
            value = bound[argument.name]
            if argument.name in as_numbers:
                attributes[argument.name] = as_numbers[argument.name]
            elif not _is_default(argument, value):
                self._argument(argument, value, operands, attributes)
        count = self._count(schema, bound)
        values = self.emitter.node(schema.op_type, operands, attributes, count)
        return _results(schema, [Tensor(value) for value in values])

    def _literals(self, schema: Schema, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rank-0 constants that type promotion treats as Python numbers, if another argument is a tensor."""
        if schema.name.rstrip("_") not in _PROMOTING and schema.name not in _PROMOTING:
            return {}
        tensors = {name: x for name, x in bound.items() if isinstance(x, Tensor)}
        literals = {name: x.literal for name, x in tensors.items() if x.literal is not None and name != "condition"}
        return literals if len(literals) < len(tensors.keys() - {"condition"}) else {}

    def _argument(
        self,
        argument: Argument,
        value: Any,
        operands: list[tuple[str, Value | None, bool]],
        attributes: dict[str, Attribute],
    ) -> None:
        name, type_ = argument.name, argument.type.rstrip("?")
        if value is None:
            attributes[name] = None
        elif type_.startswith("Tensor") and "[" in type_:
            self._tensors(name, value, operands, attributes)
        elif type_ == "Tensor":
            operands.append((name, value.value, False))
        elif "[" in type_:
            self._bind_scalars(name, type_, value, operands, attributes)
        elif type_ == "ScalarType":
            attributes[name] = dtype_name(self.to_scalar(value, "int"))
        elif type_ == "MemoryFormat":
            attributes[name] = MEMORY_FORMATS.get(value, str(value))
        elif type_ in ("Layout", "Device", "Generator") or isinstance(value, Device):
            return
        elif isinstance(value, str):
            attributes[name] = value
        else:
            self._bind_scalar(name, type_, value, operands, attributes)

    def _bind_scalar(
        self,
        name: str,
        type_: str,
        value: Any,
        operands: list[tuple[str, Value | None, bool]],
        attributes: dict[str, Attribute],
    ) -> None:
        if isinstance(value, Tensor):
            value = (
                self.tensor_item(value) if type_ in ("Scalar", "number") else self.to_scalar(value, _scalar_type(type_))
            )
        if isinstance(value, RuntimeScalar):
            operands.append((name, value.value, True))
        else:
            attributes[name] = float(value) if type_ == "float" and isinstance(value, int) else value

    def _bind_scalars(
        self,
        name: str,
        type_: str,
        value: Any,
        operands: list[tuple[str, Value | None, bool]],
        attributes: dict[str, Attribute],
    ) -> None:
        """Bind a list of scalars: as an attribute if all are static, else as operands."""
        item, _, size = type_.partition("[")
        items = static_items_or_none(value)
        if items is None:
            items = [value] * int(size.rstrip("]") or 1)
        known = [self.to_scalar(x, _scalar_type(item)) if isinstance(x, Tensor) else x for x in items]
        if not any(isinstance(x, RuntimeScalar) for x in known):
            attributes[name] = tuple(known)
            return
        operands += [(item_key(name), self.emitter.operand(x), True) for x in known]

    def _tensors(
        self,
        name: str,
        value: Any,
        operands: list[tuple[str, Value | None, bool]],
        attributes: dict[str, Attribute],
    ) -> None:
        items = containers.unpacked(self.context, value, 0)
        if not items:
            attributes[name] = ()
        operands += [(item_key(name), None if x is None else x.value, False) for x in items]

    def _count(self, schema: Schema, bound: Mapping[str, Any]) -> int:
        """Return the number of results of an operator."""
        if not any("[]" in each for each in schema.returns):
            return len(schema.returns)
        counted = _COUNTS.get(schema.name)
        if counted is None:
            refuse("TS0006", f"aten::{schema.name} returns a list of unknown length")
        return counted(self, bound)

    # Numbers and tensors

    def to_scalar(self, value: Any, kind: Kind) -> Any:
        """Evaluate `int(value)`, `float(value)` or `bool(value)`."""
        if isinstance(value, Quantized):
            value = quantized.dequantized(self, value)
        if isinstance(value, Tensor):
            value = self.tensor_item(value)
        if isinstance(value, RuntimeScalar):
            if value.kind == kind:
                return value
            return computed(self.emitter, {"int": "Int", "float": "Float", "bool": "Bool"}[kind], [value])
        try:
            return {"int": int, "float": float, "bool": bool}[kind](value)
        except (TypeError, ValueError, OverflowError) as error:
            refuse("TS0011", f"{kind}({type_name(value)}): {error}")

    def tensor_item(self, tensor: Tensor) -> Any:
        """Return the only element of a tensor as a scalar."""
        known = self.emitter.scalar(tensor)
        if known is not None:
            return known
        shape, value = self.emitter.shape(tensor), tensor.value
        if shape:
            if any(isinstance(x, int) and x != 1 for x in shape):
                refuse("TS0011", f"a tensor of shape {list(shape)} is used as a number, expected one element")
            value = self.emitter.node("aten.reshape.default", [("self", value, False)], {"shape": ()})[0]
        value = self.emitter.now(value)
        dtype = self.emitter.dtype(tensor)
        if dtype is DType.BOOL or dtype is DType.INT64:
            return self.emitter.as_scalar(value)
        wide = DType.FLOAT64 if dtype.is_floating else DType.INT64
        return self.emitter.as_scalar(self.emitter.node(CAST, [("self", value, False)], {"dtype": dtype_name(wide)})[0])

    def tensor_of(self, number: Any, dtype: DType | None = None) -> Tensor:
        """Convert a scalar to a tensor of rank 0.

        Raises:
            DiagnosticError: TS0011 `number` is not a scalar.
        """
        if isinstance(number, RuntimeScalar):
            tensor = Tensor(number.value)
            return tensor if dtype is None else self.cast(tensor, dtype)
        if not isinstance(number, bool | int | float):
            refuse("TS0011", f"{type_name(number)} is used as a number")
        own = DType.BOOL if isinstance(number, bool) else DType.INT64 if isinstance(number, int) else DType.FLOAT64
        return Tensor(self.emitter.constant(number, dtype or own, "number"))

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; return it unchanged if it has the element type."""
        if self.emitter.fact(tensor).dtype is dtype:
            return tensor
        return Tensor(self.emitter.node(CAST, [("self", tensor.value, False)], {"dtype": dtype_name(dtype)})[0])

    def property(self, tensor: Any, name: str) -> Any:
        """Evaluate an attribute of a tensor."""
        return self._prim(name, [tensor], {})

    def _prim(self, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        del named
        function = _PRIM.get(name)
        if function is None:
            refuse("TS0006", f"unsupported operator prim::{name}")
        return function(self, *given)

    def _torchvision(self, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        signature = _TORCHVISION.get(name)
        if signature is None:
            refuse("TS0006", f"unsupported operator torchvision::{name}")
        names, count = signature
        bound = dict(zip(names, given, strict=False)) | named
        operands = [(key, x.value, False) for key, x in bound.items() if isinstance(x, Tensor)]
        attributes = {key: x for key, x in bound.items() if not isinstance(x, Tensor)}
        found = [Tensor(v) for v in self.emitter.node(f"torchvision.{name}.default", operands, attributes, count)]
        return found[0] if count == 1 else (*found, *[UNINITIALIZED] * (count - len(found)))


def dtype_name(dtype: int | DType | Any) -> str:
    """Return PyTorch's name of an element type or of a ScalarType code."""
    found = dtype
    if isinstance(dtype, int):
        found = DTYPES[dtype] if 0 <= dtype < len(DTYPES) else None
    if not isinstance(found, DType):
        refuse("TS0009", f"element type {dtype} of PyTorch has no equivalent in ONNX")
    return f"torch.{found.text}"


def _scalar_type(type_: str) -> Kind:
    return "float" if type_ == "float" else "bool" if type_ == "bool" else "int"


def _is_default(argument: Argument, value: Any) -> bool:
    default = argument.default
    return type(value) is type(default) and isinstance(value, bool | int | float | str | None) and value == default


def _flat(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += static_items_or_none(value) or () if isinstance(value, List | tuple) else [value]
    return found


def _results(schema: Schema, tensors: list[Tensor]) -> Any:
    if any("[]" in each for each in schema.returns):
        return List(cast("list[Any]", tensors), "Tensor")
    if len(schema.returns) < 2:
        return tensors[0] if schema.returns else None
    return (*tensors, *[UNINITIALIZED] * (len(schema.returns) - len(tensors)))


def _joined(name: str, given: list[Any]) -> Any:
    items = list(static_items_or_none(given[0]) or ())
    if name == "add":
        items += list(static_items_or_none(given[1]) or ())
    else:
        count = given[1]
        if not isinstance(count, int):
            refuse("TS0009", "a list is repeated by a count that depends on run-time values")
        containers.check_length(range(len(items) * max(count, 0)))
        items *= count
    return tuple(items) if isinstance(given[0], tuple) else List(items, getattr(given[0], "element", ""))


def _constant_function(value: Any) -> Callable[..., Any]:
    """Return a function with the constant result `value`."""

    def answer(ops: Operators, *given: Any, **named: Any) -> Any:
        del ops, given, named
        return value

    return answer


def _return_first_argument(ops: Operators, value: Any, *given: Any, **named: Any) -> Any:
    """Return the first argument."""
    del ops, given, named
    return value


# ── operators with special rules ─────────────────────────────────────────────────────────────────────────────────────


def _size(ops: Operators, tensor: Any, dim: Any = None) -> Any:
    if isinstance(tensor, Quantized):
        tensor = tensor.codes
    shape = ops.emitter.shape(tensor)
    if dim is None:
        return List([_extent(ops, tensor, axis) for axis in range(len(shape))], "int")
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        refuse("TS0011", f"size: dim {dim} is out of range for rank {len(shape)}")
    return _extent(ops, tensor, dim % len(shape))


def _extent(ops: Operators, tensor: Tensor, axis: int) -> Any:
    dim = ops.emitter.shape(tensor)[axis]
    if not isinstance(dim, Symbolic):
        return int(dim)
    value = ops.emitter.node("aten.sym_size.int", [("self", tensor.value, False)], {"dim": axis})[0]
    return ops.emitter.as_scalar(value, "int")


def _numel(ops: Operators, tensor: Tensor) -> Any:
    found: Any = 1
    for size in _size(ops, tensor).items:
        found = computed(ops.emitter, "mul", [found, size])
    return found


def _of_tensor(tensor: Any) -> Tensor:
    return tensor.codes if isinstance(tensor, Quantized) else tensor


def _to(ops: Operators, tensor: Any, *given: Any, **named: Any) -> Any:
    """Evaluate the overloads of `to`; only the element type has an effect."""
    if isinstance(tensor, Quantized):
        return tensor
    found = match("to", [tensor, *given], named)
    if found is None:
        refuse("TS0011", f"no overload of aten::to accepts {described('to', [tensor, *given], named)}")
    bound = found[1]
    dtype = bound.get("dtype")
    wanted = ops.emitter.dtype(bound["other"]) if "other" in bound else None
    if isinstance(dtype, int):
        wanted = DType.of(dtype_name(dtype).removeprefix("torch."))
    cast_ = tensor if wanted is None else ops.cast(tensor, wanted)
    if cast_ is tensor and bound.get("copy"):
        return ops.on_tensors("clone", [tensor], {})
    return cast_


def _detach(ops: Operators, tensor: Any) -> Any:
    if isinstance(tensor, Quantized):
        return tensor
    return Tensor(ops.emitter.node("aten.alias.default", [("self", tensor.value, False)])[0])


def _tensor(ops: Operators, data: Any, **named: Any) -> Tensor:
    """Evaluate `torch.tensor` on scalars and nested lists."""
    dtype = named.get("dtype")
    wanted = None if dtype is None else DType.of(dtype_name(dtype).removeprefix("torch."))
    if isinstance(data, Tensor):
        return data if wanted is None else ops.cast(data, wanted)
    flat, shape = _nested(data)
    numbers = [ops.tensor_item(x) if isinstance(x, Tensor) else x for x in flat]
    kinds = {type_name(x) for x in numbers}
    own = DType.FLOAT32 if "float" in kinds or not kinds else DType.INT64 if "int" in kinds else DType.BOOL
    if not any(isinstance(x, RuntimeScalar) for x in numbers):
        array = np.array(numbers, (wanted or own).numpy).reshape(shape)
        return Tensor(ops.emitter.constant(array, wanted or own, "tensor"))
    parts = [ops.tensor_of(x, wanted or own) for x in numbers]
    if not shape:
        return parts[0]
    stacked = ops.on_tensors("stack", [List(cast("list[Any]", parts), "Tensor")], {})
    return stacked if len(shape) == 1 else ops.on_tensors("reshape", [stacked, List(list(shape), "int")], {})


def _nested(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    items = static_items_or_none(data)
    if items is None:
        return [data], ()
    parts = [_nested(x) for x in items]
    inner = parts[0][1] if parts else ()
    if any(shape != inner for _, shape in parts):
        refuse("TS0011", "a tensor is created from lists of different lengths")
    return [x for flat, _ in parts for x in flat], (len(items), *inner)


def _unwrapped(ops: Operators, value: Any) -> Any:
    del ops
    if value is None:
        refuse("TS0010", "the code unwraps an optional value that is None")
    return value


def _nested_values(ops: Operators, value: Any) -> Any:
    return value.result if isinstance(value, Future) else value


def _stack_like(ops: Operators, name: str, tensors: Any, dim: Any, named: dict[str, Any]) -> Any:
    """Evaluate `stack` or `cat` of a list that a run-time loop filled; its items are already stacked on axis 0."""
    stacked = tensors.stacked
    rank = len(ops.emitter.shape(stacked))
    axis = dim % (rank if name == "stack" else rank - 1)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    moved = stacked if axis == 0 else ops.on_tensors("permute", [stacked, List(list(order), "int")], {})
    del named
    return moved if name == "stack" else ops.on_tensors("flatten", [moved, axis, axis + 1], {})


def _joining(name: str) -> Callable[..., Any]:
    def join(ops: Operators, tensors: Any, dim: Any = 0, **named: Any) -> Any:
        if isinstance(tensors, List) and tensors.stacked is not None:
            return _stack_like(ops, name, tensors, named.get("dim", dim), named)
        if any(isinstance(x, Quantized) for x in _flat([tensors])):
            return quantized.on_quantized(ops, name, [tensors, dim], named)
        return ops.on_tensors(name, [tensors, dim], named)

    return join


def _is_floating_point(ops: Operators, tensor: Tensor) -> bool:
    return ops.emitter.dtype(tensor).kind == "f"


def _is_complex(ops: Operators, tensor: Tensor) -> bool:
    return ops.emitter.dtype(tensor).kind == "c"


def _is(ops: Operators, a: Any, b: Any) -> Any:
    del ops
    if isinstance(a, Object) and a.type.base == "Enum" and a is b:
        # PyTorch creates a new object at each use of an enum member, and `is` compares identities.
        refuse("TS0009", f"the code compares members of {a.type.name} with `is`", help="compare them with ==")
    return a is b or (isinstance(a, bool | int | str) and type(a) is type(b) and a == b)


def _stride(ops: Operators, tensor: Tensor, dim: Any = None) -> Any:
    """Return the strides of a contiguous tensor, or the stride of axis `dim`."""
    sizes = _size(ops, tensor).items
    found: list[Any] = [1]
    for size in reversed(sizes[1:]):
        found.insert(0, computed(ops.emitter, "mul", [found[0], size]))
    return List(found[: len(sizes)], "int") if dim is None else found[dim]


def _shape_as_tensor(ops: Operators, tensor: Tensor) -> Tensor:
    return _tensor(ops, _size(ops, tensor), dtype=4)


def _dimension(ops: Operators, tensor: Any) -> int:
    return len(ops.emitter.shape(_of_tensor(tensor)))


def _to_scalar(kind: Kind) -> Callable[..., Any]:
    def convert(ops: Operators, value: Any, *rest: Any) -> Any:
        return ops.to_scalar(value, kind)

    return convert


def _not(ops: Operators, value: Any) -> Any:
    if isinstance(value, Tensor):
        value = ops.to_scalar(value, "bool")
    return computed(ops.emitter, "__not__", [value])


def _complex(ops: Operators, *given: Any) -> Any:
    if all(isinstance(x, bool | int | float) for x in given):
        return complex(*given)
    refuse("TS0009", "a complex number of run-time values")
    return None


def _nonzero_where(ops: Operators, *arguments: Any, **named: Any) -> Any:
    given = list(arguments)
    if len(given) > 1:
        return ops.on_tensors("where", given, named)
    tensor = given[0]
    indices = ops.on_tensors("nonzero", [tensor], {})
    return ops.on_tensors("unbind", [indices, 1], {})


def _no_result_type(ops: Operators, *given: Any) -> Any:
    del ops, given
    refuse("TS0006", "unsupported operator aten::result_type")


def _split(name: str) -> Callable[..., Any]:
    """Return the function of a split operator; a single chunk is the tensor itself."""

    def split(ops: Operators, tensor: Any, sizes: Any, *given: Any, **named: Any) -> Any:
        if isinstance(sizes, List) and len(static_items_or_none(sizes) or ()) == 1 and isinstance(tensor, Tensor):
            return List([_detach(ops, tensor)], "Tensor")
        if isinstance(tensor, str):
            return computed(ops.emitter, name, [tensor, sizes, *given])
        if isinstance(tensor, Quantized):
            return quantized.on_quantized(ops, name, [tensor, sizes, *given], named)
        return ops.on_tensors(name, [tensor, sizes, *given], named)

    return split


def _length(ops: Operators, value: Any) -> Any:
    return containers.METHODS["len"](ops.context, value)


def _dictionary(ops: Operators, pairs: Any = None) -> Dict:
    return Dict() if pairs is None else containers.METHODS["dict"](ops.context, pairs)


def _device(ops: Operators, name: Any = "cpu", *rest: Any) -> Device:
    return Device(name if isinstance(name, str) else "cpu")


def _tensor_item(ops: Operators, x: Any) -> Any:
    return ops.tensor_item(x)


def _scalarimplicit(ops: Operators, x: Any) -> Any:
    return ops.tensor_item(x) if isinstance(x, Tensor) else x


def _is_signed(ops: Operators, x: Any) -> Any:
    return ops.emitter.dtype(x).text[0] not in "ub"


def _isnot(ops: Operators, a: Any, b: Any) -> Any:
    return not _is(ops, a, b)


_SPECIAL: Mapping[str, Callable[..., Any]] = {
    "size": _size,
    "dim": _dimension,
    "ndimension": _dimension,
    "numel": _numel,
    "len": _length,
    "split": _split("split"),
    "split_with_sizes": _split("split_with_sizes"),
    "dict": _dictionary,
    "to": _to,
    "detach": _detach,
    "cpu": _return_first_argument,
    "cuda": _return_first_argument,
    "tensor": _tensor,
    "as_tensor": _tensor,
    "_shape_as_tensor": _shape_as_tensor,
    "item": _tensor_item,
    "Int": _to_scalar("int"),
    "IntImplicit": _to_scalar("int"),
    "Float": _to_scalar("float"),
    "FloatImplicit": _to_scalar("float"),
    "Bool": _to_scalar("bool"),
    "ScalarImplicit": _scalarimplicit,
    "Complex": _complex,
    "_unwrap_optional": _unwrapped,
    "unchecked_unwrap_optional": _unwrapped,
    "wait": _nested_values,
    "warn": _constant_function(None),
    "manual_seed": _constant_function(None),
    "_assert_async": _constant_function(None),
    "stack": _joining("stack"),
    "cat": _joining("cat"),
    "concat": _joining("cat"),
    "concatenate": _joining("cat"),
    "is_floating_point": _is_floating_point,
    "quantize_per_tensor": quantized.quantize_per_tensor,
    "quantize_per_channel": quantized.quantize_per_channel,
    "dequantize": quantized.dequantized,
    "_nested_tensor_from_mask_left_aligned": _constant_function(True),
    "_nested_tensor_from_mask": nested.from_mask,
    "_transformer_encoder_layer_fwd": nested.encoder_layer,
    "to_padded_tensor": nested.to_padded,
    "is_complex": _is_complex,
    "is_signed": _is_signed,
    "is_grad_enabled": _constant_function(False),
    "is_autocast_enabled": _constant_function(False),
    "is_autocast_cpu_enabled": _constant_function(False),
    "set_grad_enabled": _constant_function(None),
    "is_scripting": _constant_function(True),
    "_get_tracing_state": _constant_function(False),
    "has_torch_function": _constant_function(False),
    "is_contiguous": _constant_function(True),
    "is_pinned": _constant_function(False),
    "stride": _stride,
    "device": _device,
    "get_device": _constant_function(-1),
    "__is__": _is,
    "__isnot__": _isnot,
    "__not__": _not,
    "where": _nonzero_where,
    "quantized_lstm": quantized.lstm,
    "quantized_gru": quantized.gru,
    "requires_grad_": _return_first_argument,
    "result_type": _no_result_type,
}


def _enum_attribute(name: str) -> Callable[..., Any]:
    def read(ops: Operators, member: Any) -> Any:
        del ops
        return member.attributes[name]

    return read


def _dtype_number(ops: Operators, tensor: Any) -> int:
    return tensor.dtype if isinstance(tensor, Quantized) else DTYPES.index(ops.emitter.dtype(tensor))


def _no_list(ops: Operators, *given: Any) -> Any:
    del ops, given
    refuse("TS0009", "tolist returns numbers that depend on run-time values")


def _numtotensor(ops: Operators, x: Any) -> Any:
    return ops.tensor_of(x)


def _device_(ops: Operators, x: Any) -> Any:
    return Device("cpu")


def _is_nested(ops: Operators, x: Any) -> Any:
    return isinstance(x, Nested)


def _is_quantized(ops: Operators, x: Any) -> Any:
    return isinstance(x, Quantized)


def _itemsize(ops: Operators, x: Any) -> Any:
    return ops.emitter.dtype(x).bits // 8


def _nbytes(ops: Operators, x: Any) -> Any:
    return computed(ops.emitter, "mul", [_numel(ops, x), ops.emitter.dtype(x).bits // 8])


def _tensor_function(name: str) -> Callable[..., Any]:
    """Return the function that emits a tensor operator with one operand."""

    def call(ops: Operators, x: Any) -> Any:
        return ops.on_tensors(name, [x], {})

    return call


def _torch_function(name: str) -> Callable[..., Any]:
    """Return the function of `torch` with this name."""

    def call(ops: Operators, *given: Any) -> Any:
        return ops.torch(name, list(given), {})

    return call


_PRIM: Mapping[str, Callable[..., Any]] = {
    "NumToTensor": _numtotensor,
    "dtype": _dtype_number,
    "device": _device_,
    "layout": _constant_function(0),
    "requires_grad": _constant_function(False),
    "is_cuda": _constant_function(False),
    "is_cpu": _constant_function(True),
    "is_mkldnn": _constant_function(False),
    "is_sparse": _constant_function(False),
    "is_nested": _is_nested,
    "is_meta": _constant_function(False),
    "is_mps": _constant_function(False),
    "is_xpu": _constant_function(False),
    "is_vulkan": _constant_function(False),
    "is_ipu": _constant_function(False),
    "is_xla": _constant_function(False),
    "is_quantized": _is_quantized,
    "grad": _constant_function(None),
    "data": _return_first_argument,
    "shape": _size,
    "ndim": _dimension,
    "itemsize": _itemsize,
    "nbytes": _nbytes,
    "T": _tensor_function("numpy_T"),
    "mT": _tensor_function("mT"),
    "H": _tensor_function("t"),
    "real": _tensor_function("real"),
    "imag": _tensor_function("imag"),
    "name": _constant_function(""),
    "tolist": _no_list,
    "unchecked_unwrap_optional": _unwrapped,
    "unchecked_cast": _return_first_argument,
    "min": _torch_function("min"),
    "max": _torch_function("max"),
    "abs": _torch_function("abs"),
    "Print": _constant_function(None),
    "EnumValue": _enum_attribute("value"),
    "EnumName": _enum_attribute("name"),
    "AutogradZero": _constant_function(None),
    "index": _constant_function(0),
    "type": _constant_function("cpu"),
    "awaitable_wait": _nested_values,
}
_TORCHVISION: Mapping[str, tuple[tuple[str, ...], int]] = {
    "nms": (("dets", "scores", "iou_threshold"), 1),
    "roi_align": (
        ("input", "rois", "spatial_scale", "pooled_height", "pooled_width", "sampling_ratio", "aligned"),
        1,
    ),
    "roi_pool": (("input", "rois", "spatial_scale", "pooled_height", "pooled_width"), 2),
    "deform_conv2d": (
        (
            *("input", "weight", "offset", "mask", "bias", "stride_h", "stride_w", "pad_h", "pad_w", "dilation_h"),
            *("dilation_w", "groups", "offset_groups", "use_mask"),
        ),
        1,
    ),
}


# ── how many tensors a list has ───────────────────────────────────────────────────────────────────────────────────────


def _along(ops: Operators, bound: Mapping[str, Any], axis: Any = None) -> int:
    dim = bound.get("dim", 0) if axis is None else axis
    tensor = bound["self"]
    shape = ops.emitter.shape(tensor)
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        refuse("TS0011", f"dim {dim} is out of range for rank {len(shape)}")
    found = shape[dim]
    if isinstance(found, Symbolic):
        refuse("TS0009", f"a tensor is split along axis {dim}, whose size is unknown: set it with --input")
    return int(found)


def _split_count(ops: Operators, bound: Mapping[str, Any]) -> int:
    size = bound.get("split_size", bound.get("split_sizes"))
    items = static_items_or_none(size)
    if items is not None:
        return len(items)
    if not isinstance(size, int) or size <= 0:
        refuse("TS0009", "a tensor is split into parts of unknown size")
    return max(-(-_along(ops, bound) // size), 1)


def _chunk_count(ops: Operators, bound: Mapping[str, Any]) -> int:
    length, chunks = _along(ops, bound), bound["chunks"]
    if not isinstance(chunks, int) or chunks <= 0:
        refuse("TS0009", "a tensor is split into an unknown number of parts")
    size = max(-(-length // chunks), 1)
    return max(-(-length // size), 1)


def _tensor_split_count(ops: Operators, bound: Mapping[str, Any]) -> int:
    given = next((bound[k] for k in ("indices", "sections", "tensor_indices_or_sections") if k in bound), None)
    items = static_items_or_none(given)
    if items is not None:
        return len(items) + 1
    if not isinstance(given, int):
        refuse("TS0009", "a tensor is split into an unknown number of parts")
    return given


def _count_unpacked(ops: Operators, bound: Mapping[str, Any]) -> int:
    return len(containers.unpacked(ops.context, next(iter(bound.values())), 0))


_COUNTS: Mapping[str, Callable[..., int]] = {
    "split": _split_count,
    "unsafe_split": _split_count,
    "split_with_sizes": _split_count,
    "unsafe_split_with_sizes": _split_count,
    "chunk": _chunk_count,
    "unsafe_chunk": _chunk_count,
    "unbind": _along,
    "tensor_split": _tensor_split_count,
    "hsplit": _tensor_split_count,
    "vsplit": _tensor_split_count,
    "dsplit": _tensor_split_count,
    "meshgrid": _count_unpacked,
    "broadcast_tensors": _count_unpacked,
    "atleast_1d": _count_unpacked,
    "atleast_2d": _count_unpacked,
    "atleast_3d": _count_unpacked,
}
