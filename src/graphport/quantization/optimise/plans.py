"""Which layers to leave real: the best plans for every weight of noise beside time."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.quantization.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Node, Value
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.optimise.costs import Times
    from graphport.runtimes.target import Target

_WEIGHTS = (0.0, *(10 ** (k / 2) for k in range(-6, 5)))
"""What noise counts beside time: 1 where all noise is worth as much as all time."""


def plans(
    base: Candidate, target: Target, before: Times, after: Times, noises: Mapping[Node, float], entries: int
) -> list[tuple[str, ...]]:
    """Names of what stays real in each plan, the fastest plan first; each the cheapest of all for its weight of noise.

    Time is that of the kernels of real and of rounded nodes, and of rounding and taking back where unlike ones meet;
    noise adds up over layers. With two kinds of nodes the cheapest plan is a minimum cut.

    Args:
        base: where everything is rounded that can be.
        target: whose kernels count.
        before: times of nodes of the real graph.
        after: times of nodes of `base`.
        noises: for each layer the noise at the outputs that it makes alone.
        entries: samples of the runs that were timed.
    """
    whole = sum(before.nodes.values())
    unit = whole / max(sum(noises.values()), 1e-30)
    found: dict[tuple[str, ...], None] = {}
    for weight in _WEIGHTS:
        problem = _problem(base, target, before, after, entries)
        floating = problem.solved({node: weight * unit * noise for node, noise in noises.items()})
        if len([node for node in floating if node in base.quantization.placement.layers]) < len(noises):
            found[tuple(node.output.name for node in floating)] = None
    return list(found)


def cost_of(
    base: Candidate, target: Target, before: Times, after: Times, floating: Collection[str], entries: int
) -> float:
    """Microseconds of all nodes that may be rounded, and of conversions, if those that are named stay real.

    Args:
        base: where everything is rounded that can be.
        target: whose kernels count.
        before: times of nodes of the real graph.
        after: times of nodes of `base`.
        floating: results of nodes.
        entries: samples of the runs that were timed.
    """
    problem = _problem(base, target, before, after, entries)
    return problem.forced({node for node in problem.nodes if node.output.name in floating})


def _problem(base: Candidate, target: Target, before: Times, after: Times, entries: int) -> Problem:
    """With measured times; of what is fused into another kernel they are nothing, of layers nothing is known then."""
    layers = base.quantization.placement.layers

    def times(node: Node) -> tuple[float, float]:
        real, rounded = before.nodes.get(node.name), after.nodes.get(node.name)
        if node in layers and (real is None or rounded is None):
            return 0.0, 0.0
        return rounded or 0.0, real or 0.0

    def rounding(value: Value) -> float:
        return after.rounding(_elements(value, entries))

    return Problem(base.graph, base.quantization.placement, target, times, rounding)


def _elements(value: Value, entries: int) -> int:
    shape = value.shape
    free = entries if shape and not isinstance(shape[0], int) else 1
    return free * prod(dim if isinstance(dim, int) else 1 for dim in shape or ())
