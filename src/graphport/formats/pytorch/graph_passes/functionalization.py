"""Functionalization: in-place writes are replaced by new values, and views of a written storage are recomputed.

Before  y = slice(x, 1, 0, 2);  add_(y, 1);  z = relu(x)
After   y = slice(x, 1, 0, 2);  y' = add(y, 1);  x' = slice_scatter(x, y', 1, 0, 2);  z = relu(x')

An operator that returns a view or a copy, depending on the layout, is handled if the file's strides decide. If they do
not, a write that could be visible through it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.pytorch.rules.binding import ITEM, KEYS
from graphport.formats.pytorch.rules.overloads import DIALECT, VIEWS, View, base_of, functional, writes_first_operand
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


STRIDED = "pt2.strided"
"""Note of a value that is not contiguous."""
WRITTEN = "pt2.written"
"""Note of an input or weight that the program writes to: its new value."""
_ALIAS, _CAST, _RESHAPE = "aten.alias.default", "aten.to.dtype", "aten.reshape_as.default"
_STATISTICS = ("running_mean", "running_var")
_BATCH_UPDATED = "aten._native_batch_norm_legit_functional.default"
_NORMALIZED = {
    "aten.batch_norm.default": (_BATCH_UPDATED, "training", 3),
    "aten._native_batch_norm_legit.default": (_BATCH_UPDATED, "training", 3),
    "aten.instance_norm.default": ("aten.instance_norm.statistics", "use_input_stats", 0),
}
"""Operators that update running statistics in training, with the operator for the statistics, the
training argument, and the number of results before them.
"""


class _Storage:
    """A storage that several tensors may share, and its version."""

    __slots__ = ("doubt", "version")

    def __init__(self) -> None:
        self.version = 0
        # The tensor through which it may have been written, if the layout is unknown.
        self.doubt: str | None = None


class _Tensor:
    """A tensor of the program: its current value, and its derivation from the tensor that it is a view of."""

    __slots__ = ("handle", "node", "parent", "place", "siblings", "sources", "storage", "value", "version", "view")

    def __init__(
        self, value: Value, parent: _Tensor | None = None, node: Node | None = None, view: View | None = None
    ) -> None:
        self.handle = self.value = value
        self.parent = parent
        self.node = node
        self.view = view
        self.place = value.index
        self.siblings: list[_Tensor] = [self]
        self.storage: _Storage = parent.storage if parent is not None else _Storage()
        self.version = self.storage.version
        # Tensors of which it may be a view, depending on layout or branch, and their versions at its creation.
        self.sources: tuple[tuple[_Tensor, int], ...] = ()


class RefusedWriteError(Exception):
    """A write whose effects cannot be determined."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of the functionalization at a point of the program: values and versions of tensors and storages."""

    tensors: dict[Value, _Tensor]
    values: dict[_Tensor, tuple[Value, int, tuple[tuple[_Tensor, int], ...]]]
    storages: dict[_Storage, tuple[int, str | None]]


def functionalize(graph: Graph) -> list[Diagnostic]:
    """Replace all in-place writes of `graph`; return diagnostics for unsupported ones."""
    if not any(node.dialect == DIALECT and (writes_first_operand(node.op_type) or _trains(node)) for node in graph):
        return []
    return Functionalizer(graph).run()


