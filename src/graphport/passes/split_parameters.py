"""Constants that several nodes read, as one for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.graph import Node, Value, walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Use
    from graphport.passes.journal import Journal


def split_parameters(graph: Graph, journal: Journal) -> None:
    """Give every operand that is a constant a constant of its own.

    Before  a = Add(x, c);  b = Mul(y, c)
    After   a = Add(x, c);  b = Mul(y, c_1)

    A quantizer may then treat each as its reader wants. The graph's outputs, and the first reader, keep the constant as
    it is. The numbers are shared as long as they are in memory; in a file each copy has its own.
    Leaves alone: nothing. Keeps values bit for bit.
    """
    for inner in walk(graph):
        for value in list(inner.constants):
            uses = [use for use in value.uses if isinstance(use.user, Node)]
            for use in uses if value.is_output else uses[1:]:
                _split(value, use)
                journal.did(value.name, f"operand {use.index} of {use.user!r} has a copy of its own")


def _split(value: Value, use: Use) -> None:
    if not isinstance(use.user, Node) or value.graph is None:
        return
    copy = value.graph.add_constant(value.name, value.fact, value.storage, origin=value.origin)
    copy.is_literal = value.is_literal
    if value.has_notes:
        copy.notes.update(value.notes)
    use.user.set_input(use.index, copy)
