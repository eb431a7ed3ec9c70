"""Mixed precision: the fewest layers in floating point with which a goal is met."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.quantization.report import Step
from graphport.quantization.work import Candidate, root_with_grid

if TYPE_CHECKING:
    from graphport.ir.graph import Node, Value
    from graphport.quantization.grid import Grid
    from graphport.quantization.work import Work

_MOST_ALONE = 96
"""Layers up to which each is measured alone; beyond, the noise that layers make themselves ranks them."""


def enough_floating(work: Work, best: Candidate, goal: float, most: int | None) -> Candidate:
    """`best` with as few layers floating as reach `goal` dB, at most `most` of them.

    Layers are ranked by the noise that each makes at the outputs if it alone is quantized. Noises of layers add up, so
    the first `k` of that order are nearly the best `k`; the least `k` is found by halving, and then each layer is tried
    without, beginning with the least noisy.
    """
    noise = best.noise or work.measure(best)
    layers = list(best.quantization.placement.layers)
    limit = len(layers) if most is None else min(most, len(layers))
    if noise.snr >= goal or not limit:
        return best
    order = sorted(layers, key=_sensitivities(work, best).__getitem__, reverse=True)
    low, high, found = 1, limit, _with_floating(work, best, order[:limit])
    if found.noise is not None and found.noise.snr < goal:
        work.steps.append(Step(f"{limit} layers floating", found.noise.snr, is_kept=True))
        return found
    while low < high:
        middle = (low + high) // 2
        trial = _with_floating(work, best, order[:middle])
        if trial.noise is not None and trial.noise.snr >= goal:
            high, found = middle, trial
        else:
            low = middle + 1
    kept = order[:high]
    for node in reversed(order[: high - 1]):
        trial = _with_floating(work, best, [other for other in kept if other is not node])
        if trial.noise is not None and trial.noise.snr >= goal:
            kept, found = [other for other in kept if other is not node], trial
    if found.noise is not None:
        work.steps.append(Step(f"{len(kept)} layers floating", found.noise.snr, is_kept=True))
    return found


def _sensitivities(work: Work, best: Candidate) -> dict[Node, float]:
    """Noise to signal at the outputs of each layer alone, or at its own result where there are very many."""
    layers = list(best.quantization.placement.layers)
    if len(layers) > _MOST_ALONE and best.follower is not None:
        known = best.follower.noise
        return {node: known[node].own if node in known else 0.0 for node in layers}
    found: dict[Node, float] = {}
    for done, node in enumerate(layers):
        trial = _with_floating(work, best, [other for other in layers if other is not node])
        found[node] = trial.noise.ratio if trial.noise is not None else 0.0
        if work.told is not None:
            work.told("sensitivity", done + 1, len(layers))
    return found


def _with_floating(work: Work, best: Candidate, floating: list[Node]) -> Candidate:
    """`best` with some layers in floating point, measured; what was decided of the others stays."""
    names = [node.output.name for node in floating]
    placement = work.place(best.graph, names)
    for node in floating:
        if node in placement.floating:
            placement.floating[node] = "it makes so much noise that the goal asks for it"
    grids: dict[Value, Grid] = {}
    for value in placement.roots:
        root = root_with_grid(value, best.quantization.grids)
        if root is not None:
            grids[value] = best.quantization.grids[root]
    weights = {node: weight for node, weight in best.quantization.weights.items() if node in placement.layers}
    quantization = replace(best.quantization, placement=placement, grids=grids, weights=weights)
    trial = Candidate(best.graph, quantization, best.states, None, best.follower)
    work.measure(trial)
    return trial
