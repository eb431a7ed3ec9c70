"""Reasons why a TorchScript file cannot be read; the reader adds the place in the code."""

from __future__ import annotations

from typing import Never


class RefusedError(Exception):
    """A reason with the code of its diagnostic and a remedy."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help


class RaisedError(Exception):
    """The code raises an exception."""


def refuse(code: str, message: str, *, help: str | None = None) -> Never:
    """Refuse the file.

    Raises:
        RefusedError: always.
    """
    raise RefusedError(code, message, help)
