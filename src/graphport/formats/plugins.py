"""Formats of other distributions, which register under the entry point group `graphport.formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.formats.contract import Format
from graphport.ops.dialects import RULES

if TYPE_CHECKING:
    from collections.abc import Container
    from importlib.metadata import EntryPoint

GROUP = "graphport.formats"


def plugin_formats(taken: Container[str]) -> list[Format]:
    """The formats that installed distributions register, and their rules.

    Args:
        taken: the names of the built-in formats.

    Raises:
        DiagnosticError: IO0016 an entry point cannot be loaded, is not a format, or has the name of another format.
    """
    from importlib.metadata import entry_points  # takes 15 ms

    found: dict[str, Format] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        format = _load(entry)
        if format.name in taken or format.name in found:
            raise _fault(entry, f"a format named {format.name!r} exists already")
        found[format.name] = format
        RULES.update({dialect: package for dialect, package in format.rules.items() if dialect not in RULES})
    return list(found.values())


def _load(entry: EntryPoint) -> Format:
    try:
        loaded: Any = entry.load()
    except Exception as error:  # a plugin's module may raise anything
        raise _fault(entry, f"{type(error).__name__}: {error}") from error
    format = loaded if isinstance(loaded, Format) else getattr(loaded, "FORMAT", None)
    if not isinstance(format, Format):
        raise _fault(entry, f"{entry.value} is neither a graphport.formats.contract.Format nor a package with FORMAT")
    return format


def _fault(entry: EntryPoint, reason: str) -> DiagnosticError:
    distribution = entry.dist.name if entry.dist is not None else "its distribution"
    message = f"the format plugin {entry.name!r} of {distribution} cannot be used: {reason}"
    return DiagnosticError(Diagnostic("IO0016", message, None, f"update or uninstall it: pip uninstall {distribution}"))
