"""The operations that operators stand for."""

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
"""The operation that a binary operator stands for where a tensor is involved."""
PREFIXES = {"-": "neg", "!": "not"}
COPIES = {Edition.FINAL: "copy", Edition.PROVISIONAL: "idn"}
"""The operation that a plain assignment and the unary plus stand for."""
