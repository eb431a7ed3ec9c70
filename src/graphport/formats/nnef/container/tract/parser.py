"""Parser of texts in tract's flavour, which extends the standard's grammar.

The syntax tree is the standard's. Types of parameters are parsed and ignored: tract has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.nnef.container.expressions import PRECEDENCE
from graphport.formats.nnef.container.lexer import QUOTES, fault_of_number
from graphport.formats.nnef.container.syntax import (
    Argument,
    Array,
    Assignment,
    Binary,
    Call,
    Expression,
    Logical,
    Name,
    Number,
    String,
    Subscript,
    Tuple,
    Unary,
)
from graphport.formats.nnef.container.tract.token_cursor import TokenCursor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from graphport.core.diagnostics import Source

    T = TypeVar("T")

_DEEPEST = 80
"""Levels of an expression or a type: parsing and evaluation recurse once per level."""
_TIGHTEST = 7
_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter of a fragment; `default` is `None` if an argument is required."""

    name: str
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment of the document; without a body it declares an operator of a registry."""

    name: str
    formals: tuple[Formal, ...]
    results: tuple[str, ...]
    body: tuple[Assignment, ...] | None
    start: int


@dataclass(slots=True)
class Document:
    """A parsed text: extension directives as (name, rest), fragments by name, and the graph."""

    source: Source
    extensions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    fragments: dict[str, Fragment] = field(default_factory=dict[str, Fragment])
    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    body: tuple[Assignment, ...] = ()


def parse(source: Source) -> Document:
    """Parse `graph.nnef` in the syntax of tract.

    Raises:
        DiagnosticError: NNEF0201 and other syntax errors.
    """
    return _Parser(source).document()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._tokens = TokenCursor(source)
        self._depth = 0

    def document(self) -> Document:
        tokens = self._tokens
        found = Document(tokens.source)
        if not tokens.accept("version"):
            raise tokens.fault("'version'", "write 'version 1.0;' first")
        tokens.advance()
        tokens.expect(";")
        while tokens.lexeme == "extension":
            found.extensions.append(self._extension())
        while tokens.lexeme == "fragment":
            fragment = self._fragment()
            found.fragments[fragment.name] = fragment
        if not tokens.accept("graph"):
            raise tokens.fault("'fragment' or 'graph'")
        found.name = tokens.name("the graph's name")
        found.inputs = self._listed(lambda: tokens.name("an input's name"))
        tokens.expect("->")
        found.outputs = self._listed(lambda: tokens.name("an output's name"))
        found.body = self._body()
        if tokens.lexeme:
            raise tokens.fault("the end of the document")
        return found

    def _extension(self) -> tuple[str, str]:
        """Parse an extension: its name and the rest of the line up to the semicolon, verbatim."""
        tokens = self._tokens
        tokens.advance()
        start = tokens.start
        stop = tokens.text.find(";", start)
        if stop < 0:
            raise tokens.fault("an extension's name and ';'")
        tokens.seek(stop)
        tokens.expect(";")
        name, _, rest = tokens.text[start:stop].strip().partition(" ")
        return name, rest.strip()

    def _listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        tokens = self._tokens
        tokens.expect("(")
        items: list[T] = []
        while tokens.lexeme != ")":
            items.append(read())
            if not tokens.accept(","):
                break
        tokens.expect(")")
        return tuple(items)

    # ── fragments ──

    def _fragment(self) -> Fragment:
        tokens = self._tokens
        start = tokens.start
        tokens.advance()
        name = tokens.name("a fragment's name")
        if tokens.accept("<"):
            self._skip_to(">")
        formals = self._listed(self._formal)
        tokens.expect("->")
        results = self._listed(self._result)
        body = None if tokens.accept(";") else self._body()
        return Fragment(name, formals, results, body, start)

    def _formal(self) -> Formal:
        tokens = self._tokens
        name = tokens.name("a parameter's name")
        tokens.expect(":")
        self._type()
        return Formal(name, self._expression() if tokens.accept("=") else None)

    def _result(self) -> str:
        tokens = self._tokens
        name = tokens.name("a result's name")
        tokens.expect(":")
        self._type()
        return name

    def _type(self) -> None:
        tokens = self._tokens
        if tokens.lexeme == "(":
            self._descend()
            self._listed(self._type)
            self._depth -= 1
        else:
            tokens.name("a type")
            if tokens.accept("<"):
                self._skip_to(">")
        while tokens.lexeme == "[" and tokens.peek() == "]":
            tokens.advance()
            tokens.advance()

    def _skip_to(self, lexeme: str) -> None:
        tokens = self._tokens
        for _ in range(_MOST_PARTS):
            if tokens.accept(lexeme):
                return
            if tokens.lexeme == f"{lexeme}=":
                return
            tokens.advance()
        raise tokens.fault(f"'{lexeme}'")

    # ── statements ──

    def _body(self) -> tuple[Assignment, ...]:
        tokens = self._tokens
        tokens.expect("{")
        statements: list[Assignment] = []
        while tokens.lexeme != "}":
            start = tokens.start
            target = self._target()
            tokens.expect("=")
            value = self._expression()
            tokens.expect(";")
            statements.append(Assignment(target, value, start, tokens.last))
        tokens.expect("}")
        return tuple(statements)

    def _target(self) -> Expression:
        """Parse names in brackets of either kind or none, which are equivalent."""
        tokens = self._tokens
        start = tokens.start
        if tokens.lexeme in ("(", "["):
            closing = ")" if tokens.advance() == "(" else "]"
            names = self._names(closing)
            tokens.expect(closing)
        else:
            names = self._names("=")
        return (
            names[0] if len(names) == 1 and tokens.text[start] not in "[(" else Tuple(tuple(names), start, tokens.last)
        )

    def _names(self, closing: str) -> list[Expression]:
        tokens = self._tokens
        names: list[Expression] = []
        while tokens.lexeme != closing:
            start = tokens.start
            names.append(Name(tokens.name("a name"), start, tokens.last))
            if not tokens.accept(","):
                break
        return names

    # ── expressions ──

    def _expression(self, strength: int = 1) -> Expression:
        tokens = self._tokens
        self._descend()
        left = self._operand()
        while (binds := PRECEDENCE.get(tokens.lexeme, 0)) >= strength:
            operator = tokens.advance()
            right = self._expression(binds + 1)
            left = Binary(operator, left, right, left.start, tokens.last)
        self._depth -= 1
        return left

    def _descend(self) -> None:
        """Increase the nesting depth, which is not decreased after an error."""
        tokens = self._tokens
        if self._depth > _DEEPEST:
            span = Span(tokens.source, tokens.start, tokens.start + 1)
            message = f"the expression is nested deeper than {_DEEPEST} levels"
            raise DiagnosticError(Diagnostic("NNEF0207", message, span, "assign subexpressions to names"))
        self._depth += 1

    def _operand(self) -> Expression:
        tokens = self._tokens
        start, lexeme = tokens.start, tokens.lexeme
        if lexeme in ("-", "!", "+"):
            tokens.advance()
            self._descend()
            operand = self._expression(_TIGHTEST)
            self._depth -= 1
            return Unary(lexeme, operand, start, tokens.last)
        found, before = self._primary(start, lexeme), self._depth
        while tokens.lexeme == "[":
            tokens.advance()
            self._descend()
            index = self._expression()
            tokens.expect("]")
            found = Subscript(found, index, start, tokens.last)
        self._depth = before
        return found

    def _primary(self, start: int, lexeme: str) -> Expression:
        tokens = self._tokens
        if lexeme == "[":
            tokens.advance()
            items = self._parse_items("]")
            return Array(items, start, tokens.last)
        if lexeme == "(":
            tokens.advance()
            items = self._parse_items(")")
            return items[0] if len(items) == 1 else Tuple(items, start, tokens.last)
        if lexeme in ("true", "false"):
            tokens.advance()
            return Logical(lexeme == "true", start, tokens.last)
        if lexeme[:1] in QUOTES and lexeme:
            tokens.advance()
            return String(lexeme, start, tokens.last)
        if "0" <= lexeme[:1] <= "9":
            return self._parse_number(start, lexeme)
        name = tokens.name("an expression")
        if tokens.lexeme == "<" and tokens.peek(2) == ">" and tokens.peek(3) == "(":
            return self._call(name, start, tokens.peek())
        return self._call(name, start, None) if tokens.lexeme == "(" else Name(name, start, tokens.last)

    def _parse_number(self, start: int, lexeme: str) -> Expression:
        tokens = self._tokens
        span = Span(tokens.source, start, start + len(lexeme))
        finding = fault_of_number(lexeme, span)
        if finding is not None and not lexeme.endswith("."):
            raise DiagnosticError(finding)
        tokens.advance()
        return Number(f"{lexeme}0" if lexeme.endswith(".") else lexeme, start, tokens.last)

    def _parse_items(self, closing: str) -> tuple[Expression, ...]:
        tokens = self._tokens
        items: list[Expression] = []
        while tokens.lexeme != closing:
            items.append(self._expression())
            if not tokens.accept(","):
                break
        tokens.expect(closing)
        return tuple(items)

    def _call(self, name: str, start: int, generic: str | None) -> Expression:
        tokens = self._tokens
        if generic is not None:
            for _ in range(3):
                tokens.advance()
        arguments = self._listed(self._argument)
        return Call(name, arguments, generic, start, tokens.last)

    def _argument(self) -> Argument:
        tokens = self._tokens
        start = tokens.start
        name = None
        if tokens.is_name() and tokens.peek() == "=":
            name = tokens.name("an argument's name")
            tokens.advance()
        return Argument(name, self._expression(), start, tokens.last)
