"""Application of import rules to the nodes of a dialect graph, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion.rule_cache import RuleCache
from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dims import Undecided
from graphport.core.facts import TensorFact, Unknown
from graphport.core.faults import FOUND, stumbled
from graphport.formats.onnx.rules.onnx_future import DIALECT as LATER
from graphport.ir import opaque, rewrite
from graphport.ir.graph import Value, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import OPSET, ShapeError, UnsupportedError
from graphport.ops.definitions.reshape import Identity
from graphport.ops.fact_cache import FactCache
from graphport.ops.infer import Inference, absent_results, is_foreign

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.facts import Fact
    from graphport.core.progress import Stage
    from graphport.ir.graph import Graph, Node


class Legalizer:
    """Converts each node of one graph by its import rule; facts and findings are collected in `inference`."""

    def __init__(
        self, graph: Graph, *, check_declared: bool = True, keep: frozenset[str] = frozenset(), exact: bool = False
    ) -> None:
        self.inference = Inference()
        self.repetition = RuleCache(graph, self.inference.findings)
        self.check_declared = check_declared
        self.keep = keep
        self.exact = exact
        # The op types for which `repetition` has at least one recorded lowering.
        self._repeated: set[tuple[str, str]] = set()
        self._opsets = graph.root.opsets
        self._facts = FactCache(self.inference)

    def graph(self, graph: Graph, step: Stage | None = None) -> None:
        """Legalize the nodes in order and count them in `step`.

        The operands of a node have final facts when it is visited.
        """
        # Facts are not reused inside bodies and in exact mode, where nodes are converted differently.
        reuse = None if self.exact or graph.parent is not None else self._facts.reuse
        for node in graph:
            if step is not None:
                step.done += 1
            if reuse is not None and node.dialect == "onnx" and reuse(node):
                node.dialect = ""
                continue
            if not node.dialect:
                self._settle(node)
            elif (node.dialect, node.op_type) not in self._repeated:
                self._node(graph, node)
            else:
                self._repeat(graph, node)

    def _settle(self, node: Node) -> None:
        """Infer the facts of a canonical node. After an opaque node, only declared facts exist."""
        claims = [(value, value.fact) for value in node.results]
        self.inference.settle(node, check_declared=False)
        if any(each.dialect for body in node.bodies() for inner in walk(body) for each in inner):
            # The facts of the node provide the facts of the body inputs, so infer them first.
            self._bodies(node)
            self.inference.settle(node, check_declared=False)
        for value, claim in claims:
            if isinstance(claim, TensorFact) and isinstance(value.fact, TensorFact) and value.fact.shape is None:
                declared = self.inference.fact_symbols.declared(claim)
                value.fact = TensorFact(value.fact.dtype or claim.dtype, declared.shape)

    def _node(self, graph: Graph, node: Node, key: Hashable = None) -> None:
        """Legalize a node of a dialect; `key` is its `RuleCache` key if the caller has computed it."""
        version = self._opsets.get(node.dialect)
        if (
            node.dialect in self.keep
            or (registry.OWN and registry.user_definition(node))
            or (self.exact and registry.exact(node))
        ):
            self.inference.settle(node, check_declared=self.check_declared)
            self._bodies(node)
            return
        if node.dialect == "onnx" and registry.is_verbatim(node.op_type, version):
            if version is not None and version > OPSET and not self.inference.allows(node):
                # A later opset permits types or attributes that the operator definition does not have.
                later = registry.lowering(LATER, node.op_type, version)
                if later is None:
                    self._opaque(node, f"no import rule exists for its opset {version}")
                self._bodies(node)
                if later is not None:
                    self._lower(graph, node, later, version)
                return
            self._facts.begin(node)
            node.dialect = ""
            # The facts of the node provide the facts of the body inputs, so infer them before the bodies.
            self.inference.settle(node, check_declared=self.check_declared)
            self._facts.learn(node)
            if node.has_bodies:
                self._bodies(node)
            return
        rule = registry.lowering(node.dialect, node.op_type, version)
        if rule is None:
            if registry.expansion(node.dialect, node.op_type) is not None:
                self.inference.settle(node)
            is_older = node.dialect == "onnx" and node.op_type in registry.op_defs()
            self._opaque(node, f"no import rule exists for its opset {version}" if is_older else None)
            return
        self._bodies(node)
        self._lower(graph, node, rule, version, key or self.repetition.key(node, version))

    def _repeat(self, graph: Graph, node: Node) -> None:
        """Apply the recorded lowering of an equal node, or run the import rule."""
        dialect = node.dialect
        key = self.repetition.key(node, self._opsets.get(dialect))
        template = None if key is None else self.repetition.find(key)
        if template is None:
            self._node(graph, node, key)
            return
        self.repetition.repeat(graph, node, template)
        self._claim(node, template.last.facts, dialect)

    def _bodies(self, node: Node) -> None:
        for body in node.bodies():
            with self.inference.in_body():
                self.graph(body)

    def _lower(self, graph: Graph, node: Node, rule: registry.Lower, version: int | None, key: Hashable = None) -> None:
        count = len(node.outputs)
        stem = node.results[0].name if node.results else node.op_type
        builder = Builder(
            self.inference,
            graph,
            node,
            dialect=node.dialect,
            count=count,
            absent=absent_results(node),
            version=version,
            origin=node.unasked_origin,
            stem=stem,
        )
        before, state_before = node.previous, self.repetition.state_before()
        try:
            answer = registry.lowered(rule, builder, node.inputs, node.attributes)
        except (UnsupportedError, Unknown, Undecided, ShapeError) as error:
            rewrite.take_back(graph, before, node)
            self.inference.required.clear()
            if isinstance(error, ShapeError) and not is_foreign(error, node.dialect):
                finding = Diagnostic("SHAPE0001", f"{node.op}: {error.message}", node.origin, error.help)
                self.inference.findings.append(finding)
            else:
                self._opaque(node, str(error) or "the rank of an operand is unknown")
            return
        except FOUND as error:
            rewrite.take_back(graph, before, node)
            self.inference.required.clear()
            self.inference.findings.append(
                stumbled(f"the rule that reads {node.op}", error, node.origin, Severity.WARNING)
            )
            return
        if key is not None and not self.inference.required:
            self.repetition.remember(key, node, _new_nodes(before, node), answer, state_before)
            self._repeated.add((node.dialect, node.op_type))
        if self.inference.required:
            self.inference.record_requirements(node)
        named: set[Value] = set()
        for index, old in enumerate(node.outputs):
            if old is not None:
                new = answer[index] if index < len(answer) else None
                if new is None:
                    message = f"the import rule of {node.op} returns no result {index}"
                    raise ValueError(message)
                # One value that serves as two results cannot have both names.
                named.add(self._take_over(builder, node, old, builder(Identity, new) if new in named else new))
        graph.remove(node)
        # Break the reference cycles, so that the nodes are freed without the garbage collector.
        for value in node.results:
            value.producer = None

    def _claim(self, node: Node, facts: Sequence[Fact], dialect: str) -> None:
        """Set the facts of the results of a node after its conversion, combined with the declared facts."""
        words, agreement = self.inference.fact_symbols, self.inference.agreement
        for value, fact in zip(node.outputs, facts, strict=True):
            if value is None:
                continue
            claim = value.fact
            found = words.fact(fact, value.name, claim)
            is_claimed = self.check_declared and found is not claim
            value.fact = agreement(value, found, claim, dialect) if is_claimed else found

    def _take_over(self, builder: Builder, node: Node, old: Value, new: Value) -> Value:
        """Replace `old` by `new` or a copy of it, which also gets the name of `old`. Return the replacement."""
        if new.producer is None or new in node.inputs or new.is_output or new.graph is not old.graph:
            new = builder(Identity, new)
        claim = old.fact
        rewrite.swap_names(old, new)
        new.origin = old.unasked_origin
        if new.producer is not None and not new.producer.name and old.index == 0:
            new.producer.name = node.name
        if old.has_notes:
            new.notes.update(old.noted)
        old.replace_uses(new)
        new.fact = self.inference.fact_symbols.fact(new.fact, new.name, claim)
        if self.check_declared:
            new.fact = self.inference.reconcile(new, new.fact, claim, node.dialect)
        return new

    def _opaque(self, node: Node, reason: str | None) -> None:
        """Keep the node and report why; record the reason on the node if there is one besides a missing rule."""
        if reason is not None:
            opaque.mark(node, reason)
        for value in node.results:
            if isinstance(value.fact, TensorFact):
                value.fact = self.inference.fact_symbols.declared(value.fact)
        self.inference.findings.append(
            Diagnostic(
                "LEG0001",
                f"{node.op} remains unchanged: {reason or 'no import rule exists'}",
                node.origin,
                "write the model in its source format; other formats do not support the operator"
                if registry.expansion(node.dialect, node.op_type) is None
                else "check the operator; formats other than the source format receive canonical operators instead",
                Severity.WARNING,
            )
        )


def _new_nodes(before: Node | None, node: Node) -> list[Node]:
    """Return the nodes between `before` (or the start of the graph) and `node`, in order."""
    found: list[Node] = []
    place = node.previous
    while place is not before and place is not None:
        found.append(place)
        place = place.previous
    return found[::-1]


def legalize_nodes(graph: Graph) -> None:
    """Legalize the nodes of a graph in place, by import rules alone."""
    legalizer = Legalizer(graph)
    legalizer.inference.meet(graph)
    legalizer.graph(graph)
