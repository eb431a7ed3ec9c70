"""Element types below a byte, which torch has no tensors of: their values are held in a wider type."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.formats.pytorch.rules.arithmetic_export import HELD_AS, NARROW
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.ir.graph import Graph, Node, Value

_WIDENED = "pt2.narrow_values"
"""The note of a graph: names of the widened values by type."""
_MAX_NAMES = 3


def widen_narrow_types(graph: Graph) -> None:
    """Hold the values of narrow types in wider ones; conversions to narrow types keep their range.

    Before  y: int4 = QuantizeLinear(x, scale, zero: int4)
    After   y: int8 = QuantizeLinear(x, scale, zero: int8, output_dtype=int4)
    """
    names_by_type: dict[DType, list[str]] = {}
    inner_graphs = list(walk(graph))
    for inner in inner_graphs:
        for node in inner:
            _state_type(node)
    for inner in inner_graphs:
        for value in list(inner.values()):
            _widen_value(value, names_by_type)
    if names_by_type:
        graph.notes[_WIDENED] = names_by_type


def report_narrow_types(graph: Graph) -> list[Diagnostic]:
    """Return a warning for each narrow type of `graph`."""
    names_by_type = graph.notes.get(_WIDENED) if graph.has_notes else None
    if not isinstance(names_by_type, dict):
        return []
    return [_warning(dtype, names) for dtype, names in cast("dict[DType, list[str]]", names_by_type).items()]


def _warning(dtype: DType, names: list[str]) -> Diagnostic:
    suffix = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    message = f"PyTorch does not support {dtype}: {', '.join(names[:_MAX_NAMES])}{suffix} is stored as {HELD_AS[dtype]}"
    return Diagnostic("PT0106", message, None, "pass and read the elements in the wider type", Severity.WARNING)


def _state_type(node: Node) -> None:
    """Set the result type of a node as an attribute, if the type of an operand determines it."""
    result_dtype = node.results[0].dtype if node.results else None
    if node.dialect or result_dtype not in HELD_AS:
        return
    if node.op_type == "CastLike":
        node.restate("Cast", "", {**node.attributes, "to": result_dtype})
        node.inputs = node.inputs[:1]
    elif node.op_type == "QuantizeLinear":
        node.set_attribute("output_dtype", result_dtype)
    elif node.op_type == "ConstantOfShape" and isinstance(value := node.attributes.get("value"), Storage):
        node.set_attribute("value", widen_storage(value))


def _widen_value(value: Value, names_by_type: dict[DType, list[str]]) -> None:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.dtype not in HELD_AS:
        return
    names_by_type.setdefault(fact.dtype, []).append(value.name)
    value.notes[NARROW] = fact.dtype
    wide_dtype = HELD_AS[fact.dtype]
    if value.storage is not None:
        value.storage = widen_storage(value.storage)
    value.fact = TensorFact(wide_dtype, fact.shape, fact.elements)


def widen_storage(storage: Storage) -> Storage:
    """Convert `storage` to the wider type if its type is narrower than a byte."""
    wide_dtype = HELD_AS.get(storage.dtype)
    return storage if wide_dtype is None else storage_of(storage.numpy().astype(wide_dtype.numpy), wide_dtype)
