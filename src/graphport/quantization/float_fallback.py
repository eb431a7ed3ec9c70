"""Cheap layers, that are better left in floating point.

A kernel for integers saves time on each product, and costs what the rounding of its operand costs. Where a layer has
few products, such as the first convolution or one that convolves each channel by itself, little is saved. So the layers
whose rounding costs the most for the time that is saved may stay real, up to a part of all time, and do where that
lowers the noise. Time is that of the rates of the target's kernels with the conversions between unlike neighbours, so
that it is the same on every machine; where nothing is known of kernels the number of products stands for it.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import TYPE_CHECKING, Protocol

from graphport.quantization.calibrate import squared_error
from graphport.quantization.candidate import Candidate, root_with_qparams
from graphport.quantization.dispatch import Method
from graphport.quantization.estimate import elements, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.choices import Choices
    from graphport.quantization.insert_qdq import Quantization
    from graphport.quantization.observe import Statistics
    from graphport.quantization.parameters import QuantizationParameters
    from graphport.quantization.placement import Placement
    from graphport.quantization.settings import Settings
    from graphport.runtimes.target import Rates, Target

REASON = "it has few products, and rounding what it reads costs more than they are worth"
_PARTS = {"fast": 0.0, "balanced": 0.05, "best": 0.2}
"""What real layers may cost beside a run on integers, as a part of its time, or else of all products."""
_LEAST_SAVED = 1e-3
"""The part of all rounding that a layer must be worth."""
_LEAST = 0.05
"""That part where it is asked for and the preset has none."""
_MOST_TRIED = 48
"""Layers that are placed anew, each with all others: with more of them the work would not be linear in the graph."""


class Placer(Protocol):
    """What is asked of a quantization: its choices, and where it quantizes."""

    @property
    def choices(self) -> Choices:
        """Settings and target."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of values of a sample, by name, where the graph does not tell them."""
        ...

    def decide_placement(self, graph: Graph, floating: Collection[str] = ()) -> Placement:
        """Where `graph` is quantized if the layers of these names are not."""
        ...


def fallback_share(settings: Settings, target: Target) -> float:
    """The part of all time, or products, that layers may cost which stay real because they are cheap.

    Where a goal is set, the fewest layers that reach it stay real, and no others; nor do any where everything is asked
    to be quantized, or may be read by what computes on integers only.
    """
    part = _PARTS[settings.preset]
    if settings.cheap_layers is None:
        is_whole = target.is_whole or settings.min_snr is not None or settings.dispatch == Method.ALL_IN
        return 0.0 if is_whole else part
    return (part or _LEAST) if settings.cheap_layers else 0.0


def cheap_layers(
    quantization: Quantization,
    states: Mapping[Value, Statistics],
    part: float,
    placed: Callable[[Node], Placement],
    rates: Rates | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Node]:
    """Layers that cost together at most `part` of all time if they are real, those that gain the most for it first.

    Args:
        quantization: its grids, and where they act.
        states: what was seen of the values that decide grids.
        part: of the time of a run; of all products where nothing is known of that.
        placed: where is quantized if one layer more is not.
        rates: of the target's kernels, where they are known.
        sizes: bytes of values of a sample, by name, where the graph does not tell them.
    """
    placement = quantization.placement
    costs = _rounding(quantization, states)

    def noise(of: Placement) -> float:
        return sum(costs.get(placement.points.get(value, value), 0.0) for value in of.points)

    counts = {node: layer.depth * elements(node.output, sizes) for node, layer in placement.layers.items()}
    present = noise(placement)
    likely = sorted(counts, key=lambda node: -_touched(node, placement, costs) / max(counts[node], 1))
    if rates is None:
        likely = [node for node in likely if counts[node] <= part * sum(counts.values())]
    without = {node: placed(node) for node in likely[:_MOST_TRIED]}
    gains = {node: present - noise(of) for node, of in without.items()}
    spent: dict[Node, float] = {node: counts[node] for node in without}
    left = part * sum(counts.values())
    weights = {node: prod(layer.shape) for node, layer in placement.layers.items()}
    room = part * sum(weights.values())
    if rates is None:
        room = inf
    else:
        whole = nanoseconds(placement, placement, rates, sizes)
        left = part * whole
        spent = {node: max(nanoseconds(placement, of, rates, sizes) - whole, 0.0) for node, of in without.items()}
    chosen: list[Node] = []
    for node in sorted(gains, key=lambda node: -gains[node] / max(spent[node], 1)):
        if gains[node] > _LEAST_SAVED * present and spent[node] <= left and weights[node] <= room:
            left -= spent[node]
            room -= weights[node]
            chosen.append(node)
    return chosen


