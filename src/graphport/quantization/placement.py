"""Decide the quantized layers and values of a graph for a target, and which values share qparams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.registry import op_defs
from graphport.quantization.layer import Layer, layer_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value
    from graphport.runtimes.target import Target


RECURRENT = ("LSTM", "GRU", "RNN")
UNDISPATCHED = "the dispatch method keeps it float"
"""Reason of float nodes outside of the candidates."""


@dataclass(slots=True, eq=False)
class Placement:
    """Quantized parts of a graph.

    `points` are the quantized values, with the value whose statistics decide the qparams. `carried` are those that
    exist as integers only: all consumers read integers. `readers` are the nodes that a quantized value is for.
    `summing` are layers that return unrounded integer sums. `floating` contains the reason of each float layer.
    `shared` are values that use the qparams of another value and must fit them. `requantized` are nodes
    whose operands and result need equal qparams, with the operands that keep their own and are requantized; `results`
    are the quantized results of such nodes. `recurrent` are recurrent nodes with int8 weights, with the largest code.
    """

    layers: dict[Node, Layer] = field(default_factory=dict["Node", Layer])
    pointwise: dict[Node, None] = field(default_factory=dict["Node", None])
    points: dict[Value, Value] = field(default_factory=dict["Value", "Value"])
    carried: set[Value] = field(default_factory=set["Value"])
    readers: dict[Value, list[Node]] = field(default_factory=dict["Value", list["Node"]])
    summing: dict[Node, None] = field(default_factory=dict["Node", None])
    floating: dict[Node, str] = field(default_factory=dict["Node", str])
    shared: dict[Value, list[Value]] = field(default_factory=dict["Value", list["Value"]])
    requantized: dict[Node, list[Value]] = field(default_factory=dict["Node", list["Value"]])
    results: dict[Node, Value] = field(default_factory=dict["Node", "Value"])
    recurrent: dict[Node, int] = field(default_factory=dict["Node", int])

    @property
    def roots(self) -> list[Value]:
        """Return the distinct values that decide qparams."""
        return list(dict.fromkeys(self.points.values()))


def decide_placement(
    graph: Graph,
    target: Target,
    candidates: Collection[Node],
    floating: Collection[Node] = (),
    *,
    forced: Collection[Node] = (),
    summed: float = 0.0,
    is_whole: bool = False,
) -> Placement:
    """Decide what is quantized.

    Args:
        graph: canonical and sorted.
        target: the target with its kernels.
        candidates: the nodes that may be quantized.
        floating: candidates that stay float.
        forced: candidates that are quantized even if the target's float kernels are better.
        summed: the fraction of all products that may be computed by kernels with unrounded sums, if only float
            nodes use
            the results; with 1 all nodes without weights stay float for that.
        is_whole: inputs, outputs and all operators must be integers.
    """
    if summed >= 1 and target.summing:
        target = replace(target, pointwise=target.fused)
    placement = Placement()
    _find_layers(graph, target, candidates, set(floating), placement)
    _leave_alone(placement, target, forced)
    _Walk(graph, target, set(candidates) - set(floating), placement, summed, is_whole=is_whole).run()
    return placement


def _paired(layer: Layer, target: Target) -> Layer:
    """Return `layer` with the pairing of products in the target's kernels."""
    if not target.pairs_by_place or layer.kind != "convolution":
        return layer
    # Grouped kernels order odd numbers of channels differently; depthwise kernels pair kernel positions, along rows of
    # a 5x5 window and along columns of a 3x3 window.
    is_grouped, channels = layer.groups > 1, layer.shape[1]
    vary = channels % 2 == 1 if is_grouped else channels == 1
    return replace(layer, pairs_by_place=not is_grouped, pairs_vary=vary)


def _leave_alone(placement: Placement, target: Target, forced: Collection[Node]) -> None:
    """Remove layers that the target computes better as floats."""
    for node, layer in list(placement.layers.items()):
        reason = _real_reason(layer, target, is_forced=node in forced)
        if reason is not None:
            del placement.layers[node]
            placement.floating[node] = reason


