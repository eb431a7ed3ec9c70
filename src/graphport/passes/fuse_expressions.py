"""Chains of element-wise operators into one `graphport.Expression` each, and back."""

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
from graphport.passes.journal import Journal, Left, apply, label
from graphport.passes.substitution import take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

WORD = "graphport.Expression"
MOST_TEXT = 4096
"""Characters of an expression: what is read twice in one chain is written twice."""
_COMPUTED = frozenset({DType.FLOAT32, DType.FLOAT64})


def fuse(graph: Graph, journal: Journal) -> None:
    """Fuse chains of element-wise operators on floats into expressions.

    Before: `t = Add(a, b)`, `y = Relu(t)`. After: `y = graphport.Expression(a, b, expression="maximum(add(@0,@1),0)")`.
    A result is computed within the one operator that reads it; so nothing is fused that several read, that is an
    output of the graph, that is smaller than what it is used for, or whose type is not float32 or float64.
    """
    for inner in walk(graph):
        _fuse(inner, journal)


def expand(graph: Graph, journal: Journal) -> None:
    """Take expressions apart into canonical operators.

    Before: `y = graphport.Expression(a, b, expression="add(@0,@1)")`. After: `y = Add(a, b)`.
    An expression that no canonical operators say (it asks for an extent that is known in a run only) stays.
    """
    apply(graph, journal, _expanded, {WORD})


def without_expressions(graph: Graph) -> Graph:
    """`graph`, or where there are expressions in it a copy with canonical operators instead."""
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
        phrase = _phrase(node)
        if phrase is None:
            continue
        joined = _joined(node.results[0], phrase, phrases)
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


def _phrase(node: Node) -> Phrase | None:
    """What a node says by itself, if it is float arithmetic on operands of its own type."""
    result = node.results[0].fact if len(node.outputs) == 1 and node.results else None
    if not isinstance(result, TensorFact) or result.shape is None or result.dtype not in _COMPUTED:
        return None
    if any(not isinstance(x.fact, TensorFact) or x.fact.dtype is not result.dtype for x in node.operands):
        return None
    found = phrase_of(node)
    return found if found is not None and found.operands else None


def _joined(result: Value, phrase: Phrase, phrases: dict[Value, Phrase]) -> tuple[Phrase, list[Value]]:
    """`phrase` with the phrases of its operands that only it reads, and these operands."""
    merged: dict[Value, Phrase] = {}
    size = len(phrase.text)
    for operand in dict.fromkeys(phrase.operands):
        inner = phrases.get(operand)
        if inner is None or not _is_private(operand, result):
            continue
        size += len(inner.text) * phrase.operands.count(operand)
        if size > MOST_TEXT:
            break
        merged[operand] = inner
    if not merged:
        return phrase, []
    texts = [merged[x].text if x in merged else "{}" for x in phrase.operands]
    operands = tuple(y for x in phrase.operands for y in (merged[x].operands if x in merged else (x,)))
    calls = phrase.calls + sum(inner.calls for inner in merged.values())
    return Phrase(phrase.text.format(*texts), operands, calls), list(merged)


def _is_private(operand: Value, result: Value) -> bool:
    """Whether `operand` is read by the producer of `result` alone, has its shape, and is no output."""
    readers = set(operand.users)
    return not operand.is_output and readers == {result.producer} and operand.fact == result.fact


def _replace(graph: Graph, node: Node, phrase: Phrase, journal: Journal) -> Value:
    operands = list(dict.fromkeys(phrase.operands))
    references = [f"@{operands.index(value)}" for value in phrase.operands]
    text = phrase.text.format(*references)
    builder = Builder(Inference(), graph, node, origin=node.origin, stem=node.results[0].name)
    name = label(node)
    fused = builder(registry.pages()[WORD], *operands, expression=text)
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
        # Facts alone first: what cannot be said to its end leaves nothing behind.
        expanded(Builder(Inference(), origin=node.origin), text, operands)
    except (UnsupportedError, ShapeError, Unknown, DiagnosticError) as reason:
        raise Left(str(reason)) from reason
    made = expanded(Builder(Inference(), graph, node, origin=node.origin, stem=result.name), text, operands)
    take_over(result, made)
    rewrite.erase(node)
    return f"was {text}"
