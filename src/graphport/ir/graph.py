"""Graphs, nodes and values of all dialects.

A graph is a list of nodes that may be edited during iteration.

Before   x → a → b
edit     c = Node("Relu", [a.output], [Value("y")]);  graph.insert_after(a, c);  b.set_input(0, c.output)
After    x → a → c → b

A node knows its operands and results, a value knows its producer and its consumers; each edit updates both sides and
takes constant time.

Values, nodes and graphs share a module because their types refer to each other, and imports form no cycle. Order,
ports, notes and attributes are in separate modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeAlias, cast

from graphport.core.dims import Extents
from graphport.core.facts import UNKNOWN, Fact, TensorFact
from graphport.core.names import unique
from graphport.core.short_repr import abridge_text
from graphport.ir.attributes import NO_ATTRIBUTES, Attribute, Body, PlainAttributes, bodies_among, bodies_in
from graphport.ir.notes import Notes, Placed
from graphport.ir.ports import Ports

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dims import Dim
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.notes import Spans

__all__ = ["Attribute", "Graph", "Node", "Notes", "Use", "Value", "walk"]


class Use(NamedTuple):
    """A place that reads a value: operand `index` of a node, or result `index` of a graph."""

    user: Node | Graph
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  the tuple method of that name is unused

    def read(self, value: Value) -> None:
        """Replace the value that is read here."""
        if isinstance(self.user, Node):
            self.user.set_input(self.index, value)
        else:
            self.user.set_output(self.index, value)


Uses: TypeAlias = "tuple[Use, ...] | dict[Use, None]"
"""What reads a value, in order."""

_MAX_LINEAR_USES = 4
"""Number of uses up to which a linear search is as fast as a dictionary."""

_use = cast("Callable[[type[Use], tuple[Node | Graph, int]], Use]", cast("Any", tuple).__new__)
"""Makes a use without the call in Python that its own constructor is."""
_bare = object.__new__
"""Makes a node without the calls that a constructor with keywords takes."""


class Value(Placed):
    """One tensor (or sequence, or optional): computed by a node, given to the graph, or constant."""

    __slots__ = (
        "fact",
        "graph",
        "index",
        "is_literal",
        "name",
        "producer",
        "read_by",
        "returns",
        "storage",
    )

    def __init__(
        self,
        name: str,
        fact: Fact = UNKNOWN,
        *,
        storage: Storage | None = None,
        origin: Span | tuple[Spans, int] | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.name = name
        self.fact = fact
        self.storage = storage
        self._origin = origin
        self.producer: Node | None = None
        self.index = 0
        self.graph: Graph | None = None
        # A single use, or several in order: most values have one or two, and a dictionary needs five times the memory.
        self.read_by: Use | tuple[Use, ...] | dict[Use, None] | None = None
        # How many of the uses are outputs of graphs: replacements ask, and a value may have very many uses.
        self.returns = 0
        self.is_literal = False
        self._notes = notes

    def copy_detached(self) -> Value:
        """Return a detached value with equal name, fact, storage and notes."""
        twin = _bare(Value)
        twin.name = self.name
        twin.fact = self.fact
        twin.storage = self.storage
        twin._origin = self._origin
        twin.producer = twin.graph = twin.read_by = None
        twin.index = twin.returns = 0
        twin.is_literal = self.is_literal
        twin._notes = None if self._notes is None else self.copied_notes
        return twin

    @property
    def dtype(self) -> DType | None:
        """The element type of a tensor, if it is known."""
        fact = self.fact
        return fact.dtype if isinstance(fact, TensorFact) else None

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The shape of a tensor, if its rank is known."""
        fact = self.fact
        return fact.shape if isinstance(fact, TensorFact) else None

    @property
    def is_constant(self) -> bool:
        """Whether the value is a constant; its storage may be unavailable."""
        return self.graph is not None and self in self.graph.constants

    @property
    def is_input(self) -> bool:
        """Whether the value is a graph input."""
        return self.graph is not None and self in self.graph.input_set

    @property
    def is_output(self) -> bool:
        """Whether a graph returns it."""
        return self.returns > 0

    @property
    def uses(self) -> Uses:
        """The uses of the value in order of their creation, as a snapshot."""
        uses = self.read_by
        return () if uses is None else (uses,) if type(uses) is Use else cast("Uses", uses)

    def gain(self, use: Use) -> None:
        """Register a use; called by nodes and graphs."""
        uses = self.read_by
        if uses is None:
            self.read_by = use
        elif isinstance(uses, dict):
            uses[use] = None
        elif use not in (several := self.uses):
            found = (*several, use)
            self.read_by = found if len(found) <= _MAX_LINEAR_USES else dict.fromkeys(found)

    def lose(self, use: Use) -> None:
        """Unregister a use; called by nodes and graphs."""
        uses = self.read_by
        if type(uses) is Use and uses == use:
            self.read_by = None
            return
        if isinstance(uses, dict):
            del uses[use]
            self.read_by = uses or None
            return
        found = self.uses
        left = tuple([each for each in found if each != use])
        if not left or len(left) == len(found):
            raise KeyError(use)
        self.read_by = left if len(left) > 1 else next(iter(left))

    @property
    def users(self) -> list[Node]:
        """The nodes that read it, each once, in the order in which they began to."""
        return list(dict.fromkeys([use.user for use in self.uses if isinstance(use.user, Node)]))

    def replace_uses(self, other: Value, *, keep: Container[Node] = ()) -> None:
        """Replace this value by `other` in all uses, graph outputs included, except those of `keep`.

        Values keep their names; `rewrite.replace` also moves public names.
        """
        for user, index in list(self.uses):
            if not isinstance(user, Node):
                user.set_output(index, other)
            elif user not in keep:
                user.set_input(index, other)

    def __repr__(self) -> str:
        return abridge_text(f"%{self.name}: {self.fact}")


