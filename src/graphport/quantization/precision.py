"""Mixed precision: the fewest layers in floating point with which a goal is met."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from graphport.quantization.choices import Choices
from graphport.quantization.float_fallback import floated
from graphport.quantization.report import Step
from graphport.quantization.widen import has_wide_layers, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphport.ir.graph import Node
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.session import QuantizationSession

_REASON = "it makes so much noise that the goal asks for it"
_BYTE = 8
_MOST_ALONE = 96
"""Layers up to which each is measured alone; beyond, the noise that layers make themselves ranks them."""
_MOST_SETS = 120
"""Smaller sets of layers up to which all are measured."""
_FIRST = 12
"""Of more, so many of the noisiest layers are tried each time that one is added."""


def enough_floating(session: QuantizationSession, best: Candidate, goal: float, most: int | None) -> Candidate:
    """`best` with as few layers floating as reach `goal` dB, at most `most` of them, and never all.

    The goal is to hold on other samples as well: it is met with the margin of the noise. Where it cannot be met with
    any layer on integers, that is what is left: the nearest to it.
    Layers are ranked by the noise that each makes at the outputs if it alone is quantized. Noises of layers add up, so
    the first `k` of that order are nearly the best `k`; the least `k` is found by halving, and then each layer is tried
    without, beginning with the least noisy. As values between two real layers need no rounding, neighbours may be worth
    more together: so smaller sets are measured, all of them where they are few.
    """
    noise = best.noise or session.measure(best)
    if session.choices.settings.full_integer and noise.snr - noise.margin < goal:
        return _all_wide(session, best)
    layers = list(best.quantization.placement.layers)
    limit = len(layers) - 1 if most is None else min(most, len(layers) - 1)
    if noise.snr - noise.margin >= goal or not limit:
        return best
    order = sorted(layers, key=sensitivities(session, best).__getitem__, reverse=True)
    low, high, found = 1, limit, _with_floating(session, best, order[:limit])
    least = found.noise

    def meets(trial: Candidate) -> bool:
        return trial.noise is not None and trial.noise.snr - trial.noise.margin >= goal

    if least is not None and not meets(found):
        # What is told of others need not grow with layers that float: few samples tell it.
        fewer = {count: _with_floating(session, best, order[:count]) for count in _few(limit)}
        high = next((count for count, trial in fewer.items() if meets(trial)), 0)
        if not high:
            session.steps.append(Step(f"{limit} layers floating", least.snr, is_kept=True))
            return found
        found = fewer[high]

    while low < high:
        middle = (low + high) // 2
        trial = _with_floating(session, best, order[:middle])
        if meets(trial):
            high, found = middle, trial
        else:
            low = middle + 1
    kept = order[:high]
    for node in reversed(order[: high - 1]):
        trial = _with_floating(session, best, [other for other in kept if other is not node])
        if meets(trial):
            kept, found = [other for other in kept if other is not node], trial
    kept, found = _fewer(session, best, meets, order, len(kept)) or (kept, found)
    if found.noise is not None:
        session.steps.append(Step(f"{len(kept)} layers floating", found.noise.snr, is_kept=True))
    return found


def _few(limit: int) -> list[int]:
    """Powers of two below `limit`."""
    return [1 << power for power in range(limit.bit_length()) if 1 << power < limit]


def _all_wide(session: QuantizationSession, best: Candidate) -> Candidate:
    """`best` with activations of 16 bits where that helps: no layer can stay real where inputs are integers."""
    wide = all_widened(session, best)
    return best if wide is None else session.better("activations of 16 bits", best, wide)


def all_widened(session: QuantizationSession, best: Candidate) -> Candidate | None:
    """`best` with activations of 16 bits everywhere; `None` where that is no choice.

    Weights keep their codes where their grid is the same: biases of sums of such values may ask for a wider one.
    """
    settings, target = session.choices.settings, session.choices.target
    if target.wide is None or settings.weights_only or session.choices.activation.bits > _BYTE:
        return None
    other = copy.copy(session)
    asked = replace(settings, activation_bits=target.wide.bits, activation_type=str(target.wide), wide_nodes=())
    other.choices = replace(Choices.of(asked), rounds=session.choices.rounds, corrects=session.choices.corrects)
    found = other.candidate(best.graph, {value.name: state for value, state in best.states.items()}, best.floating)
    weights = found.quantization.weights
    for node, weight in best.quantization.weights.items():
        if node in weights and np.array_equal(weights[node].qparams.scale, weight.qparams.scale):
            weights[node] = weight
    return found


def _fewer(
    session: QuantizationSession, best: Candidate, meets: Callable[[Candidate], bool], order: list[Node], size: int
) -> tuple[list[Node], Candidate] | None:
    """Fewer than `size` of the layers `order` with which the goal is met, if such are come across."""
    if sum(comb(len(order), count) for count in range(1, size)) <= _MOST_SETS:
        steps = ([[*nodes] for nodes in combinations(order, count)] for count in range(1, size))
        for sets in steps:
            nodes, trial = _best_of(session, best, sets)
            if meets(trial):
                return nodes, trial
        return None
    nodes: list[Node] = []
    while len(nodes) < size - 1:
        left = [node for node in order if node not in nodes]
        nodes, trial = _best_of(session, best, [[*nodes, node] for node in left[:_FIRST]])
        if meets(trial):
            return nodes, trial
    return None


def _best_of(session: QuantizationSession, best: Candidate, sets: list[list[Node]]) -> tuple[list[Node], Candidate]:
    """The set of layers that are best left in floating point."""
    tried = [(nodes, _with_floating(session, best, nodes)) for nodes in sets]
    return min(tried, key=lambda pair: 0.0 if pair[1].noise is None else pair[1].noise.ratio)


def sensitivities(session: QuantizationSession, best: Candidate) -> dict[Node, float]:
    """Noise to signal at the outputs of each layer alone, or at its own result where there are very many."""
    layers = list(best.quantization.placement.layers)
    if len(layers) > _MOST_ALONE and best.follower is not None:
        known = best.follower.noise
        return {node: known[node].own if node in known else 0.0 for node in layers}
    found: dict[Node, float] = {}
    for done, node in enumerate(layers):
        others = [other.output.name for other in layers if other is not node]
        found[node] = session.measure(floated(session, best, others, _REASON)).ratio
        if session.on_progress is not None:
            session.on_progress("sensitivity", done + 1, len(layers))
    return found


def _with_floating(session: QuantizationSession, best: Candidate, floating: list[Node]) -> Candidate:
    """`best` with some layers in floating point, or with 16 bits, measured."""
    trial = with_less_noise(session, best, [node.output.name for node in floating], _REASON)
    session.measure(trial)
    return trial


def with_less_noise(session: QuantizationSession, best: Candidate, names: Collection[str], reason: str) -> Candidate:
    """`best` with some layers in floating point; with 16 bits where whoever runs it has integers only."""
    choices = session.choices
    is_wide = choices.target.is_whole and has_wide_layers(choices.settings, choices.target)
    return widened(choices, best, names) if is_wide else floated(session, best, names, reason)
