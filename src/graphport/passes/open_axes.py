"""Change the lengths of input axes, and update constants that depend on the old lengths."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ops.infer import Inference
from graphport.passes.repeated_items import repeat_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value

_TARGETS = ("Reshape",)


def set_input_shapes(graph: Graph, shapes: Mapping[Value, Sequence[Dim]]) -> list[Diagnostic]:
    """Set new shapes of inputs and infer all others again; contradictions are reported as diagnostics.

    Before  y = Reshape(x, [1, 256])   of x [1, 256, 1, 1]
    After   y = Reshape(x, [0, 256])   of x [N, 256, 1, 1]

    A target that contains the old length of an axis is updated. Does not change targets that are computed at run time
    or in which the axis is ambiguous: their diagnostics remain.
    """
    repeat_items(graph, shapes)
    before = {value: value.fact for value in graph.values()}
    changes: dict[int, Dim] = {}
    for value, shape in shapes.items():
        if isinstance(value.fact, TensorFact):
            pairs = zip(value.fact.shape or (), shape, strict=False)
            changes.update((was, dim) for was, dim in pairs if isinstance(was, int) and was and was != dim)
            value.fact = value.fact.with_shape(shape)
    inference = Inference()
    inference.meet(graph)
    for node in graph:
        if node.op in _TARGETS:
            _retarget(graph, node, before, changes)
        elif node.op == "Expand":
            _lengthen(graph, node, changes)
        elif node.op == "Resize":
            _keep_lengths(graph, node, before)
        inference.settle(node)
    inference.conclude(graph)
    return list(inference.findings)


def _retarget(graph: Graph, node: Node, before: Mapping[Value, object], changes: Mapping[int, Dim]) -> None:
    x, target = node.operand(0), node.operand(1)
    if x is None or target is None or target.storage is None:
        return
    old, new, made = before.get(x), x.fact, before.get(node.output)
    if not isinstance(old, TensorFact) or not isinstance(new, TensorFact) or not isinstance(made, TensorFact):
        return
    if old.shape is None or new.shape is None or made.shape is None or len(old.shape) != len(new.shape):
        return
    numbers = [int(number) for number in target.storage.numpy().reshape(-1)]
    updated = list(numbers)
    for axis, (before_length, length) in enumerate(zip(old.shape, new.shape, strict=True)):
        if before_length == length or not isinstance(before_length, int):
            continue
        # An axis may be the product of one with a changed length and others after it.
        parts = [
            was for was, dim in changes.items() if not before_length % was and before_length // was * dim == length
        ]
        if parts:
            step = _Step(axis, parts[0], changes[parts[0]], copies=not node.attributes.get("allowzero"))
            _update_target(updated, (old.shape, made.shape), step)
    if updated != numbers:
        storage = storage_of(updated, target.storage.dtype)
        node.set_input(1, graph.add_constant(target.name, TensorFact.of(storage), storage, origin=target.origin))


def _lengthen(graph: Graph, node: Node, changes: Mapping[int, Dim]) -> None:
    """Replace the first element of an Expand's target shape by the new length if it is an old length."""
    target = node.operand(1)
    if target is None or target.storage is None:
        return
    numbers = [int(number) for number in target.storage.numpy().reshape(-1)]
    length = changes.get(numbers[0]) if len(numbers) > 1 else None
    if isinstance(length, int):
        storage = storage_of([length, *numbers[1:]], target.storage.dtype)
        node.set_input(1, graph.add_constant(graph.fresh(target.name), TensorFact.of(storage), storage))


def _keep_lengths(graph: Graph, node: Node, before: Mapping[Value, object]) -> None:
    """Restrict a Resize to the axes whose lengths change."""
    x, sizes = node.operand(0), node.operand(3)
    old = None if x is None else before.get(x)
    if sizes is None or sizes.storage is None or not isinstance(old, TensorFact) or old.shape is None:
        return
    stated, count = cast("tuple[int, ...] | None", node.attributes.get("axes")), len(old.shape)
    axes = [*range(count)] if stated is None else [axis % count for axis in stated]
    known = {axis: int(n) for axis, n in zip(axes, sizes.storage.numpy().tolist(), strict=True)}
    changed = {axis: n for axis, n in known.items() if n != old.shape[axis]}
    if not changed or len(changed) == len(known):
        return
    storage = storage_of([*changed.values()], sizes.storage.dtype)
    node.set_input(3, graph.add_constant(graph.fresh(sizes.name), TensorFact.of(storage), storage))
    node.set_attribute("axes", tuple(changed))


class _Step(NamedTuple):
    """An axis of an operand whose length changed from `was` to `now`, and whether a 0 in the target copies an axis."""

    axis: int
    was: int
    now: Dim
    copies: bool


def _update_target(target: list[int], shapes: tuple[Sequence[Dim], Sequence[Dim]], step: _Step) -> None:
    """Update in a Reshape target the element that contains the old length of an axis."""
    old, made = shapes
    lengths = [each for each in made if isinstance(each, int)]
    if len(lengths) != len(target) or any(isinstance(each, Symbolic) for each in old[: step.axis]):
        return
    front = prod(each for each in old[: step.axis] if isinstance(each, int))
    indices = [k for k in range(len(target)) if prod(lengths[:k]) == front and lengths[k] % step.was == 0]
    if not indices:
        return
    place = step.axis if step.axis in indices else indices[0]
    if target[place] == -1 or (step.copies and target[place] == 0 and place == step.axis):
        return
    if isinstance(step.now, int):
        target[place] = lengths[place] // step.was * step.now
    elif step.copies and place == step.axis and lengths[place] == old[place]:
        target[place] = 0
    else:
        if -1 in target:
            other = target.index(-1)
            target[other] = lengths[other]
        target[place] = -1