class Node(Placed):
    """An operation: an op type of a dialect, applied to values."""

    __slots__ = (
        "_given",
        "_inputs",
        "_outputs",
        "dialect",
        "graph",
        "has_bodies",
        "name",
        "next",
        "op_type",
        "previous",
        "stated",
    )
    if TYPE_CHECKING:
        word: str  # deprecated name of `op_type`

    def __init__(
        self,
        op: str,
        inputs: Sequence[Value | None] = (),
        outputs: Sequence[Value | None] = (),
        attributes: Mapping[str, Attribute] | None = None,
        *,
        dialect: str = "",
        name: str = "",
        origin: Span | tuple[Spans, int] | None = None,
        notes: Notes | None = None,
    ) -> None:
        """Create a node outside any graph.

        Args:
            op: the op type; with `dialect` the full name is `nnef.conv`, without it the operator is canonical (`Conv`).
            inputs: operands, None for an absent one; trailing None are removed.
            outputs: results without a producer, None for an unused one.
            attributes: attributes by name.
            dialect: `nnef`, `openvino`, …; empty for the canonical dialect.
            name: the node's name, in formats that have one.
            origin: the source location, or an object that computes it on request.
            notes: data that the format needs to write the node back; the node keeps the dictionary.
        """
        # Executed for each of 100,000 nodes: no calls, and no objects that may never be used.
        self.dialect = dialect
        self.op_type = op
        self.name = name
        self._origin = origin
        self.graph: Graph | None = None
        self.previous: Node | None = None
        self.next: Node | None = None
        self._notes = notes
        self._outputs: tuple[Value | None, ...] = tuple(outputs)
        if outputs and outputs[-1] is None:
            self._outputs = _trim(outputs)
        for index, value in enumerate(self._outputs):
            if value is not None:
                if value.producer is not None or value.graph is not None:
                    self._refuse(index, value)
                value.producer = self
                value.index = index
        # A tuple as passed, or a list from the first edit on: replacing one of 50,000 operands copies nothing.
        self._given: tuple[Value | None, ...] | None = tuple(inputs)
        if inputs and inputs[-1] is None:
            self._given = _trim(inputs)
        self._inputs: list[Value | None] | None = None
        for index, value in enumerate(self._given):
            if value is not None:
                value.gain(_use(Use, (self, index)))
        self.stated: Mapping[str, Attribute] = _own_attributes(attributes) if attributes else NO_ATTRIBUTES
        # False if there is none; walks over all nodes ask it first.
        self.has_bodies = False
        if attributes and type(attributes) is not PlainAttributes:
            for body in _graphs(bodies_among(self.stated)):
                self.has_bodies = True
                body.parent = self

    @staticmethod
    def linked(  # noqa: PLR0913, PLR0917  all that a node has; keywords take as long as the rest
        previous: Node | None,
        following: Node | None,
        graph: Graph,
        taken: set[str],
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Mapping[str, Attribute],
        dialect: str,
        name: str,
        origin: Span | tuple[Spans, int] | None,
        notes: Notes | None,
    ) -> Node:
        """Create a node linked in `graph` between two others, or into an empty graph; `taken` are the used names.

        For the graph itself, which must be updated too: see `Graph.append_new`.
        """
        node = _bare(Node)
        node.dialect = dialect
        node.op_type = op
        node.name = name
        node._origin = origin
        node.graph = graph
        node.previous = previous
        node.next = following
        node._notes = notes
        node._outputs = results = tuple(outputs)
        for index, value in enumerate(results):
            if value.producer is not None or value.graph is not None:
                node._refuse(index, value)
            value.producer = node
            value.index = index
        for value in results:
            value.graph = graph
            taken.add(value.name)
        node._given = given = tuple(inputs)
        node._inputs = None
        for index, value in enumerate(given):
            if value is not None:
                use = _use(Use, (node, index))
                if value.read_by is None:
                    value.read_by = use
                else:
                    value.gain(use)
        node.stated = _own_attributes(attributes) if attributes else NO_ATTRIBUTES
        node.has_bodies = False
        if previous is not None:
            previous.next = node
        if following is not None:
            following.previous = node
        return node

    def _refuse(self, index: int, value: Value) -> Never:
        """Detach the results before the invalid one at `index`, and return the error."""
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
        return f"{self.dialect}.{self.op_type}" if self.dialect else self.op_type

    @property
    def attributes(self) -> dict[str, Attribute]:
        """The attributes by name, private to this node. For read-only access `stated` avoids a copy."""
        stated = self.stated
        if type(stated) is dict:
            return cast("dict[str, Attribute]", stated)
        self.stated = own = dict(stated)
        return own

    @attributes.setter
    def attributes(self, attributes: Mapping[str, Attribute]) -> None:
        self.stated = dict(attributes)

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """Operands in order; `None` is an absent one, and none is at the end."""
        given = self._given
        if given is None:
            given = self._given = tuple(self._inputs or ())
        return given

    @inputs.setter
    def inputs(self, values: Sequence[Value | None]) -> None:
        for index, value in enumerate(self.inputs):
            if value is not None:
                value.lose(_use(Use, (self, index)))
        self._given = _trim(values)
        self._inputs = None
        for index, value in enumerate(self._given):
            if value is not None:
                value.gain(_use(Use, (self, index)))

    @property
    def outputs(self) -> tuple[Value | None, ...]:
        """The results in order; None is an unused one, and the last is never None."""
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
        inputs = self._inputs if self._given is None else self._given
        return inputs[index] if inputs and index < len(inputs) else None

    @property
    def operands(self) -> list[Value]:
        """The operands without absent ones."""
        return [value for value in self.inputs if value is not None]

    @property
    def results(self) -> list[Value]:
        """The results without absent ones."""
        outputs = self._outputs
        if len(outputs) == 1 and outputs[0] is not None:
            return [outputs[0]]
        return [value for value in outputs if value is not None]

    def set_input(self, index: int, value: Value | None) -> None:
        """Set operand `index` to `value`; operands between the last one and `index` are absent."""
        if index < 0:
            message = f"no operand {index}"
            raise IndexError(message)
        inputs = self._inputs
        if inputs is None:
            inputs = self._inputs = list(self._given or ())
        inputs.extend([None] * (index + 1 - len(inputs)))
        old = inputs[index]
        if old is not None:
            old.lose(_use(Use, (self, index)))
        inputs[index] = value
        if value is not None:
            value.gain(_use(Use, (self, index)))
        while inputs and inputs[-1] is None:
            inputs.pop()
        self._given = None

    def take_outputs(self, node: Node) -> None:
        """Take over the results of `node`, which keeps none; this node must have none."""
        if self._outputs:
            message = f"{self!r} already has results"
            raise ValueError(message)
        self._outputs, node._outputs = node._outputs, ()
        for value in self.results:
            value.producer = self
            value.graph = self.graph
            if self.graph is not None:
                self.graph.reserve(value.name)

    def drop_output(self, index: int) -> None:
        """Make result `index` absent; it must not have consumers."""
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

    def restate(self, op_type: str, dialect: str, attributes: Mapping[str, Attribute]) -> None:
        """Change the operation, without bodies and notes; operands and results remain."""
        if self.has_bodies:
            message = f"{self!r} has bodies"
            raise ValueError(message)
        self.op_type = op_type
        self.dialect = dialect
        self.stated = _own_attributes(attributes)
        self._notes = None

    def set_attribute(self, name: str, attribute: Attribute) -> None:
        """Set attribute `name`; a graph becomes a body of this node, and a replaced body is released."""
        replaced = _graphs(bodies_in(self.attributes.get(name)))
        self.attributes[name] = attribute
        for body in _graphs(bodies_in(attribute)):
            self.has_bodies = True
            body.parent = self
            if self.graph is not None:
                self.graph.share_names(body)
        if replaced:
            self._release(replaced)

    def remove_attribute(self, name: str) -> None:
        """Remove attribute `name` if it is present; a body is released."""
        replaced = _graphs(bodies_in(self.attributes.pop(name, None)))
        if replaced:
            self._release(replaced)

    def _release(self, replaced: Iterable[Graph]) -> None:
        kept = set(self.bodies())
        for body in replaced:
            if body not in kept:
                body.leave(self)

    def bodies(self) -> Iterator[Graph]:
        """The graphs among the attributes, in their order."""
        return iter(_graphs(bodies_among(self.stated)) if self.has_bodies else ())

    def __repr__(self) -> str:
        results = ", ".join("_" if value is None else f"%{value.name}" for value in self._outputs)
        operands = ", ".join("_" if value is None else f"%{value.name}" for value in self.inputs)
        return abridge_text(f"{results} = {self.op}({operands})")


