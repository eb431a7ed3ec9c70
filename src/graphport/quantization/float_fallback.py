"""Keep cheap layers in floating point.

An integer kernel saves time per product and costs the rounding of its operand. A layer with few products (the first
convolution, a depthwise convolution) saves little. Layers with the most noise per saved time may remain float, up to a
fraction of all time, if that lowers the noise. Times follow from kernel rates of the target including conversions
between integer and float nodes, and do not depend on the machine; without rates the number of products is used.
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

REASON = "it is small, and quantizing its inputs costs more time than integers save"
_FALLBACK_SHARES = {"fast": 0.0, "balanced": 0.05, "best": 0.2}
"""Extra cost of float layers, as a fraction of the integer run's time or of all products, by preset."""
_MIN_NOISE_SHARE = 1e-3
"""Minimum fraction of the total rounding noise that a layer must contribute."""
_DEFAULT_SHARE = 0.05
"""That fraction if it is requested and the preset has none."""
_MAX_TRIED_LAYERS = 48
"""Maximum number of layers that are placed again: each placement takes time linear in the graph."""


class Placer(Protocol):
    """Interface of the session: choices and placement."""

    @property
    def choices(self) -> Choices:
        """Return settings and target."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return bytes of values of a sample, by name, for open shapes."""
        ...

    def decide_placement(self, graph: Graph, floating: Collection[str] = ()) -> Placement:
        """Return the placement of `graph` if the named layers are not quantized."""
        ...


def fallback_share(settings: Settings, target: Target) -> float:
    """Return the fraction of all time, or products, for layers that stay float because they are cheap.

    0 if a goal is set (then the fewest layers that reach it stay float), if everything must be quantized, or if the
    runtime supports integers only.
    """
    part = _FALLBACK_SHARES[settings.preset]
    if settings.cheap_layers is None:
        is_whole = target.is_whole or settings.min_snr is not None or settings.dispatch == Method.ALL_IN
        return 0.0 if is_whole else part
    return (part or _DEFAULT_SHARE) if settings.cheap_layers else 0.0


def cheap_layers(
    quantization: Quantization,
    states: Mapping[Value, Statistics],
    part: float,
    placed: Callable[[Node], Placement],
    rates: Rates | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Node]:
    """Return layers that cost together at most `part` of all time as float, the largest gain per cost first.

    Args:
        quantization: qparams and placement.
        states: statistics of the values that decide qparams.
        part: fraction of the time of a run, or of all products without rates.
        placed: returns the placement without some layers.
        rates: kernel rates of the target, if known.
        sizes: bytes of values of a sample, by name, for open shapes.
    """
    placement = quantization.placement
    costs = _rounding(quantization, states)

    def noise(of: Placement) -> float:
        return sum(costs.get(placement.points.get(value, value), 0.0) for value in of.points)

    counts = {node: layer.depth * elements(node.output, sizes) for node, layer in placement.layers.items()}
    present = noise(placement)
    likely = sorted(counts, key=lambda node: -_operand_noise(node, placement, costs) / max(counts[node], 1))
    if rates is None:
        likely = [node for node in likely if counts[node] <= part * sum(counts.values())]
    without = {node: placed(node) for node in likely[:_MAX_TRIED_LAYERS]}
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
        if gains[node] > _MIN_NOISE_SHARE * present and spent[node] <= left and weights[node] <= room:
            left -= spent[node]
            room -= weights[node]
            chosen.append(node)
    return chosen


def _operand_noise(node: Node, placement: Placement, costs: Mapping[Value, float]) -> float:
    """Return the noise of the values that a layer reads."""
    layer = placement.layers[node]
    return sum(costs.get(placement.points.get(value, value), 0.0) for value in (layer.input, node.output))


def _rounding(quantization: Quantization, states: Mapping[Value, Statistics]) -> dict[Value, float]:
    """Return, for each root value with qparams, the noise-to-signal ratio of its quantization on the histogram."""
    return {
        value: squared_error(states[value].histogram, qparams) / max(states[value].squares, 1e-30)
        for value, qparams in quantization.all_qparams.items()
        if value in states
    }


def with_float_layers(session: Placer, best: Candidate, more: Iterable[str], reason: str) -> Candidate:
    """Return `best` with more float layers, named by results; other decisions are kept."""
    more = [*more]
    placement = session.decide_placement(best.graph, (*best.floating, *more))
    for node in placement.floating:
        known = reason if node.output.name in more else best.quantization.placement.floating.get(node)
        placement.floating[node] = known or placement.floating[node]
    all_qparams: dict[Value, QuantizationParameters] = {}
    states: dict[Value, Statistics] = {}
    for value in placement.roots:
        # The value that decided for several values may have changed.
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
    """Yield `best` with all cheap layers float, and with half of them; nothing if there is none."""
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
        # At least one layer remains on integers.
        cheap = cheap[:-1]
    names = [node.output.name for node in cheap]
    return [
        with_float_layers(session, best, names[:count], REASON)
        for count in dict.fromkeys((len(cheap), len(cheap) // 2))
        if count
    ]


def with_real_curves(session: Placer, best: Candidate) -> Candidate | None:
    """Return `best` with all nodes without weights float, so that their results are not rounded.

    Returns `None` if there are none, if no layer may stay float, if results must be rounded, or if it takes too long.
    """
    settings = session.choices.settings
    placement, rates = best.quantization.placement, session.choices.target.rates
    part = fallback_share(settings, session.choices.target)
    if not placement.pointwise or settings.real_results is False or not part:
        return None
    asked = set(settings.quantize_nodes)
    names = [node.output.name for node in placement.pointwise if asked.isdisjoint({node.name, node.output.name})]
    new = with_float_layers(session, best, names, REASON)
    if rates is not None:
        most = (1 + part) * nanoseconds(placement, placement, rates, session.sizes)
        if nanoseconds(placement, new.quantization.placement, rates, session.sizes) > most:
            return None
    return new


def with_real_weights(best: Candidate) -> Candidate:
    """Return `best` with float weights."""
    return replace(best, quantization=replace(best.quantization, weights={}), noise=None)


def step_name(new: Candidate) -> str:
    """Return the name of the step that tries `new`."""
    return f"{len(new.floating)} cheap layers floating"
