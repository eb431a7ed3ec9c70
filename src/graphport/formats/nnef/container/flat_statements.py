"""Fast path for flat statements: `a = op(b, [c, d], k = [(1, 1), (2, 2)], s = 'x');`.

Nearly every statement of a large model is flat. One regular expression per argument is several times faster than
reading token by token; all other text goes to the general parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.call_text import CallText, FlatCall
from graphport.formats.nnef.container.expressions import PRIMITIVES, Expressions
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.lexer import COMMENT, IDENTIFIER, SPACE
from graphport.formats.nnef.container.syntax import (
    Argument,
    Array,
    Assignment,
    Call,
    Edition,
    Expression,
    Logical,
    Name,
    Number,
    String,
    Tuple,
    Unary,
    is_literal,
)
from graphport.formats.nnef.container.token_cursor import KEYWORDS, Fault, TokenCursor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.formats.nnef.container.limits import Limits

_S = rf"{SPACE}*+"
_NUMBER = r"-?[0-9]{1,18}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?(?![0-9A-Za-z_.])"
_STRING = r"'[ -&(-\[\]-~]*'|\"[ !#-\[\]-~]*\""

SKIP = re.compile(rf"(?:{SPACE}++|{COMMENT})*+")
_LIST = rf"{IDENTIFIER}(?:{_S},{_S}{IDENTIFIER})*+"
_HEAD = re.compile(rf"({_LIST}|\[{_S}{_LIST}{_S}\]){_S}={_S}({IDENTIFIER}){_S}(?:<({IDENTIFIER})>{_S})?\({_S}")
_NAME = re.compile(IDENTIFIER)
_ARGUMENT = re.compile(
    rf"(?:({IDENTIFIER}){_S}={_S})?"
    rf"(?:({IDENTIFIER})|({_NUMBER})|({_STRING})|(\[[\w\s.,()-]*+\]))"
    rf"{_S}(?:(,){_S}|\))",
    re.ASCII,
)
_END = re.compile(rf"{_S}(;)")
_END_OR_NEXT = re.compile(
    rf"{_S}(;)|{SKIP.pattern}(?=\}}|(?!(?:if|in|else|for)\b)[A-Za-z_]|\[{_S}{_LIST}{_S}\]{_S}=(?!=))"
)
_WORD = r"[A-Za-z_][A-Za-z0-9_]*+"
_NAMED = rf"{_WORD}(?!{_S}=)"
CALL = re.compile(
    rf"({_WORD}){_S}={_S}({_WORD}){_S}(?:<({_WORD})>{_S})?\({_S}({_NAMED}(?:{_S},{_S}{_NAMED})*+){_S}"
    rf"([,)][^;#'\"]*+(?:(?:'[^'\n]*+'|\"[^\"\n]*+\")[^;#'\"]*+)*+);"
)
"""A name, an operation, names of tensors, and the text after them up to the semicolon."""
_INTEGER = r"(?:0|[1-9][0-9]{0,17})"
_INTEGERS = re.compile(rf"\[{_S}{_INTEGER}{_S}(?:,{_S}{_INTEGER}{_S})*+\]")
_DIGITS = re.compile("[0-9]++")
_PAIR = re.compile(rf"\({_S}({_INTEGER}){_S},{_S}({_INTEGER}){_S}\)")
_PAIRS = re.compile(rf"\[{_S}{_PAIR.pattern}{_S}(?:,{_S}{_PAIR.pattern}{_S})*+\]")
"""The most frequent arrays: integers per axis, and paddings."""
_NEW = CallText("", None, 0)
_LETTER = re.compile(r"[A-Za-z_]")

_MOST_FORMS = 4096
_LONGEST = 200
"""Characters of an array that is read here; longer ones are rare, and never repeated."""


class FlatStatements:
    """Reads flat statements (calls without nested expressions) by patterns, without the parser."""

    def __init__(self, text: str, edition: Edition, findings: Findings, limits: Limits) -> None:
        self._text = text
        self._edition = edition
        self._findings = findings
        self._limits = limits
        self._is_final = edition is Edition.FINAL
        self._keywords = KEYWORDS[edition]
        self._generics = PRIMITIVES[edition] if self._is_final else frozenset[str]()
        self._end = _END if self._is_final else _END_OR_NEXT
        self._templates: dict[str, tuple[Expression, ...] | None] = {}
        self._forms: dict[tuple[str, str | None, int, str], CallText | None] = {}

    def read(self, offset: int, body: list[Assignment]) -> int:
        """Append the flat statements from `offset` on to `body`; return the offset of the first other text."""
        text, skip = self._text, SKIP.match
        while True:
            space = skip(text, offset)
            start = space.end() if space else offset
            statement = self.statement(start)
            if statement is None:
                return start
            body.append(statement)
            offset = statement.stop

    def _formed(self, start: int) -> Assignment | None:
        """Parse a statement that calls an operation; the text after its leading tensors is parsed once per form."""
        match = CALL.match(self._text, start)
        if match is None:
            return None
        target, operation, generic, named, behind = match.groups()
        tensors = named.split(",") if "," in named else [named]
        key = operation, generic, len(tensors), behind
        form = self._forms.get(key, _NEW)
        if form is _NEW:
            form = self._parse_form(match, len(tensors))
            if len(self._forms) < _MOST_FORMS:
                self._forms[key] = form
        if form is None:
            return None
        if len(tensors) > 1:
            tensors = [each.strip() for each in tensors]
        if not self._keywords.isdisjoint(tensors) or target in self._keywords:
            return None
        call = FlatCall(
            form,
            tensors,
            self._parse_arguments_at,
            match.start(4),
            match.start(2),
            match.start(5) + len(behind.rstrip()),
        )
        return Assignment(Name(target, start, start + len(target)), call, start, match.end(), is_flat=True)

    def _parse_form(self, match: re.Match[str], count: int) -> CallText | None:
        """Return the form of the first statement of a kind; `None` if it has names after its leading tensors."""
        operation, generic = match[2], match[3]
        if operation in self._keywords or (generic and generic not in self._generics) or not self._is_final:
            return None
        arguments: list[Argument] = []
        stop = self._arguments(match.start(4), arguments)
        if not stop or stop != match.start(5) + len(match[5].rstrip()) or len(arguments) < count:
            return None
        behind = [argument.value for argument in arguments[count:]]
        is_known = all(
            is_literal(each.items) if isinstance(each, Array) else not isinstance(each, Name) for each in behind
        )
        is_plain = all(each.name is None and isinstance(each.value, Name) for each in arguments[:count])
        return CallText(operation, generic, count) if is_known and is_plain else None

    def _parse_arguments_at(self, offset: int) -> tuple[Argument, ...]:
        arguments: list[Argument] = []
        self._arguments(offset, arguments)
        return tuple(arguments)

    def statement(self, start: int) -> Assignment | None:
        """Parse the flat statement at `start`; `None` if there is none."""
        formed = self._formed(start)
        if formed is not None:
            return formed
        head = _HEAD.match(self._text, start)
        if head is None:
            return None
        names, operation, generic = head.groups()
        keywords = self._keywords
        if operation in keywords or (generic and generic not in self._generics):
            return None
        target = self._target(names, start)
        if target is None:
            return None
        arguments: list[Argument] = []
        stop = self._arguments(head.end(), arguments)
        end = self._end.match(self._text, stop) if stop else None
        if end is None:
            return None
        call = Call(operation, tuple(arguments), generic, head.start(2), stop)
        stop = end.end() if end[1] else stop
        return Assignment(target, call, start, stop, is_flat=True)

    def _target(self, text: str, start: int) -> Expression | None:
        """Parse the left side of a statement: a name, or an array or tuple of names."""
        if text in self._keywords:
            return None
        if "," not in text and text[0] != "[":
            return Name(text, start, start + len(text))
        names = [Name(match[0], start + match.start(), start + match.end()) for match in _NAME.finditer(text)]
        if any(name.text in self._keywords for name in names):
            return None
        return (Array if text[0] == "[" else Tuple)(tuple(names), start, start + len(text))

    def _arguments(self, offset: int, arguments: list[Argument]) -> int:
        """Append the arguments from `offset` on; return where the call ends, 0 if this is no flat call."""
        text, keywords, match_argument = self._text, self._keywords, _ARGUMENT.match
        while match := match_argument(text, offset):
            name, identifier, number, string, array, comma = match.groups()
            value: Expression | None
            if identifier is not None:
                start, stop = match.span(2)
                value = self._name(identifier, start, stop)
            elif array is not None:
                start, stop = match.span(5)
                value = self._array(array, start, stop)
            elif number is not None:
                start, stop = match.span(3)
                value = self._parse_number(number, start, stop)
            else:
                start, stop = match.span(4)
                value = String(string, start, stop)
            if value is None or name in keywords:
                return 0
            arguments.append(Argument(name, value, start if name is None else offset, stop))
            offset = match.end()
            if comma is None:
                return offset
        return 0

    def _name(self, text: str, start: int, stop: int) -> Expression | None:
        if text not in self._keywords:
            return Name(text, start, stop)
        return Logical(text == "true", start, stop) if text in ("true", "false") else None

    def _parse_number(self, text: str, start: int, stop: int) -> Expression | None:
        if text[0] != "-":
            return Number(text, start, stop)
        # The provisional edition has no negative numbers in flat statements.
        return Unary("-", Number(text[1:], start + 1, stop), start, stop) if self._is_final else None

    def _array(self, text: str, start: int, stop: int) -> Expression | None:
        if len(text) > _LONGEST:
            return None
        if text in self._templates:
            template = self._templates[text]
        else:
            template = self._template(text)
            if not _LETTER.search(text):  # arrays with names rarely repeat
                self._templates[text] = template
        return None if template is None else Array(template, start, stop, start)

    def _template(self, text: str) -> tuple[Expression, ...] | None:
        """Parse the array `text` with relative positions; `None` if it is malformed or not flat."""
        if _INTEGERS.fullmatch(text):
            return tuple([Number(match[0], match.start(), match.end()) for match in _DIGITS.finditer(text)])
        if _PAIRS.fullmatch(text):
            return tuple([_pair(match) for match in _PAIR.finditer(text)])
        own = Findings(self._findings.source, 0)
        tokens = TokenCursor(text, self._edition, own, self._limits)
        try:
            array = Expressions(tokens).parse()
        except Fault:
            return None
        if tokens.lexeme or own.has_errors or not isinstance(array, Array) or not self._is_flat(array.items):
            return None
        return array.items

    def _is_flat(self, items: Iterable[Expression]) -> bool:
        """Whether `items` are names, numbers and tuples of them."""
        for item in items:
            if isinstance(item, Tuple) and not any(isinstance(each, Tuple | Array) for each in item.items):
                is_flat = self._is_flat(item.items)
            elif isinstance(item, Unary):
                is_flat = self._is_final and item.operator == "-" and isinstance(item.operand, Number)
            else:
                is_flat = isinstance(item, Name | Number | Logical)
            if not is_flat:
                return False
        return True


def _pair(match: re.Match[str]) -> Tuple:
    items = (Number(match[1], *match.span(1)), Number(match[2], *match.span(2)))
    return Tuple(items, match.start(), match.end())
