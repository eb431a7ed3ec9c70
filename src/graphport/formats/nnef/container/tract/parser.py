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
from graphport.formats.nnef.container.tract.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from graphport.core.diagnostics import Source

    T = TypeVar("T")

_DEEPEST = 80
"""Levels of an expression or a type: reading and computing take some calls for each."""
_TIGHTEST = 7
_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter of a fragment; `default` is `None` where it must be given."""

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
    """Read the text of `source`.

    Raises:
        DiagnosticError: NNEF0201 and its like, where it stops being a text.
    """
    return _Parser(source).document()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._words = Tokens(source)
        self._depth = 0

    def document(self) -> Document:
        words = self._words
        found = Document(words.source)
        if not words.take("version"):
            raise words.fault("'version'", "write 'version 1.0;' first")
        words.advance()
        words.expect(";")
        while words.word == "extension":
            found.extensions.append(self._extension())
        while words.word == "fragment":
            fragment = self._fragment()
            found.fragments[fragment.name] = fragment
        if not words.take("graph"):
            raise words.fault("'fragment' or 'graph'")
        found.name = words.name("the graph's name")
        found.inputs = self._listed(lambda: words.name("an input's name"))
        words.expect("->")
        found.outputs = self._listed(lambda: words.name("an output's name"))
        found.body = self._body()
        if words.word:
            raise words.fault("the end of the text")
        return found

    def _extension(self) -> tuple[str, str]:
        """Parse an extension: its name and the rest of the line up to the semicolon, verbatim."""
        words = self._words
        words.advance()
        start = words.start
        stop = words.text.find(";", start)
        if stop < 0:
            raise words.fault("an extension's name and ';'")
        words.seek(stop)
        words.expect(";")
        name, _, rest = words.text[start:stop].strip().partition(" ")
        return name, rest.strip()

    def _listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        words = self._words
        words.expect("(")
        items: list[T] = []
        while words.word != ")":
            items.append(read())
            if not words.take(","):
                break
        words.expect(")")
        return tuple(items)

    # ── fragments ──

    def _fragment(self) -> Fragment:
        words = self._words
        start = words.start
        words.advance()
        name = words.name("a fragment's name")
        if words.take("<"):
            self._skip_to(">")
        formals = self._listed(self._formal)
        words.expect("->")
        results = self._listed(self._result)
        body = None if words.take(";") else self._body()
        return Fragment(name, formals, results, body, start)

    def _formal(self) -> Formal:
        words = self._words
        name = words.name("a parameter's name")
        words.expect(":")
        self._type()
        return Formal(name, self._expression() if words.take("=") else None)

    def _result(self) -> str:
        words = self._words
        name = words.name("a result's name")
        words.expect(":")
        self._type()
        return name

    def _type(self) -> None:
        words = self._words
        if words.word == "(":
            self._descend()
            self._listed(self._type)
            self._depth -= 1
        else:
            words.name("a type")
            if words.take("<"):
                self._skip_to(">")
        while words.word == "[" and words.peek() == "]":
            words.advance()
            words.advance()

    def _skip_to(self, word: str) -> None:
        words = self._words
        for _ in range(_MOST_PARTS):
            if words.take(word):
                return
            if words.word == f"{word}=":
                return
            words.advance()
        raise words.fault(f"'{word}'")

    # ── statements ──

    def _body(self) -> tuple[Assignment, ...]:
        words = self._words
        words.expect("{")
        statements: list[Assignment] = []
        while words.word != "}":
            start = words.start
            target = self._target()
            words.expect("=")
            value = self._expression()
            words.expect(";")
            statements.append(Assignment(target, value, start, words.last))
        words.expect("}")
        return tuple(statements)

    def _target(self) -> Expression:
        """Parse names in brackets of either kind or none, which are equivalent."""
        words = self._words
        start = words.start
        if words.word in ("(", "["):
            closing = ")" if words.advance() == "(" else "]"
            names = self._names(closing)
            words.expect(closing)
        else:
            names = self._names("=")
        return names[0] if len(names) == 1 and words.text[start] not in "[(" else Tuple(tuple(names), start, words.last)

    def _names(self, closing: str) -> list[Expression]:
        words = self._words
        names: list[Expression] = []
        while words.word != closing:
            start = words.start
            names.append(Name(words.name("a name"), start, words.last))
            if not words.take(","):
                break
        return names

    # ── expressions ──

    def _expression(self, strength: int = 1) -> Expression:
        words = self._words
        self._descend()
        left = self._operand()
        while (binds := PRECEDENCE.get(words.word, 0)) >= strength:
            operator = words.advance()
            right = self._expression(binds + 1)
            left = Binary(operator, left, right, left.start, words.last)
        self._depth -= 1
        return left

    def _descend(self) -> None:
        """Increase the nesting depth, which is not decreased after an error."""
        words = self._words
        if self._depth > _DEEPEST:
            span = Span(words.source, words.start, words.start + 1)
            message = f"the expression is nested deeper than {_DEEPEST} levels"
            raise DiagnosticError(Diagnostic("NNEF0207", message, span, "assign subexpressions to names"))
        self._depth += 1

    def _operand(self) -> Expression:
        words = self._words
        start, word = words.start, words.word
        if word in ("-", "!", "+"):
            words.advance()
            self._descend()
            operand = self._expression(_TIGHTEST)
            self._depth -= 1
            return Unary(word, operand, start, words.last)
        found, before = self._primary(start, word), self._depth
        while words.word == "[":
            words.advance()
            self._descend()
            index = self._expression()
            words.expect("]")
            found = Subscript(found, index, start, words.last)
        self._depth = before
        return found

    def _primary(self, start: int, word: str) -> Expression:
        words = self._words
        if word == "[":
            words.advance()
            items = self._parse_items("]")
            return Array(items, start, words.last)
        if word == "(":
            words.advance()
            items = self._parse_items(")")
            return items[0] if len(items) == 1 else Tuple(items, start, words.last)
        if word in ("true", "false"):
            words.advance()
            return Logical(word == "true", start, words.last)
        if word[:1] in QUOTES and word:
            words.advance()
            return String(word, start, words.last)
        if "0" <= word[:1] <= "9":
            return self._parse_number(start, word)
        name = words.name("an expression")
        if words.word == "<" and words.peek(2) == ">" and words.peek(3) == "(":
            return self._call(name, start, words.peek())
        return self._call(name, start, None) if words.word == "(" else Name(name, start, words.last)

    def _parse_number(self, start: int, word: str) -> Expression:
        words = self._words
        span = Span(words.source, start, start + len(word))
        finding = fault_of_number(word, span)
        if finding is not None and not word.endswith("."):
            raise DiagnosticError(finding)
        words.advance()
        return Number(f"{word}0" if word.endswith(".") else word, start, words.last)

    def _parse_items(self, closing: str) -> tuple[Expression, ...]:
        words = self._words
        items: list[Expression] = []
        while words.word != closing:
            items.append(self._expression())
            if not words.take(","):
                break
        words.expect(closing)
        return tuple(items)

    def _call(self, name: str, start: int, generic: str | None) -> Expression:
        words = self._words
        if generic is not None:
            for _ in range(3):
                words.advance()
        arguments = self._listed(self._argument)
        return Call(name, arguments, generic, start, words.last)

    def _argument(self) -> Argument:
        words = self._words
        start = words.start
        name = None
        if words.is_name() and words.peek() == "=":
            name = words.name("an argument's name")
            words.advance()
        return Argument(name, self._expression(), start, words.last)
