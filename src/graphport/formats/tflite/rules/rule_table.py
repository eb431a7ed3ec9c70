"""Rule table of TFLite: operands are dequantized floats, keywords are options of the operator."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.formats.tflite.rules.binding import import_rule, to_channels_first, to_channels_last
from graphport.formats.tflite.rules.emitting import export_reals
from graphport.ops import registry
from graphport.ops.lowering.operands import as_int64, as_scalar, as_vector
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.tflite.rules.binding import Operator, Rule
    from graphport.ops.rule_language.rule import ImportRule


def _register(*names: str, first: Rule | None = None, **options: Any) -> Callable[[ImportRule], None]:
    """Register the rows of a rule table as import rules; `options` are arguments of `import_rule`.

    `first`, if not `None`, is called before the row; the row applies only if it returns `None`.
    """

    def register(row: ImportRule) -> None:
        def rule(op: Operator) -> Any:
            found = None if first is None else first(op)
            if found is not None:
                return found
            parameters = inspect.signature(row).parameters.values()
            stated = {each.name: op.option(each.name, each.default) for each in parameters if each.kind is _OPTION}
            return row(op.b, *(op[index] for index in range(op.count)), **stated)

        vars(rule)["__wrapped__"] = row
        import_rule(*names, **options)(rule)

    return register


_OPTION = inspect.Parameter.KEYWORD_ONLY


RULES = RuleTable(
    "tflite",
    {"first": to_channels_first, "int64": as_int64, "last": to_channels_last, "scalar": as_scalar, "vector": as_vector},
    register=_register,
)
FLOAT_RULES = replace(RULES, register_export=lambda operator: export_reals(registry.op_defs()[operator]))
"""Rules of operators that compute other float types in float32."""
