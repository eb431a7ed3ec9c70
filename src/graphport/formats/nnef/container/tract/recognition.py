"""Telling tract's flavour from Khronos' text."""

from __future__ import annotations

import re

_MARKS = re.compile(
    r"^\s*(?:extension\s+tract_(?:registry|symbol|assert|pulse_streaming_symbol)\b|fragment\s+tract_core_properties\b)",
    re.MULTILINE,
)
_COMMENTS = re.compile(r"#[^\n\r\f]*")


def is_tract(text: str) -> bool:
    """Whether a document declares a registry or a symbol of tract, or its properties."""
    return "tract_" in text and _MARKS.search(_COMMENTS.sub("", text)) is not None
