"""Convert a canonical graph to another opset: nodes unchanged if equivalent, else by version rules."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, cast

from graphport.core.facts import OptionalFact, SequenceFact, TensorFact, Unknown
from graphport.formats.onnx.container import domains, opsets, schema
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import EXPORT_RULES, OPSET, ShapeError, UnsupportedError
from graphport.ops.infer import Inference, absent_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.formats.onnx.container.findings import Findings
    from graphport.ir.graph import Graph
    from graphport.ops.declare import OpDef, Rule

_COUNTED_FROM_BEHIND = 11
"""The opset from which on negative axes are supported everywhere."""

_NAMES = {"float32": "float", "float64": "double"}


def emitted(graph: Graph, used: opsets.Words, wanted: int | None, findings: Findings) -> tuple[Graph, int]:
    """Return the graph, or a converted copy, and its opset; report nodes that cannot be converted.

    Without `wanted` the opset is that of the file if it supports all nodes, else the lowest from `opsets.LEAST` on that
    does.
    """
    spans = opsets.spans(graph, {key: n for key, n in used.items() if key[0] != domains.CANONICAL})
    if wanted is not None:
        return _convert_to(graph, spans, wanted, findings)
    source = opsets.source(graph)
    for version in [*([] if source is None else [source]), *range(opsets.LEAST, schema.newest() + 1)]:
        found = None if any(not a <= version <= b for a, b in spans.values()) else _Emitter(version).emit(graph)
        if found is not None:
            return found, version
    return _convert_to(graph, spans, OPSET, findings)


def unchanged(graph: Graph, used: opsets.Words) -> int | None:
    """Return the file's opset, or the lowest newer one, that supports all nodes unchanged."""
    spans = opsets.spans(graph, {key: n for key, n in used.items() if key[0] != domains.CANONICAL})
    source = opsets.source(graph)
    for version in [*([] if source is None else [source]), *range(max(source or 0, opsets.LEAST), OPSET + 1)]:
        if all(a <= version <= b for a, b in spans.values()) and _Emitter(version).keeps(graph):
            return version
    return None


def _convert_to(
    graph: Graph, spans: dict[tuple[str, str], tuple[int, int]], wanted: int, findings: Findings
) -> tuple[Graph, int]:
    if wanted > schema.newest():
        remedy = f"choose opset {schema.newest()} or older"
        findings.error("ONNX0602", f"unsupported opset {wanted}", "graph", remedy)
        return graph, wanted
    for (_, op_type), (first, last) in spans.items():
        if not first <= wanted <= last:
            message = f"{op_type} is valid in opsets {first} to {last} only, not in opset {wanted}"
            findings.error("ONNX0602", message, "graph", "choose one of these opsets")
    emitter = _Emitter(wanted)
    found = emitter.emit(graph)
    if found is not None:
        return found, wanted
    able = next((n for n in range(wanted + 1, OPSET + 1) if _Emitter(n).emit(graph) is not None), None)
    remedy = None if able is None else f"choose opset {able}, which supports all nodes"
    for (op_type, reason), count in emitter.reasons.items():
        message = f"{count} node{'s' * (count > 1)} {op_type} cannot be written in opset {wanted}: {reason}"
        findings.error("ONNX0602", message, "graph", remedy)
    return graph, wanted


