"""Convert products with few-bit block-wise weights to ONNX Runtime's operator with an explicit accuracy level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import pack
from graphport.formats.onnx.rules.com_microsoft.binding import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Node
from graphport.passes.substitution import add_constant

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.ir.graph import Graph, Value

Array: TypeAlias = "np.ndarray[Any, Any]"

_SIGNED = {DType.INT4: 4, DType.INT2: 2}
_MIN_BLOCK, _MAX_BLOCK = 16, 256
"""Block sizes that all of its kernels support."""
EXACT, ROUNDED = 1, 4
"""Accuracy levels: float32 activations, and activations quantized to 8 bits."""


def exact_products(graph: Graph, exact: Collection[str] | None = None) -> Graph:
    """Return a copy of `graph` whose products with few-bit weights declare the rounding of activations.

    Before  y = MatMul(x, DequantizeLinear(codes, scales, zeros, axis=0, block_size=n))      codes [K, N]
    After   y = com.microsoft.MatMulNBits(x, codes', scales', zeros', accuracy_level=1)      codes' [N, blocks, bytes]

    ONNX Runtime fuses the first form with the session's accuracy level, by default one that quantizes `x` to 8 bits
    (4). Here results that `exact` names get level 1, all if it is `None`, and others 4. Does not apply to other block
    sizes and to codes with other consumers.
    """
    twin = rewrite.copy(graph)
    for node, made in _products(twin):
        # With 2-bit weights the exact kernel is thirty times slower.
        can = made.operands[0].storage is not None and made.operands[0].storage.dtype is DType.INT4
        _emit(twin, node, made, EXACT if can and (exact is None or node.output.name in exact) else ROUNDED)
    rewrite.remove_dead(twin)
    return twin


def has_products(graph: Graph) -> bool:
    """Whether the graph has products whose activations the runtime quantizes by default."""
    return bool(_products(graph))


def has_two_bits(graph: Graph) -> bool:
    """Whether the graph has products with 2-bit weights, whose type needs the newest opset."""
    made = (made.operands[0].storage for _, made in _products(graph))
    return any(stored is not None and stored.dtype is DType.INT2 for stored in made)


def products_of(graph: Graph) -> list[str]:
    """Return results of products with 4-bit blocks, the largest first."""
    stored = {node.output.name: made.operands[0].storage for node, made in _products(graph)}
    known = {name: found for name, found in stored.items() if found is not None and found.dtype is DType.INT4}
    return sorted(known, key=lambda name: -known[name].count)


def _products(graph: Graph) -> list[tuple[Node, Node]]:
    """Yield products with a DequantizeLinear that only they use, and that node."""
    found: list[tuple[Node, Node]] = []
    for node in graph:
        source = node.operand(1)
        made = source.producer if source is not None else None
        if (
            node.dialect
            or node.op_type != "MatMul"
            or made is None
            or made.op_type != "DequantizeLinear"
            or made.dialect
        ):
            continue
        if source is not None and len(source.uses) == 1 and not source.is_output:
            found.append((node, made))
    return found


def _emit(graph: Graph, node: Node, made: Node, level: int) -> None:
    codes, scales, zeros = (_constant_elements(made.operand(index)) for index in range(3))
    size, axis = made.attributes.get("block_size", 0), made.attributes.get("axis", 1)
    stored = made.operands[0].storage
    bits = None if stored is None else _SIGNED.get(stored.dtype)
    if codes is None or scales is None or bits is None or not isinstance(size, int) or axis not in (0, -2):
        return
    if codes.ndim != 2 or not _MIN_BLOCK <= size <= _MAX_BLOCK or size & (size - 1):
        return
    depth, results = codes.shape
    blocks = -(-depth // size)
    middle = 1 << (bits - 1)
    wide = np.full((results, blocks * size), middle, np.uint8)
    wide[:, :depth] = codes.T.astype(np.int16) + middle
    name = made.operands[0].name
    operands = [
        node.operands[0],
        add_constant(graph, _packed(wide, bits).reshape(results, blocks, size * bits // 8), f"{name}_packed"),
        add_constant(graph, np.ascontiguousarray(scales.T, np.float32), f"{name}_scales"),
    ]
    if zeros is not None and np.any(zeros):
        shifts = np.zeros((results, -(-blocks * bits // 8) * 8 // bits), np.uint8)
        shifts[:, :blocks] = zeros.T.astype(np.int16) + middle
        operands.append(add_constant(graph, _packed(shifts, bits), f"{name}_shifts"))
    attributes = {"K": depth, "N": results, "bits": bits, "block_size": size, "accuracy_level": level}
    result = node.output
    made_result = type(result)(graph.fresh(f"{result.name}_exact"), result.fact)
    new = Node("MatMulNBits", operands, [made_result], attributes, dialect=DIALECT, name=node.name)
    graph.insert_before(node, new)
    rewrite.replace(result, made_result, keep=[new])


def _packed(rows: Array, bits: int) -> Array:
    """Pack rows of codes, one per byte, into bytes; each row starts at a byte."""
    return np.frombuffer(pack(np.ascontiguousarray(rows).reshape(-1), bits), np.uint8).reshape(len(rows), -1)


def _constant_elements(value: Value | None) -> Array | None:
    return None if value is None or value.storage is None or not value.is_constant else value.storage.numpy()