def _real_reason(layer: Layer, target: Target, *, is_forced: bool) -> str | None:
    """Return the reason why a supported layer stays float."""
    if layer.node.op_type in target.real_biased and _has_constant_added(layer):
        return f"{target.name} adds a constant to sums of {layer.node.op_type} before it scales them"
    if target.block and layer.depth % target.block:
        return f"its {layer.depth} summed elements are not a multiple of the block size {target.block} of {target.name}"
    if target.half_scales and not _fits_halves(layer):
        return "its weight scales exceed the float16 range"
    if layer.kind != "convolution" or layer.groups == 1:
        return None
    results = layer.shape[0] // layer.groups
    if results == layer.shape[1] == 1:
        is_float32 = target.real_depthwise and not is_forced
        return f"{target.name} runs depth-wise convolutions faster and more accurately in float" if is_float32 else None
    axes = len(layer.shape) - 2
    if target.grouped_axes and axes > target.grouped_axes:
        return f"{target.name} has no correct integer kernel for grouped convolutions over {axes} axes"
    if target.real_groups and results % target.real_groups == 0:
        return f"{target.name} has no correct integer kernel for groups of {results} output channels"
    return None


def _fits_halves(layer: Layer) -> bool:
    """Whether the largest weight is small enough for float16 scales (with codes of at least four bits)."""
    numbers = layer.float_weight()
    return max(float(numbers.max(initial=0)), -float(numbers.min(initial=0))) <= _MAX_FLOAT16_WEIGHT


def _has_constant_added(layer: Layer) -> bool:
    if layer.bias is not None and np.any(layer.offsets()):
        return True
    adders = [user for user in layer.node.output.users if user.op in ("Add", "Sub")]
    return any(value.is_constant for user in adders for value in user.operands)


def _find_layers(
    graph: Graph, target: Target, candidates: Collection[Node], floating: set[Node], placement: Placement
) -> None:
    for node in graph:
        op_def = op_defs().get(node.op_type) if not node.dialect else None
        if op_def is None or op_def.role != "weighted":
            continue
        reason = _reason(node, target, candidates, floating)
        layer = layer_of(node) if reason is None else None
        if layer is not None and is_float32(layer.input) and 0 not in layer.shape:
            placement.layers[node] = _paired(layer, target)
        else:
            placement.floating[node] = reason or _unfit(node)


def _reason(node: Node, target: Target, candidates: Collection[Node], floating: set[Node]) -> str | None:
    if node in floating:
        return "the settings keep it in float"
    if node not in candidates:
        return UNDISPATCHED
    if node.op_type in RECURRENT:
        return "recurrent weights are quantized with weights_only or dynamic, for ONNX Runtime and OpenVINO"
    if node.op_type not in target.weighted:
        return f"{target.name} has no integer kernel for {node.op_type}"
    axes = _axes(node)
    if target.axes and axes and axes not in target.axes:
        known = " or ".join(map(str, target.axes))
        return f"{target.name} has integer kernels for {node.op_type} over {known} axes, but the node has {axes}"
    fact = node.operands[0].fact
    rank = len(fact.shape) if isinstance(fact, TensorFact) and fact.shape is not None else 0
    if target.product_axes and not axes and rank > target.product_axes:
        return f"{target.name} supports integer matrix products of rank {target.product_axes} at most, not {rank}"
    return None


def _axes(node: Node) -> int:
    """Return the number of spatial axes of a convolution; 0 for other layers."""
    weight = node.operand(1)
    fact = None if weight is None else weight.fact
    is_slid = ".convolution" in op_defs()[node.op_type].function.__module__
    return max(len(fact.shape) - 2, 0) if is_slid and isinstance(fact, TensorFact) and fact.shape else 0


def _unfit(node: Node) -> str:
    """Return the reason why a supported node is not a layer."""
    weight, bias = node.operand(1), node.operand(2)
    if weight is None or not weight.is_constant:
        return "both of its operands are computed" if weight is not None else "it has no weight"
    shape = weight.storage.shape if weight.storage is not None else ()
    if 0 in shape:
        return "its weight is empty"
    if not is_float32(weight) or weight.storage is None:
        return "its weight is not a float32 constant"
    if node.op_type == "MatMul" and len(shape) != 2:
        return f"its weight has rank {len(shape)}, expected 2"
    if bias is not None and not bias.is_constant:
        return "its bias is computed"
    fact = node.operands[0].fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return "the shape of its input is unknown"
    return "its weight is not a float32 constant"


_MAX_FLOAT16_WEIGHT = 7.0 * 65504


