"""What PyTorch's exporter guards softmaxes with, for rows of which every entry is masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_MOST = 64
"""Values that scores are followed back through."""


def drop_guards(graph: Graph) -> int:
    """Take out what turns NaN into 0 behind a softmax of scores that nothing masks; return how many.

    Before  s = Softmax(MatMul(q, k));  y = Where(IsNaN(s), 0, s)
    After   y = Softmax(MatMul(q, k))

    ncnn does not compare, and has no other word for it. Leaves alone: scores in which a mask, an input or a constant
    that is not finite can be. Keeps values as long as the products are finite.
    """
    count = 0
    for node in list(graph):
        shares = _guarded(node)
        if shares is None or shares.producer is None or not _are_finite(shares.producer.operands[0]):
            continue
        test = node.operands[0].producer
        node.output.replace_uses(shares)
        graph.remove(node)
        if test is not None and not test.output.uses:
            graph.remove(test)
        count += 1
    return count


def _guarded(node: Node) -> Value | None:
    """The shares of a softmax that are 0 behind `node` where they are NaN."""
    if node.word != "Where" or node.dialect or node.output.is_output:
        return None
    condition, zero, shares = node.operands
    test, softmax = condition.producer, shares.producer
    if test is None or test.op != "IsNaN" or test.operands[0] is not shares:
        return None
    is_zero = (
        zero.is_constant and zero.storage is not None and zero.storage.count == 1 and not zero.storage.numpy().any()
    )
    return shares if is_zero and softmax is not None and softmax.op == "Softmax" else None


def _are_finite(scores: Value) -> bool:
    """Whether scores are made of products by factors, terms and moves that leave finite numbers finite."""
    waiting, seen = [scores], {scores}
    while waiting:
        value = waiting.pop()
        if value.is_constant:
            if value.storage is None or not bool(np.all(np.isfinite(value.storage.numpy()))):
                return False
            continue
        node = value.producer
        page = None if node is None or node.dialect else registry.pages().get(node.word)
        if node is None or page is None or len(seen) > _MOST:
            return False
        if page.role == "weighted":
            continue
        if not (page.moves_data or node.word in ("Add", "Sub", "Mul")):
            return False
        new = [operand for operand in node.operands if operand not in seen]
        seen.update(new)
        waiting += new
    return True
