"""Values and nodes: what is computed, and what computes it.

A node knows its operands and results, a value knows who computes it and who reads it; every edit keeps both sides of
that in step and costs the same in a graph of any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Never, Protocol, TypeAlias, cast

from graphport.core.facts import UNKNOWN, Fact

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph

Attribute: TypeAlias = (
    "bool | int | float | complex | str | bytes | DType | Fact | Storage | Graph | tuple[Attribute, ...] | None"
)
"""What an attribute may be; lists are tuples, nested as deep as a format likes."""

Notes: TypeAlias = "dict[str, object]"
"""What a format needs to write itself back and nobody else reads: copied with its owner, never compared."""


class Places(Protocol):
    """Knows the places of many nodes, and says them when somebody asks."""

    def span(self, index: int) -> Span:
        """The place of number `index`."""
        ...


class Body:
    """What a node may have among its attributes besides numbers and texts: a `Graph`, the only kind there is."""

    __slots__ = ("parent",)

    parent: Node | None


PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
"""What most attributes are, and what has no graphs in it."""


class PlainAttributes(dict[str, "Attribute"]):
    """Attributes with no graph among them: who says so spares each node that is given them looking for one."""


class Use(NamedTuple):
    """A place that reads a value: operand `index` of a node, or result `index` of a graph."""

    user: Node | Graph
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  nobody looks for an item in a use

    def read(self, value: Value) -> None:
        """Let it read `value` there."""
        if isinstance(self.user, Node):
            self.user.set_input(self.index, value)
        else:
            self.user.set_output(self.index, value)


_use = cast("Callable[[type[Use], tuple[Node | Graph, int]], Use]", cast("Any", tuple).__new__)
"""Makes a use without the call in Python that its own constructor is."""


class Value:
    """One tensor (or sequence, or optional): computed by a node, given to the graph, or constant."""

    __slots__ = (
        "_notes",
        "_origin",
        "fact",
        "graph",
        "index",
        "is_literal",
        "name",
        "producer",
        "returns",
        "storage",
        "uses",
    )

    def __init__(
        self,
        name: str,
        fact: Fact = UNKNOWN,
        *,
        storage: Storage | None = None,
        origin: Span | tuple[Places, int] | None = None,
    ) -> None:
        self.name = name
        self.fact = fact
        self.storage = storage
        self._origin = origin
        self.producer: Node | None = None
        self.index = 0
        self.graph: Graph | None = None
        self.uses: dict[Use, None] = {}
        # How many of the uses are outputs of graphs: replacements ask, and a value may have very many uses.
        self.returns = 0
        self.is_literal = False
        self._notes: Notes | None = None

    @property
    def origin(self) -> Span | None:
        """The place in the source."""
        origin = self._origin
        if isinstance(origin, tuple):
            places, index = origin
            origin = self._origin = places.span(index)
        return origin

    @origin.setter
    def origin(self, origin: Span | tuple[Places, int] | None) -> None:
        self._origin = origin

    @property
    def unasked_origin(self) -> Span | tuple[Places, int] | None:
        """`origin` for a value that is to have the same one, unsaid if nobody has asked."""
        return self._origin

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
            if not isinstance(user, Node):
                user.set_output(index, other)
            elif user not in keep:
                user.set_input(index, other)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.fact}"


class Node:
    """One operation: a word of a dialect, applied to values."""

    __slots__ = (
        "_given",
        "_inputs",
        "_notes",
        "_origin",
        "_outputs",
        "attributes",
        "dialect",
        "graph",
        "has_bodies",
        "name",
        "next",
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
        origin: Span | tuple[Places, int] | None = None,
        notes: Notes | None = None,
    ) -> None:
        """A node outside of any graph.

        Args:
            op: the word; with `dialect` it is `node.op` (`nnef.conv`), without it is canonical (`Conv`).
            inputs: operands, `None` for an absent one; trailing ones are trimmed.
            outputs: results that nobody else computes, `None` for one that is not wanted.
            attributes: by name.
            dialect: `nnef`, `openvino`, …; empty for the canonical one.
            name: the node's own name, where a format has one.
            origin: the place in the source, or who says it when somebody asks.
            notes: what its format needs to write it back; the node keeps the dictionary.
        """
        # Models have 100,000 nodes, and all of this is done for each: hence no calls, and nothing made that may never
        # be asked for.
        self.dialect = dialect
        self.word = op
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
        # Operands as they were given, or as a list from the first edit on: replacing one of 50,000 copies no others.
        self._given: tuple[Value | None, ...] | None = tuple(inputs)
        if inputs and inputs[-1] is None:
            self._given = _trim(inputs)
        self._inputs: list[Value | None] | None = None
        for index, value in enumerate(self._given):
            if value is not None:
                value.uses[_use(Use, (self, index))] = None
        self.attributes: dict[str, Attribute] = dict(attributes) if attributes else {}
        # False if there is none; walks over all nodes ask it first.
        self.has_bodies = False
        if attributes and type(attributes) is not PlainAttributes:
            for body in _bodies(self.attributes):
                self.has_bodies = True
                body.parent = self

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
    def origin(self) -> Span | None:
        """The place in the source."""
        origin = self._origin
        if isinstance(origin, tuple):
            places, index = origin
            origin = self._origin = places.span(index)
        return origin

    @origin.setter
    def origin(self, origin: Span | tuple[Places, int] | None) -> None:
        self._origin = origin

    @property
    def unasked_origin(self) -> Span | tuple[Places, int] | None:
        """`origin` for a node that is to have the same one, unsaid if nobody has asked."""
        return self._origin

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
        given = self._given
        if given is None:
            given = self._given = tuple(self._inputs or ())
        return given

    @inputs.setter
    def inputs(self, values: Sequence[Value | None]) -> None:
        for index, value in enumerate(self.inputs):
            if value is not None:
                del value.uses[_use(Use, (self, index))]
        self._given = _trim(values)
        self._inputs = None
        for index, value in enumerate(self._given):
            if value is not None:
                value.uses[_use(Use, (self, index))] = None

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
        inputs = self._inputs if self._given is None else self._given
        return inputs[index] if inputs and index < len(inputs) else None

    @property
    def operands(self) -> list[Value]:
        """The operands that are there."""
        return [value for value in self.inputs if value is not None]

    @property
    def results(self) -> list[Value]:
        """The results that are there."""
        outputs = self._outputs
        if len(outputs) == 1 and outputs[0] is not None:
            return [outputs[0]]
        return [value for value in outputs if value is not None]

    def set_input(self, index: int, value: Value | None) -> None:
        """Let operand `index` be `value`; operands between the last one and `index` become absent ones."""
        if index < 0:
            message = f"there is no operand {index}"
            raise IndexError(message)
        inputs = self._inputs
        if inputs is None:
            inputs = self._inputs = list(self._given or ())
        inputs.extend([None] * (index + 1 - len(inputs)))
        old = inputs[index]
        if old is not None:
            del old.uses[Use(self, index)]
        inputs[index] = value
        if value is not None:
            value.uses[Use(self, index)] = None
        while inputs and inputs[-1] is None:
            inputs.pop()
        self._given = None

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

    def restate(self, word: str, dialect: str, attributes: Mapping[str, Attribute]) -> None:
        """Become another operation, without bodies and notes, that reads and computes the same values."""
        if self.has_bodies:
            message = f"{self!r} has bodies"
            raise ValueError(message)
        self.word = word
        self.dialect = dialect
        self.attributes = dict(attributes)
        self._notes = None

    def set_attribute(self, name: str, attribute: Attribute) -> None:
        """Set attribute `name`; a graph becomes this node's body, one that it replaces is released."""
        replaced = list(_graphs(self.attributes.get(name)))
        self.attributes[name] = attribute
        for body in _graphs(attribute):
            self.has_bodies = True
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
        for body in replaced:
            if body not in kept:
                body.leave(self)

    def bodies(self) -> Iterator[Graph]:
        """The graphs among the attributes, in their order."""
        return iter(_bodies(self.attributes) if self.has_bodies else ())

    def __repr__(self) -> str:
        results = ", ".join("_" if value is None else f"%{value.name}" for value in self._outputs)
        operands = ", ".join("_" if value is None else f"%{value.name}" for value in self.inputs)
        return f"{results} = {self.op}({operands})"


def _trim(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    stop = len(values)
    while stop and values[stop - 1] is None:
        stop -= 1
    return tuple(values[:stop])


def _bodies(attributes: Mapping[str, Attribute]) -> Sequence[Graph]:
    """The graphs among attributes; of most nodes none, which is found without a generator."""
    found: Sequence[Graph] = ()
    for attribute in attributes.values():
        kind = type(attribute)
        if kind is tuple and PLAIN.issuperset(map(type, cast("tuple[Any, ...]", attribute))):
            continue
        if kind not in PLAIN:
            found = [*found, *_graphs(attribute)]
    return found


def _graphs(attribute: Attribute) -> Iterator[Graph]:
    if type(attribute) in PLAIN or (type(attribute) is tuple and PLAIN.issuperset(map(type, attribute))):
        return
    # Without recursion: tuples are nested as deep as a file nests them.
    pending = [attribute]
    while pending:
        item = pending.pop()
        if isinstance(item, Body):
            yield item
        elif isinstance(item, tuple):
            pending.extend(reversed(item))
