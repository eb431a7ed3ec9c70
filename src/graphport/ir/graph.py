"""Values, nodes and graphs, the same for every dialect.

A graph is a list of nodes that may be edited while it is walked. A node knows its operands and results, a value knows
who computes it and who reads it; every edit keeps both sides of that in step and costs the same in a graph of any size.

Before   x → a → b
edit     c = Node("Relu", [a.output], [Value("y")]);  graph.insert_after(a, c);  b.set_input(0, c.output)
After    x → a → c → b
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeAlias, cast

from graphport.core.facts import UNKNOWN, Fact
from graphport.core.names import unique

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage

Attribute: TypeAlias = (
    "bool | int | float | complex | str | bytes | DType | Fact | Storage | Graph | tuple[Attribute, ...] | None"
)
"""What an attribute may be; lists are tuples, nested as deep as a format likes."""

Notes: TypeAlias = "dict[str, object]"
"""What a format needs to write itself back and nobody else reads: copied with its owner, never compared."""


class Use(NamedTuple):
    """A place that reads a value: operand `index` of a node, or result `index` of a graph."""

    user: Node | Graph
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  nobody looks for an item in a use


class Value:
    """One tensor (or sequence, or optional): computed by a node, given to the graph, or constant."""

    __slots__ = (
        "_notes",
        "fact",
        "graph",
        "index",
        "is_literal",
        "name",
        "origin",
        "producer",
        "returns",
        "storage",
        "uses",
    )

    def __init__(
        self, name: str, fact: Fact = UNKNOWN, *, storage: Storage | None = None, origin: Span | None = None
    ) -> None:
        self.name = name
        self.fact = fact
        self.storage = storage
        self.origin = origin
        self.producer: Node | None = None
        self.index = 0
        self.graph: Graph | None = None
        self.uses: dict[Use, None] = {}
        # How many of the uses are outputs of graphs: replacements ask, and a value may have very many uses.
        self.returns = 0
        self.is_literal = False
        self._notes: Notes | None = None

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
    def is_constant(self) -> bool:
        """Whether it is the same in every run, with or without its numbers at hand."""
        return self.graph is not None and self in self.graph.constants

    @property
    def is_input(self) -> bool:
        """Whether its graph is given it."""
        return self.graph is not None and self in self.graph.input_set

    @property
    def is_output(self) -> bool:
        """Whether a graph returns it."""
        return self.returns > 0

    @property
    def users(self) -> list[Node]:
        """The nodes that read it, each once, in the order in which they began to."""
        return list(dict.fromkeys(use.user for use in self.uses if isinstance(use.user, Node)))

    def replace_uses(self, other: Value, *, keep: Container[Node] = ()) -> None:
        """Let everybody who reads this value, graphs that return it included, read `other`; only `keep` goes on.

        Names stay with their values; `rewrite.replace` moves public names, too.
        """
        for user, index in list(self.uses):
            if isinstance(user, Graph):
                user.set_output(index, other)
            elif user not in keep:
                user.set_input(index, other)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.fact}"


class Node:
    """One operation: a word of a dialect, applied to values."""

    __slots__ = (
        "_inputs",
        "_notes",
        "_outputs",
        "_seen",
        "attributes",
        "dialect",
        "graph",
        "name",
        "next",
        "origin",
        "previous",
        "word",
    )

    def __init__(
        self,
        op: str,
        inputs: Sequence[Value | None] = (),
        outputs: Sequence[Value | None] = (),
        attributes: Mapping[str, Attribute] | None = None,
        *,
        dialect: str = "",
        name: str = "",
        origin: Span | None = None,
    ) -> None:
        """A node outside of any graph.

        Args:
            op: the word; with `dialect` it is `node.op` (`nnef.conv`), without it is canonical (`Conv`).
            inputs: operands, `None` for an absent one; trailing ones are trimmed.
            outputs: results that nobody else computes, `None` for one that is not wanted.
            attributes: by name.
            dialect: `nnef`, `openvino`, …; empty for the canonical one.
            name: the node's own name, where a format has one.
            origin: the place in the source.
        """
        self.dialect = dialect
        self.word = op
        self.name = name
        self.origin = origin
        self.attributes: dict[str, Attribute] = {}
        self.graph: Graph | None = None
        self.previous: Node | None = None
        self.next: Node | None = None
        self._notes: Notes | None = None
        self._inputs: list[Value | None] = []
        self._seen: tuple[Value | None, ...] | None = None
        self._outputs: tuple[Value | None, ...] = _trim(outputs)
        self._produce()
        if inputs:
            self.inputs = inputs
        if attributes:
            self.attributes.update(attributes)
            for body in _bodies(self.attributes):
                body.parent = self

    def _produce(self) -> None:
        for index, value in enumerate(self._outputs):
            if value is not None:
                if value.producer is not None or value.graph is not None:
                    self._refuse(index, value)
                value.producer = self
                value.index = index

    def _refuse(self, index: int, value: Value) -> Never:
        """Let go of the results before the one at `index`, which cannot be one, and say why."""
        owner = value.producer
        for other in self._outputs[:index]:
            if other is not None:
                other.producer = None
        if owner is self:
            message = f"one value is two results of {self.op}"
        elif owner is not None:
            message = f"%{value.name} is computed by {owner.op} already"
        else:
            message = f"%{value.name} is an input or constant"
        raise ValueError(message)

    @property
    def op(self) -> str:
        """`Conv` in the canonical dialect, `nnef.conv` in another."""
        return f"{self.dialect}.{self.word}" if self.dialect else self.word

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
    def inputs(self) -> tuple[Value | None, ...]:
        """Operands in order; `None` is an absent one, and none is at the end."""
        # A tuple made when somebody looks, so that replacing one of 50,000 operands does not copy the others.
        if self._seen is None:
            self._seen = tuple(self._inputs)
        return self._seen

    @inputs.setter
    def inputs(self, values: Sequence[Value | None]) -> None:
        for index, value in enumerate(self._inputs):
            if value is not None:
                del value.uses[Use(self, index)]
        inputs = list(values)
        while inputs and inputs[-1] is None:
            inputs.pop()
        self._inputs = inputs
        self._seen = None
        for index, value in enumerate(self._inputs):
            if value is not None:
                value.uses[Use(self, index)] = None

    @property
    def outputs(self) -> tuple[Value | None, ...]:
        """Results in order; `None` is one that nobody wants, and none is at the end."""
        return self._outputs

    @property
    def output(self) -> Value:
        """The only or first result; a `ValueError` where there is none."""
        first = self._outputs[0] if self._outputs else None
        if first is None:
            message = f"the first result of {self.op} is absent"
            raise ValueError(message)
        return first

    def operand(self, index: int) -> Value | None:
        """Operand `index`, `None` where it is absent or past the last one."""
        return self._inputs[index] if index < len(self._inputs) else None

    @property
    def operands(self) -> list[Value]:
        """The operands that are there."""
        return [value for value in self._inputs if value is not None]

    @property
    def results(self) -> list[Value]:
        """The results that are there."""
        return [value for value in self._outputs if value is not None]

    def set_input(self, index: int, value: Value | None) -> None:
        """Let operand `index` be `value`; operands between the last one and `index` become absent ones."""
        if index < 0:
            message = f"there is no operand {index}"
            raise IndexError(message)
        inputs = self._inputs
        inputs.extend([None] * (index + 1 - len(inputs)))
        old = inputs[index]
        if old is not None:
            del old.uses[Use(self, index)]
        inputs[index] = value
        if value is not None:
            value.uses[Use(self, index)] = None
        while inputs and inputs[-1] is None:
            inputs.pop()
        self._seen = None

    def take_outputs(self, node: Node) -> None:
        """Become the one who computes the results of `node`, which is left with none; this node had none, either."""
        if self._outputs:
            message = f"{self!r} has results of its own"
            raise ValueError(message)
        self._outputs, node._outputs = node._outputs, ()
        for value in self.results:
            value.producer = self
            value.graph = self.graph
            if self.graph is not None:
                self.graph.reserve(value.name)

    def drop_output(self, index: int) -> None:
        """Make result `index` absent; nobody may read it any more."""
        outputs = list(self._outputs)
        value = outputs[index]
        if value is None:
            return
        if value.uses:
            message = f"%{value.name} is still read"
            raise ValueError(message)
        value.producer = None
        value.graph = None
        outputs[index] = None
        self._outputs = _trim(outputs)

    def set_attribute(self, name: str, attribute: Attribute) -> None:
        """Set attribute `name`; a graph becomes this node's body, one that it replaces is released."""
        replaced = list(_graphs(self.attributes.get(name)))
        self.attributes[name] = attribute
        for body in _graphs(attribute):
            body.parent = self
            if self.graph is not None:
                self.graph.share_names(body)
        if replaced:
            self._release(replaced)

    def remove_attribute(self, name: str) -> None:
        """Forget attribute `name` if it is there; a body is released."""
        replaced = list(_graphs(self.attributes.pop(name, None)))
        if replaced:
            self._release(replaced)

    def _release(self, replaced: Iterable[Graph]) -> None:
        kept = set(self.bodies())
        _release(self, [body for body in replaced if body not in kept])

    def bodies(self) -> Iterator[Graph]:
        """The graphs among the attributes, in their order."""
        return iter(_bodies(self.attributes))

    def __repr__(self) -> str:
        results = ", ".join("_" if value is None else f"%{value.name}" for value in self._outputs)
        operands = ", ".join("_" if value is None else f"%{value.name}" for value in self._inputs)
        return f"{results} = {self.op}({operands})"