class Functionalizer:
    """Functionalization of a graph with `run`, or of appended nodes with `append`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        """Where new nodes go."""
        self.tensors: dict[Value, _Tensor] = {}
        self.findings: list[Diagnostic] = []

    def run(self) -> list[Diagnostic]:
        for node in list(self.graph):
            self._tried(node, self._node, node)
        for index, value in enumerate(self.graph.outputs):
            self._tried(None, self._output, index, value)
        for value, tensor in self.tensors.items():
            if tensor.storage.version and tensor.parent is None and value.producer is None:
                self._tried(None, self._note, value, tensor)
        return self.findings

    # Nodes appended one by one

    def append(self, node: Node) -> None:
        """Process the last node of the graph.

        Raises:
            RefusedWriteError: the write is not supported.
        """
        self._node(node)

    def current(self, value: Value) -> Value:
        """Return the value of tensor `value` after all writes so far.

        Raises:
            RefusedWriteError: the value is ambiguous.
        """
        tensor = self.tensors.get(value)
        return value if tensor is None else self._now(tensor, None)

    def assign(self, value: Value, new: Value) -> None:
        """Set the tensor `value` to `new`, and update all tensors that alias it.

        Raises:
            RefusedWriteError: the aliases are ambiguous.
        """
        self._store(self._tensor(value), new, None)
        self.tensors[new] = self.tensors[value]

    def root_of(self, value: Value) -> Value:
        """Return the base of the view `value`, or `value` if it is not a view."""
        return _root(self._tensor(value)).handle

    def possible_roots(self, value: Value) -> list[Value]:
        """Return the tensors of which `value` is or may be a view."""
        visited = {_root(self._tensor(value)): None}
        pending = list(visited)
        while pending:
            roots = [_root(source) for source, _ in pending.pop().sources]
            pending += [root for root in roots if root not in visited]
            visited |= dict.fromkeys(roots)
        return [root.handle for root in visited]

    def has_writes(self, value: Value) -> bool:
        """Whether the program has written into the tensor `value`."""
        return value in self.tensors and self.tensors[value].storage.version > 0

    def may_show(self, value: Value, candidates: Sequence[Value], *, has_writes: bool = False) -> None:
        """Declare that `value` is a view of one of `candidates` or a copy, depending on run-time conditions.

        Args:
            value: a tensor that is not a view so far.
            candidates: tensors of which it may be a view.
            has_writes: whether the program has already written into `value`.
        """
        if has_writes:
            for candidate in candidates:
                self._tensor(candidate).storage.doubt = value.name
            return
        tensor = self._tensor(value)
        sources = [self._tensor(candidate) for candidate in candidates if candidate is not value]
        tensor.sources = (*tensor.sources, *[(source, source.storage.version) for source in sources])

    def note(self) -> None:
        """Add notes with the new values of written inputs and weights."""
        for value, tensor in list(self.tensors.items()):
            if tensor.storage.version and tensor.parent is None and value.producer is None:
                self._note(value, tensor)

    def snapshot(self) -> Snapshot:
        """Return the current state of all tensors."""
        known = set(self.tensors.values())
        return Snapshot(
            dict(self.tensors),
            {tensor: (tensor.value, tensor.version, tensor.sources) for tensor in known},
            {tensor.storage: (tensor.storage.version, tensor.storage.doubt) for tensor in known},
        )

    def restore(self, saved: Snapshot) -> None:
        """Restore the state `saved`."""
        self.tensors = dict(saved.tensors)
        for tensor, (value, version, sources) in saved.values.items():
            tensor.value, tensor.version, tensor.sources = value, version, sources
        for storage, (version, doubt) in saved.storages.items():
            storage.version, storage.doubt = version, doubt

    def written_since(self, saved: Snapshot, body: Graph) -> list[Value]:
        """Return the tensors outside of `body` that were written since `saved`."""
        found: dict[_Tensor, Value] = {}
        for value, tensor in self.tensors.items():
            before = saved.storages.get(tensor.storage, (0, None))[0]
            if tensor.parent is None and tensor.storage.version > before and value.graph is not body:
                found.setdefault(tensor, value)
        return list(found.values())

    # All nodes of a graph

    def _tried(self, node: Node | None, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except RefusedWriteError as refused:
            what = "an output" if node is None else node.op
            help = "save the result of run_decompositions(), which has no in-place operators"
            origin = None if node is None else node.origin
            self.findings.append(Diagnostic("LEG0004", f"{what}: {refused}", origin, help))

    def _note(self, value: Value, tensor: _Tensor) -> None:
        """Add a note with the final value of an input or weight."""
        value.notes[WRITTEN] = self._now(tensor, None)

    def _tensor(self, value: Value) -> _Tensor:
        found = self.tensors.get(value)
        if found is None:
            found = self.tensors[value] = _Tensor(value)
        return found

    def _output(self, index: int, value: Value) -> None:
        if value not in self.tensors:
            return
        now = self._now(self.tensors[value], None)
        if now is value:
            return
        if now.producer is None or now.is_output or now.graph is not self.graph:
            now = self._insert_node(None, _ALIAS, {"self": now}, now.fact)
        if not value.is_input:
            rewrite.swap_names(value, now)
        self.graph.set_output(index, now)

    # Nodes

    def _node(self, node: Node) -> None:
        first = node.operand(0)
        original = None if first is None else self._tensor(first)
        for place, value in enumerate(node.inputs):
            tensor = None if value is None else self.tensors.get(value)
            if value is not None and tensor is not None and (now := self._now(tensor, node)) is not value:
                node.set_input(place, now)
        if node.dialect != DIALECT or original is None:
            return
        if writes_first_operand(node.op_type):
            self._write(node, original)
        elif (view := VIEWS.get(base_of(node.op_type))) is not None:
            self._look(node, original, view)
        elif _trains(node):
            self._update(node)

    def _update(self, node: Node) -> None:
        """Insert a node that computes the new running statistics of a normalization in training mode."""
        keys: Any = node.attributes.get(KEYS, ())
        given = dict(zip(keys, node.inputs, strict=False))
        old = [value for name in _STATISTICS if (value := given.get(name)) is not None]
        if len(old) != len(_STATISTICS):
            return
        new = [Value(self.graph.fresh(value.name), value.fact) for value in old]
        op_type, _, before = _NORMALIZED[node.op_type]
        attributes = {name: value for name, value in node.attributes.items() if name != "cudnn_enabled"}
        twin = Node(op_type, node.inputs, [*[None] * before, *new], attributes, dialect=DIALECT)
        self.graph.insert_after(node, twin)
        for was, after in zip(old, new, strict=True):
            self._store(self._tensor(was), after, twin.next)

    def _look(self, node: Node, original: _Tensor, view: View) -> None:
        """Register the results of a view operator as views, or possible views, of the first operand."""
        looks = True if view.doubt is None else _looks(node, view.doubt)
        if looks is False:
            return
        tensors: list[_Tensor] = []
        for value in node.results:
            tensor = _Tensor(value, original, node, view) if looks else _Tensor(value)
            if not looks:
                tensor.sources = ((original, original.storage.version),)
            self.tensors[value] = tensor
            tensors.append(tensor)
        for tensor in tensors:
            tensor.siblings = tensors

    def _write(self, node: Node, original: _Tensor) -> None:
        """Replace an in-place node by its functional form; its result is the new value of the written tensor."""
        written = node.operand(0)
        op_type = functional(node.op_type)
        if registry.lowering(DIALECT, op_type) is None:
            reason = f"unsupported in-place operator {op_type}"
            raise RefusedWriteError(reason)
        view = VIEWS.get(base_of(op_type))
        node.op_type = op_type
        if view is not None and view.kind != "same":
            self._look_in_place(node, original, view)
            return
        results = node.results
        fact = results[0].fact if results else UNKNOWN if written is None else written.fact
        if not results:
            made = Value(self.graph.fresh("written"), fact)
            self._with_result(node, made)
            new = made
        else:
            new = results[0]
        if view is None:
            new = self._cast(node, new, written)
        self._store(original, new, (new.producer or node).next)
        # Later nodes use the cast result if a cast was needed; both values represent the written tensor.
        for value in (new, *results):
            self.tensors[value] = original

    def _look_in_place(self, node: Node, original: _Tensor, view: View) -> None:
        """Process an in-place view operator, for example `unsqueeze_`, which changes only shape and strides."""
        self._look(node, original, view)
        if node.results:
            after = self._tensor(node.results[0])
            for value, tensor in self.tensors.items():
                if tensor is original:
                    self.tensors[value] = after

    def _with_result(self, node: Node, value: Value) -> None:
        twin = Node(
            node.op_type,
            node.inputs,
            [value],
            node.attributes,
            dialect=DIALECT,
            name=node.name,
            origin=node.unasked_origin,
        )
        self.graph.insert_after(node, twin)
        self.graph.remove(node)

    def _cast(self, node: Node, new: Value, written: Value | None) -> Value:
        """Cast the result to the type of the written tensor."""
        fact = None if written is None else written.fact
        dtype = fact.dtype if isinstance(fact, TensorFact) else None
        kinds = {value.fact.dtype for value in node.operands if isinstance(value.fact, TensorFact)}
        if dtype is None or (kinds == {dtype} and dtype.kind in "fc"):
            return new
        cast = Value(self.graph.fresh(new.name), new.fact)
        new.replace_uses(cast)
        new.fact = UNKNOWN
        made = Node(_CAST, [new], [cast], {"dtype": f"torch.{dtype.text}", KEYS: ("self",)}, dialect=DIALECT)
        self.graph.insert_after(new.producer or node, made)
        self.tensors[cast] = self._tensor(new)
        return cast

    # Values now

    def _now(self, tensor: _Tensor, place: Node | None) -> Value:
        """Return the value of a tensor before `place`; derive it again if its base was written."""
        if any(source.storage.version != version for source, version in tensor.sources):
            reason = (
                f"%{tensor.value.name} is either a view of a modified tensor or a copy, depending on run-time values"
            )
            raise RefusedWriteError(reason)
        if tensor.storage.doubt is not None:
            written, read = tensor.storage.doubt, tensor.value.name
            reason = (
                f"%{written} is modified in place and is either a view "
                f"of %{read} or a copy, depending on run-time values"
            )
            raise RefusedWriteError(reason)
        if tensor.version == tensor.storage.version:
            return tensor.value
        if tensor.parent is None or tensor.node is None:
            reason = f"the value written to %{tensor.value.name} is unknown"
            raise RefusedWriteError(reason)
        parent = self._now(tensor.parent, place)
        node = tensor.node
        results = [None if v is None else Value(self.graph.fresh(v.name), v.fact) for v in node.outputs]
        twin = rewrite.copy_node(node, {}, results)
        twin.set_input(0, parent)
        self._insert(place, twin)
        found = results[tensor.place]
        if found is None:
            raise RefusedWriteError(node.op)
        tensor.value, tensor.version = found, tensor.storage.version
        return found

    def _store(self, tensor: _Tensor, new: Value, place: Node | None) -> None:
        """Set a tensor to `new` before the node `place`, and update its base."""
        # Whether the write changes other tensors depends on view or copy, so their next use is refused.
        for source, _ in tensor.sources:
            source.storage.doubt = tensor.value.name
        tensor.sources = ()
        if tensor.parent is not None:
            parent = self._now(tensor.parent, place)
            self._store(tensor.parent, self._put_back(tensor, parent, new, place), place)
        else:
            tensor.storage.version += 1
        tensor.value, tensor.version = new, tensor.storage.version

    def _put_back(self, tensor: _Tensor, parent: Value, new: Value, place: Node | None) -> Value:
        """Return the new value of the base of `tensor` after `new` is written."""
        node, view = tensor.node, tensor.view
        if node is None or view is None:
            raise RefusedWriteError(tensor.value.name)
        match view.kind:
            case "same":
                return new
            case "slice" if view.op_type is not None:
                return self._insert_node(place, view.op_type, {"self": parent, "src": new}, parent.fact, node)
            case "reshape":
                return self._insert_node(place, _RESHAPE, {"self": new, "other": parent}, parent.fact)
            case "undo" if view.op_type is not None:
                made = self._insert_node(place, view.op_type, {"self": new}, parent.fact, node)
                if view.inverse is not None and made.producer is not None:
                    for name, value in view.inverse(made.producer.attributes).items():
                        made.producer.set_attribute(name, value)
                return made
            case "cat" | "stack":
                return self._joined(tensor, new, parent, place)
            case _:
                reason = f"it writes to %{tensor.value.name}, whose elements overlap"
                raise RefusedWriteError(reason)

    def _joined(self, tensor: _Tensor, new: Value, parent: Value, place: Node | None) -> Value:
        """Return the new base of a split: all chunks concatenated, with the written chunk replaced."""
        node = tensor.node
        dim = 0 if node is None else node.attributes.get("dim", 0)
        parts = [new if other is tensor else self._now(other, place) for other in tensor.siblings]
        op_type = "aten.cat.default" if tensor.view is not None and tensor.view.kind == "cat" else "aten.stack.default"
        made = Value(self.graph.fresh(parent.name), parent.fact)
        keys = (f"tensors{ITEM}",) * len(parts)
        self._insert(place, Node(op_type, parts, [made], {"dim": dim, KEYS: keys}, dialect=DIALECT))
        return made

    def _insert_node(
        self, place: Node | None, op_type: str, operands: dict[str, Value], fact: Any, like: Node | None = None
    ) -> Value:
        """Insert a node with named operands and the remaining arguments of `like`."""
        given, keys = list(operands.values()), list(operands)
        attributes: dict[str, Any] = {}
        if like is not None:
            attributes = {name: value for name, value in like.attributes.items() if name != KEYS}
            names: Any = like.attributes.get(KEYS, ())
            for value, key in zip(like.inputs[1:], names[1:], strict=False):
                if value is not None:
                    given.append(value)
                    keys.append(key)
        made = Value(self.graph.fresh(given[0].name), fact)
        self._insert(place, Node(op_type, given, [made], attributes | {KEYS: tuple(keys)}, dialect=DIALECT))
        return made

    def _insert(self, place: Node | None, node: Node) -> None:
        if place is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(place, node)


def _trains(node: Node) -> bool:
    """Whether an operator normalizes by batch statistics and updates running statistics."""
    known = _NORMALIZED.get(node.op_type)
    return known is not None and bool(node.attributes.get(known[1]))


def _root(tensor: _Tensor) -> _Tensor:
    while tensor.parent is not None:
        tensor = tensor.parent
    return tensor


def _looks(node: Node, doubt: str) -> bool | None:
    """Whether an operator that may copy returns a view; `None` if the file does not determine it."""
    operand, result = node.operand(0), node.results[0]
    if operand is None:
        return False
    dense = not (operand.has_notes and STRIDED in operand.notes)
    match doubt:
        case "layout":
            return True if dense or operand.shape == result.shape else None
        case "contiguous":
            return dense if node.attributes.get("memory_format") in (None, "contiguous") else None
        case "cast":
            return operand.dtype is result.dtype and not node.attributes.get("copy")
        case _:
            return not node.attributes.get("train", node.attributes.get("training"))
