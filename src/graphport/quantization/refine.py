"""Beam search for the codes of a weight, where column-wise rounding follows a single path.

The error `e' H e` of a row is a sum over columns, H = U D U' with a unit-triangular U: each column adds D times the
square of its corrected error. So sums over the first columns are lower bounds, and the best prefixes are kept (the
M-algorithm for closest lattice points, also known as K-best).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.quantization.round import WIDEST, descend, factored

if TYPE_CHECKING:
    from graphport.quantization.round import Codes

Array: TypeAlias = "np.ndarray[Any, Any]"

_WORK = 12_000_000
"""Maximum number of multiply-adds of the search through one weight."""
_COLUMN_COST = 48
"""Cost of selecting prefixes per column, in multiply-adds."""
_MAX_BEAM_WIDTH = 64
_MAX_EXHAUSTIVE_COLUMNS = 12
"""Number of columns up to which the search is exhaustive, within the work limit."""
_MAX_EXHAUSTIVE_BEAM = 4096
_OFFSETS = np.asarray([0, 1, -1, 2, -2], np.float32)
"""Offsets from the nearest code that each column tries."""
_STEPS = 256


def refined(codes: Codes, weight: Array, second: Array) -> Codes:
    """Return codes with no larger error in any row than `codes`, and a smaller one in most.

    Args:
        codes: the start, usually from `round.second_order`.
        weight: float, [groups, results, depth].
        second: second moments of the input, [groups, depth, depth].
    """
    depth = weight.shape[2]
    if depth > WIDEST:
        return codes
    ways = _beam_width(weight.shape)
    start = descend(codes, weight, second, _STEPS)
    if ways < 2:
        return _better(codes, start, weight, second)
    found = _searched(start, weight, second, ways)
    return _better(codes, _better(start, descend(found, weight, second, _STEPS), weight, second), weight, second)


def errors(codes: Codes, weight: Array, second: Array) -> Array:
    """Return the error `e' H e` of each row, [groups, results]."""
    gap = codes.numbers.astype(np.float64) * codes.scale - weight
    return np.asarray(np.sum((gap @ second.astype(np.float64)) * gap, axis=2))


def _better(old: Codes, new: Codes, weight: Array, second: Array) -> Codes:
    """Return for each row the codes with the smaller error."""
    is_better = errors(new, weight, second) < errors(old, weight, second)
    return replace(old, numbers=np.where(is_better[:, :, None], new.numbers, old.numbers))


def _beam_width(shape: tuple[int, ...]) -> int:
    """Return the number of prefixes that are kept per row."""
    groups, results, depth = shape
    fitting = _WORK // max(groups * results * depth * (depth + _COLUMN_COST), 1)
    return min(fitting, _MAX_EXHAUSTIVE_BEAM if depth <= _MAX_EXHAUSTIVE_COLUMNS else _MAX_BEAM_WIDTH)


def _searched(codes: Codes, weight: Array, second: Array, ways: int) -> Codes:
    """Return the best codes that the search finds; `codes` for a row without improvement."""
    groups, results, depth = weight.shape
    order, diagonal, feedback = factored(second)
    exact = weight[:, :, order]
    scales = codes.scale[:, :, order]
    bound = (errors(codes, weight, second) * (1 + 1e-6))[:, :, None]
    numbers = np.zeros((groups, results, 1, depth), np.float32)
    gaps = np.zeros_like(numbers)
    sums = np.zeros((groups, results, 1))
    for i, column in enumerate(order):
        made_good = (gaps[..., :i] @ feedback[:, None, i, :i, None])[..., 0]
        step = scales[:, :, i, None]
        aim = exact[:, :, i, None] + made_good
        low, high = codes.limits(numbers.reshape(groups, -1, depth), int(column))
        ends = [np.broadcast_to(end, (groups, results * aim.shape[2])).reshape(aim.shape) for end in (low, high)]
        tried = np.clip(np.rint(aim / step), *ends)[..., None] + _OFFSETS
        grown = sums[..., None] + diagonal[:, i, None, None, None] * (aim[..., None] - tried * step[..., None]) ** 2
        is_left_out = (tried < ends[0][..., None]) | (tried > ends[1][..., None]) | (grown > bound[..., None])
        grown[is_left_out] = np.inf
        best, sums = _least(grown.reshape(groups, results, -1), ways)
        parents = best // len(_OFFSETS)
        chosen = np.take_along_axis(tried.reshape(groups, results, -1), best, axis=2)
        numbers, gaps = (np.take_along_axis(x, parents[..., None], axis=2) for x in (numbers, gaps))
        numbers[..., column] = chosen
        gaps[..., i] = exact[:, :, i, None] - chosen * step
    first = np.take_along_axis(numbers, sums.argmin(axis=2)[..., None, None], axis=2)[:, :, 0]
    # If no candidate remains, the accumulated correction is not even on the grid.
    is_found = np.isfinite(sums.min(axis=2))[:, :, None]
    return replace(codes, numbers=np.where(is_found, first, codes.numbers))


def _least(sums: Array, ways: int) -> tuple[Array, Array]:
    """Return indices and values of the least sums of each row, as many as the row with the most needs."""
    open_ = int(np.isfinite(sums).sum(axis=2).max(initial=1))
    count = min(max(open_, 1), ways, sums.shape[2])
    best = np.argpartition(sums, count - 1, axis=2)[..., :count]
    return best, np.take_along_axis(sums, best, axis=2)
