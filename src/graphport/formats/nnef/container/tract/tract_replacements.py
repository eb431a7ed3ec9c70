"""Standard operations that tract takes otherwise, in the form that it takes: in place, after `portable`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.build import DTYPE
from graphport.formats.nnef.container.operator_replacements import is_update, portable
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.rules.tract.types import datum_name
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dims import Dim

_ENTRIES_OF_A_NODE = 256
_OURS = ("nnef", "tract")
_WHOLE = frozenset(["nearest_upsample", "multilinear_upsample", "unstack", "pad", "deconv"])
"""Operations that other readers lack, and tract has, or that are fitted here."""


def to_tract_form(graph: Graph) -> Graph:
    """Rewrite a graph to operators that tract interprets correctly."""
    found = portable(graph, Edition.FINAL, keep=_WHOLE)
    if found is graph:
        found = rewrite.copy(graph)
    for inner in list(walk(found)):
        for node in inner:
            rule = _RULES.get(node.op_type) if node.dialect == "nnef" else None
            if rule is not None:
                rule(inner, node)
    rewrite.remove_dead(found, keep=is_update)
    return found


def with_common_types(graph: Graph) -> Graph:
    """Give inputs and outputs the types that all readers support; cast to and from the original types inside.

    Before  x = external(datum_type = "u8")
    After   w = external(datum_type = "i64");  x = tract_core_cast(w, to = "u8")
    """
    first = next(iter(graph), None)
    for value in graph.inputs:
        common, own = _common(value), value.fact
        if common is None or first is None or not isinstance(own, TensorFact):
            continue
        inner = Value(graph.fresh(value.name), own)
        value.replace_uses(inner)
        graph.insert_before(first, _cast_of(value, inner))
        value.fact = own.with_dtype(common)
    outputs = [_commonly_typed(graph, value) for value in graph.outputs]
    if outputs != graph.outputs:
        graph.set_outputs(outputs)
    return graph


def _commonly_typed(graph: Graph, value: Value) -> Value:
    """Cast an output to a type that all readers support; the cast result takes the name."""
    common, own = _common(value), value.fact
    if common is None or value.is_input or value.producer is None or not isinstance(own, TensorFact):
        return value
    outer = Value(graph.fresh(value.name), own.with_dtype(common))
    graph.append(_cast_of(value, outer))
    rewrite.swap_names(value, outer)
    return outer


def _common(value: Value) -> DType | None:
    """Return the dtype of standard readers that represents all values of a tract dtype."""
    dtype = value.dtype
    if dtype is None or dtype in (DType.FLOAT64, DType.FLOAT32, DType.INT64) or datum_name(dtype) is None:
        return None
    return DType.FLOAT32 if dtype.is_floating else DType.INT64 if dtype.is_integer else None


def _cast_of(value: Value, result: Value) -> Node:
    dtype = result.dtype
    to = {"to": datum_name(cast("DType", dtype))}
    return Node("tract_core_cast", [value], [result], to, dialect="tract")


def _inserted(graph: Graph, node: Node, op_type: str, operands: list[Value], **attributes: Any) -> Value:
    result = Value(graph.fresh(node.results[0].name), TensorFact(None, None))
    graph.insert_before(node, Node(op_type, operands, [result], attributes, dialect="nnef", origin=node.origin))
    return result


def _deconv(graph: Graph, node: Node) -> None:
    """Permute the filter: output channels first; `output_shape` contains spatial axes only."""
    weights = node.operands[1]
    groups = int(cast("int", node.attributes.get("groups", 1)))
    dims = weights.fact.dims if isinstance(weights.fact, TensorFact) else ()
    known = tuple(dim for dim in dims if isinstance(dim, int))
    if len(known) < len(dims) or not known:
        return
    count = groups or known[0]
    rows, columns = known[0] // count, known[1]
    order = (0, 2, 1, *range(3, len(known) + 1))
    shape = (count * columns, rows, *known[2:])
    if weights.storage is not None and weights.is_constant:
        array = weights.storage.numpy().reshape(count, rows, columns, *known[2:])
        storage = storage_of(np.ascontiguousarray(array.transpose(order).reshape(shape)), weights.storage.dtype)
        transposed = graph.root.add_constant(graph.fresh(weights.name), TensorFact.of(storage), storage)
    else:
        split = _inserted(graph, node, "reshape", [weights], shape=(count, rows, columns, *known[2:]))
        moved = _inserted(graph, node, "transpose", [split], axes=order)
        transposed = _inserted(graph, node, "reshape", [moved], shape=shape)
    node.set_input(1, transposed)
    wanted = node.attributes.get("output_shape")
    if isinstance(wanted, tuple) and len(wanted) == len(known):
        node.set_attribute("output_shape", tuple(wanted[2:]))


def _pad(graph: Graph, node: Node) -> None:
    """Rewrite pad: tract names the border `replicated` and lacks negative padding and reflect-even."""
    pairs = cast("tuple[tuple[int, int], ...]", node.attributes.get("padding", ()))
    border = node.attributes.get("border", "constant")
    dims = node.operands[0].fact.dims if isinstance(node.operands[0].fact, TensorFact) else ()
    cut = [(axis, pair) for axis, pair in enumerate(pairs) if min(pair) < 0]
    if cut:
        x = node.operands[0]
        for axis, (front, behind) in cut:
            extent = dims[axis]
            if not isinstance(extent, int):
                return
            begin, end = max(-front, 0), extent - max(-behind, 0)
            x = _inserted(graph, node, "slice", [x], axes=(axis,), begin=(begin,), end=(end,), stride=())
        node.set_input(0, x)
        pairs = tuple((max(front, 0), max(behind, 0)) for front, behind in pairs)
        node.set_attribute("padding", pairs)
    if border == "replicate":
        node.set_attribute("border", "replicated")
    if border == "reflect-even":
        _mirrored(graph, node, pairs, dims)


def _mirrored(graph: Graph, node: Node, pairs: tuple[tuple[int, int], ...], dims: tuple[Any, ...]) -> None:
    """Pad by reflection, repeating the edge: concatenate single-element slices with the tensor."""
    x = node.operands[0]
    for axis, (front, behind) in enumerate(pairs):
        extent = dims[axis]
        if not (front or behind) or not isinstance(extent, int):
            continue
        # One slice per element; a node costs as much memory as some hundred elements.
        reserve(front + behind, _ENTRIES_OF_A_NODE, what="entries of slices")
        indices = [*range(front - 1, -1, -1), None, *range(extent - 1, extent - 1 - behind, -1)]
        parts = [
            x
            if at is None
            else _inserted(graph, node, "slice", [x], axes=(axis,), begin=(at,), end=(at + 1,), stride=())
            for at in indices
        ]
        x = _inserted(graph, node, "concat", parts, axis=axis)
    copy = _inserted(graph, node, "copy", [x])
    old = node.results[0]
    rewrite.swap_names(old, copy)
    copy.fact = old.fact
    old.replace_uses(copy)
    graph.remove(node)


def _window(graph: Graph, node: Node) -> None:
    """Insert two axes for a window over batch or channels, which tract does not support."""
    size = cast("tuple[int, ...]", node.attributes["size"])
    stride = cast("tuple[int, ...]", node.attributes.get("stride") or ())
    pairs = cast("tuple[tuple[int, int], ...]", node.attributes.get("padding") or ())
    is_plain = len(size) > 2 and set(size[:2]) == {1} and set(stride[:2]) <= {1}
    if is_plain and all(pair == (0, 0) for pair in pairs[:2]):
        return
    node.set_input(0, _inserted(graph, node, "unsqueeze", [node.operands[0]], axes=(0, 1)))
    for name, own in (("size", 1), ("stride", 1), ("dilation", 1), ("padding", (0, 0))):
        given = node.attributes.get(name)
        if isinstance(given, tuple) and given:
            node.set_attribute(name, cast("Any", (own, own, *given)))
    for old in node.results:
        inner = Value(graph.fresh(old.name), old.fact)
        back = Node(
            "squeeze", [inner], [inner2 := Value(graph.fresh(old.name), old.fact)], {"axes": (0, 1)}, dialect="nnef"
        )
        graph.insert_after(node, back)
        rewrite.swap_names(old, inner2)
        old.replace_uses(inner2)
        back.set_input(0, old)


def _cast(graph: Graph, node: Node) -> None:
    """Replace a cast by `tract_core_cast`."""
    dtype = cast("DType", node.attributes[DTYPE])
    x = node.operands[0]
    result = Value(graph.fresh(node.results[0].name), node.results[0].fact)
    to = {"to": datum_name(dtype) or "f32"}
    graph.insert_before(node, Node("tract_core_cast", [x], [result], to, dialect="tract", origin=node.origin))
    old = node.results[0]
    rewrite.swap_names(old, result)
    old.replace_uses(result)
    graph.remove(node)


def _gather(graph: Graph, node: Node) -> None:
    """Replace `gather` by `tract_core_gather`."""
    result = Value(graph.fresh(node.results[0].name), node.results[0].fact)
    axis = {"axis": node.attributes["axis"]}
    graph.insert_before(node, Node("tract_core_gather", node.inputs, [result], axis, dialect="tract"))
    old = node.results[0]
    rewrite.swap_names(old, result)
    old.replace_uses(result)
    graph.remove(node)


def _matmul(graph: Graph, node: Node) -> None:
    """Fuse a transpose of the last two axes of a factor into the product, for which tract supports blocked weights."""
    del graph
    for place, name in enumerate(("transposeA", "transposeB")):
        value = node.operands[place]
        lead, made = _behind_leading(value), value.producer
        if lead is not None:
            made = lead.operands[0].producer
        if made is None or made.op_type != "transpose" or made.dialect not in _OURS or value.graph is not node.graph:
            continue
        axes = cast("tuple[int, ...]", made.attributes["axes"])
        rank = len(axes)
        if axes != (*range(rank - 2), rank - 1, rank - 2):
            continue
        if lead is None:
            node.set_input(place, made.operands[0])
        else:
            lead.set_input(0, made.operands[0])
            fact = cast("TensorFact", value.fact)
            shape = cast("tuple[Dim, ...]", fact.shape)
            value.fact = TensorFact(fact.dtype, (*shape[:-2], shape[-1], shape[-2]))
        node.set_attribute(name, not node.attributes.get(name, False))


def _behind_leading(value: Value) -> Node | None:
    """Return the single-user producer of `value` if it prepends axes of length 1; `None` otherwise."""
    made = value.producer
    if made is None or made.op_type != "unsqueeze" or made.dialect not in _OURS:
        return None
    if len(value.uses) > 1 or value.is_output or value.graph is not made.graph:
        return None
    axes = cast("tuple[int, ...]", made.attributes["axes"])
    has_shape = isinstance(value.fact, TensorFact) and value.fact.shape is not None
    return made if has_shape and sorted(axes) == list(range(len(axes))) else None


def _slice(graph: Graph, node: Node) -> None:
    """Replace a slice without axes by copy: tract requires an end."""
    if not node.attributes.get("axes"):
        graph.insert_before(node, copy := Node("copy", node.inputs, origin=node.origin, dialect="nnef"))
        copy.take_outputs(node)
        graph.remove(node)


_RULES: dict[str, Callable[[Graph, Node], None]] = {
    "deconv": _deconv,
    "pad": _pad,
    "slice": _slice,
    "matmul": _matmul,
    "box": _window,
    "max_pool": _window,
    "avg_pool": _window,
    "cast": _cast,
    "gather": _gather,
}
