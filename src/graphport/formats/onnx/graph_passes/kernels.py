"""Integers that ONNX Runtime has no kernel for are computed as others that it has one for.

`kernels.json` lists them, which `tools/onnxruntime_kernels.py` writes.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.ops.declare import OpDef

_COMMON = frozenset((DType.FLOAT32, DType.INT64, DType.FLOAT16, None))


def compute_as_others(graph: Graph, opset: int) -> None:
    """Insert Casts around operators without a kernel for their type.

    Before  y = Where(c, a: int16, b)
    After   y = Cast(Where(c, Cast(a, to=int32), Cast(b, to=int32)), to=int16)

    Applies to operators that are exact in the wider type. Does not apply to several results or types without a wider
    one.
    """
    kernels = _kernels()
    for node in graph:
        if node.op_type in kernels and not node.dialect.startswith("com") and len(node.results) == 1:
            _compute_as_other(graph, node, opset)


def _compute_as_other(graph: Graph, node: Node, opset: int) -> None:
    op_def, rows = registry.op_defs()[node.op_type], _kernels()[node.op_type]
    if len(rows) != 1:
        return
    ((variable, versions),) = rows.items()
    indices = [index for index, value in enumerate(node.inputs) if value and _variable(op_def, index) == variable]
    own = {_dtype_at(node, index) for index in indices}
    if len(own) != 1 or own & _COMMON:
        return
    (dtype,) = own
    taken = [types for first, last, types in versions if first <= opset <= (last or opset)]
    other = None if dtype is None or not taken or str(dtype) in taken[-1] else _wider_type(dtype, taken[-1])
    result = op_def.signature.results[0] if node.outputs[0] is not None else None
    if other is None or dtype is None or result is None or (result.name != variable and len(result.dtypes) != 1):
        return
    given = list(node.inputs)
    for index in indices:
        given[index] = _cast(graph, node, given[index], other)
    if result.name != variable:
        node.inputs = given
        return
    y = node.output
    wide = Value(graph.fresh(f"{y.name}.{other}"), TensorFact(other, y.shape))
    computed = Node(node.op_type, given, [wide], node.attributes, dialect=node.dialect, origin=node.origin)
    graph.insert_before(node, computed)
    back = graph.insert_before(node, Node("Cast", [wide], attributes={"to": dtype}, dialect=node.dialect))
    back.take_outputs(node)
    graph.remove(node)


def _variable(op_def: OpDef, index: int) -> str | None:
    operand = op_def.signature.operand(index)
    return None if operand is None or operand.types is None else operand.types.name


def _dtype_at(node: Node, index: int) -> DType | None:
    value = node.inputs[index]
    return value.fact.dtype if value is not None and isinstance(value.fact, TensorFact) else None


def _cast(graph: Graph, place: Node, value: Value | None, dtype: DType) -> Value | None:
    if value is None:
        return None
    made = Value(graph.fresh(f"{value.name}.{dtype}"), TensorFact(dtype, value.shape))
    return graph.insert_before(place, Node("Cast", [value], [made], {"to": dtype}, dialect=place.dialect)).output


def _wider_type(dtype: DType, names: list[str]) -> DType | None:
    """Return the narrowest supported type that represents all values of another."""
    wider = [each for each in DType if str(each) in names and _represents(each, dtype)]
    return min(wider, key=lambda each: (each.bits, each.kind), default=None)


def _represents(wide: DType, dtype: DType) -> bool:
    if dtype.kind == "b":
        return wide.is_integer
    return dtype.is_integer and wide.bits > dtype.bits and wide.kind in ("i", dtype.kind)


@cache
def _kernels() -> dict[str, Any]:
    text = files("graphport.formats.onnx.graph_passes").joinpath("kernels.json").read_text("utf-8")
    return {name: rows for name, rows in json.loads(text).items() if isinstance(rows, dict)}
