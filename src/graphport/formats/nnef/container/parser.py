"""Parser: both editions to one syntax tree; all syntax errors are reported in one run.

Flat statements, most of a large model, take a fast path (`flat_statements`); the rest is parsed token by token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Source, Span, raise_errors
from graphport.formats.nnef.container.edition_detection import edition_of
from graphport.formats.nnef.container.expressions import PRIMITIVES, Expressions
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.flat_statements import FlatStatements
from graphport.formats.nnef.container.garbage_collection import paused_collection
from graphport.formats.nnef.container.lexer import IDENTIFIER
from graphport.formats.nnef.container.limits import DEFAULT, Limits
from graphport.formats.nnef.container.syntax import (
    Array,
    Assignment,
    Document,
    Edition,
    Expression,
    Extension,
    Fragment,
    Generic,
    Graph,
    Logical,
    Missing,
    Name,
    Number,
    Parameter,
    Result,
    String,
    Tuple,
    Unary,
    Version,
)
from graphport.formats.nnef.container.token_cursor import Fault, TokenCursor
from graphport.formats.nnef.container.type_parser import read_type

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

_NOT_IN_HEADERS = frozenset(["=", ",", ")", "]", ";", "}"])
"""Tokens that may follow a keyword used as an identifier, but never one that begins a definition."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document and its syntax errors, in order; faulty statements have a `Missing` value."""

    document: Document
    diagnostics: list[Diagnostic]


def parse(source: Source, edition: Edition | None = None, limits: Limits = DEFAULT) -> Parsed:
    """Parse the text of `source`; by default the edition is detected.

    Syntax errors are returned, not raised. Takes linear time.
    """
    text = source.text or ""
    with paused_collection():
        return _Parser(source, Edition(edition or edition_of(text)), limits).document()


def parse_fragments(source: Source) -> tuple[Fragment, ...]:
    """Read a text that is nothing but declarations in the notation of the final edition.

    Raises:
        DiagnosticError: it is something else.
    """
    return _Parser(source, Edition.FINAL, DEFAULT).fragments()