# The same slot, so that the earlier name costs no call.
Node.word = Node.op_type  # pyright: ignore[reportAttributeAccessIssue]


class _Names:
    """The used names of a graph, shared with its bodies."""

    __slots__ = ("counters", "home", "taken")

    def __init__(self, home: Graph) -> None:
        self.home = home
        self.taken: set[str] = set()
        self.counters: dict[str, int] = {}


class Graph(Body, Ports[Node, Value]):
    """Nodes in order, between inputs and outputs; constants have no node.

    A body (`parent` is a node) reads values of the graphs around it directly.
    """

    __slots__ = (
        "_extents",
        "_names",
        "may_have_bodies",
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
        self._extents: Extents | None = None
        # False as long as no node ever had one; walks need not look at all nodes then.
        self.may_have_bodies = False

    @property
    def extents(self) -> Extents:
        """The known constraints of symbolic dims; bodies share those of the outermost graph."""
        root = self.root
        if root._extents is None:
            root._extents = Extents()
        return root._extents

    @extents.setter
    def extents(self, extents: Extents) -> None:
        self.root._extents = extents

    # Values

    def add_input(self, name: str, fact: Fact = UNKNOWN, *, origin: Span | None = None) -> Value:
        """Append an input, named `name` or a unique variant."""
        return self.adopt_input(Value(self.fresh(name), fact, origin=origin))

    def add_constant(
        self,
        name: str,
        fact: Fact,
        storage: Storage | None = None,
        *,
        origin: Span | tuple[Spans, int] | None = None,
    ) -> Value:
        """Add a constant; without `storage` its elements are unavailable."""
        return self.adopt_constant(Value(self.fresh(name), fact, storage=storage, origin=origin))

    def _add_output_use(self, index: int) -> None:
        value = self._outputs[index]
        value.gain(Use(self, index))
        value.returns += 1

    def _remove_output_use(self, index: int) -> None:
        value = self._outputs[index]
        value.lose(Use(self, index))
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
        """Return `name`, or `name_1`, … if it is used, and reserve it.

        Names are unique in a graph with all its bodies, so that values can move between them.
        """
        names = self._names
        found = unique(name or "value", names.taken, names.counters)
        names.taken.add(found)
        return found

    def fresh_names(self, name: str, count: int) -> list[str]:
        """Return `count` names, as repeated calls of `fresh` would."""
        names = self._names
        taken, counters, found = names.taken, names.counters, list[str]()
        for _ in range(count):
            each = unique(name or "value", taken, counters)
            taken.add(each)
            found.append(each)
        return found

    def rename(self, value: Value, name: str) -> None:
        """Set the name of `value` exactly; duplicate names fail verification.

        The old name remains reserved, because another value may have it already.
        """
        self._names.taken.add(name)
        value.name = name

    def reserve(self, name: str) -> None:
        """Reserve a name, so that `fresh` does not return it."""
        self._names.taken.add(name)

    def is_reserved(self, name: str) -> bool:
        """Whether a value here, in a body or around has, had or will have this name."""
        return name in self._names.taken

    def share_names(self, body: Graph) -> None:
        """Merge the names of `body` into this graph's; called when a node gets a body."""
        self.may_have_bodies = True
        names, other = self._names, body._names
        if other is names:
            return
        if other.home is body:
            names.taken |= other.taken
        for inner in walk(body):
            if other.home is not body:
                # The body of a node that was removed from another graph; its names are not relevant here.
                names.taken.update(value.name for value in inner.values())
            inner._names = names

    def leave(self, node: Node) -> None:
        """Detach this body from `node`; its nodes no longer use outer values."""
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

    def append(self, node: Node) -> Node:
        """Append a node."""
        return self._link(node, self._last, None)

    def append_new(  # noqa: PLR0913, PLR0917  all that a node has
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Mapping[str, Attribute],
        dialect: str,
        name: str = "",
        origin: Span | tuple[Spans, int] | None = None,
        notes: Notes | None = None,
        before: Node | None = None,
    ) -> Node:
        """Append (or insert before `before`) a new node in three quarters of the time of `append(Node(…))`.

        The last operand is present, all results are used, and no attribute is a graph.
        """
        if before is not None:
            self._check(before)
        previous = self._last if before is None else before.previous
        node = Node.linked(
            previous, before, self, self._names.taken, op, inputs, outputs, attributes, dialect, name, origin, notes
        )
        if previous is None:
            self._first = node
        if before is None:
            self._last = node
        self._length += 1
        return node

    def extend(self, nodes: Iterable[Node]) -> None:
        """Append nodes in order."""
        # A reader links 100,000 nodes: hence no calls for each.
        last, taken = self._last, self._names.taken
        for node in nodes:
            if node.graph is not None:
                message = f"{node!r} is in graph {node.graph.name} already"
                raise ValueError(message)
            node.graph = self
            node.previous, node.next = last, None
            if last is None:
                self._first = node
            else:
                last.next = node
            self._last = last = node
            self._length += 1
            for value in node.outputs:
                if value is not None:
                    value.graph = self
                    taken.add(value.name)
            if node.has_bodies:
                for body in node.bodies():
                    self.share_names(body)

    def insert_before(self, place: Node, node: Node) -> Node:
        """Put `node` right before `place`."""
        self._check(place)
        return self._link(node, place.previous, place)

    def insert_after(self, place: Node | None, node: Node) -> Node:
        """Insert `node` after `place`, or first if `place` is None."""
        if place is None:
            return self._link(node, None, self._first)
        self._check(place)
        return self._link(node, place, place.next)

    def remove(self, node: Node) -> None:
        """Remove `node`, whose results must have no consumers; its uses and those of its bodies are unregistered."""
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

    def __repr__(self) -> str:
        return f"<graph {abridge_text(self.name)}: {self._length} nodes>"


def walk(graph: Graph) -> Iterator[Graph]:
    """Yield `graph` and all its bodies, each after its parent, in the order of nodes and attributes."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        if current.may_have_bodies:
            pending += [body for node in current if node.has_bodies for body in node.bodies()][::-1]


def _trim(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    stop = len(values)
    while stop and values[stop - 1] is None:
        stop -= 1
    return tuple(values[:stop])


def _own_attributes(attributes: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """Return attributes for a node to own: a copy, unless they are immutable."""
    return attributes if type(attributes) is PlainAttributes else dict(attributes)


def _graphs(bodies: Iterable[Body]) -> list[Graph]:
    return cast("list[Graph]", list(bodies))
