"""Round weights by the second moments of their inputs.

The error of a layer is `e' H e` for the error `e` of a weight row, with `H` the second moments of the input. Columns
are rounded one after another; the free columns compensate the error of each (GPTQ, after OBQ). Then single codes are
moved by one while that reduces the error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.quantization.sums_of_squares import power
from graphport.quantization.weights import PAIR

if TYPE_CHECKING:
    from graphport.quantization.layer import Layer
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

DAMPING = 0.01
"""Fraction of the mean diagonal that is added to the diagonal: second moments of few rows are singular."""
WIDEST = 1024
"""Number of columns whose moments are computed together."""
_NUM_ROW_BLOCKS = 8
_AT_ONCE = 48
_ROWS_PER_COLUMN = 3
"""Number of rows per column from which the weight is fitted to the quantized input."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Input rows of a layer: float and quantized rows of equal positions, [groups, n, depth] each."""

    real: Array
    quantized: Array

    def split(self) -> tuple[Rows, Rows]:
        """Split the rows into three quarters to fit and one to validate; below 16 rows, both are all rows.

        Rows are ordered by sample, and rows of a sample are similar: the check has separate samples.
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
    """Codes of a weight as a matrix, [groups, results, depth], with scales per code."""

    numbers: Array
    scale: Array
    least: int
    most: int
    has_pairs: bool
    shift: Array | None = None
    """Offset of the stored codes, if it is not constant."""

    @property
    def dequantized(self) -> Array:
        """Return the dequantized codes."""
        return self.numbers * self.scale

    def repeated(self, times: int) -> Codes:
        """Return the codes with the output channels repeated `times` times (candidate sets for one search)."""
        tile = (1, times, 1)
        shift = None if self.shift is None else np.tile(self.shift, tile)
        return replace(self, numbers=np.tile(self.numbers, tile), scale=np.tile(self.scale, tile), shift=shift)

    def select_set(self, index: int, times: int) -> Codes:
        """Return set `index` of the `times` sets that `repeated` created."""
        rows = self.numbers.shape[1] // times
        place = slice(index * rows, (index + 1) * rows)
        shift = None if self.shift is None else self.shift[:, place]
        return replace(self, numbers=self.numbers[:, place], scale=self.scale[:, place], shift=shift)

    @classmethod
    def of(cls, layer: Layer, qparams: QuantizationParameters, codes: Array, *, has_pairs: bool) -> Codes:
        """Return the codes of a weight, relative to the zero points of `qparams`."""
        zeros = np.broadcast_to(qparams.broadcast_to(qparams.zero_point, codes), codes.shape)
        scale = layer.matrix(qparams.values(zeros + np.float32(1)))
        numbers = layer.matrix(codes.astype(np.float32) - zeros)
        middle = int(zeros.max(initial=0))
        if np.all(zeros == middle):
            return cls(numbers, scale, qparams.least - middle, qparams.most - middle, has_pairs)
        return cls(numbers, scale, qparams.least, qparams.most, has_pairs, layer.matrix(zeros))

    def limits(self, numbers: Array, column: int) -> tuple[Array | float, Array | float]:
        """Return the range of codes of a column: relative to zero points, or within 16 bits with its neighbour."""
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
    """Second moments of more than `WIDEST` columns, computed for one block of columns at a time."""

    rows: Array
    _known: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict[int, "tuple[Array, Array, Array]"])
    _lock: Lock = field(default_factory=Lock)

    def factored(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        """Return `factored` of the columns from `start` to `stop`, computed once for all results."""
        with self._lock:
            if start not in self._known:
                self._known[start] = factored(moments(np.ascontiguousarray(self.rows[:, :, start:stop])))
            return self._known[start]


def seconds_of(rows: Array) -> Array | WideMoments:
    """Return second moments; of all columns together if there are few."""
    return moments(rows) if rows.shape[2] <= WIDEST else WideMoments(rows)


def moments(rows: Array) -> Array:
    """Return second moments, [groups, depth, depth], with damping on the diagonal."""
    # BLAS computes only half of the product of a matrix and its own transpose.
    found = rows.swapaxes(1, 2) @ rows if len(rows) > 1 else (rows[0].T @ rows[0])[None]
    found /= max(rows.shape[1], 1)
    depth = found.shape[-1]
    diagonal = found[:, range(depth), range(depth)]
    found[:, range(depth), range(depth)] += DAMPING * diagonal.mean(axis=1, keepdims=True) + 1e-12
    return found


def _solved(a: Array, b: Array) -> Array:
    return np.linalg.solve(a, b)


def fit_weight(weight: Array, rows: Rows, second: Array | WideMoments) -> Array:
    """Fit the float weight so that quantized rows give the results of `weight` on float rows.

    weight + weight (A - B)' B (B' B)^-1  for float rows A and quantized rows B, both centered.

    Args:
        weight: float, [groups, results, depth].
        rows: A and B.
        second: `moments` of centered B.
    """
    if rows.real.shape[1] < _ROWS_PER_COLUMN * weight.shape[2] or isinstance(second, WideMoments):
        return weight
    gap = rows.real - rows.quantized
    gap -= gap.mean(axis=1, keepdims=True)
    # A product with a centered matrix cancels the mean of the other one.
    cross = gap.swapaxes(1, 2) @ rows.quantized / gap.shape[1]
    correction: Array = _solved(second.astype(np.float64), (weight @ cross).swapaxes(1, 2).astype(np.float64))
    return (weight + correction.swapaxes(1, 2)).astype(np.float32)


def second_order(codes: Codes, weight: Array, second: Array | WideMoments) -> Codes:
    """Round `weight` to the scales of `codes` column by column, compensating previous errors.

    Args:
        codes: scales and limits; the codes are the start values.
        weight: float, [groups, results, depth].
        second: moments, [groups, depth, depth].
    """
    groups, results, depth = weight.shape
    # Column-major, in the order of computation.
    numbers = np.zeros((groups, depth, results), np.float32).swapaxes(1, 2)
    for start in range(0, depth, WIDEST):
        stop = min(start + WIDEST, depth)
        factors = second.factored(start, stop) if isinstance(second, WideMoments) else factored(second)
        _round_block(codes, weight[:, :, start:stop], factors, numbers, start)
    numbers = np.ascontiguousarray(numbers)
    return replace(codes, numbers=numbers)


def factored(second: Array) -> tuple[Array, Array, Array]:
    """Return the column order, largest moments first, and the factors U D U' of the moments in that order.

    D is [groups, depth]; U is row by row: for each column its compensation of previous errors.
    """
    order = np.argsort(-second.diagonal(axis1=1, axis2=2).sum(axis=0), kind="stable")
    backwards = second[:, order[::-1]][:, :, order[::-1]].astype(np.float64)
    upper = np.linalg.cholesky(backwards)[:, ::-1, ::-1]
    diagonal = upper.diagonal(axis1=1, axis2=2)
    feedback = np.ascontiguousarray((upper / diagonal[:, None, :]).swapaxes(1, 2), np.float32)
    return order, diagonal**2, feedback


def _round_block(codes: Codes, weight: Array, factors: tuple[Array, Array, Array], numbers: Array, start: int) -> None:
    """Round the columns from `start` on, largest moments first.

    The compensation of previous errors is a column of the factor of the moments: H = U D U' for a unit-triangular U
    (LDLQ of QuIP, equivalent to GPTQ without an inverse).
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
    """Move single codes by one, the best one per row, up to `steps` times or until no move helps."""
    if isinstance(second, WideMoments):
        return codes
    numbers = codes.numbers.copy()
    diagonal = second.diagonal(axis1=1, axis2=2)[:, None, :]
    slope = (codes.dequantized - weight) @ second
    groups, rows = np.ogrid[: weight.shape[0], : weight.shape[1]]
    for _ in range(steps):
        sign = -np.sign(slope)
        # A step of a huge scale overflows and never helps.
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
    """Return which codes, when moved, overflow 16 bits in the sum with their neighbour."""
    depth = numbers.shape[2]
    beside = np.zeros_like(numbers)
    beside[:, :, 0 : depth - 1 : 2], beside[:, :, 1::2] = numbers[:, :, 1::2], numbers[:, :, 0 : depth - 1 : 2]
    return (moved * beside > 0) & (np.abs(moved + beside) > PAIR)


