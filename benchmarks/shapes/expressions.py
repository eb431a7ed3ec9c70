"""Evaluate dims in the syntax of each tool with integers for their symbols."""

from __future__ import annotations

import ast
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Number = int | Fraction

_CALLS: dict[str, Callable[..., Number]] = {
    "floor": lambda a: a // 1,
    "ceil": lambda a: -(-a // 1),
    "ceiling": lambda a: -(-a // 1),
    "max": lambda *several: max(several),
    "min": lambda *several: min(several),
    "mod": lambda a, b: a % b,
    "abs": lambda a: max(a, -a),
}

_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: Fraction(a) / Fraction(b),
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a ** int(b),
}


def value_of(text: str, symbols: Mapping[str, int]) -> int | None:
    """Return the integer value of an expression; `None` if it has other symbols or is no expression."""
    if text in symbols:
        return symbols[text]
    try:
        number = _number(ast.parse(text, mode="eval").body, symbols)
    except (SyntaxError, KeyError, ZeroDivisionError, TypeError):
        return None
    return int(number) if number == int(number) else None


def _number(node: ast.expr, symbols: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Constant(value=float(value)):
            return Fraction(value)
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, symbols)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_number(left, symbols), _number(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _CALLS[name.lower()](*(_number(each, symbols) for each in arguments))
        case _:
            raise TypeError(ast.dump(node))
