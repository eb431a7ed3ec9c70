"""Type guards that distinguish lists from other objects."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether `value` is a list or tuple: a sequence at run time, several results of a rule."""
    return isinstance(value, list | tuple)
