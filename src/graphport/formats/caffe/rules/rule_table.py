"""Rule table of Caffe: operands are the bottoms of a layer, keywords the fields of its parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from graphport.formats.caffe.rules.binding import DIALECT, in_caffe, layer, reshaped_in_caffe
from graphport.ops.lowering.table import RuleTable
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.caffe.rules.binding import Layer
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.rule_language.rule import ImportRule


def _register(*types: str, fields: Sequence[str] = ()) -> Callable[[ImportRule], None]:
    """Register a row as the import rule of layer `types`; `fields` are the parameter messages with its keywords."""

    def register(row: ImportRule) -> None:
        signature = inspect.signature(row)

        def rule(at: Layer, **attributes: Any) -> Any:
            return row(at.b, *at.bottoms, **attributes)

        vars(rule).update(__wrapped__=row, __signature__=signature)
        bottoms = sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in signature.parameters.values())
        for name in types:
            layer(name, *fields, bottoms=bottoms)(rule)

    return register


def _emitted(b: Builder, op_type: str, _is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    return in_caffe(b, op_type, *operands, facts=[operands[0].fact], **attributes)[0]


def stated_axis(b: Builder, axis: int, *operands: Value) -> int | None:
    """Return a normalized axis; `None` for the channel axis, which is the default."""
    place = axis_index(axis, len(b.dims(operands[0])))
    return place if place != 1 else None


RULES = RuleTable(
    DIALECT,
    {"stated_axis": stated_axis, "reshaped": lambda b, x: reshaped_in_caffe(b, x)[0]},
    emit=_emitted,
    has_operators=False,
    register=_register,
)
