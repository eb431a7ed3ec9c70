"""Weights that several operators read, when one of them takes something into its own."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from graphport.passes.journal import Journal, NoRoom
from graphport.passes.substitution import graph_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.storage import Storage
    from graphport.ir.graph import Node, Value
    from graphport.passes.affine import Affine


def absorb(
    into: Callable[[Node, Affine], None],
    node: Node,
    affine: Affine,
    journal: Journal,
    is_left_by_all: Callable[[Value], bool] = lambda _: False,
) -> None:
    """Fold `affine` into the weights of `node` by the function `into`, and keep the model's size.

    What somebody else reads stays, and `node` gets constants of its own, which take room; several that get the same
    numbers share them. `is_left_by_all` says of a constant that every reader is going to do the same, so that it goes.

    Raises:
        NoRoom: there is no room.
        Left: a reason of `into`.
    """
    given = {index: value for index, value in enumerate(node.inputs) if value is not None and value.is_constant}
    shared = {index: value for index, value in given.items() if len(value.uses) > 1 or value in journal.derived}
    changed = [value for index, value in shared.items() if index == 2 or affine.factor is not None]
    kept = [value for value in changed if len(value.uses) > 1 and not is_left_by_all(value)]
    growth = sum(map(_nbytes, kept))
    if growth > max(journal.room, 0):
        names = " and ".join(value.name for value in kept)
        raise NoRoom(f"{names} is read elsewhere, too: its own would make the weights larger by {growth} bytes", growth)
    into(node, affine)
    for index, old in shared.items():
        is_new = _share(node, index, old, journal)
        journal.room -= _nbytes(old) if is_new and old in kept else 0


def _share(node: Node, index: int, old: Value, journal: Journal) -> bool:
    """Let operand `index`, which was `old`, be what another reader of `old` has got already; else it is new."""
    new = node.operand(index)
    if new is None or new is old or new.storage is None:
        return False
    key = (new.storage.dtype, new.storage.shape, _digest(new.storage))
    twin = journal.derived.setdefault(old, {}).setdefault(key, new)
    if twin is not new and twin.uses and twin.graph is new.graph:
        node.set_input(index, twin)
        graph_of(node).remove_constant(new)
        return False
    return True


def _nbytes(value: Value) -> int:
    return 0 if value.storage is None else value.storage.nbytes


def _digest(storage: Storage) -> bytes:
    found = blake2b()
    for piece in storage.chunks():
        found.update(piece)
    return found.digest()
