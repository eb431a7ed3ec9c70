"""Parse the JSON members of an archive within limits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from graphport.core import budget

if TYPE_CHECKING:
    from graphport.formats.pytorch.pt2.container import Container

MOST_BYTES = 1 << 29
"""Maximum bytes of a program; 20,000 nodes with stack traces take about 60 MB."""


def document(container: Container, name: str) -> dict[str, Any]:
    """Parse the member `name` as a JSON object.

    Raises:
        DiagnosticError: PT0004 and PT0005 as in `Container.read`, PT0006 not a JSON object, or too large.
    """
    member = container.members.get(name)
    most = budget.limit("pt2.text", MOST_BYTES)
    if member is not None and member.length > most:
        message = f"{name} has {member.length} bytes, the limit is {most}"
        raise container.fault("PT0006", message, "set GRAPHPORT_LIMITS=pt2.text=N to raise the limit to N")
    return parsed(container, name, container.read(name))


def parsed(container: Container, name: str, data: bytes) -> dict[str, Any]:
    """Parse the bytes of the member `name` as a JSON object.

    Raises:
        DiagnosticError: PT0006 not a JSON object, or nested too deeply.
    """
    try:
        # Python refuses integers of more than 4,300 digits.
        found = json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise container.fault("PT0006", f"{name} is nested too deeply") from error
    except ValueError as error:
        raise container.fault("PT0006", f"{name} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise container.fault("PT0006", f"{name} is not a JSON object")
    return cast("dict[str, Any]", found)
