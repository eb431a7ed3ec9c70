"""Graphs, the same for every dialect: nodes in order, between inputs and outputs.

A graph is a list of nodes that may be edited while it is walked.

Before   x → a → b
edit     c = Node("Relu", [a.output], [Value("y")]);  graph.insert_after(a, c);  b.set_input(0, c.output)
After    x → a → c → b
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import Extents
from graphport.core.facts import UNKNOWN, Fact, TensorFact
from graphport.core.names import unique
from graphport.ir.nodes import Attribute, Body, Node, Notes, Use, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.nodes import Places

__all__ = ["Attribute", "Graph", "Node", "Notes", "Use", "Value", "walk"]


class _Names:
    """The names that are taken in a graph and in its bodies, which share them."""

    __slots__ = ("counters", "home", "taken")

    def __init__(self, home: Graph) -> None:
        self.home = home
        self.taken: set[str] = set()
        self.counters: dict[str, int] = {}


class Graph(Body):
    """Nodes in order, between inputs and outputs; constants have no node.

    A body (`parent` is a node) reads values of the graphs around it directly.
    """

    __slots__ = (
        "_extents",
        "_first",
        "_inputs",
        "_last",
        "_length",
        "_names",
        "_notes",
        "_outputs",
        "constants",
        "may_have_bodies",
        "name",
        "opsets",
        "origin",
    )

    def __init__(self, name: str = "main", *, opsets: Mapping[str, int] | None = None) -> None:
        self.name = name
        self.opsets: dict[str, int] = dict(opsets or {})
        self.parent: Node | None = None
        self.origin: Span | None = None
        self.constants: dict[Value, None] = {}
        self._inputs: dict[Value, None] = {}
        self._outputs: list[Value] = []
        self._first: Node | None = None
        self._last: Node | None = None
        self._length = 0
        self._names = _Names(self)
        self._notes: Notes | None = None
        self._extents: Extents | None = None
        # False as long as no node ever had one; walks need not look at all nodes then.
        self.may_have_bodies = False

    @property
    def notes(self) -> Notes:
        """What its format needs to write it back."""
        if self._notes is None:
            self._notes = {}
        return self._notes

    @property
    def has_notes(self) -> bool:
        """Whether there is any; asking costs no memory."""
        return bool(self._notes)

    @property
    def extents(self) -> Extents:
        """What is known of the symbols in its facts; the bodies in a graph share those of the outermost one."""
        root = self.root
        if root._extents is None:
            root._extents = Extents()
        return root._extents

    @extents.setter
    def extents(self, extents: Extents) -> None:
        self.root._extents = extents

    # Values

    @property
    def inputs(self) -> list[Value]:
        """What every run gives, in order."""
        return list(self._inputs)

    @property
    def input_set(self) -> Mapping[Value, None]:
        """The inputs, to ask for membership."""
        return self._inputs

    @property
    def outputs(self) -> list[Value]:
        """What every run returns, in order; one value may be returned twice."""
        return list(self._outputs)

    def add_input(self, name: str, fact: Fact = UNKNOWN, *, origin: Span | None = None) -> Value:
        """A new input behind the others, under `name` if that is free."""
        return self.adopt_input(Value(self.fresh(name), fact, origin=origin))

    def adopt_input(self, value: Value) -> Value:
        """Make `value`, which no graph has and no node computes, an input behind the others."""
        _check_free(value)
        self._inputs[self._adopt(value)] = None
        return value

    def replace_input(self, value: Value, other: Value) -> None:
        """Let `other`, which no graph has, be the input in the place of `value`, which nobody reads; nodes may already.

        Where both have one name, that of `other` counts.
        """
        if value.uses:
            message = f"%{value.name} is still read"
            raise ValueError(message)
        _check_free(other)
        places = [other if each is value else each for each in self._inputs]
        value.graph = None
        self._adopt(other)
        self._inputs = dict.fromkeys(places)

    def add_constant(
        self,
        name: str,
        fact: Fact,
        storage: Storage | None = None,
        *,
        origin: Span | tuple[Places, int] | None = None,
    ) -> Value:
        """A new value that is the same in every run; without `storage` its numbers are not at hand."""
        return self.adopt_constant(Value(self.fresh(name), fact, storage=storage, origin=origin))

    def adopt_constant(self, value: Value) -> Value:
        """Make `value`, which no graph has and no node computes, a constant of this one."""
        _check_free(value)
        self.constants[self._adopt(value)] = None
        return value

    def remove_input(self, value: Value) -> None:
        """Forget an input that nobody reads."""
        self._drop(value, self._inputs)

    def remove_constant(self, value: Value) -> None:
        """Forget a constant that nobody reads."""
        self._drop(value, self.constants)

    def add_output(self, value: Value) -> None:
        """Return `value` behind the other outputs."""
        self._outputs.append(value)
        self._give(len(self._outputs) - 1)

    def set_output(self, index: int, value: Value) -> None:
        """Return `value` as output `index`."""
        if index < 0:
            message = f"there is no output {index}"
            raise IndexError(message)
        self._take(index)
        self._outputs[index] = value
        self._give(index)

    def set_outputs(self, values: Iterable[Value]) -> None:
        """Return exactly `values`."""
        outputs = list(values)
        for index in range(len(self._outputs)):
            self._take(index)
        self._outputs = outputs
        for index in range(len(outputs)):
            self._give(index)

    def _give(self, index: int) -> None:
        value = self._outputs[index]
        value.uses[Use(self, index)] = None
        value.returns += 1

    def _take(self, index: int) -> None:
        value = self._outputs[index]
        del value.uses[Use(self, index)]
        value.returns -= 1

    def values(self) -> Iterator[Value]:
        """Every value of this graph: inputs, constants, then results in the order of the nodes.

        Bodies have their own. The graph may be edited meanwhile.
        """
        yield from [*self._inputs, *self.constants]
        for node in self:
            yield from node.results

    # Names

    def fresh(self, name: str) -> str:
        """`name`, or `name_1`, … if it is taken; taken from now on.

        Names are unique in a graph with all its bodies, so that a value may move between them.
        """
        names = self._names
        found = unique(name or "value", names.taken, names.counters)
        names.taken.add(found)
        return found

    def fresh_names(self, name: str, count: int) -> list[str]:
        """As many names as `fresh` would give one after another."""
        names = self._names
        taken, counters, found = names.taken, names.counters, list[str]()
        for _ in range(count):
            each = unique(name or "value", taken, counters)
            taken.add(each)
            found.append(each)
        return found

    def rename(self, value: Value, name: str) -> None:
        """Call `value` exactly `name`; two values of one name fail verification.

        The old name stays taken: another value may have it by now.
        """
        self._names.taken.add(name)
        value.name = name

    def reserve(self, name: str) -> None:
        """Let `fresh` never give `name`."""
        self._names.taken.add(name)

    def is_reserved(self, name: str) -> bool:
        """Whether a value here, in a body or around has, had or will have this name."""
        return name in self._names.taken

    def share_names(self, body: Graph) -> None:
        """Make the names in `body` those of this graph, too; nodes do it with the bodies that they are given."""
        self.may_have_bodies = True
        names, other = self._names, body._names
        if other is names:
            return
        if other.home is body:
            names.taken |= other.taken
        for inner in walk(body):
            if other.home is not body:
                # The body of a node that was taken out of another graph, whose names do not matter here.
                names.taken.update(value.name for value in inner.values())
            inner._names = names

    def leave(self, node: Node) -> None:
        """Be no body of `node` any more, if this is one: nothing in here reads anything from then on."""
        if self.parent is not node:
            return
        for inner in walk(self):
            inner.set_outputs(())
            for reader in inner:
                reader.inputs = ()
        self.parent = None

    @property
    def root(self) -> Graph:
        """The outermost graph around this one."""
        graph = self
        while graph.parent is not None and graph.parent.graph is not None:
            graph = graph.parent.graph
        return graph

    # Nodes

    def __iter__(self) -> Iterator[Node]:
        """Nodes in order. They may be inserted and removed meanwhile: what comes behind the current node is visited.

        A node that is moved takes the walk with it; who moves nodes walks over a list of them.
        """
        node = self._first
        while node is not None:
            if node.graph is self:
                yield node
            # A node that was removed meanwhile still points to who stood behind it then.
            node = node.next

    def __reversed__(self) -> Iterator[Node]:
        """Nodes from the last one on; what is inserted before the current node is visited."""
        node = self._last
        while node is not None:
            if node.graph is self:
                yield node
            node = node.previous

    def __len__(self) -> int:
        return self._length

    @property
    def first(self) -> Node | None:
        """The first node."""
        return self._first

    @property
    def last(self) -> Node | None:
        """The last node."""
        return self._last

    def append(self, node: Node) -> Node:
        """Put `node` behind the last one."""
        return self._link(node, self._last, None)

    def insert_before(self, place: Node, node: Node) -> Node:
        """Put `node` right before `place`."""
        self._check(place)
        return self._link(node, place.previous, place)

    def insert_after(self, place: Node | None, node: Node) -> Node:
        """Put `node` right behind `place`, or in front of all where that is `None`, such as what makes an input."""
        if place is None:
            return self._link(node, None, self._first)
        self._check(place)
        return self._link(node, place, place.next)

    def remove(self, node: Node) -> None:
        """Take `node` out; its results must have no readers, what it and its bodies read loses them."""
        self._check(node)
        for value in node.results:
            if value.uses:
                message = f"%{value.name} is still read"
                raise ValueError(message)
        self._unlink(node)
        for value in node.results:
            value.graph = None
        node.inputs = ()
        for body in node.bodies():
            body.leave(node)

    def move_before(self, place: Node, node: Node) -> None:
        """Move `node` of this graph right before `place`."""
        self._check(place)
        self._check(node)
        if node is not place:
            self._unlink(node)
            self._chain(node, place.previous, place)

    def reorder(self, order: Sequence[Node]) -> None:
        """Put the nodes in this order; `order` names each of them once."""
        if len(order) != self._length or len(set(order)) != self._length:
            message = f"{len(order)} nodes are not the {self._length} of graph {self.name}"
            raise ValueError(message)
        for node in order:
            self._check(node)
        for node in order:
            self._unlink(node)
        for node in order:
            self._chain(node, self._last, None)

    def _check(self, node: Node) -> None:
        if node.graph is not self:
            message = f"{node!r} is not in graph {self.name}"
            raise ValueError(message)

    def _unlink(self, node: Node) -> None:
        if node.previous is None:
            self._first = node.next
        else:
            node.previous.next = node.next
        if node.next is None:
            self._last = node.previous
        else:
            node.next.previous = node.previous
        # `next` and `previous` stay, so that a walk that stands on this node finds its way back into the list.
        node.graph = None
        self._length -= 1

    def _chain(self, node: Node, previous: Node | None, following: Node | None) -> None:
        node.graph = self
        node.previous, node.next = previous, following
        if previous is None:
            self._first = node
        else:
            previous.next = node
        if following is None:
            self._last = node
        else:
            following.previous = node
        self._length += 1

    def _link(self, node: Node, previous: Node | None, following: Node | None) -> Node:
        if node.graph is not None:
            message = f"{node!r} is in graph {node.graph.name} already"
            raise ValueError(message)
        self._chain(node, previous, following)
        taken = self._names.taken
        for value in node.outputs:
            if value is not None:
                value.graph = self
                taken.add(value.name)
        if node.has_bodies:
            for body in node.bodies():
                self.share_names(body)
        return node

    def _adopt(self, value: Value) -> Value:
        value.graph = self
        self._names.taken.add(value.name)
        return value

    def _drop(self, value: Value, owner: dict[Value, None]) -> None:
        if value not in owner:
            message = f"%{value.name} is not one of graph {self.name}"
            raise ValueError(message)
        if value.uses:
            message = f"%{value.name} is still read"
            raise ValueError(message)
        del owner[value]
        value.graph = None

    def __repr__(self) -> str:
        return f"<graph {self.name}: {self._length} nodes>"


def walk(graph: Graph) -> Iterator[Graph]:
    """`graph` and every body in it, each behind the one around it, else in the order of nodes and attributes."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        if current.may_have_bodies:
            pending += [body for node in current if node.has_bodies for body in node.bodies()][::-1]


def results_of(graph: Graph, dtype: DType) -> list[Value]:
    """What nodes compute in that element type, in bodies too."""
    values = (value for inner in walk(graph) for node in inner for value in node.results)
    return [value for value in values if isinstance(value.fact, TensorFact) and value.fact.dtype is dtype]


def _check_free(value: Value) -> None:
    if value.graph is not None or value.producer is not None:
        message = f"%{value.name} is in a graph already"
        raise ValueError(message)
