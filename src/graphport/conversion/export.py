"""Conversion of a canonical graph to a dialect."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from graphport.conversion.empty_operands import drop_empty_operands, fold_empty_values
from graphport.conversion.hooks import after_export, before_export, older
from graphport.conversion.rule_cache import RuleCache
from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic, Undecided, examples
from graphport.core.facts import TensorFact, Unknown
from graphport.core.faults import FOUND, as_finding, stumbled
from graphport.core.garbage_collection import paused_collection
from graphport.ir import opaque, rewrite
from graphport.ir.graph import Node, Value, walk
from graphport.ops import registry
from graphport.ops.bind import batch_of
from graphport.ops.builder import Builder
from graphport.ops.declare import ElementTypeError, ShapeError, UnsupportedError
from graphport.ops.infer import Inference
from graphport.ops.type_variables import bind

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.ops.declare import OpDef


_OTHER_FORMAT = "choose another format"
_BIND = "set the symbolic dims, for example"
_SHAPE = re.compile(r"\[[^\]]*\]")
_MAX_LISTED = 6  # inputs listed in a remedy
ONE_EACH: Mapping[str, int] = MappingProxyType({})
MOST_MADE = 1 << 18
"""Default of the limit `write.nodes`: the maximal number of nodes that an export may add."""


class Remedies(NamedTuple):
    """Limits of the remedies of unsupported operators."""

    names: Container[str] | None = None
    """Names of values that `graphport cut` accepts; `None` permits all values of the graph."""
    unhelped: frozenset[str] = frozenset()
    """Operators that stay unsupported with bound dims."""


def export_graph(
    graph: Graph, dialect: str, *, newest: int | None = None, remedies: Remedies | None = None
) -> tuple[Graph, list[Diagnostic]]:
    """Convert a copy of the canonical `graph` to `dialect`. Return it with the findings.

    For a dialect with versioned op types, those newer than `newest` are lowered to older ones where possible.

    Values keep their names. Each finding (LEG0002, an error) covers all nodes of one operator and reason; a graph with
    a finding must not be written. Findings contain the remedies that `remedies` permits.

    Raises:
        DiagnosticError: LEG0008 the result would be far larger than `graph`.
    """
    result, failed = _export_copy(graph, dialect)
    if newest is not None:
        _lower_versions(result, dialect, newest)
    stumbles = [
        stumbled(f"the rule that writes {each.op} as {dialect or 'onnx'}", each.error, each.node.origin)
        for each in _unique_failures(failed)
        if each.error is not None
    ]
    failed = [each for each in failed if each.error is None]
    failed = _primary(failed)
    binding = _binding(graph)
    computed = _computed_from_extents(graph) if failed and binding else set[str]()
    known = remedies or Remedies()
    names = known.names if known.names is not None else {value.name for value in graph.values()}
    waiting = {
        (each.op, each.key)
        for each in failed
        if binding
        and each.op not in known.unhelped
        and (_may_wait_for_extents(each.whole, dialect) or _result_names(each.whole) & computed)
    }
    shared = [each for each in failed if each.cause]
    alone = [each for each in failed if not each.cause]
    cuts = _Cuts(names, {name for each in failed for name in _result_names(each.whole)})
    remedy = partial(_remedy, dialect=dialect, cuts=cuts)
    findings = [
        *_of_causes(shared, dialect, waiting, binding, remedy),
        *_of_nodes(alone, dialect, waiting, binding, remedy),
    ]
    return result, [*findings, *stumbles]


def _of_causes(
    failed: Sequence[_Unsupported],
    dialect: str,
    waiting: Container[tuple[str, str]],
    binding: str,
    remedy: Callable[[_Unsupported, str], str],
) -> list[Diagnostic]:
    """Return one finding for each cause that several unsupported nodes share."""
    groups: dict[str, dict[Node, _Unsupported]] = {}
    for each in failed:
        groups.setdefault(each.key, {}).setdefault(each.whole, each)
    findings: list[Diagnostic] = []
    for cause, nodes in groups.items():
        counts = Counter(each.op for each in nodes.values()).most_common()
        listed = ", ".join(f"{op} ({count})" for op, count in counts[:_MAX_LISTED])
        more = f" and {len(counts) - _MAX_LISTED} more" if len(counts) > _MAX_LISTED else ""
        one = next(iter(nodes.values()))
        is_waiting = any((op, cause) in waiting for op, _ in counts)
        what = "unsupported operator" if len(counts) == 1 else "unsupported operators"
        message = f"{dialect or 'onnx'}: {what} {listed}{more}: {cause}"
        help_ = remedy(one, binding if is_waiting else "")
        findings.append(Diagnostic("LEG0002", message, one.node.origin, help_))
    return findings


def _of_nodes(
    failed: Sequence[_Unsupported],
    dialect: str,
    waiting: Container[tuple[str, str]],
    binding: str,
    remedy: Callable[[_Unsupported, str], str],
) -> list[Diagnostic]:
    """Return one finding for each operator and reason without value names, located at the first of these nodes."""
    counts = Counter((each.op, each.nameless) for each in _unique_failures(failed))
    first = {(each.op, each.nameless): each for each in reversed(failed)}
    return [
        Diagnostic(
            "LEG0002",
            f"{dialect or 'onnx'}: unsupported operator {each.op} ({count}): {each.reason}",
            each.node.origin,
            remedy(each, binding if (each.op, each.reason) in waiting else ""),
        )
        for each, count in ((first[alike], count) for alike, count in counts.items())
    ]


def _remedy(failed: _Unsupported, binding: str, *, dialect: str, cuts: _Cuts) -> str:
    """Return the remedy: that of the rule, bound symbolic dims, another dialect of the format, or another format."""
    if failed.help:
        return failed.help
    op_def = None if failed.whole.dialect else registry.op_defs().get(failed.whole.op_type)
    other = None if op_def is None else registry.option_with_export_rule(dialect, op_def)
    if binding:
        return f"{_BIND} {binding}" + (f"; or {other}, which supports it" if other else "")
    return f"{other} supports it" if other else _other_format_or_cut(failed.whole, cuts)


class _Cuts(NamedTuple):
    """Names of values at which the model can be cut (`--outputs`), and of results of unsupported nodes."""

    names: Container[str]
    unsupported: Container[str]


def _other_format_or_cut(node: Node, cuts: _Cuts) -> str:
    """Return the last remedy: another format, or a cut before the node if the nodes before it are supported."""
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is not None and op_def.quantizes:
        return f"graphport dequantize converts the model back to float; or {_OTHER_FORMAT}"
    computed = [x for x in node.operands if x.producer is not None and _depends_on_input(x)]
    if not computed or node.graph is None or node.graph is not node.graph.root:
        return _OTHER_FORMAT
    if any(x.name not in cuts.names or any(y.name in cuts.unsupported for y in _sources(x)) for x in computed):
        return _OTHER_FORMAT
    listed = ",".join(list(dict.fromkeys(x.name for x in computed))[:_MAX_LISTED])
    return f"{_OTHER_FORMAT}, or export the part before it: graphport cut MODEL PART --to {listed}"


def _depends_on_input(value: Value) -> bool:
    """Whether a value depends on an input of the graph."""
    return any(source.is_input for source in _sources(value))


def _sources(value: Value) -> set[Value]:
    """Return the value and all values that it is computed from."""
    found, pending = {value}, [value]
    while pending:
        producer = pending.pop().producer
        added = set[Value]() if producer is None else set(producer.operands) - found
        found |= added
        pending += added
    return found


def unsupported(graph: Graph, dialect: str, stands_for: Mapping[str, int] = ONE_EACH) -> dict[str, int]:
    """Count the nodes of each operator that `dialect` does not support, weighted by `stands_for`."""
    _, failed = _export_copy(graph, dialect)
    counts: Counter[str] = Counter()
    for whole in {each.whole: None for each in _primary(failed)}:
        counts[whole.op] += stands_for.get(whole.results[0].name, 1) if whole.results else 1
    return dict(counts)


def _primary(failed: list[_Unsupported]) -> list[_Unsupported]:
    """Drop the nodes that are unsupported only because of other nodes, unless there are no others."""
    return [each for each in failed if not each.is_secondary] or failed


def unsupported_results(graph: Graph, dialect: str) -> dict[str, str]:
    """Return the names of the results of unsupported nodes, with the reasons."""
    _, failed = _export_copy(graph, dialect)
    return {name: each.reason for each in failed for name in _result_names(each.whole)}


def refusals(graph: Graph, dialect: str) -> Counter[tuple[str, str]]:
    """Count the unsupported nodes by operator and reason, without names and shapes in the reason."""
    _, failed = _export_copy(graph, dialect)
    return Counter((each.op, _SHAPE.sub("[]", each.nameless)) for each in _unique_failures(failed))


def _may_wait_for_extents(node: Node, dialect: str) -> bool:
    """Whether an unsupported node may become supported once the symbolic dims of the inputs are bound.

    Shape arithmetic becomes constant then, and an existing export rule may accept the constants.
    """
    facts = [value.fact for value in (*node.operands, *node.results) if isinstance(value.fact, TensorFact)]
    results = [value.fact for value in node.results]
    if not any(isinstance(dim, Symbolic) for fact in facts for dim in (*(fact.shape or ()), *(fact.elements or ()))):
        return False
    if all(isinstance(fact, TensorFact) and fact.elements is not None for fact in results):
        return True
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    return op_def is not None and bool(registry.export_rules(dialect, op_def))


def _result_names(node: Node) -> set[str]:
    return {value.name for value in node.results}


def _computed_from_extents(graph: Graph) -> set[str]:
    """Return the names of values computed from dims and constants alone (constant for static inputs)."""
    found: set[Value] = set()
    for node in graph:
        operands = node.operands
        if operands and not node.has_bodies and all(x in found or _has_known_elements(x) for x in operands):
            found.update(node.results)
    return {value.name for value in found}


def _has_known_elements(value: Value) -> bool:
    """Whether a value is a constant or its fact contains the elements."""
    return value.is_constant or (isinstance(value.fact, TensorFact) and value.fact.elements is not None)


def _binding(graph: Graph) -> str:
    """Return the options that bind the symbolic dims of all inputs."""
    shapes = {
        value.name: value.fact.shape
        for value in graph.inputs
        if isinstance(value.fact, TensorFact) and value.fact.shape is not None and not value.fact.is_static
    }
    options = [f"--input {name}={shape}" for name, shape in examples(shapes, batch_of(graph)).items()]
    more = len(options) - _MAX_LISTED
    return " ".join(options[:_MAX_LISTED]) + (f", and so on for {more} more" if more > 0 else "")


@dataclass(slots=True)
class _ExportState:
    """The state of one export: facts, the cached export rules of each operator, recorded lowerings and the node limit.

    The rules share one inference: a new one visits all inputs of the graph.
    """

    dialect: str
    repetition: RuleCache
    left: int
    """Number of nodes that may still be added."""
    rules: dict[OpDef, list[Callable[[Builder, Node], tuple[Value, ...] | None]]]
    inference: Inference


class _Unsupported(NamedTuple):
    """An unsupported node: `whole` is the node of the source graph, `node` itself or a part of its lowering."""

    node: Node
    whole: Node
    reason: str
    error: BaseException | None = None
    """The exception if the export rule itself failed."""
    cause: str | None = None
    help: str | None = None
    is_secondary: bool = False

    @property
    def key(self) -> str:
        """The shared cause if there is one, else the reason; findings are grouped by it."""
        return self.cause or self.reason

    @property
    def nameless(self) -> str:
        """The reason without the names of operands and results."""
        values = (*self.node.operands, *self.node.results, *self.whole.operands, *self.whole.results)
        names = {value.name for value in values}
        return " ".join("…" if word.rstrip(",:;") in names else word for word in self.reason.split(" "))

    @property
    def op(self) -> str:
        """The operator in the source graph."""
        return self.whole.op


def _unique_failures(failed: Sequence[_Unsupported]) -> Iterable[_Unsupported]:
    """Return one entry for each source node and reason."""
    return {(each.whole, each.reason): each for each in failed}.values()


def _export_copy(graph: Graph, dialect: str) -> tuple[Graph, list[_Unsupported]]:
    """Export a copy of `graph` without dead code. Return it with the unsupported nodes."""
    with paused_collection(), as_finding(f"writing as {dialect or 'onnx'}"):
        result = rewrite.copy(graph)
        rewrite.remove_dead(result)
        if dialect:
            _expand_domains(result)
            drop_empty_operands(result)
            fold_empty_values(result, dialect)
        before_export(result, dialect)
        tried = _export_nodes(result, dialect)
        # Shape arithmetic that was folded into attributes has no consumer any more.
        rewrite.remove_dead(result)
        failed = _without_shape_arithmetic([each for each in tried if each.node.graph is not None])
        after_export(result, dialect)
    return result, [each for each in failed if each.node.graph is not None]


def _expand_domains(graph: Graph) -> None:
    """Replace the nodes of ONNX's other domains that have canonical operators for other formats."""
    inference = Inference()
    for inner in list(walk(graph)):
        for node in list(inner):
            rule = registry.expansion(node.dialect, node.op_type) if node.dialect else None
            if rule is None:
                continue
            before, stem = node.previous, node.results[0].name
            builder = Builder(inference, inner, node, count=len(node.outputs), origin=node.unasked_origin, stem=stem)
            try:
                answer = registry.lowered(rule, builder, node.inputs, node.attributes)
            except (UnsupportedError, Unknown, Undecided, ShapeError) as error:
                rewrite.take_back(inner, before, node)
                opaque.mark(node, str(error) or "the rank of an operand is unknown")
                continue
            _take_over(inner, node, tuple(answer))


