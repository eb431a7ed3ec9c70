"""Inlining of a model's own functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.core import budget
from graphport.core.diagnostics import Source
from graphport.core.facts import UNKNOWN
from graphport.formats.onnx.container import domains, schema
from graphport.formats.onnx.container.findings import Findings, listed
from graphport.formats.onnx.container.notes import KEY, MODEL, ModelNotes, NodeNotes, noted
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.formats.onnx.container.notes import Function
    from graphport.ir.graph import Attribute

MOST_NODES = 200_000
"""Nodes that inlining may create in any model: functions that call each other twice double the count at each level."""

MOST_GROWTH = 20
"""Alternative limit, as a multiple of the file's nodes."""

_REMEDY = (
    "set GRAPHPORT_LIMITS=onnx.inlined=N to allow N; "
    "each level of functions that call the next one twice doubles the count"
)

Key = tuple[str, str, str]


def inline_functions(graph: Graph, most_nodes: int | None = None) -> int:
    """Inline every call of a model function, at any depth, and remove the functions; return the number of calls.

    Before  y = my.domain.F(x, alpha=2.0)   with   F(x) { t = Elu(x, alpha=@alpha); return Neg(t) }
    After   t = Elu(x, alpha=2.0);  y = Neg(t)

    Results of the call keep their names. An attribute missing in the call takes the function's default, or is absent.

    Raises:
        DiagnosticError: ONNX0501 a function calls itself, ONNX0502 it needs a version of an operator that the model
            does
            not import, ONNX0504 more than `most_nodes` nodes (by default `MOST_NODES`, or `MOST_GROWTH` times those of
            the file). The graph is then unchanged.
    """
    notes = noted(graph, ModelNotes, MODEL)
    if notes is None or not notes.functions:
        return 0
    functions = {function.key: function for function in notes.functions}
    findings = Findings(Source(_file(graph)))
    if most_nodes is None:
        written = sum(len(body) for each in [graph, *(f.body for f in functions.values())] for body in walk(each))
        most_nodes = max(budget.limit("onnx.inlined", MOST_NODES), MOST_GROWTH * written)
    _check(graph, functions, most_nodes, findings)
    findings.raise_errors()
    for function in functions.values():
        for dialect, version in function.body.opsets.items():
            graph.opsets.setdefault(dialect, version)
    count = 0
    pending = [graph]
    while pending:
        # Nodes are inserted after the call, so this loop also visits inserted calls.
        for node in pending.pop():
            function = functions.get(_key(node))
            if function is None:
                pending.extend(node.bodies())
            else:
                _expand(node, function)
                count += 1
    graph.notes[MODEL] = replace(notes, functions=())
    return count


def _expand(call: Node, function: Function) -> None:
    """Insert the nodes of a function after the call, and replace the call's results."""
    graph = call.graph
    if graph is None:
        return
    stem = call.name or function.name
    known: dict[Value, Value | None] = {value: call.operand(i) for i, value in enumerate(function.body.inputs)}
    place = call
    for node in function.body:
        results = [None if value is None else Value(graph.fresh(f"{stem}/{value.name}")) for value in node.outputs]
        known.update((old, new) for old, new in zip(node.outputs, results, strict=True) if old is not None)
        twin = _copied(node, known, results, graph)
        twin.name = f"{stem}/{node.name}" if node.name else ""
        _resolve(twin, call, function)
        place = graph.insert_after(place, twin)
    given = set(call.operands)
    for old, inner in zip(call.outputs, function.body.outputs, strict=False):
        new = known.get(inner)
        if old is None or new is None:
            continue
        if new in given:
            # An operand that is returned unchanged, or a result that is returned twice.
            new = Value(graph.fresh(f"{stem}/{new.name}"))
            place = graph.insert_after(place, Node("Identity", [known[inner]], [new], dialect=domains.DEFAULT))
        given.add(new)
        _take_over(old, new)
    graph.remove(call)


def _copied(node: Node, known: Mapping[Value, Value | None], results: list[Value | None], graph: Graph) -> Node:
    """Copy a function's node with the call's operands; names in its bodies are unique in `graph`."""
    read = {value: known[value] for value in [*node.operands, *rewrite.captured(node)]}
    twin = rewrite.copy_node(node, {old: new for old, new in read.items() if new is not None}, results)
    absent = {old for old, new in read.items() if new is None}
    for each in _with_inner(twin):
        for index, operand in enumerate(each.inputs):
            if operand in absent:
                each.set_input(index, None)
    for outermost in twin.bodies():
        for body in walk(outermost):
            for value in body.values():
                body.rename(value, graph.fresh(value.name))
    return twin


