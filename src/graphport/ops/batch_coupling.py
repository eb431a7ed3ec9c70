"""Detection of operators that combine samples of a batch, by comparing graphs of two batch sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value
    from graphport.ops.declare import OpDef


_MOST_AXES = 64


def first_batch_coupling(graph: Graph, other: Graph) -> Node | None:
    """Return the first node of `graph` that combines several samples; `other` is the graph with another batch size.

    The batch axis is the only axis whose size differs. An operator combines samples if an attribute names that axis, if
    it slides windows or steps along it, or if the size of its result does not depend on the batch size.
    """
    for node, twin in zip(graph, other, strict=True):
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        if op_def is None:
            continue
        count = len(node.inputs) if op_def.signature.variadic is not None else 1
        positions = {_batch_axis(one, two) for one, two in zip(node.inputs[:count], twin.inputs[:count], strict=True)}
        positions.discard(None)
        result, after = node.outputs[0], _batch_axis(node.outputs[0], twin.outputs[0])
        if positions and _has_fixed_shape(result, twin.outputs[0]):
            return node
        if any(place is not None and _meets(node, op_def, place, after) for place in positions):
            return node
    return None


def _batch_axis(value: Value | None, other: Value | None) -> int | None:
    """Return the batch axis; `None` if there is none or more than one."""
    dims, others = _dims(value), _dims(other)
    if dims is None or others is None or len(dims) != len(others):
        return None
    found = [axis for axis, (one, two) in enumerate(zip(dims, others, strict=True)) if one != two]
    return found[0] if len(found) == 1 else None


def _has_fixed_shape(value: Value | None, other: Value | None) -> bool:
    """Whether the shape of a result does not depend on the batch size."""
    fact = value.fact if value is not None else None
    return isinstance(fact, TensorFact) and fact.elements is None and _dims(value) == _dims(other) is not None


def _dims(value: Value | None) -> tuple[object, ...] | None:
    return value.fact.shape if value is not None and isinstance(value.fact, TensorFact) else None


def _meets(node: Node, op_def: OpDef, place: int, after: int | None) -> bool:
    names = [operand.name for operand in op_def.signature.operands]
    if "sequence_lens" in names:
        return place != (0 if node.attributes.get("layout", 0) else 1)
    if "kernel_shape" in op_def.signature.keywords:
        return place != 0
    if after != place:
        return False
    rank = len(_dims(node.outputs[0]) or ())
    chosen = {axis % rank for axis in _attribute_axes(node, op_def, names) if -rank <= axis < rank}
    return place in chosen and not _is_full_slice(node, names)


def _attribute_axes(node: Node, op_def: OpDef, names: list[str]) -> list[int]:
    """Return the axes that attributes of a node name."""
    found: list[int] = []
    for key in ("axis", "axes"):
        keyword = op_def.signature.keywords.get(key)
        value = node.attributes.get(key, None if keyword is None else keyword.default)
        found += [each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, int)]
        operand = node.operand(names.index(key)) if key in names else None
        if operand is not None and operand.storage is not None and operand.storage.count <= _MOST_AXES:
            found += operand.storage.numpy().reshape(-1).astype(int).tolist()
    return found


def _is_full_slice(node: Node, names: list[str]) -> bool:
    """Whether a slice selects all elements in order."""
    if "steps" not in names:
        return False
    steps = node.operand(names.index("steps"))
    forward = steps is None or (steps.storage is not None and bool((steps.storage.numpy() == 1).all()))
    return forward and _dims(node.inputs[0]) == _dims(node.outputs[0])
