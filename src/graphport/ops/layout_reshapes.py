"""Reshapes that split or join axes after a permutation: move the Transpose after the Reshape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir.graph import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.layout_language import Language

_MAX_LOOKAHEAD = 6
"""The maximum number of operators between two Transposes that can cancel."""


def match_axes(before: Sequence[Dim], after: Sequence[Dim]) -> list[tuple[list[int], list[int]]] | None:
    """Match axes before and after a Reshape; `None` if the dims are not known.

    [1, 6, 4] and [1, 2, 3, 4] give 0 → 0, 1 → 1 and 2, 2 → 3.
    """
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        taken, given = [i], [j]
        a, b = before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if not isinstance(a, int) or not isinstance(b, int) or not a or not b:
                return None
            if a < b:
                if i == len(before) or not isinstance(extent := before[i], int):
                    return None
                a, i, taken = a * extent, i + 1, [*taken, i]
            else:
                if j == len(after) or not isinstance(extent := after[j], int):
                    return None
                b, j, given = b * extent, j + 1, [*given, j]
        found.append((taken, given))
    if not found or any(n != 1 for n in (*before[i:], *after[j:])):
        return None
    found[-1][0].extend(range(i, len(before)))
    found[-1][1].extend(range(j, len(after)))
    return found


def move_transpose_after_reshape(
    node: Node, order: Sequence[int], language: Language
) -> tuple[tuple[int, ...], tuple[Dim, ...], tuple[int, ...]] | None:
    """Rewrite `Reshape(Transpose(x, order))` as `Transpose(Reshape(Transpose(x, first), shape), second)`.

    Returns:
        `first`, `shape` and `second` if `first` is the identity and the result has one consumer, or if `second` cancels
        with a later Transpose; else `None`.
    """
    found = _past(node, order, language)
    if found is None or _is_still(found[2]):
        return None
    # With several consumers, each would get its own Transpose.
    makes_more = not _is_still(found[0]) or len(node.results[0].uses) > 1
    return None if makes_more and not meets_inverse_transpose(node.results[0], found[2], language) else found


def _is_still(order: Sequence[int]) -> bool:
    return list(order) == list(range(len(order)))


def _past(
    node: Node, order: Sequence[int], language: Language
) -> tuple[tuple[int, ...], tuple[Dim, ...], tuple[int, ...]] | None:
    shape, moved = language.shape(node), _extents(node.inputs[0])
    parts = None if shape is None or moved is None else match_axes(moved, shape)
    if parts is None or shape is None:
        return None
    # Joined or split axes remain adjacent; they are ordered by the first of their axes in the permuted tensor.
    parts.sort(key=lambda part: min(order[axis] for axis in part[0]))
    first = tuple(order[axis] for taken, _ in parts for axis in taken)
    given = [axis for _, into in parts for axis in into]
    second = tuple(given.index(axis) for axis in range(len(given)))
    return first, tuple(shape[axis] for axis in given), second


def meets_inverse_transpose(
    value: Value, order: tuple[int, ...], language: Language, farthest: int = _MAX_LOOKAHEAD
) -> bool:
    """Whether a Transpose of `value` would cancel with a Transpose that follows."""
    for use in value.uses:
        user = use.user
        if not farthest or not isinstance(user, Node):
            continue
        again = language.order(user)
        if again is not None:
            if len(again) == len(order) and all(order[axis] == place for place, axis in enumerate(again)):
                return True
        elif language.shape(user) is not None:
            past = _past(user, order, language)
            if (
                past is not None
                and _is_still(past[0])
                and meets_inverse_transpose(user.output, past[2], language, farthest - 1)
            ):
                return True
        elif language.carried(user) and any(
            meets_inverse_transpose(result, order, language, farthest - 1) for result in user.results
        ):
            return True
    return False


def _extents(value: Value | None) -> tuple[Dim, ...] | None:
    fact = None if value is None else value.fact
    return fact.shape if isinstance(fact, TensorFact) else None
