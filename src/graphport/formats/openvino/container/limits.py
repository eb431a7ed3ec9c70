"""How much an IR file may ask for; files are untrusted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds with their defaults; a file that needs more gets a finding that names the bound."""

    size: int = 64 << 20
    """Bytes of the `.xml`; 20,000 layers take 8 MiB."""

    tag: int = 4 << 20
    """Characters of one tag with all its attributes."""

    depth: int = 200
    """Elements within each other."""

    elements: int = 1_000_000
    """Elements in all, `dim` included: a layer has some 15."""

    attributes: int = 4096
    """Attributes of one element."""

    findings: int = 100
    """Findings of one stage; further ones are not shown."""


DEFAULT = Limits()
