"""Patterns of repeated calls: operations that differ only in operands, results and location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.nnef.container.operation import Pattern, Tensor, tensors
from graphport.formats.nnef.container.types import TensorOf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.nnef.container.call_text import CallText, FlatCall
    from graphport.formats.nnef.container.operation import Operation

_NEVER = frozenset(("external", "variable", "constant", "update"))


class Patterns:
    """The patterns of one document, each taken from the first operation of its kind."""

    def __init__(self) -> None:
        self._known: dict[tuple[CallText, *tuple[str, ...]], Pattern] = {}

    def of(self, call: FlatCall, values: Mapping[str, object]) -> tuple[Pattern, list[Tensor]] | None:
        """Return the pattern of `call` and the tensors that it names; `None` if no equal form has been seen."""
        given: list[Tensor] = []
        for name in call.tensors:
            value = values.get(name)
            if type(value) is not Tensor or value.literal is not None:
                return None
            given.append(value)
        pattern = self._known.get((call.form, *[each.data for each in given]))
        return None if pattern is None else (pattern, given)

    def learn(self, call: FlatCall, operation: Operation) -> None:
        """Record `operation`, made from `call`, as a pattern if further ones differ in operands only."""
        declaration, result = operation.declaration, operation.results[0]
        if declaration is None or declaration.is_expanded or operation.name in _NEVER or operation.call is not call:
            return
        formals = declaration.formals[: call.form.count]
        if len(operation.results) > 1 or not isinstance(result, Tensor) or len(formals) < call.form.count:
            return
        given = [operation.operands.get(formal.name) for formal in formals if isinstance(formal.type, TensorOf)]
        leading = [each for each in given if isinstance(each, Tensor) and each.literal is None]
        names = {formal.name for formal in formals}
        rest = [each for name, operand in operation.operands.items() if name not in names for each in tensors(operand)]
        if len(leading) == call.form.count and all(each.literal is not None for each in rest):
            key = (call.form, *[each.data for each in leading])
            self._known[key] = Pattern(declaration, operation, call.form.count, result.data)
