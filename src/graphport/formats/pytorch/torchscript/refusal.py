"""Exceptions for unsupported TorchScript files; the reader adds the location in the code."""

from __future__ import annotations

from typing import Never


class RefusedError(Exception):
    """The file is not supported: diagnostic code, message and remedy."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help


class RaisedError(Exception):
    """The TorchScript code raises an exception."""


def refuse(code: str, message: str, *, help: str | None = None) -> Never:
    """Raise a `RefusedError`.

    Raises:
        RefusedError: always.
    """
    raise RefusedError(code, message, help)
