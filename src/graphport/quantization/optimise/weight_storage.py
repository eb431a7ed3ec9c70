"""Select the storage of weights that are multiplied as floats: as many bits as the noise is worth.

Each layer is float, float16, has codes of 8, 4 or 2 bits, or computes on integers; its choice costs bytes and time, and
causes noise, nearly independently of other layers. So for each weight of noise against bytes and time the optimal plan
is the best option of each layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite, log10
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.dtypes import DType
from graphport.quantization.float_fallback import with_float_layers
from graphport.quantization.optimise.library import Library, StorageOption, library

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.quantization.candidate import Candidate
    from graphport.quantization.goals import FrontPoint, Goals
    from graphport.quantization.samples import Run
    from graphport.quantization.session import QuantizationSession

REASON = "so its weight is stored"
_STEPS = tuple(10 ** (k / 4) for k in range(-24, 25))
"""Weights of noise, if bytes and time together count 1."""
_MIXES = ((1.0, 0.0), (0.3, 0.7), (0.0, 1.0))
"""Shares of bytes and time in the cost of a plan."""
_MAX_FIRST_PLANS = 6
"""Maximum number of first plans; and of further ones for the goals."""
_ROUNDS = 3
_FULL = 0.97
"""Fraction of a size goal that leaves no room for more bits."""
_BYTES, _DECIBELS = 0.004, 0.3
"""Margins below a size goal, as a fraction, and above an accuracy goal in dB."""

Plan: TypeAlias = "dict[str, StorageOption]"


@dataclass(slots=True, eq=False)
class Storing:
    """Plans of weight storage, driven by goals.

    Args:
        session: the session of `base`, which measures others.
        base: the layers.
        timed: a run to be timed; `None` if time does not count.
    """

    session: QuantizationSession
    base: Candidate
    timed: Run | None
    of: Library = field(default_factory=Library)
    made: list[Plan] = field(default_factory=list[Plan])
    tried: list[Plan] = field(default_factory=list[Plan])
    _rounds: int = 0

    def further_candidates(self, goals: Goals, points: Sequence[FrontPoint]) -> list[Candidate]:
        """Return further candidates after `points`, the first of which is the base's; empty if there are none."""
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
        asked = self._goal_plans(goals, points)
        if self._rounds == 1:
            asked += evenly_spaced(self.made, _MAX_FIRST_PLANS) if is_alone else []
        new = [plan for plan in asked if not any(_is_equal_plan(plan, other) for other in self.tried)]
        new = [
            plan for number, plan in enumerate(new) if not any(_is_equal_plan(plan, other) for other in new[:number])
        ]
        self.tried += new
        return [stored(self.session, self.base, self.of, plan) for plan in new]

    def _is_small_asked(self, goals: Goals, points: Sequence[FrontPoint]) -> bool:
        """Whether a size goal is missed by all points, or leaves room for more bits in all that meet it."""
        meeting = [point.bytes for point in points if not goals.missed(point)]
        return (
            goals.bytes is not None
            and max(meeting, default=0) < _FULL * goals.bytes
            and (not meeting or bool(self.tried))
        )

    def _goal_plans(self, goals: Goals, points: Sequence[FrontPoint]) -> list[Plan]:
        """Return the plans that should meet the goals, from measurements of others."""
        found: list[Plan | None] = []
        if goals.bytes is not None:
            # The rest of the file has the same size in all plans.
            known = [p.bytes - size(plan) for p, plan in zip(points[-len(self.tried) :], self.tried, strict=False)]
            rest = known[-1] if known else points[0].bytes - self._present()
            most = int(goals.bytes * (1 - _BYTES)) - rest
            found.append(largest_within(self.of, self.made, most) or self.made[0])
            if not self.session.choices.settings.weights_only:
                # Most layers are as in the base, with its overhead around weights.
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
        """Return the bytes of all weights and tables in the base."""
        found = sum(self.of.ways[name][0].bytes for name in self.of.tables)
        for node, weight in self.base.quantization.weights.items():
            ways = self.of.ways.get(node.output.name, [])
            found += next((way.bytes for way in ways if way.dtype is weight.qparams.dtype), 0)
        return found


def evenly_spaced(made: Sequence[Plan], most: int) -> list[Plan]:
    """Return some of the points, evenly spaced in dB."""
    kept: list[Plan] = []
    noises = [10 * log10(max(noise_of(plan), 1e-15)) for plan in made]
    low, high = min(noises), max(noises)
    for number in range(most):
        gaps = [abs(noise - low - (high - low) * number / (most - 1)) for noise in noises]
        plan = made[gaps.index(min(gaps))]
        if plan not in kept:
            kept.append(plan)
    return kept


def _is_equal_plan(a: Plan, b: Plan) -> bool:
    return all(way is b.get(name) for name, way in a.items())


def plans(of: Library, *, has_times: bool) -> list[Plan]:
    """Return the optimal plan for each weight of noise, smallest first."""
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


def _cheapest(ways: Sequence[StorageOption], weights: tuple[float, float, float]) -> int:
    a, b, c = weights
    costs = [a * way.noise + b * way.bytes + c * way.time for way in ways]
    return costs.index(min(costs))


def time_of(plan: Plan) -> float:
    """Return microseconds of all layers of a plan."""
    return sum(way.time for way in plan.values())


def size(plan: Plan) -> int:
    """Return bytes of all weights of a plan."""
    return sum(way.bytes for way in plan.values())


def noise_of(plan: Plan) -> float:
    """Return the sum of the noises of all layers."""
    return sum(way.noise for way in plan.values())


def largest_within(of: Library, made: Iterable[Plan], most: int) -> Plan | None:
    """Return the largest plan within the bytes, with more bits where they fit; `None` if there is none."""
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
    """Return a plan of at most `most` bytes, starting from each layer's first option; `None` if impossible.

    Greedy: repeat the change of one layer's option with the least added noise and time per saved byte.
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
    """Return `best` with the layers of `plan` stored accordingly, and multiplied as floats."""
    is_alone = session.choices.settings.weights_only
    plan = {name: way for name, way in plan.items() if not way.is_integer}
    real = [x for x, way in plan.items() if x not in of.tables and (way.weight is None or not is_alone)]
    new = with_float_layers(session, best, [name for name in real if name not in best.floating], REASON)
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
