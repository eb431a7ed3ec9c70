"""Control flow, sequences and optionals."""

from __future__ import annotations

from graphport.ops.control.branches import If
from graphport.ops.control.loops import Loop, Scan
from graphport.ops.control.optionals import Optional, OptionalGetElement, OptionalHasElement
from graphport.ops.control.sequences import (
    ConcatFromSequence,
    SequenceAt,
    SequenceConstruct,
    SequenceEmpty,
    SequenceErase,
    SequenceInsert,
    SequenceLength,
    SequenceMap,
    SplitToSequence,
)

__all__ = [
    "ConcatFromSequence",
    "If",
    "Loop",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "Scan",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
]
