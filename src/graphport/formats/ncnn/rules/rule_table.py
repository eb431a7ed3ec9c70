"""Rule table of ncnn: layer parameters are `p0`, `p1` …, with the type of their default."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.formats.ncnn.rules.binding import DIALECT, axis_of, layer
from graphport.formats.ncnn.rules.emitting import constant_float32, emitted, lengths_of
from graphport.formats.pytorch.rules.binding import length
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.storage import Storage
    from graphport.formats.ncnn.rules.binding import Layer
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.rule_language.rule import ImportRule


def _register(*types: str) -> Callable[[ImportRule], None]:
    def register(row: ImportRule) -> None:
        def rule(at: Layer) -> Any:
            parameters = [each for each in inspect.signature(row).parameters.values() if each.kind is each.KEYWORD_ONLY]
            return row(
                at.b, at.x, **{each.name: _parameter(at, int(each.name[1:]), each.default) for each in parameters}
            )

        vars(rule)["__wrapped__"] = row
        layer(*types)(rule)

    return register


def _check_leading_batch(b: Builder, x: Value) -> Value:
    """Return `x` after a check that its blob lacks axis 0, the batch, and no other axis."""
    lengths_of(b, x)
    return x


def _channels(b: Builder, x: Value) -> int:
    return length(b.dims(x), 1)


def _weights(b: Builder, x: Value) -> Storage:
    del b
    return constant_float32(x)


def _parameter(at: Layer, key: int, default: float) -> float:
    return at.float_value(key, default) if isinstance(default, float) else at.integer(key, default)


def _emitted(b: Builder, op_type: str, _is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    return emitted(b, op_type, *operands, **attributes)


RULES = RuleTable(
    DIALECT,
    {"axis": axis_of, "channels": _channels, "item": _check_leading_batch, "weights": _weights},
    emit=_emitted,
    has_operators=False,
    register=_register,
)
"""Import and export rules of layers."""
OPERATORS = replace(RULES, has_operators=True)
"""Export rules by decomposition into other operators."""
