"""Mixed precision: meet an accuracy goal with the fewest float layers."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from graphport.quantization.choices import Choices
from graphport.quantization.float_fallback import with_float_layers
from graphport.quantization.report import Step
from graphport.quantization.wide_activations import has_wide_layers, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphport.ir.graph import Node
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.session import QuantizationSession

_REASON = "its quantization error is too large for the SNR goal"
_BYTE = 8
_MAX_MEASURED_LAYERS = 96
"""Maximum number of layers that are measured alone; above, layers are ranked by their own noise."""
_MAX_SETS = 120
"""Maximum number of smaller sets of layers that are all measured."""
_NUM_TRIED_FIRST = 12
"""Otherwise, so many of the noisiest layers are tried for each addition."""


def enough_floating(session: QuantizationSession, best: Candidate, goal: float, most: int | None) -> Candidate:
    """Return `best` with the fewest float layers, at most `most` and never all, that reach an SNR of `goal` dB.

    The goal should hold on unseen samples: it includes the margin of the noise. If no set reaches it, the nearest is
    returned. Layers are ranked by the noise at the outputs if only that layer is quantized. Noises add up, so the first
    `k` layers are nearly the best `k`; the least `k` is found by bisection, and then each layer is tried without, least
    noisy first. As values between two float layers are not rounded, neighbours may gain more together: smaller sets are
    measured, all of them if there are few.
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
        # Confidence intervals need not grow with float layers: few samples suffice.
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
    """Return the powers of two below `limit`."""
    return [1 << power for power in range(limit.bit_length()) if 1 << power < limit]


def _all_wide(session: QuantizationSession, best: Candidate) -> Candidate:
    """Return `best` with 16-bit activations if that helps: with integer inputs no layer can stay float."""
    wide = all_widened(session, best)
    return best if wide is None else session.better("activations of 16 bits", best, wide)


def all_widened(session: QuantizationSession, best: Candidate) -> Candidate | None:
    """Return `best` with 16-bit activations everywhere; `None` if unsupported.

    Weights keep their codes if their qparams are equal: the biases of such sums may need larger scales.
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
    """Return fewer than `size` of the layers `order` that meet the goal, if found."""
    if sum(comb(len(order), count) for count in range(1, size)) <= _MAX_SETS:
        steps = ([[*nodes] for nodes in combinations(order, count)] for count in range(1, size))
        for sets in steps:
            nodes, trial = _best_of(session, best, sets)
            if meets(trial):
                return nodes, trial
        return None
    nodes: list[Node] = []
    while len(nodes) < size - 1:
        left = [node for node in order if node not in nodes]
        nodes, trial = _best_of(session, best, [[*nodes, node] for node in left[:_NUM_TRIED_FIRST]])
        if meets(trial):
            return nodes, trial
    return None


def _best_of(session: QuantizationSession, best: Candidate, sets: list[list[Node]]) -> tuple[list[Node], Candidate]:
    """Return the best set of float layers."""
    tried = [(nodes, _with_floating(session, best, nodes)) for nodes in sets]
    return min(tried, key=lambda pair: 0.0 if pair[1].noise is None else pair[1].noise.ratio)


def sensitivities(session: QuantizationSession, best: Candidate) -> dict[Node, float]:
    """Return the noise-to-signal ratio of each layer alone at the outputs, or at its result if there are many."""
    layers = list(best.quantization.placement.layers)
    if len(layers) > _MAX_MEASURED_LAYERS and best.follower is not None:
        known = best.follower.noise
        return {node: known[node].own if node in known else 0.0 for node in layers}
    found: dict[Node, float] = {}
    for done, node in enumerate(layers):
        others = [other.output.name for other in layers if other is not node]
        found[node] = session.measure(with_float_layers(session, best, others, _REASON)).ratio
        if session.on_progress is not None:
            session.on_progress("sensitivity", done + 1, len(layers))
    return found


def _with_floating(session: QuantizationSession, best: Candidate, floating: list[Node]) -> Candidate:
    """Return `best` with some float layers, or with 16 bits, measured."""
    trial = with_less_noise(session, best, [node.output.name for node in floating], _REASON)
    session.measure(trial)
    return trial


def with_less_noise(session: QuantizationSession, best: Candidate, names: Collection[str], reason: str) -> Candidate:
    """Return `best` with some float layers; with 16 bits if the runtime supports integers only."""
    choices = session.choices
    is_wide = choices.target.is_whole and has_wide_layers(choices.settings, choices.target)
    return widened(choices, best, names) if is_wide else with_float_layers(session, best, names, reason)
