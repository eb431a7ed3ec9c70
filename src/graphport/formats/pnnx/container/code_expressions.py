"""Convert PNNX expressions to Python expressions of tensors and scalars."""

from __future__ import annotations

import ast
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.python_code import CodeError, attribute, call, literal, path
from graphport.expression.syntax import Call, List, Literal, Reference, postorder
from graphport.formats.pytorch.rules.binding import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.expression.syntax import Node


class ResultKind(Enum):
    """Kind of an expression's result."""

    NUMBER = "a number"
    TENSOR = "a tensor"
    LIST = "a list"


class Code(NamedTuple):
    """A Python expression, the kind of its result, and its nesting depth."""

    tree: ast.expr
    kind: ResultKind
    depth: int = 1


MAX_DEPTH = 20
"""Subexpressions at this depth are assigned to variables: Python's parser limits the nesting."""

_OPERATORS: Mapping[str, type[ast.operator]] = MappingProxyType(
    {
        "add": ast.Add,
        "sub": ast.Sub,
        "mul": ast.Mult,
        "div": ast.Div,
        "floor_divide": ast.FloorDiv,
        "remainder": ast.Mod,
        "pow": ast.Pow,
        "and": ast.BitAnd,
        "or": ast.BitOr,
        "xor": ast.BitXor,
        "lshift": ast.LShift,
        "rshift": ast.RShift,
    }
)
_CASTS: Mapping[str, str] = MappingProxyType(
    {"torch.float": "torch.float32", "torch.long": "torch.int64", "torch.bool": "torch.bool"}
)
_NUMERIC: Mapping[str, str] = MappingProxyType(
    {"int": "int", "abs": "abs", "torch.float": "float", "torch.long": "int", "torch.bool": "bool", "round": "round"}
)
"""Numeric built-in functions of Python."""
_EXTREMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"max": ("max", "min"), "maximum": ("max", "min"), "min": ("min", "max"), "minimum": ("min", "max")}
)
"""Python function, and the parameter of the equivalent `clamp` with a scalar."""
_UNARY = frozenset(
    {
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1"),
        *("floor", "log", "log10", "log1p", "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt"),
        *("square", "tan", "tanh", "trunc"),
    }
)
_BINARY = frozenset({"fmod", "atan2", "logaddexp"})


def expression_code(
    tree: Node, operands: Sequence[ast.expr], numbers: Sequence[bool], assign: Callable[[ast.expr], ast.expr]
) -> Code:
    """Return the code of an expression over `operands`, which are tensors or scalars.

    `assign` takes an expression and returns the variable that it is assigned to.

    Raises:
        CodeError: a function or an operand has no form in Python.
    """
    done: dict[int, Code] = {}
    for node in postorder(tree):
        parts = [done.pop(id(part)) for part in node.arguments]
        done[id(node)] = _shallow(_generate_node(node, parts, operands, numbers), assign)
    return done[id(tree)]


def _shallow(code: Code, assign: Callable[[ast.expr], ast.expr]) -> Code:
    return Code(assign(code.tree), code.kind) if code.depth > MAX_DEPTH else code


def _generate_node(node: Node, parts: Sequence[Code], operands: Sequence[ast.expr], numbers: Sequence[bool]) -> Code:
    depth = 1 + max((part.depth for part in parts), default=0)
    match node:
        case Reference():
            if node.index >= len(operands):
                message = f"operand @{node.index} does not exist; the expression has {len(operands)} operands"
                raise CodeError(message)
            return Code(operands[node.index], ResultKind.NUMBER if numbers[node.index] else ResultKind.TENSOR)
        case Literal():
            return Code(_literal(node.value), ResultKind.NUMBER)
        case List():
            return Code(ast.List([part.tree for part in parts]), ResultKind.LIST, depth)
        case Call():
            return _call(node.text, parts)._replace(depth=depth)
        case _:
            message = f"unsupported expression {node.text}"
            raise CodeError(message)


def _literal(value: object) -> ast.expr:
    if not isinstance(value, str):
        return literal(value)
    if value not in DTYPES:
        message = f"unsupported constant {value!r}"
        raise CodeError(message)
    return path(value)


def _call(name: str, parts: Sequence[Code]) -> Code:
    trees = [part.tree for part in parts]
    is_number = all(part.kind is ResultKind.NUMBER for part in parts)
    kind = ResultKind.NUMBER if is_number else ResultKind.TENSOR
    if name == "size":
        return Code(call(attribute(trees[0], "size"), *trees[1:]), ResultKind.NUMBER if trees[1:] else ResultKind.LIST)
    if name in _OPERATORS and len(parts) == 2:
        return Code(ast.BinOp(trees[0], _OPERATORS[name](), trees[1]), kind)
    if name in _EXTREMES and len(parts) == 2:
        return _extreme(name, parts, kind)
    if is_number and name in _NUMERIC:
        return Code(call(_NUMERIC[name], *trees), kind)
    is_known = name in (_UNARY if len(parts) == 1 else _BINARY if len(parts) == 2 else ())
    if is_number and is_known:
        return Code(call(f"torch.{name}", *(call("torch.tensor", tree) for tree in trees)), ResultKind.TENSOR)
    if name in _CASTS and len(parts) == 1:
        return Code(call(attribute(trees[0], "to"), path(_CASTS[name])), kind)
    if is_known:
        return Code(call(f"torch.{name}", *_tensors(parts)), kind)
    message = f"unsupported function {name} of {len(parts)} arguments"
    raise CodeError(message)


def _tensors(parts: Sequence[Code]) -> list[ast.expr]:
    """Convert all operands to tensors: scalars get the element type of the first tensor."""
    first = next((part.tree for part in parts if part.kind is ResultKind.TENSOR), None)
    if first is None:
        message = "unsupported: a function whose arguments are all lists"
        raise CodeError(message)
    dtype = attribute(first, "dtype")
    return [
        part.tree if part.kind is ResultKind.TENSOR else call("torch.as_tensor", part.tree, dtype=dtype)
        for part in parts
    ]


def _extreme(name: str, parts: Sequence[Code], kind: ResultKind) -> Code:
    function, bound = _EXTREMES[name]
    if kind is ResultKind.NUMBER:
        return Code(call(function, parts[0].tree, parts[1].tree), kind)
    numbers = [part for part in parts if part.kind is ResultKind.NUMBER]
    if not numbers:
        return Code(call(f"torch.{function}imum", parts[0].tree, parts[1].tree), kind)
    tensor = next(part for part in parts if part is not numbers[0])
    return Code(call("torch.clamp", tensor.tree, **{bound: numbers[0].tree}), kind)
