"""Decide which nodes may be quantized, which remain float, and which compute shapes or indices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node, Value, walk
from graphport.ir.search import nodes_on_paths
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from graphport.ir.graph import Graph
    from graphport.ops.declare import OpDef


class ComputeDomain(StrEnum):
    """Where a node is computed."""

    QUANTIZED = "quantized"
    FLOATING = "floating"
    INDEX = "index"


class Method(StrEnum):
    """How far quantization spreads from operators with weights."""

    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"
    ALL_IN = "all-in"
    POINTWISE = "pointwise"
    BETWEEN_CONVOLUTIONS = "between-convolutions"
    CLOSURE = "closure"


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on one node, with its reason."""

    place: ComputeDomain
    reason: str
    is_asked: bool = False
    """Whether the user named the node."""


Decisions: TypeAlias = "dict[Node, Decision]"


def dispatch(
    graph: Graph,
    method: Method | str = Method.CONSERVATIVE,
    *,
    operators: Collection[str] | None = None,
    floating: Collection[str] = (),
    quantized: Collection[str] = (),
) -> Decisions:
    """Return a decision for each node of a canonical graph, including bodies, in graph order.

    Args:
        graph: prepared; facts are set.
        method: how far quantization spreads.
            `conservative`: operators with weights, and quantizable operators downstream of them.
            `aggressive`: all quantizable operators downstream, across other operators.
            `all-in`: every quantizable operator.
            `pointwise`: operators with weights only.
            `between-convolutions`: nodes on a path between two convolutions.
            `closure`: nodes connected to an operator with weights, upstream and downstream.
        operators: operators that the target quantizes; by default all that their definition marks as quantizable.
        floating: names of nodes, or of their first results, that stay float with any method.
        quantized: names of nodes that are quantized with any method.

    Raises:
        DiagnosticError: QUANT0101 no node has such a name, QUANT0102 a node named for quantization computes shapes or
            indices or is in a body, QUANT0103 unknown method.
    """
    worker = _Dispatcher(graph, operators)
    method = _method(method)
    chosen = worker.select_nodes(method)
    decisions = {node: worker.decide(node, chosen, method) for inner in walk(graph) for node in inner}
    _override(decisions, floating, quantized)
    return decisions


_ELSEWHERE = {
    "aggresive": Method.AGGRESSIVE,
    "allin": Method.ALL_IN,
    "pplnn": Method.BETWEEN_CONVOLUTIONS,
    "perseus": Method.CLOSURE,
}
"""Names of PPQ's dispatchers."""


def _method(name: Method | str) -> Method:
    try:
        return Method(name)
    except ValueError:
        pass
    near = _ELSEWHERE.get(name) or next(iter(get_close_matches(name, list(Method), 1)), None)
    meant = "" if near is None else f"did you mean {str(near)!r}? Available "
    message = f"unknown dispatch method {name!r}"
    raise DiagnosticError(Diagnostic("QUANT0103", message, None, f"{meant}methods:  {', '.join(Method)}"))


def counts(decisions: Mapping[Node, Decision]) -> dict[ComputeDomain, int]:
    """Count nodes by decision."""
    found = Counter(decision.place for decision in decisions.values())
    return {place: found[place] for place in ComputeDomain}


def remains(decisions: Mapping[Node, Decision]) -> list[tuple[str, str, int]]:
    """Count the float nodes by operator and reason, most frequent first."""
    found = Counter((node.op, d.reason) for node, d in decisions.items() if d.place is ComputeDomain.FLOATING)
    return [(op, reason, count) for (op, reason), count in found.most_common()]


def as_text(decisions: Mapping[Node, Decision]) -> str:
    """Format a line per node: operator, name, decision and reason."""
    rows = [(node.op, node.name or _result_name(node), str(d.place), d.reason) for node, d in decisions.items()]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    )