class _Names:
    """The names that are taken in a graph and in its bodies, which share them."""

    __slots__ = ("counters", "home", "taken")

    def __init__(self, home: Graph) -> None:
        self.home = home
        self.taken: set[str] = set()
        self.counters: dict[str, int] = {}


class Graph:
    """Nodes in order, between inputs and outputs; constants have no node.

    A body (`parent` is a node) reads values of the graphs around it directly.
    """

    __slots__ = (
        "_first",
        "_inputs",
        "_last",
        "_length",
        "_names",
        "_notes",
        "_outputs",
        "constants",
        "name",
        "opsets",
        "origin",
        "parent",
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

    def add_constant(
        self, name: str, fact: Fact, storage: Storage | None = None, *, origin: Span | None = None
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

    def insert_after(self, place: Node, node: Node) -> Node:
        """Put `node` right behind `place`."""
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
        _release(node, node.bodies())

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
        for body in _bodies(node.attributes):
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
        pending += [body for node in current for body in node.bodies()][::-1]


def _trim(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    if not values or values[-1] is not None:
        return tuple(values)
    stop = len(values)
    while stop and values[stop - 1] is None:
        stop -= 1
    return tuple(values[:stop])


_PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
"""What most attributes are, and what has no graphs in it."""


def _bodies(attributes: Mapping[str, Attribute]) -> Sequence[Graph]:
    """The graphs among attributes; of most nodes none, which is found without a generator."""
    found: Sequence[Graph] = ()
    for attribute in attributes.values():
        kind = type(attribute)
        if kind is tuple and _PLAIN.issuperset(map(type, cast("tuple[Any, ...]", attribute))):
            continue
        if kind not in _PLAIN:
            found = [*found, *_graphs(attribute)]
    return found


def _graphs(attribute: Attribute) -> Iterator[Graph]:
    if type(attribute) in _PLAIN or (type(attribute) is tuple and _PLAIN.issuperset(map(type, attribute))):
        return
    # Without recursion: tuples are nested as deep as a file nests them.
    pending = [attribute]
    while pending:
        item = pending.pop()
        if isinstance(item, Graph):
            yield item
        elif isinstance(item, tuple):
            pending.extend(reversed(item))


def _release(node: Node, bodies: Iterable[Graph]) -> None:
    """Let `bodies` read nothing any more, as far as they are still those of `node`."""
    for body in bodies:
        if body.parent is not node:
            continue
        for inner in walk(body):
            inner.set_outputs(())
            for reader in inner:
                reader.inputs = ()
        body.parent = None


def _check_free(value: Value) -> None:
    if value.graph is not None or value.producer is not None:
        message = f"%{value.name} is in a graph already"
        raise ValueError(message)
