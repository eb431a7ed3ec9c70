"""Operations that correspond to operators."""

from __future__ import annotations

from graphport.formats.nnef.container.syntax import Edition

OPERATIONS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "^": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "&&": "and",
    "||": "or",
}
"""The operation of a binary operator on tensors."""
PREFIXES = {"-": "neg", "!": "not"}
COPIES = {Edition.FINAL: "copy", Edition.PROVISIONAL: "idn"}
"""The operation of a plain assignment and of the unary plus."""
