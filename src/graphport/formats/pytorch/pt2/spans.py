"""Source locations in the user's Python files, from the stack traces of nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Span
from graphport.core.names import scope_of_modules

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source

_FRAME = re.compile(r'\s*File "([^"\n]*)", line (\d+), in ([^\n]*)(?:\n([^\n]*))?')
_LIBRARY = re.compile(r"(^|[/\\])(torch|transformers[/\\]utils|torchao)[/\\]")
_LONGEST = 120


class Spans:
    """Locations of nodes, computed on demand from the metadata of the program."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._metadata: list[tuple[str, Any]] = []

    def add(self, name: str, metadata: Any) -> int:
        """Add a node; return the index of its location."""
        self._metadata.append((name, metadata))
        return len(self._metadata) - 1

    def span(self, index: int) -> Span:
        """Return the innermost source line outside PyTorch, with the module and the node."""
        name, metadata = self._metadata[index]
        found = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
        place = _frame(found.get("stack_trace"))
        modules = modules_of(found.get("nn_module_stack"))
        module = modules[-1] if modules else ""
        parts = [part for part in (place, f"in {module}" if module else "", f"node {name}") if part]
        return Span(self._source, place=", ".join(parts), scope=scope_of_modules(modules) if modules else None)


def _frame(trace: Any) -> str:
    """Return file, line and code of the innermost user frame; empty if there is none."""
    if not isinstance(trace, str):
        return ""
    frames = _FRAME.findall(trace)
    chosen = next(
        (frame for frame in reversed(frames) if not _LIBRARY.search(frame[0])), frames[-1] if frames else None
    )
    if chosen is None:
        return ""
    file, line, _, code = chosen
    shown = code.strip()[:_LONGEST]
    return f"{file}:{line}" + (f" `{shown}`" if shown else "")


def modules_of(stack: Any) -> list[str]:
    """Return the qualified names in `KEY,NAME,TYPE;KEY,NAME,TYPE`, outermost first; the root has an empty name."""
    if not isinstance(stack, str):
        return []
    names = [([*entry.split(","), ""])[1] for entry in stack.split(";")]
    return [name.removeprefix("L['self'].").removeprefix("L['self']") for name in names]
