"""Format dims like SymPy's `srepr`: `Mul(Integer(2), Symbol('s6', positive=True, integer=True))`.

The free symbols of the inputs' shapes are backed symbols (`s0`, `s1`, …). A dim with another symbol depends on data and
is written as a new unbacked symbol (`u0`, `u1`, …).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from graphport.core.dims import Functions, Symbolic, evaluate, prefixed, symbols

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.core.dims import Dim, Extents

_FUNCTIONS = Functions("Add", "Sub", "Mul", "FloorDiv", "Max", "Min")
_BACKED, _UNBACKED = "positive=True, integer=True", "integer=True"
_EXAMPLE = 4
"""Size hint of a symbol, clipped to its bounds; torch does not specialize it."""
_MOST = (1 << 63) - 1


class Sizes:
    """The symbols of one program."""

    def __init__(self, extents: Extents) -> None:
        self._extents = extents
        self._names: dict[str, str] = {}
        self._hints: dict[str, int] = {}
        self._ranges: dict[str, tuple[int | None, int | None]] = {}
        self._unbacked: dict[Dim, str] = {}
        self._texts: dict[Dim, dict[str, Any]] = {}
        self._floats = 0

    def declare(self, shapes: Iterable[Sequence[Dim]]) -> None:
        """Declare the free symbols of the inputs' shapes as backed symbols."""
        for dim in (dim for shape in shapes for dim in shape):
            for name, symbol in symbols(self._extents.expanded(dim)).items():
                if name in self._names:
                    continue
                low, high = symbol.bounds
                low = max(low or 0, 0)
                self._names[name] = f"s{len(self._names)}"
                self._hints[name] = min(max(_EXAMPLE, low), _MOST if high is None else high)
                self._ranges[self._names[name]] = low, high

    @property
    def range_constraints(self) -> dict[str, dict[str, int | None]]:
        """Return the bounds of all symbols."""
        found = {name: {"min_val": low, "max_val": high} for name, (low, high) in self._ranges.items()}
        return found | {name: {"min_val": 0, "max_val": None} for name in self._unbacked.values()}

    def size(self, dim: Dim) -> dict[str, Any]:
        """Encode a dim as `as_int` or `as_expr`."""
        if isinstance(dim, int):
            return {"as_int": dim}
        found = self._texts.get(dim)
        if found is None:
            text, hint = self._expression(dim)
            found = self._texts[dim] = _expression_of(text, hint)
        return found

    def fresh(self) -> dict[str, Any]:
        """Create an unbacked symbol."""
        return _expression_of(self._unknown(("", len(self._unbacked))), None)

    def unknown_number(self, *, is_bool: bool) -> dict[str, Any]:
        """Encode a float or a boolean that depends on data."""
        if is_bool:
            return _expression_of(f"Equality({self._unknown(('', len(self._unbacked)))}, Integer(1))", None)
        self._floats += 1
        return _expression_of(f"Symbol('zuf{self._floats - 1}', real=True)", None)

    @staticmethod
    def strided(sizes: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the sizes of a dense tensor, and its strides."""
        strides: list[dict[str, Any]] = []
        step: dict[str, Any] = {"as_int": 1}
        for size in reversed(sizes):
            strides.append(step)
            step = _product(step, size)
        return sizes, strides[::-1]

    def _expression(self, dim: Symbolic) -> tuple[str, int | None]:
        whole = self._extents.expanded(dim)
        if isinstance(whole, int):
            return f"Integer({whole})", whole
        names = symbols(whole)
        if all(name in self._names for name in names):
            text = prefixed(whole, _FUNCTIONS, self._symbol)
            if text is not None:
                return _in_sympy(text), evaluate(whole, {name: self._hints[name] for name in names})
        return self._unknown(whole), None

    def _symbol(self, dim: Symbolic) -> str | None:
        found = symbols(dim)
        name = next(iter(found))
        return self._names.get(name) if len(found) == 1 and found[name] == dim else None

    def _unknown(self, dim: Any) -> str:
        name = self._unbacked.setdefault(dim, f"u{len(self._unbacked)}")
        return f"Symbol('{name}', {_UNBACKED})"


def _expression_of(text: str, hint: int | None) -> dict[str, Any]:
    return {"as_expr": {"expr_str": text, "hint": None if hint is None else {"as_int": hint}}}


def _product(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    if "as_int" in x and "as_int" in y:
        return {"as_int": x["as_int"] * max(y["as_int"], 1)}
    if x == {"as_int": 1}:
        return y
    if y in ({"as_int": 0}, {"as_int": 1}):
        return x
    hints = [_hint(each) for each in (x, y)]
    known = [hint for hint in hints if hint is not None]
    product = known[0] * known[1] if len(known) == len(hints) else None
    return _expression_of(f"Mul({_text(x)}, {_text(y)})", product)


def _text(size: dict[str, Any]) -> str:
    return f"Integer({size['as_int']})" if "as_int" in size else size["as_expr"]["expr_str"]


def _hint(size: dict[str, Any]) -> int | None:
    if "as_int" in size:
        return size["as_int"]
    hint = size["as_expr"]["hint"]
    return None if hint is None else hint["as_int"]


def _in_sympy(text: str) -> str:
    """Convert nested calls to the syntax of SymPy's `srepr`."""
    return _printed(ast.parse(text, mode="eval").body)


def _printed(tree: ast.expr) -> str:
    match tree:
        case ast.Constant(value=number):
            return f"Integer({number})"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)):
            return f"Integer(-{number})"
        case ast.Name(id=name):
            return f"Symbol('{name}', {_BACKED})"
        case ast.Call(func=ast.Name(id="Sub"), args=[x, y]):
            return f"Add({_printed(x)}, Mul(Integer(-1), {_printed(y)}))"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return f"{name}({', '.join(map(_printed, arguments))})"
        case _:
            message = f"cannot write {ast.unparse(tree)} as a size expression"
            raise ValueError(message)
