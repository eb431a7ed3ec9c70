"""Quantize layers outside of their graph: the data of a task, and its execution.

Output channels of a product are independent, and depend only on the rows of its input. So a layer, or some of its
channels, can be quantized on any machine from its weight and these rows, bit-exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Graph, Node, Value
from graphport.quantization.channel_blocks import layer_channels, layer_in_memory, split_channels
from graphport.quantization.insert_qdq import Quantization, Weight, least_scales
from graphport.quantization.layer import Kind, Layer
from graphport.quantization.layerwise import Follower, mean_noise
from graphport.quantization.placement import Placement
from graphport.quantization.weights import by_group, nearest, weight_qparams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.quantization.choices import Choices
    from graphport.quantization.layerwise import LayerNoise
    from graphport.quantization.parameters import QuantizationParameters
    from graphport.quantization.round import Rows

Array: TypeAlias = "np.ndarray[Any, Any]"


def nearest_weight(choices: Choices, node: Node, layer: Layer, source: QuantizationParameters | None) -> Weight:
    """Quantize the weight of a layer to the nearest codes; `source` is the qparams of its input."""
    layer = layer_in_memory(layer)
    weight, settings = layer.float_weight(), choices.settings
    qparams = weight_qparams(
        layer,
        weight,
        # Only products have integer sums with 2-bit weights.
        DType.INT4 if choices.weight is DType.INT2 and layer.kind != "product" else choices.weight,
        per_channel=node.op in choices.target.per_channel if settings.per_channel is None else settings.per_channel,
        block=settings.weight_block or 0,
        is_quick=choices.is_quick,
        reach=choices.reach,
        power_of_two=choices.power_of_two,
        half_scales=choices.target.half_scales,
        least=least_scales(layer, source),
    )
    if choices.target.by_group:
        qparams = by_group(qparams, layer)
    codes = nearest(qparams, layer, weight, reach=choices.reach)
    return Weight(qparams, codes, None if layer.bias is None else layer.offsets())


class AdjustmentSettings(NamedTuple):
    """How a follower adjusts layers."""

    adjusts: bool
    corrects: bool
    fits: bool
    descends: bool
    refines: bool
    reach: str


@dataclass(frozen=True, slots=True, eq=False)
class LayerTask:
    """Some or all output channels of a product as plain data."""

    name: str
    op: str
    kind: Kind
    weight: Array
    bias: Array | None
    axes: tuple[int, int]

    @classmethod
    def of(cls, layer: Layer, rows: slice) -> LayerTask:
        """Return the task of the output channels `rows`."""
        part = layer_channels(layer, rows)
        bias = None if part.bias is None else part.offsets()
        return cls(layer.name, layer.node.op, layer.kind, part.float_weight(), bias, (layer.out_axis, layer.in_axis))

    def layer(self) -> Layer:
        """Return the task as a layer with a node outside of any graph."""
        weight = _constant("weight", self.weight)
        bias = None if self.bias is None else _constant("bias", self.bias)
        node = Node(self.op, [Value("x"), weight], [Value("y")], name=self.name)
        return Layer(node, self.kind, weight, bias, None, *self.axes, 1)


def _constant(name: str, numbers: Array) -> Value:
    stored = ArrayStorage(numbers)
    value = Value(name, TensorFact.of(stored))
    value.storage = stored
    return value


def rounded_parts(layer: Layer, choices: Choices) -> list[slice]:
    """Return the parts of `layer` that are quantized separately: with block scales, channels are independent."""
    return split_channels(layer) if choices.settings.weight_block else [slice(0, layer.shape[layer.out_axis])]


def follower_of(ways: AdjustmentSettings) -> Follower:
    """Return a follower for layers without a graph; activations are not quantized."""
    return Follower(Graph("layer"), Quantization(Placement()), **ways._asdict())


def rounded(task: LayerTask, choices: Choices, ways: AdjustmentSettings, rows: Rows) -> tuple[Weight, LayerNoise]:
    """Return the codes of a task, and their noise."""
    layer, follower = task.layer(), follower_of(ways)
    given = nearest_weight(choices, layer.node, layer, None)
    return follower.best_of_rows(layer, given, rows, follower.second_of(layer, rows))


def joined(layer: Layer, found: Sequence[tuple[Weight, LayerNoise]]) -> tuple[Weight, LayerNoise]:
    """Join the weights of the parts of `layer`, and the noise."""
    weights, noises = zip(*found, strict=True)
    if len(weights) == 1:
        return weights[0], noises[0]
    scale, zero_point, codes = (
        np.concatenate(each, axis=layer.out_axis)
        for each in zip(*((w.qparams.scale, w.qparams.zero_point, w.codes) for w in weights), strict=True)
    )
    bias = None if weights[0].bias is None else np.concatenate([weight.bias for weight in weights])
    return Weight(replace(weights[0].qparams, scale=scale, zero_point=zero_point), codes, bias), mean_noise(noises)
