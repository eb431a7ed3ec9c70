"""Rows of TFLite: operands stand for real numbers, keywords are options of the operator."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from graphport.ops import registry
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.table import Rows
from graphport.ops.dialects.tflite.binding import word
from graphport.ops.dialects.tflite.emitting import in_single, is_other_real

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


def _in_single(b: Builder, operator: str, *operands: Value, **attributes: Any) -> Value:
    """`in_single` with the name of the operator."""
    return in_single(b, registry.pages()[operator], *operands, **attributes)


ROWS = Rows(
    "tflite",
    {"in_single": _in_single, "is_other_real": lambda _b, x: is_other_real(x)},
    emit=_emitted,
    register=_register,
)
