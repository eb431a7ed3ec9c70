"""From the text of an expression to its tokens and its tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, raise_errors
from graphport.expression.syntax import Call, List, Literal, Node, Reference
from graphport.expression.tokens import Text, Token, TokenKind, shown, tokenize, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPERANDS = frozenset({TokenKind.REFERENCE, TokenKind.NUMBER, TokenKind.CONSTANT})
_CLOSERS = frozenset({TokenKind.RIGHT_PARENTHESIS, TokenKind.RIGHT_BRACKET})
_LONGEST_CANONICAL = 200


@dataclass(frozen=True, slots=True)
class Parsed:
    """An expression that was read: its tokens, its tree, and warnings about how it was written."""

    text: Text
    tokens: tuple[Token, ...]
    tree: Node
    findings: tuple[Diagnostic, ...] = ()


def parse(text: str | Text, arities: Mapping[str, tuple[int, ...]], *, lenient: bool = False) -> Parsed:
    """Parse `text` with the functions in `arities`.

    `lenient` parsing also accepts malformed texts of pnnx: prefix notation in which parentheses and commas carry no
    meaning (`sub(log1p,@0),@1`), and blanks inside tokens. It reports a warning with the canonical text.

    Raises:
        DiagnosticError: `EXPR0001` to `EXPR0006`: invalid token; `EXPR0101` to `EXPR0106`: invalid syntax.
    """
    place = Text.of(text) if isinstance(text, str) else text
    tokens, findings = tokenize(place, lenient=lenient)
    raise_errors(findings)
    try:
        tree = _Parser(place, tokens, arities).expression()
    except DiagnosticError as strict:
        if not lenient:
            raise
        tree = _read_prefix(tokens, arities, strict)
        findings.append(_decoration(place, tree, strict))
    return Parsed(place, tuple(tokens), tree, tuple(findings))


@dataclass(slots=True)
class _OpenBracket:
    """A call or list whose end has not been read."""

    token: Token
    arguments: list[Node] = field(default_factory=list[Node])
    takes: tuple[int, ...] = ()
    """How many arguments it may have; empty where it does not matter."""

    @property
    def is_list(self) -> bool:
        return self.token.kind is TokenKind.LEFT_BRACKET

    @property
    def closer(self) -> TokenKind:
        return TokenKind.RIGHT_BRACKET if self.is_list else TokenKind.RIGHT_PARENTHESIS

    @property
    def name(self) -> str:
        return "the list" if self.is_list else f"{shown(self.token.text)}("

    def close(self, end: int) -> Node:
        """The finished node."""
        made = List if self.is_list else Call
        return made(self.token.text, self.token.start, end, tuple(self.arguments))


class _Parser:
    """Parses `expr := list | call | reference | literal` with an explicit stack."""

    def __init__(self, text: Text, tokens: list[Token], arities: Mapping[str, tuple[int, ...]]) -> None:
        self.text = text
        self.tokens = tokens
        self.arities = arities
        self.position = 0
        self.open: list[_OpenBracket] = []
        self.findings: list[Diagnostic] = []

    @property
    def token(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def expression(self) -> Node:
        """The whole text as one expression.

        Raises:
            DiagnosticError: every unknown function and wrong count up to the first break of the structure, and that.
        """
        while True:
            node = self.operand()
            while node is not None:
                if not self.open:
                    return self.finish(node)
                node = self.continuation(node)

    def operand(self) -> Node | None:
        """Parse an operand; None if the token opens a call or a list."""
        token = self.token
        if token is None:
            raise self.broken_off()
        self.position += 1
        if token.kind in _OPERANDS:
            return _leaf(token)
        match token.kind:
            case TokenKind.NAME:
                return self.named(token)
            case TokenKind.LEFT_BRACKET:
                self.open.append(_OpenBracket(token))
                return self.empty_list()
            case TokenKind.LEFT_PARENTHESIS:
                raise self.stop(
                    "EXPR0102", "'(' without a function name", token, "remove the parentheses: operators are functions"
                )
            case _:
                raise self.missing(token)

    def named(self, token: Token) -> Node | None:
        """Parse the start of a call, or a PyTorch constant."""
        following = self.token
        if following is not None and following.kind is TokenKind.LEFT_PARENTHESIS:
            self.position += 1
            self.open.append(_OpenBracket(token, takes=self.arities_of(token)))
            return None
        if token.text.startswith("torch."):
            return Literal(token.text, token.start, token.end, value=token.text)
        if following is not None and token.text + following.text in self.arities:
            whole = token.text + following.text
            raise self.stop("EXPR0005", f"space inside '{whole}'", token, f"write {whole}")
        if token.text in self.arities:
            raise self.stop("EXPR0102", f"expected '(' after {token.text}", following, f"write {token.text}(…)")
        raise self.stop("EXPR0105", f"unknown function or constant '{shown(token.text)}'", token)

    def arities_of(self, token: Token) -> tuple[int, ...]:
        """The arities of the function that `token` names; an unknown one is noted."""
        found = self.arities.get(token.text)
        if found is None:
            self.error("EXPR0105", f"unknown function '{shown(token.text)}'", token, self.similar(token.text))
            return ()
        return found

    def similar(self, name: str) -> str | None:
        """Return a hint with functions of similar names."""
        from difflib import get_close_matches

        close = get_close_matches(name, self.arities, n=3)
        return f"similar: {', '.join(close)}" if close else None

    def empty_list(self) -> Node | None:
        token = self.token
        if token is None or token.kind is not TokenKind.RIGHT_BRACKET:
            return None
        self.position += 1
        return self.open.pop().close(token.end)

    def continuation(self, node: Node) -> Node | None:
        """Append a finished operand to its call or list, and return that call or list if it ends here."""
        frame, token = self.open[-1], self.token
        frame.arguments.append(node)
        if token is None:
            raise self.broken_off()
        self.position += 1
        if token.kind is TokenKind.COMMA:
            return None
        if token.kind is not frame.closer:
            code = "EXPR0103" if token.kind in _CLOSERS else "EXPR0102"
            closer = "]" if frame.is_list else ")"
            message = f"expected ',' or '{closer}' in {frame.name}, found '{shown(token.text)}'"
            raise self.stop(code, message, token)
        self.open.pop()
        self.check_arity(frame)
        return frame.close(token.end)

    def check_arity(self, frame: _OpenBracket) -> None:
        count = len(frame.arguments)
        if frame.takes and count not in frame.takes:
            takes = " or ".join(map(str, frame.takes))
            plural = "" if frame.takes == (1,) else "s"
            self.error("EXPR0106", f"{frame.token.text} takes {takes} argument{plural}, got {count}", frame.token)

    def finish(self, node: Node) -> Node:
        """The root, if nothing follows it."""
        token = self.token
        if token is not None:
            if token.kind in _CLOSERS:
                raise self.stop("EXPR0103", f"unmatched '{token.text}'", token)
            message = f"unexpected '{shown(token.text)}' after the end of the expression"
            raise self.stop("EXPR0104", message, token, "write several results as a list: [a,b]")
        raise_errors(self.findings)
        return node

    def missing(self, token: Token) -> DiagnosticError:
        where = f" in {self.open[-1].name}" if self.open else ""
        return self.stop("EXPR0101", f"missing operand{where} before '{token.text}'", token)

    def broken_off(self) -> DiagnosticError:
        """Return the error that the text ends too early."""
        end = self.tokens[-1].end
        if not self.open:
            return self.stop("EXPR0101", "missing operand at the end", None)
        frame = self.open[-1]
        expected = "']'" if frame.is_list else "')'"
        opened = frame.token.start + 1
        message = f"{frame.name} of column {opened} is not closed: missing {expected}"
        return self.stop("EXPR0103", message, Token(TokenKind.COMMA, "", end, end))

    def error(self, code: str, message: str, token: Token, help: str | None = None) -> None:
        self.findings.append(Diagnostic(code, message, self.text.span(token.start, token.end), help))

    def stop(self, code: str, message: str, token: Token | None, help: str | None = None) -> DiagnosticError:
        """Return all diagnostics, including the one that stops the parser."""
        end = self.tokens[-1].end
        span = self.text.span(end, end) if token is None else self.text.span(token.start, token.end)
        return DiagnosticError(*self.findings, Diagnostic(code, message, span, help))


def _leaf(token: Token) -> Node:
    if token.kind is TokenKind.REFERENCE:
        return Reference(token.text, token.start, token.end, index=int(token.text[1:]))
    return Literal(token.text, token.start, token.end, value=value_of(token))


def _read_prefix(tokens: list[Token], arities: Mapping[str, tuple[int, ...]], strict: DiagnosticError) -> Node:
    """Parse a text in prefix notation as pnnx does, ignoring parentheses and commas.

    Arities determine the arguments; lists keep their brackets. For a function with an optional argument a comma
    decides. A text that fails here too is reported with the errors of the strict parser.
    """
    frames: list[_OpenBracket] = []
    root: Node | None = None
    for position, token in enumerate(tokens):
        node: Node | None = None
        if token.kind in _OPERANDS:
            node = _leaf(token)
        elif token.kind is TokenKind.NAME:
            if token.text in arities:
                frames.append(_OpenBracket(token, takes=arities[token.text]))
            elif token.text.startswith("torch."):
                node = Literal(token.text, token.start, token.end, value=token.text)
            else:
                raise strict
        elif token.kind is TokenKind.LEFT_BRACKET:
            frames.append(_OpenBracket(token))
        elif token.kind is TokenKind.RIGHT_BRACKET:
            if not frames or not frames[-1].is_list:
                raise strict
            node = frames.pop().close(token.end)
        if node is None:
            continue
        if root is not None:
            raise strict
        root = _settle(node, frames, _has_next_operand(tokens, position))
    if root is None or frames:
        raise strict
    return root


def _settle(node: Node, frames: list[_OpenBracket], another: bool) -> Node | None:  # noqa: FBT001
    """Append `node` to the pending call; it is the root if there is none."""
    while frames:
        frame = frames[-1]
        frame.arguments.append(node)
        count = len(frame.arguments)
        if frame.is_list or count < min(frame.takes) or (count < max(frame.takes) and another):
            return None
        node = frames.pop().close(node.end)
        another = False
    return node


def _has_next_operand(tokens: list[Token], position: int) -> bool:
    """Whether a comma and then an operand follow the token at `position`."""
    following = tokens[position + 1 : position + 3]
    return len(following) == 2 and following[0].kind is TokenKind.COMMA and following[1].kind in _OPERANDS


def _decoration(text: Text, tree: Node, strict: DiagnosticError) -> Diagnostic:
    canonical = _beginning(tree)
    message = f"read as {canonical}: {strict.diagnostics[-1].message}"
    return Diagnostic(
        "EXPR0107", message, text.span(tree.start, tree.end), f"write {canonical}", severity=Severity.WARNING
    )


def _beginning(tree: Node) -> str:
    canonical = str(tree)
    return canonical if len(canonical) <= _LONGEST_CANONICAL else f"{canonical[: _LONGEST_CANONICAL - 1]}…"
