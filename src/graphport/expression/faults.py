"""Errors of functions before their location is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Span


class Fault(Exception):  # noqa: N818  it becomes a diagnostic as soon as the place is known
    """A function does not accept its arguments."""

    def __init__(self, code: str, message: str, help: str | None = None, operand: int | None = None) -> None:
        super().__init__(message)
        self.operand = operand
        """Which operand is at fault; `None` where it is the function."""
        self.code = code
        self.message = message
        self.help = help

    def at(self, span: Span) -> DiagnosticError:
        """Return the fault with a location."""
        return DiagnosticError(Diagnostic(self.code, self.message, span, self.help))


def misfit(shapes: Sequence[tuple[int, ...]]) -> int:
    """Return the first shape that does not broadcast with the preceding ones."""
    joined: tuple[int, ...] = ()
    for index, shape in enumerate(shapes):
        try:
            joined = np.broadcast_shapes(joined, shape)
        except ValueError:
            return index
    return 0
