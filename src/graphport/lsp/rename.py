"""Rename a value, a parameter or a fragment of an NNEF text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.edition_detection import edition_of
from graphport.formats.nnef.container.token_cursor import KEYWORDS
from graphport.lsp.nnef_tokens import TYPES, TokenKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.lsp.nnef_tokens import LocatedToken, TokenIndex

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RenameError(ValueError):
    """A name that cannot be given, with the reason."""


def find_occurrences(tokens: TokenIndex, place: LocatedToken) -> list[LocatedToken]:
    """Return every token of the name at `place`; empty if the text does not declare it.

    A parameter of a fragment also occurs in calls that pass it by name.
    """
    token = place.token
    if token.kind is TokenKind.PARAMETER:
        return [
            each
            for section in tokens.sections()
            if not section.is_graph and section.name is not None and section.name.token.text == token.within
            for parameter in section.head
            if parameter.token.declares and parameter.token.text == token.text
            for each in find_occurrences(tokens, parameter)
        ]
    if token.kind not in (TokenKind.VALUE, TokenKind.OPERATION):
        return []
    found = tokens.same_name(place)
    declared = [each for each in found if each.token.declares]
    if not declared:
        return []
    return [*found, *_find_named_arguments(tokens, declared)]


def _find_named_arguments(tokens: TokenIndex, declared: Sequence[LocatedToken]) -> Iterator[LocatedToken]:
    """Yield the tokens `NAME =` in calls of the fragment that declares the parameter NAME in its head."""
    name = declared[0].token.text
    for section in tokens.sections():
        if not section.is_graph and section.name is not None and declared[0] in section.head:
            operation = section.name.token.text
            for each in tokens:
                if (each.token.kind, each.token.within, each.token.text) == (TokenKind.PARAMETER, operation, name):
                    yield each


def check_name(tokens: TokenIndex, place: LocatedToken, name: str) -> None:
    """Check that `name` can replace the name at `place`.

    Raises:
        RenameError: `name` is not an identifier, is reserved, or exists in the same scope.
    """
    edition = edition_of("\n".join(tokens.lines))
    if not _IDENTIFIER.fullmatch(name):
        raise RenameError(f"'{name}' is not an identifier: letters, digits and underscores, no digit first")
    if name in KEYWORDS[edition] or name in TYPES:
        raise RenameError(f"'{name}' is a keyword of NNEF")
    if place.token.kind is TokenKind.OPERATION:
        if name in standard(edition):
            raise RenameError(f"'{name}' is a standard operation")
        if any(each.token.kind is TokenKind.OPERATION and each.token.text == name for each in tokens):
            raise RenameError(f"'{name}' is already the name of an operation of this document")
        return
    found = [e for e in tokens if e.token.text == name and _is_value(e) and e.scope == place.scope]
    if found:
        line = next((each.line for each in found if each.token.declares), found[0].line)
        raise RenameError(f"'{name}' is already a name, in line {line + 1}")


def _is_value(place: LocatedToken) -> bool:
    return place.token.kind is TokenKind.VALUE
