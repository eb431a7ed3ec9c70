"""How much a document may ask for: NNEF texts are untrusted, and compile-time evaluation is a small computer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds with their defaults; a document that needs more gets a finding that names the bound."""

    nesting: int = 100_000
    """Brackets, prefix operators and conditions open at once in one expression."""

    findings: int = 100
    """Findings of one stage; further ones are counted, not shown."""

    type_nesting: int = 64
    """Arrays and tuples within one another in a type."""

    depth: int = 10_000
    """Fragments expanded within one another."""

    operations: int = 20_000
    """Operations, and results in arrays, that expansion may make, beside one for each character of the text."""

    steps: int = 150_000
    """Expressions that may be evaluated, beside ten for each character of the text."""

    items: int = 10_000_000
    """Items of arrays and characters of strings that evaluation may make in all."""


DEFAULT = Limits()
