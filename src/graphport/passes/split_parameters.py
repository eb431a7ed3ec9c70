"""Copy shared constants for each consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.graph import Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Use
    from graphport.passes.journal import Journal

MAX_COPY_BYTES = 1 << 26
"""Size limit in bytes of all copies of large constants together; beyond it none is copied."""

MAX_SMALL_BYTES = 1 << 16
"""Size in bytes of all copies of a constant up to which it is not large."""


def split_parameters(graph: Graph, journal: Journal) -> None:
    """Give each constant operand a constant of its own.

    Before  a = Add(x, c);  b = Mul(y, c)
    After   a = Add(x, c);  b = Mul(y, c_1)

    A quantizer may then choose qparams per consumer. Graph outputs and the first consumer keep the original. Copies
    share memory; in a file each copy is stored. Does not apply to large constants if all copies exceed `MOST_BYTES`.
    Preserves values bit for bit.
    """
    shared = list(_shared_operands(graph))
    # All or none: a partial copy would leave work for a second preparation.
    whole = sum(size for value, uses in shared if (size := _size_of_copies(value, uses)) > MAX_SMALL_BYTES)
    for value, uses in shared:
        if _size_of_copies(value, uses) <= MAX_SMALL_BYTES or whole <= MAX_COPY_BYTES:
            _split(value, uses, journal)
        else:
            _keep(value, uses, journal, f"copies would take {whole} bytes in total, the limit is {MAX_COPY_BYTES}")


def split_every_parameter(graph: Graph, journal: Journal) -> None:
    """Copy each shared constant, of any size, so that each operand has its own.

    Like `split_parameters` without its size limit.
    """
    for value, uses in list(_shared_operands(graph)):
        _split(value, uses, journal)


def keep_shared_parameters(graph: Graph, journal: Journal) -> None:
    """Report which operands share a constant, and leave them unchanged."""
    for value, uses in _shared_operands(graph):
        _keep(value, uses, journal, "shared parameters are kept by request")


def _shared_operands(graph: Graph) -> Iterator[tuple[Value, list[Use]]]:
    """Yield constant operands whose constant has an earlier consumer."""
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
            journal.leave(use.user, f"operand {use.index} keeps the shared constant {value.name}: {reason}")


def _split(value: Value, uses: list[Use], journal: Journal) -> None:
    for use in uses:
        if not isinstance(use.user, Node) or value.graph is None:
            continue
        copy = value.graph.add_constant(value.name, value.fact, value.storage, origin=value.origin)
        copy.is_literal = value.is_literal
        if value.has_notes:
            copy.notes.update(value.notes)
        use.user.set_input(use.index, copy)
        journal.did(value.name, f"operand {use.index} of {use.user!r} has a separate copy")
