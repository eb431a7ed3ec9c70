"""Detection of a text's edition by syntax that occurs in one edition only."""

from __future__ import annotations

import re

from graphport.formats.nnef.container.lexer import COMMENT, SPACE
from graphport.formats.nnef.container.syntax import Edition

_GAP = rf"(?:{SPACE}++|{COMMENT})"
_FINAL_VERSION = re.compile(rf"\ufeff?{_GAP}*+version\b{_GAP}*+[^;#\s]*+{_GAP}*+;")
_MARK = re.compile(
    rf"{COMMENT}|'(?:[^'\\\n\r]|\\[^\n\r])*'|\"(?:[^\"\\\n\r]|\\[^\n\r])*\"|(\b(?:extension|integer|yield)\b|\btensor{_GAP}*+<"
    rf"|[A-Za-z0-9_]{_GAP}*+<{_GAP}*+(?:scalar|logical|string|\?){_GAP}*+>)"
)


def edition_of(text: str) -> Edition:
    """The edition that a document is written in.

    Any mark of the final edition makes it final: a semicolon after the version, `extension`, `integer`, `yield`,
    `tensor<`, a generic type between < and >.
    """
    if _FINAL_VERSION.match(text):
        return Edition.FINAL
    if any(mark in text for mark in ("extension", "integer", "yield", "tensor", "<")):
        return Edition.FINAL if any(match[1] for match in _MARK.finditer(text)) else Edition.PROVISIONAL
    return Edition.PROVISIONAL
