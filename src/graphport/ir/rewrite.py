"""Basic edits: replace values, copy and sort graphs, remove dead nodes."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from graphport.core.garbage_collection import paused_collection
from graphport.ir.graph import Attribute, Graph, Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence


def replace(old: Value, new: Value, *, keep: Container[Node] = ()) -> None:
    """Replace `old` by `new` in all uses except in `keep`; public names remain.

    If `old` is a graph output, `new` takes its name; if `new` must keep its own name (an input, another output, a value
    of an outer graph), an `Identity` carries the name.

    Before  y = Conv(x);  return y
    After   y_1 = Conv(x);  y = Relu(y_1);  return y     with  replace(conv.output, relu.output, keep=[relu])

    Raises:
        ValueError: `old` is an input and an output, so its replacement cannot take its name.
    """
    if old is new:
        return
    if old.is_output:
        if old.is_input:
            message = f"%{old.name} is an input and an output, so its replacement cannot keep the name"
            raise ValueError(message)
        named = new
        if new.is_input or new.is_output or new.graph is not old.graph:
            named = _identity(old, new)
        swap_names(old, named)
        for user, index in list(old.uses):
            if isinstance(user, Graph):
                user.set_output(index, named)
    old.replace_uses(new, keep=keep)


def swap_names(a: Value, b: Value) -> None:
    """Exchange the names of two values of one graph."""
    a.name, b.name = b.name, a.name


def _identity(old: Value, new: Value) -> Value:
    """Insert an Identity of `new` into the graph of `old`, as early as possible."""
    graph = old.graph
    if graph is None:
        message = f"%{old.name} is in no graph"
        raise ValueError(message)
    copy = Value(graph.fresh(new.name), new.fact)
    node = Node("Identity", [new], [copy], origin=old.producer.origin if old.producer else None)
    graph.insert_after(new.producer if new.graph is graph else None, node)
    return copy


def remove_dead(graph: Graph, *, keep: Callable[[Node], bool] | None = None) -> int:
    """Remove nodes and constants that no output depends on, in bodies too; return the number of removed nodes.

    Inputs remain, and so do unused results of nodes with used ones. Nodes in bodies of removed nodes are not counted.
    Nodes to `keep` have another effect than their results.
    """
    removed = 0
    if not graph.may_have_bodies:
        for node in reversed(graph):
            if not _is_read(node) and (keep is None or not keep(node)):
                graph.remove(node)
                removed += 1
        for value in [value for value in graph.constants if not value.uses]:
            graph.remove_constant(value)
        return removed
    pending: list[tuple[Graph, Iterator[Node]]] = [(graph, reversed(graph))]
    while pending:
        current, nodes = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            for value in [value for value in current.constants if not value.uses]:
                current.remove_constant(value)
        elif not _is_read(node) and (keep is None or not keep(node)):
            current.remove(node)
            removed += 1
        elif node.has_bodies:
            # Bodies first, so that values only they used are dead too.
            pending += [(body, reversed(body)) for body in node.bodies()]
    return removed


def _is_read(node: Node) -> bool:
    # Asked of every node of a model several times: hence a loop.
    for value in node.outputs:  # noqa: SIM110
        if value is not None and value.read_by is not None:
            return True
    return False


def erase(node: Node) -> None:
    """Remove a node without used results from its graph."""
    if node.graph is None:
        message = f"{node!r} is in no graph"
        raise ValueError(message)
    node.graph.remove(node)


def take_back(graph: Graph, before: Node | None, node: Node) -> None:
    """Remove the nodes between `before` (or the beginning) and `node` that an abandoned rule has created.

    Bodies without an owner release their uses.
    """
    while (made := node.previous) is not before and made is not None:
        for value in made.results:
            _forget(value, graph)
        graph.remove(made)
    for value in node.inputs:
        if value is not None:
            _forget(value, graph)


def _forget(value: Value, graph: Graph) -> None:
    """Remove the uses of a value by detached bodies, newest first, up to a use in the graph itself."""
    while value.uses:
        user, _ = next(reversed(value.uses))
        home = user.graph if isinstance(user, Node) else user
        if home is None or home.root is graph.root:
            return
        if isinstance(user, Node):
            user.inputs = ()
        else:
            user.set_outputs(())


def copy(graph: Graph) -> Graph:
    """Copy a graph: nodes, values, notes and bodies are new, storages and facts are shared.

    The copy of a body uses the same captured values as the body.
    """
    with paused_collection():
        twin = _copies([graph], {})[graph]
    twin.extents = graph.extents.copy()
    return twin


def copy_node(node: Node, values: Mapping[Value, Value], outputs: Sequence[Value | None] | None = None) -> Node:
    """Copy `node` outside any graph; operands are `values[x]`, or `x` if it is not in `values`.

    The results are `outputs`, or copies of the results of `node` with equal names.
    """
    results = (
        [None if value is None else value.copy_detached() for value in node.outputs] if outputs is None else outputs
    )
    if not node.has_bodies:
        return _copy_node(node, values, results, {})
    mapping = dict(values)
    return _copy_node(node, mapping, results, _copies(list(node.bodies()), mapping))


def _copies(graphs: Sequence[Graph], mapping: dict[Value, Value]) -> dict[Graph, Graph]:
    """Copies of `graphs` and of all their bodies, which read `mapping[x]` for `x` from outside."""
    originals = [inner for graph in graphs for inner in walk(graph)]
    twins = {original: _copy_frame(original, mapping) for original in originals}
    # All values exist before the first node uses one, because a graph may be unsorted.
    for original in originals:
        for node in original:
            for value in node.outputs:
                if value is not None:
                    mapping[value] = value.copy_detached()
    get = mapping.get
    for original, twin in twins.items():
        for node in original:
            if node.has_bodies or None in node.outputs:
                results = [None if value is None else mapping[value] for value in node.outputs]
                twin.append(_copy_node(node, mapping, results, twins))
                continue
            twin.append_new(
                node.op_type,
                [None if value is None else get(value, value) for value in node.inputs],
                [mapping[value] for value in node.outputs if value is not None],
                node.stated,
                node.dialect,
                node.name,
                node.unasked_origin,
                node.copied_notes if node.has_notes else None,
            )
        twin.set_outputs(mapping.get(value, value) for value in original.outputs)
    return twins


def _copy_frame(graph: Graph, mapping: dict[Value, Value]) -> Graph:
    twin = Graph(graph.name, opsets=graph.opsets)
    twin.origin = graph.origin
    if graph.has_notes:
        twin.notes.update(graph.notes)
    for value in graph.inputs:
        mapping[value] = twin.adopt_input(value.copy_detached())
    for value in graph.constants:
        mapping[value] = twin.adopt_constant(value.copy_detached())
    return twin


def _copy_node(
    node: Node, mapping: Mapping[Value, Value], results: Sequence[Value | None], twins: Mapping[Graph, Graph]
) -> Node:
    twin = Node(
        node.op_type,
        [None if value is None else mapping.get(value, value) for value in node.inputs],
        results,
        {name: _copy_attribute(attribute, twins) for name, attribute in node.stated.items()},
        dialect=node.dialect,
        name=node.name,
        origin=node.unasked_origin,
    )
    if node.has_notes:
        twin.notes.update(node.notes)
    return twin


def _copy_attribute(attribute: Attribute, twins: Mapping[Graph, Graph]) -> Attribute:
    if isinstance(attribute, Graph):
        return twins[attribute]
    if not isinstance(attribute, tuple) or not any(isinstance(item, Graph | tuple) for item in attribute):
        return attribute
    # Iterative, because tuples have the nesting depth of the file.
    copied: list[Attribute] = []
    pending: list[tuple[Iterator[Attribute], list[Attribute]]] = [(iter((attribute,)), copied)]
    while pending:
        items, made = pending[-1]
        for item in items:
            if isinstance(item, tuple):
                pending.append((iter(item), []))
                break
            made.append(twins[item] if isinstance(item, Graph) else item)
        else:
            pending.pop()
            if pending:
                pending[-1][1].append(tuple(made))
    return copied[0]


def sort_topologically(graph: Graph) -> list[Node]:
    """Sort the nodes topologically; return a cycle if there is one.

    Stable: a sorted graph keeps its order, and of the nodes that are ready the first one is next. Captured values of a
    body count as operands of its node; bodies themselves are not sorted. Nodes of cycles, and nodes that depend on
    them, follow in their old order. In the returned cycle each node uses a result of the previous one, and the first
    of the last.
    """
    nodes = list(graph)
    place = {node: number for number, node in enumerate(nodes)}
    sources = [_sources(node, place) for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for number, found in enumerate(sources):
        for source in found:
            readers[source].append(number)
    waiting = [len(found) for found in sources]
    ready = [number for number, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for reader in readers[number]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    stuck = [number for number, count in enumerate(waiting) if count]
    order += stuck
    if order != list(range(len(nodes))):
        graph.reorder([nodes[number] for number in order])
    return [nodes[number] for number in _cycle(sources, set(stuck))]


def _sources(node: Node, place: Mapping[Node, int]) -> list[int]:
    producers = dict.fromkeys(value.producer for value in [*node.operands, *captured(node)])
    return [place[producer] for producer in producers if producer is not None and producer in place]


def _cycle(sources: Sequence[Sequence[int]], stuck: set[int]) -> list[int]:
    if not stuck:
        return []
    # A blocked node waits for another blocked node, so following them finds a cycle.
    way: dict[int, None] = {}
    number = min(stuck)
    while number not in way:
        way[number] = None
        number = next(source for source in sources[number] if source in stuck)
    found = list(way)
    return found[found.index(number) :][::-1]


def captured(node: Node) -> dict[Value, None]:
    """Values from outside that the bodies of `node` read, in order."""
    bodies = [body for outermost in node.bodies() for body in walk(outermost)]
    inside = set(bodies)
    found: dict[Value, None] = {}
    for body in bodies:
        reads = [operand for inner in body for operand in inner.operands]
        found.update((value, None) for value in [*reads, *body.outputs] if value.graph not in inside)
    return found
