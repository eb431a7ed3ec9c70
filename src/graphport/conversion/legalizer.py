"""The nodes of a dialect's graph in canonical words, one after another, each by its rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion.repetition import Repetition
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
from graphport.ops.fact_cache import FactCache
from graphport.ops.infer import Inference, absent_results, is_foreign
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.facts import Fact
    from graphport.core.progress import Stage
    from graphport.ir.graph import Graph, Node


class Legalizer:
    """Lets the rule of each node of one graph make it canonical, with facts and findings in `inference`."""

    def __init__(
        self, graph: Graph, *, check_declared: bool = True, keep: frozenset[str] = frozenset(), exact: bool = False
    ) -> None:
        self.inference = Inference()
        self.repetition = Repetition(graph, self.inference.findings)
        self.check_declared = check_declared
        self.keep = keep
        self.exact = exact
        # Words of which what they became is remembered, of some operands and attributes at least.
        self._repeated: set[tuple[str, str]] = set()
        self._opsets = graph.root.opsets
        self._facts = FactCache(self.inference)

    def graph(self, graph: Graph, step: Stage | None = None) -> None:
        """Legalize the nodes in order, counted by `step`; a node's operands have final facts when it is reached."""
        # Bodies are asked in their own way, and so is what is computed to the last bit.
        reuse = None if self.exact or graph.parent is not None else self._facts.reuse
        for node in graph:
            if step is not None:
                step.done += 1
            if reuse is not None and node.dialect == "onnx" and reuse(node):
                node.dialect = ""
                continue
            if not node.dialect:
                self._settle(node)
            elif (node.dialect, node.word) not in self._repeated:
                self._node(graph, node)
            else:
                self._repeat(graph, node)

    def _settle(self, node: Node) -> None:
        """Infer the facts of a canonical node; behind an opaque one, what the file declared is all that is known."""
        claims = [(value, value.fact) for value in node.results]
        self.inference.settle(node, check_declared=False)
        if any(each.dialect for body in node.bodies() for inner in walk(body) for each in inner):
            # Bodies are legalized knowing what they are given, which the fact of their node tells them.
            self._bodies(node)
            self.inference.settle(node, check_declared=False)
        for value, claim in claims:
            if isinstance(claim, TensorFact) and isinstance(value.fact, TensorFact) and value.fact.shape is None:
                value.fact = TensorFact(value.fact.dtype or claim.dtype, claim.shape)

    def _node(self, graph: Graph, node: Node, key: Hashable = None) -> None:
        """Legalize a node of a dialect; `key` is what `Repetition` tells it by, if that is known already."""
        version = self._opsets.get(node.dialect)
        if node.dialect in self.keep or (registry.OWN and registry.own(node)) or (self.exact and registry.exact(node)):
            self.inference.settle(node, check_declared=self.check_declared)
            self._bodies(node)
            return
        if node.dialect == "onnx" and registry.is_verbatim(node.word, version):
            if version is not None and version > OPSET and not self.inference.allows(node):
                # A later opset lets it have types or attributes that its page does not know.
                later = registry.lowering(LATER, node.word, version)
                if later is None:
                    self._opaque(node, f"its form of opset {version} has no rule yet")
                self._bodies(node)
                if later is not None:
                    self._lower(graph, node, later, version)
                return
            self._facts.begin(node)
            node.dialect = ""
            # Bodies are legalized knowing what they are given, which the fact of their node tells them.
            self.inference.settle(node, check_declared=self.check_declared)
            self._facts.learn(node)
            if node.has_bodies:
                self._bodies(node)
            return
        rule = registry.lowering(node.dialect, node.word, version)
        if rule is None:
            is_older = node.dialect == "onnx" and node.word in registry.pages()
            self._opaque(node, f"its form of opset {version} has no rule yet" if is_older else None)
            return
        self._bodies(node)
        self._lower(graph, node, rule, version, key or self.repetition.key(node, version))

    def _repeat(self, graph: Graph, node: Node) -> None:
        """Let `node` become what one like it became, or ask its rule."""
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
        stem = node.results[0].name if node.results else node.word
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
        before, moment = node.previous, self.repetition.moment()
        try:
            answer = registry.lowered(rule, builder, node.inputs, node.attributes)
        except (UnsupportedError, Unknown, Undecided, ShapeError) as error:
            rewrite.take_back(graph, before, node)
            self.inference.required.clear()
            if isinstance(error, ShapeError) and not is_foreign(error, node.dialect):
                finding = Diagnostic("SHAPE0001", f"{node.op}: {error.message}", node.origin, error.help)
                self.inference.findings.append(finding)
            else:
                self._opaque(node, str(error) or "the rank of an operand is not known")
            return
        except FOUND as error:
            rewrite.take_back(graph, before, node)
            self.inference.required.clear()
            self.inference.findings.append(
                stumbled(f"the rule that reads {node.op}", error, node.origin, Severity.WARNING)
            )
            return
        if key is not None and not self.inference.required:
            self.repetition.remember(key, node, _new_nodes(before, node), answer, moment)
            self._repeated.add((node.dialect, node.word))
        if self.inference.required:
            self.inference.hold(node)
        named: set[Value] = set()
        for index, old in enumerate(node.outputs):
            if old is not None:
                new = answer[index] if index < len(answer) else None
                if new is None:
                    message = f"the lowering of {node.op} gives no result {index}"
                    raise ValueError(message)
                # One value that is two results cannot have both names.
                named.add(self._take_over(builder, node, old, builder(Identity, new) if new in named else new))
        graph.remove(node)
        # Nobody looks at them again: freed at once, they need not be found as a cycle.
        for value in node.results:
            value.producer = None

    def _claim(self, node: Node, facts: Sequence[Fact], dialect: str) -> None:
        """Set `facts` of the outputs of a node that has become canonical, completed by what its file claims of them."""
        words, agreement = self.inference.words, self.inference.agreement
        for value, fact in zip(node.outputs, facts, strict=True):
            if value is None:
                continue
            claim = value.fact
            found = words.fact(fact, value.name, claim)
            is_claimed = self.check_declared and found is not claim
            value.fact = agreement(value, found, claim, dialect) if is_claimed else found

    def _take_over(self, builder: Builder, node: Node, old: Value, new: Value) -> Value:
        """Let `new`, or a copy of it, be what `old` was, name included."""
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
        new.fact = self.inference.words.fact(new.fact, new.name, claim)
        if self.check_declared:
            new.fact = self.inference.reconcile(new, new.fact, claim, node.dialect)
        return new

    def _opaque(self, node: Node, reason: str | None) -> None:
        """Tell that a node stays, and note for whom it may concern why, if it is not that nobody knows it."""
        if reason is not None:
            opaque.mark(node, reason)
        self.inference.findings.append(
            Diagnostic(
                "LEG0001",
                f"{node.op} stays as it is: {reason or 'there is no rule for it'}",
                node.origin,
                "only its own format supports it",
                Severity.WARNING,
            )
        )


def _new_nodes(before: Node | None, node: Node) -> list[Node]:
    """The nodes behind `before`, or the first one, and before `node`, in order."""
    found: list[Node] = []
    place = node.previous
    while place is not before and place is not None:
        found.append(place)
        place = place.previous
    return found[::-1]


def legalize_nodes(graph: Graph) -> None:
    """Legalize the nodes of a graph in place, by their rules alone."""
    legalizer = Legalizer(graph)
    legalizer.inference.meet(graph)
    legalizer.graph(graph)
