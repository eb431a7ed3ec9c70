"""Python source built as a syntax tree: text from a model file cannot inject code.

Names are checked identifiers, values are literals of typed values. `source` prints statements.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from math import copysign, isfinite, isnan
from typing import TYPE_CHECKING, Any

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_MAX_NAME = 100
_BUILTINS = frozenset(dir(builtins))


class CodeError(Exception):
    """An operator or a value without a form in Python; the text names it."""


class Names:
    """Unique identifiers for values and layers. None is a keyword, a builtin, private or reserved."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._used = {*reserved, *_BUILTINS}
        self._counts: dict[str, int] = {}

    def make(self, text: str, prefix: str) -> str:
        """Return an identifier similar to `text`; `prefix` is prepended if it does not start with an ASCII letter."""
        base = _OTHER.sub("_", text[:_MAX_NAME])
        if not base[:1].isalpha():
            base = f"{prefix}{base}"
        found = base
        while found in self._used or keyword.iskeyword(found):
            self._counts[base] = count = self._counts.get(base, 1) + 1
            found = f"{base}_{count}"
        self._used.add(found)
        return found


def checked(name: str) -> str:
    """`name` if it is a public ASCII identifier and no keyword.

    Raises:
        CodeError: it is not.
    """
    if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name) or len(name) > _MAX_NAME:
        message = f"{name[:_MAX_NAME]!r} is not a name in Python"
        raise CodeError(message)
    return name


def path(name: str) -> ast.expr:
    """A name, or attributes of one: `torch.fft.rfft`.

    Raises:
        CodeError: a part is not an identifier.
    """
    first, *rest = name.split(".")
    found: ast.expr = ast.Name(checked(first))
    for part in rest:
        found = ast.Attribute(found, checked(part))
    return found


def attribute(value: ast.expr, name: str) -> ast.expr:
    """`value.name`, where `name` may have several parts."""
    for part in name.split("."):
        value = ast.Attribute(value, checked(part))
    return value


def call(function: ast.expr | str, *arguments: ast.expr, **keywords: ast.expr) -> ast.expr:
    """`function(arguments, **keywords)`."""
    callee = path(function) if isinstance(function, str) else function
    return ast.Call(callee, list(arguments), [ast.keyword(checked(key), value) for key, value in keywords.items()])


def literal(value: Any) -> ast.expr:
    """Return a literal of a bool, int, float, complex, string or `None`, or of a tuple of these types.

    Raises:
        CodeError: the value has another type.
    """
    if is_sequence(value):
        return ast.Tuple([literal(item) for item in value])
    if value is None or isinstance(value, bool | str):
        return ast.Constant(value)
    if isinstance(value, int | float):
        return _number_literal(value)
    if isinstance(value, complex):
        return call("complex", _number_literal(value.real), _number_literal(value.imag))
    message = f"a value of type {type(value).__name__}"
    raise CodeError(message)


def _number_literal(value: float) -> ast.expr:
    # A negative constant would be printed without parentheses before `**` and attributes.
    if isinstance(value, float) and not isfinite(value):
        return call("float", ast.Constant("nan" if isnan(value) else "inf" if value > 0 else "-inf"))
    if value < 0 or (isinstance(value, float) and copysign(1, value) < 0):
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def assign(targets: Sequence[ast.expr], value: ast.expr, *, is_tuple: bool = False) -> ast.stmt:
    """`a = value` or `a, b = value`; with `is_tuple`, `a, = value`."""
    target = ast.Tuple(list(targets)) if is_tuple or len(targets) > 1 else targets[0]
    return ast.Assign([target], value)


def source(statements: Iterable[ast.stmt]) -> list[str]:
    """The text of each statement, one line each."""
    return [ast.unparse(ast.fix_missing_locations(statement)) for statement in statements]


def merged(*mappings: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """Keyword arguments of a call.

    Raises:
        CodeError: two have one name.
    """
    found: dict[str, ast.expr] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            if key in found:
                message = f"duplicate argument {key!r}"
                raise CodeError(message)
            found[key] = value
    return found
