"""Remove operators that return their operand unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ops.builder import Builder
from graphport.ops.definitions.generate import ConstantOfShape
from graphport.ops.definitions.reshape import Shape
from graphport.ops.infer import Inference
from graphport.ops.products import constant_elements
from graphport.passes.counting import takes_all, writes_all
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.parts import shape_of
from graphport.passes.substitution import bypass, graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Graph, Node, Value


def remove_noops(graph: Graph, journal: Journal) -> None:
    """Remove identities: Identity, Dropout in inference, Cast to the same type, and moves without effect.

    Before  h = Identity(x);  y = Relu(h)
    After   y = Relu(x)

    Also Reshape, Flatten, Expand, Squeeze, Unsqueeze and Tile to the present shape, identity Transpose, Pad by 0, Slice
    and Gather of everything, Concat, Sum, Max, Min and Mean of one operand, Split into one part; a scatter over
    everything becomes its updates. Does not apply without proof by facts, in training, or to an Identity that separates
    two public names (input and output, or two outputs). Preserves values bit for bit.
    """
    apply(graph, journal, _remove, _RULES.keys())


def _remove(node: Node) -> str | None:
    if not node.results or node.outputs[0] is None:
        return None
    if not _RULES[node.op](node):
        return None
    operand = node.operand(_PASSED_OPERAND.get(node.op, 0))
    if operand is None:
        return None
    if not bypass(node, operand):
        raise NotApplicable("it separates two public names")
    return f"removed: its result equals {operand.name}"


def _dtype(value: Value | None) -> DType | None:
    return value.fact.dtype if value is not None and isinstance(value.fact, TensorFact) else None


def _always(node: Node) -> bool:
    del node
    return True


def _keeps_shape(node: Node) -> bool:
    shape = shape_of(node.operand(0))
    return shape is not None and shape == shape_of(node.output)


def _keeps_order(node: Node) -> bool:
    perm = node.attributes.get("perm")
    if perm is None:
        shape = shape_of(node.operand(0))
        return shape is not None and len(shape) <= 1
    return isinstance(perm, tuple) and perm == tuple(range(len(perm)))


def _keeps_type(node: Node) -> bool:
    dtype = _dtype(node.operand(0))
    return dtype is not None and dtype is _dtype(node.output)


def _pads_nothing(node: Node) -> bool:
    pads = constant_elements(node.operand(1))
    return pads is not None and not pads.any()


def _takes_everything(node: Node) -> bool:
    """Whether slices start at the begin of each axis, end at its end and have step 1."""
    starts, ends = constant_elements(node.operand(1)), constant_elements(node.operand(2))
    steps = np.ones(1) if node.operand(4) is None else constant_elements(node.operand(4))
    shape = shape_of(node.operand(0))
    if starts is None or ends is None or steps is None or shape is None or starts.any() or (steps != 1).any():
        return False
    axes = np.arange(starts.size) if node.operand(3) is None else constant_elements(node.operand(3))
    return axes is not None and all(
        end >= _MIN_OPEN_END or (isinstance(length := shape[axis], int) and end >= length)
        for axis, end in zip(axes.tolist(), ends.tolist(), strict=True)
    )


_MIN_OPEN_END = (1 << 31) - 1
"""Slice ends from this number on mean the end of the axis; exporters write them."""


def _has_one_operand(node: Node) -> bool:
    return len(node.inputs) == 1


def _has_one_part(node: Node) -> bool:
    return len(node.outputs) == 1 and _keeps_shape(node)


def _is_not_training(node: Node) -> bool:
    """Whether a Dropout does not train; a mask with consumers becomes a tensor of true."""
    if node.operand(2) is not None:
        trains, ratio = constant_elements(node.operand(2)), constant_elements(node.operand(1))
        if trains is None:
            raise NotApplicable("training_mode is computed")
        if trains.any() and (node.operand(1) is None or ratio is None or ratio.any()):
            raise NotApplicable("it is in training mode")
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        _fill_mask(node, node.outputs[1])
    return True


def _fill_mask(node: Node, mask: Value) -> None:
    if mask.uses:
        builder = Builder(Inference(), graph_of(node), node, origin=node.origin, stem=mask.name)
        shape = builder(Shape, node.operand(0))
        take_over(mask, builder(ConstantOfShape, shape, value=storage_of([True], DType.BOOL)))
    node.drop_output(1)


_RULES: dict[str, Callable[[Node], bool]] = {
    "Identity": _always,
    "Dropout": _is_not_training,
    "Cast": _keeps_type,
    "CastLike": _keeps_type,
    "Reshape": _keeps_shape,
    "Flatten": _keeps_shape,
    "Expand": _keeps_shape,
    "Squeeze": _keeps_shape,
    "Unsqueeze": _keeps_shape,
    "Tile": _keeps_shape,
    "Transpose": _keeps_order,
    "Pad": _pads_nothing,
    "Slice": _takes_everything,
    "Concat": _has_one_operand,
    "Sum": _has_one_operand,
    "Max": _has_one_operand,
    "Min": _has_one_operand,
    "Mean": _has_one_operand,
    "Split": _has_one_part,
    "Gather": takes_all,
    "GatherND": takes_all,
    "GatherElements": takes_all,
    "ScatterND": writes_all,
    "ScatterElements": writes_all,
}

_PASSED_OPERAND = {"ScatterND": 2, "ScatterElements": 2}
"""Index of the operand that is returned, if it is not the first."""
