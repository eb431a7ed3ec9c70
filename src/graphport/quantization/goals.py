"""What a user wants of a result: how near, how fast, how small, how good by a measure of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LATENCY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(x|ms|)")
_WORTH = 6.0
"""What noise counts at the knee beside time: as large as the signal it is so many times the source's time."""
_SAVED, _LATE = 1 / 3, 6.0
"""What part of the time that can be saved should be, and how much more time counts that is beyond that: else noisy
integers would hardly be used."""
_CLOSE = 1.06
"""How many times the least cost is as good: times differ so much from run to run."""
_ALIKE = 1.0
"""dB that are no difference between points."""
_OFF, _ROUNDS = 0.05, 4
"""What a time may be off that was measured once, as a part of it; how often two more are taken at most."""
_DECIBELS, _PART = 3.0, 0.05
"""What a goal is missed by that counts as much: so many dB, such a part of time, bytes or the user's measure."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A plan that was made and measured.

    `latency` is processor time beside the source's, `latency_ms` that of one run here, both `None` where the target's
    runtime is not here; `layers` counts layers by precision; `bytes` are those of the file as ONNX. `margin_db` is what
    `snr_db` may be less on other samples, down to the lower end of its range.
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
        """The lower end of its range."""
        return self.snr_db - self.margin_db

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
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
    """All that is asked; `None` where nothing is. `latency` is a part of the source's, or milliseconds if absolute."""

    snr: float | None = None
    latency: float | None = None
    is_absolute: bool = False
    bytes: int | None = None
    metric: float | None = None
    point: int | None = None
    is_small: bool = False
    """Whether without goals bytes count, not time."""

    @property
    def are_any(self) -> bool:
        """Whether there is a goal at all."""
        return any(x is not None for x in (self.snr, self.latency, self.bytes, self.metric))

    @property
    def needs_plans(self) -> bool:
        """Whether a goal is there that leaving layers real one by one does not look at."""
        return any(x is not None for x in (self.latency, self.bytes, self.metric))

    def missed(self, of: FrontPoint) -> float:
        """How far a point is from the goals on samples that nobody has seen, 0 where it likely meets all."""
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

    def chosen(self, points: Sequence[FrontPoint]) -> FrontPoint:
        """The point to write if none is named: of those that meet all goals the best; else the nearest.

        What is slower than the source is not, where anything else is, unless it meets the goals or no goal is in time.
        """
        if not self.are_any:
            return knee(points, by_size=self.is_small)
        meeting = [each for each in points if not self.missed(each)]
        if not meeting:
            # Who asks for time has no use for what takes more of it than the source does, however near that is.
            return min(points if self.latency is None else _not_slower(points), key=self.missed)
        if self.latency is None and not self.is_small:
            # Nobody asked for time, and nobody wants to pay for rounding with it where that can be helped.
            meeting = [each for each in meeting if (each.latency or 0.0) <= 1] or meeting
        # What is not asked for is had as good as can be: speed where only nearness is, else nearness.
        if self.latency is None and self.bytes is None and self.snr is not None:
            return min(meeting, key=lambda x: (x.latency or 0.0, -x.snr_db))
        return max(meeting, key=lambda x: x.snr_db)


def _not_slower(points: Sequence[FrontPoint]) -> Sequence[FrontPoint]:
    """Those that take no longer than the source, as far as that is known; where all do, the quickest."""
    found = [each for each in points if (each.latency or 0.0) <= 1]
    return found or [min(points, key=lambda x: x.latency or 0.0)]


def knee(points: Sequence[FrontPoint], *, by_size: bool = False) -> FrontPoint:
    """The nearest of the points that cost about the least, time and noise together.

    By size, or where no time is known, see `_above_the_line`.

    About the least, costs are alike, and times that are a little off would move the least of them back and forth: the
    nearest one that costs as little is where costs begin to rise. Of those about as near the one that costs the least
    is taken, so that nothing is both nearer and faster.
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
    """Times of the points, by their places, that had to be timed again for the knee to be sure: medians of all timings.

    Args:
        points: all, each timed once.
        timed: times the point of a place once more.
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
    """Places of points by whose time the knee would be another, of that one, and of the knee.

    Args:
        points: all.
        timings: how often each was timed: its time is off the less.
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
    """Those whose time is known and not longer than the source's; the quickest alone where all are slower."""
    known = [each for each in points if each.latency is not None]
    return _not_slower(known) if known else known


def _latest(points: Sequence[FrontPoint]) -> float:
    """The time that saves a third of what the fastest of them saves."""
    least = min(each.latency or 0.0 for each in points)
    return least + max(1 - least, 0.0) * (1 - _SAVED)


def _cost(of: FrontPoint, latest: float) -> float:
    """Time as a part of the source's, more of it beyond `latest`, and noise as a part of the signal (its root)."""
    time = of.latency or 0.0
    return time + _LATE * max(time - latest, 0.0) + _WORTH * 10 ** (-of.snr_db / 20)


def _above_the_line(points: Sequence[FrontPoint]) -> FrontPoint:
    """The point furthest above the line from the smallest to the nearest."""
    small, near = min(points, key=lambda x: x.bytes), max(points, key=lambda x: x.snr_db)
    wide, high = max(near.bytes - small.bytes, 1), max(near.snr_db - small.snr_db, 1e-9)
    return max(points, key=lambda x: (x.snr_db - small.snr_db) / high - (x.bytes - small.bytes) / wide)


def front(points: Sequence[FrontPoint], most: int = 9, wanted: FrontPoint | None = None) -> list[FrontPoint]:
    """The points that no other is nearer, faster and smaller than, the nearest last; of many the widest apart.

    The one that is `wanted` is among them, and the fastest. Noise is the same in each run, unlike time, so that a
    number is that of the same point as far as can be.
    """

    def is_over(a: FrontPoint, b: FrontPoint) -> bool:
        pairs = [(a.snr_db, b.snr_db), (-(a.latency or 0.0), -(b.latency or 0.0)), (-a.bytes * 0.98, -b.bytes)]
        return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs[:2])

    kept: list[FrontPoint] = []
    for each in sorted(points, key=lambda x: (x is not wanted, x.latency or 0.0)):
        is_behind = any(is_over(other, each) for other in points if other is not each)
        # Two plans may be one, which was timed twice.
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
    """The point of the front that was named.

    Raises:
        DiagnosticError: QUANT0025 there is none.
    """
    for each in points:
        if each.point == number:
            return each
    remedy = f"points: 1 to {len(points)}"
    raise DiagnosticError(Diagnostic("QUANT0025", f"there is no point {number}", None, remedy))


def latency_goal(stated: float | str | None) -> tuple[float | None, bool]:
    """A latency that was asked for, and whether it is milliseconds rather than a part of the source's.

    Raises:
        DiagnosticError: QUANT0004 it is neither.
    """
    if stated is None:
        return None, False
    found = _LATENCY.fullmatch(stated.strip()) if isinstance(stated, str) else None
    number = float(found[1]) if found else stated
    if isinstance(number, str | bool) or number <= 0:
        message = f"the setting 'max_latency' is {stated!r}"
        raise DiagnosticError(Diagnostic("QUANT0004", message, None, "0.5x for half of the source's, or 3ms"))
    return float(number), bool(found and found[2] == "ms")
