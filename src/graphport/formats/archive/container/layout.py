"""Names and constants of the archive layout."""

from __future__ import annotations

SIGNATURE_MEMBER = "mimetype"
SIGNATURE = b"application/x-graphport"
MANIFEST = "manifest.json"
GRAPH = "graph.txt"
WEIGHTS = "weights"
NOTES = "notes.json"

VERSION = (1, 0)
"""The version that is written: what changes the first number, older readers cannot read."""

ALIGNMENT = 64
"""Bytes that the place of every weight is a multiple of."""

HEAD = 30
"""Bytes of the fixed part of a member's header."""

MOST_NESTED = 64
"""Objects and lists within each other in a document."""

MOST_TEXT = 1 << 28
"""Bytes of a member that is read as a whole."""
