"""Rewrite operators to the forms that integer kernels support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.ops.definitions.convolution.window import window
from graphport.passes.substitution import add_constant

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"


def canonicalize(graph: Graph) -> Graph:
    """Return `graph`, or a copy with products and padding in the forms that integer kernels support.

    Before  y = Gemm(x, w, c, alpha=p, beta=q, transA=1)
    After   y = Gemm(Transpose(x), w * p, c * q)

    Before  y = MatMul(w, x)                 w [M, K], x [..., K, N]
    After   y = Transpose(MatMul(Transpose(x), Transpose(w)))

    Before  y = Pad(x, (b, e), v, (a))
    After   y = Pad(x, (0, …, b, …, 0, 0, …, e, …, 0), v)

    Before  y = Mul(x, Reciprocal(r))
    After   y = Div(x, r)                    which ONNX Runtime fuses into normalizations

    The scales or sizes of a Resize with `axes` are expanded likewise. Automatic padding of dilated convolutions, which
    ONNX Runtime does not support, is made explicit. A Gemm addend that differs by row is replaced by an Add. Preserves
    names of results; values are equal up to rounding.
    """
    rules = [
        (_is_odd_gemm, _canonical_gemm),
        (_has_constant_left_operand, _transpose_product),
        (_is_partial_pad, _whole_pad),
        (_is_partial_resize, _whole_resize),
        (_is_dilated_same, _explicit_window),
        (_is_inverse_product, _quotient),
    ]
    if not any(applies(node) for node in graph for applies, _ in rules):
        return graph
    twin = rewrite.copy(graph)
    for node in list(twin):
        for applies, change in rules:
            if applies(node):
                change(twin, node)
    rewrite.remove_dead(twin)
    return twin


def _inverse(node: Node) -> int | None:
    """Return the index of the operand that is a Reciprocal with no other consumer; `None` without one."""
    for index, value in enumerate(node.operands):
        maker = value.producer
        if maker is not None and not maker.dialect and maker.op == "Reciprocal" and len(value.uses) == 1:
            return None if value.is_output else index
    return None


def _is_inverse_product(node: Node) -> bool:
    return not node.dialect and node.op == "Mul" and len(node.operands) == 2 and _inverse(node) is not None


def _quotient(graph: Graph, node: Node) -> None:
    index = _inverse(node)
    maker = None if index is None else node.operands[index].producer
    if index is None or maker is None:
        return
    result = node.output
    made = Value(graph.fresh(f"{result.name}_quotient"), result.fact)
    new = Node("Div", [node.operands[1 - index], maker.operands[0]], [made], name=node.name)
    graph.insert_before(node, new)
    rewrite.replace(result, made, keep=[new])


def _is_odd_gemm(node: Node) -> bool:
    addend = node.operand(2)
    if node.op != "Gemm" or not _is_matrix(node.operand(1)):
        return False
    if float_attribute(node, "alpha", 1.0) != 1 or float_attribute(node, "transA", 0):
        return True
    if addend is None:
        return False
    return (
        not _is_constant(addend)
        or float_attribute(node, "beta", 1.0) != 1
        or len(shape_of(addend)) != 1
        or _is_single(node)
    )


def _is_single(node: Node) -> bool:
    """Whether the addend of a Gemm with several columns is a scalar."""
    weight, addend = node.operands[1], node.operands[2]
    return addend.storage is not None and addend.storage.count == 1 != _columns(node, weight)


def _canonical_gemm(graph: Graph, node: Node) -> None:
    weight, addend = node.operands[1], node.operand(2)
    alpha, beta = float_attribute(node, "alpha", 1.0), float_attribute(node, "beta", 1.0)
    if float_attribute(node, "transA", 0):
        node.set_input(0, _transposed(graph, node, node.operands[0], (1, 0)))
    if alpha != 1:
        node.set_input(1, add_constant(graph, _float_elements(weight) * np.float32(alpha), f"{weight.name}_scaled"))
    node.attributes = {name: x for name, x in node.attributes.items() if name == "transB"}
    if addend is None:
        return
    node.inputs = node.inputs[:2]
    if beta == 0:
        return
    if not _is_constant(addend):
        _add_behind(graph, node, addend if beta == 1 else _times(graph, node, addend, beta))
        return
    scaled = _float_elements(addend) * np.float32(beta)
    if scaled.ndim == 2 and scaled.shape[0] != 1:
        _add_behind(graph, node, add_constant(graph, scaled, f"{addend.name}_scaled"))
        return
    spread = np.broadcast_to(scaled.reshape(-1), (_columns(node, weight),)).copy()
    node.inputs = [*node.inputs, add_constant(graph, spread, f"{addend.name}_spread")]


def _times(graph: Graph, before: Node, value: Value, factor: float) -> Value:
    scale = add_constant(graph, np.asarray(factor, np.float32), f"{value.name}_factor")
    product = Value(graph.fresh(f"{value.name}_scaled"), value.fact)
    graph.insert_before(before, Node("Mul", [value, scale], [product], origin=before.origin))
    return product


def _columns(node: Node, weight: Value) -> int:
    """Return the number of columns of a Gemm result."""
    shape = () if weight.storage is None else weight.storage.shape
    return shape[0 if float_attribute(node, "transB", 0) else 1]


def _add_behind(graph: Graph, node: Node, addend: Value) -> None:
    result = node.output
    total = Value(graph.fresh(f"{result.name}_sum"), result.fact)
    adder = Node("Add", [result, addend], [total], origin=node.origin)
    graph.insert_after(node, adder)
    rewrite.replace(result, total, keep=[adder])


def _has_constant_left_operand(node: Node) -> bool:
    """Whether the constant is the left operand of a matrix product."""
    if node.op != "MatMul" or len(node.operands) != 2 or not _is_matrix(node.operand(0)):
        return False
    other = node.operands[1]
    return not other.is_constant and len(shape_of(node.output)) == len(shape_of(other)) >= 2


def _transpose_product(graph: Graph, node: Node) -> None:
    weight, other = node.operands
    rank = len(shape_of(other))
    order = (*range(rank - 2), rank - 1, rank - 2)
    result = node.output
    node.set_input(0, _transposed(graph, node, other, order))
    node.set_input(1, add_constant(graph, np.ascontiguousarray(_float_elements(weight).T), f"{weight.name}_turned"))
    total = Value(graph.fresh(f"{result.name}_turned"), result.fact)
    back = Node("Transpose", [result], [total], {"perm": order}, origin=node.origin)
    graph.insert_after(node, back)
    rewrite.replace(result, total, keep=[back])
    result.fact = TensorFact(DType.FLOAT32, tuple(shape_of(total)[axis] for axis in order))


def _is_partial_pad(node: Node) -> bool:
    """Whether a Pad has `axes`: when ONNX Runtime moves Transposes, it applies the pads to all axes."""
    if node.op != "Pad" or node.operand(3) is None or not shape_of(node.operands[0]):
        return False
    return all(value is not None and value.storage is not None for value in (node.operand(1), node.operand(3)))


def _whole_pad(graph: Graph, node: Node) -> None:
    pads, axes = _integers(node.operand(1)), _integers(node.operand(3))
    rank = len(shape_of(node.operands[0]))
    whole = np.zeros((2, rank), np.int64)
    whole[:, axes % rank] = pads.reshape(2, -1)
    node.set_input(1, add_constant(graph, whole.reshape(-1), f"{node.output.name}_pads"))
    node.inputs = node.inputs[:3]


def _is_partial_resize(node: Node) -> bool:
    """Whether a Resize has `axes`, which ONNX Runtime ignores likewise."""
    is_plain = node.attributes.get("keep_aspect_ratio_policy", "stretch") in ("stretch", b"stretch")
    if node.op != "Resize" or not node.attributes.get("axes") or node.operand(1) is not None or not is_plain:
        return False
    return _factors(node) is not None


def _whole_resize(graph: Graph, node: Node) -> None:
    factors = _factors(node)
    if factors is not None:
        scales = add_constant(graph, factors, f"{node.output.name}_scales")
        node.inputs = [node.inputs[0], None, scales]
        node.attributes = {name: x for name, x in node.attributes.items() if name != "axes"}


def _factors(node: Node) -> Array | None:
    """Return the scale of each axis; `None` if it is unknown or does not give the output size."""
    dims, axes = shape_of(node.operands[0]), node.attributes.get("axes")
    scales, sizes = node.operand(2), node.operand(3)
    given = scales if sizes is None else sizes
    if not isinstance(axes, tuple) or given is None or given.storage is None or not dims:
        return None
    factors = np.ones(len(dims), np.float32)
    for axis, number in zip(axes, given.storage.numpy().tolist(), strict=True):
        place = int(str(axis)) % len(dims)
        length = dims[place]
        if sizes is None:
            factors[place] = number
            continue
        if not isinstance(length, int) or not length:
            return None
        factors[place] = number / length
        if int(np.float32(length) * factors[place]) != number:
            return None
    return factors


def _is_dilated_same(node: Node) -> bool:
    gaps = node.attributes.get("dilations")
    is_dilated = isinstance(gaps, tuple) and any(gap != 1 for gap in gaps)
    is_automatic = node.attributes.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER")
    return node.op == "Conv" and is_dilated and is_automatic and _explicit_pads(node) is not None


def _explicit_window(graph: Graph, node: Node) -> None:
    del graph
    pads = _explicit_pads(node)
    if pads is not None:
        stated = {name: x for name, x in node.attributes.items() if name != "auto_pad"}
        node.attributes = stated | {"pads": pads}


def _explicit_pads(node: Node) -> tuple[int, ...] | None:
    x, kernel = shape_of(node.operands[0]), shape_of(node.operands[1])[2:]
    if len(x) != len(kernel) + 2:
        return None
    stated: dict[str, Any] = {
        name: node.attributes[name] for name in ("auto_pad", "dilations", "strides") if name in node.attributes
    }
    pads = [pad for pair in zip(*window(x[2:], kernel, **stated).pads, strict=True) for pad in pair]
    return tuple(pad for pad in pads if isinstance(pad, int)) if all(isinstance(pad, int) for pad in pads) else None


def _integers(value: Value | None) -> Array:
    return np.asarray([] if value is None or value.storage is None else value.storage.numpy(), np.int64)


def _transposed(graph: Graph, before: Node, value: Value, order: tuple[int, ...]) -> Value:
    shape = tuple(shape_of(value)[axis] for axis in order)
    transposed = Value(graph.fresh(f"{value.name}_turned"), TensorFact(DType.FLOAT32, shape))
    graph.insert_before(before, Node("Transpose", [value], [transposed], {"perm": order}, origin=before.origin))
    return transposed


def _is_constant(value: Value) -> bool:
    return value.is_constant and value.storage is not None and value.storage.dtype is DType.FLOAT32


def _is_matrix(value: Value | None) -> bool:
    return value is not None and _is_constant(value) and value.storage is not None and len(value.storage.shape) == 2


def _float_elements(value: Value) -> Array:
    return np.asarray(None if value.storage is None else value.storage.numpy(), np.float32)


def shape_of(value: Value) -> tuple[Dim, ...]:
    """Return the dims of a value; empty if they are unknown."""
    return (value.fact.shape or ()) if isinstance(value.fact, TensorFact) else ()


def float_attribute(node: Node, name: str, default: float) -> float:
    """Return a numeric attribute."""
    found = node.attributes.get(name, default)
    return found if isinstance(found, int | float) else default
