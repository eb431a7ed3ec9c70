"""Rows of OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.ops.dialects.emitting import emit, numbered
from graphport.ops.dialects.operands import as_index, as_int64
from graphport.ops.dialects.table import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _emitted(b: Builder, word: str, is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    """What comes last has the fact of the operator that it is written for."""
    if is_last:
        return b.word(word, *numbered(b, operands), **attributes)[0]
    return emit(b, word, *operands, **attributes)


ROWS = Rows("openvino", {"as_index": as_index, "as_int64": as_int64}, emit=_emitted)
