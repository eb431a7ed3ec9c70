"""Lookup tables (token embeddings) as codes with block-wise scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage
from graphport.formats.onnx.rules.com_microsoft.binding import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant
from graphport.quantization.insert_qdq import Weight
from graphport.quantization.weights import block_qparams

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.quantization.choices import Choices

Array: TypeAlias = "np.ndarray[Any, Any]"

_MIN_BLOCK = 16
_MIN_TABLE_ELEMENTS = 1024
"""Minimum number of elements of a quantized table."""


def tables(graph: Graph, block: int) -> list[Node]:
    """Return the Gather nodes of float matrices without other consumers that blocks divide."""
    found: list[Node] = []
    for node in graph:
        if node.dialect or node.op_type != "Gather" or node.attributes.get("axis", 0) not in (0, -2):
            continue
        value = node.operands[0]
        stored = value.storage
        if not value.is_constant or stored is None or len(value.uses) > 1 or stored.dtype is not DType.FLOAT32:
            continue
        is_fit = block >= _MIN_BLOCK and not block & (block - 1) and len(stored.shape) == 2
        if is_fit and stored.count >= _MIN_TABLE_ELEMENTS and stored.shape[1] % 8 == 0 and stored.shape[1] >= block:
            found.append(node)
    return found


def table_codes(node: Node, dtype: DType, block: int, *, has_zeros: bool, half_scales: bool = False) -> Weight | None:
    """Return the codes of the table of `node`, with a scale (and for few bits a zero point) per block of a row.

    `None` if it contains NaN or infinity.
    """
    stored = node.operands[0].storage
    numbers = np.zeros((0, 0), np.float32) if stored is None else np.asarray(stored.numpy(), np.float32)
    if not np.isfinite(numbers).all():
        return None
    qparams = block_qparams(numbers, dtype, 1, block, has_zeros=has_zeros, half_scales=half_scales)
    return Weight(qparams, qparams.codes(numbers), None)


def block_tables(graph: Graph) -> Graph:
    """Return a copy of `graph` in which codes are gathered, and only the gathered rows are dequantized.

    Before  y = Gather(DequantizeLinear(codes, scales, zeros, axis=1, block_size=n), i)
    After   y = com.microsoft.GatherBlockQuantized(codes', i, scales, zeros')

    ONNX Runtime dequantizes the whole table in each run of the first form.
    """
    twin = rewrite.copy(graph)
    for node, made in _tables(twin):
        _emit(twin, node, made)
    rewrite.remove_dead(twin)
    return twin


def has_tables(graph: Graph) -> bool:
    """Whether rows are gathered from codes."""
    return bool(_tables(graph))


def _tables(graph: Graph) -> list[tuple[Node, Node]]:
    found: list[tuple[Node, Node]] = []
    for node in graph:
        made = node.operands[0].producer if node.op == "Gather" and not node.dialect else None
        if made is None or made.op != "DequantizeLinear" or not made.attributes.get("block_size"):
            continue
        stored = made.operands[0].storage
        if stored is not None and made.operands[0].is_constant and stored.dtype in (DType.INT8, DType.INT4):
            found.append((node, made))
    return found


def _emit(graph: Graph, node: Node, made: Node) -> None:
    codes, scales, zeros = made.operand(0), made.operand(1), made.operand(2)
    if codes is None or codes.storage is None or scales is None:
        return
    name, bits = codes.name, codes.storage.dtype.bits
    operands = [codes, node.operands[1], scales]
    has_zeros = zeros is not None and zeros.storage is not None and bool(np.any(zeros.storage.numpy()))
    if bits == DType.INT8.bits:
        # It does not support int8; the default zero point of uint8 is 128.
        shifted = (codes.storage.numpy().astype(np.int16) + 128).astype(np.uint8)
        operands[0] = add_constant(graph, ArrayStorage(shifted), f"{name}_bytes")
    elif has_zeros and zeros is not None:
        operands.append(zeros)
    result = node.output
    found = Value(graph.fresh(f"{result.name}_picked"), result.fact)
    size = made.attributes["block_size"]
    attributes = {"bits": bits, "block_size": size, "gather_axis": 0, "quantize_axis": 1}
    new = Node("GatherBlockQuantized", operands, [found], attributes, dialect=DIALECT, name=node.name)
    graph.insert_before(node, new)
    rewrite.replace(result, found, keep=[new])


def asked_tables(choices: Choices, graph: Graph) -> dict[Node, Weight]:
    """Return the codes of tables, if requested."""
    settings, target = choices.settings, choices.target
    if not settings.tables or target.table is None:
        return {}
    block, zeros, halves = settings.weight_block or 0, target.has_zeros, target.half_scales
    found = {
        node: table_codes(node, target.table, block, has_zeros=zeros, half_scales=halves)
        for node in tables(graph, block)
    }
    return {node: weight for node, weight in found.items() if weight is not None}