def _without_shape_arithmetic(failed: list[_Unsupported]) -> list[_Unsupported]:
    """Drop the unsupported shape arithmetic that only unsupported nodes use: it fails because of its consumers."""
    nodes = {each.node for each in failed}
    silent: set[Node] = set()
    for each in reversed(failed):
        facts = [value.fact for value in each.node.results]
        computes_lengths = all(isinstance(fact, TensorFact) and fact.elements is not None for fact in facts)
        readers = {user for value in each.node.results for user in value.users}
        if computes_lengths and readers and readers <= nodes and not any(x.returns for x in each.node.results):
            silent.add(each.node)
    return [each for each in failed if each.node not in silent]


def _export_nodes(graph: Graph, dialect: str) -> list[_Unsupported]:
    """Export every node, then the nodes in the bodies of exported nodes. Return the unsupported nodes."""
    failed: list[_Unsupported] = []
    pending = [graph]
    state = _ExportState(dialect, RuleCache(graph), budget.limit("write.nodes", MOST_MADE), {}, Inference())
    while pending:
        current = pending.pop()
        for node in current:
            if node.dialect != dialect:
                key = None if node.dialect else state.repetition.export_key(node)
                if not _repeat(current, node, state, key):
                    failed += _emit(current, node, state, key)
        pending += [body for node in current if node.has_bodies and node.dialect == dialect for body in node.bodies()]
    return failed


