"""What rules ask about the nodes around one, and how one operator takes the place of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.formats.onnx.notes import MODEL, ModelNotes, noted
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.passes.substitution import graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Node, Value

NEWEST = 20
"""Opset up to which operators are put together even if the source is older: most runtimes read it."""


def filling(made: Node) -> NDArray[Any]:
    """What a ConstantOfShape has everywhere, as its only entry."""
    value = made.attributes.get("value")
    return value.numpy() if isinstance(value, Storage) else np.zeros(1, np.float32)


def is_available(node: Node, word: str) -> bool:
    """Whether the operator is old enough for the model: of an opset that most runtimes read, or that it speaks."""
    return registry.pages()[word].since <= max(NEWEST, opset_of(node))


def opset_of(node: Node) -> int:
    """The opset of the file that the model was read from; 0 for other formats."""
    notes = noted(graph_of(node).root, ModelNotes, MODEL)
    return 0 if notes is None else notes.opset or 0


def put(last: Node, word: str, operands: Sequence[Value | None], attributes: dict[str, Attribute]) -> str:
    """Let an operator compute what `last` does, in its place; the parts are left for others to remove."""
    builder = Builder(Inference(), graph_of(last), last, origin=last.origin, stem=last.output.name)
    made = builder(registry.pages()[word], *operands, **attributes)
    if made.producer is not None:
        made.producer.name = last.name
    take_over(last.output, made)
    graph_of(last).remove(last)
    return f"is a {word}"


def shape_of(value: Value | None) -> tuple[Dim, ...] | None:
    """The extents of a tensor; `None` where its rank is not known."""
    return value.fact.shape if value is not None and isinstance(value.fact, TensorFact) else None


def dims_of(value: Value | None) -> tuple[Dim, ...]:
    """The extents of a tensor; none where its rank is not known."""
    return shape_of(value) or ()


def same_dims(one: Sequence[Dim], two: Sequence[Dim]) -> bool:
    """Whether two shapes are proven to be one."""
    return len(one) == len(two) and all(decide_equal(a, b) is True for a, b in zip(one, two, strict=True))
