"""Expected clipping error of unseen samples beyond the observed range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from graphport.quantization.observe import Statistics
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

_TAIL = 32
"""Number of largest elements of the tensor whose mean distance to the next one estimates the tail."""
_MIN_EXPONENT = 2.2
_UNSURE = 3.0
"""An event absent from n samples may have a probability of up to so many n-ths (95 %)."""


def unseen_errors(state: Statistics, qparams: QuantizationParameters) -> Array:
    """Return the expected squared error of one more sample beyond the range of `qparams`.

    One squared error per channel of `state`. Of n + 1 exchangeable samples each has the largest element with equal
    probability, so a new one exceeds the others once in n + 1 times. The excess is estimated by the distance between
    the two largest samples: with an exponential tail both have one distribution. Its mean relative to the channel's
    range is taken over all channels, or, without channels, from the largest elements. Per-channel ranges that just
    cover the samples are exceeded often, as each channel has its own probability.

    Source: A. Rényi, On the theory of order statistics (1953): distances of neighbours in order.
    """
    if qparams.dtype.is_floating or np.ndim(qparams.scale) or not state.lows.size:
        return np.zeros(len(state.lows))
    lows, highs = state.lows.astype(np.float64), state.highs.astype(np.float64)
    widths = highs - lows
    if len(lows) == 1:
        above, below = _fall(state.extremes.largest), _fall(-state.extremes.least[::-1])
    else:
        above = widths * _mean_distance(highs, state.other_highs, widths)
        below = widths * _mean_distance(-lows, -state.other_lows, widths)
    found = _expected_excess(highs, above, qparams.max_value) + _expected_excess(-lows, below, -qparams.min_value)
    return found / (state.samples + 1)


def unseen_errors_of_heavy_tails(
    state: Statistics, qparams: QuantizationParameters, *, is_balanced: bool = True
) -> float:
    """Return the expected squared error of one more sample for power-law tails, summed over channels.

    With such a tail the logarithm of the ratio of the two largest elements is exponential; its mean, over channels or
    over the largest elements, is the reciprocal of the exponent, which is limited to at least `_LEAST_POWER`, as
    squares have no mean below 2. Lighter tails seem to have a power, too, and each of many channels its own probability
    of a large excess. If there was none, only the excess over the largest element of all in three times as many samples
    counts, unless channels are balanced: then the same samples made their ranges equal, and they are no independent
    evidence.

    Source: B. M. Hill, A simple general approach to inference about the tail of a distribution (1975).
    """
    if qparams.dtype.is_floating or np.ndim(qparams.scale) or not state.lows.size:
        return 0.0
    lows, highs, extremes = state.lows.astype(np.float64), state.highs.astype(np.float64), state.extremes
    above = _expected_loss(highs, state.other_highs, extremes.largest, qparams.max_value, is_balanced)
    below = _expected_loss(-lows, -state.other_lows, -extremes.least[::-1], -qparams.min_value, is_balanced)
    return (above + below) / (state.samples + 1)


def _expected_loss(first: Array, second: Array, largest: Array, end: float, is_balanced: bool) -> float:  # noqa: FBT001
    """Expected squared excess over `end` of elements beyond `first` with a power-law tail.

    The ratio of such an element to `first` has a Pareto distribution.
    """
    few = largest[-_TAIL - 1 :].astype(np.float64)
    if len(first) == 1:
        ratios = few[1:] / few[0] if len(few) > 1 and few[0] > 0 else np.ones(1)
    else:
        is_known = np.isfinite(second) & (first > 0) & (second > 0)
        ratios = first[is_known] / second[is_known]
    spread = float(np.log(ratios).mean()) if ratios.size else 0.0
    if spread <= 0:
        return 0.0
    power = max(1 / spread, _MIN_EXPONENT)
    positive = first[first > 0]
    found, most = _lost_to_power(positive, power, end), positive.max(keepdims=True, initial=0.0)
    if is_balanced or not 0 < most[0] <= end:
        return found
    return min(found, _UNSURE * _lost_to_power(most, power, end))


def _lost_to_power(positive: Array, power: float, end: float) -> float:
    """Expected squared excess over `end` of Pareto variables from each of `positive` on."""
    reach = end / positive
    mean, square = power / (power - 1), power / (power - 2)
    over = end**2 * np.maximum(reach, 1.0) ** -power * 2 / ((power - 1) * (power - 2))
    within = positive**2 * square - 2 * positive * end * mean + end**2
    return float(np.sum(np.where(reach >= 1, over, within)))


def _mean_distance(first: Array, second: Array, widths: Array) -> float:
    """Return the mean of (first - second) / width over channels: the gap between the two largest samples."""
    is_known = np.isfinite(second) & (widths > 0)
    return float(np.mean((first[is_known] - second[is_known]) / widths[is_known])) if is_known.any() else 0.0


def _fall(largest: Array) -> Array:
    """Return the mean distance of the `_TAIL` largest elements from the next smaller one; `largest` is ascending."""
    few: Array = largest[-_TAIL - 1 :].astype(np.float64)
    distances: Array = few[1:] - few[0] if len(few) > 1 else np.zeros(1)
    return distances.mean(keepdims=True)


def _expected_excess(first: Array, mean: Array, end: float) -> Array:
    """Expected squared excess over `end` of an element beyond `first` by `mean` on average (exponential tail)."""
    scale = np.where(mean > 0, mean, 1.0)
    reach, beyond = np.maximum(end - first, 0.0) / scale, np.maximum(first - end, 0.0) / scale
    return np.where(mean > 0, mean**2 * np.exp(-reach) * (beyond**2 + 2 * beyond + 2), 0.0)
