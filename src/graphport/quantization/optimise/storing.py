"""How weights are stored that are multiplied with real numbers: for each as many bits as its noise is worth.

Each layer is real, in halves, in codes of eight, four or two bits, or computes on integers; its choice costs bytes and
time, and makes noise. Nobody else's does, nearly: so for each weight of noise beside bytes and time the cheapest plan
is the cheapest way of each layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite, log10
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.dtypes import DType
from graphport.quantization.float_fallback import floated
from graphport.quantization.optimise.library import Library, Way, library

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.quantization.candidate import Candidate
    from graphport.quantization.goals import FrontPoint, Goals
    from graphport.quantization.samples import Run
    from graphport.quantization.session import QuantizationSession

REASON = "so its weight is stored"
_STEPS = tuple(10 ** (k / 4) for k in range(-24, 25))
"""What noise counts beside bytes and time, where both together count 1."""
_MIXES = ((1.0, 0.0), (0.3, 0.7), (0.0, 1.0))
"""Parts that bytes and time have in what a plan costs."""
_MOST = 6
"""Plans that are tried at first; then those that the goals lead to."""
_ROUNDS = 3
_FULL = 0.97
"""The part of a goal for bytes that leaves no room for more bits."""
_BYTES, _DECIBELS = 0.004, 0.3
"""What is kept below a goal for bytes, as a part of it, and above one for noise."""

Plan: TypeAlias = "dict[str, Way]"


@dataclass(slots=True, eq=False)
class Storing:
    """Plans of how weights are stored, as goals ask for them.

    Args:
        session: made `base`, and measures others.
        base: whose layers count.
        timed: a run to be timed; `None` where time does not count.
    """

    session: QuantizationSession
    base: Candidate
    timed: Run | None
    of: Library = field(default_factory=Library)
    made: list[Plan] = field(default_factory=list[Plan])
    tried: list[Plan] = field(default_factory=list[Plan])
    _rounds: int = 0

    def more(self, goals: Goals, points: Sequence[FrontPoint]) -> list[Candidate]:
        """Candidates that may be over `points`, the first of which is the base's; none where there are none."""
        self._rounds += 1
        is_alone = self.session.choices.settings.weights_only
        if self._rounds > _ROUNDS or (not is_alone and not self._is_small_asked(goals, points)):
            return []
        if not self.of.ways:
            self.of = library(self.session, self.base, self.timed)
            every = plans(self.of, has_times=self.timed is not None)
            self.made = [plan for plan in every if any(way.dtype is not DType.FLOAT32 for way in plan.values())]
        if not self.made:
            return []
        asked = self._asked(goals, points)
        if self._rounds == 1:
            asked += spread(self.made, _MOST) if is_alone else []
        new = [plan for plan in asked if not any(_same(plan, other) for other in self.tried)]
        new = [plan for number, plan in enumerate(new) if not any(_same(plan, other) for other in new[:number])]
        self.tried += new
        return [stored(self.session, self.base, self.of, plan) for plan in new]

    def _is_small_asked(self, goals: Goals, points: Sequence[FrontPoint]) -> bool:
        """Whether bytes are asked for that no point has, or that leave room for more in all that have them."""
        meeting = [point.bytes for point in points if not goals.missed(point)]
        return (
            goals.bytes is not None
            and max(meeting, default=0) < _FULL * goals.bytes
            and (not meeting or bool(self.tried))
        )

    def _asked(self, goals: Goals, points: Sequence[FrontPoint]) -> list[Plan]:
        """The plans that are to meet the goals, by what was measured of others."""
        found: list[Plan | None] = []
        if goals.bytes is not None:
            # What is not weights is as large in all of them.
            known = [p.bytes - size(plan) for p, plan in zip(points[-len(self.tried) :], self.tried, strict=False)]
            rest = known[-1] if known else points[0].bytes - self._present()
            most = int(goals.bytes * (1 - _BYTES)) - rest
            found.append(fitting(self.of, self.made, most) or self.made[0])
            if not self.session.choices.settings.weights_only:
                # Most layers are as the base has them, with what its file has around weights.
                found.append(shrunk(self.of, int(goals.bytes * (1 - _BYTES)) - points[0].bytes + self._present()))
            if goals.latency is not None:
                found.append(min((plan for plan in self.made if size(plan) <= most), key=time_of, default=None))
        if goals.snr is not None:
            pairs = zip(points[-len(self.tried) :], self.tried, strict=False)
            ratios = [10 ** (-p.snr_db / 10) / max(noise_of(plan), 1e-15) for p, plan in pairs if noise_of(plan) > 0]
            near = max(ratios[-3:], default=1.0) if self._rounds > 1 else 1.0
            most_noise = 10 ** (-(goals.snr + _DECIBELS + min(points[0].margin_db, 3.0)) / 10) / near
            quiet = [plan for plan in self.made if noise_of(plan) <= most_noise]
            found.append(min(quiet, key=size, default=None))
            if goals.latency is not None:
                found.append(min(quiet, key=time_of, default=None))
        return [plan for plan in found if plan is not None]

    def _present(self) -> int:
        """Bytes of all weights as the base has them."""
        found = sum(self.of.ways[name][0].bytes for name in self.of.tables)
        for node, weight in self.base.quantization.weights.items():
            ways = self.of.ways.get(node.output.name, [])
            found += next((way.bytes for way in ways if way.dtype is weight.qparams.dtype), 0)
        return found


