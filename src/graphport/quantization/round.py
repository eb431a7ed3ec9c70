"""Rounding of weights by the second moments of what they are multiplied with.

A layer's error is `e' H e` for the error `e` of a row of its weight, with `H` the second moments of its input. Columns
are rounded one after another; the error of each is made good by those that are still free (GPTQ, after OBQ). Then
single codes are moved up or down as long as that helps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.quantization.power import power
from graphport.quantization.weights import PAIR

if TYPE_CHECKING:
    from graphport.quantization.layer import Layer
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

DAMPING = 0.01
"""Part of the mean of the diagonal that is added to it: second moments of few rows are not of full rank."""
WIDEST = 1024
"""Columns whose moments are taken together."""
_PARTS = 8
_AT_ONCE = 48
_ENOUGH = 3
"""Rows for each column, from which on the weight is fitted to the quantized input."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a layer is given: real rows and quantized ones at the same places, [groups, n, depth] each."""

    real: Array
    quantized: Array

    def split(self) -> tuple[Rows, Rows]:
        """Three quarters to fit, and a quarter to check with; all for both where they are few.

        Rows come sample by sample, and those of one sample are alike: the check has samples of its own.
        """
        n = self.real.shape[1]
        if n < 16:
            return self, self
        stop = n - n // 4
        return (
            Rows(self.real[:, :stop], self.quantized[:, :stop]),
            Rows(self.real[:, stop:], self.quantized[:, stop:]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Integers of a weight as a matrix, [groups, results, depth], with scales for each of them."""

    numbers: Array
    scale: Array
    least: int
    most: int
    has_pairs: bool
    shift: Array | None = None
    """What was taken from the codes that are written, where that is not the same for all."""

    @property
    def real(self) -> Array:
        """What they stand for."""
        return self.numbers * self.scale

    def repeated(self, times: int) -> Codes:
        """The same results `times` times, one set behind the other."""
        tile = (1, times, 1)
        shift = None if self.shift is None else np.tile(self.shift, tile)
        return replace(self, numbers=np.tile(self.numbers, tile), scale=np.tile(self.scale, tile), shift=shift)

    def part(self, index: int, times: int) -> Codes:
        """Set `index` of `times` sets of results."""
        rows = self.numbers.shape[1] // times
        place = slice(index * rows, (index + 1) * rows)
        shift = None if self.shift is None else self.shift[:, place]
        return replace(self, numbers=self.numbers[:, place], scale=self.scale[:, place], shift=shift)

    @classmethod
    def of(cls, layer: Layer, qparams: QuantizationParameters, codes: Array, *, has_pairs: bool) -> Codes:
        """The codes of a weight, counted from the zero points of `qparams`."""
        zeros = np.broadcast_to(qparams.spread(qparams.zero_point, codes), codes.shape)
        scale = layer.matrix(qparams.values(zeros + np.float32(1)))
        numbers = layer.matrix(codes.astype(np.float32) - zeros)
        middle = int(zeros.max(initial=0))
        if np.all(zeros == middle):
            return cls(numbers, scale, qparams.least - middle, qparams.most - middle, has_pairs)
        return cls(numbers, scale, qparams.least, qparams.most, has_pairs, layer.matrix(zeros))

    def limits(self, numbers: Array, column: int) -> tuple[Array | float, Array | float]:
        """Between what the codes of a column may lie, beside the codes that its neighbour has."""
        if self.shift is not None:
            shift = np.repeat(self.shift[:, :, column], numbers.shape[1] // self.shift.shape[1], axis=1)
            return self.least - shift, self.most - shift
        if not self.has_pairs:
            return self.least, self.most
        beside = column ^ 1
        if beside >= numbers.shape[2]:
            return self.least, self.most
        neighbour = numbers[:, :, beside]
        low = np.maximum(self.least, -PAIR - np.minimum(neighbour, 0))
        return low, np.minimum(self.most, PAIR - np.maximum(neighbour, 0))


@dataclass(slots=True, eq=False)
class WideMoments:
    """Second moments of rows of more than `WIDEST` columns, which are taken for one run of columns at a time."""

    rows: Array
    _known: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict[int, "tuple[Array, Array, Array]"])
    _lock: Lock = field(default_factory=Lock)

    def factored(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        """`factored` of the columns from `start` to `stop`, once for all results that ask."""
        with self._lock:
            if start not in self._known:
                self._known[start] = factored(moments(np.ascontiguousarray(self.rows[:, :, start:stop])))
            return self._known[start]


def seconds_of(rows: Array) -> Array | WideMoments:
    """Second moments, of all columns together where they are few enough."""
    return moments(rows) if rows.shape[2] <= WIDEST else WideMoments(rows)


def moments(rows: Array) -> Array:
    """Second moments, [groups, depth, depth], with some of their mean on the diagonal."""
    # Of one matrix and its own transpose BLAS computes a half only.
    found = rows.swapaxes(1, 2) @ rows if len(rows) > 1 else (rows[0].T @ rows[0])[None]
    found /= max(rows.shape[1], 1)
    depth = found.shape[-1]
    diagonal = found[:, range(depth), range(depth)]
    found[:, range(depth), range(depth)] += DAMPING * diagonal.mean(axis=1, keepdims=True) + 1e-12
    return found


def _solved(a: Array, b: Array) -> Array:
    return np.linalg.solve(a, b)


def fitted(weight: Array, rows: Rows, second: Array | WideMoments) -> Array:
    """The real weight that gives from quantized rows what `weight` gives from real ones, as well as can be.

    weight + weight (A - B)' B (B' B)^-1  for real rows A and quantized ones B, both without their means.

    Args:
        weight: real, [groups, results, depth].
        rows: A and B.
        second: `moments` of B without its mean.
    """
    if rows.real.shape[1] < _ENOUGH * weight.shape[2] or isinstance(second, WideMoments):
        return weight
    gap = rows.real - rows.quantized
    gap -= gap.mean(axis=1, keepdims=True)
    # What is without its mean makes the mean of the other one nothing.
    cross = gap.swapaxes(1, 2) @ rows.quantized / gap.shape[1]
    correction: Array = _solved(second.astype(np.float64), (weight @ cross).swapaxes(1, 2).astype(np.float64))
    return (weight + correction.swapaxes(1, 2)).astype(np.float32)


def second_order(codes: Codes, weight: Array, second: Array | WideMoments) -> Codes:
    """Round `weight` to the scales of `codes` column by column, each making good the errors before it.

    Args:
        codes: whose scales and limits count; its numbers are where columns start from.
        weight: real, [groups, results, depth].
        second: moments, [groups, depth, depth].
    """
    groups, results, depth = weight.shape
    # Column by column in memory: that is how they are made.
    numbers = np.zeros((groups, depth, results), np.float32).swapaxes(1, 2)
    for start in range(0, depth, WIDEST):
        stop = min(start + WIDEST, depth)
        factors = second.factored(start, stop) if isinstance(second, WideMoments) else factored(second)
        _round_block(codes, weight[:, :, start:stop], factors, numbers, start)
    numbers = np.ascontiguousarray(numbers)
    return replace(codes, numbers=numbers)


def factored(second: Array) -> tuple[Array, Array, Array]:
    """The order of columns, those with the largest moments first, and in that order the moments as U D U'.

    D is [groups, depth]; U comes row by row: for each column what it takes of the errors before it.
    """
    order = np.argsort(-second.diagonal(axis1=1, axis2=2).sum(axis=0), kind="stable")
    backwards = second[:, order[::-1]][:, :, order[::-1]].astype(np.float64)
    upper = np.linalg.cholesky(backwards)[:, ::-1, ::-1]
    diagonal = upper.diagonal(axis1=1, axis2=2)
    feedback = np.ascontiguousarray((upper / diagonal[:, None, :]).swapaxes(1, 2), np.float32)
    return order, diagonal**2, feedback


def _round_block(codes: Codes, weight: Array, factors: tuple[Array, Array, Array], numbers: Array, start: int) -> None:
    """Round the columns from `start` on, those with the largest moments first.

    What a column is to make good of those before it is a column of the factor of the moments: H = U D U' for a
    triangular U with ones on its diagonal (LDLQ of QuIP, which gives what GPTQ gives without an inverse).
    """
    order, _, feedback = factors
    exact = np.ascontiguousarray(weight.swapaxes(1, 2)[:, order])
    left = exact.copy()
    scales = np.ascontiguousarray(codes.scale.swapaxes(1, 2)[:, start + order])
    errors = np.zeros_like(left)
    for first in range(0, len(order), _AT_ONCE):
        last = min(first + _AT_ONCE, len(order))
        left[:, first:last] += feedback[:, first:last, :first] @ errors[:, :first]
        for i in range(first, last):
            column = int(order[i]) + start
            aim = left[:, i]
            if i > first:
                aim = aim + (feedback[:, i : i + 1, first:i] @ errors[:, first:i])[:, 0]
            low, high = codes.limits(numbers, column)
            chosen = np.minimum(np.maximum(np.rint(aim / scales[:, i]), low), high)
            numbers[:, :, column] = chosen
            errors[:, i] = exact[:, i] - chosen * scales[:, i]


def descend(codes: Codes, weight: Array, second: Array | WideMoments, steps: int) -> Codes:
    """Move single codes by one, in each row the one that helps most, up to `steps` times or until none helps."""
    if isinstance(second, WideMoments):
        return codes
    numbers = codes.numbers.copy()
    diagonal = second.diagonal(axis1=1, axis2=2)[:, None, :]
    slope = (codes.real - weight) @ second
    groups, rows = np.ogrid[: weight.shape[0], : weight.shape[1]]
    for _ in range(steps):
        sign = -np.sign(slope)
        # A step of a huge scale overflows, and helps nowhere.
        with np.errstate(over="ignore"):
            gain = codes.scale * (2 * np.abs(slope) - codes.scale * diagonal)
        moved = numbers + sign
        written = moved if codes.shift is None else moved + codes.shift
        gain[(written < codes.least) | (written > codes.most)] = 0
        if codes.has_pairs:
            gain[_overflows(numbers, moved)] = 0
        best = gain.argmax(axis=2)
        helps = gain[groups, rows, best] > 0
        if not helps.any():
            break
        step = np.where(helps, sign[groups, rows, best], 0)
        numbers[groups, rows, best] += step
        slope += (step * codes.scale[groups, rows, best])[:, :, None] * second[groups, best]
    return replace(codes, numbers=numbers)


def _overflows(numbers: Array, moved: Array) -> Array:
    """Which codes, when moved, add up with their neighbour to more than 16 bits hold."""
    depth = numbers.shape[2]
    beside = np.zeros_like(numbers)
    beside[:, :, 0 : depth - 1 : 2], beside[:, :, 1::2] = numbers[:, :, 1::2], numbers[:, :, 0 : depth - 1 : 2]
    return (moved * beside > 0) & (np.abs(moved + beside) > PAIR)


def offsets(layer: Layer, weight: Array, real: Array, rows: Rows) -> Array:
    """The bias with which the mean of every result is what it was, as far as that is more than chance.

    A mean over few samples differs from zero by itself; correcting that would add noise. So a shift is made smaller by
    the part of it that may be chance, as parts of the samples tell it.

    Args:
        layer: whose bias it is.
        weight: the real weight as a matrix.
        real: what its codes stand for.
        rows: what both are multiplied with.
    """
    parts = [
        np.einsum("gd,god->go", a.mean(axis=1), weight) - np.einsum("gd,god->go", b.mean(axis=1), real)
        for a, b in zip(_parts(rows.real), _parts(rows.quantized), strict=True)
    ]
    shift = np.mean(parts, axis=0)
    chance = np.var(parts, axis=0) / max(len(parts) - 1, 1)
    kept = np.maximum(1 - chance / np.maximum(shift**2, 1e-30), 0)
    return (layer.offsets() + (shift * kept).reshape(-1)).astype(np.float32)


def _parts(rows: Array) -> list[Array]:
    return np.array_split(rows, min(_PARTS, rows.shape[1]), axis=1)


def error(expected: Array, bias: Array, real: Array, new_bias: Array, quantized: Array) -> float:
    """Noise to signal of the results of a layer.

    Args:
        expected: the results without their bias, [groups, n, results].
        bias: the one that they have.
        real: what the codes of the weight stand for, [groups, results, depth].
        new_bias: the one that goes with it.
        quantized: rows of the input that it is multiplied with, [groups, n, depth].
    """
    groups, _, results = expected.shape
    gap = quantized @ real.swapaxes(1, 2)
    gap -= expected
    gap += (new_bias - bias).reshape(groups, 1, results)
    return power(gap) / max(power(expected), 1e-30)
