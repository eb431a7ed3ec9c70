"""Packages whose names are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def first_used(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a `__getattr__` for `package` that imports each of its names from the module in `homes` on first use."""

    def find(name: str) -> object:
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(import_module(homes[name]), name)

    return find
