"""Reasons why a StableHLO file cannot be read; the reader adds the file."""

from __future__ import annotations

from typing import Never


class RefusedError(Exception):
    """A reason with the code of its diagnostic, a remedy and an offset in the file."""

    def __init__(self, code: str, message: str, help: str | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help
        self.offset = offset


def refuse(code: str, message: str, *, help: str | None = None, offset: int | None = None) -> Never:
    """Refuse the file.

    Raises:
        RefusedError: always.
    """
    raise RefusedError(code, message, help, offset)
