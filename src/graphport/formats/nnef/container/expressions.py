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
from graphport.formats.nnef.container.words import Fault

if TYPE_CHECKING:
    from graphport.formats.nnef.container.words import Words

PRIMITIVES = {
    Edition.PROVISIONAL: frozenset(["extent", "scalar", "logical", "string"]),
    Edition.FINAL: frozenset(["integer", "scalar", "logical", "string"]),
}
"""Words that name a primitive type, and cast to it."""

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
    """What may follow in an expression."""

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
    """Reads expressions of `words`, one at each call of `parse`."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._builtins = _BUILTINS[words.edition]
        self._types = PRIMITIVES[words.edition] | {"?"}
        self._open: list[_Construct] = []
        self._value: Expression = Logical(value=False)
        self._group: tuple[int, int] | None = None

    def take_group(self) -> tuple[int, int] | None:
        """The first parentheses around a single expression since the last call of this: trees do not keep them."""
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
        words = self._words
        word = words.word
        if len(self._open) > words.limits.nesting:
            message = f"the expression nesting is deeper than {words.limits.nesting} levels"
            raise Fault(Diagnostic("NNEF0207", message, words.here(), "GRAPHPORT_LIMITS=nnef.nesting=N allows more"))
        if words.is_identifier(word):
            return self._name()
        if word in self._builtins:
            return self._builtin()
        if word == "[":
            return self._array()
        if word == "(":
            return self._push(_ConstructKind.GROUP)
        if word in _PREFIX and word:
            return self._push(_ConstructKind.UNARY, _UNARY)
        return self._literal()

    def _push(self, kind: _ConstructKind, strength: int = _BRACKET, left: Expression | None = None) -> _Next:
        """Open a construct with the current token, and advance."""
        words = self._words
        start = words.start if left is None else left.start
        self._open.append(_Construct(kind, start, strength, words.word, left))
        words.advance()
        return _Next.OPERAND

    def _have(self, value: Expression) -> _Next:
        self._value = value
        return _Next.OPERATOR

    def _name(self) -> _Next:
        words = self._words
        name = words.name("an operand")
        generic = None
        if words.word == "<" and words.peek(2) == ">" and words.peek(3) == "(" and words.peek() in self._types:
            words.advance()
            generic = words.advance()
            words.advance()
        elif words.word != "(" or self._begins_statement():
            return self._have(name)
        self._push(_ConstructKind.CALL, left=name)
        self._open[-1].generic = generic
        if words.take(")"):
            message = f"'{name.text}' is called without arguments"
            raise Fault(Diagnostic("NNEF0206", message, words.since(name.start), "every operation takes at least one"))
        return self._argument(self._open[-1])

    def _argument(self, call: _Construct) -> _Next:
        words = self._words
        call.name = None
        call.right = None
        if words.peek() == "=":
            call.name = words.name("an argument's name")
            words.advance()
        return _Next.OPERAND

    def _builtin(self) -> _Next:
        words = self._words
        if words.peek() != "(":
            raise Fault(
                Diagnostic(
                    "NNEF0202",
                    f"'{words.word}' is a keyword, not an identifier",
                    words.here(),
                    f"use a different name, or call the built-in function: {words.word}(…)",
                )
            )
        start, word = words.start, words.advance()
        self._push(_ConstructKind.BUILTIN)
        self._open[-1].start, self._open[-1].text = start, word
        return _Next.OPERAND

    def _array(self) -> _Next:
        words = self._words
        start = words.start
        self._push(_ConstructKind.ARRAY)
        if words.take("]"):
            self._open.pop()
            return self._have(Array((), start, words.last))
        if words.is_final and words.take("for"):
            return self._loop(self._open[-1])
        return _Next.OPERAND

    def _loop(self, array: _Construct) -> _Next:
        words = self._words
        array.kind = _ConstructKind.SOURCE
        array.name = words.name("the name of an iterator")
        words.expect("in", "'in' and the array to go through")
        return _Next.OPERAND

    def _literal(self) -> _Next:
        words = self._words
        word, start = words.word, words.start
        if word in ("true", "false"):
            words.advance()
            return self._have(Logical(word == "true", start, words.last))
        is_number = "0" <= word[:1] <= "9"
        if not is_number and word[:1] not in ("'", '"'):
            raise self._no_operand()
        sound = _SOUND_NUMBER if is_number else _SOUND_STRING
        negative = bool(self._open) and self._open[-1].kind is _ConstructKind.UNARY and self._open[-1].text == "-"
        if not sound.fullmatch(word) and words.examine(negative=negative):
            raise Fault(None)
        words.advance()
        return self._have((Number if is_number else String)(word, start, words.last))

    def _no_operand(self) -> Fault:
        words = self._words
        if words.word in words.keywords:
            message = f"'{words.word}' is a keyword, not an identifier"
            return Fault(
                Diagnostic("NNEF0202", message, words.here(), f"use a different name, for example '{words.word}_'")
            )
        remedy = "there is one comma too many" if self._open and words.word in (")", "]") else None
        return words.fault("an expression", remedy)

    # ── after an operand ──

    def _operator(self) -> _Next:
        word = self._words.word
        if word == "[" and not self._begins_statement():
            return self._subscript()
        if strength := PRECEDENCE.get(word):
            self._check_edition(word)
            self._reduce(strength)
            return self._push_binary(_ConstructKind.BINARY, strength)
        if word == "if":
            self._reduce(_LOOSEST)
            if not (self._open and self._open[-1].kind is _ConstructKind.SOURCE):
                return self._push_binary(_ConstructKind.IF, _BRACKET)
        else:
            self._reduce(_SELECT)
        if not self._open:
            return _Next.NOTHING
        return self._go_on(self._open[-1])

    def _check_edition(self, operator: str) -> None:
        words = self._words
        if operator == "in" and not words.is_final:
            message = "the operator 'in' belongs to the final edition"
            raise Fault(Diagnostic("NNEF0213", message, words.here(), "compare the items one by one with '=='"))

    def _push_binary(self, kind: _ConstructKind, strength: int) -> _Next:
        if len(self._open) > self._words.limits.nesting:
            return _Next.OPERAND  # where the depth is a finding
        return self._push(kind, strength, self._value)

    def _subscript(self) -> _Next:
        words = self._words
        self._push(_ConstructKind.SUBSCRIPT, left=self._value)
        if words.word != ":":
            return _Next.OPERAND
        self._open[-1].kind = _ConstructKind.RANGE
        words.advance()
        return self._end_range(self._open[-1])

    def _end_range(self, subscript: _Construct) -> _Next:
        if self._words.word != "]":
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
        self._words.advance()
        value.stop = self._words.last
        return self._have(value)

    def _go_on(self, top: _Construct) -> _Next:
        word = self._words.word
        match top.kind:
            case _ConstructKind.GROUP | _ConstructKind.ARRAY | _ConstructKind.CALL:
                return self._in_list(top, word)
            case _ConstructKind.BUILTIN if word == ")":
                return self._finish(Builtin(top.text, self._value))
            case _ConstructKind.SUBSCRIPT if word == "]":
                return self._finish(Subscript(_require(top.left), self._value))
            case _ConstructKind.SUBSCRIPT if word == ":":
                top.kind, top.right = _ConstructKind.RANGE, self._value
                self._words.advance()
                return self._end_range(top)
            case _ConstructKind.RANGE if word == "]":
                return self._finish(Range(_require(top.left), top.right, self._value))
            case _ConstructKind.IF if word == "else":
                top.kind, top.strength, top.right = _ConstructKind.ELSE, _SELECT, self._value
                self._words.advance()
                return _Next.OPERAND
            case _ConstructKind.SOURCE | _ConstructKind.CONDITION | _ConstructKind.YIELD:
                return self._in_comprehension(top, word)
            case _:
                raise self._unclosed(top)

    def _in_list(self, top: _Construct, word: str) -> _Next:
        words = self._words
        closing = "]" if top.kind is _ConstructKind.ARRAY else ")"
        if word == "for" and top.kind is _ConstructKind.ARRAY and not words.is_final and not top.items:
            top.right = self._value
            words.advance()
            return self._loop(top)
        if word not in (",", closing):
            raise self._unclosed(top)
        if top.kind is _ConstructKind.GROUP and word == ")" and not top.items:
            self._open.pop()
            words.advance()
            self._group = self._group or (top.start, words.last)
            return _Next.OPERATOR
        if top.kind is _ConstructKind.CALL:
            start = self._value.start if top.name is None else top.name.start
            top.arguments.append(Argument(top.name and top.name.text, self._value, start, words.last))
        else:
            top.items.append(self._value)
        if word == ",":
            words.advance()
            return self._argument(top) if top.kind is _ConstructKind.CALL else _Next.OPERAND
        return self._finish(_listed(top))

    def _in_comprehension(self, top: _Construct, word: str) -> _Next:
        words = self._words
        if top.kind is _ConstructKind.SOURCE and word in (",", "if", "yield", "]"):
            name = top.name
            if name is not None:
                top.loops.append(Loop(name, self._value, name.start, words.last))
                top.name = None
            if word == "," and words.is_final:
                words.advance()
                return self._loop(top)
            if word == "if":
                top.kind = _ConstructKind.CONDITION
                words.advance()
                return _Next.OPERAND
        elif top.kind is _ConstructKind.CONDITION:
            top.left = self._value
        body = top.right
        if words.is_final and word == "yield" and top.kind is not _ConstructKind.YIELD:
            top.kind = _ConstructKind.YIELD
            words.advance()
            return _Next.OPERAND
        if top.kind is _ConstructKind.YIELD:
            body = self._value
        if word != "]" or body is None:
            raise self._unclosed(top)
        return self._finish(Comprehension(tuple(top.loops), top.left, body))

    def _unclosed(self, top: _Construct) -> Fault:
        words = self._words
        expected = {
            _ConstructKind.GROUP: "',' or ')'",
            _ConstructKind.ARRAY: "',' or ']'",
            _ConstructKind.CALL: "',' or ')'",
            _ConstructKind.BUILTIN: "')'",
            _ConstructKind.SUBSCRIPT: "':' or ']'",
            _ConstructKind.SOURCE: "'if' or 'yield'" if words.is_final else "'if' or ']'",
            _ConstructKind.CONDITION: "'yield'" if words.is_final else "']'",
            _ConstructKind.IF: "'else'",
        }.get(top.kind, "']'")
        line = words.findings.source.position(top.start)[0]
        remedy = f"to go on with the expression that begins in line {line}"
        if words.word == "for" and top.kind is _ConstructKind.ARRAY:
            remedy = "a comprehension is written [for i in items yield i]"
        return words.fault(expected, remedy)

    def _begins_statement(self) -> bool:
        """Whether the bracket here opens the left side of the next statement: semicolons may be missing before it."""
        words = self._words
        if words.is_final or any(each.strength == _BRACKET for each in self._open) or not words.begins_line():
            return False
        return words.after_bracket() in ("=", ",")


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
