"""A program in stretches that are compiled one by one, and the values that they hand on to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.expression.program import Apply

if TYPE_CHECKING:
    from graphport.expression.program import Program

SEGMENT = 96
"""Operations in a segment: compiling one takes time that grows faster than its length."""
MOST_SLOTS = 128
"""Intermediate values that segments may hand on: they lie on the stack."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The program values `values`, in order; `kept` are those that later segments use, with their slots."""

    values: tuple[int, ...]
    kept: dict[int, int]


def slot_count(program: Program) -> int:
    """Return the maximum number of intermediate values that are stored between segments."""
    return segments_of(program)[1]


def segments_of(program: Program) -> tuple[list[Segment], int]:
    """Split the program into segments of `SEGMENT` operations; return them and the number of slots between them."""
    owner: dict[int, int] = {}
    stretches: list[list[int]] = [[]]
    count = 0
    for number, value in enumerate(program.values):
        if isinstance(value, Apply):
            if count == SEGMENT:
                stretches.append([])
                count = 0
            stretches[-1].append(number)
            owner[number] = len(stretches) - 1
            count += 1
    last_reader: dict[int, int] = {}
    for number, value in enumerate(program.values):
        if isinstance(value, Apply):
            last_reader.update((argument, owner[number]) for argument in value.arguments if argument in owner)
    free: list[int] = []
    slot_count = 0
    ends: list[list[int]] = [[] for _ in stretches]
    segments: list[Segment] = []
    for index, stretch in enumerate(stretches):
        kept: dict[int, int] = {}
        for number in stretch:
            if last_reader.get(number, index) == index:
                continue
            if not free:
                free.append(slot_count)
                slot_count += 1
            kept[number] = free.pop()
            ends[last_reader[number]].append(kept[number])
        segments.append(Segment(tuple(stretch), kept))
        # Only now: a segment that reads a slot writes others while it does.
        free.extend(ends[index])
    return segments, slot_count
