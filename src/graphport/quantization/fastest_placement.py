"""Keep layers float whose integer kernels would be slower, including conversions.

A depthwise convolution, or a few nodes between float nodes, may be slower on integers. The fastest plan follows from
kernel rates, so that it does not depend on the machine.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

from graphport.quantization.dispatch import Method
from graphport.quantization.estimate import conversion_time, kernel_time
from graphport.quantization.placement_cut import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.choices import Choices
    from graphport.quantization.placement import Placement

SLOWER = "integers would be slower here, including conversions"
_BYTE = 8
_KERNELS = 2
"""Integer kernels with fused activations: a product and its factor."""
_MIN_QUANTIZED_SHARE = 0.5
_WORTH = (0.0, *(4.0**k for k in range(-4, 9)))
"""Nanoseconds per sample that an 8-bit weight is worth."""


def fastest_float_nodes(
    choices: Choices, graph: Graph, placement: Placement, sizes: Mapping[str, int]
) -> tuple[str, ...]:
    """Return the names of results of nodes that stay float in the fastest plan; empty if the target has no rates.

    Also empty if everything must be quantized, or a fraction is set. If that plan left most weights float, a weight is
    worth as much time as makes it half of them: quantization should reduce the size, too.

    Args:
        choices: settings and target.
        graph: all nodes.
        placement: with as many integer nodes as possible.
        sizes: bytes of values of a sample, by name, for open shapes.
    """
    rates, layers = choices.target.rates, placement.layers
    if rates is None or not layers or _is_all_asked(choices):
        return ()
    weights = {node: prod(layer.shape) for node, layer in layers.items()}
    asked = _requested_nodes(choices, placement)

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
        if sum(weights[node] for node in layers if node not in found) >= _MIN_QUANTIZED_SHARE * sum(weights.values()):
            return tuple(node.output.name for node in problem.nodes if node in found)
    return ()


def _bends(node: Node, choices: Choices) -> bool:
    """Whether the only consumer is an activation that the target's float kernel fuses."""
    users = node.output.users
    return len(node.output.uses) == 1 and not node.output.is_output and users[0].op_type in choices.target.absorbed


def _is_all_asked(choices: Choices) -> bool:
    settings = choices.settings
    is_stated = settings.cheap_layers is False or settings.max_float_layers is not None
    is_other = settings.weights_only or choices.activation.bits > _BYTE or choices.activation.is_floating
    is_whole = settings.full_integer or choices.target.is_whole or settings.dispatch == Method.ALL_IN
    return is_stated or is_other or is_whole


def _requested_nodes(choices: Choices, placement: Placement) -> Collection[Node]:
    names = {*choices.settings.quantize_nodes, *choices.settings.wide_nodes}
    nodes = (*placement.layers, *placement.pointwise)
    return {node for node in nodes if not names.isdisjoint({node.name, *(value.name for value in node.results)})}
