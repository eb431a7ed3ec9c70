"""Emit ATen operators in export rules: bind arguments to the operator's schema, and infer facts.

A computed number (`SymInt`) is a scalar value whose producer is a size or arithmetic of sizes; see `is_python_scalar`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dims import Functions, Symbolic, prefixed
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact, Unknown
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import EXPORTED as DIALECT
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.schemas import Argument, schema_of
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.lowering.table import RuleTable
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph

Size: TypeAlias = "int | Value"
"""A size argument: a Python integer or a `SymInt` value."""

ITEM = "*"
SIZE = "aten.sym_size.int"
ELEMENT = "aten.item.default"
_NUMBER_SPACES = ("_operator.", "torch.sym_", "math.")
_SYMBOLIC = Functions("add", "sub", "mul", "floordiv", "max", "min")
_OPERATORS = {
    "add": "_operator.add",
    "sub": "_operator.sub",
    "mul": "_operator.mul",
    "floordiv": "_operator.floordiv",
    "max": "torch.sym_max",
    "min": "torch.sym_min",
}


def is_python_scalar(value: Value) -> bool:
    """Whether a value of an exported program is a Python scalar (`SymInt`, `SymFloat`, `SymBool`) and not a tensor."""
    node = value.producer
    return node is not None and (node.op_type in (SIZE, ELEMENT) or node.op_type.startswith(_NUMBER_SPACES))


def dtype_name(dtype: DType) -> str:
    """Return PyTorch's name of an element type."""
    return f"torch.{dtype.text}"


def aten(b: Builder, target: str, *arguments: Any, **named: Any) -> Value:
    """Emit an ATen operator with arguments in the order of its schema, and return its first result."""
    return aten_results(b, target, 1, *arguments, **named)[0]


def aten_results(b: Builder, target: str, count: int, *arguments: Any, **named: Any) -> tuple[Value, ...]:
    """Emit an ATen operator and return `count` results; their facts are those of the import rule.

    `target` includes the overload, by default `default`. Element types may be `DType` objects. Optional arguments that
    are `None` are omitted.

    Raises:
        ValueError: torch does not have the operator, or its schema does not have the argument.
    """
    op_type, operands, attributes = _bound(b, target, arguments, named)
    return b.emit(op_type, *operands, facts=_facts(b, op_type, count, operands, attributes), **attributes)


def with_fact(value: Value, dtype: DType, shape: Sequence[Dim]) -> Value:
    """Set the fact of `value` if the import rule could not infer it; return `value`."""
    if not isinstance(value.fact, TensorFact) or value.fact.dtype is None or value.fact.shape is None:
        value.fact = TensorFact(dtype, tuple(shape))
    return value


def _bound(
    b: Builder, target: str, arguments: Sequence[Any], named: dict[str, Any]
) -> tuple[str, list[Value | None], dict[str, Any]]:
    name, _, overload = target.removeprefix("aten.").partition(".")
    op_type = f"aten.{name}.{overload or 'default'}"
    schema = schema_of(op_type)
    if schema is None or len(arguments) > len(schema.arguments):
        message = f"{op_type} is not a PyTorch operator with {len(arguments)} arguments"
        raise ValueError(message)
    given = dict(zip((each.name for each in schema.arguments), arguments, strict=False)) | named
    operands: list[Value | None] = []
    keys: list[str] = []
    attributes: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.name not in given:
            continue
        value = given.pop(argument.name)
        if value is None and argument.default is None:
            continue
        _bind(b, argument, value, operands, keys, attributes)
    if given:
        message = f"unknown argument {next(iter(given))} of {op_type}"
        raise ValueError(message)
    if operands:
        attributes[KEYS] = tuple(keys)
    return op_type, operands, attributes


def _bind(
    b: Builder,
    argument: Argument,
    value: Any,
    operands: list[Value | None],
    keys: list[str],
    attributes: dict[str, Any],
) -> None:
    if isinstance(value, DType):
        attributes[argument.name] = dtype_name(value)
    elif isinstance(value, Value):
        operands.append(value)
        keys.append(argument.name)
    elif is_sequence(value) and any(isinstance(item, Value) for item in value):
        for item in value:
            is_literal = item is not None and not isinstance(item, Value)
            operands.append(b.constant(np.array(item)) if is_literal else item)
            keys.append(f"{argument.name}{ITEM}")
    else:
        attributes[argument.name] = tuple(value) if is_sequence(value) else value


def _facts(
    b: Builder, op_type: str, count: int, operands: Sequence[Value | None], attributes: dict[str, Any]
) -> list[Fact]:
    rule = registry.lowering(DIALECT, op_type)
    if rule is None:
        return [UNKNOWN] * count
    try:
        inner = Builder(b.inference, dialect=DIALECT, count=count, stem=b.stem)
        answer = registry.results(rule(inner, *operands, **attributes))
    except (UnsupportedError, Unknown, ShapeError):
        return [UNKNOWN] * count
    found = [UNKNOWN if value is None else value.fact for value in answer[:count]]
    return [*found, *[UNKNOWN] * (count - len(found))]


# ── sizes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def size_of(b: Builder, x: Value, axis: int) -> Size:
    """Return the size of one axis: an integer, or a `SymInt` value."""
    dim = b.dims(x)[axis]
    return dim if isinstance(dim, int) else _size(b, x, axis % len(b.dims(x)))


def _size(b: Builder, x: Value, axis: int) -> Value:
    fact = TensorFact(DType.INT64, (), (b.dims(x)[axis],))
    return b.emit(SIZE, x, facts=[fact], **{KEYS: ("self",), "dim": axis})[0]