def _repeat(graph: Graph, node: Node, state: _ExportState, key: Hashable) -> bool:
    """Apply the recorded export of a node with an equal key. Return `False` if there is none."""
    template = None if key is None else state.repetition.find(key)
    if template is None:
        return False
    state.repetition.repeat(graph, node, template)
    state.left -= len(template.steps)
    if state.left < 0:
        raise DiagnosticError(_too_many(node, state.dialect))
    return True


def _emit(graph: Graph, node: Node, state: _ExportState, key: Hashable) -> list[_Unsupported]:
    """Export `node`; export the canonical operators in the result of a rule in turn. Return the unsupported nodes."""
    failed: list[_Unsupported] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if current is not node:
            key = state.repetition.export_key(current)
            if _repeat(graph, current, state, key):
                continue
        before = current.previous
        following = current.next
        refusal = _export_node(graph, current, state, key)
        if refusal is not None:
            reason = str(refusal) or "the shape of an operand is unknown"
            part = reason if current is node else f"its lowering contains {current.op}: {reason}"
            error = refusal if isinstance(refusal, FOUND) else None
            details = (None, None, False)
            if isinstance(refusal, UnsupportedError):
                details = (refusal.cause, refusal.help, refusal.is_secondary)
            elif not str(refusal):
                # The shape is unknown because the producer is not supported, which is reported.
                producers = {value.producer for value in current.operands} - {None}
                details = (None, None, any(each is not None and each.dialect != state.dialect for each in producers))
            failed.append(_Unsupported(current, node, part, error, *details))
            continue
        last = graph.last_node if following is None else following.previous
        while last is not None and last is not before:
            if not last.dialect:
                pending.append(last)
            last = last.previous
            state.left -= last is not before
        if state.left < 0:
            raise DiagnosticError(_too_many(node, state.dialect))
    return failed


