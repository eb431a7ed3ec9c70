"""Signature help: the declaration of the operation that is being called, and the parameter at the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.lsp.nnef_completion import operation_signature
from graphport.lsp.nnef_tokens import TokenKind

if TYPE_CHECKING:
    from graphport.lsp.nnef_tokens import TokenIndex


class Signature(NamedTuple):
    """The text of a declaration, the code points (start, stop) of its parameters, and the index of the active one."""

    operation: str
    label: str
    parameters: tuple[tuple[int, int], ...]
    active: int | None


def find_signature(tokens: TokenIndex, line: int, column: int) -> Signature | None:
    """Return the signature of the innermost call around a position (0-based, code points)."""
    if tokens.state(line, column).section != "body":
        return None
    calls: list[tuple[str, int, str]] = []  # operation or empty, commas so far, named parameter of the argument
    before = tokens.statement_before(line, column)
    for index, token in enumerate(before):
        if token.text == "(":
            called = before[index - 4] if index > 4 and before[index - 1].text == ">" else before[index - 1]
            calls.append((called.text if index and called.kind is TokenKind.OPERATION else "", 0, ""))
        elif token.text == "[":
            calls.append(("", 0, ""))
        elif token.text in (")", "]"):
            del calls[-1:]
        elif calls and token.text == ",":
            calls[-1] = (calls[-1][0], calls[-1][1] + 1, "")
        elif calls and token.kind is TokenKind.PARAMETER:
            calls[-1] = (*calls[-1][:2], token.text)
    operation, commas, named = next((call for call in reversed(calls) if call[0]), ("", 0, ""))
    label = operation_signature(operation, tokens) if operation else None
    if label is None:
        return None
    parameters = _find_parameters(label)
    names = [label[start:stop].split(":")[0].strip() for start, stop in parameters]
    active = commas if not named else names.index(named) if named in names else None
    return Signature(operation, label, parameters, active if active is None or active < len(names) else None)


def _find_parameters(label: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges between the commas of the first parenthesis of a declaration, without blanks."""
    depth, start = 0, 0
    found: list[tuple[int, int]] = []
    for index, character in enumerate(label):
        if character in "([":
            depth += 1
            start = start or index + 1
        elif character in ")]":
            depth -= 1
        if start and ((character == "," and depth == 1) or depth == 0):
            part = label[start:index]
            if part.strip():
                found.append((start + len(part) - len(part.lstrip()), index - len(part) + len(part.rstrip())))
            if depth == 0:
                break
            start = index + 1
    return tuple(found)