class _Dispatcher:
    def __init__(self, graph: Graph, operators: Collection[str] | None) -> None:
        self.graph = graph
        self.operators = operators
        self.index = _index_nodes(graph)

    def is_quantizable(self, node: Node) -> bool:
        """Whether the target quantizes the operator, and the node computes floats."""
        op_def = _op_def(node)
        if op_def is None or node in self.index or any(True for _ in node.bodies()):
            return False
        if op_def.role in ("none", "index") or (self.operators is not None and node.op not in self.operators):
            return False
        return any(_is_float(value) for value in node.results)

    def is_weighted(self, node: Node) -> bool:
        """Whether the node is a quantizable operator with weights."""
        op_def = _op_def(node)
        return op_def is not None and op_def.role == "weighted" and self.is_quantizable(node)

    def select_nodes(self, method: Method) -> set[Node]:
        """Return the nodes that `method` quantizes."""
        match method:
            case Method.CONSERVATIVE:
                found = self._nodes_on_paths(self.is_quantizable)
            case Method.AGGRESSIVE:
                found = self._nodes_on_paths(lambda node: node not in self.index)
            case Method.ALL_IN:
                found = list(self.graph)
            case Method.POINTWISE:
                found = [node for node in self.graph if self.is_weighted(node)]
            case Method.BETWEEN_CONVOLUTIONS:
                found = self._on_convolution_paths()
            case Method.CLOSURE:
                found = self._connected()
        return {node for node in found if self.is_quantizable(node)}

    def _nodes_on_paths(self, relay: Callable[[Node], bool]) -> list[Node]:
        return nodes_on_paths(self.graph, self.is_weighted, None, relay=relay, step=_gives_reals)

    def _on_convolution_paths(self) -> list[Node]:
        return nodes_on_paths(
            self.graph,
            self._is_convolution,
            self._is_convolution,
            relay=lambda node: node not in self.index,
            step=_gives_reals,
        )

    def _is_convolution(self, node: Node) -> bool:
        op_def = _op_def(node)
        return op_def is not None and ".convolution" in op_def.function.__module__ and self.is_weighted(node)

    def _connected(self) -> list[Node]:
        found: dict[Node, None] = {}
        pending = [node for node in self.graph if self.is_weighted(node)]
        while pending:
            node = pending.pop()
            if node in found or node in self.index:
                continue
            found[node] = None
            above = [value.producer for i, value in enumerate(node.inputs) if value is not None and _is_data(node, i)]
            below = [use.user for value in node.results for use in value.uses]
            near = [other for other in [*above, *below] if isinstance(other, Node) and other.graph is self.graph]
            pending += [other for other in near if _gives_reals(node, other) or _gives_reals(other, node)]
        return list(found)

    def decide(self, node: Node, chosen: Collection[Node], method: Method) -> Decision:
        """Decide where `node` is computed if the method selects `chosen` nodes."""
        op_def = _op_def(node)
        if node in self.index:
            return Decision(ComputeDomain.INDEX, "it computes shapes, axes or indices")
        if node in chosen:
            return Decision(ComputeDomain.QUANTIZED, _ROLES.get("" if op_def is None else op_def.role, _CHOSEN[method]))
        return Decision(ComputeDomain.FLOATING, self._reason(node, op_def, method))

    def _reason(self, node: Node, op_def: OpDef | None, method: Method) -> str:
        if node.graph is not self.graph:
            return _where(node)
        if op_def is None:
            return "the operator is unknown"
        if any(True for _ in node.bodies()):
            return "it has subgraphs"
        if not any(_is_float(value) for value in node.results):
            return "its results are not floats"
        if op_def.role in ("none", "index"):
            return "the operator is not quantizable"
        if self.operators is not None and node.op not in self.operators:
            return "the target does not quantize the operator"
        return _UNCHOSEN[method]


_UNCHOSEN: dict[Method, str] = {
    Method.CONSERVATIVE: "no operator with weights precedes it",
    Method.AGGRESSIVE: "no operator with weights precedes it",
    Method.ALL_IN: "it is outside of the quantized part",
    Method.POINTWISE: "it has no weights",
    Method.BETWEEN_CONVOLUTIONS: "it is not between two convolutions",
    Method.CLOSURE: "it is not connected to an operator with weights",
}

_CHOSEN: dict[Method, str] = {
    Method.CONSERVATIVE: "it depends on an operator with weights",
    Method.AGGRESSIVE: "it depends on an operator with weights",
    Method.ALL_IN: "the operator is quantizable",
    Method.POINTWISE: "it has weights",
    Method.BETWEEN_CONVOLUTIONS: "it is between two convolutions",
    Method.CLOSURE: "it is connected to an operator with weights",
}

_ROLES: dict[str, str] = {"weighted": "it has weights", "passive": "it moves quantized data"}


