"""What a preset would make by itself, so that no point of a front is behind it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.quantization.quickest import SLOWER, quickest

if TYPE_CHECKING:
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.choices import Choices
    from graphport.quantization.session import QuantizationSession


def of_preset(session: QuantizationSession, base: Candidate, asked: Choices) -> list[Candidate]:
    """What is made without a front, and what it was before layers were left real for their noise, as `fast` leaves it.

    Ranges are those of `base`, and layers are adjusted anew: codes that weights got where all is on integers lose more
    in another plan. None where it is the plan of `base`.

    Args:
        session: made `base`, and measures others.
        base: everything on integers that can be.
        asked: what decides without a front.
    """
    if asked == session.choices or asked.settings.weights_only:
        return []
    other = copy.copy(session)
    other.choices, other.slow, other.steps, other.on_progress = asked, (), [], None
    slow = quickest(asked, base.graph, other.decide_placement(base.graph), session.sizes)
    start = other.candidate(base.graph, {value.name: state for value, state in base.states.items()}, slow)
    floating = start.quantization.placement.floating
    floating.update(dict.fromkeys([node for node in floating if node.output.name in slow], SLOWER))
    found = other.cheaper(start)
    if _plan(found) == _plan(base):
        return []
    # No others are left real any more.
    other.choices = replace(asked, settings=replace(asked.settings, cheap_layers=False))
    return [other.finished(found), *([] if found is start else [start])]


def _plan(of: Candidate) -> tuple[set[object], set[object]]:
    placement = of.quantization.placement
    return {*placement.layers, *placement.pointwise}, {*placement.summing}
