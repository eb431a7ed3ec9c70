"""Expressions of PNNX as expressions of Python on tensors and numbers."""

from __future__ import annotations

import re
from enum import Enum
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from graphport.expression.syntax import Call, List, Literal, Reference, postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.expression.syntax import Node


_WORD = re.compile(r"torch\.[a-z]\w*", re.ASCII)


class CodeError(Exception):
    """What has no form in Python; its text says what it is."""


class Number(Enum):
    """What a piece of code computes."""

    NUMBER = "a number"
    TENSOR = "a tensor"
    LIST = "a list"


class Code(NamedTuple):
    """A piece of code, and what it computes."""

    text: str
    kind: Number


_SIGNS: Mapping[str, str] = MappingProxyType(
    {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "div": "/",
        "floor_divide": "//",
        "remainder": "%",
        "pow": "**",
        "and": "&",
        "or": "|",
        "xor": "^",
        "lshift": "<<",
        "rshift": ">>",
    }
)
_CASTS: Mapping[str, str] = MappingProxyType(
    {"torch.float": "torch.float32", "torch.long": "torch.int64", "torch.bool": "torch.bool"}
)
_NUMERIC: Mapping[str, str] = MappingProxyType(
    {"int": "int", "abs": "abs", "torch.float": "float", "torch.long": "int", "torch.bool": "bool", "round": "round"}
)
"""Functions of numbers that Python has without a library."""
_EXTREMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"max": ("max", "min"), "maximum": ("max", "min"), "min": ("min", "max"), "minimum": ("min", "max")}
)
"""Python's function, and the bound of a clamp that does the same with a number."""
_ONE = frozenset(
    {
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1"),
        *("floor", "log", "log10", "log1p", "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt"),
        *("square", "tan", "tanh", "trunc"),
    }
)
_TWO = frozenset({"fmod", "atan2", "logaddexp"})


def expression_code(tree: Node, operands: Sequence[str], numbers: Sequence[bool]) -> Code:
    """The code of an expression of `operands`, of which some are numbers.

    Raises:
        CodeError: there is none for a function.
    """
    done: dict[int, Code] = {}
    for node in postorder(tree):
        done[id(node)] = _piece(node, [done[id(part)] for part in node.arguments], operands, numbers)
    found = done[id(tree)]
    is_wrapped = found.text.startswith("(") and isinstance(tree, Call) and tree.text in _SIGNS
    return Code(found.text[1:-1], found.kind) if is_wrapped else found


def _piece(node: Node, parts: Sequence[Code], operands: Sequence[str], numbers: Sequence[bool]) -> Code:
    match node:
        case Reference():
            return Code(operands[node.index], Number.NUMBER if numbers[node.index] else Number.TENSOR)
        case Literal():
            return Code(_literal(node.value), Number.NUMBER)
        case List():
            return Code(f"[{', '.join(part.text for part in parts)}]", Number.LIST)
        case _:
            return _called(node.text, parts)


def _literal(value: object) -> str:
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str) and not _WORD.fullmatch(value):
        message = f"the word {value!r}"
        raise CodeError(message)
    return value if isinstance(value, str) else repr(value)


def _called(name: str, parts: Sequence[Code]) -> Code:
    if name == "size":
        lengths = ", ".join(part.text for part in parts[1:])
        return Code(f"{parts[0].text}.size({lengths})", Number.NUMBER if lengths else Number.LIST)
    texts = [part.text for part in parts]
    is_number = all(part.kind is Number.NUMBER for part in parts)
    kind = Number.NUMBER if is_number else Number.TENSOR
    if name in _SIGNS and len(parts) == 2:
        return Code(f"({texts[0]} {_SIGNS[name]} {texts[1]})", kind)
    if name in _EXTREMES and len(parts) == 2:
        return _extreme(name, parts, kind)
    if is_number and name in _NUMERIC:
        return Code(f"{_NUMERIC[name]}({', '.join(texts)})", kind)
    if is_number:
        return Code(f"torch.{name}({', '.join(f'torch.tensor({text})' for text in texts)})", Number.TENSOR)
    if name in _CASTS:
        return Code(f"{texts[0]}.to({_CASTS[name]})", kind)
    if name in _ONE and len(parts) == 1:
        return Code(f"torch.{name}({texts[0]})", kind)
    if name in _TWO and len(parts) == 2:
        like = next(part.text for part in parts if part.kind is Number.TENSOR)
        given = [
            part.text if part.kind is Number.TENSOR else f"torch.as_tensor({part.text}, dtype={like}.dtype)"
            for part in parts
        ]
        return Code(f"torch.{name}({', '.join(given)})", kind)
    message = f"the function {name} of {len(parts)}"
    raise CodeError(message)


def _extreme(name: str, parts: Sequence[Code], kind: Number) -> Code:
    function, bound = _EXTREMES[name]
    if kind is Number.NUMBER:
        return Code(f"{function}({parts[0].text}, {parts[1].text})", kind)
    numbers = [part for part in parts if part.kind is Number.NUMBER]
    if not numbers:
        return Code(f"torch.{function}imum({parts[0].text}, {parts[1].text})", kind)
    tensor = next(part for part in parts if part.kind is Number.TENSOR)
    return Code(f"torch.clamp({tensor.text}, {bound}={numbers[0].text})", kind)
