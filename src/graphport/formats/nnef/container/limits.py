"""How much a document may ask for: NNEF texts are untrusted, and compile-time evaluation is a small computer."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TypeVar

from graphport.core import budget

Bounds = TypeVar("Bounds")

MOST_DIMS = 8
"""The largest rank of a tensor file."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds with their defaults; a document that needs more gets a finding that names the bound."""

    nesting: int = 100_000
    """Brackets, prefix operators and conditions open at once in one expression."""

    findings: int = 100
    """Findings of one stage; further ones are counted, not shown."""

    type_nesting: int = 64
    """Nesting depth of arrays and tuples in a type."""

    depth: int = 10_000
    """Nesting depth of expanded fragments."""

    operations: int = 20_000
    """Operations, and results in arrays, that expansion may create, in addition to one per character of the text."""

    steps: int = 150_000
    """Expressions that may be evaluated, in addition to ten per character of the text."""

    items: int = 10_000_000
    """Items of arrays and characters of strings that evaluation may make in all."""


DEFAULT = Limits()


def read_limits(default: Bounds) -> Bounds:
    """Return the limits, overridden by entries `nnef.NAME` of `GRAPHPORT_LIMITS`."""
    if not os.environ.get(budget.LIMITS):
        return default
    names = [field.name for field in fields(default)]  # type: ignore[arg-type]
    return type(default)(**{name: budget.limit(f"nnef.{name}", getattr(default, name)) for name in names})
