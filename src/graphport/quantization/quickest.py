"""Layers that are real because kernels for integers would take longer, with all that is rounded for them.

A convolution of each channel by itself, or a few nodes between two that compute on reals, may be slower on integers
than it was. What is quickest of all is decided by rates of kernels, so that it is the same on every machine.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

from graphport.quantization.dispatch import Method
from graphport.quantization.estimate import conversion_time, kernel_time
from graphport.quantization.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.choices import Choices
    from graphport.quantization.placement import Placement

SLOWER = "integers would take longer here, with what has to be rounded for them"
_BYTE = 8
_KERNELS = 2
"""That bend what a kernel for integers gave: a product and what it is multiplied with."""
_LEAST_ROUNDED = 0.5
_WORTH = (0.0, *(4.0**k for k in range(-4, 9)))
"""Nanoseconds of a sample that a weight of eight bits is worth."""


def quickest(choices: Choices, graph: Graph, placement: Placement, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the results of nodes that stay real in the quickest plan; none where no rates are known.

    None either where everything is asked to be quantized, or how much. Where that left most of the weights real, a
    weight is worth as much time as makes it half of them: who quantizes wants less bytes, too.

    Args:
        choices: settings and target.
        graph: all nodes.
        placement: of the graph where everything is rounded that can be.
        sizes: bytes of values of a sample, by name, where the graph does not tell them.
    """
    rates, layers = choices.target.rates, placement.layers
    if rates is None or not layers or _is_all_asked(choices):
        return ()
    weights = {node: prod(layer.shape) for node, layer in layers.items()}
    asked = _asked(choices, placement)

    def times(node: Node, worth: float) -> tuple[float, float]:
        layer = layers.get(node)
        rounded = kernel_time(node, layer, rates, sizes, is_rounded=True)
        if layer is not None and layer.kind != "product" and _bends(node, choices):
            rounded += _KERNELS * kernel_time(node, None, rates, sizes, is_rounded=False)
        real = kernel_time(node, layer, rates, sizes, is_rounded=False)
        return rounded, real + worth * weights.get(node, 0)

    def rounding(value: Value) -> float:
        return conversion_time(value, rates, sizes)

    for worth in _WORTH:
        problem = Problem(graph, placement, choices.target, partial(times, worth=worth), rounding)
        found = {*problem.solved({}, asked)}
        if sum(weights[node] for node in layers if node not in found) >= _LEAST_ROUNDED * sum(weights.values()):
            return tuple(node.output.name for node in problem.nodes if node in found)
    return ()


def _bends(node: Node, choices: Choices) -> bool:
    """Whether a node follows that the real kernel takes in, and no other."""
    users = node.output.users
    return len(node.output.uses) == 1 and not node.output.is_output and users[0].word in choices.target.absorbed


def _is_all_asked(choices: Choices) -> bool:
    settings = choices.settings
    is_stated = settings.cheap_layers is False or settings.max_float_layers is not None
    is_other = settings.weights_only or choices.activation.bits > _BYTE or choices.activation.is_floating
    is_whole = settings.full_integer or choices.target.is_whole or settings.dispatch == Method.ALL_IN
    return is_stated or is_other or is_whole


def _asked(choices: Choices, placement: Placement) -> Collection[Node]:
    names = {*choices.settings.quantize_nodes, *choices.settings.wide_nodes}
    nodes = (*placement.layers, *placement.pointwise)
    return {node for node in nodes if not names.isdisjoint({node.name, *(value.name for value in node.results)})}
