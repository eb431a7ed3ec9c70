"""Older forms of comparison and logic: broadcasting was asked for, and aligned by an axis."""

from __future__ import annotations

from graphport.ops.comparison import And, Equal, Greater, Less, Or, Xor
from graphport.ops.leading import explicit_broadcast

for _page in (Equal, Less, Greater, And, Or, Xor):
    explicit_broadcast(_page, until=6)
