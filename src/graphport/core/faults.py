"""Reports of internal errors: a diagnostic with a location instead of a traceback, except when debugging."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity

if TYPE_CHECKING:
    from collections.abc import Generator

    from graphport.core.diagnostics import Span

VARIABLE = "GRAPHPORT_DEBUG"
"""Set to anything, it lets our own mistakes through as the exceptions that they are."""

FOUND = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Exceptions of internal errors and of insufficient memory."""

_DEBUGGING: ContextVar[bool] = ContextVar("_DEBUGGING", default=False)


def is_debugging() -> bool:
    """Whether internal errors propagate with their traceback."""
    return _DEBUGGING.get() or bool(os.environ.get(VARIABLE))


def debug() -> None:
    """Let internal errors propagate with their traceback from now on."""
    _DEBUGGING.set(True)


def stumbled(
    what: str, error: BaseException, span: Span | None = None, severity: Severity = Severity.ERROR
) -> Diagnostic:
    """Return the diagnostic of an internal error, or of insufficient memory, in `what`.

    Raises:
        BaseException: `error` itself when debugging.
    """
    if isinstance(error, MemoryError):
        return exhausted(what, error, span, severity)
    if is_debugging():
        raise error
    return failed(what, error, span, severity)


def failed(
    what: str, error: BaseException, span: Span | None = None, severity: Severity = Severity.ERROR
) -> Diagnostic:
    """Return BUG0001: `what`, a part of graphport, failed with `error`."""
    return Diagnostic(
        "BUG0001",
        f"{what} failed: {described(error)}",
        span,
        "report this bug of graphport with the model file and the traceback from --debug",
        severity,
    )


def exhausted(
    what: str, error: BaseException, span: Span | None = None, severity: Severity = Severity.ERROR
) -> Diagnostic:
    """Return LIMIT0001: `what` ran out of memory."""
    return Diagnostic(
        "LIMIT0001",
        f"out of memory: {what}{f': {error}' if str(error) else ''}",
        span,
        "set smaller dims with --input, or provide more memory",
        severity,
    )


def described(error: BaseException) -> str:
    """Format an exception in one line: type and message."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_ours(finding: Diagnostic) -> bool:
    """Whether a diagnostic reports an internal error rather than an error of the input."""
    return finding.code == "BUG0001"


@contextmanager
def as_finding(what: str, span: Span | None = None) -> Generator[None]:
    """Convert internal errors inside the block to a diagnostic that `what` failed.

    Raises:
        DiagnosticError: BUG0001, with the exception as its cause; LIMIT0001 if memory did not suffice.
    """
    try:
        yield
    except UnicodeError:
        raise  # a text that is no UTF-8: the caller knows which
    except FOUND as error:
        raise DiagnosticError(stumbled(what, error, span)) from error
