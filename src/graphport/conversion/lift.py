"""A canonical graph in the words of a dialect."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from graphport.conversion.empty_operands import drop_empty_operands
from graphport.conversion.hooks import after_lifting, before_lifting, older
from graphport.conversion.repetition import Repetition
from graphport.core import budget
from graphport.core.collection import paused_collection
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic, Undecided, examples
from graphport.core.facts import TensorFact, Unknown
from graphport.core.faults import FOUND, as_finding, stumbled
from graphport.ir import opaque, rewrite
from graphport.ir.graph import Node, Value, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.ops.declare import Page


_ELSEWHERE = "choose another format"
_BIND = "bind the extents that are open, for instance"
_MOST_SHOWN = 6  # inputs that a remedy names
ONE_EACH: Mapping[str, int] = MappingProxyType({})
MOST_MADE = 1 << 18
"""By how many nodes a model may grow as it is said in other words, unless the limit `write.nodes` says otherwise."""


def lift(graph: Graph, dialect: str, *, newest: int | None = None) -> tuple[Graph, list[Diagnostic]]:
    """A copy of `graph` (canonical) with every node in words of `dialect`, and what could not be said.

    Where its words come in versions, those newer than `newest` are said in older ones as far as there is a way.

    Values keep their names. Each finding (LEG0002, an error) stands for all nodes of one operator and one reason; where
    there is any, the graph is not fit to be written.

    Raises:
        DiagnosticError: LEG0008 it would be far larger than `graph`.
    """
    result, failed = _lifted(graph, dialect)
    if newest is not None:
        _age(result, dialect, newest)
    stumbles = [
        stumbled(f"the rule that writes {each.op} as {dialect or 'onnx'}", each.error, each.node.origin)
        for each in _wholes(failed)
        if each.error is not None
    ]
    failed = [each for each in failed if each.error is None]
    failed = [each for each in failed if not each.is_secondary] or failed
    binding = _binding(graph)
    computed = _computed_from_extents(graph) if failed and binding else set[str]()
    waiting = {
        (each.op, each.key)
        for each in failed
        if binding and (_may_wait_for_extents(each.whole, dialect) or _names(each.whole) & computed)
    }
    shared = [each for each in failed if each.cause]
    alone = [each for each in failed if not each.cause]
    findings = [*_of_causes(shared, dialect, waiting, binding), *_of_nodes(alone, dialect, waiting, binding)]
    return result, [*findings, *stumbles]


def _of_causes(
    failed: Sequence[_Unsupported], dialect: str, waiting: Container[tuple[str, str]], binding: str
) -> list[Diagnostic]:
    """A finding for each cause that nodes fail for alike."""
    groups: dict[str, dict[Node, _Unsupported]] = {}
    for each in failed:
        groups.setdefault(each.key, {}).setdefault(each.whole, each)
    findings: list[Diagnostic] = []
    for cause, nodes in groups.items():
        counts = Counter(each.op for each in nodes.values()).most_common()
        listed = ", ".join(f"{op} ({count})" for op, count in counts[:_MOST_SHOWN])
        more = f" and {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else ""
        one = next(iter(nodes.values()))
        is_waiting = any((op, cause) in waiting for op, _ in counts)
        what = "unsupported operator" if len(counts) == 1 else "unsupported operators"
        message = f"{dialect or 'onnx'}: {what} {listed}{more}: {cause}"
        help_ = _remedy(one, dialect, binding if is_waiting else "")
        findings.append(Diagnostic("LEG0002", message, one.node.origin, help_))
    return findings


def _of_nodes(
    failed: Sequence[_Unsupported], dialect: str, waiting: Container[tuple[str, str]], binding: str
) -> list[Diagnostic]:
    """A finding for each operator and each reason, whatever the values are called; the place is that of the first."""
    counts = Counter((each.op, each.nameless) for each in _wholes(failed))
    first = {(each.op, each.nameless): each for each in reversed(failed)}
    return [
        Diagnostic(
            "LEG0002",
            f"{dialect or 'onnx'}: unsupported operator {each.op} ({count}): {each.reason}",
            each.node.origin,
            _remedy(each, dialect, binding if (each.op, each.reason) in waiting else ""),
        )
        for each, count in ((first[alike], count) for alike, count in counts.items())
    ]


def _remedy(failed: _Unsupported, dialect: str, binding: str) -> str:
    """What helps: what the rule has said, numbers for extents that are open, other words of the format, another one."""
    if failed.help:
        return failed.help
    page = None if failed.whole.dialect else registry.pages().get(failed.whole.word)
    other = None if page is None else registry.also_in(dialect, page)
    if binding:
        return f"{_BIND} {binding}" + (f"; or {other}, which has words for it" if other else "")
    return f"{other} has words for it" if other else _elsewhere(failed.whole)


def _elsewhere(node: Node) -> str:
    """What helps where nothing that could be told makes a node sayable: where the model may be cut."""
    names = dict.fromkeys(x.name for x in node.operands if not x.is_constant and x.producer is not None)
    if not names or node.graph is None or node.graph is not node.graph.root:
        return _ELSEWHERE
    return (
        f"{_ELSEWHERE}, or write what comes before: graphport cut MODEL PART --to {','.join(list(names)[:_MOST_SHOWN])}"
    )


def unsupported(graph: Graph, dialect: str, stands_for: Mapping[str, int] = ONE_EACH) -> dict[str, int]:
    """How many nodes of each operator `dialect` does not support, where some stand for several, by first result."""
    _, failed = _lifted(graph, dialect)
    counts: Counter[str] = Counter()
    for whole in {each.whole: None for each in failed}:
        counts[whole.op] += stands_for.get(whole.results[0].name, 1) if whole.results else 1
    return dict(counts)


def _may_wait_for_extents(node: Node, dialect: str) -> bool:
    """Whether a node that is not supported may be once inputs have numbers for extents.

    What computes numbers from extents alone is constant then, and a word that there is takes what it did not take.
    """
    facts = [value.fact for value in (*node.operands, *node.results) if isinstance(value.fact, TensorFact)]
    results = [value.fact for value in node.results]
    if not any(isinstance(dim, Symbolic) for fact in facts for dim in (*(fact.shape or ()), *(fact.elements or ()))):
        return False
    if all(isinstance(fact, TensorFact) and fact.elements is not None for fact in results):
        return True
    page = None if node.dialect else registry.pages().get(node.word)
    return page is not None and bool(registry.liftings(dialect, page))


def _names(node: Node) -> set[str]:
    return {value.name for value in node.results}


def _computed_from_extents(graph: Graph) -> set[str]:
    """The names of all values that are computed from extents and constants alone: constant once inputs have numbers."""
    found: set[Value] = set()
    for node in graph:
        operands = node.operands
        if operands and not node.has_bodies and all(x in found or _is_known(x) for x in operands):
            found.update(node.results)
    return {value.name for value in found}


def _is_known(value: Value) -> bool:
    """Whether the fact has the numbers of a value, or it is a constant."""
    return value.is_constant or (isinstance(value.fact, TensorFact) and value.fact.elements is not None)


def _binding(graph: Graph) -> str:
    """The options that bind the open extents of all inputs."""
    shapes = {
        value.name: value.fact.shape
        for value in graph.inputs
        if isinstance(value.fact, TensorFact) and value.fact.shape is not None and not value.fact.is_static
    }
    options = [f"--input {name}={shape}" for name, shape in examples(shapes).items()]
    more = len(options) - _MOST_SHOWN
    return " ".join(options[:_MOST_SHOWN]) + (f", and so on for {more} more" if more > 0 else "")


@dataclass(slots=True)
class _Ways:
    """The rules by which pages are said in a dialect, as far as they have been asked for, and what they have made."""

    dialect: str
    repetition: Repetition
    left: int
    """Nodes that may still be made."""
    rules: dict[Page, list[Callable[[Builder, Node], tuple[Value, ...] | None]]]


class _Unsupported(NamedTuple):
    """A node that a dialect does not support, the node of the graph that it is, or is made in place of, and why."""

    node: Node
    whole: Node
    reason: str
    error: BaseException | None = None
    """What a rule of ours stumbled over."""
    cause: str | None = None
    help: str | None = None
    is_secondary: bool = False

    @property
    def key(self) -> str:
        """What is told of it: the cause that it shares with others, or its own reason."""
        return self.cause or self.reason

    @property
    def nameless(self) -> str:
        """The reason without the names of the values that the node reads and makes."""
        values = (*self.node.operands, *self.node.results, *self.whole.operands, *self.whole.results)
        names = {value.name for value in values}
        return " ".join("…" if word.rstrip(",:;") in names else word for word in self.reason.split(" "))

    @property
    def op(self) -> str:
        """The operator of the graph."""
        return self.whole.op


def _wholes(failed: Sequence[_Unsupported]) -> Iterable[_Unsupported]:
    """One for each node of the graph and each reason."""
    return {(each.whole, each.reason): each for each in failed}.values()


def _lifted(graph: Graph, dialect: str) -> tuple[Graph, list[_Unsupported]]:
    """A copy in words of `dialect`, without what no output depends on; the nodes that have none, and why."""
    with paused_collection(), as_finding(f"writing as {dialect or 'onnx'}"):
        result = rewrite.copy(graph)
        rewrite.remove_dead(result)
        if dialect:
            drop_empty_operands(result)
        before_lifting(result, dialect)
        tried = _try(result, dialect)
        # Shape arithmetic that ended up in attributes has no reader any more.
        rewrite.remove_dead(result)
        failed = _without_lengths([each for each in tried if each.node.graph is not None])
        after_lifting(result, dialect)
    return result, [each for each in failed if each.node.graph is not None]


def _without_lengths(failed: list[_Unsupported]) -> list[_Unsupported]:
    """What cannot be said, but for arithmetic on lengths that only such nodes read: those are what it fails for."""
    nodes = {each.node for each in failed}
    silent: set[Node] = set()
    for each in reversed(failed):
        facts = [value.fact for value in each.node.results]
        computes_lengths = all(isinstance(fact, TensorFact) and fact.elements is not None for fact in facts)
        readers = {user for value in each.node.results for user in value.users}
        if computes_lengths and readers and readers <= nodes and not any(x.returns for x in each.node.results):
            silent.add(each.node)
    return [each for each in failed if each.node not in silent]


def _try(graph: Graph, dialect: str) -> list[_Unsupported]:
    """Say every node in `dialect`, and then those in the bodies of what could be said; what could not be said."""
    failed: list[_Unsupported] = []
    pending = [graph]
    ways = _Ways(dialect, Repetition(graph), budget.limit("write.nodes", MOST_MADE), {})
    while pending:
        current = pending.pop()
        for node in current:
            if node.dialect != dialect and not _repeat(current, node, ways):
                failed += _emit(current, node, ways)
        pending += [body for node in current if node.has_bodies and node.dialect == dialect for body in node.bodies()]
    return failed


def _repeat(graph: Graph, node: Node, ways: _Ways) -> bool:
    """Say a node as one like it was said, in words of the dialect alone; `False` where there was none."""
    repetition = ways.repetition
    key = None if node.dialect else repetition.key_to_lift(node)
    template = None if key is None else repetition.find(key)
    if template is None:
        return False
    repetition.repeat(graph, node, template)
    ways.left -= len(template.steps)
    if ways.left < 0:
        raise DiagnosticError(_too_many(node, ways.dialect))
    return True


def _emit(graph: Graph, node: Node, ways: _Ways) -> list[_Unsupported]:
    """Say `node` in the dialect; where a rule makes canonical operators of it, those in turn."""
    failed: list[_Unsupported] = []
    pending = [node]
    while pending:
        current = pending.pop()
        before = current.previous
        following = current.next
        refusal = _lift(graph, current, ways)
        if refusal is not None:
            reason = str(refusal) or "the shape of an operand is not known"
            part = reason if current is node else f"it is made of {current.op}, and {reason}"
            error = refusal if isinstance(refusal, FOUND) else None
            details = (None, None, False)
            if isinstance(refusal, UnsupportedError):
                details = (refusal.cause, refusal.help, refusal.is_secondary)
            failed.append(_Unsupported(current, node, part, error, *details))
            continue
        last = graph.last if following is None else following.previous
        while last is not None and last is not before:
            if not last.dialect:
                pending.append(last)
            last = last.previous
            ways.left -= last is not before
        if ways.left < 0:
            raise DiagnosticError(_too_many(node, ways.dialect))
    return failed


def _too_many(node: Node, dialect: str) -> Diagnostic:
    most = budget.limit("write.nodes", MOST_MADE)
    message = f"in words of {dialect or 'onnx'} the model would have more than {most} nodes beyond its own"
    return Diagnostic("LEG0008", message, node.origin, f"{budget.LIMITS}=write.nodes=N allows more")


def _age(graph: Graph, dialect: str, newest: int) -> None:
    """Say words that are newer than `newest` in older ones, and what those are made of too."""
    for inner in list(walk(graph)):
        pending = [node for node in inner if node.dialect == dialect]
        while pending:
            node = pending.pop()
            rule = None if node.graph is not inner else older(dialect, node.word, newest)
            if rule is None:
                continue
            before = node.previous
            stem = node.results[0].name if node.results else node.word
            builder = Builder(
                Inference(),
                inner,
                node,
                dialect=dialect,
                count=len(node.outputs),
                origin=node.unasked_origin,
                stem=stem,
            )
            try:
                answer = rule(builder, node)
            except (UnsupportedError, Unknown, Undecided, *FOUND):
                answer = None
            made = _made(node, before)
            if answer is not None:
                _take_over(inner, node, answer)
                pending += made
                continue
            for each in made:
                inner.remove(each)


def _made(node: Node, before: Node | None) -> list[Node]:
    """The nodes between `before` and `node`, the last one first."""
    found: list[Node] = []
    place = node.previous
    while place is not None and place is not before:
        found.append(place)
        place = place.previous
    return found


def _lift(graph: Graph, node: Node, ways: _Ways) -> Exception | None:
    """Replace `node` by words of the dialect, or say why not."""
    page = None if node.dialect else registry.pages().get(node.word)
    if page is None:
        reason = opaque.reason_of(node)
        return UnsupportedError(reason or f"it is a word of {node.dialect or 'no known dialect'}")
    key = ways.repetition.key_to_lift(node)
    template = None if key is None else ways.repetition.find(key)
    if template is not None:
        ways.repetition.repeat(graph, node, template)
        return None
    refusal: Exception = UnsupportedError("there is no word for it")
    rules = ways.rules.get(page)
    if rules is None:
        rules = ways.rules[page] = registry.liftings(ways.dialect, page)
    moment, looks_around = ways.repetition.moment(), False
    for rule in rules:
        stem = node.results[0].name if node.results else node.word
        builder = Builder(
            Inference(),
            graph,
            node,
            dialect=ways.dialect,
            count=len(node.outputs),
            origin=node.unasked_origin,
            stem=stem,
        )
        before = node.previous
        try:
            answer = rule(builder, node)
        except ShapeError as error:
            answer, refusal = None, UnsupportedError(str(error))
        except (UnsupportedError, Unknown, Undecided, *FOUND) as error:
            answer, refusal = None, error
        looks_around |= builder.looks_around
        if answer is not None:
            made = _made(node, before)[::-1]
            if key is not None and not looks_around and all(each.dialect for each in made):
                ways.repetition.remember(key, node, made, answer, moment)
            _take_over(graph, node, answer)
            return None
        rewrite.take_back(graph, before, node)
    return refusal


def _take_over(graph: Graph, node: Node, answer: tuple[Value | None, ...]) -> None:
    for index, old in enumerate(node.outputs):
        if old is None:
            continue
        new = answer[index] if index < len(answer) else None
        if new is None:
            message = f"the lifting of {node.op} gives no result {index}"
            raise ValueError(message)
        if new.producer is None or new in node.inputs or new.graph is not graph:
            if not old.is_output:
                old.replace_uses(new)
                continue
            # Both names are public, or the other one is not ours to change; this node is said when it comes to it.
            copy = Node("Identity", [new], [Value(graph.fresh(old.name), old.fact)], origin=node.unasked_origin)
            new = graph.insert_after(node, copy).output
        if new.producer is not None and not new.producer.name and old.index == 0:
            new.producer.name = node.name
        rewrite.swap_names(old, new)
        new.fact = old.fact
        if old.has_notes:
            new.notes.update(old.noted)
        old.replace_uses(new)
    graph.remove(node)
