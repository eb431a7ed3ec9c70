"""Mutation operators for Python code: comparisons, arithmetic, constants, conditions, removed statements.

The list of mutations of a module depends on its text alone; `faulty(text, n)` is its syntax tree with mutation n. Code
without an effect on results is excluded: annotations, decorators, docstrings, f-strings, `strict=`, a `return None` at
the end of a function, a `continue` at the end of a loop, and limits (`MOST_…`) of 64 or more: such a limit is
approximate, and its tests refer to its name.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_EXACT = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose mutation is their negation."""
_REMOVED = (ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Delete)
_SYMMETRIC = frozenset(("min", "max"))
"""Functions that do not depend on the order of two operands."""
_BOUND, _LARGE = re.compile(r"_?MOST(_[A-Z0-9_]+)?"), 64
"""Names of limits, and the smallest limit that is not mutated."""
_WITHOUT_RESULT = frozenset(("annotation", "returns", "decorator_list", "type_params"))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """A location for one mutation; `apply` changes the syntax tree that contains `node`."""

    kind: str
    node: ast.AST
    statement: ast.stmt
    in_function: bool
    apply: Callable[[], object]
    """Changes the tree."""


def faulty(text: str, number: int) -> tuple[ast.Module, str, str]:
    """Return the tree of a module with mutation `number`, and the statement or expression before and after."""
    tree = ast.parse(text)
    site = sites(tree)[number]
    before = _words(site.node)
    site.apply()
    return ast.fix_missing_locations(tree), before, "" if site.kind == "removed" else _words(site.node)


def _words(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return ast.unparse(node.test)
    return ast.unparse(node).partition("\n")[0]


def sites(tree: ast.Module) -> list[Site]:
    """Return every location for a mutation, in source order."""
    idle = {node for each in ast.walk(tree) for node in _idle(each)}
    return list(_below(tree, None, idle, in_function=False))


def statements(tree: ast.Module) -> list[ast.stmt]:
    """Return every statement except docstrings, in source order."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not _is_text(node)]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _below(node: ast.AST, statement: ast.stmt | None, idle: set[ast.stmt], *, in_function: bool) -> Iterator[Site]:
    for name, content in ast.iter_fields(node):
        if name in _WITHOUT_RESULT:
            continue
        # Defaults are evaluated when the function is defined, the body when it is called.
        inside = in_function or (isinstance(node, ast.FunctionDef | ast.Lambda) and name == "body")
        for child in content if isinstance(content, list) else [content]:
            if not isinstance(child, ast.AST) or _is_left_out(child):
                continue
            own = child if isinstance(child, ast.stmt) else statement
            if own is not None:
                for kind, apply in _faults(child):
                    yield Site(kind, child, own, inside, apply)
                if isinstance(child, ast.stmt) and isinstance(content, list) and child not in idle:
                    yield from _removal(content, child, in_function=inside)
            yield from _below(child, own, idle, in_function=inside)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.keyword(arg="strict"):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() as number)):
            return number >= _LARGE and _BOUND.fullmatch(name) is not None
        case _:
            return _is_text(node)


def _idle(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements at the end of a function or a loop whose removal changes nothing."""
    match node:
        case ast.FunctionDef():
            for end in _ends(node.body):
                returned = end.value if isinstance(end, ast.Return) else end
                if returned is None or (isinstance(returned, ast.Constant) and returned.value is None):
                    yield end
        case ast.For() | ast.While():
            yield from (end for end in _ends(node.body) if isinstance(end, ast.Continue))
        case _:
            pass


def _ends(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that can be the last one to run."""
    match body[-1] if body else None:
        case ast.If() as last:
            yield from _ends(last.body)
            yield from _ends(last.orelse)
        case ast.Match() as last:
            for case in last.cases:
                yield from _ends(case.body)
        case ast.With() as last:
            yield from _ends(last.body)
        case ast.stmt() as last:
            yield last
        case _:
            pass


def _removal(body: list[ast.stmt], node: ast.stmt, *, in_function: bool) -> Iterator[Site]:
    is_stored = isinstance(node, ast.Assign) and not any(
        isinstance(each, ast.Name | ast.Tuple) for each in node.targets
    )
    is_called = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Yield | ast.YieldFrom)
    if isinstance(node, _REMOVED) or is_stored or is_called:
        place = body.index(node)

        def remove() -> None:
            body[place] = ast.copy_location(ast.Pass(), node)

        yield Site("removed", node, node, in_function, remove)


def _faults(node: ast.AST) -> Iterator[tuple[str, Callable[[], object]]]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                yield "comparison", _item(node.ops, place, COMPARISONS[type(operator)]())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield "arithmetic", _setter(node, "op", ARITHMETIC[type(node.op)]())
        case ast.BoolOp():
            yield "boolean", _setter(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "condition", _setter(node, "operand", _negated(node.operand))
        case ast.UnaryOp(op=ast.USub()):
            yield "arithmetic", _setter(node, "op", ast.UAdd())
        case ast.Constant(value=bool()):
            yield "constant", _setter(node, "value", not node.value)
        case ast.Constant(value=int() | float() as number):
            for step in (1, -1):
                other = number + step
                yield "constant", _setter(node, "value", other if other != number else number * (1 + step / 2))
        case ast.If() | ast.While() | ast.IfExp() if _wants_negation(node.test):
            yield "condition", _setter(node, "test", _negated(node.test))
        case ast.comprehension():
            for place, test in enumerate(node.ifs):
                if _wants_negation(test):
                    yield "condition", _item(node.ifs, place, _negated(test))
        case ast.Call(args=[first, second, *_]) if not any(isinstance(x, ast.Starred) for x in (first, second)):
            is_symmetric = isinstance(node.func, ast.Name) and node.func.id in _SYMMETRIC
            if not is_symmetric and ast.dump(first) != ast.dump(second):
                yield "swapped", _swap(node.args)
        case _:
            pass


def _wants_negation(test: ast.expr) -> bool:
    """Return whether the negation of `test` differs from the mutations of its operators."""
    is_exact = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _EXACT)
    return not is_exact and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _setter(node: ast.AST, name: str, content: object) -> Callable[[], object]:
    return lambda: setattr(node, name, content)


def _item(items: list[T], place: int, content: T) -> Callable[[], object]:
    return lambda: items.__setitem__(place, content)


def _swap(items: list[ast.expr]) -> Callable[[], object]:
    return lambda: items.__setitem__(slice(0, 2), [items[1], items[0]])