def _too_many(node: Node, dialect: str) -> Diagnostic:
    most = budget.limit("write.nodes", MOST_MADE)
    message = f"the export to {dialect or 'onnx'} would add more than {most} nodes"
    return Diagnostic("LEG0008", message, node.origin, f"set {budget.LIMITS}=write.nodes=N to raise the limit to N")


def _lower_versions(graph: Graph, dialect: str, newest: int) -> None:
    """Lower op types newer than `newest` to older ones, repeatedly."""
    inference = Inference()
    for inner in list(walk(graph)):
        pending = [node for node in inner if node.dialect == dialect]
        while pending:
            node = pending.pop()
            rule = None if node.graph is not inner else older(dialect, node.op_type, newest)
            if rule is None:
                continue
            before = node.previous
            stem = node.results[0].name if node.results else node.op_type
            inference.start_rule()
            builder = Builder(
                inference,
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
            made = _nodes_between(node, before)
            if answer is not None:
                _take_over(inner, node, answer)
                pending += made
                continue
            for each in made:
                inner.remove(each)


def _nodes_between(node: Node, before: Node | None) -> list[Node]:
    """Return the nodes between `before` and `node`, the last one first."""
    found: list[Node] = []
    place = node.previous
    while place is not None and place is not before:
        found.append(place)
        place = place.previous
    return found


def _export_node(graph: Graph, node: Node, state: _ExportState, key: Hashable) -> Exception | None:
    """Replace `node` by its export, and cache it as `key`; or return the reason why it is not possible."""
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is None:
        reason = opaque.reason_of(node)
        return UnsupportedError(reason or f"it belongs to the dialect {node.dialect or 'no known dialect'}")
    if (violation := _violation(op_def, node, state.inference)) is not None:
        return violation
    refusal: Exception = UnsupportedError("no export rule exists")
    rules = state.rules.get(op_def)
    if rules is None:
        rules = state.rules[op_def] = registry.export_rules(state.dialect, op_def)
    state_before, looks_around = state.repetition.state_before(), False
    for rule in rules:
        stem = node.results[0].name if node.results else node.op_type
        state.inference.start_rule()
        builder = Builder(
            state.inference,
            graph,
            node,
            dialect=state.dialect,
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
        if answer is not None and (missing := _missing_result(node, answer)) is not None:
            answer, refusal = None, UnsupportedError(f"result {missing} of {node.op} has no equivalent")
        if answer is not None:
            made = _nodes_between(node, before)[::-1]
            if key is not None and not looks_around and all(each.dialect for each in made):
                state.repetition.remember(key, node, made, answer, state_before)
            _take_over(graph, node, answer)
            return None
        rewrite.take_back(graph, before, node)
    return refusal


def _violation(op_def: OpDef, node: Node, inference: Inference) -> UnsupportedError | None:
    """Return the violated signature or shape rule of a node that lacks an operand or the shape of a result.

    Export rules rely on both. A dtype that only ONNX forbids is no violation.
    """
    operands = [None if value is None else value.fact for value in node.inputs]
    is_complete = len(operands) >= op_def.signature.least and None not in operands
    if is_complete and not any(isinstance(x.fact, TensorFact) and x.fact.shape is None for x in node.results):
        return None
    try:
        if node.has_bodies:
            bind(op_def, operands)
        else:
            inference.answer(op_def, operands, node.stated, len(node.outputs))
    except ShapeError as error:
        if isinstance(error, ElementTypeError) and not error.is_index:
            return None
        return UnsupportedError(error.message, help=error.help)
    except (UnsupportedError, Unknown, Undecided, *FOUND):
        return None
    return None


def _missing_result(node: Node, answer: tuple[Value | None, ...]) -> int | None:
    """Return the index of the first result of `node` that the rule did not compute; `None` without one."""
    for index, old in enumerate(node.outputs):
        if old is not None and (index >= len(answer) or answer[index] is None):
            return index
    return None


def _take_over(graph: Graph, node: Node, answer: tuple[Value | None, ...]) -> None:
    for index, old in enumerate(node.outputs):
        if old is None:
            continue
        new = answer[index]
        if new is None:
            continue
        if new.producer is None or new in node.inputs or new.graph is not graph:
            if not old.is_output:
                old.replace_uses(new)
                continue
            # Both names are public, or the value belongs to another graph; the Identity is exported when it is visited.
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