def sizes_of(b: Builder, dims: Sequence[Dim], *sources: Value) -> tuple[Size, ...] | None:
    """Return dims as size arguments; `None` if `sources` and the graph inputs do not determine them.

    The shapes of `sources` are searched first.
    """
    found = [size_argument(b, dim, *sources) for dim in dims]
    known = tuple(size for size in found if size is not None)
    return known if len(known) == len(found) else None


def size_argument(b: Builder, dim: Dim, *sources: Value) -> Size | None:
    """Return a dim as a size argument; `None` if `sources` and the graph inputs do not determine it."""
    if isinstance(dim, int):
        return dim
    b.looks_around = True
    operands: list[Value] = []

    def length(symbol: Symbolic) -> str | None:
        place = _axis_with(symbol, [*sources, *_inputs(b.graph)])
        if place is None:
            return None
        operands.append(_size(b, *place))
        return f"n{len(operands) - 1}"

    text = prefixed(dim, _SYMBOLIC, length)
    return None if text is None else _emitted(b, ast.parse(text, mode="eval").body, operands)


def _axis_with(dim: Symbolic, sources: Sequence[Value]) -> tuple[Value, int] | None:
    for source in sources:
        shape = source.shape or ()
        if dim in shape:
            return source, shape.index(dim)
    return None


def _inputs(graph: Graph | None) -> list[Value]:
    return [] if graph is None else list(graph.root.inputs)


def _emitted(b: Builder, tree: ast.expr, operands: Sequence[Value]) -> Size:
    match tree:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return operands[int(name[1:])]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
        case ast.Call(func=ast.Name(id=name), args=arguments):
            x, y = (_emitted(b, argument, operands) for argument in arguments)
            return combined(b, name, x, y)
        case _:
            message = f"cannot compute the size {ast.unparse(tree)}"
            raise ValueError(message)


def combined(b: Builder, name: str, x: Size, y: Size) -> Size:
    """Emit arithmetic on two sizes: `add`, `sub`, `mul`, `floordiv`, `max`, `min`."""
    values = {key: value for key, value in (("a", x), ("b", y)) if isinstance(value, Value)}
    rest: dict[str, Any] = {key: value for key, value in (("a", x), ("b", y)) if not isinstance(value, Value)}
    fact = TensorFact(DType.INT64, ())
    return b.emit(_OPERATORS[name], *values.values(), facts=[fact], **{KEYS: tuple(values)}, **rest)[0]


MAX_ELEMENTS = 256
"""Maximum elements of a run-time vector that are extracted individually; vectors of sizes are shorter."""


def elements_of(b: Builder, x: Value, *sources: Value) -> tuple[Size, ...]:
    """Return the elements of an integer vector or scalar as sizes; unknown ones are extracted at run time.

    Raises:
        UnsupportedError: the count is not static.
    """
    fact = x.fact if isinstance(x.fact, TensorFact) else UNKNOWN
    if fact.elements is not None:
        found = sizes_of(b, fact.elements, *sources)
        if found is not None:
            return found
    dims = b.dims(x)
    if dims == ():
        return (element_of(b, x),)
    count = dims[0] if len(dims) == 1 else None
    if not isinstance(count, int):
        message = f"the element count of {x.name} is not constant"
        raise UnsupportedError(message)
    if count > MAX_ELEMENTS:
        message = f"{x.name} has {count} elements, at most {MAX_ELEMENTS} are supported"
        raise UnsupportedError(message)
    return tuple(element_of(b, aten(b, "select.int", x, 0, place)) for place in range(count))


def element_of(b: Builder, x: Value) -> Any:
    """Return the element of a one-element tensor as a Python scalar."""
    known = constant_numbers(x)
    if known is not None and len(known) == 1:
        return known[0]
    dtype = dtype_of(x)
    kind = DType.BOOL if dtype is DType.BOOL else DType.INT64 if dtype.is_integer else DType.FLOAT64
    elements = x.fact.elements if isinstance(x.fact, TensorFact) and kind is DType.INT64 else None
    if elements is not None and (found := size_argument(b, elements[0])) is not None:
        return found
    return b.emit(ELEMENT, x, facts=[TensorFact(kind, (), elements)], **{KEYS: ("self",)})[0]


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _emit_row(b: Builder, op_type: str, is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Emit the operator of a row; the facts of the last one are those of the exported node."""
    if not is_last:
        return aten(b, op_type, *operands, **attributes)
    name, values, rest = _bound(b, op_type, operands, attributes)
    found = b.emit(name, *values, facts=[UNKNOWN] * b.count, **rest)
    return found[0] if b.count == 1 else found


def _scalar(b: Builder, x: Value) -> Any:
    """Return a scalar constant as a Python number, other tensors unchanged."""
    del b
    if x.storage is None or not x.is_constant or x.storage.shape or x.dtype is None or x.dtype.kind not in "if":
        return x
    return x.storage.numpy().reshape(()).item()


def _name(b: Builder, dtype: DType) -> str:
    del b
    return dtype_name(dtype)


def _static(b: Builder, x: Value | None) -> tuple[int, ...] | None:
    """Return the integers of a constant; `None` if the operand is absent.

    Raises:
        UnsupportedError: the operand is not constant.
    """
    del b
    from graphport.ops.lowering.operands import needed

    return None if x is None else needed(x, "an operand of the operator")


EXPORT = RuleTable(DIALECT, {"scalar": _scalar, "name": _name, "static": _static}, emit=_emit_row)
"""The table of export rules: a canonical operator, and the ATen call that computes it."""
__all__ = [
    "DIALECT",
    "EXPORT",
    "Size",
    "aten",
    "aten_results",
    "combined",
    "dtype_name",
    "element_of",
    "elements_of",
    "is_python_scalar",
    "size_argument",
    "size_of",
    "sizes_of",
    "with_fact",
]
