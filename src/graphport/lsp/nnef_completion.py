"""Hover texts, signatures and completions for NNEF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.syntax import Edition
from graphport.lsp.nnef_tokens import KEYWORDS, TYPES, TokenKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.lsp.nnef_tokens import LocatedToken, TokenIndex


def standard_operations() -> Mapping[str, Declaration]:
    """Return the standard operations of NNEF 1.0 final, by name."""
    return standard(Edition.FINAL)


def find_declaration_in_library(name: str) -> tuple[Path, int, int] | None:
    """Return file, line (0-based) and column of the declaration of a standard operation."""
    library = standard(Edition.FINAL)
    if name not in library:
        return None
    path = Path(_library_folder(), library.source.name)
    for number, line in enumerate((library.source.text or "").splitlines()):
        if line.startswith((f"fragment {name}(", f"fragment {name}<")):
            return path, number, len("fragment ")
    return None


def _library_folder() -> str:
    import graphport.formats.nnef.container

    return str(Path(graphport.formats.nnef.container.__file__ or "").parent)


def hover_text(place: LocatedToken, tokens: TokenIndex, facts: Mapping[str, str]) -> str | None:
    """Return the hover text of a token as Markdown."""
    token = place.token
    match token.kind:
        case TokenKind.OPERATION:
            return describe_operation(token.text, tokens)
        case TokenKind.PARAMETER:
            return _describe_parameter(token.within, token.text, tokens)
        case TokenKind.VALUE:
            stated = facts.get(token.text)
            declared = tokens.declaration(place)
            if stated is None and declared is None:
                return None
            line = "" if declared is None else tokens.lines[declared.line].strip()
            heading = f"**{token.text}**: `{stated}`" if stated else f"**{token.text}**"
            return f"{heading}\n\n```nnef\n{line}\n```" if line else heading
        case _:
            return None


def describe_operation(name: str, tokens: TokenIndex) -> str | None:
    """Return the signature of an operation and the documentation of its canonical operators, as Markdown."""
    signature = operation_signature(name, tokens)
    if signature is None:
        return None
    return f"```nnef\n{signature}\n```" + "".join(f"\n\n{op_def}" for op_def in operator_manuals("nnef", name))


def operator_manuals(dialect: str, token: str) -> list[str]:
    """Return the documentation of the canonical operators that an op type of a dialect converts to."""
    from graphport.ops import operator_manual, registry

    names = operator_manual.registered(dialect).get(token, ())
    return [f"`{name}`: {registry.op_defs()[name].manual}" for name in names if name in registry.op_defs()]


def operation_signature(name: str, tokens: TokenIndex) -> str | None:
    """Return the declaration of a fragment of this text or of a standard operation."""
    for section in tokens.sections():
        if not section.is_graph and section.name is not None and section.name.token.text == name:
            first, last = section.head[0], section.head[-1]
            lines = tokens.lines[first.line : last.line + 1]
            lines[-1] = lines[-1][: last.token.stop]
            lines[0] = lines[0][first.token.start :]
            return " ".join(" ".join(lines).split())
    library = standard_operations()
    return to_text(library[name].fragment).strip() if name in library else None


def _describe_parameter(describe_operation: str, name: str, tokens: TokenIndex) -> str | None:
    library = standard_operations()
    if describe_operation not in library or describe_operation in tokens.fragments():
        return None
    position = library[describe_operation].index(name)
    if position is None:
        return None
    formal = library[describe_operation].fragment.parameters[position]
    return f"`{to_text(formal).strip()}` of `{describe_operation}`"


def list_completions(tokens: TokenIndex, line: int, column: int) -> list[tuple[str, TokenKind, str]]:
    """Return (name, kind, detail) of each completion at a position."""
    state = tokens.state(line, column)
    library = standard_operations()
    found: list[tuple[str, TokenKind, str]] = []
    if state.section == "fragment":
        return [(name, TokenKind.TYPE, "") for name in sorted(TYPES)]
    if state.section != "body":
        return [(name, TokenKind.KEYWORD, "") for name in ("version", "extension", "fragment", "graph")]
    inner = state.open[-1] if state.open else ""
    if inner in library:
        found += [
            (each.name.text, TokenKind.PARAMETER, to_text(each).strip()) for each in library[inner].fragment.parameters
        ]
    found += [(name, TokenKind.VALUE, "") for name in tokens.values(tokens.scope_of(line))]
    if not state.is_target:
        found += [(name, TokenKind.OPERATION, "fragment of this document") for name in tokens.fragments()]
        found += [(name, TokenKind.OPERATION, "") for name in library]
        found += [(name, TokenKind.KEYWORD, "") for name in sorted(KEYWORDS)]
    return found
