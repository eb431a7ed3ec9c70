"""Plans of the presets, so that no point of a front is worse than a preset."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphport.quantization.fastest_placement import SLOWER, fastest_float_nodes

if TYPE_CHECKING:
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.choices import Choices
    from graphport.quantization.session import QuantizationSession


@dataclass(frozen=True, slots=True, eq=False)
class PresetPlan:
    """The plan of a preset.

    `candidate` has the base's weight codes, like other plans; `found` is the session's result, whose layers are not
    adjusted yet.
    """

    session: QuantizationSession
    found: Candidate
    candidate: Candidate
    has_own: bool
    """Whether it needs its own codes, because channels are balanced differently."""

    def adjusted(self) -> Candidate:
        """Return the plan with its own, more accurate codes."""
        return self.session.finished(self.found)


def of_preset(session: QuantizationSession, base: Candidate, asked: Choices) -> list[PresetPlan]:
    """Return the preset's plans without a front, before and after layers were kept float for their noise.

    Ranges are those of `base`, or those before balancing if they are better for the plan; empty if it equals `base`.

    Args:
        session: the session of `base`, which measures others.
        base: as many integer layers as possible.
        asked: settings without a front.
    """
    if asked == session.choices or asked.settings.weights_only:
        return []
    other = copy.copy(session)
    other.choices, other.slow, other.steps, other.on_progress = asked, (), [], None
    known = session.unbalanced
    start = _starting_ranges(other, base)
    if known is not None and known.graph is not base.graph:
        start = max(start, _starting_ranges(other, known), key=other.snr)
    found = other.cheaper(start)
    # No further layers are kept float.
    other.choices = replace(asked, settings=replace(asked.settings, cheap_layers=False))
    every = [found, *([] if found is start else [start])]
    has_own = start.graph is not base.graph
    return [
        PresetPlan(other, each, _as_in(base, each), has_own) for each in every if has_own or _plan(each) != _plan(base)
    ]


def _starting_ranges(other: QuantizationSession, of: Candidate) -> Candidate:
    """Return a new candidate with the ranges of `of` in which only layers that are faster as float stay float."""
    slow = fastest_float_nodes(other.choices, of.graph, other.decide_placement(of.graph), other.sizes)
    start = other.candidate(of.graph, {value.name: state for value, state in of.states.items()}, slow)
    floating = start.quantization.placement.floating
    floating.update(dict.fromkeys([node for node in floating if node.output.name in slow], SLOWER))
    return start


def _as_in(base: Candidate, of: Candidate) -> Candidate:
    """Return `of` with the weight codes of `base`."""
    weights = {node: base.quantization.weights.get(node, weight) for node, weight in of.quantization.weights.items()}
    return replace(of, quantization=replace(of.quantization, weights=weights), noise=None, follower=base.follower)


def _plan(of: Candidate) -> tuple[set[object], set[object]]:
    placement = of.quantization.placement
    return {*placement.layers, *placement.pointwise}, {*placement.summing}
