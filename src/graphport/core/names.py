"""Names that a target can spell, and names that are not taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALIKE = 0.6
_MARGIN = 0.15  # below the likeliest, names are not told any more
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]+")


def unique(
    name: str, taken: Container[str], counters: dict[str, int] | None = None, reserved: Container[str] = ()
) -> str:
    """`name` if it is free, else `name_1`, `name_2`, … the first that is neither taken nor reserved.

    `counters` remembers the last number given for a stem, so that many names from one stem stay linear.
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
    """`name` as an ASCII identifier that is neither taken nor reserved: the only place where names are bent.

    Runs of other characters become one underscore; a leading digit or a reserved word gets one in front. `counters`
    is that of `unique`.
    """
    identifier = name if _IDENTIFIER.fullmatch(name) else _NOT_IDENTIFIER.sub("_", name)
    if not identifier or identifier[0].isdigit() or identifier in reserved:
        identifier = f"_{identifier}"
    return unique(identifier, taken, counters, reserved)


def near(wanted: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Names that `wanted` may have meant, the likeliest first: they are spelled alike, or it abbreviates them."""
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
    """The end of a sentence about a name that is not known: what it may have meant, else which `what` there are."""
    names = list(known)
    found = near(wanted, names)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else f"; {what}: {', '.join(names)}"


def _abbreviates(short: str, name: str) -> bool:
    """Whether the characters of `short` stand in `name`, in this order."""
    rest = iter(name)
    return all(character in rest for character in short)
