"""The operands and results of a node by the parameters and targets of its call."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.formats.nnef.container.build import call_form
from graphport.formats.nnef.container.literals import Unspellable
from graphport.formats.nnef.container.types import TensorOf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.formats.nnef.container.build import Structure
    from graphport.formats.nnef.container.declarations import Formal
    from graphport.ir.graph import Node, Value

Group: TypeAlias = "Value | list[Group] | None"


def operand_groups(node: Node, formals: Sequence[Formal]) -> list[Group]:
    """Group the operands of a node by parameter; an array takes all that the other parameters leave."""
    form = call_form(node)
    if form is not None:
        values = iter(node.inputs)
        return [_grouped(form.operands[formal.name], values) for formal in formals]
    operands: list[Group] = list(node.inputs)
    arrays = [place for place, formal in enumerate(formals) if not isinstance(formal.type, TensorOf)]
    if arrays:
        behind = len(formals) - arrays[0] - 1
        stop = len(operands) - behind
        operands[arrays[0] : stop] = [operands[arrays[0] : stop]]
    if len(operands) > len(formals):
        raise Unspellable(f"{len(operands)} tensors are passed, expected {len(formals)}")
    return operands + [None] * (len(formals) - len(operands))


def _grouped(structure: Structure, values: Iterator[Value | None]) -> Group:
    return next(values, None) if structure is None else [_grouped(each, values) for each in structure]


def targets_text(structure: Structure, names: Iterator[str]) -> str:
    """The names of results as a target of the statement, in brackets where they are an array."""
    return next(names) if structure is None else f"[{', '.join(targets_text(each, names) for each in structure)}]"
