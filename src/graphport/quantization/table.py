"""A quantization beside the graph: real numbers that are on their grids already, and a table of scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.ncnn import Scales
from graphport.ir import rewrite

if TYPE_CHECKING:
    from typing import Any

    from graphport.ir.graph import Graph, Node
    from graphport.quantization.express import Quantization


def settled(graph: Graph, quantization: Quantization) -> Graph:
    """A copy of `graph` with the real numbers that the codes of its weights stand for; activations are not rounded."""
    twin = rewrite.copy(graph)
    nodes = dict(zip(graph, twin, strict=True))
    for node, layer in quantization.placement.layers.items():
        weight = quantization.weights.get(node)
        if weight is None:
            continue
        _set(twin, nodes[node], 1, weight.grid.values(weight.codes))
        if layer.bias is None or layer.bias.storage is None or weight.bias is None:
            continue
        adder = node if layer.adds is None else layer.adds
        _set(twin, nodes[adder], adder.inputs.index(layer.bias), weight.bias.reshape(layer.bias.storage.shape))
    rewrite.remove_dead(twin)
    return twin


def _set(graph: Graph, node: Node, index: int, numbers: np.ndarray[Any, Any]) -> None:
    old = node.inputs[index]
    array = np.ascontiguousarray(numbers, np.float32)
    name = node.name if old is None else old.name
    node.set_input(index, graph.add_constant(name, TensorFact(DType.FLOAT32, array.shape), ArrayStorage(array)))


def ncnn_table(quantization: Quantization) -> tuple[Scales, ...]:
    """The lines of ncnn's calibration table: first the weights of all layers, then their inputs.

    Units: integers per real unit, the inverse of the scale of a grid.
    """
    weights: list[Scales] = []
    inputs: list[Scales] = []
    for node, layer in quantization.placement.layers.items():
        weight, grid = quantization.weights.get(node), quantization.grid_of(layer.input)
        if weight is None or grid is None:
            continue
        scales = np.broadcast_to(1 / weight.grid.scale.astype(np.float64).reshape(-1), (layer.channels,))
        name = "_".join(layer.name.split())
        weights.append(Scales(f"{name}_param_0", tuple(float(scale) for scale in scales)))
        inputs.append(Scales(name, (1 / float(grid.scale),)))
    return (*weights, *inputs)
