"""Export of `If` to dialects without branches: compute both branches and select element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir.graph import walk
from graphport.ir.transplant import transplant
from graphport.ops import registry
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.reshape import Identity, Reshape

if TYPE_CHECKING:
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Node, Value
    from graphport.ops.builder import Builder

_HELP = "write both branches as models of their own, or the one that is taken"


def export_if(b: Builder, cond: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    """Return the branch taken if the condition is constant, else a `Where` of the results of both branches.

    Raises:
        UnsupportedError: a branch can fail when it is not taken, or the branches have results of different shapes.
    """
    if b.before is None:
        message = "nested branches are not supported"
        raise UnsupportedError(message, help=_HELP)
    storage = folded(cond)
    if storage is not None and storage.count == 1:
        body = then_branch if bool(storage.numpy().reshape(-1)[0]) else else_branch
        moved = transplant(body, b.before, {})
        return tuple(b(Identity, moved.get(value, value)) for value in body.outputs)
    for body in (then_branch, else_branch):
        odd = next((node for inner in walk(body) for node in inner if not _is_total(node)), None)
        if odd is not None:
            message = f"both branches would be computed, and {odd.op} can fail in the branch that is not selected"
            raise UnsupportedError(message, help=_HELP)
    for one, other in zip(then_branch.outputs, else_branch.outputs, strict=True):
        if not _are_alike(one.fact, other.fact):
            message = f"the branches return different types: {one.fact} and {other.fact}"
            raise UnsupportedError(message, help=_HELP)
    found = [transplant(body, b.before, {}) for body in (then_branch, else_branch)]
    scalar = cond if b.dims(cond) == () else b(Reshape, cond, [])
    pairs = zip(then_branch.outputs, else_branch.outputs, strict=True)
    return tuple(b(Where, scalar, found[0].get(one, one), found[1].get(other, other)) for one, other in pairs)


def _are_alike(one: Fact, other: Fact) -> bool:
    if not isinstance(one, TensorFact) or not isinstance(other, TensorFact) or None in (one.shape, one.dtype):
        return False
    return one.shape == other.shape and one.dtype is other.dtype


def _is_total(node: Node) -> bool:
    """Whether a node cannot fail, whatever the elements of its operands are."""
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is None or op_def.is_random or node.has_bodies:
        return op_def is If
    names = [operand.name for operand in op_def.signature.operands]
    if any(not _has_known_elements(node.operand(names.index(name))) for name in op_def.index_operands):
        return False
    kinds = {dtype.kind for each in node.results if (dtype := each.dtype) is not None}
    # Integer division by zero and shifts beyond the width can fail.
    is_real = bool(kinds) and kinds <= {"f", "b"} and op_def.role in ("weighted", "pointwise", "passive")
    return op_def.moves_data or kinds == {"b"} or is_real


def _has_known_elements(value: Value | None) -> bool:
    if value is None or value.storage is not None:
        return True
    return isinstance(value.fact, TensorFact) and value.fact.elements is not None