def _where(node: Node) -> str:
    """Return the reason why a node in a body is not quantized: values in bodies are not observed."""
    body = node.graph
    holder = None if body is None else body.parent
    if holder is None:
        return "it is not in the graph"
    name = next((name for name, attribute in holder.attributes.items() if attribute is body), "body")
    stated = f"{holder.op} {holder.name or _result_name(holder)}".rstrip()
    return f"it is in the subgraph {name} of {stated}, whose values are not observed"


def _override(decisions: Decisions, floating: Collection[str], quantized: Collection[str]) -> None:
    names: dict[str, list[Node]] = {}
    for node in decisions:
        for name in dict.fromkeys([node.name, _result_name(node)]):
            if name:
                names.setdefault(name, []).append(node)
    findings = [
        Diagnostic(
            "QUANT0101",
            f"unknown node {name!r}: no node of the prepared model, or first result of a node, has this name",
            None,
            _like(name, names),
        )
        for name in [*floating, *quantized]
        if name not in names
    ]
    for name in quantized:
        for node in names.get(name, ()):
            if decisions[node].place is ComputeDomain.INDEX or _is_inside(node):
                message = f"{name!r} cannot be quantized: {decisions[node].reason}"
                findings.append(Diagnostic("QUANT0102", message, node.origin, "remove it from the list"))
            decisions[node] = Decision(ComputeDomain.QUANTIZED, "the settings request it", is_asked=True)
    for name in floating:
        for node in names.get(name, ()):
            decisions[node] = Decision(ComputeDomain.FLOATING, "the settings keep it", is_asked=True)
    if findings:
        raise DiagnosticError(*findings)


def _like(name: str, known: Collection[str]) -> str:
    """Suggest similar names; preparation merges nodes into preceding ones."""
    near = get_close_matches(name, known, n=3) or [*known][:3]
    stated = f"choose one of {', '.join(map(repr, near))}{', …' if len(known) > len(near) else ''}" if near else ""
    return f"{stated or 'the model has no nodes'}; a fused node has the name of the node that absorbed it"


def _is_inside(node: Node) -> bool:
    return node.graph is not None and node.graph.parent is not None


def _result_name(node: Node) -> str:
    return node.results[0].name if node.results else ""


def _op_def(node: Node) -> OpDef | None:
    return None if node.dialect else registry.op_defs().get(node.op_type)


def _is_float(value: Value) -> bool:
    fact = value.fact
    return not isinstance(fact, TensorFact) or fact.dtype is None or fact.dtype.is_floating


def _is_data(node: Node, index: int) -> bool:
    """Whether operand `index` is data rather than a shape, axes, indices or counts."""
    op_def = _op_def(node)
    operand = None if op_def is None else op_def.signature.operand(index)
    return op_def is None or operand is None or operand.name not in op_def.index_operands


def _gives_reals(node: Node, reader: Node) -> bool:
    """Whether `reader` uses a float result of `node` as data."""
    return any(
        value is not None and value.producer is node and _is_float(value) and _is_data(reader, index)
        for index, value in enumerate(reader.inputs)
    )


# Shapes and indices


def _index_nodes(graph: Graph) -> set[Node]:
    """Return nodes that compute only shapes, axes, indices and counts, of the graph and its bodies.

    These are the nodes downstream of shapes only, and nodes whose results are used only as shapes or indices. Nodes
    that compute on data with weights are excluded.
    """
    found = {node for inner in walk(graph) for node in _shape_nodes_downstream(inner)}
    for inner in walk(graph):
        found |= _shape_nodes_upstream(inner, found)
    return found


def _shape_nodes_downstream(graph: Graph) -> set[Node]:
    found: set[Node] = set()
    for node in graph:
        op_def = _op_def(node)
        if op_def is None or any(True for _ in node.bodies()):
            continue
        computed = [value for value in node.operands if not value.is_constant]
        follows = bool(computed) and all(value.producer in found for value in computed)
        if op_def.role == "index" or (follows and op_def.role != "weighted"):
            found.add(node)
    return found


def _shape_nodes_upstream(graph: Graph, ahead: Collection[Node]) -> set[Node]:
    found: set[Node] = set()
    for node in reversed(graph):
        op_def = _op_def(node)
        if node in ahead or op_def is None or op_def.role == "weighted" or any(True for _ in node.bodies()):
            continue
        uses = [use for value in node.results for use in value.uses]
        if uses and all(isinstance(user, Node) and _reads_index(user, i, found) for user, i in uses):
            found.add(node)
    return found


def _reads_index(user: Node, index: int, found: Collection[Node]) -> bool:
    return not _is_data(user, index) or user in found
