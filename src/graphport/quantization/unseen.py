"""What is lost of samples that nobody has seen: some of them go beyond all that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from graphport.quantization.observe import Statistics
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

_TAIL = 32
"""Of the whole tensor's largest numbers, those whose mean distance from the next one tells how its tail falls off."""
_LEAST_POWER = 2.2
_UNSURE = 3.0
"""What n samples did not show may be in so many n-ths of all (95 %)."""


def unseen_errors(state: Statistics, qparams: QuantizationParameters) -> Array:
    """What one more sample is expected to lose beyond the ends of `qparams` for going beyond all that were seen.

    A squared error for each channel that `state` tells apart. Of n + 1 samples of one kind each is equally likely the
    one with the largest number, so a new one goes beyond those that were seen once in n + 1 times. By how much the
    distance between the two largest of these tells: where the tail is exponential both have one distribution. Its mean
    beside the width of a channel is taken of all channels, or, where none are told apart, from the largest numbers of
    all. Grids that cover each of many channels just as far as it was seen are exceeded often, for each channel has its
    own chance.

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
    found = _expected_excess(highs, above, qparams.high) + _expected_excess(-lows, below, -qparams.low)
    return found / (state.samples + 1)


def unseen_errors_of_heavy_tails(
    state: Statistics, qparams: QuantizationParameters, *, is_balanced: bool = True
) -> float:
    """The same where tails fall off like a power, summed over channels: then few samples lose most of all.

    With such a tail the logarithm of the largest number beside the next one is exponential; its mean, over channels or
    over the largest numbers of all, is the reciprocal of the power, which is taken to be `_LEAST_POWER` at least, as
    squares have no mean below 2. Tails that fall off sooner seem to have a power, too, and each of many channels its
    own chance to go far beyond the others. Where none did no more is counted than what goes beyond the largest number
    of all in three of as many samples as were seen, unless channels are balanced: then they were made as wide as one
    another by the same samples, and say nothing of each other.

    Source: B. M. Hill, A simple general approach to inference about the tail of a distribution (1975).
    """
    if qparams.dtype.is_floating or np.ndim(qparams.scale) or not state.lows.size:
        return 0.0
    lows, highs, extremes = state.lows.astype(np.float64), state.highs.astype(np.float64), state.extremes
    above = _expected_loss(highs, state.other_highs, extremes.largest, qparams.high, is_balanced)
    below = _expected_loss(-lows, -state.other_lows, -extremes.least[::-1], -qparams.low, is_balanced)
    return (above + below) / (state.samples + 1)


def _expected_loss(first: Array, second: Array, largest: Array, end: float, is_balanced: bool) -> float:  # noqa: FBT001
    """The expected square of how far numbers beyond `first` are beyond `end`, where their tail is that of a power.

    With such a number r times `first` the distribution of r is Pareto's.
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
    power = max(1 / spread, _LEAST_POWER)
    positive = first[first > 0]
    found, most = _lost_to_power(positive, power, end), positive.max(keepdims=True, initial=0.0)
    if is_balanced or not 0 < most[0] <= end:
        return found
    return min(found, _UNSURE * _lost_to_power(most, power, end))


def _lost_to_power(positive: Array, power: float, end: float) -> float:
    """The expected square of how far Pareto's numbers from each of `positive` on are beyond `end`."""
    reach = end / positive
    mean, square = power / (power - 1), power / (power - 2)
    over = end**2 * np.maximum(reach, 1.0) ** -power * 2 / ((power - 1) * (power - 2))
    within = positive**2 * square - 2 * positive * end * mean + end**2
    return float(np.sum(np.where(reach >= 1, over, within)))


def _mean_distance(first: Array, second: Array, widths: Array) -> float:
    """How far the largest numbers of channels are beyond the next sample's, as a part of the width of the channel."""
    is_known = np.isfinite(second) & (widths > 0)
    return float(np.mean((first[is_known] - second[is_known]) / widths[is_known])) if is_known.any() else 0.0


def _fall(largest: Array) -> Array:
    """The mean distance of the largest numbers from the one before them; ascending."""
    few: Array = largest[-_TAIL - 1 :].astype(np.float64)
    distances: Array = few[1:] - few[0] if len(few) > 1 else np.zeros(1)
    return distances.mean(keepdims=True)


def _expected_excess(first: Array, mean: Array, end: float) -> Array:
    """The expected square of how far a number beyond `first`, by `mean` on average, is beyond `end`."""
    scale = np.where(mean > 0, mean, 1.0)
    reach, beyond = np.maximum(end - first, 0.0) / scale, np.maximum(first - end, 0.0) / scale
    return np.where(mean > 0, mean**2 * np.exp(-reach) * (beyond**2 + 2 * beyond + 2), 0.0)