def spread(made: Sequence[Plan], most: int) -> list[Plan]:
    """Some of `made`, evenly far apart in decibels."""
    kept: list[Plan] = []
    noises = [10 * log10(max(noise_of(plan), 1e-15)) for plan in made]
    low, high = min(noises), max(noises)
    for number in range(most):
        gaps = [abs(noise - low - (high - low) * number / (most - 1)) for noise in noises]
        plan = made[gaps.index(min(gaps))]
        if plan not in kept:
            kept.append(plan)
    return kept


def _same(a: Plan, b: Plan) -> bool:
    return all(way is b.get(name) for name, way in a.items())


def plans(of: Library, *, has_times: bool) -> list[Plan]:
    """The cheapest plan for every weight of noise, the smallest first."""
    names = list(of.ways)
    whole = max(sum(max(way.bytes for way in ways) for ways in of.ways.values()), 1)
    spent = max(sum(max(way.time for way in ways) for ways in of.ways.values()), 1e-9)
    noise = max(sum(max(way.noise for way in ways if isfinite(way.noise)) for ways in of.ways.values()), 1e-30)
    found: dict[tuple[int, ...], None] = {}
    for small, fast in _MIXES if has_times else _MIXES[:1]:
        for step in _STEPS:
            weights = (step / noise, small / whole, fast / spent)
            found[tuple(_cheapest(of.ways[name], weights) for name in names)] = None
    made = [{name: of.ways[name][k] for name, k in zip(names, chosen, strict=True)} for chosen in found]
    return sorted(made, key=size)


def _cheapest(ways: Sequence[Way], weights: tuple[float, float, float]) -> int:
    a, b, c = weights
    costs = [a * way.noise + b * way.bytes + c * way.time for way in ways]
    return costs.index(min(costs))


def time_of(plan: Plan) -> float:
    """Microseconds of all layers of a plan."""
    return sum(way.time for way in plan.values())


def size(plan: Plan) -> int:
    """Bytes of all weights of a plan."""
    return sum(way.bytes for way in plan.values())


def noise_of(plan: Plan) -> float:
    """What the noises of all layers add up to."""
    return sum(way.noise for way in plan.values())


def fitting(of: Library, made: Iterable[Plan], most: int) -> Plan | None:
    """Of `made` the largest with at most so many bytes, with more bits wherever these still fit; `None` without one."""
    small = [plan for plan in made if size(plan) <= most]
    if not small:
        return None
    plan, left = dict(min(small, key=noise_of)), 0
    while True:
        left = most - size(plan)
        better = [
            ((plan[name].noise - way.noise) / max(way.bytes - plan[name].bytes, 1), name, way)
            for name, ways in of.ways.items()
            for way in ways
            if way.noise < plan[name].noise and way.bytes - plan[name].bytes <= left
        ]
        if not better:
            return plan
        _, name, way = max(better, key=lambda x: x[0])
        plan[name] = way


def shrunk(of: Library, most: int) -> Plan | None:
    """The first way of every layer, but for those that have to be smaller for at most so many bytes; `None` if none is.

    One layer after the other takes the way that costs the least noise and time for the bytes that it saves, of those
    that are still asked for.
    """
    plan = {name: ways[0] for name, ways in of.ways.items()}
    noise, time = max(noise_of(plan), 1e-30), max(time_of(plan), 1e-9)
    while (wanted := size(plan) - most) > 0:
        smaller = [
            (
                (max(way.noise - plan[name].noise, 0.0) / noise + max(way.time - plan[name].time, 0.0) / time)
                / min(plan[name].bytes - way.bytes, wanted),
                name,
                way,
            )
            for name, ways in of.ways.items()
            for way in ways
            if way.bytes < plan[name].bytes
        ]
        if not smaller:
            return None
        _, name, way = min(smaller, key=lambda x: x[0])
        plan[name] = way
    return plan


def stored(session: QuantizationSession, best: Candidate, of: Library, plan: Plan) -> Candidate:
    """`best` with the layers of `plan` stored as it says, and multiplied as real numbers."""
    is_alone = session.choices.settings.weights_only
    plan = {name: way for name, way in plan.items() if not way.is_integer}
    real = [x for x, way in plan.items() if x not in of.tables and (way.weight is None or not is_alone)]
    new = floated(session, best, [name for name in real if name not in best.floating], REASON)
    quantization = new.quantization
    nodes = {node.output.name: node for node in best.graph}
    for name, way in plan.items():
        node = nodes[name]
        quantization.halves.pop(node, None)
        if name in of.tables:
            quantization.tables.pop(node, None)
            if way.weight is not None:
                quantization.tables[node] = way.weight
        elif way.weight is not None:
            quantization.weights[node] = way.weight
            if node not in quantization.placement.layers:
                quantization.alone[node] = replace(of.layers[name], node=node)
                quantization.placement.floating.pop(node, None)
        elif way.dtype is not DType.FLOAT32:
            quantization.halves[node] = way.dtype
    return new
