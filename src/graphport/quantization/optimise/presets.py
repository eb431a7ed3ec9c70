"""What a preset would make by itself, so that no point of a front is behind it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphport.quantization.quickest import SLOWER, quickest

if TYPE_CHECKING:
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.choices import Choices
    from graphport.quantization.session import QuantizationSession


@dataclass(frozen=True, slots=True, eq=False)
class PresetPlan:
    """The plan of a preset.

    `candidate` has the codes that weights got where all is on integers, as other plans have; `found` is what `session`
    made, whose layers are not adjusted yet.
    """

    session: QuantizationSession
    found: Candidate
    candidate: Candidate
    has_own: bool
    """Whether there are no codes for it but of its own, as channels are balanced otherwise."""

    def adjusted(self) -> Candidate:
        """With codes of its own, which lose less."""
        return self.session.finished(self.found)


def of_preset(session: QuantizationSession, base: Candidate, asked: Choices) -> list[PresetPlan]:
    """What is made without a front, and what it was before layers were left real for their noise, as `fast` leaves it.

    Ranges are those of `base`, or those before channels were balanced if these are better for the plan; none where it
    is `base`.

    Args:
        session: made `base`, and measures others.
        base: everything on integers that can be.
        asked: what decides without a front.
    """
    if asked == session.choices or asked.settings.weights_only:
        return []
    other = copy.copy(session)
    other.choices, other.slow, other.steps, other.on_progress = asked, (), [], None
    known = session.unbalanced
    start = _start(other, base)
    if known is not None and known.graph is not base.graph:
        start = max(start, _start(other, known), key=other.snr)
    found = other.cheaper(start)
    # No others are left real any more.
    other.choices = replace(asked, settings=replace(asked.settings, cheap_layers=False))
    every = [found, *([] if found is start else [start])]
    has_own = start.graph is not base.graph
    return [
        PresetPlan(other, each, _as_in(base, each), has_own) for each in every if has_own or _plan(each) != _plan(base)
    ]


def _start(other: QuantizationSession, of: Candidate) -> Candidate:
    """The ranges of `of`, where only what is quicker so stays real."""
    slow = quickest(other.choices, of.graph, other.decide_placement(of.graph), other.sizes)
    start = other.candidate(of.graph, {value.name: state for value, state in of.states.items()}, slow)
    floating = start.quantization.placement.floating
    floating.update(dict.fromkeys([node for node in floating if node.output.name in slow], SLOWER))
    return start


def _as_in(base: Candidate, of: Candidate) -> Candidate:
    """`of` with the codes of `base`."""
    weights = {node: base.quantization.weights.get(node, weight) for node, weight in of.quantization.weights.items()}
    return replace(of, quantization=replace(of.quantization, weights=weights), noise=None, follower=base.follower)


def _plan(of: Candidate) -> tuple[set[object], set[object]]:
    placement = of.quantization.placement
    return {*placement.layers, *placement.pointwise}, {*placement.summing}
