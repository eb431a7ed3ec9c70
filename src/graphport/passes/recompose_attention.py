"""Recompose scaled dot-product attention."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isclose
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ir.graph import Node
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.ops.products import constant_elements, pairs, producer, scalar_element, sole_consumer
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.parts import dims_of, insert_operator, is_available
from graphport.passes.substitution import graph_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Graph, Value

_SPLIT_HEADS = (0, 2, 1, 3)
"""Permutation from [batch, length, heads, size] to [batch, heads, length, size], its own inverse."""


def recompose_attention(graph: Graph, journal: Journal) -> None:
    """Recompose Attention from two matrix products and a softmax.

    Before  y = MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)
    After   y = Attention(q, k, v, mask, scale=scale)

    The scale may be a product or quotient of queries, keys or scores. A Reshape and a Transpose that split heads are
    included, and so is the replacement of NaN by 0 after the softmax: Attention returns 0 for a query without keys.
    Operands of rank 3 have one head. Does not apply to opsets without the operator, if an inner value has another
    consumer, or to masks without a row per query of unknown count, which ONNX Runtime refuses. Preserves values up to
    rounding; a query whose keys are all masked by -inf yields 0 instead of NaN.
    """
    apply(graph, journal, _attention, {"Softmax"})


@dataclass(frozen=True, slots=True)
class _Scores:
    """`query @ keys * scale + mask`; keys are columns."""

    query: Value
    keys: Value
    mask: Value | None
    scale: float


def _attention(node: Node) -> str | None:
    last = _weighted_sum(node)
    scores = None if last is None else _scores(node)
    if last is None or scores is None or not is_available(node, "Attention") or not _is_by_head(node, scores, last):
        return None
    builder = Builder(Inference(), graph_of(node), last, origin=last.origin, stem=last.output.name)
    mask = _row_for_each_query(builder, scores, node)
    keys, values = _keys_as_rows(builder, scores.keys), last.operands[1]
    attributes: dict[str, Attribute] = {}
    size = dims_of(scores.query)[-1]
    if not isinstance(size, int) or not isclose(scores.scale, size**-0.5, rel_tol=1e-6):
        attributes["scale"] = scores.scale
    operands = [scores.query, keys, values]
    if len(dims_of(node.output)) == 3:
        return insert_operator(
            last, "Attention", [*operands, mask], {**attributes, "q_num_heads": 1, "kv_num_heads": 1}
        )
    joined, end = [_unsplit_heads(each) for each in operands], _find_concat_of_heads(last)
    heads = dims_of(node.output)[1]
    if end is None or None in joined or not isinstance(heads, int):
        return insert_operator(last, "Attention", [*operands, mask], attributes)
    return insert_operator(
        end, "Attention", [*joined, mask], {**attributes, "q_num_heads": heads, "kv_num_heads": heads}
    )


# Around the softmax


def _weighted_sum(softmax: Node) -> Node | None:
    """Match the product of the softmax, which has no other consumer, with the values."""
    rank = len(dims_of(softmax.output))
    if rank not in (3, 4) or softmax.attributes.get("axis", -1) not in (-1, rank - 1):
        return None
    shares = _without_nan(softmax.output)
    product = sole_consumer(shares)
    if product is None or product.op != "MatMul" or product.operand(0) is not shares:
        return None
    return product


def _without_nan(shares: Value) -> Value:
    """Return the result of a Where that replaces NaN, or rows of -inf scores, by 0; else the softmax itself."""
    readers = [use.user for use in shares.uses]
    choices = [node for node in readers if isinstance(node, Node) and node.op == "Where"]
    test = next((node for node in readers if isinstance(node, Node) and node.op == "IsNaN"), None)
    if len(choices) != 1 or choices[0].operand(2) is not shares or scalar_element(choices[0].operand(1)) != 0:
        return shares
    condition, softmax = choices[0].operand(0), shares.producer
    if test is not None:
        is_asked = condition is test.output and len(readers) == 2
    else:
        hidden = _match_masked_rows(condition)
        is_asked = len(readers) == 1 and hidden is not None and softmax is not None and hidden is softmax.operand(0)
    return choices[0].output if is_asked else shares


def _match_masked_rows(condition: Value | None) -> Value | None:
    """Match a condition that is true where all scores of a row are -inf; return the scores."""
    test = producer(condition, "Equal")
    if test is not None:
        largest = producer(_compared_with_minus_inf(test), "ReduceMax")
        return largest.operand(0) if largest is not None and _is_by_row(largest) else None
    none = producer(condition, "Not")
    some = None if none is None else producer(_uncast(none.operand(0)), "ReduceMax")
    seen = None if some is None or not _is_by_row(some) else producer(_uncast(some.operand(0)), "Not")
    test = None if seen is None else producer(seen.operand(0), "Equal")
    return None if test is None else _compared_with_minus_inf(test)


def _compared_with_minus_inf(test: Node) -> Value | None:
    """Return the operand that an Equal compares with -inf."""
    one, two = test.operands
    return one if scalar_element(two) == -inf else two if scalar_element(one) == -inf else None


def _is_by_row(reduced: Node) -> bool:
    axes, rank = constant_elements(reduced.operand(1)), len(dims_of(reduced.operand(0)))
    is_last = axes is not None and axes.tolist() in ([-1], [rank - 1])
    return is_last and rank > 0 and reduced.attributes.get("keepdims", 1) == 1


def _uncast(value: Value | None) -> Value | None:
    cast = producer(value, "Cast")
    return value if cast is None else cast.operand(0)


def _scores(softmax: Node) -> _Scores | None:
    value = softmax.operand(0)
    if value is None or len(value.uses) > (1 if _without_nan(softmax.output) is softmax.output else 2):
        return None
    total = producer(value, "Add")
    if total is None:
        return _scaled_product(value, None)
    for scores, mask in pairs(total):
        found = _scaled_product(scores, mask) if sole_consumer(scores) is total else None
        if found is not None and dims_of(scores) == dims_of(value):
            return found
    return None


def _scaled_product(value: Value, mask: Value | None) -> _Scores | None:
    scores, scale = _strip_scale(value)
    product = producer(scores, "MatMul")
    if product is None or len(product.operands) != 2 or (scores is not value and sole_consumer(scores) is None):
        return None
    (query, left), (keys, right) = map(_strip_scale, product.operands)
    scale *= left * right
    return _Scores(query, keys, mask, scale) if 0 < scale < float("inf") else None


def _strip_scale(value: Value) -> tuple[Value, float]:
    """Remove products and quotients with scalars; return the remaining value and the factor."""
    factor = 1.0
    while value.producer is not None and value.producer.op in ("Mul", "Div") and sole_consumer(value) is not None:
        node = value.producer
        found = next(((one, number) for one, two in pairs(node) if (number := scalar_element(two))), None)
        if found is None:
            break
        value = found[0]
        factor = factor * found[1] if node.op == "Mul" else factor / found[1]
    return value, factor


# Shapes


def _is_by_head(softmax: Node, scores: _Scores, last: Node) -> bool:
    """Whether all operands have equal batch, heads and element type."""
    facts = [value.fact for value in (scores.query, scores.keys, last.operands[1], softmax.output, last.output)]
    leading = {fact.dims[:-2] if isinstance(fact, TensorFact) and fact.shape is not None else None for fact in facts}
    types = {fact.dtype for fact in facts if isinstance(fact, TensorFact)}
    ranks = {len(dims_of(value)) for value in (scores.query, scores.keys, last.operands[1])}
    return len(leading) == 1 and None not in leading and len(types) == 1 and ranks == {len(dims_of(softmax.output))}


def _keys_as_rows(b: Builder, columns: Value) -> Value:
    """Return keys as rows: the operand of their Transpose, permuted if necessary."""
    order = (*range(len(dims_of(columns)) - 2), len(dims_of(columns)) - 1, len(dims_of(columns)) - 2)
    transpose = producer(columns, "Transpose")
    before = None if transpose is None else transpose.attributes.get("perm")
    if transpose is None or not isinstance(before, tuple):
        return b(registry.op_defs()["Transpose"], columns, perm=order)
    perm = tuple(before[axis] for axis in order)
    if perm == tuple(range(len(perm))):
        return transpose.operands[0]
    return b(registry.op_defs()["Transpose"], transpose.operands[0], perm=perm)


def _row_for_each_query(b: Builder, scores: _Scores, softmax: Node) -> Value | None:
    """Return the mask with a row for each query; its batch and heads may be 1."""
    if scores.mask is None:
        return None
    shape, given = dims_of(softmax.output), dims_of(scores.mask)
    *leading, length, keys = (1,) * (len(shape) - len(given)) + given
    if not given or keys != shape[-1] or any(a not in (1, b) for a, b in zip((*leading, length), shape, strict=False)):
        raise NotApplicable(f"its mask {scores.mask.name} differs in shape from the scores")
    mask = scores.mask
    if len(given) < 2 or length != shape[-2]:
        if not isinstance(shape[-2], int):
            raise NotApplicable(f"its mask {mask.name} has one row for all queries, whose number is unknown")
        mask = b(registry.op_defs()["Expand"], mask, b.constant(np.array([shape[-2], 1], np.int64)))
    if len(shape) == 3 and leading != [1]:
        return b(registry.op_defs()["Unsqueeze"], mask, b.constant(np.array([1], np.int64)))
    return mask


def _unsplit_heads(value: Value) -> Value | None:
    """Return the operand of a Reshape and Transpose that split heads: [batch, length, heads * size]."""
    transpose = producer(value, "Transpose")
    parted = None if transpose is None or transpose.attributes.get("perm") != _SPLIT_HEADS else transpose.operands[0]
    reshaped = producer(parted, "Reshape")
    if parted is None or reshaped is None:
        return None
    return reshaped.operands[0] if _is_joined(dims_of(reshaped.operands[0]), dims_of(parted)) else None


def _find_concat_of_heads(last: Node) -> Node | None:
    """Return the Reshape that concatenates the heads again."""
    transpose = sole_consumer(last.output)
    if transpose is None or transpose.op != "Transpose" or transpose.attributes.get("perm") != _SPLIT_HEADS:
        return None
    joined = sole_consumer(transpose.output)
    if joined is None or joined.op != "Reshape" or joined.operand(0) is not transpose.output:
        return None
    return joined if _is_joined(dims_of(joined.output), dims_of(transpose.output)) else None


def _is_joined(joined: Sequence[Dim], parted: Sequence[Dim]) -> bool:
    if len(joined) != 3 or len(parted) != 4:
        return False
    heads, size = parted[2:]
    is_known = isinstance(heads, int) and isinstance(size, int)
    return is_known and tuple(joined) == (*parted[:2], heads * size)