class _Walk:
    """Propagate integers through a graph: forward where they can go, backward from where they are needed."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        candidates: set[Node],
        placement: Placement,
        summed: float,
        *,
        is_whole: bool = False,
    ) -> None:
        self.nodes = list(graph)
        self.is_whole = is_whole
        self.ends_of_graph = (graph.inputs, graph.outputs) if is_whole else ((), ())
        self.target = target
        self.candidates = candidates
        self.placement = placement
        self.summed = summed
        self.carried: dict[Value, Value] = {}
        self.ends: dict[Node, Value] = {}
        self.swallowed: set[Node] = set()

    def run(self) -> None:
        """Compute the placement."""
        tentative = self._forwards()
        wanted = self._backwards(tentative)
        self._add_points(wanted)

    def _forwards(self) -> dict[Node, Value]:
        """Find nodes without weights that could compute on integers, and their results."""
        tentative: dict[Node, Value] = {}
        for value in self.ends_of_graph[0]:
            if is_float32(value):
                self._carry(value)
        for node in self.nodes:
            if node in self.placement.layers:
                if node.op_type not in self.target.leaves_float:
                    self.ends[node] = self._end(node)
                    self._carry(self.ends[node])
            elif node in self.swallowed:
                continue
            elif moves(node):
                self._carry_on(node)
            elif self._computes_on_integers(node):
                tentative[node] = self._end(node)
                self._carry(tentative[node])
        return tentative

    def _carry(self, value: Value) -> None:
        self.carried[value] = value

    def _carry_on(self, node: Node) -> None:
        source = node.operands[0]
        if source in self.carried:
            for value in node.results:
                if is_float32(value):
                    self.carried[value] = self.carried[source]

    def _computes_on_integers(self, node: Node) -> bool:
        if node.dialect or node.op_type not in self.target.pointwise or node not in self.candidates:
            return False
        if self.target.inputs_only or any(
            op == node.op_type and _has(node, names) for op, names in self.target.unknown
        ):
            return False
        if not self.is_whole and all(_is_single(value) for value in node.results):
            return False
        given = data_operands(node)
        moving = [value for value in given if not value.is_constant]
        is_shared = self.target.constants and node.op_type in self.target.shared and not self.is_whole
        if is_shared and (len(moving) < len(given) or any(self._is_fixed(value) for value in moving)):
            return False
        return bool(moving) and all(value in self.carried or self._is_fit(value) for value in given)

    def _is_fit(self, value: Value) -> bool:
        """Whether a float32 constant can be quantized: one element, or no mask if the target supports constants."""
        if not value.is_constant or value.storage is None or not is_float32(value):
            return False
        if value.storage.count == 1:
            return True
        return self.target.constants and value.storage.count > 1 and _leaves_something(value.storage)

    def _is_fixed(self, value: Value) -> bool:
        """Whether the kernel fixes the qparams of its result."""
        maker = self.carried.get(value, value).producer
        return maker is not None and any(op == maker.op for op, *_ in self.target.fixed)

    def _end(self, node: Node) -> Value:
        """Return the result of the kernel of `node` including fused nodes."""
        value = node.output
        while len(value.uses) == 1 and not value.is_output:
            reader = value.users[0]
            is_fused = not reader.dialect and reader.op_type in self.target.fused and reader in self.candidates
            if not is_fused or reader.operands[0] is not value or any(not x.is_constant for x in reader.operands[1:]):
                break
            self.swallowed.add(reader)
            value = reader.output
        return value

    def _backwards(self, tentative: dict[Node, Value]) -> set[Value]:
        """Find the values that are needed as integers."""
        wanted = {value for value in self.ends_of_graph[1] if value in self.carried}
        for node in reversed(self.nodes):
            if node in self.placement.layers:
                wanted.add(node.operands[0])
            elif node in tentative:
                if tentative[node] in wanted:
                    wanted.update(value for value in data_operands(node) if not value.is_constant)
                    self.placement.pointwise[node] = None
                else:
                    self._forget(tentative[node])
            elif moves(node) and any(value in wanted for value in node.results) and node.operands[0] in self.carried:
                wanted.add(node.operands[0])
        placement = self.placement
        placement.pointwise = {node: None for node in self.nodes if node in placement.pointwise}
        return wanted

    def _forget(self, value: Value) -> None:
        for other in [other for other, root in self.carried.items() if root is value]:
            del self.carried[other]

    def _sum(self, wanted: set[Value]) -> None:
        """Let layers without integer consumers return int32 sums, cheapest first, if the target supports it."""
        read = {root for value, root in self.carried.items() if value in wanted}
        able = {
            node: products(layer)
            for node, layer in self.placement.layers.items()
            if node.op_type in self.target.summing and layer.groups == 1 and self.ends.get(node) not in {None, *read}
        }
        left = self.summed * sum(products(layer) for layer in self.placement.layers.values())
        for node in sorted(able, key=able.__getitem__):
            left -= able[node]
            if left < 0:
                break
            self._forget(self.ends[node])
            self.placement.summing[node] = None

    def _add_points(self, wanted: set[Value]) -> None:
        placement = self.placement
        self._sum(wanted)
        for value, root in self.carried.items():
            # A moved value for float consumers need not be rounded.
            if value is root or value in wanted:
                placement.points[value] = root
                placement.carried.add(value)
        for node in [*placement.layers, *placement.pointwise]:
            for value in data_operands(node) if node in placement.pointwise else [node.operands[0]]:
                if not value.is_constant:
                    placement.points.setdefault(value, value)
                    placement.readers.setdefault(value, []).append(node)
                    if self.target.for_all and not value.is_input:
                        placement.carried.add(value)
        self._unite_shared_values()

    def _unite_shared_values(self) -> None:
        for node in self.placement.pointwise:
            if node.op_type in self.target.shared:
                operands = data_operands(node)
                requantized = [value for value in operands if self.is_whole and self._is_requantized(value)]
                end = self._end(node)
                if self.is_whole:
                    self.placement.requantized[node] = requantized
                    self.placement.results[node] = end
                self._unite([*(value for value in operands if value not in requantized), end])

    def _is_requantized(self, value: Value) -> bool:
        """Whether a kernel fixes the qparams of an operand, or other nodes need them, too."""
        if value.is_constant or value not in self.placement.points:
            return False
        if self._is_fixed(value) or value.is_input:
            return True
        while len(value.uses) == 1 and not value.is_output:
            maker = value.producer
            if maker is None or value not in self.carried or self.carried[value] is value:
                return False
            value = maker.operands[0]
        return True

    def _unite(self, values: list[Value]) -> None:
        points = self.placement.points
        roots = list(dict.fromkeys(points[value] for value in values if value in points))
        for value, root in points.items():
            if root in roots:
                points[value] = roots[0]
        shared = self.placement.shared
        for root in roots[1:]:
            shared.setdefault(roots[0], []).extend((root, *shared.pop(root, ())))


def _is_single(value: Value) -> bool:
    """Whether a value is a scalar: its rounding error is large, and float kernels are fast."""
    return isinstance(value.fact, TensorFact) and value.fact.shape == ()


def _leaves_something(storage: Storage) -> bool:
    """Whether a constant addend is finite and not a mask of huge values, which would widen the sum's range."""
    array = storage.numpy()
    return bool(np.all(np.isfinite(array))) and float(np.abs(array).max(initial=0)) < _MASKING


