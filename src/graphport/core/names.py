"""Valid identifiers of targets, unique names, and suggestions for misspelled names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALIKE = 0.6
_MARGIN = 0.15  # maximum distance of a suggestion from the best one
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]+")


def unique(
    name: str, taken: Container[str], counters: dict[str, int] | None = None, reserved: Container[str] = ()
) -> str:
    """Return `name` if it is unused, else the first unused one of `name_1`, `name_2` and so on.

    `counters` stores the last number per stem, so that many names with one stem take linear time.
    """
    if name not in taken and name not in reserved:
        return name
    number = 0 if counters is None else counters.get(name, 0)
    while True:
        number += 1
        candidate = f"{name}_{number}"
        if candidate not in taken and candidate not in reserved:
            break
    if counters is not None:
        counters[name] = number
    return candidate


def identifier(
    name: str, taken: Container[str], reserved: Container[str] = (), counters: dict[str, int] | None = None
) -> str:
    """Return `name` as an ASCII identifier that is neither in use nor reserved; all names are converted here.

    Runs of other characters are replaced by one underscore; a leading digit or a reserved word is prefixed with one.
    `counters` is that of `unique`.
    """
    identifier = name if _IDENTIFIER.fullmatch(name) else _NOT_IDENTIFIER.sub("_", name)
    if not identifier or identifier[0].isdigit() or identifier in reserved:
        identifier = f"_{identifier}"
    return unique(identifier, taken, counters, reserved)


def find_similar(wanted: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return names that `wanted` may refer to, most likely first: similar names and names that it abbreviates."""
    from difflib import SequenceMatcher

    lower = {name.lower(): name for name in known}
    asked = wanted.lower()
    ratios = {name: SequenceMatcher(None, asked, name).ratio() for name in lower}
    least = max(_ALIKE, max(ratios.values(), default=0.0) - _MARGIN)
    alike = sorted((name for name in lower if ratios[name] >= least), key=lambda name: -ratios[name])
    short = [name for name in lower if len(asked) > 1 and name[:1] == asked[:1] and _abbreviates(asked, name)]
    initials = [name for name in lower if len(asked) > 1 and _abbreviates(asked, name)]
    return [lower[name] for name in dict.fromkeys((*alike, *short, *initials))][:most]


def did_you_mean(wanted: str, known: Iterable[str], what: str) -> str:
    """Return the end of a message about an unknown name: suggestions, else the list of `what`."""
    names = list(known)
    found = find_similar(wanted, names)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else f"; {what}: {', '.join(names)}"


def _abbreviates(short: str, name: str) -> bool:
    """Whether `short` is a subsequence of `name`."""
    rest = iter(name)
    return all(character in rest for character in short)


def scope_of_modules(names: Iterable[str]) -> str:
    """Return the scope of a node in nested modules, given their qualified names: `layers.0/conv`.

    The root module has an empty name and an empty scope.
    """
    parts: list[str] = []
    before = ""
    for name in names:
        whole = name.partition("@")[0]  # a second call of one module ends in `@1`
        if whole:
            parts.append(whole.removeprefix(f"{before}."))
            before = whole
    return "/".join(parts)
