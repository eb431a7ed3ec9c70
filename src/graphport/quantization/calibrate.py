"""Choose qparams of activations from observed statistics."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from graphport.quantization.parameters import MIN_SCALE, activation_qparams, limits
from graphport.quantization.unseen_error import unseen_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.core.dtypes import DType
    from graphport.quantization.observe import Histogram, Statistics
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

Method = Literal["min-max", "moving-average", "percentile", "entropy", "mse", "auto"]
"""How a range is chosen."""
METHODS: tuple[Method, ...] = get_args(Method)

_AUTOMATIC: tuple[Method, ...] = ("mse", "percentile", "entropy", "moving-average", "min-max")
"""Methods that `auto` compares; the first wins ties."""
PERCENTILE = 99.999
_SHRINKS = np.concatenate([np.linspace(0.2, 0.6, 11), np.linspace(0.63, 1.0, 38)])
"""Fractions of the whole range that are tried for the least squared error."""
_ROOM = (1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0)
"""Multiples of a range that are tried to cover unseen samples."""
_FEWEST_LEVELS = 16
_TOGETHER = 4
_STOPS = 64
_NOTHING = 1e-12


def calibrate(
    state: Statistics,
    dtype: DType,
    method: Method,
    *,
    is_symmetric: bool = False,
    percentile: float = PERCENTILE,
    power_of_two: bool = False,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> QuantizationParameters:
    """Return the qparams of a value with observed statistics `state`.

    `auto` selects the method with the least squared error over the histogram and on unseen samples, and widens its
    range if that lowers the expected error, but not beyond the possible range of the value, `within`.
    """
    names = _AUTOMATIC if method == "auto" else (method,)
    all_qparams = candidate_qparams(
        state, dtype, names, is_symmetric=is_symmetric, percentile=percentile, power_of_two=power_of_two
    )
    if method != "auto":
        return all_qparams[0]

    def error(qparams: QuantizationParameters) -> float:
        return squared_error(state.histogram, qparams) + state.samples * float(unseen_errors(state, qparams).sum())

    best = min(all_qparams, key=error)
    if dtype.is_floating:
        return best
    least, most = min(within[0], best.min_value), max(within[1], best.max_value)
    wider = [
        activation_qparams(
            max(best.min_value * part, least),
            min(best.max_value * part, most),
            dtype,
            is_symmetric=is_symmetric,
            power_of_two=power_of_two,
        )
        for part in _ROOM
    ]
    return min([best, *wider], key=error)


def candidate_qparams(
    state: Statistics,
    dtype: DType,
    methods: Iterable[Method] = _AUTOMATIC,
    *,
    is_symmetric: bool,
    percentile: float,
    power_of_two: bool,
) -> list[QuantizationParameters]:
    """Return the qparams of each method."""
    return [
        activation_qparams(
            *ends(state, dtype, name, is_symmetric=is_symmetric, percentile=percentile),
            dtype,
            is_symmetric=is_symmetric,
            power_of_two=power_of_two,
        )
        for name in methods
    ]


def ends(
    state: Statistics, dtype: DType, method: Method, *, is_symmetric: bool, percentile: float
) -> tuple[float, float]:
    """Return minimum and maximum of the quantization range by a calibration method."""
    low, high = state.minimum, state.maximum
    match method:
        case "moving-average":
            return state.moving
        case "percentile":
            return percentiles(state, percentile)
        case "entropy":
            return least_divergence(state, dtype)
        case "mse":
            return least_error(state, dtype, is_symmetric=is_symmetric)
        case _:
            return low, high


def percentiles(state: Statistics, percent: float) -> tuple[float, float]:
    """Return the percentiles `100 - percent` and `percent`.

    They equal `numpy.percentile` if they are among the `extremes.KEPT` elements at an end. Elsewhere they are accurate
    to one bin of the histogram: 1/2048 of the largest magnitude.
    """
    last = state.elements - 1
    if last < 0:
        return 0.0, 0.0
    wanted = (100 - percent) / 100, percent / 100
    low, high = (state.extremes.at(last * part, state.elements) for part in wanted)
    return (
        max(_counted(state.histogram, wanted[0]), state.minimum) if low is None else low,
        min(_counted(state.histogram, wanted[1]), state.maximum) if high is None else high,
    )


def _counted(histogram: Histogram, part: float) -> float:
    """Return the quantile `part` (0 to 1) of a histogram, interpolated within its bin."""
    below = np.cumsum(histogram.counts)
    wanted = float(part * below[-1])
    place = bisect_left(below, wanted)
    return _inside(histogram.centers - histogram.width / 2, histogram, below, place, wanted)


def _inside(edges: Array, histogram: Histogram, below: Array, index: int, wanted: float) -> float:
    index = min(index, len(edges) - 1)
    count = histogram.counts[index]
    part = 1.0 if not count else (wanted - (below[index] - count)) / count
    return float(edges[index] + histogram.width * part)


def squared_error(histogram: Histogram, qparams: QuantizationParameters) -> float:
    """Return the sum of squared quantization errors over the histogram."""
    used = np.flatnonzero(histogram.counts)
    centers, counts = histogram.centers[used], histogram.counts[used]
    if qparams.dtype.is_floating:
        return float(np.sum(counts * (qparams.nearest(centers) - centers) ** 2))
    ends = np.asarray([[qparams.min_value, qparams.max_value]])
    return float(_squared_errors(centers, counts, histogram.width, ends, np.asarray([float(qparams.scale)]))[0])


def _squared_errors(centers: Array, counts: Array, width: float, ends: Array, scales: Array) -> Array:
    """Return the squared quantization error of histogram elements for each candidate range.

    A narrow bin is represented by its center; if the step is smaller than the bin, the error is `scale² / 12`.
    """
    inside = np.clip(centers, ends[:, :1], ends[:, 1:])
    steps = scales[:, None]
    nearest = np.rint(inside / steps) * steps
    outside = (inside - centers) ** 2
    coarse = outside + np.where(outside > 0, 0.0, steps**2 / 12)
    found = np.where(steps <= width, coarse, (nearest - centers) ** 2 + width**2 / 12)
    return found @ counts


def least_error(state: Statistics, dtype: DType, *, is_symmetric: bool) -> tuple[float, float]:
    """Return the range with the least squared error among fractions of the whole range."""
    low, high = min(state.minimum, 0.0), max(state.maximum, 0.0)
    if dtype.is_floating:
        return low, high
    centers, counts, width = _coarse(state.histogram)

    def best(pairs: Array) -> Array:
        reach, scales = _candidate_ranges(pairs, dtype, is_symmetric=is_symmetric)
        return pairs[np.argmin(_squared_errors(centers, counts, width, reach, scales))]

    found = best(np.outer(_SHRINKS, [low, high]))
    if not is_symmetric and low < 0 < high:
        # Each end separately, from the best common fraction.
        found = best(np.stack([np.full(len(_SHRINKS), found[0]), high * _SHRINKS], axis=1))
        found = best(np.stack([low * _SHRINKS, np.full(len(_SHRINKS), found[1])], axis=1))
    return float(found[0]), float(found[1])


def _candidate_ranges(pairs: Array, dtype: DType, *, is_symmetric: bool) -> tuple[Array, Array]:
    """Return representable range and scale of the integer qparams for each (low, high) of `pairs`."""
    least, most = limits(dtype)
    lows, highs = pairs[:, 0], pairs[:, 1]
    if is_symmetric:
        bounds = np.maximum(-lows, highs)
        scales = np.maximum(bounds / ((most - least) // 2), MIN_SCALE)
        return np.stack([-bounds, bounds], axis=1), scales
    scales = np.maximum((highs - lows) / (most - least), MIN_SCALE)
    zero_points = np.clip(np.rint(least - lows / scales), least, most)
    return np.stack([(least - zero_points) * scales, (most - zero_points) * scales], axis=1), scales


def _coarse(histogram: Histogram) -> tuple[Array, Array, float]:
    """Merge four bins into one: there are still several bins per 8-bit step. Return centers, counts and width."""
    counts = histogram.counts.reshape(-1, _TOGETHER).sum(axis=1)
    centers = histogram.centers.reshape(-1, _TOGETHER).mean(axis=1)
    used = np.flatnonzero(counts)
    return centers[used], counts[used], histogram.width * _TOGETHER


def least_divergence(state: Statistics, dtype: DType) -> tuple[float, float]:
    """Return the range with the least KL divergence between the histogram and its quantized form.

    Candidates are cut from the histogram of magnitudes, as TensorRT does: counts beyond the cut are added to the last
    bin, the counts of each step are spread evenly over its bins. The side with smaller magnitudes keeps its end.
    """
    histogram = state.histogram
    half = len(histogram.counts) // 2
    folded = histogram.counts[half:] + histogram.counts[:half][::-1]
    # Every grid contains zero: the count of zeros has no information.
    folded[0] = folded[1]
    used = int(np.max(np.flatnonzero(folded), initial=0)) + 1
    least, most = limits(dtype)
    levels = max(_FEWEST_LEVELS, (most - least + 1) // (2 if state.minimum < 0 < state.maximum else 1))
    if used <= levels or dtype.is_floating:
        return state.minimum, state.maximum
    best = _least(folded[:used], levels, _even(levels, used, _STOPS))
    near = -(-(used - levels) // _STOPS)
    best = _least(folded[:used], levels, _even(max(best - near, levels), min(best + near, used), _STOPS // 4))
    bound = best * histogram.width
    return max(state.minimum, -bound), min(state.maximum, bound)


def _even(first: int, last: int, count: int) -> list[int]:
    count = min(last - first + 1, count)
    return [first + round(i * (last - first) / max(count - 1, 1)) for i in range(count)]


def _least(counts: Array, levels: int, stops: list[int]) -> int:
    return stops[int(np.argmin(divergences(counts, np.asarray(stops), levels)))]


def divergences(counts: Array, stops: Array, levels: int) -> Array:
    """KL divergence of `counts` cut at each bin of `stops` from their quantized form with `levels` levels.

    With p the normalized counts up to the cut, the counts beyond it added to the last bin, and q the counts spread
    evenly over the nonempty bins of each step: Σ p log(p / q). The sums over runs of bins are differences of prefix
    sums.
    """
    kept = counts.astype(np.float64)
    sums, occupied, logs = (np.concatenate([[0.0], np.cumsum(x)]) for x in (kept, kept > 0, kept * _log(kept)))
    total, inside = max(sums[-1], MIN_SCALE), np.maximum(sums[stops], MIN_SCALE)
    last, beyond = kept[stops - 1], sums[-1] - sums[stops]
    own = logs[stops] - last * _log(last) + (last + beyond) * _log(last + beyond) - total * np.log(total)
    edges = -(-np.arange(levels + 1) * stops[:, None] // levels)
    held, used = np.diff(sums[edges], axis=1), np.diff(occupied[edges], axis=1)
    mean = held / np.maximum(used, 1)
    aimed = held * _log(mean)
    # Clipped counts go to the last bin; an empty last bin has a tiny probability.
    met = np.where(last > 0, mean[:, -1] / inside, _NOTHING)
    crossed = aimed.sum(axis=1) - sums[stops] * np.log(inside) + beyond * np.log(np.maximum(met, _NOTHING))
    return (own - crossed) / total


def _log(x: Array) -> Array:
    return np.log(np.where(x > 0, x, 1.0))