_MASKING = 1e4
"""Magnitude from which an addend masks the other term."""


def _has(node: Node, names: Collection[str]) -> bool:
    """Whether all attributes in `names` are present and differ from 0, () and tuples of ones."""
    return all(
        node.attributes.get(name, 0) not in (0, (), (1,) * _tuple_length(node.attributes.get(name))) for name in names
    )


def _tuple_length(x: object) -> int:
    return len(x) if isinstance(x, tuple) else 0  # pyright: ignore[reportUnknownArgumentType]


def products(layer: Layer) -> int:
    """Return the number of products of a layer; open axes count as 1."""
    fact = layer.node.output.fact
    shape = fact.shape if isinstance(fact, TensorFact) and fact.shape is not None else ()
    return layer.depth * prod(dim for dim in shape if isinstance(dim, int))


def is_float32(value: Value) -> bool:
    """Whether a value is a float32 tensor."""
    return value.dtype is DType.FLOAT32


def moves(node: Node) -> bool:
    """Whether the results are moved elements of the first operand, possibly with zeros."""
    op_def = None if node.dialect else op_defs().get(node.op_type)
    if op_def is None or op_def.role != "passive" or not node.operands:
        return False
    is_so = op_def.moves_data or (
        bool(op_def.moves_where) and all(node.attributes.get(name, x) == x for name, x in op_def.moves_where)
    )
    if not is_so:
        return False
    data = [value for value in data_operands(node) if is_float32(value)]
    return len(data) == 1 and data[0] is node.operands[0]


def data_operands(node: Node) -> list[Value]:
    """Return the operands that are neither shapes nor indices."""
    op_def = op_defs()[node.op_type]
    found: list[Value] = []
    for index, value in enumerate(node.inputs):
        operand = op_def.signature.operand(index)
        if value is not None and (operand is None or operand.name not in op_def.index_operands):
            found.append(value)
    return found