class _Emitter:
    """Converts canonical nodes to one opset."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.reasons: Counter[tuple[str, str]] = Counter()
        self._known: dict[tuple[object, ...], str] = {}
        self._inference = Inference()

    def keeps(self, graph: Graph) -> bool:
        """Whether this opset supports every node, apart from attributes without effect."""
        nodes = (node for inner in walk(graph) for node in inner if node.dialect == domains.CANONICAL)
        return self.version == OPSET or not any(map(self._change, nodes))

    def emit(self, graph: Graph) -> Graph | None:
        """Return the graph, or a copy of it, at this opset; `None`, with `reasons`, if that is impossible."""
        if self.version == OPSET:
            return graph
        nodes = [node for inner in walk(graph) for node in inner if node.dialect == domains.CANONICAL]
        odd = [node for node in nodes if self._rule(node) is not None or self._change(node) is not None]
        if not odd:
            return graph
        for node in odd:
            change = self._change(node)
            if change and self._rule(node) is None:
                self.reasons[node.op_type, change] += 1
        if self.reasons:
            return None
        twin = rewrite.copy(graph)
        idle = {value for inner in walk(twin) for value in inner.constants if not value.uses}
        for inner in list(walk(twin)):
            for node in inner:
                if node.dialect == domains.CANONICAL:
                    self._node(inner, node)
        if self.reasons:
            return None
        rewrite.remove_dead(twin)
        for inner in walk(twin):
            for value in [v for v in inner.constants if not v.uses and v not in idle]:
                inner.remove_constant(value)
        return twin

    def _rule(self, node: Node) -> Rule | None:
        return _rule(node.op_type, self.version)

    def _node(self, graph: Graph, node: Node) -> None:
        """Convert a node, and the nodes that its conversion creates."""
        pending = [node]
        while pending:
            current = pending.pop()
            rule = self._rule(current)
            made = None if rule is None else self._by_rule(graph, current, rule)
            if made is not None:
                pending += made
            elif not (change := self._change(current)):
                self._drop_defaults(current)
            else:
                self.reasons[current.op_type, change] += 1

    def _by_rule(self, graph: Graph, node: Node, rule: Rule) -> list[Node] | None:
        """Replace a node by a rule; return the canonical nodes that remain to be converted, or `None` if it stays."""
        builder = Builder(
            self._inference,
            graph,
            node,
            dialect=domains.DEFAULT,
            count=len(node.outputs),
            absent=absent_results(node),
            version=self.version,
            origin=node.origin,
            stem=node.results[0].name if node.results else node.op_type,
        )
        before = node.previous
        try:
            answer = rule.function(builder, *node.inputs, **node.attributes)
        except (UnsupportedError, ShapeError, Unknown) as error:
            self.reasons[node.op_type, str(error) or "the shape or the elements of an operand are unknown"] += 1
            answer = None
        made = list(_added_nodes(before, node, graph))
        wrong = next(filter(None, map(self._wrong, made)), None)
        if answer is not None and wrong is not None:
            self.reasons[node.op_type, wrong] += 1
            answer = None
        if answer is None:
            for each in reversed(made):
                graph.remove(each)
            return None if not self.reasons else []
        taken = _take_over(graph, node, registry.results(answer))
        return [each for each in (*made, *taken) if each.dialect == domains.CANONICAL]

    def _wrong(self, made: Node) -> str | None:
        """Return why the opset does not support the node."""
        if made.dialect != domains.DEFAULT:
            return None
        if not schema.operator("", made.op_type, self.version).is_known:
            return "the operator was added in a later opset"
        types = list(map(_type_of, made.inputs))
        return schema.misfit(made.op_type, self.version, types, len(types))

    def _change(self, node: Node) -> str | None:
        """Return why a node must change: `None` if it need not, "" if attributes without effect are dropped."""
        types = tuple(map(_type_of, (*node.inputs, *node.outputs)))
        given = tuple(name for name, value in node.stated.items() if value is not None)
        odd = tuple(name for name in given if not _is_default(node, name))
        key = (node.op_type, len(node.inputs), types, given, odd)
        if key not in self._known:
            self._known[key] = self._changed(node, types, given, odd)
        found = self._known[key]
        return found if found != _SAME else None

    def _changed(self, node: Node, types: Sequence[str | None], given: Sequence[str], odd: Sequence[str]) -> str:
        op_def = registry.op_defs().get(node.op_type)
        if op_def is None or op_def.domain:
            return _SAME
        operator = schema.operator("", node.op_type, self.version)
        if not operator.is_known or operator.is_deprecated or self.version < op_def.since:
            return (
                "the operator was added in a later opset"
                if not operator.is_known
                else "the operator had a different definition"
            )
        if self.version > schema.versions(node.op_type, OPSET)[1]:
            return "the operator changed in a later opset"
        unknown = [name for name in odd if name not in operator.kinds]
        if unknown:
            return f"the attribute {unknown[0]} was added in a later opset"
        if not operator.accepts(len(node.inputs), len(node.outputs)):
            return "the operator had fewer inputs or outputs"
        wrong = schema.misfit(node.op_type, self.version, types, len(node.inputs))
        if wrong is not None:
            return wrong
        is_negative = self.version < _COUNTED_FROM_BEHIND and _negative_axis(node) is not None
        return "" if is_negative or any(name not in operator.kinds for name in given) else _SAME

    def _drop_defaults(self, node: Node) -> None:
        """Remove default attributes that the opset does not have, and normalize a negative axis."""
        kinds = schema.operator("", node.op_type, self.version).kinds
        if not kinds and node.op_type not in registry.op_defs():
            return
        for name in [name for name in node.stated if name not in kinds and _is_default(node, name)]:
            node.remove_attribute(name)
        axis = _negative_axis(node) if self.version < _COUNTED_FROM_BEHIND else None
        if axis is not None:
            node.set_attribute("axis", axis)


_SAME = "\0same"


@cache
def _rule(op_type: str, version: int) -> Rule | None:
    registry.load("onnx")
    rules = EXPORT_RULES.get(("onnx", op_type), ())
    return next((rule for rule in rules if rule.until is not None and version <= rule.until), None)


def _is_default(node: Node, name: str) -> bool:
    """Whether an attribute has its default value."""
    op_def: OpDef | None = registry.op_defs().get(node.op_type)
    keyword = None if op_def is None else op_def.signature.keywords.get(name)
    if name == "dilations" and keyword is not None:
        return set(cast("tuple[int, ...]", node.stated[name] or ())) <= {1}
    return keyword is not None and not keyword.is_required and node.stated[name] in (None, keyword.default)


def _negative_axis(node: Node) -> int | None:
    """Return the non-negative axis of a node with negative axis attribute."""
    axis = node.stated.get("axis")
    first = node.inputs[0] if node.inputs else None
    shape = first.fact.shape if first is not None and isinstance(first.fact, TensorFact) else None
    if not isinstance(axis, int) or axis >= 0 or shape is None or node.op_type == "OneHot":
        return None
    return axis + len(shape)


def _added_nodes(before: Node | None, node: Node, graph: Graph) -> Iterator[Node]:
    current = graph.first_node if before is None else before.next
    while current is not None and current is not node:
        yield current
        current = current.next


def _take_over(graph: Graph, node: Node, answer: Sequence[Value | None]) -> list[Node]:
    """Replace the node's results by those of a rule; return the copies needed for that."""
    copies: list[Node] = []
    named: set[Value] = set()
    for old, new in zip(node.outputs, (*answer, *[None] * len(node.outputs)), strict=False):
        if old is None or new is None:
            continue
        result = new
        if new.producer is None or new in node.inputs or new in named or new.graph is not graph:
            copy = Node("Identity", [new], [Value(graph.fresh(old.name), old.fact)], origin=node.origin)
            copies.append(graph.insert_before(node, copy))
            result = copy.output
        named.add(result)
        if result.producer is not None and not result.producer.name and old.index == 0:
            result.producer.name = node.name
        rewrite.swap_names(old, result)
        result.fact = old.fact
        if old.has_notes:
            result.notes.update(old.notes)
        old.replace_uses(result)
    graph.remove(node)
    return copies


def _type_of(value: Value | None) -> str | None:
    """A value's type; empty where it is not known, `None` where there is no value."""
    return None if value is None else _type(value.fact) or ""


def _type(fact: Fact) -> str | None:
    """A fact's type as ONNX's schemas call it, `None` where it is not known."""
    match fact:
        case SequenceFact(element):
            inner = _type(element)
            return None if inner is None else f"seq({inner})"
        case OptionalFact(element):
            inner = _type(element)
            return None if inner is None else f"optional({inner})"
        case TensorFact(dtype):
            return None if dtype is None else _tensor_type(dtype)


@cache
def _tensor_type(dtype: DType) -> str:
    return f"tensor({_NAMES.get(dtype.text, dtype.name.lower())})"
