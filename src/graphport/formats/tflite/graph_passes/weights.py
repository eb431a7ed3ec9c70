"""Rewrite compressed constants, and fuse activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.core.storage import storage_of
from graphport.ir.graph import Node

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.binding import Quantization
    from graphport.ir.graph import Graph

_DIALECT = "tflite"
_TRANSPOSE, _DEQUANTIZE, _FILL = "TRANSPOSE", "DEQUANTIZE", "FILL"
_SHAPING = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
_MAX_RESHAPED_ELEMENTS = 1 << 16
"""Maximum number of elements of a constant that is copied with another shape."""
_ACTIVATIONS = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
_CLAMPING = frozenset(
    ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "DIV", "MAX_POOL_2D", "AVERAGE_POOL_2D")
)
"""Operators whose float32 kernels clamp their results."""


def transpose_fill(graph: Graph) -> None:
    """Fold TRANSPOSE(FILL(shape)) into FILL(permuted shape).

    Before  w = TRANSPOSE(FILL(shape, number), order)
    After   w = FILL(permuted shape, number)
    """
    for node in list(graph):
        order = node.operand(1) if node.dialect == _DIALECT and node.op_type == _TRANSPOSE else None
        source = node.operand(0)
        maker = None if source is None else source.producer
        if (
            order is None
            or order.storage is None
            or maker is None
            or maker.dialect != _DIALECT
            or maker.op_type != _FILL
        ):
            continue
        storage = maker.operands[0].storage
        if storage is None:
            continue
        shape = storage_of(storage.numpy()[order.storage.numpy().reshape(-1)])
        value = graph.add_constant(graph.fresh(maker.operands[0].name), TensorFact.of(shape), shape)
        twin = Node(maker.op_type, [value, maker.operands[1]], [], dialect=_DIALECT, origin=maker.unasked_origin)
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)
        if not maker.output.uses and not maker.output.is_output:
            graph.remove(maker)


def transpose_stored_constants(graph: Graph) -> None:
    """Transpose the stored integers or float16 elements of a constant, not the floats that are computed in each run.

    Before  y = CONV_2D(x, TRANSPOSE(DEQUANTIZE(w), order))
    After   y = CONV_2D(x, DEQUANTIZE(w transposed))
    """
    for node in list(graph):
        order = node.operand(1) if node.dialect == _DIALECT and node.op_type == _TRANSPOSE else None
        source = node.operand(0)
        maker = None if source is None or order is None else source.producer
        if order is None or order.storage is None or maker is None or not _is_stored(maker):
            continue
        stored = maker.operands[0].storage
        if stored is None or maker.graph is not graph:
            continue
        perm = [int(axis) for axis in order.storage.numpy().reshape(-1)]
        array = store_array(np.ascontiguousarray(stored.numpy().transpose(perm)), stored.dtype)
        value = graph.add_constant(graph.fresh(maker.operands[0].name), TensorFact.of(array), array)
        twin = Node(maker.op_type, [value], [], dict(maker.attributes), dialect=_DIALECT, origin=maker.unasked_origin)
        quantization = _quantization(maker)
        if quantization is not None:
            dtype, axis, scales, zeros = quantization
            transposed = (dtype, perm.index(axis) if axis >= 0 else axis, scales, zeros)
            twin.set_attribute("quantized", cast("Any", (transposed,)))
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)
        if not maker.output.uses and not maker.output.is_output:
            graph.remove(maker)


def shape_constants(graph: Graph) -> None:
    """Fold a RESHAPE of a constant, so that Transposes of other operands can move past the consumer.

    Before  y = ADD(TRANSPOSE(x, order), RESHAPE(c, shape))
    After   y = ADD(TRANSPOSE(x, order), c in that shape)
    """
    for node in list(graph):
        if node.dialect != _DIALECT or node.op_type not in _SHAPING or len(node.results) != 1:
            continue
        source, result = node.operand(0), node.output
        fact = result.fact
        shape = fact.shape if isinstance(fact, TensorFact) else None
        stored = source.storage if source is not None and source.is_constant else None
        if stored is None or shape is None or result.is_output or node.attributes.get("quantized") is not None:
            continue
        extents = [n for n in shape if isinstance(n, int)]
        if len(extents) < len(shape) or stored.count > _MAX_RESHAPED_ELEMENTS:
            continue
        made = store_array(stored.numpy().reshape(extents), stored.dtype)
        result.replace_uses(graph.add_constant(graph.fresh(result.name), TensorFact.of(made), made))
        graph.remove(node)


def clamp_results(graph: Graph) -> None:
    """Fuse activations into the float32 operators before them.

    Before  y = RELU6(CONV_2D(x, w, b))
    After   y = CONV_2D(x, w, b) with the activation fused
    """
    for node in list(graph):
        number = _ACTIVATIONS.get(node.op_type, 0) if node.dialect == _DIALECT else 0
        maker = node.operands[0].producer if number else None
        if maker is None or maker.dialect != _DIALECT or maker.op_type not in _CLAMPING or maker.graph is not graph:
            continue
        value = maker.output
        if len(value.uses) != 1 or value.is_output or maker.attributes.get("fused_activation_function"):
            continue
        if maker.attributes.get("quantized_results") is not None or value.dtype is not DType.FLOAT32:
            continue
        maker.set_attribute("fused_activation_function", number)
        result = node.output
        name = result.name
        result.replace_uses(value)
        graph.remove(node)
        graph.rename(value, name)


def _is_stored(node: Node) -> bool:
    first = node.operand(0)
    return (
        node.dialect == _DIALECT
        and node.op_type == _DEQUANTIZE
        and first is not None
        and first.is_constant
        and not node.output.is_output
    )


def _quantization(node: Node) -> Quantization | None:
    entries = node.attributes.get("quantized")
    return cast("Any", entries)[0] if isinstance(entries, tuple) and entries else None
