"""Rows of ncnn: the parameters of a layer are `p0`, `p1` …, integers or reals as their defaults are."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from graphport.ops.dialects.ncnn.binding import DIALECT, emitted, layer
from graphport.ops.dialects.table import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.ncnn.binding import Layer
    from graphport.ops.rows.rule import Lowering


def _register(*types: str) -> Callable[[Lowering], None]:
    def register(row: Lowering) -> None:
        def rule(at: Layer) -> Any:
            parameters = [each for each in inspect.signature(row).parameters.values() if each.kind is each.KEYWORD_ONLY]
            return row(at.b, at.x, **{each.name: _stated(at, int(each.name[1:]), each.default) for each in parameters})

        vars(rule)["__wrapped__"] = row
        layer(*types)(rule)

    return register


def _stated(at: Layer, key: int, default: float) -> float:
    return at.real(key, default) if isinstance(default, float) else at.integer(key, default)


def _emitted(b: Builder, word: str, _is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    return emitted(b, word, *operands, **attributes)


ROWS = Rows(DIALECT, emit=_emitted, has_pages=False, register=_register)
