"""Expressions: operator precedence with a stack of our own, so that nesting costs memory and never Python's stack."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic
from graphport.formats.nnef.container.syntax import (
    Argument,
    Array,
    Binary,
    Builtin,
    Call,
    Comprehension,
    Edition,
    Expression,
    Logical,
    Loop,
    Name,
    Number,
    Range,
    Select,
    String,
    Subscript,
    Tuple,
    Unary,
)
from graphport.formats.nnef.container.token_cursor import Fault

if TYPE_CHECKING:
    from graphport.formats.nnef.container.token_cursor import TokenCursor

PRIMITIVES = {
    Edition.PROVISIONAL: frozenset(["extent", "scalar", "logical", "string"]),
    Edition.FINAL: frozenset(["integer", "scalar", "logical", "string"]),
}
"""Keywords of primitive types, which are also the names of casts."""

PRECEDENCE = {
    "in": 1,
    "&&": 2,
    "||": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "^": 6,
}
"""Precedence of binary operators; all are left associative."""
_BUILTINS = {edition: names | {"shape_of", "length_of", "range_of"} for edition, names in PRIMITIVES.items()}
_PREFIX = frozenset("+-!")
_UNARY = 7
_LOOSEST = 1
_SELECT = 0
_BRACKET = -1

_SOUND_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?")
_SOUND_STRING = re.compile(r"'[ -&(-\[\]-~]*'|\"[ !#-\[\]-~]*\"")


class _ConstructKind(Enum):
    BINARY = auto()
    UNARY = auto()
    IF = auto()
    ELSE = auto()
    GROUP = auto()
    ARRAY = auto()
    CALL = auto()
    BUILTIN = auto()
    SUBSCRIPT = auto()
    RANGE = auto()
    SOURCE = auto()
    CONDITION = auto()
    YIELD = auto()


class _Next(Enum):
    """Kind of token that is expected next in an expression."""

    OPERAND = auto()
    OPERATOR = auto()
    NOTHING = auto()


@dataclass(slots=True)
class _Construct:
    """An incomplete construct and its operands so far.

    `strength` is the precedence of the construct with regard to its left operand.
    """

    kind: _ConstructKind
    start: int
    strength: int = _BRACKET
    text: str = ""
    left: Expression | None = None
    right: Expression | None = None
    items: list[Expression] = field(default_factory=list[Expression])
    arguments: list[Argument] = field(default_factory=list[Argument])
    loops: list[Loop] = field(default_factory=list[Loop])
    name: Name | None = None
    generic: str | None = None


class Expressions:
    """Reads expressions of `tokens`, one at each call of `parse`."""

    def __init__(self, tokens: TokenCursor) -> None:
        self._tokens = tokens
        self._builtins = _BUILTINS[tokens.edition]
        self._types = PRIMITIVES[tokens.edition] | {"?"}
        self._open: list[_Construct] = []
        self._value: Expression = Logical(value=False)
        self._group: tuple[int, int] | None = None

    def take_group(self) -> tuple[int, int] | None:
        """Return the first parentheses around a single expression since the last call; syntax trees omit them."""
        found, self._group = self._group, None
        return found

    def parse(self) -> Expression:
        """Parse the expression at the current token; stop before the first token that does not continue it.

        Raises:
            Fault: there is no expression, or it is incomplete.
        """
        self._open.clear()
        step = _Next.OPERAND
        while step is not _Next.NOTHING:
            step = self._operand() if step is _Next.OPERAND else self._operator()
        return self._value

    # ── operand position ──

    def _operand(self) -> _Next:
        tokens = self._tokens
        lexeme = tokens.lexeme
        if len(self._open) > tokens.limits.nesting:
            message = f"the expression nesting is deeper than {tokens.limits.nesting} levels"
            raise Fault(
                Diagnostic(
                    "NNEF0207", message, tokens.here(), "set GRAPHPORT_LIMITS=nnef.nesting=N to raise the limit to N"
                )
            )
        if tokens.is_identifier(lexeme):
            return self._name()
        if lexeme in self._builtins:
            return self._builtin()
        if lexeme == "[":
            return self._array()
        if lexeme == "(":
            return self._push(_ConstructKind.GROUP)
        if lexeme in _PREFIX and lexeme:
            return self._push(_ConstructKind.UNARY, _UNARY)
        return self._literal()

    def _push(self, kind: _ConstructKind, strength: int = _BRACKET, left: Expression | None = None) -> _Next:
        """Open a construct with the current token, and advance."""
        tokens = self._tokens
        start = tokens.start if left is None else left.start
        self._open.append(_Construct(kind, start, strength, tokens.lexeme, left))
        tokens.advance()
        return _Next.OPERAND

    def _have(self, value: Expression) -> _Next:
        self._value = value
        return _Next.OPERATOR

    def _name(self) -> _Next:
        tokens = self._tokens
        name = tokens.name("an operand")
        generic = None
        if tokens.lexeme == "<" and tokens.peek(2) == ">" and tokens.peek(3) == "(" and tokens.peek() in self._types:
            tokens.advance()
            generic = tokens.advance()
            tokens.advance()
        elif tokens.lexeme != "(" or self._begins_statement():
            return self._have(name)
        self._push(_ConstructKind.CALL, left=name)
        self._open[-1].generic = generic
        if tokens.accept(")"):
            message = f"'{name.text}' is called without arguments"
            raise Fault(Diagnostic("NNEF0206", message, tokens.since(name.start), "pass at least one argument"))
        return self._argument(self._open[-1])

    def _argument(self, call: _Construct) -> _Next:
        tokens = self._tokens
        call.name = None
        call.right = None
        if tokens.peek() == "=":
            call.name = tokens.name("an argument's name")
            tokens.advance()
        return _Next.OPERAND

    def _builtin(self) -> _Next:
        tokens = self._tokens
        if tokens.peek() != "(":
            raise Fault(
                Diagnostic(
                    "NNEF0202",
                    f"'{tokens.lexeme}' is a keyword, not an identifier",
                    tokens.here(),
                    f"use a different name, or call the built-in function: {tokens.lexeme}(…)",
                )
            )
        start, lexeme = tokens.start, tokens.advance()
        self._push(_ConstructKind.BUILTIN)
        self._open[-1].start, self._open[-1].text = start, lexeme
        return _Next.OPERAND

    def _array(self) -> _Next:
        tokens = self._tokens
        start = tokens.start
        self._push(_ConstructKind.ARRAY)
        if tokens.accept("]"):
            self._open.pop()
            return self._have(Array((), start, tokens.last))
        if tokens.is_final and tokens.accept("for"):
            return self._loop(self._open[-1])
        return _Next.OPERAND

    def _loop(self, array: _Construct) -> _Next:
        tokens = self._tokens
        array.kind = _ConstructKind.SOURCE
        array.name = tokens.name("the name of an iterator")
        tokens.expect("in", "'in' and the array to iterate over")
        return _Next.OPERAND

    def _literal(self) -> _Next:
        tokens = self._tokens
        lexeme, start = tokens.lexeme, tokens.start
        if lexeme in ("true", "false"):
            tokens.advance()
            return self._have(Logical(lexeme == "true", start, tokens.last))
        is_number = "0" <= lexeme[:1] <= "9"
        if not is_number and lexeme[:1] not in ("'", '"'):
            raise self._no_operand()
        sound = _SOUND_NUMBER if is_number else _SOUND_STRING
        negative = bool(self._open) and self._open[-1].kind is _ConstructKind.UNARY and self._open[-1].text == "-"
        if not sound.fullmatch(lexeme) and tokens.examine(negative=negative):
            raise Fault(None)
        tokens.advance()
        return self._have((Number if is_number else String)(lexeme, start, tokens.last))

    def _no_operand(self) -> Fault:
        tokens = self._tokens
        if tokens.lexeme in tokens.keywords:
            message = f"'{tokens.lexeme}' is a keyword, not an identifier"
            return Fault(
                Diagnostic("NNEF0202", message, tokens.here(), f"use a different name, for example '{tokens.lexeme}_'")
            )
        remedy = "remove the extra comma" if self._open and tokens.lexeme in (")", "]") else None
        return tokens.fault("an expression", remedy)

    # ── after an operand ──

    def _operator(self) -> _Next:
        lexeme = self._tokens.lexeme
        if lexeme == "[" and not self._begins_statement():
            return self._subscript()
        if strength := PRECEDENCE.get(lexeme):
            self._check_edition(lexeme)
            self._reduce(strength)
            return self._push_binary(_ConstructKind.BINARY, strength)
        if lexeme == "if":
            self._reduce(_LOOSEST)
            if not (self._open and self._open[-1].kind is _ConstructKind.SOURCE):
                return self._push_binary(_ConstructKind.IF, _BRACKET)
        else:
            self._reduce(_SELECT)
        if not self._open:
            return _Next.NOTHING
        return self._go_on(self._open[-1])

    def _check_edition(self, operator: str) -> None:
        tokens = self._tokens
        if operator == "in" and not tokens.is_final:
            message = "the operator 'in' requires the final edition"
            raise Fault(Diagnostic("NNEF0213", message, tokens.here(), "compare the items one by one with '=='"))

    def _push_binary(self, kind: _ConstructKind, strength: int) -> _Next:
        if len(self._open) > self._tokens.limits.nesting:
            return _Next.OPERAND  # where the depth is a finding
        return self._push(kind, strength, self._value)

    def _subscript(self) -> _Next:
        tokens = self._tokens
        self._push(_ConstructKind.SUBSCRIPT, left=self._value)
        if tokens.lexeme != ":":
            return _Next.OPERAND
        self._open[-1].kind = _ConstructKind.RANGE
        tokens.advance()
        return self._end_range(self._open[-1])

    def _end_range(self, subscript: _Construct) -> _Next:
        if self._tokens.lexeme != "]":
            return _Next.OPERAND
        return self._finish(Range(_require(subscript.left), subscript.right, None))

    def _reduce(self, strength: int) -> None:
        """Finish the operators on top that bind at least as tightly."""
        value = self._value
        while self._open and self._open[-1].strength >= strength:
            top = self._open.pop()
            if top.kind is _ConstructKind.UNARY:
                value = Unary(top.text, value, top.start, value.stop)
            elif top.kind is _ConstructKind.BINARY:
                value = Binary(top.text, _require(top.left), value, top.start, value.stop)
            else:
                value = Select(_require(top.right), _require(top.left), value, top.start, value.stop)
        self._value = value

    def _finish(self, value: Expression) -> _Next:
        """Close the innermost construct with `value`, and advance."""
        value.start = self._open.pop().start
        self._tokens.advance()
        value.stop = self._tokens.last
        return self._have(value)

    def _go_on(self, top: _Construct) -> _Next:
        lexeme = self._tokens.lexeme
        match top.kind:
            case _ConstructKind.GROUP | _ConstructKind.ARRAY | _ConstructKind.CALL:
                return self._in_list(top, lexeme)
            case _ConstructKind.BUILTIN if lexeme == ")":
                return self._finish(Builtin(top.text, self._value))
            case _ConstructKind.SUBSCRIPT if lexeme == "]":
                return self._finish(Subscript(_require(top.left), self._value))
            case _ConstructKind.SUBSCRIPT if lexeme == ":":
                top.kind, top.right = _ConstructKind.RANGE, self._value
                self._tokens.advance()
                return self._end_range(top)
            case _ConstructKind.RANGE if lexeme == "]":
                return self._finish(Range(_require(top.left), top.right, self._value))
            case _ConstructKind.IF if lexeme == "else":
                top.kind, top.strength, top.right = _ConstructKind.ELSE, _SELECT, self._value
                self._tokens.advance()
                return _Next.OPERAND
            case _ConstructKind.SOURCE | _ConstructKind.CONDITION | _ConstructKind.YIELD:
                return self._in_comprehension(top, lexeme)
            case _:
                raise self._unclosed(top)

    def _in_list(self, top: _Construct, lexeme: str) -> _Next:
        tokens = self._tokens
        closing = "]" if top.kind is _ConstructKind.ARRAY else ")"
        if lexeme == "for" and top.kind is _ConstructKind.ARRAY and not tokens.is_final and not top.items:
            top.right = self._value
            tokens.advance()
            return self._loop(top)
        if lexeme not in (",", closing):
            raise self._unclosed(top)
        if top.kind is _ConstructKind.GROUP and lexeme == ")" and not top.items:
            self._open.pop()
            tokens.advance()
            self._group = self._group or (top.start, tokens.last)
            return _Next.OPERATOR
        if top.kind is _ConstructKind.CALL:
            start = self._value.start if top.name is None else top.name.start
            top.arguments.append(Argument(top.name and top.name.text, self._value, start, tokens.last))
        else:
            top.items.append(self._value)
        if lexeme == ",":
            tokens.advance()
            return self._argument(top) if top.kind is _ConstructKind.CALL else _Next.OPERAND
        return self._finish(_listed(top))

    def _in_comprehension(self, top: _Construct, lexeme: str) -> _Next:
        tokens = self._tokens
        if top.kind is _ConstructKind.SOURCE and lexeme in (",", "if", "yield", "]"):
            name = top.name
            if name is not None:
                top.loops.append(Loop(name, self._value, name.start, tokens.last))
                top.name = None
            if lexeme == "," and tokens.is_final:
                tokens.advance()
                return self._loop(top)
            if lexeme == "if":
                top.kind = _ConstructKind.CONDITION
                tokens.advance()
                return _Next.OPERAND
        elif top.kind is _ConstructKind.CONDITION:
            top.left = self._value
        body = top.right
        if tokens.is_final and lexeme == "yield" and top.kind is not _ConstructKind.YIELD:
            top.kind = _ConstructKind.YIELD
            tokens.advance()
            return _Next.OPERAND
        if top.kind is _ConstructKind.YIELD:
            body = self._value
        if lexeme != "]" or body is None:
            raise self._unclosed(top)
        return self._finish(Comprehension(tuple(top.loops), top.left, body))

    def _unclosed(self, top: _Construct) -> Fault:
        tokens = self._tokens
        expected = {
            _ConstructKind.GROUP: "',' or ')'",
            _ConstructKind.ARRAY: "',' or ']'",
            _ConstructKind.CALL: "',' or ')'",
            _ConstructKind.BUILTIN: "')'",
            _ConstructKind.SUBSCRIPT: "':' or ']'",
            _ConstructKind.SOURCE: "'if' or 'yield'" if tokens.is_final else "'if' or ']'",
            _ConstructKind.CONDITION: "'yield'" if tokens.is_final else "']'",
            _ConstructKind.IF: "'else'",
        }.get(top.kind, "']'")
        line = tokens.findings.source.position(top.start)[0]
        remedy = f"to continue the expression that begins in line {line}"
        if tokens.lexeme == "for" and top.kind is _ConstructKind.ARRAY:
            remedy = "a comprehension is written [for i in items yield i]"
        return tokens.fault(expected, remedy)

    def _begins_statement(self) -> bool:
        """Whether the bracket here opens the left side of the next statement: semicolons may be missing before it."""
        tokens = self._tokens
        if tokens.is_final or any(each.strength == _BRACKET for each in self._open) or not tokens.begins_line():
            return False
        return tokens.after_bracket() in ("=", ",")


def _require(operand: Expression | None) -> Expression:
    if operand is None:
        raise TypeError
    return operand


def _listed(top: _Construct) -> Expression:
    if top.kind is _ConstructKind.ARRAY:
        return Array(tuple(top.items))
    if top.kind is _ConstructKind.GROUP:
        return Tuple(tuple(top.items))
    name = _require(top.left)
    if not isinstance(name, Name):
        raise TypeError
    return Call(name.text, tuple(top.arguments), top.generic)
