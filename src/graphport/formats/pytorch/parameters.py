"""Which constants of a model are trainable parameters, and which are buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.pytorch.rules.binding import KEYS
from graphport.ir.graph import Node, walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

KIND = "pt2.kind"
"""The note of a constant that a program declares as a parameter, a buffer or a constant."""
PARAMETER, BUFFER = "parameter", "buffer"
INITIALIZER = "pt2.initializer"
"""The note of a constant of the model, as opposed to constants that export rules create."""
_STATISTICS = frozenset(("running_mean", "running_var"))
_WEIGHTS = frozenset(("weight", "bias"))
_WEIGHTED = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu", "prelu"))
_LINEAR = frozenset(("add", "addmm", "baddbmm", "bmm", "div", "einsum", "index", "matmul", "mm", "mul", "sub"))
"""Operators whose operands are often learned: weights of MatMul, scales, biases, embedding tables."""


def mark_initializers(graph: Graph) -> None:
    """Note on each constant that it belongs to the model."""
    for inner in walk(graph):
        for value in inner.constants:
            value.notes[INITIALIZER] = True


def kind_of(value: Value) -> str:
    """`PARAMETER` or `BUFFER`.

    A program's own declaration counts. Of other models, floating-point tensors with axes that a linear operator or a
    normalization reads are parameters; running statistics, integers, scalars and constants of export rules are buffers.
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
    keys = node.attributes.get(KEYS)
    key = str(keys[index]).rstrip("*") if isinstance(keys, tuple) and index < len(keys) else ""
    if key in _STATISTICS:
        return False
    if node.has_bodies:
        return True
    name = node.word.split(".")[1] if node.word.startswith("aten.") else ""
    return key in _WEIGHTS or name in _WEIGHTED or name in _LINEAR
