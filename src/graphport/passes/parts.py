"""Queries about neighbouring nodes, and replacement of several nodes by one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.formats.onnx.container.notes import MODEL, ModelNotes, noted
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.passes.substitution import graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Node, Value

MAX_CREATED_OPSET = 20
"""Newest opset whose operators are created for older sources: most runtimes support it."""


def fill_value(made: Node) -> NDArray[Any]:
    """Return the fill value of a ConstantOfShape, a tensor of one element."""
    value = made.attributes.get("value")
    return value.numpy() if isinstance(value, Storage) else np.zeros(1, np.float32)


def is_available(node: Node, op_type: str) -> bool:
    """Whether `op_type` exists in the source file's opset or in `MAX_CREATED_OPSET`."""
    return registry.op_defs()[op_type].since <= max(MAX_CREATED_OPSET, opset_of(node))


def opset_of(node: Node) -> int:
    """Return the opset of the source file, or 0 for other formats."""
    notes = noted(graph_of(node).root, ModelNotes, MODEL)
    return 0 if notes is None else notes.opset or 0


def insert_operator(
    last: Node, op_type: str, operands: Sequence[Value | None], attributes: dict[str, Attribute]
) -> str:
    """Insert an operator that computes the result of `last`, and redirect its consumers; dead nodes remain."""
    builder = Builder(Inference(), graph_of(last), last, origin=last.origin, stem=last.output.name)
    made = builder(registry.op_defs()[op_type], *operands, **attributes)
    if made.producer is not None:
        made.producer.name = last.name
    take_over(last.output, made)
    graph_of(last).remove(last)
    return f"is a {op_type}"


def shape_of(value: Value | None) -> tuple[Dim, ...] | None:
    """Return the dims of a tensor, or None if the rank is unknown."""
    return value.fact.shape if value is not None and isinstance(value.fact, TensorFact) else None


def dims_of(value: Value | None) -> tuple[Dim, ...]:
    """Return the dims of a tensor, or an empty tuple if the rank is unknown."""
    return shape_of(value) or ()


def same_dims(one: Sequence[Dim], two: Sequence[Dim]) -> bool:
    """Whether two shapes are provably equal."""
    return len(one) == len(two) and all(decide_equal(a, b) is True for a, b in zip(one, two, strict=True))
