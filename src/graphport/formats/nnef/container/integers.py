"""Integer arithmetic, which NNEF defines for real numbers only: insert casts."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.build import DIALECT, DTYPE
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.item_types import Converted
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.types import SCALAR, ArrayOf, TensorOf
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.nnef.container.types import Type
    from graphport.ir.graph import Graph

_EXACT = 1 << 24


def cast_integers(graph: Graph) -> tuple[Graph, list[Diagnostic]]:
    """Return a copy whose real-valued operations get cast operands, with a note (NNEF0775) each; or the graph itself.

    Before  z = add(i, j)                                                              i, j, z integer
    After   x = cast<scalar>(i);  y = cast<scalar>(j);  r = add(x, y);  z = cast<integer>(r)
    """
    if not any(_integer_operands(node) for node in graph):
        return graph, []
    result = rewrite.copy(graph)
    reals: dict[Value, Value] = {}
    found: dict[str, Diagnostic] = {}
    for node in result:
        for place in _integer_operands(node):
            operand = node.inputs[place]
            if operand is not None:
                node.set_input(place, _cast_to_scalar(result, node, operand, reals))
        if any(_is_integer(value) for value in _real_results(node)):
            _cast_back(result, node)
            message = f"'{node.op}' of integers is written with scalars, which most readers store as float32"
            remedy = (
                f"check that values are at most {_EXACT}, the largest exact "
                "integer, or use the flavour 'tract', which has integers"
            )
            found.setdefault(node.op_type, Diagnostic("NNEF0775", message, node.origin, remedy, Severity.WARNING))
    return result, list(found.values())


def _integer_operands(node: Node) -> list[int]:
    """Return the indices of integer operands where real tensors are required."""
    declaration = standard(Edition.FINAL).get(node.op_type) if node.dialect == DIALECT else None
    if declaration is None:
        return []
    kinds = [formal.type for formal in declaration.formals if formal.takes_tensors]
    every: Iterator[Type] = iter(kinds)
    if len(kinds) == 1 and isinstance(kinds[0], ArrayOf):
        every = repeat(kinds[0])
    return [
        place
        for place, (value, kind) in enumerate(zip(node.inputs, every, strict=False))
        if value is not None and _is_scalar_tensor(kind) and _is_integer(value)
    ]


def _is_scalar_tensor(kind: Type | None) -> bool:
    if isinstance(kind, ArrayOf):
        return _is_scalar_tensor(kind.item)
    return isinstance(kind, TensorOf) and kind.item is SCALAR


def _is_integer(value: Value) -> bool:
    dtype = value.dtype
    return dtype is not None and dtype.is_integer


def _real_results(node: Node) -> list[Value]:
    declaration = standard(Edition.FINAL).get(node.op_type) if node.dialect == DIALECT else None
    if declaration is None:
        return []
    kinds = chain((kind for _, kind in declaration.results), repeat(declaration.results[-1][1]))
    return [
        value for value, kind in zip(node.outputs, kinds, strict=False) if value is not None and _is_scalar_tensor(kind)
    ]


def _of(value: Value, dtype: DType) -> TensorFact:
    return TensorFact(dtype, value.shape)


def _cast_to_scalar(graph: Graph, node: Node, value: Value, reals: dict[Value, Value]) -> Value:
    if value not in reals:
        if value.storage is not None and value.is_constant:
            storage = Converted(value.storage, DType.FLOAT32)
            reals[value] = graph.add_constant(graph.fresh(value.name), TensorFact.of(storage), storage)
        else:
            real = Value(graph.fresh(value.name), _of(value, DType.FLOAT32))
            made = Node("cast", [value], [real], {DTYPE: DType.FLOAT32}, dialect=DIALECT, origin=node.origin)
            graph.insert_before(node, made)
            reals[value] = real
    return reals[value]


def _cast_back(graph: Graph, node: Node) -> None:
    """Cast real results back to integers; quotients are truncated."""
    for old in _real_results(node):
        if not _is_integer(old):
            continue
        last = Value(graph.fresh(old.name), old.fact)
        rewrite.swap_names(old, last)
        old.replace_uses(last)
        old.fact = _of(old, DType.FLOAT32)
        x, place = old, node
        if node.op_type == "div":
            place, sign = _insert_after(graph, place, "sign", [old])
            place, size = _insert_after(graph, place, "abs", [old])
            place, size = _insert_after(graph, place, "floor", [size])
            place, x = _insert_after(graph, place, "mul", [sign, size])
        whole = Node("cast", [x], [last], {DTYPE: DType.INT64}, dialect=DIALECT, origin=node.origin)
        graph.insert_after(place, whole)


def _insert_after(graph: Graph, place: Node, op_type: str, operands: list[Value]) -> tuple[Node, Value]:
    result = Value(graph.fresh(operands[0].name), operands[0].fact)
    node = Node(op_type, operands, [result], dialect=DIALECT, origin=place.origin)
    return graph.insert_after(place, node), result
