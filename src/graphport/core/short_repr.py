"""`repr` of results in a few lines: long collections and texts are abridged."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from reprlib import Repr
from typing import Any, TypeVar

MAX_LENGTH = 400
"""Limit of characters of a `repr`."""
_MAX_FIELD_LENGTH = 80
_MAX_ENTRIES = 3
_ELLIPSIS = "…"

Class = TypeVar("Class", bound=type)


class _ShortRepr(Repr):
    """`reprlib` with the limits of this module."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxstring = self.maxother = self.maxlong = _MAX_FIELD_LENGTH
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = _MAX_ENTRIES
        self.fillvalue = _ELLIPSIS


def short_repr(cls: Class) -> Class:
    """Give a dataclass a `repr` of at most `MAX_LENGTH` characters, without fields that have their default."""
    type.__setattr__(cls, "__repr__", _repr_dataclass)
    return cls


def abridge(value: object, limit: int = MAX_LENGTH) -> str:
    """Return the `repr` of `value`, abridged to at most `limit` characters."""
    return abridge_text(_ShortRepr().repr(value), limit)


def _repr_dataclass(value: Any) -> str:
    texts = [
        f"{field.name}={abridge(getattr(value, field.name), _MAX_FIELD_LENGTH)}" for field in _fields_to_show(value)
    ]
    parts: list[str] = []
    left = MAX_LENGTH - len(type(value).__name__) - len("(, …)")
    for text in texts:
        left -= len(text) + len(", ")
        if left < 0:
            parts.append(_ELLIPSIS)
            break
        parts.append(text)
    return f"{type(value).__name__}({', '.join(parts)})"


def _fields_to_show(value: Any) -> list[Field[Any]]:
    return [field for field in fields(value) if field.repr and not _is_default(field, getattr(value, field.name))]


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return value is field.default
    empty = field.default_factory
    return empty is not MISSING and isinstance(value, tuple | list | dict) and not value


def abridge_text(text: str, limit: int = MAX_LENGTH) -> str:
    """Return the first characters of `text`, at most `limit`."""
    return text if len(text) <= limit else f"{text[: limit - 1]}{_ELLIPSIS}"
