"""What a user wants of a result: how near, how fast, how small, how good by a measure of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LATENCY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(x|ms|)")
_WORTH = 6.0
"""What noise counts at the knee beside time: as large as the signal it is so many times the source's time."""
_CLOSE = 1.05
"""How much more a point may cost than the knee that may be it when it is timed again."""
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
        """The point to write: that which was named; of those that meet all goals the best; else the nearest.

        What is slower than the source is not, where anything else is, unless it meets the goals or no goal is in time.
        """
        if self.point is not None:
            found = next((each for each in points if each.point == self.point), None)
            if found is None:
                message = f"there is no point {self.point}"
                remedy = f"points: 1 to {len(points)}"
                raise DiagnosticError(Diagnostic("QUANT0025", message, None, remedy))
            return found
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
    """The point that costs the least, time and noise together; by size that furthest above the line from end to end.

    Time is a part of the source's, noise one of the signal (its root): neither depends on which other points there are,
    so that a point which is timed a little differently, or is not there, does not move the knee. It saves at least half
    of the time that the fastest point saves.
    """
    if by_size:
        return _above_the_line(points)
    known = _fast_enough(points)
    return min(known, key=_cost) if known else max(points, key=lambda x: x.snr_db)


def close_to_the_knee(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """Whoever might be the knee if it were timed again; none where only one is."""
    known = _fast_enough(points)
    least = min(map(_cost, known), default=0.0)
    found = [each for each in known if _cost(each) <= _CLOSE * least]
    return found if len(found) > 1 else []


def _fast_enough(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """Those that save at least half of the time that the fastest saves; that one alone where it saves nothing."""
    known = [(each.latency, each) for each in points if each.latency is not None]
    least = min((latency for latency, _ in known), default=1.0)
    most = least + max(1 - least, 0.0) / 2
    return [each for latency, each in known if latency <= most]


def _cost(of: FrontPoint) -> float:
    return (of.latency or 0.0) + _WORTH * 10 ** (-of.snr_db / 20)


def _above_the_line(points: Sequence[FrontPoint]) -> FrontPoint:
    """The point furthest above the line from the smallest to the nearest."""
    small, near = min(points, key=lambda x: x.bytes), max(points, key=lambda x: x.snr_db)
    wide, high = max(near.bytes - small.bytes, 1), max(near.snr_db - small.snr_db, 1e-9)
    return max(points, key=lambda x: (x.snr_db - small.snr_db) / high - (x.bytes - small.bytes) / wide)


def front(points: Sequence[FrontPoint], most: int = 9, wanted: FrontPoint | None = None) -> list[FrontPoint]:
    """The points that no other is nearer, faster and smaller than, the fastest first; of many the widest apart.

    The one that is `wanted` is among them.
    """

    def is_over(a: FrontPoint, b: FrontPoint) -> bool:
        pairs = [(a.snr_db, b.snr_db), (-(a.latency or 0.0), -(b.latency or 0.0)), (-a.bytes * 0.98, -b.bytes)]
        return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs[:2])

    kept = [
        each
        for each in points
        if each is wanted or not any(is_over(other, each) for other in points if other is not each)
    ]
    kept.sort(key=lambda x: (x.latency or 0.0, -x.snr_db))
    while len(kept) > most:
        inner = [i for i in range(1, len(kept) - 1) if kept[i] is not wanted]
        gaps = {i: kept[i + 1].snr_db - kept[i - 1].snr_db for i in inner}
        del kept[min(gaps, key=lambda i: abs(gaps[i]))]
    return kept


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
