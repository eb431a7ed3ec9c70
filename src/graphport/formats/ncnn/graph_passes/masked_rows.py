"""Remove PyTorch's guard of softmax, which replaces the NaN of rows without an unmasked element by 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

MAX_VALUES = 64
"""Values that scores are followed back through."""


def drop_guards(graph: Graph) -> int:
    """Remove the replacement of NaN by 0 after a softmax of scores without a mask; return the number of removals.

    Before  s = Softmax(MatMul(q, k));  y = Where(IsNaN(s), 0, s)
    After   y = Softmax(MatMul(q, k))

    Does not apply if an input or a non-finite constant may mask scores. Values are equal if the products are finite.
    """
    count = 0
    for node in list(graph):
        softmax = _guarded_softmax(node)
        if softmax is None or not are_finite(softmax.operands[0]):
            continue
        test = node.operands[0].producer
        node.output.replace_uses(softmax.output)
        graph.remove(node)
        if test is not None and not test.output.uses:
            graph.remove(test)
        count += 1
    return count


def _guarded_softmax(node: Node) -> Node | None:
    """Return the softmax whose NaN `node` replaces by 0; `None` if `node` is no such Where."""
    if node.op != "Where" or node.dialect or node.output.is_output or len(node.operands) != 3:
        return None
    condition, zero, result = node.operands
    test, softmax = condition.producer, result.producer
    if test is None or test.op != "IsNaN" or test.operands[0] is not result:
        return None
    is_zero = (
        zero.is_constant and zero.storage is not None and zero.storage.count == 1 and not zero.storage.numpy().any()
    )
    return softmax if is_zero and softmax is not None and softmax.op == "Softmax" else None


def are_finite(scores: Value, *, may_be_masked: bool = False) -> bool:
    """Whether scores are matrix products, moved, added or multiplied only, with finite constants.

    Args:
        scores: operand of a softmax.
        may_be_masked: accept constants with -inf that are added or selected, and graph inputs.
    """
    waiting, seen = [(scores, may_be_masked)], {scores}
    while waiting:
        value, is_masked = waiting.pop()
        if value.is_constant:
            if not _is_bounded(value, is_masked=is_masked):
                return False
            continue
        if value.is_input and may_be_masked:
            continue
        node = value.producer
        op_def = None if node is None or node.dialect else registry.op_defs().get(node.op)
        if node is None or op_def is None or len(seen) > MAX_VALUES:
            return False
        if op_def.role == "weighted":
            continue
        is_choice = node.op == "Where" and may_be_masked
        if not (op_def.moves_data or is_choice or node.op in ("Add", "Sub", "Mul")):
            return False
        # A difference or a product of -inf may be +inf or NaN.
        is_masked &= node.op not in ("Sub", "Mul")
        new = [operand for operand in node.operands[is_choice:] if operand not in seen]
        seen.update(new)
        waiting += [(operand, is_masked) for operand in new]
    return True


def _is_bounded(value: Value, *, is_masked: bool) -> bool:
    """Whether a constant has only finite elements, or with `is_masked` elements below +inf."""
    if value.storage is None:
        return False
    elements = value.storage.numpy()
    return bool(np.all(elements < np.inf if is_masked else np.isfinite(elements)))