def offsets(layer: Layer, weight: Array, real: Array, rows: Rows) -> Array:
    """Return the bias that restores the mean of each result, as far as the shift is significant.

    The mean over few samples deviates by chance; correcting that would add noise. So a shift is reduced by its
    variance, estimated from parts of the samples.

    Args:
        layer: the layer.
        weight: the float weight as a matrix.
        real: the dequantized codes.
        rows: the input rows of both.
    """
    parts = [
        np.einsum("gd,god->go", a.mean(axis=1), weight) - np.einsum("gd,god->go", b.mean(axis=1), real)
        for a, b in zip(_row_blocks(rows.real), _row_blocks(rows.quantized), strict=True)
    ]
    shift = np.mean(parts, axis=0)
    chance = np.var(parts, axis=0) / max(len(parts) - 1, 1)
    kept = np.maximum(1 - chance / np.maximum(shift**2, 1e-30), 0)
    return (layer.offsets() + (shift * kept).reshape(-1)).astype(np.float32)


def _row_blocks(rows: Array) -> list[Array]:
    return np.array_split(rows, min(_NUM_ROW_BLOCKS, rows.shape[1]), axis=1)


def error(expected: Array, bias: Array, real: Array, new_bias: Array, quantized: Array) -> float:
    """Return the noise-to-signal ratio of a layer's results.

    Args:
        expected: the results without bias, [groups, n, results].
        bias: their bias.
        real: the dequantized weight, [groups, results, depth].
        new_bias: its bias.
        quantized: its input rows, [groups, n, depth].
    """
    groups, _, results = expected.shape
    gap = quantized @ real.swapaxes(1, 2)
    gap -= expected
    gap += (new_bias - bias).reshape(groups, 1, results)
    return power(gap) / max(power(expected), 1e-30)
