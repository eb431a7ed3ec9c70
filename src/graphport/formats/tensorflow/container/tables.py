"""Lookup tables: constants that an initializer fills once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.container.items import Table

if TYPE_CHECKING:
    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.items import Frame
    from graphport.formats.tensorflow.container.records import Record

HANDLES = frozenset({"HashTableV2", "HashTable", "AnonymousHashTable", "MutableHashTableV2"})
OPERATORS = HANDLES | {"LookupTableFindV2", "LookupTableFind", "LookupTableSizeV2", "LookupTableSize"}


def evaluate(building: Evaluator, frame: Frame, record: Record, operands: list[Any]) -> list[Any]:
    """The results of an operator on tables.

    Raises:
        DiagnosticError: TF0207 its table is not known, or has strings.
    """
    if record.op_type in HANDLES:
        return [_table(building, record)]
    table = operands[0]
    if not isinstance(table, Table) or table.keys is None or table.values is None:
        help = "fill the table with constants when the model is initialized"
        building.refuse("TF0207", f"{record.op_type}: the lookup table is not initialized", f"node {record.name}", help)
    if record.op_type.startswith("LookupTableSize"):
        return [building.constant(np.array(table.keys.count, np.int64))]
    keys, values = (building.constant(each, f"{record.name}/table") for each in (table.keys, table.values))
    given = [keys, values, *(building.value(each, record) for each in operands[1:])]
    return building.emit("LookupTableFindV2", given, {}, f"{frame.prefix}{record.name}")


def _table(building: Evaluator, record: Record) -> Table:
    name = record.name
    if name not in building.tables:
        found = building.table_contents(name)
        keys, values = (None, None) if found is None else found
        if keys is not None and values is not None and DType.STRING in (keys.dtype, values.dtype):
            help = "look up strings outside of the model, and pass indices"
            building.refuse(
                "TF0207", f"unsupported: {record.op_type} with a lookup table of strings", f"node {name}", help
            )
        building.tables[name] = Table(name, keys, values)
    return building.tables[name]
