"""Classify the constants of a model as trainable parameters or buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.pytorch.rules.binding import KEYS
from graphport.ir.graph import Node, walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

KIND = "pt2.kind"
"""Note of a constant: its kind as declared by the program (parameter, buffer or constant)."""
PARAMETER, BUFFER = "parameter", "buffer"
INITIALIZER = "pt2.initializer"
"""Note of a constant of the model, in contrast to constants that export rules create."""
_STATISTICS = frozenset(("running_mean", "running_var"))
_WEIGHTS = frozenset(("weight", "bias"))
_WEIGHTED = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu", "prelu"))
_LINEAR = frozenset(("add", "addmm", "baddbmm", "bmm", "div", "einsum", "index", "matmul", "mm", "mul", "sub"))
"""Operators whose constant operands are usually parameters: weights, scales, biases, embedding tables."""
_MOVING = frozenset(
    (
        *("cat", "clone", "expand", "permute", "reshape", "select", "slice", "split_with_sizes", "squeeze"),
        *("stack", "t", "transpose", "unsqueeze", "view"),
    )
)
"""Operators that move the elements of a weight."""


def mark_initializers(graph: Graph) -> None:
    """Mark each constant as part of the model."""
    for inner in walk(graph):
        for value in inner.constants:
            value.notes[INITIALIZER] = True


def parameter_kind(value: Value) -> str:
    """Return `PARAMETER` or `BUFFER`.

    A declaration by the program has priority. Without one, float tensors of rank 1 or more that are operands of linear
    operators or normalizations, transposed or not, are parameters; running statistics, integers, scalars and constants
    of export rules are buffers.
    """
    declared = value.note(KIND)
    if isinstance(declared, str):
        return PARAMETER if declared == PARAMETER else BUFFER
    if value.dtype is None or not value.dtype.is_floating or value.dtype.bits < 16 or not value.shape:
        return BUFFER
    if value.note(INITIALIZER) is None:
        return BUFFER
    uses = [(use.user, use.index) for use in value.uses if isinstance(use.user, Node)]
    return PARAMETER if uses and all(_is_learned(node, index) for node, index in uses) else BUFFER


def _is_learned(node: Node, index: int) -> bool:
    """Whether a weight is read by a linear operator or a normalization, directly or after its elements were moved."""
    keys = node.attributes.get(KEYS)
    key = str(keys[index]).rstrip("*") if isinstance(keys, tuple) and index < len(keys) else ""
    if key in _STATISTICS:
        return False
    if node.has_bodies:
        return True
    name = node.op_type.split(".")[1] if node.op_type.startswith("aten.") else ""
    if name in _MOVING:
        uses = [(use.user, use.index) for value in node.results for use in value.uses if isinstance(use.user, Node)]
        return bool(uses) and all(_is_learned(user, place) for user, place in uses)
    return key in _WEIGHTS or name in _WEIGHTED or name in _LINEAR
