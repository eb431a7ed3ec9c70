"""Constants that several nodes read, as one for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.graph import Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Use
    from graphport.passes.journal import Journal

MOST_BYTES = 1 << 26
"""What all copies of large constants may take in all; if they take more, none of them is made."""

SMALL = 1 << 16
"""Bytes of all copies of one constant up to which it is not large."""


def split_parameters(graph: Graph, journal: Journal) -> None:
    """Give every operand that is a constant a constant of its own.

    Before  a = Add(x, c);  b = Mul(y, c)
    After   a = Add(x, c);  b = Mul(y, c_1)

    A quantizer may then treat each as its reader wants. The graph's outputs, and the first reader, keep the constant as
    it is. The numbers are shared as long as they are in memory; in a file each copy has its own.
    Leaves alone: large constants where copies of all of them would take more than `MOST_BYTES`. Keeps values bit for
    bit.
    """
    shared = list(_shared(graph))
    # All or none: with as many as there is room for, a second preparation would find room for more.
    whole = sum(size for value, uses in shared if (size := _size_of_copies(value, uses)) > SMALL)
    for value, uses in shared:
        if _size_of_copies(value, uses) <= SMALL or whole <= MOST_BYTES:
            _split(value, uses, journal)
        else:
            _keep(value, uses, journal, f"copies would take {whole} bytes in all, more than {MOST_BYTES}")


def split_every_parameter(graph: Graph, journal: Journal) -> None:
    """Give every operand that is a constant a constant of its own, however large.

    As `split_parameters`, which leaves nothing alone then.
    """
    for value, uses in list(_shared(graph)):
        _split(value, uses, journal)


def keep_shared_parameters(graph: Graph, journal: Journal) -> None:
    """Tell which operands share a constant, and leave them as they are."""
    for value, uses in _shared(graph):
        _keep(value, uses, journal, "shared parameters are to be kept")


def _shared(graph: Graph) -> Iterator[tuple[Value, list[Use]]]:
    """Constants that are read where somebody else has them already, and there."""
    for inner in walk(graph):
        for value in inner.constants:
            uses = [use for use in value.uses if isinstance(use.user, Node)]
            if further := uses if value.is_output else uses[1:]:
                yield value, further


def _size_of_copies(value: Value, uses: list[Use]) -> int:
    return 0 if value.storage is None else value.storage.nbytes * len(uses)


def _keep(value: Value, uses: list[Use], journal: Journal, reason: str) -> None:
    for use in uses:
        if isinstance(use.user, Node):
            journal.leave(use.user, f"operand {use.index} stays {value.name}, which others read: {reason}")


def _split(value: Value, uses: list[Use], journal: Journal) -> None:
    for use in uses:
        if not isinstance(use.user, Node) or value.graph is None:
            continue
        copy = value.graph.add_constant(value.name, value.fact, value.storage, origin=value.origin)
        copy.is_literal = value.is_literal
        if value.has_notes:
            copy.notes.update(value.notes)
        use.user.set_input(use.index, copy)
        journal.did(value.name, f"operand {use.index} of {use.user!r} has a copy of its own")
