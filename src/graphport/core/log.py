"""The logger `graphport` of the standard library; `logging` is not imported for programs that do not use it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from logging import Logger

    from graphport.core.diagnostics import Diagnostic

_LEVELS = {"error": 40, "warning": 30, "note": 20}
"""Levels of `logging` by severity."""


def find_logger() -> Logger | None:
    """Return the logger `graphport` if the program has imported `logging`, otherwise `None`."""
    logging: Any = sys.modules.get("logging")
    if logging is None:
        return None
    logger: Logger = logging.getLogger("graphport")
    if not logger.handlers:
        # Without a handler, `logging` prints warnings of a program that has configured nothing.
        logger.addHandler(logging.NullHandler())
    return logger


def log_findings(findings: Iterable[Diagnostic]) -> None:
    """Log diagnostics at the level of their severity."""
    logger = find_logger()
    if logger is not None:
        for finding in findings:
            logger.log(_LEVELS[finding.severity.value], "%s", finding)
