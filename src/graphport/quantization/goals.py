"""Goals of a quantization: accuracy, time, size, and a metric of the user."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LATENCY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(x|ms|)")
_WORTH = 6.0
"""Weight of noise against time at the knee: noise as large as the signal counts like so many times the source's
time.
"""
_SAVED, _LATE = 1 / 3, 6.0
"""Fraction of the possible saving that is expected, and the penalty factor for less: otherwise noisy integer plans
win.
"""
_CLOSE = 1.06
"""Factor over the minimum cost that counts as equal: measured times vary between runs."""
_ALIKE = 1.0
"""Differences in dB below which points count as equal."""
_OFF, _ROUNDS = 0.05, 4
"""Relative error of a single timing, and the maximum number of times that two more timings are taken."""
_DECIBELS, _PART = 3.0, 0.05
"""Exchange rate for missed goals: dB, and fraction of time, bytes or the user's metric."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A plan that was built and measured.

    `latency` is the processor time relative to the source, `latency_ms` that of one run here, both `None` without the
    target's runtime; `layers` counts layers by precision; `bytes` is the size of the ONNX file. `margin_db` is the
    distance from `snr_db` to the lower limit of its confidence interval.
    """

    point: int
    snr_db: float
    snr_range: tuple[float, float] | None
    margin_db: float
    agreement: float | None
    latency: float | None
    latency_ms: float | None
    bytes: int
    layers: dict[str, int]
    metric: float | None = None

    @property
    def least_db(self) -> float:
        """Return the lower limit of the confidence interval."""
        return self.snr_db - self.margin_db

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "point": self.point,
            "snr_db": round(self.snr_db, 3),
            "snr_range_db": None if self.snr_range is None else [round(x, 3) for x in self.snr_range],
            "agreement": self.agreement,
            "latency": None if self.latency is None else round(self.latency, 4),
            "latency_ms": None if self.latency_ms is None else round(self.latency_ms, 4),
            "bytes": self.bytes,
            "layers": dict(self.layers),
            "metric": self.metric,
        }


@dataclass(frozen=True, slots=True)
class Goals:
    """The user's goals; `None` where unset. `latency` is a fraction of the source's, or milliseconds if absolute."""

    snr: float | None = None
    latency: float | None = None
    is_absolute: bool = False
    bytes: int | None = None
    metric: float | None = None
    point: int | None = None
    is_small: bool = False
    """Whether bytes, not time, decide if no goal is set."""

    @property
    def are_any(self) -> bool:
        """Whether any goal is set."""
        return any(x is not None for x in (self.snr, self.latency, self.bytes, self.metric))

    @property
    def needs_plans(self) -> bool:
        """Whether a goal requires plans, which the search for float layers does not consider."""
        return any(x is not None for x in (self.latency, self.bytes, self.metric))

    def missed(self, of: FrontPoint) -> float:
        """Return the summed excess over all goals, with the SNR's lower confidence limit; 0 if all are met."""
        found = 0.0
        if self.snr is not None:
            found += max(self.snr - of.least_db, 0.0) / _DECIBELS
        time = of.latency_ms if self.is_absolute else of.latency
        if self.latency is not None and time is not None:
            found += max(time / self.latency - 1, 0.0) / _PART
        if self.bytes is not None:
            found += max(of.bytes / self.bytes - 1, 0.0) / _PART
        if self.metric is not None and of.metric is not None:
            found += max(self.metric - of.metric, 0.0) / max(abs(self.metric), 1e-9) / _PART
        return found

    def select_point(self, points: Sequence[FrontPoint]) -> FrontPoint:
        """Return the selected point: the best that meets all goals; else the nearest.

        Points slower than the source are excluded if there are others, unless they meet the goals or no goal concerns
        time.
        """
        if not self.are_any:
            return knee(points, by_size=self.is_small)
        meeting = [each for each in points if not self.missed(each)]
        if not meeting:
            # With a latency goal, points slower than the source are useless at any accuracy.
            return min(points if self.latency is None else _not_slower(points), key=self.missed)
        if self.latency is None and not self.is_small:
            # Without a latency goal, accuracy should not cost time if that can be avoided.
            meeting = [each for each in meeting if (each.latency or 0.0) <= 1] or meeting
        # Default objective: speed if only accuracy is a goal, else accuracy.
        if self.latency is None and self.bytes is None and self.snr is not None:
            return min(meeting, key=lambda x: (x.latency or 0.0, -x.snr_db))
        return max(meeting, key=lambda x: x.snr_db)


def _not_slower(points: Sequence[FrontPoint]) -> Sequence[FrontPoint]:
    """Return the points that are not slower than the source, if known; the fastest if all are slower."""
    found = [each for each in points if (each.latency or 0.0) <= 1]
    return found or [min(points, key=lambda x: x.latency or 0.0)]


def knee(points: Sequence[FrontPoint], *, by_size: bool = False) -> FrontPoint:
    """Return the most accurate point of nearly minimal cost, a sum of time and noise.

    By size, or without times, see `_above_the_line`.

    Near the minimum, costs are nearly equal, and small timing errors would change the selection: the most accurate
    point of nearly minimal cost marks where costs start to rise. Among points of equal accuracy the cheapest is
    selected, so that no point is both more accurate and faster.
    """
    known = _in_time(points)
    if by_size or not known:
        return _above_the_line(points)
    latest = _latest(known)
    bound = _CLOSE * min(_cost(each, latest) for each in known)
    close = [each for each in known if _cost(each, latest) <= bound]
    near = max(each.snr_db for each in close) - _ALIKE
    return min((each for each in close if each.snr_db >= near), key=lambda x: _cost(x, latest))


