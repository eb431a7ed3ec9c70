"""Rows of TFLite: operands stand for real numbers, keywords are options of the operator."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.ops import registry
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.table import Rows
from graphport.ops.dialects.tflite.binding import word
from graphport.ops.dialects.tflite.emitting import lift_reals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.tflite.binding import Operator
    from graphport.ops.rows.rule import Lowering


def _register(*names: str, **options: Any) -> Callable[[Lowering], None]:
    def register(row: Lowering) -> None:
        def rule(op: Operator) -> Any:
            parameters = inspect.signature(row).parameters.values()
            stated = {each.name: op.option(each.name, each.default) for each in parameters if each.kind is _OPTION}
            return row(op.b, *(op[index] for index in range(op.count)), **stated)

        vars(rule)["__wrapped__"] = row
        for name in names:
            word(name, **options)(rule)

    return register


_OPTION = inspect.Parameter.KEYWORD_ONLY


def _emitted(b: Builder, word: str, _is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    return emit(b, word, *operands, **attributes)


ROWS = Rows("tflite", emit=_emitted, register=_register)
REALS = replace(ROWS, register_lift=lambda operator: lift_reals(registry.pages()[operator]))
"""Rows of operators that are computed in float32 for other reals."""
