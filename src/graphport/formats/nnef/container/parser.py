"""Parser: both editions to one syntax tree; all syntax errors are reported in one run.

Flat statements, most of a large model, take a fast path (`flat`); the rest is parsed token by token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Source, Span, raise_errors
from graphport.formats.nnef.container.collection import paused_collection
from graphport.formats.nnef.container.declared import read_type
from graphport.formats.nnef.container.edition_detection import edition_of
from graphport.formats.nnef.container.expressions import PRIMITIVES, Expressions
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.flat import FlatStatements
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
from graphport.formats.nnef.container.words import Fault, Words

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
        self._words = Words(source.text or "", edition, self._findings, limits)
        self._expressions = Expressions(self._words)
        self._flat = FlatStatements(self._words.text, edition, self._findings, limits)
        self._extensions: list[Extension] = []
        self._fragments: list[Fragment] = []
        self._graph: Graph | None = None
        self._has_graph = False
        self._unread: set[str] = set()

    def document(self) -> Parsed:
        words = self._words
        version = self._recover(self._version)
        while words.word:
            self._recover(self._definition)
        if not self._has_graph:
            self._error(
                "NNEF0205", "the document has no graph", words.here(), "graph name( inputs ) -> ( outputs ) { … }"
            )
        document = Document(
            words.edition,
            version,
            tuple(self._extensions),
            tuple(self._fragments),
            self._graph,
            self._findings.source,
            frozenset(self._unread),
            0,
            len(words.text),
        )
        return Parsed(document, self._findings.sorted_by_location())

    def fragments(self) -> tuple[Fragment, ...]:
        while self._words.word:
            self._recover(self._definition)
        raise_errors(self._findings.sorted_by_location())
        return tuple(self._fragments)

    def _error(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self._findings.add(Diagnostic(code, message, span, help))

    def _span(self, node: Expression) -> Span:
        return Span(self._findings.source, node.start, node.stop)

    def _recover(self, read: Callable[[], T]) -> T | None:
        """What `read` reads, or `None` and the next definition after a fault, which is noted."""
        try:
            return read()
        except Fault as fault:
            self._note(fault)
        while self._words.word and not self._at_definition():
            self._words.examine()
            self._words.advance()
        return None

    def _note(self, fault: Fault) -> None:
        if fault.finding is not None:
            self._findings.add(fault.finding)

    def _at_definition(self) -> bool:
        words = self._words
        begins = words.word in ("fragment", "graph") or (words.word == "extension" and words.is_final)
        return begins and words.peek() not in _NOT_IN_HEADERS

    # ── definitions ──

    def _version(self) -> Version:
        words = self._words
        start = words.start
        if words.word != "version":
            example = "version 1.0;" if words.is_final else "version 1.0"
            message = "the document does not begin with its version"
            raise Fault(Diagnostic("NNEF0204", message, words.here(), f"write '{example}' first"))
        words.advance()
        if not "0" <= words.word[:1] <= "9":
            raise words.fault("the version's number", "the only version is 1.0")
        if words.examine():
            raise Fault(None)
        version = Version(words.word, start)
        if not re.fullmatch(r"0*1\.0+", version.text):
            message = f"version {version.text} is not known"
            self._error("NNEF0204", message, words.here(), "the only version is 1.0, for all its minor revisions")
        words.advance()
        self._end_version()
        version.stop = words.last
        return version

    def _end_version(self) -> None:
        words = self._words
        if words.is_final:
            self._end_statement("the version")
        elif words.word == ";":
            message = "the provisional edition has no semicolon after the version"
            self._error("NNEF0213", message, words.here(), "leave it out, or read the document as edition 'final'")
            words.advance()

    def _passes_slashes(self) -> bool:
        """Skip and report a comment in the syntax of other languages."""
        words = self._words
        start = words.start
        if words.text[start : start + 2] not in ("//", "/*"):
            return False
        span = Span(self._findings.source, start, start + 2)
        self._findings.add(
            Diagnostic(
                "NNEF0201",
                f"'{words.text[start : start + 2]}' does not begin a comment",
                span,
                "comments begin with '#'",
            )
        )
        end = words.text.find("\n", start)
        words.seek(len(words.text) if end < 0 else end)
        return True

    def _definition(self) -> None:
        words = self._words
        if self._passes_slashes():
            return
        match words.word:
            case "extension":
                self._extension()
            case "fragment":
                self._fragment()
            case "graph":
                self._graph_definition()
            case _ if self._has_graph:
                self._after_graph("nothing may follow the graph")
                raise Fault(None)
            case _:
                raise words.fault("'fragment' or 'graph'")

    def _after_graph(self, message: str) -> None:
        if self._has_graph and not self._words.examine():
            self._error("NNEF0205", message, self._words.here(), "the graph is the last part of a document")

    def _extension(self) -> None:
        words = self._words
        start = words.start
        if not words.is_final:
            message = "extension directives belong to the final edition"
            self._error("NNEF0213", message, words.here(), "read the document as edition 'final'")
        elif self._fragments or self._unread or self._has_graph:
            message = "an extension directive follows a definition"
            self._error("NNEF0212", message, words.here(), "move it up, below the version")
        words.advance()
        named = [words.name("an extension's name")]
        is_spaced = False
        while (comma := words.take(",")) or words.is_identifier(words.word):
            is_spaced |= not comma
            named.append(words.name("an extension's name"))
        self._end_statement("an extension directive")
        self._extensions.append(Extension(tuple(named), start, words.last, is_spaced))

    def _fragment(self) -> None:
        words = self._words
        start = words.start
        self._after_graph("a fragment stands after the graph")
        words.advance()
        name: Name | None = None
        try:
            name = words.name("a fragment's name")
            generic = self._generic() if words.word == "<" else None
            parameters = self._listed(self._parameter, "parameter")
            words.expect("->")
            results = self._listed(self._result, "result")
            body = self._fragment_body()
        except Fault as fault:
            self._note(fault)
            self._unread.add("" if name is None else name.text)
            self._skip_to_body()
            return
        self._fragments.append(Fragment(name, generic, parameters, results, body, start, words.last))

    def _fragment_body(self) -> tuple[Assignment, ...] | None:
        words = self._words
        if words.word == "{":
            return self._body()
        if words.word != ";":
            raise words.fault("'{' or ';'" if words.is_final else "'{'")
        if not words.is_final:
            message = "a fragment has a body in the provisional edition"
            self._error("NNEF0213", message, words.here(), "add { … }, or read the document as edition 'final'")
        words.advance()
        return None

    def _skip_to_body(self) -> None:
        """After a fault in a header: go to the body, and read it for its own mistakes."""
        words = self._words
        while words.word not in ("{", "") and not self._at_definition():
            words.examine()
            words.advance()
        if words.word == "{":
            self._body()

    def _generic(self) -> Generic:
        words = self._words
        start = words.start
        words.advance()
        words.expect("?")
        default = None
        if words.take("="):
            if words.word not in PRIMITIVES[words.edition]:
                raise words.fault("a type's name", "integer, scalar, logical or string")
            default = words.advance()
        if not words.take_greater():
            raise words.fault("'>'")
        return Generic(default, start, words.last)

    def _listed(self, read: Callable[[], T], what: str) -> tuple[T, ...]:
        words = self._words
        words.expect("(")
        if words.word == ")":
            message = f"there is no {what}"
            raise Fault(Diagnostic("NNEF0206", message, words.here(), f"at least one {what} is needed"))
        items = [read()]
        while words.take(","):
            items.append(read())
        words.expect(")", "',' or ')'")
        return tuple(items)

    def _parameter(self) -> Parameter:
        words = self._words
        start = words.start
        name = words.name("a parameter's name")
        words.expect(":", "':' and the parameter's type", "parameters of a fragment are typed")
        declared = read_type(words)
        default = self._default() if words.take("=") else None
        return Parameter(name, declared, default, start, words.last)

    def _result(self) -> Result:
        words = self._words
        start = words.start
        name = words.name("a result's name")
        words.expect(":", "':' and the result's type", "results of a fragment are typed")
        return Result(name, read_type(words), start, words.last)

    def _graph_definition(self) -> None:
        words = self._words
        start = words.start
        self._after_graph("there is a second graph")
        words.advance()
        try:
            name = words.name("the graph's name")
            parameters = self._listed(lambda: words.name("an input's name"), "input")
            words.expect("->")
            results = self._listed(lambda: words.name("an output's name"), "output")
            body = self._body()
        except Fault as fault:
            self._note(fault)
            self._has_graph = True
            self._skip_to_body()
            return
        if not self._has_graph:
            self._graph = Graph(name, parameters, results, body, start, words.last)
        self._has_graph = True

    # ── defaults ──

    def _default(self) -> Expression:
        words = self._words
        value = self._expressions.parse()
        items = [value]
        # Without parentheses a tuple ends where the next parameter begins.
        while not words.is_final and words.word == "," and words.peek(2) != ":":
            words.advance()
            items.append(self._expressions.parse())
        if len(items) > 1:
            value = Tuple(tuple(items), value.start, words.last)
        if culprit := first_not_literal(value, allows_minus=words.is_final):
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
        words = self._words
        opened = words.here()
        words.expect("{")
        body: list[Assignment] = []
        while True:
            count = len(body)
            offset = self._flat.read(words.start, body)
            if len(body) > count:
                words.seek(offset)
                words.last = body[-1].stop
            if words.word == "}":
                words.advance()
                break
            if self._passes_slashes():
                continue
            if not words.word or self._at_definition():
                fault = words.fault("'}'", f"the body that begins in line {opened.line} is not closed")
                self._note(fault)
                break
            body.append(self._assignment())
        if not body:
            self._error("NNEF0206", "the body is empty", opened, "at least one assignment is needed")
        return tuple(body)

    def _assignment(self) -> Assignment:
        words = self._words
        start = words.start
        column = words.column() if words.begins_line() else -1
        target: Expression | None = None
        try:
            target = self._target()
            words.expect("=", help="a statement is written 'result = operation(…)'")
            value = self._value()
            self._end_statement("a statement")
        except Fault as fault:
            self._note(fault)
            missing = Missing(words.start, words.stop)
            target = target or self._guessed_target(start)
            self._skip_statement(start, column)
            return Assignment(target, missing, start, words.last)
        return Assignment(target, value, start, words.last, group=self._expressions.take_group())

    def _target(self) -> Expression:
        self._expressions.take_group()
        target = self._expression_list(needs_parentheses=False)
        group = self._expressions.take_group()
        if group is not None:
            span = Span(self._findings.source, *group)
            message = "parentheses on the left side hold two names or more"
            raise Fault(Diagnostic("NNEF0208", message, span, "leave them out around a single one"))
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
                    "the left side of an assignment holds names only",
                    span,
                    "names, arrays [a, b] and tuples (a, b) of names",
                )
            )
        return target

    def _value(self) -> Expression:
        return self._expression_list(needs_parentheses=self._words.is_final)

    def _expression_list(self, *, needs_parentheses: bool) -> Expression:
        words = self._words
        first = self._expressions.parse()
        if words.word != ",":
            return first
        comma = words.here()
        items = [first]
        while words.take(","):
            items.append(self._expressions.parse())
        if needs_parentheses:
            raise Fault(Diagnostic("NNEF0210", "a tuple on the right side needs parentheses", comma, "write (a, b)"))
        return Tuple(tuple(items), first.start, words.last)

    def _end_statement(self, what: str) -> None:
        words = self._words
        if words.take(";") or not words.is_final:
            return
        if not (words.begins_line() or words.word in ("}", "")):
            raise words.fault("';'")
        message = f"a semicolon is missing after {what}"
        self._error("NNEF0203", message, Span(self._findings.source, words.last - 1, words.last), "add ';' here")

    def _guessed_target(self, start: int) -> Expression:
        """The names before the first `=` of a statement that could not be read, so that they count as assigned."""
        words = self._words
        head = words.text[start : words.start].partition("=")[0]
        names = [Name(match[0], start + match.start(), start + match.end()) for match in re.finditer(IDENTIFIER, head)]
        return Tuple(tuple(names), start, words.start)

    def _skip_statement(self, start: int, column: int) -> None:
        """Go to where the next statement begins: after a semicolon, or on a line no further in than this one."""
        words = self._words
        while words.word and words.word != "}" and not self._at_definition():
            if words.start > start and column >= 0 and words.begins_line() and words.column() <= column:
                return
            words.examine()
            if words.advance() == ";":
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