def timed_until_sure(points: Sequence[FrontPoint], timed: Callable[[int], float]) -> dict[int, float]:
    """Return times of the points, by index, that were timed again until the knee is certain: medians.

    Args:
        points: all, each timed once.
        timed: times the point of an index again.
    """
    found, timings = list(points), [[each.latency or 0.0] for each in points]
    for _ in range(_ROUNDS):
        again = _unsure(found, [len(each) for each in timings])
        for place in (*again, *again):
            timings[place].append(timed(place))
        for place in again:
            found[place] = replace(found[place], latency=sorted(timings[place])[len(timings[place]) // 2])
    return {place: found[place].latency or 0.0 for place, each in enumerate(timings) if len(each) > 1}


def _unsure(points: Sequence[FrontPoint], timings: Sequence[int]) -> list[int]:
    """Return indices of points whose timing error could change the knee, of that point, and of the knee.

    Args:
        points: all.
        timings: number of timings of each point, which reduce its error.
    """
    chosen = _knee_of(points)
    found: set[int] = set()
    for place, (each, count) in enumerate(zip(points, timings, strict=True)):
        for off in (-_OFF, _OFF) if each.latency is not None else ():
            moved = replace(each, latency=(each.latency or 0.0) * (1 + off / count**0.5))
            other = _knee_of([*points[:place], moved, *points[place + 1 :]])
            if abs(points[other].snr_db - points[chosen].snr_db) > _ALIKE:
                found |= {place, chosen, other}
    return sorted(found)


def _knee_of(points: Sequence[FrontPoint]) -> int:
    found = knee(points)
    return next(place for place, each in enumerate(points) if each is found)


def _in_time(points: Sequence[FrontPoint]) -> Sequence[FrontPoint]:
    """Return the points whose time is known and not above the source's; the fastest alone if all are slower."""
    known = [each for each in points if each.latency is not None]
    return _not_slower(known) if known else known


def _latest(points: Sequence[FrontPoint]) -> float:
    """Return the relative time at which `_SAVED` of the fastest point's time saving is achieved."""
    least = min(each.latency or 0.0 for each in points)
    return least + max(1 - least, 0.0) * (1 - _SAVED)


def _cost(of: FrontPoint, latest: float) -> float:
    """Return the cost: time relative to the source with a penalty beyond `latest`, plus noise (root of the ratio)."""
    time = of.latency or 0.0
    return time + _LATE * max(time - latest, 0.0) + _WORTH * 10 ** (-of.snr_db / 20)


def _above_the_line(points: Sequence[FrontPoint]) -> FrontPoint:
    """Return the knee by size: the point farthest above the line from the smallest to the most accurate point."""
    small, near = min(points, key=lambda x: x.bytes), max(points, key=lambda x: x.snr_db)
    wide, high = max(near.bytes - small.bytes, 1), max(near.snr_db - small.snr_db, 1e-9)
    return max(points, key=lambda x: (x.snr_db - small.snr_db) / high - (x.bytes - small.bytes) / wide)


def front(points: Sequence[FrontPoint], most: int = 9, wanted: FrontPoint | None = None) -> list[FrontPoint]:
    """Return the Pareto front, most accurate last; of many points those with the widest spacing.

    It contains the `wanted` point and the fastest. Noise, unlike time, is equal in each run, so that point numbers are
    reproducible as far as possible.
    """

    def is_over(a: FrontPoint, b: FrontPoint) -> bool:
        pairs = [(a.snr_db, b.snr_db), (-(a.latency or 0.0), -(b.latency or 0.0)), (-a.bytes * 0.98, -b.bytes)]
        return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs[:2])

    kept: list[FrontPoint] = []
    for each in sorted(points, key=lambda x: (x is not wanted, x.latency or 0.0)):
        is_behind = any(is_over(other, each) for other in points if other is not each)
        # Two plans may be equal and were timed separately.
        is_twin = any((x.snr_db, x.bytes, x.layers) == (each.snr_db, each.bytes, each.layers) for x in kept)
        if each is wanted or not (is_behind or is_twin):
            kept.append(each)
    kept.sort(key=lambda x: (x.snr_db, -x.bytes))
    fastest = min(kept, key=lambda x: x.latency or 0.0)
    while len(kept) > most:
        inner = [i for i in range(1, len(kept) - 1) if kept[i] is not wanted and kept[i] is not fastest]
        del kept[min(inner, key=lambda i: kept[i + 1].snr_db - kept[i - 1].snr_db)]
    return kept


def numbered_as(points: Sequence[FrontPoint], number: int) -> FrontPoint:
    """Return the point of the front with that number.

    Raises:
        DiagnosticError: QUANT0025 there is none.
    """
    for each in points:
        if each.point == number:
            return each
    remedy = f"points: 1 to {len(points)}"
    raise DiagnosticError(Diagnostic("QUANT0025", f"unknown point {number}", None, remedy))


def latency_goal(stated: float | str | None) -> tuple[float | None, bool]:
    """Parse a latency goal; return it, and whether it is in milliseconds rather than relative to the source.

    Raises:
        DiagnosticError: QUANT0004 it is neither.
    """
    if stated is None:
        return None, False
    found = _LATENCY.fullmatch(stated.strip()) if isinstance(stated, str) else None
    number = float(found[1]) if found else stated
    if isinstance(number, str | bool) or number <= 0:
        message = f"invalid setting 'max_latency': {stated!r}"
        raise DiagnosticError(
            Diagnostic("QUANT0004", message, None, "set a ratio, for example 0.5x, or a time, for example 3ms")
        )
    return float(number), bool(found and found[2] == "ms")
