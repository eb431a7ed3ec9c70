"""Store the weights of recurrent layers as int8, and quantize the input of LSTM at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.onnx.rules.com_microsoft.binding import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant
from graphport.quantization.placement import RECURRENT, is_float32

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

_WEIGHTS = (1, 2)
"""Operand indices of the weights of input and state."""


def is_storable(node: Node) -> bool:
    """Whether the weights of a recurrent node are float32 constants of finite elements."""
    if node.dialect or node.op_type not in RECURRENT:
        return False
    stored = [value.storage for value in node.operands[1:3] if value.is_constant and is_float32(value)]
    return len(stored) == len(_WEIGHTS) and all(x is not None and np.isfinite(x.numpy()).all() for x in stored)


def store_recurrent(graph: Graph, node: Node, most: int) -> None:
    """Replace the weights of a recurrent node by int8 codes with a scale for each direction and row.

    Before  y = LSTM(x, w, r, b)                                  w [D, 4H, I], r [D, 4H, H]
    After   y = LSTM(x, Reshape(DequantizeLinear(w', s)), …, b)   w' [D * 4H, I], s [D * 4H]

    Codes are between -most and most.
    """
    for index in _WEIGHTS:
        value = node.operands[index]
        if value.storage is None:
            continue
        shape = value.storage.shape
        rows = value.storage.numpy().reshape(-1, shape[-1])
        scale = (np.abs(rows).max(axis=1, initial=0) / most).astype(np.float32)
        scale[scale == 0] = 1
        codes = np.clip(np.rint(rows / scale[:, None]), -most, most).astype(np.int8)
        name = value.name
        operands = [add_constant(graph, codes, f"{name}_codes"), add_constant(graph, scale, f"{name}_scale")]
        real = Value(graph.fresh(f"{name}_rows"), TensorFact(DType.FLOAT32, rows.shape))
        graph.insert_before(node, Node("DequantizeLinear", operands, [real], {"axis": 0}))
        made = Value(graph.fresh(f"{name}_real"), value.fact)
        sizes = add_constant(graph, np.array(shape, np.int64), f"{name}_shape")
        graph.insert_before(node, Node("Reshape", [real, sizes], [made]))
        node.set_input(index, made)


def round_inputs(graph: Graph) -> None:
    """Quantize the inputs of LSTM with int8 weights at run time.

    Before  y = LSTM(x, Reshape(DequantizeLinear(w', s)), …)
    After   y = LSTM(DequantizeLinear(DynamicQuantizeLinear(x)), Reshape(DequantizeLinear(w', s)), …)

    Does not apply to inputs with the batch first (`layout`).
    """
    for node in list(graph):
        if node.dialect or node.op_type != "LSTM" or node.attributes.get("layout") or _codes(node) is None:
            continue
        x = node.operands[0]
        parts = [(DType.UINT8, x.shape), (DType.FLOAT32, ()), (DType.UINT8, ())]
        made = [Value(graph.fresh(f"{x.name}_part"), TensorFact(dtype, shape)) for dtype, shape in parts]
        graph.insert_before(node, Node("DynamicQuantizeLinear", [x], made))
        rounded = Value(graph.fresh(f"{x.name}_rounded"), x.fact)
        graph.insert_before(node, Node("DequantizeLinear", list(made), [rounded]))
        node.set_input(0, rounded)


def dynamic_lstms(graph: Graph) -> Graph:
    """Return a copy of `graph` with ONNX Runtime's operator for LSTM on integers.

    Before  y = LSTM(DequantizeLinear(DynamicQuantizeLinear(x)), Reshape(DequantizeLinear(w', s)), …)
    After   y = com.microsoft.DynamicQuantizeLSTM(x, w'', …, s, 0, …)                 w'' [D, I, 4H], s [D, 4H]

    ONNX Runtime also quantizes the hidden state of each step.
    """
    twin = rewrite.copy(graph)
    for node in list(twin):
        codes, x = _codes(node), _rounded_input(node)
        if codes is None or x is None:
            continue
        operands: list[Value | None] = [x, None, None, *(node.operand(index) for index in range(3, 8))]
        for index, (elements, scale) in zip(_WEIGHTS, codes, strict=True):
            name = f"lstm_{index}"
            operands[index] = add_constant(twin, np.ascontiguousarray(elements.transpose(0, 2, 1)), f"{name}_codes")
            operands.append(add_constant(twin, scale, f"{name}_scale"))
            zeros = ArrayStorage(np.zeros(scale.shape, np.int8), DType.INT8)
            operands.append(add_constant(twin, zeros, f"{name}_zero"))
        results = [None if y is None else Value(twin.fresh(f"{y.name}_int8"), y.fact) for y in node.outputs]
        new = Node("DynamicQuantizeLSTM", operands, results, dict(node.attributes), dialect=DIALECT, name=node.name)
        twin.insert_before(node, new)
        for old, made in zip(node.outputs, results, strict=True):
            if old is not None and made is not None:
                rewrite.replace(old, made, keep=[new])
    rewrite.remove_dead(twin)
    return twin


def _codes(node: Node) -> list[tuple[Array, Array]] | None:
    """Return codes [D, rows, K] and scales [D, rows] of both weights; `None` if they are not int8."""
    if node.dialect or node.op_type != "LSTM":
        return None
    found: list[tuple[Array, Array]] = []
    for index in _WEIGHTS:
        value = node.operands[index]
        shape, reshape = value.shape, value.producer
        made = reshape.operands[0].producer if reshape is not None and reshape.op == "Reshape" else None
        if made is None or made.op != "DequantizeLinear" or shape is None:
            return None
        codes, scale = (operand.storage for operand in made.operands[:2])
        if codes is None or scale is None or codes.dtype is not DType.INT8 or scale.count * shape[2] != codes.count:
            return None
        sizes = [int(str(dim)) for dim in shape]
        found.append((codes.numpy().reshape(sizes), scale.numpy().reshape(sizes[:2])))
    return found


def _rounded_input(node: Node) -> Value | None:
    """Return the input of the DynamicQuantizeLinear that an LSTM reads."""
    made = node.operands[0].producer if node.operands else None
    if made is None or made.op != "DequantizeLinear":
        return None
    first = made.operands[0].producer
    return first.operands[0] if first is not None and first.op == "DynamicQuantizeLinear" else None
