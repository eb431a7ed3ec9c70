"""Common subexpression elimination, and merging of equal constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.element_digest import digest_elements
from graphport.core.storage import Storage
from graphport.ir import rewrite
from graphport.ir.graph import Graph, walk
from graphport.ops import registry
from graphport.passes.journal import Journal, label

if TYPE_CHECKING:
    from collections.abc import Hashable

    from graphport.ir.graph import Attribute, Node, Value

MAX_KEY_BYTES = 1 << 12
"""Number of bytes of a constant in its key; longer constants with equal keys are compared by a digest."""


def merge_duplicates(graph: Graph, journal: Journal) -> None:
    """Merge nodes that compute equal results, and constants with equal elements.

    Before  a = Relu(x);  b = Relu(x);  y = Add(a, b)
    After   a = Relu(x);  y = Add(a, a)

    The first one remains. Does not apply to nodes with bodies, opaque operators, random numbers, and two distinct graph
    outputs. Preserves values bit for bit.
    """
    for inner in list(walk(graph)):
        merge_constants(inner, journal)
        _merge_nodes(inner, journal)


class _Alike:
    """Constants of one type and shape with equal first bytes, by their digests."""

    def __init__(self, value: Value, storage: Storage) -> None:
        self._first = value, storage
        self._by_digest: dict[bytes, Value] = {}

    def find(self, value: Value, storage: Storage) -> Value:
        """Return the first constant with the elements of `storage`: `value` itself if there is none."""
        first, held = self._first
        if held is storage or storage.nbytes <= MAX_KEY_BYTES:
            return first
        if not self._by_digest:
            self._by_digest[digest_elements(held)] = first
        return self._by_digest.setdefault(digest_elements(storage), value)


def merge_constants(graph: Graph, journal: Journal) -> None:
    """Merge the constants of a graph, without bodies, that have equal elements."""
    seen: dict[Hashable, _Alike] = {}
    for value in list(graph.constants):
        storage = value.storage
        if storage is None or storage.dtype is DType.STRING or value.has_notes:
            continue
        begin = next(storage.chunks(MAX_KEY_BYTES), b"")
        key = (storage.dtype, storage.shape, value.is_literal, bytes(begin))
        first = seen.setdefault(key, _Alike(value, storage)).find(value, storage)
        if first is value or value.is_output:
            continue
        value.replace_uses(first)
        graph.remove_constant(value)
        journal.did(value.name, f"is equal to {first.name}")


def _merge_nodes(graph: Graph, journal: Journal) -> None:
    seen: dict[Hashable, Node] = {}
    for node in graph:
        if not _is_repeatable(node):
            continue
        first = seen.setdefault(_key(node), node)
        if first is node or not _can_stand_in(first, node):
            continue
        name = label(node)
        for old in node.results:
            new = first.outputs[old.index]
            if new is not None:
                rewrite.replace(old, new)
        graph.remove(node)
        journal.did(name, f"{label(first)} computes an equal result")


def _is_repeatable(node: Node) -> bool:
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is None or op_def.is_random or not node.results or any(True for _ in node.bodies()):
        return False
    return node.op_type != "Dropout" or node.operand(2) is None


def _can_stand_in(first: Node, node: Node) -> bool:
    for old in node.results:
        new = first.outputs[old.index] if old.index < len(first.outputs) else None
        if new is None or (old.is_output and new.is_output):
            return False
    return True


def _key(node: Node) -> Hashable:
    attributes = tuple((name, _frozen(node.attributes[name])) for name in sorted(node.attributes))
    return node.op_type, node.inputs, attributes, len(node.outputs)


def _frozen(attribute: Attribute) -> Any:
    if isinstance(attribute, Storage):
        return attribute.dtype, attribute.shape, b"".join(bytes(piece) for piece in attribute.chunks())
    # 1, 1.0 and True compare equal in Python but are different attributes.
    return type(attribute), attribute
