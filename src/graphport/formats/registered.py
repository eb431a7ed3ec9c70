"""Other formats, for formats that consist of files in them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.formats.contract import Format


def registered(name: str) -> Format:
    """Return the record of a format by its name."""
    return import_module("graphport.formats").FORMATS[name]
