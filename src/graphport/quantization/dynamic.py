"""Dynamic quantization of products: activations are quantized at run time, without samples and without clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.tflite.graph_passes.hybrid import rounded_rows
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.ops.infer import infer
from graphport.passes.substitution import add_constant
from graphport.quantization.recurrent import round_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Attribute, Graph
    from graphport.runtimes.target import Target


def rounded_while_it_runs(graph: Graph, target: Target) -> Graph:
    """Return a copy of `graph` with dynamically quantized products, as the kernels of `target` compute them."""
    if target.rounds_rows:
        return products_of_rows(graph)
    twin = dynamic_products(graph)
    round_inputs(twin)
    return twin


def dynamic_products(graph: Graph) -> Graph:
    """Return a copy of `graph` whose products with 8-bit weights are integer products.

    Before  y = MatMul(x, DequantizeLinear(w, s, z)) + b             w [K, N] int8, s [] or [N]
    After   q, t, u = DynamicQuantizeLinear(x);  y = Cast(MatMulInteger(q, w, u, z)) * (t * s) + b

    An input shared by products is quantized once. Does not apply to blocks, other types, or weights with other
    consumers.
    """
    return _with_products(graph, _emit)


def products_of_rows(graph: Graph) -> Graph:
    """Return a copy of `graph` whose products with 8-bit weights quantize each row at run time, as LiteRT does.

    Before  y = MatMul(x, DequantizeLinear(w, s, z)) + b             w [K, N] int8, s [] or [N]
    After   r, t = rounded_rows(x);  y = MatMul(r, Cast(w)) * t * s + b

    Does not apply where `dynamic_products` does not.
    """
    twin = _with_products(graph, _emit_rows)
    infer(twin)
    return twin


def products_on_integers(graph: Graph) -> int:
    """Count the integer products of a dynamically quantized graph."""
    return sum(not node.dialect and node.op_type == "MatMulInteger" for node in graph)


def _with_products(graph: Graph, emit: Callable[[Graph, Node, Node, dict[Value, tuple[Value, ...]]], None]) -> Graph:
    """Return a copy of `graph` with replaced products; products share the quantized form of an operand."""
    twin = rewrite.copy(graph)
    rounded: dict[Value, tuple[Value, ...]] = {}
    for node in list(twin):
        weight = _weight(node)
        if weight is not None:
            emit(twin, node, weight, rounded)
    rewrite.remove_dead(twin)
    return twin


def _weight(node: Node) -> Node | None:
    """Return the DequantizeLinear of a weight that an integer product supports."""
    source = node.operand(1)
    made = None if source is None else source.producer
    if node.dialect or node.op_type not in ("MatMul", "Gemm") or made is None or made.op_type != "DequantizeLinear":
        return None
    codes, bias = made.operands[0], node.operand(2)
    stored = codes.storage
    if source is None or len(source.uses) != 1 or stored is None or stored.dtype is not DType.INT8:
        return None
    is_plain = len(stored.shape) == 2 and not made.attributes.get("block_size")
    is_transposed = bool(node.attributes.get("transB", 0))
    axis = made.attributes.get("axis", 1)
    axis = axis % 2 if isinstance(axis, int) else 1
    scale = made.operands[1].storage
    is_fit = scale is not None and (scale.count == 1 or axis == (0 if is_transposed else 1))
    is_whole = all(node.attributes.get(name, 1) == 1 for name in ("alpha", "beta")) and not node.attributes.get(
        "transA"
    )
    is_wide = bias is None or bias.is_constant
    return made if is_plain and is_fit and is_whole and is_wide else None


def _emit(graph: Graph, node: Node, made: Node, rounded: dict[Value, tuple[Value, ...]]) -> None:
    x, name = node.operands[0], made.operands[0].name
    codes, scale = (np.asarray(stored.numpy()) for value in made.operands[:2] if (stored := value.storage) is not None)
    if node.attributes.get("transB", 0):
        codes = np.ascontiguousarray(codes.T)
    weight = add_constant(graph, ArrayStorage(codes, DType.INT8), f"{name}_columns")
    # One zero point for all: that of symmetric weights.
    zero = add_constant(graph, ArrayStorage(np.zeros((), np.int8), DType.INT8), f"{name}_zero")
    steps = add_constant(graph, scale.astype(np.float32).reshape(-1), f"{name}_steps")
    result = node.output

    def insert_node(op: str, operands: list[Value], fact: TensorFact, **attributes: Attribute) -> Value:
        value = Value(graph.fresh(f"{result.name}_{op.lower()}"), fact)
        graph.insert_before(node, Node(op, operands, [value], dict(attributes), name=graph.fresh(f"{node.name}_{op}")))
        return value

    if x not in rounded:
        shape = x.shape
        parts = [(DType.UINT8, shape), (DType.FLOAT32, ()), (DType.UINT8, ())]
        made_of = tuple(
            Value(graph.fresh(f"{x.name}_{end}"), TensorFact(dtype, dims))
            for end, (dtype, dims) in zip(("codes", "step", "zero"), parts, strict=True)
        )
        graph.insert_before(node, Node("DynamicQuantizeLinear", [x], made_of, name=graph.fresh(f"{x.name}_rounding")))
        rounded[x] = made_of
    numbers, step, middle = rounded[x]
    shape = result.shape
    real = TensorFact(DType.FLOAT32, shape)
    sums = insert_node("MatMulInteger", [numbers, weight, middle, zero], TensorFact(DType.INT32, shape))
    reals = insert_node("Cast", [sums], real, to=DType.FLOAT32)
    factor = insert_node("Mul", [step, steps], TensorFact(DType.FLOAT32, (int(scale.size),)))
    last = insert_node("Mul", [reals, factor], real)
    bias = node.operand(2)
    if bias is not None:
        last = insert_node("Add", [last, bias], real)
    rewrite.replace(result, last)
    if not node.output.uses:
        rewrite.erase(node)


def _emit_rows(graph: Graph, node: Node, made: Node, rounded: dict[Value, tuple[Value, ...]]) -> None:
    x, result = node.operands[0], node.output

    def insert_node(op: str, *operands: Any, **attributes: Attribute) -> Value:
        given = [
            each if isinstance(each, Value) else add_constant(graph, np.asarray(each), f"{x.name}_row")
            for each in operands
        ]
        value = Value(graph.fresh(f"{x.name}_{op.lower()}"), TensorFact(DType.FLOAT32, None))
        graph.insert_before(node, Node(op, given, [value], attributes, name=graph.fresh(f"{x.name}_{op}")))
        return value

    codes, scale = (np.asarray(stored.numpy()) for value in made.operands[:2] if (stored := value.storage) is not None)
    if node.attributes.get("transB", 0):
        codes = np.ascontiguousarray(codes.T)
    if x not in rounded:
        rounded[x] = cast("tuple[Value, Value]", rounded_rows(insert_node, x))
    rows, step = rounded[x]
    weight = add_constant(graph, ArrayStorage(codes, DType.INT8), f"{made.operands[0].name}_columns")
    product = insert_node("MatMul", rows, insert_node("Cast", weight, to=DType.FLOAT32))
    last = insert_node("Mul", insert_node("Mul", product, step), scale.astype(np.float32).reshape(-1))
    bias = node.operand(2)
    last = last if bias is None else insert_node("Add", last, bias)
    rewrite.replace(result, last)
    if not node.output.uses:
        rewrite.erase(node)
