"""Fold into weights that have several consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.element_digest import digest_elements
from graphport.passes.journal import Journal, SizeLimitExceeded
from graphport.passes.substitution import graph_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Node, Value
    from graphport.passes.affine import Affine


def absorb(
    into: Callable[[Node, Affine], None],
    node: Node,
    affine: Affine,
    journal: Journal,
    is_left_by_all: Callable[[Value], bool] = lambda _: False,
) -> None:
    """Fold `affine` into the weights of `node` with the function `into`, within the size limit of the model.

    Constants with other consumers remain, and `node` gets its own copies; equal copies are shared. `is_left_by_all`
    reports whether all consumers of a constant will be changed alike, so that it disappears.

    Raises:
        NoRoom: the copies exceed the limit.
        Left: `into` cannot apply.
    """
    given = {index: value for index, value in enumerate(node.inputs) if value is not None and value.is_constant}
    shared = {index: value for index, value in given.items() if len(value.uses) > 1 or value in journal.derived}
    changed = [value for index, value in shared.items() if index == 2 or affine.factor is not None]
    kept = [value for value in changed if len(value.uses) > 1 and not is_left_by_all(value)]
    growth = sum(map(_nbytes, kept))
    if growth > max(journal.room, 0):
        names = " and ".join(value.name for value in kept)
        raise SizeLimitExceeded(f"{names} has other consumers: a copy would add {growth} bytes", growth)
    into(node, affine)
    for index, old in shared.items():
        is_new = _reuse_copy(node, index, old, journal)
        journal.room -= _nbytes(old) if is_new and old in kept else 0


def _reuse_copy(node: Node, index: int, old: Value, journal: Journal) -> bool:
    """Reuse a copy of `old` that another consumer has already received for operand `index`."""
    new = node.operand(index)
    if new is None or new is old or new.storage is None:
        return False
    key = (new.storage.dtype, new.storage.shape, digest_elements(new.storage))
    twin = journal.derived.setdefault(old, {}).setdefault(key, new)
    if twin is not new and twin.uses and twin.graph is new.graph:
        node.set_input(index, twin)
        graph_of(node).remove_constant(new)
        return False
    return True


def _nbytes(value: Value) -> int:
    return 0 if value.storage is None else value.storage.nbytes