def _resolve(node: Node, call: Node, function: Function) -> None:
    """Replace attribute references of a copied node, and of nodes in its bodies, by the call's attributes."""
    for each in _with_inner(node):
        notes = noted(each, NodeNotes)
        if notes is None:
            continue
        for name, attribute in notes.attributes.items():
            source = attribute.reference
            if source:
                value = call.attributes.get(source, function.defaults.get(source))
                if value is not None:
                    each.set_attribute(name, _copy_attribute(value))
        kept = {name: attribute for name, attribute in notes.attributes.items() if not attribute.reference}
        each.notes[KEY] = replace(notes, attributes=kept)


def _copy_attribute(value: Attribute) -> Attribute:
    """Return an attribute value for another node; graphs are copied, because a body belongs to one node."""
    if isinstance(value, Graph):
        return rewrite.copy(value)
    return tuple(map(_copy_attribute, value)) if isinstance(value, tuple) else value


def _take_over(old: Value, new: Value) -> None:
    """Replace `old` by `new`, which takes its name and notes."""
    if new.fact == UNKNOWN:
        new.fact = old.fact
    if old.has_notes:
        new.notes.update(old.notes)
    rewrite.swap_names(old, new)
    old.replace_uses(new)


def _with_inner(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes in its bodies."""
    yield node
    for outermost in node.bodies():
        for body in walk(outermost):
            yield from body


def _key(node: Node) -> Key:
    notes = noted(node, NodeNotes)
    return domains.domain_of(node.dialect) or "", node.op_type, "" if notes is None else notes.overload


def _file(graph: Graph) -> str:
    return next((node.origin.file for node in graph if node.origin is not None), graph.name)


# Checks before anything changes


def _check(graph: Graph, functions: Mapping[Key, Function], most_nodes: int, findings: Findings) -> None:
    order = _callees_first(functions, findings)
    sizes: dict[Key, int] = {}
    for key in order:
        sizes[key] = _size(functions[key].body, sizes)
        _check_versions(functions[key], graph, findings)
    total = _size(graph, sizes)
    if total > most_nodes:
        message = f"inlining the functions would create {total} nodes, the limit is {most_nodes}"
        findings.error("ONNX0504", message, "functions", _REMEDY)


def _size(graph: Graph, sizes: Mapping[Key, int]) -> int:
    return sum(sizes.get(_key(node), 1) for body in walk(graph) for node in body)


def _callees_first(functions: Mapping[Key, Function], findings: Findings) -> list[Key]:
    """Sort the functions so that callees come first; report recursion."""
    calls = {key: _calls(function, functions) for key, function in functions.items()}
    callers: dict[Key, list[Key]] = {key: [] for key in functions}
    for key, called in calls.items():
        for each in called:
            callers[each].append(key)
    order = [key for key, called in calls.items() if not called]
    missing = {key: len(called) for key, called in calls.items()}
    for key in order:  # it grows while it is walked
        for caller in callers[key]:
            missing[caller] -= 1
            if not missing[caller]:
                order.append(caller)
    if len(order) < len(functions):
        done = set(order)
        names = listed(key[1] for key in functions if key not in done)
        findings.error("ONNX0501", f"recursive functions: {names}", "functions")
    return order


def _calls(function: Function, functions: Mapping[Key, Function]) -> set[Key]:
    return {key for body in walk(function.body) for node in body if (key := _key(node)) in functions}


def _check_versions(function: Function, graph: Graph, findings: Findings) -> None:
    imported = graph.opsets.get(domains.DEFAULT)
    own = function.body.opsets.get(domains.DEFAULT)
    if imported is None or own is None or imported == own:
        return
    op_types = {node.op_type for body in walk(function.body) for node in body if domains.is_default(node.dialect)}
    for op_type in sorted(op_types):
        first, last = schema.versions(op_type, own)
        if not first <= imported <= last:
            message = f"{op_type} of the function's opset {own} differs from {op_type} of the model's opset {imported}"
            findings.error("ONNX0502", message, f'functions "{function.name}"', "export the function at that opset")
