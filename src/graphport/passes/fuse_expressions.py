"""Fuse chains of element-wise operators into `graphport.Expression`, and expand them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, Unknown
from graphport.ir import rewrite
from graphport.ir.graph import Node, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.expressions import Phrase, expanded, phrase_of
from graphport.ops.infer import Inference
from graphport.passes.driver import Pass, PassList, run
from graphport.passes.journal import Journal, NotApplicable, apply, label
from graphport.passes.substitution import take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

WORD = "graphport.Expression"
MAX_EXPRESSION_LENGTH = 4096
"""Length limit of an expression in characters; a value used twice in a chain is written twice."""
_COMPUTED = frozenset({DType.FLOAT32, DType.FLOAT64})


def fuse(graph: Graph, journal: Journal) -> None:
    """Fuse chains of element-wise float operators into expressions.

    Before: `t = Add(a, b)`, `y = Relu(t)`. After: `y = graphport.Expression(a, b, expression="maximum(add(@0,@1),0)")`.
    A result is computed inside its only consumer. Does not apply to results with several consumers, graph outputs,
    results smaller than their use, or types other than float32 and float64.
    """
    for inner in walk(graph):
        _fuse(inner, journal)


def expand(graph: Graph, journal: Journal) -> None:
    """Expand expressions into canonical operators.

    Before: `y = graphport.Expression(a, b, expression="add(@0,@1)")`. After: `y = Add(a, b)`.
    An expression without canonical operators (it needs a dim known at run time only) remains.
    """
    apply(graph, journal, _expanded, {WORD})


def without_expressions(graph: Graph) -> Graph:
    """Return `graph`, or a copy with expanded expressions if it contains some."""
    if not any(node.op == WORD for inner in walk(graph) for node in inner):
        return graph
    expanded = rewrite.copy(graph)
    run(expanded, EXPAND_EXPRESSIONS)
    return expanded


FUSE_EXPRESSIONS = PassList((Pass("fuse-expressions", fuse, "rounding"),))
EXPAND_EXPRESSIONS = PassList((Pass("expand-expressions", expand, "rounding"),))


def _fuse(graph: Graph, journal: Journal) -> None:
    phrases: dict[Value, Phrase] = {}
    absorbed: list[Node] = []
    for node in graph:
        phrase = _node_expression(node)
        if phrase is None:
            continue
        joined = _inline_operands(node.results[0], phrase, phrases)
        taken = [value.producer for value in joined[1] if value.producer is not None]
        absorbed += taken
        for value in joined[1]:
            del phrases[value]
        phrases[node.results[0]] = joined[0]
    gone = set(absorbed)
    stand_ins: dict[Value, Value] = {}
    for value, phrase in phrases.items():
        if phrase.calls > 1 and value.producer is not None and value.producer not in gone:
            operands = tuple(stand_ins.get(operand, operand) for operand in phrase.operands)
            stand_ins[value] = _replace(graph, value.producer, Phrase(phrase.text, operands, phrase.calls), journal)
    for node in reversed(absorbed):
        if not node.results[0].uses:
            rewrite.erase(node)


def _node_expression(node: Node) -> Phrase | None:
    """Return the expression of a single node if it is float arithmetic on operands of its own type."""
    result = node.results[0].fact if len(node.outputs) == 1 and node.results else None
    if not isinstance(result, TensorFact) or result.shape is None or result.dtype not in _COMPUTED:
        return None
    if any(not isinstance(x.fact, TensorFact) or x.fact.dtype is not result.dtype for x in node.operands):
        return None
    found = phrase_of(node)
    return found if found is not None and found.operands else None


def _inline_operands(result: Value, phrase: Phrase, phrases: dict[Value, Phrase]) -> tuple[Phrase, list[Value]]:
    """Inline the expressions of operands that have no other consumer; return expression and remaining operands."""
    merged: dict[Value, Phrase] = {}
    size = len(phrase.text)
    for operand in dict.fromkeys(phrase.operands):
        inner = phrases.get(operand)
        if inner is None or not _is_private(operand, result):
            continue
        size += len(inner.text) * phrase.operands.count(operand)
        if size > MAX_EXPRESSION_LENGTH:
            break
        merged[operand] = inner
    if not merged:
        return phrase, []
    texts = [merged[x].text if x in merged else "{}" for x in phrase.operands]
    operands = tuple(y for x in phrase.operands for y in (merged[x].operands if x in merged else (x,)))
    calls = phrase.calls + sum(inner.calls for inner in merged.values())
    return Phrase(phrase.text.format(*texts), operands, calls), list(merged)


def _is_private(operand: Value, result: Value) -> bool:
    """Whether the producer of `result` is the only consumer of `operand`, shapes are equal and it is not an output."""
    readers = set(operand.users)
    return not operand.is_output and readers == {result.producer} and operand.fact == result.fact


def _replace(graph: Graph, node: Node, phrase: Phrase, journal: Journal) -> Value:
    operands = list(dict.fromkeys(phrase.operands))
    references = [f"@{operands.index(value)}" for value in phrase.operands]
    text = phrase.text.format(*references)
    builder = Builder(Inference(), graph, node, origin=node.origin, stem=node.results[0].name)
    name = label(node)
    fused = builder(registry.op_defs()[WORD], *operands, expression=text)
    take_over(node.results[0], fused)
    rewrite.erase(node)
    journal.did(name, f"now {text}", phrase.calls)
    return fused


def _expanded(node: Node) -> str | None:
    graph, result = node.graph, node.results[0]
    if graph is None:
        return None
    text = str(node.attributes["expression"])
    operands = [value for value in node.inputs if value is not None]
    try:
        # Try with facts first, so that an expression that cannot be expanded leaves no nodes behind.
        expanded(Builder(Inference(), origin=node.origin), text, operands)
    except (UnsupportedError, ShapeError, Unknown, DiagnosticError) as reason:
        raise NotApplicable(str(reason)) from reason
    made = expanded(Builder(Inference(), graph, node, origin=node.origin, stem=result.name), text, operands)
    take_over(result, made)
    rewrite.erase(node)
    return f"was {text}"
