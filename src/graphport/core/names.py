"""Names that a target can spell, and names that are not taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
    spelled = name if _IDENTIFIER.fullmatch(name) else _NOT_IDENTIFIER.sub("_", name)
    if not spelled or spelled[0].isdigit() or spelled in reserved:
        spelled = f"_{spelled}"
    return unique(spelled, taken, counters, reserved)
