"""Check enumerations: fields of tables that hold the number of a member."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.tflite.container import schema
from graphport.formats.tflite.container.elements import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.tflite.container.flatbuffer import Record


def enumeration_faults(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the error and the expected members of each field whose number belongs to no member."""
    for field in schema.TABLES[record.table]:
        numbers = record.get(field.name)
        if numbers is None or not field.is_numeric or field.kind == "f":
            continue
        members = schema.ENUMS.get(f"{record.table}.{field.name}") or schema.ENUMS.get(field.name)
        count = len(TYPES) if field.name in schema.ELEMENT_TYPES else None if members is None else len(members)
        # StableHLO has vectors of paddings, which are not enumerations.
        if count is None or (field.is_vector and field.name == "padding"):
            continue
        wrong = [int(number) for number in np.atleast_1d(numbers) if not 0 <= number < count]
        if wrong:
            listed = ", ".join(f"{index} {name}" for index, name in enumerate(members or ()))
            yield f"{field.name} is {wrong[0]}", f"expected {listed or f'an element type, 0 to {count - 1}'}"
