"""Control flow, sequences and optionals."""

from __future__ import annotations

from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop, Scan
from graphport.ops.definitions.control.optionals import Optional, OptionalGetElement, OptionalHasElement
from graphport.ops.definitions.control.sequences import (
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