class _Parser:
    def __init__(self, source: Source, edition: Edition, limits: Limits) -> None:
        self._findings = Findings(source, limits.findings)
        self._tokens = TokenCursor(source.text or "", edition, self._findings, limits)
        self._expressions = Expressions(self._tokens)
        self._flat = FlatStatements(self._tokens.text, edition, self._findings, limits)
        self._extensions: list[Extension] = []
        self._fragments: list[Fragment] = []
        self._graph: Graph | None = None
        self._has_graph = False
        self._unread: set[str] = set()

    def document(self) -> Parsed:
        tokens = self._tokens
        version = self._recover(self._version)
        while tokens.lexeme:
            self._recover(self._definition)
        if not self._has_graph:
            self._error(
                "NNEF0205",
                "the document has no graph",
                tokens.here(),
                "add 'graph name( inputs ) -> ( outputs ) { … }'",
            )
        document = Document(
            tokens.edition,
            version,
            tuple(self._extensions),
            tuple(self._fragments),
            self._graph,
            self._findings.source,
            frozenset(self._unread),
            0,
            len(tokens.text),
        )
        return Parsed(document, self._findings.sorted_by_location())

    def fragments(self) -> tuple[Fragment, ...]:
        while self._tokens.lexeme:
            self._recover(self._definition)
        raise_errors(self._findings.sorted_by_location())
        return tuple(self._fragments)

    def _error(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self._findings.add(Diagnostic(code, message, span, help))

    def _span(self, node: Expression) -> Span:
        return Span(self._findings.source, node.start, node.stop)

    def _recover(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`; after an error return `None`, positioned at the next definition."""
        try:
            return read()
        except Fault as fault:
            self._note(fault)
        while self._tokens.lexeme and not self._at_definition():
            self._tokens.examine()
            self._tokens.advance()
        return None

    def _note(self, fault: Fault) -> None:
        if fault.finding is not None:
            self._findings.add(fault.finding)

    def _at_definition(self) -> bool:
        tokens = self._tokens
        begins = tokens.lexeme in ("fragment", "graph") or (tokens.lexeme == "extension" and tokens.is_final)
        return begins and tokens.peek() not in _NOT_IN_HEADERS

    # ── definitions ──

    def _version(self) -> Version:
        tokens = self._tokens
        start = tokens.start
        if tokens.lexeme != "version":
            example = "version 1.0;" if tokens.is_final else "version 1.0"
            message = "missing version at the beginning of the document"
            raise Fault(Diagnostic("NNEF0204", message, tokens.here(), f"write '{example}' in the first line"))
        tokens.advance()
        if not "0" <= tokens.lexeme[:1] <= "9":
            raise tokens.fault("the version's number", "write version 1.0")
        if tokens.examine():
            raise Fault(None)
        version = Version(tokens.lexeme, start)
        if not re.fullmatch(r"0*1\.0+", version.text):
            message = f"unsupported version {version.text}"
            self._error("NNEF0204", message, tokens.here(), "write 1.0, the only version, also for revisions 1.0.x")
        tokens.advance()
        self._end_version()
        version.stop = tokens.last
        return version

    def _end_version(self) -> None:
        tokens = self._tokens
        if tokens.is_final:
            self._end_statement("the version")
        elif tokens.lexeme == ";":
            message = "semicolon after the version, which the provisional edition does not allow"
            self._error("NNEF0213", message, tokens.here(), "remove it, or read the document as edition 'final'")
            tokens.advance()

    def _passes_slashes(self) -> bool:
        """Skip and report a comment in the syntax of other languages."""
        tokens = self._tokens
        start = tokens.start
        if tokens.text[start : start + 2] not in ("//", "/*"):
            return False
        span = Span(self._findings.source, start, start + 2)
        self._findings.add(
            Diagnostic(
                "NNEF0201",
                f"unsupported comment syntax '{tokens.text[start : start + 2]}'",
                span,
                "begin comments with '#'",
            )
        )
        end = tokens.text.find("\n", start)
        tokens.seek(len(tokens.text) if end < 0 else end)
        return True

    def _definition(self) -> None:
        tokens = self._tokens
        if self._passes_slashes():
            return
        match tokens.lexeme:
            case "extension":
                self._extension()
            case "fragment":
                self._fragment()
            case "graph":
                self._graph_definition()
            case _ if self._has_graph:
                self._after_graph("remove the text after the graph")
                raise Fault(None)
            case _:
                raise tokens.fault("'fragment' or 'graph'")

    def _after_graph(self, message: str) -> None:
        if self._has_graph and not self._tokens.examine():
            self._error("NNEF0205", message, self._tokens.here(), "move the graph to the end of the document")

    def _extension(self) -> None:
        tokens = self._tokens
        start = tokens.start
        if not tokens.is_final:
            message = "extension directives require the final edition"
            self._error("NNEF0213", message, tokens.here(), "read the document as edition 'final'")
        elif self._fragments or self._unread or self._has_graph:
            message = "an extension directive after a definition"
            self._error("NNEF0212", message, tokens.here(), "move it directly after the version")
        tokens.advance()
        named = [tokens.name("an extension's name")]
        is_spaced = False
        while (comma := tokens.accept(",")) or tokens.is_identifier(tokens.lexeme):
            is_spaced |= not comma
            named.append(tokens.name("an extension's name"))
        self._end_statement("an extension directive")
        self._extensions.append(Extension(tuple(named), start, tokens.last, is_spaced))

    def _fragment(self) -> None:
        tokens = self._tokens
        start = tokens.start
        self._after_graph("a fragment after the graph")
        tokens.advance()
        name: Name | None = None
        try:
            name = tokens.name("a fragment's name")
            generic = self._generic() if tokens.lexeme == "<" else None
            parameters = self._listed(self._parameter, "parameter")
            tokens.expect("->")
            results = self._listed(self._result, "result")
            body = self._fragment_body()
        except Fault as fault:
            self._note(fault)
            self._unread.add("" if name is None else name.text)
            self._skip_to_body()
            return
        self._fragments.append(Fragment(name, generic, parameters, results, body, start, tokens.last))

    def _fragment_body(self) -> tuple[Assignment, ...] | None:
        tokens = self._tokens
        if tokens.lexeme == "{":
            return self._body()
        if tokens.lexeme != ";":
            raise tokens.fault("'{' or ';'" if tokens.is_final else "'{'")
        if not tokens.is_final:
            message = "a fragment without a body, which the provisional edition requires"
            self._error("NNEF0213", message, tokens.here(), "add { … }, or read the document as edition 'final'")
        tokens.advance()
        return None

    def _skip_to_body(self) -> None:
        """After an error in a header, skip to its body, and parse it to report further errors."""
        tokens = self._tokens
        while tokens.lexeme not in ("{", "") and not self._at_definition():
            tokens.examine()
            tokens.advance()
        if tokens.lexeme == "{":
            self._body()

    def _generic(self) -> Generic:
        tokens = self._tokens
        start = tokens.start
        tokens.advance()
        tokens.expect("?")
        default = None
        if tokens.accept("="):
            if tokens.lexeme not in PRIMITIVES[tokens.edition]:
                raise tokens.fault("a type's name", "integer, scalar, logical or string")
            default = tokens.advance()
        if not tokens.accept_greater():
            raise tokens.fault("'>'")
        return Generic(default, start, tokens.last)

    def _listed(self, read: Callable[[], T], what: str) -> tuple[T, ...]:
        tokens = self._tokens
        tokens.expect("(")
        if tokens.lexeme == ")":
            message = f"missing {what}"
            raise Fault(Diagnostic("NNEF0206", message, tokens.here(), f"write at least one {what}"))
        items = [read()]
        while tokens.accept(","):
            items.append(read())
        tokens.expect(")", "',' or ')'")
        return tuple(items)

    def _parameter(self) -> Parameter:
        tokens = self._tokens
        start = tokens.start
        name = tokens.name("a parameter's name")
        tokens.expect(":", "':' and the parameter's type", "declare the type of the parameter")
        declared = read_type(tokens)
        default = self._default() if tokens.accept("=") else None
        return Parameter(name, declared, default, start, tokens.last)

    def _result(self) -> Result:
        tokens = self._tokens
        start = tokens.start
        name = tokens.name("a result's name")
        tokens.expect(":", "':' and the result's type", "declare the type of the result")
        return Result(name, read_type(tokens), start, tokens.last)

    def _graph_definition(self) -> None:
        tokens = self._tokens
        start = tokens.start
        self._after_graph("a second graph in the document")
        tokens.advance()
        try:
            name = tokens.name("the graph's name")
            parameters = self._listed(lambda: tokens.name("an input's name"), "input")
            tokens.expect("->")
            results = self._listed(lambda: tokens.name("an output's name"), "output")
            body = self._body()
        except Fault as fault:
            self._note(fault)
            self._has_graph = True
            self._skip_to_body()
            return
        if not self._has_graph:
            self._graph = Graph(name, parameters, results, body, start, tokens.last)
        self._has_graph = True

    # ── defaults ──

    def _default(self) -> Expression:
        tokens = self._tokens
        value = self._expressions.parse()
        items = [value]
        # Without parentheses a tuple ends where the next parameter begins.
        while not tokens.is_final and tokens.lexeme == "," and tokens.peek(2) != ":":
            tokens.advance()
            items.append(self._expressions.parse())
        if len(items) > 1:
            value = Tuple(tuple(items), value.start, tokens.last)
        if culprit := first_not_literal(value, allows_minus=tokens.is_final):
            span = self._span(culprit)
            raise Fault(
                Diagnostic(
                    "NNEF0209",
                    "a default value must consist of literals",
                    span,
                    "use numeric, string and logical literals",
                )
            )
        return value

    # ── statements ──

    def _body(self) -> tuple[Assignment, ...]:
        tokens = self._tokens
        opened = tokens.here()
        tokens.expect("{")
        body: list[Assignment] = []
        while True:
            count = len(body)
            offset = self._flat.read(tokens.start, body)
            if len(body) > count:
                tokens.seek(offset)
                tokens.last = body[-1].stop
            if tokens.lexeme == "}":
                tokens.advance()
                break
            if self._passes_slashes():
                continue
            if not tokens.lexeme or self._at_definition():
                fault = tokens.fault("'}'", f"unclosed body that begins in line {opened.line}")
                self._note(fault)
                break
            body.append(self._assignment())
        if not body:
            self._error("NNEF0206", "the body is empty", opened, "write at least one assignment")
        return tuple(body)

    def _assignment(self) -> Assignment:
        tokens = self._tokens
        start = tokens.start
        column = tokens.column() if tokens.begins_line() else -1
        target: Expression | None = None
        try:
            target = self._target()
            tokens.expect("=", help="write 'result = operation(…)'")
            value = self._value()
            self._end_statement("a statement")
        except Fault as fault:
            self._note(fault)
            missing = Missing(tokens.start, tokens.stop)
            target = target or self._guessed_target(start)
            self._skip_statement(start, column)
            return Assignment(target, missing, start, tokens.last)
        return Assignment(target, value, start, tokens.last, group=self._expressions.take_group())

    def _target(self) -> Expression:
        self._expressions.take_group()
        target = self._expression_list(needs_parentheses=False)
        group = self._expressions.take_group()
        if group is not None:
            span = Span(self._findings.source, *group)
            message = "parentheses around a single name on the left side"
            raise Fault(Diagnostic("NNEF0208", message, span, "remove the parentheses"))
        if culprit := _first_not_target(target):
            if isinstance(culprit, Logical):
                keyword = "true" if culprit.value else "false"
                message = f"'{keyword}' is a keyword, not an identifier"
                raise Fault(
                    Diagnostic(
                        "NNEF0202", message, self._span(culprit), f"use a different name, for example '{keyword}_'"
                    )
                )
            span = self._span(culprit)
            raise Fault(
                Diagnostic(
                    "NNEF0208",
                    "the left side of an assignment is not a name",
                    span,
                    "write a name, an array [a, b] or a tuple (a, b) of names",
                )
            )
        return target

    def _value(self) -> Expression:
        return self._expression_list(needs_parentheses=self._tokens.is_final)

    def _expression_list(self, *, needs_parentheses: bool) -> Expression:
        tokens = self._tokens
        first = self._expressions.parse()
        if tokens.lexeme != ",":
            return first
        comma = tokens.here()
        items = [first]
        while tokens.accept(","):
            items.append(self._expressions.parse())
        if needs_parentheses:
            raise Fault(Diagnostic("NNEF0210", "a tuple on the right side needs parentheses", comma, "write (a, b)"))
        return Tuple(tuple(items), first.start, tokens.last)

    def _end_statement(self, what: str) -> None:
        tokens = self._tokens
        if tokens.accept(";") or not tokens.is_final:
            return
        if not (tokens.begins_line() or tokens.lexeme in ("}", "")):
            raise tokens.fault("';'")
        message = f"missing ';' after {what}"
        self._error("NNEF0203", message, Span(self._findings.source, tokens.last - 1, tokens.last), "add ';' here")

    def _guessed_target(self, start: int) -> Expression:
        """Return the names before the first `=` of a malformed statement, so that later uses are not reported."""
        tokens = self._tokens
        head = tokens.text[start : tokens.start].partition("=")[0]
        names = [Name(match[0], start + match.start(), start + match.end()) for match in re.finditer(IDENTIFIER, head)]
        return Tuple(tuple(names), start, tokens.start)

    def _skip_statement(self, start: int, column: int) -> None:
        """Skip to the next statement: after a semicolon, or at a line that is not indented deeper than `column`."""
        tokens = self._tokens
        while tokens.lexeme and tokens.lexeme != "}" and not self._at_definition():
            if tokens.start > start and column >= 0 and tokens.begins_line() and tokens.column() <= column:
                return
            tokens.examine()
            if tokens.advance() == ";":
                return


def first_not_literal(value: Expression, *, allows_minus: bool) -> Expression | None:
    """Return the first subexpression of `value` that is not a literal."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Array | Tuple):
            waiting += reversed(node.items)
        elif isinstance(node, Unary) and node.operator == "-" and allows_minus and isinstance(node.operand, Number):
            continue
        elif not isinstance(node, Number | String | Logical):
            return node
    return None


def _first_not_target(target: Expression) -> Expression | None:
    waiting = [target]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Array | Tuple):
            waiting += reversed(node.items)
        elif not isinstance(node, Name):
            return node
    return None
