"""Plans of float layers: the optimum for each weight of noise against time."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.quantization.placement_cut import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Node, Value
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.optimise.costs import Times
    from graphport.runtimes.target import Target

_WEIGHTS = (0.0, *(10 ** (k / 2) for k in range(-6, 5)))
"""Weights of noise: 1 if all noise counts like all time."""


def plans(
    base: Candidate, target: Target, before: Times, after: Times, noises: Mapping[Node, float], entries: int
) -> list[tuple[str, ...]]:
    """Return the float node results of each plan, fastest first; each is optimal for its weight of noise.

    Time is the sum of kernel times of float and quantized nodes and of conversions between them; noise adds up over
    layers. With two classes of nodes the optimal plan is a minimum cut.

    Args:
        base: as many integer nodes as possible.
        target: the target with its kernels.
        before: times of nodes of the float graph.
        after: times of nodes of `base`.
        noises: the noise at the outputs of each layer alone.
        entries: samples of the timed runs.
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
    """Return microseconds of all nodes that may be quantized, and of conversions, if the named ones stay float.

    Args:
        base: as many integer nodes as possible.
        target: the target with its kernels.
        before: times of nodes of the float graph.
        after: times of nodes of `base`.
        floating: results of float nodes.
        entries: samples of the timed runs.
    """
    problem = _problem(base, target, before, after, entries)
    return problem.forced({node for node in problem.nodes if node.output.name in floating})


def _problem(base: Candidate, target: Target, before: Times, after: Times, entries: int) -> Problem:
    """Return the cut problem with measured times; nodes fused into another kernel take 0, layers then have no time."""
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
