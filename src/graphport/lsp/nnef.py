"""What is said of the words of an NNEF text: signatures, manuals, completions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphport.formats.nnef.declare import standard
from graphport.formats.nnef.printer import to_text
from graphport.formats.nnef.syntax import Edition
from graphport.lsp.words import KEYWORDS, TYPES, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.nnef.declare import Declaration
    from graphport.lsp.words import Place, Words


def standard_operations() -> Mapping[str, Declaration]:
    """The standard operations of the final edition, by name."""
    return standard(Edition.FINAL)


def home(name: str) -> tuple[Path, int, int] | None:
    """Where a standard operation is declared: the file, the line from 0 and the column of its name."""
    library = standard(Edition.FINAL)
    if name not in library:
        return None
    path = Path(_folder(), library.source.name)
    for number, line in enumerate((library.source.text or "").splitlines()):
        if line.startswith((f"fragment {name}(", f"fragment {name}<")):
            return path, number, len("fragment ")
    return None


def _folder() -> str:
    import graphport.formats.nnef

    return str(Path(graphport.formats.nnef.__file__ or "").parent)


def hover(place: Place, words: Words, facts: Mapping[str, str]) -> str | None:
    """What a word is, as Markdown."""
    word = place.word
    match word.kind:
        case Kind.OPERATION:
            return operation(word.text, words)
        case Kind.PARAMETER:
            return _parameter(word.within, word.text, words)
        case Kind.VALUE:
            stated = facts.get(word.text)
            declared = words.declaration(place)
            if stated is None and declared is None:
                return None
            line = "" if declared is None else words.lines[declared.line].strip()
            heading = f"**{word.text}**: `{stated}`" if stated else f"**{word.text}**"
            return f"{heading}\n\n```nnef\n{line}\n```" if line else heading
        case _:
            return None


def operation(name: str, words: Words) -> str | None:
    """The signature of an operation and the manual of what it is read as."""
    signature = signature_of(name, words)
    if signature is None:
        return None
    return f"```nnef\n{signature}\n```" + "".join(f"\n\n{page}" for page in manuals("nnef", name))


def manuals(dialect: str, word: str) -> list[str]:
    """The manuals of the operators that a word of a dialect is read as."""
    from graphport.ops import manual, registry

    names = manual.registered(dialect).get(word, ())
    return [f"`{name}`: {registry.pages()[name].manual}" for name in names if name in registry.pages()]


def signature_of(name: str, words: Words) -> str | None:
    """The declaration of an operation: in the text itself, or among the standard ones."""
    for place in words.declared():
        if place.word.kind is Kind.OPERATION and place.word.text == name:
            return words.lines[place.line].strip()
    library = standard_operations()
    return to_text(library[name].fragment).strip() if name in library else None


def _parameter(operation: str, name: str, words: Words) -> str | None:
    library = standard_operations()
    if operation not in library or operation in words.fragments():
        return None
    position = library[operation].index(name)
    if position is None:
        return None
    formal = library[operation].fragment.parameters[position]
    return f"`{to_text(formal).strip()}` of `{operation}`"


def completions(words: Words, line: int, column: int) -> list[tuple[str, Kind, str]]:
    """Names that may stand at a place, what kind each is, and what to say of it."""
    state = words.state(line, column)
    library = standard_operations()
    found: list[tuple[str, Kind, str]] = []
    if state.section == "fragment":
        return [(name, Kind.TYPE, "") for name in sorted(TYPES)]
    if state.section != "body":
        return [(name, Kind.KEYWORD, "") for name in ("version", "extension", "fragment", "graph")]
    inner = state.open[-1] if state.open else ""
    if inner in library:
        found += [
            (each.name.text, Kind.PARAMETER, to_text(each).strip()) for each in library[inner].fragment.parameters
        ]
    found += [(name, Kind.VALUE, "") for name in words.values(words.scope_of(line))]
    if not state.is_target:
        found += [(name, Kind.OPERATION, "of this text") for name in words.fragments()]
        found += [(name, Kind.OPERATION, "") for name in library]
        found += [(name, Kind.KEYWORD, "") for name in sorted(KEYWORDS)]
    return found