def _touched(node: Node, placement: Placement, costs: Mapping[Value, float]) -> float:
    """What the rounding of the values beside a layer costs."""
    layer = placement.layers[node]
    return sum(costs.get(placement.points.get(value, value), 0.0) for value in (layer.input, node.output))


def _rounding(quantization: Quantization, states: Mapping[Value, Statistics]) -> dict[Value, float]:
    """For each value that decides a grid the noise to signal of its rounding."""
    return {
        value: squared_error(states[value].histogram, qparams) / max(states[value].squares, 1e-30)
        for value, qparams in quantization.all_qparams.items()
        if value in states
    }


def floated(session: Placer, best: Candidate, more: Iterable[str], reason: str) -> Candidate:
    """`best` with more layers in floating point, named by their results; what was decided of the others stays."""
    more = [*more]
    placement = session.decide_placement(best.graph, (*best.floating, *more))
    for node in placement.floating:
        known = reason if node.output.name in more else best.quantization.placement.floating.get(node)
        placement.floating[node] = known or placement.floating[node]
    all_qparams: dict[Value, QuantizationParameters] = {}
    states: dict[Value, Statistics] = {}
    for value in placement.roots:
        # The value that decided for several may be gone.
        root = best.quantization.placement.points.get(value) or root_with_qparams(value, best.quantization.all_qparams)
        if root in best.quantization.all_qparams:
            all_qparams[value] = best.quantization.all_qparams[root]
        if root in best.states:
            states[value] = best.states[root]
    alone = {node: layer for node, layer in best.quantization.alone.items() if node not in placement.layers}
    kept = (*placement.layers, *alone)
    weights = {node: weight for node, weight in best.quantization.weights.items() if node in kept}
    quantization = replace(
        best.quantization, placement=placement, all_qparams=all_qparams, weights=weights, alone=alone
    )
    quantization.halves, quantization.tables = dict(quantization.halves), dict(quantization.tables)
    return Candidate(best.graph, quantization, states, None, best.follower, (*best.floating, *more))


def with_cheap_layers(session: Placer, best: Candidate) -> list[Candidate]:
    """`best` with all of its cheap layers in floating point, and with half of them; none where it has none."""
    settings = session.choices.settings
    part = fallback_share(settings, session.choices.target)
    if not part:
        return []

    def placed(node: Node) -> Placement:
        return session.decide_placement(best.graph, (*best.floating, node.output.name))

    asked = set(settings.quantize_nodes)
    cheap = [
        node
        for node in cheap_layers(
            best.quantization, best.states, part, placed, session.choices.target.rates, session.sizes
        )
        if asked.isdisjoint({node.name, *(value.name for value in node.results)})
    ]
    if settings.max_float_layers is not None:
        cheap = cheap[: settings.max_float_layers]
    if len(cheap) == len(best.quantization.placement.layers):
        # Something is to be left that computes on integers.
        cheap = cheap[:-1]
    names = [node.output.name for node in cheap]
    return [
        floated(session, best, names[:count], REASON) for count in dict.fromkeys((len(cheap), len(cheap) // 2)) if count
    ]


def with_real_curves(session: Placer, best: Candidate) -> Candidate | None:
    """`best` where all nodes without weights compute on real numbers, so that what they give is not rounded.

    None where there are none, no layer may stay real either, results are asked to be rounded, or it takes too long.
    """
    settings = session.choices.settings
    placement, rates = best.quantization.placement, session.choices.target.rates
    part = fallback_share(settings, session.choices.target)
    if not placement.pointwise or settings.real_results is False or not part:
        return None
    asked = set(settings.quantize_nodes)
    names = [node.output.name for node in placement.pointwise if asked.isdisjoint({node.name, node.output.name})]
    new = floated(session, best, names, REASON)
    if rates is not None:
        most = (1 + part) * nanoseconds(placement, placement, rates, session.sizes)
        if nanoseconds(placement, new.quantization.placement, rates, session.sizes) > most:
            return None
    return new


def with_real_weights(best: Candidate) -> Candidate:
    """`best` with no weight rounded."""
    return replace(best, quantization=replace(best.quantization, weights={}), noise=None)


def step_name(new: Candidate) -> str:
    """What the step is called that tries `new`."""
    return f"{len(new.floating)} cheap layers floating"
