"""Older forms of comparison and logic: broadcasting was asked for, and aligned by an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.leading_broadcast import explicit_broadcast
from graphport.ops.dialects.onnx.older import ROWS
from graphport.ops.pages.comparison import And, Equal, Greater, Less, Or, Xor

if TYPE_CHECKING:
    pass

for _page in (Equal, Less, Greater, And, Or, Xor):
    explicit_broadcast(_page, until=6)


ROWS.lift(
    """
GreaterOrEqual -> Or(Greater(a, b), Equal(a, b))
LessOrEqual -> Or(Less(a, b), Equal(a, b))
""",
    until=11,
)
