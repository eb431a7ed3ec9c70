"""Regions of `torch.vmap`: between two markers, tensors have an axis that the operators ignore.

    x = _add_batch_dim(xs, dim, level)          xs = movedim(xs, dim, 0)
    y = op(x, w)                         →      ys = map_impl(graph: x → op(x, w), [xs])
    ys = _remove_batch_dim(y, level, n, dim)    ys = movedim(ys, 0, dim)

`associative_scan` is exported as vmap regions.
"""

from __future__ import annotations

from typing import Any

from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.pytorch.rules.binding import ITEM, KEYS
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

_SPACE = "torch._functorch.predispatch."
_ENTER, _LEAVE = f"{_SPACE}_vmap_increment_nesting", f"{_SPACE}_vmap_decrement_nesting"
_ADD, _REMOVE = f"{_SPACE}_add_batch_dim", f"{_SPACE}_remove_batch_dim"
_MAP, _MOVE, _ALIAS = "higher_order.map_impl", "aten.movedim.int", "aten.alias.default"


def map_regions(graph: Graph) -> None:
    """Convert every region to `map_impl`, innermost regions first."""
    entered: list[Node] = []
    for node in list(graph):
        if node.dialect != DIALECT:
            continue
        if node.op_type == _ENTER:
            entered.append(node)
        elif node.op_type == _LEAVE and entered:
            _map(graph, entered.pop(), node)


def _map(graph: Graph, first: Node, last: Node) -> None:
    """Move the batched nodes between two markers to the body of a `map_impl` node before `last`."""
    added, removed, inner = _split_at_markers(first, last)
    if not added or not removed or any(_axis(node, "1") is None for node in added):
        return
    if any(_axis(node, "3") is None for node in removed):
        return
    body = Graph("slice")
    graph.share_names(body)
    values: dict[Value, Value] = {}
    scanned: list[Value] = []
    for node in added:
        scanned.append(_moved(graph, last, node.operands[0], int(node.attributes["1"]), 0))  # pyright: ignore[reportArgumentType]
        values[node.output] = body.add_input(node.output.name, node.output.fact)
    for node in inner:
        results = [None if v is None else Value(body.fresh(v.name), v.fact) for v in node.outputs]
        body.append(rewrite.copy_node(node, values, results))
        values |= {old: new for old, new in zip(node.outputs, results, strict=True) if old is not None and new}
    for node in removed:
        given = node.operands[0]
        body.add_output(values.get(given) or _read(body, given))
    stacked = [Value(graph.fresh(node.output.name), _stacked(node)) for node in removed]
    keys = (f"1{ITEM}",) * len(scanned)
    graph.insert_before(last, Node(_MAP, scanned, stacked, {"0": body, KEYS: keys}, dialect=DIALECT, name=first.name))
    for node, value in zip(removed, stacked, strict=True):
        rewrite.replace(node.output, _moved(graph, last, value, 0, int(node.attributes["3"])))  # pyright: ignore[reportArgumentType]
    for node in (*reversed(removed), *reversed(inner), *reversed(added), first, last):
        graph.remove(node)


def _split_at_markers(first: Node, last: Node) -> tuple[list[Node], list[Node], list[Node]]:
    """Return the begin markers, the end markers, and the nodes between them."""
    added: list[Node] = []
    removed: list[Node] = []
    inner: list[Node] = []
    seen: set[Value] = set()
    node = first.next
    while node is not None and node is not last:
        if node.dialect == DIALECT and node.op_type == _ADD:
            added.append(node)
            seen.add(node.output)
        elif node.dialect == DIALECT and node.op_type == _REMOVE:
            removed.append(node)
        elif any(value in seen for value in node.operands) or any(v in seen for v in rewrite.captured(node)):
            inner.append(node)
            seen.update(node.results)
        node = node.next
    return added, removed, inner


def _axis(node: Node, key: str) -> int | None:
    found = node.attributes.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _moved(graph: Graph, place: Node, value: Value, source: int, target: int) -> Value:
    if source == target:
        return value
    made = Value(graph.fresh(value.name), UNKNOWN)
    attributes: dict[str, Any] = {"source": source, "destination": target, KEYS: ("self",)}
    graph.insert_before(place, Node(_MOVE, [value], [made], attributes, dialect=DIALECT))
    return made


def _read(body: Graph, value: Value) -> Value:
    """Return an alias of an outer value in the body."""
    made = Value(body.fresh(value.name), value.fact)
    body.append(Node(_ALIAS, [value], [made], {KEYS: ("self",)}, dialect=DIALECT))
    return made


def _stacked(node: Node) -> Any:
    """Return the fact of a region's result before the batch axis is moved; unknown unless it stays axis 0."""
    fact = node.output.fact
    return fact if _axis(node, "3") == 0 else TensorFact(fact.dtype, None) if isinstance(fact, TensorFact) else UNKNOWN
