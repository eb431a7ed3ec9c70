"""Tensors that a file of quantizations names, as nodes that quantize and dequantize, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.limits import MOST_DIMS
from graphport.formats.nnef.container.original_text import original_of
from graphport.formats.nnef.container.quantized import (
    QUANTIZATION,
    Affine,
    Decoded,
    Quantization,
    decoding_of,
    quantization_of,
)
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.operation import Attribute
    from graphport.formats.nnef.container.syntax import Edition
    from graphport.ir.graph import Attribute as Stated
    from graphport.ir.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

_CODES = (
    *(DType.INT2, DType.INT4, DType.INT8, DType.INT16),
    *(DType.UINT2, DType.UINT4, DType.UINT8, DType.UINT16),
)
"""Integers that QuantizeLinear makes."""
_SMALL = 4096
"""Bytes of scales that are looked into."""
_NEARLY_WHOLE = 1e-5
"""A zero point this near to an integer is that integer, written with the digits of a real number."""


@dataclass(frozen=True, slots=True)
class _LinearParameters:
    """Parameters of QuantizeLinear and DequantizeLinear: integers from `least` to `most` with step `scale`."""

    dtype: DType
    scale: Array
    zero_point: Array
    axis: int | None
    least: int
    most: int


def expand_quantization(graph: Graph) -> None:
    """Insert quantization nodes after every tensor with a quantization note, and remove the note.

    Before  w (codes);  a = conv(x, w);  return relu(a)
    After   w = DequantizeLinear(codes);  a_1 = conv(x, w);  a = DequantizeLinear(QuantizeLinear(a_1));  return relu(a)

    NNEF's own operation is used for quantizations without such an equivalent.
    """
    from graphport.formats.nnef.container.syntax import Edition

    original = original_of(graph)
    edition = Edition.FINAL if original is None else original.edition
    for value in list(graph.values()):
        quantization = quantization_of(value) if value.has_notes else None
        if quantization is None:
            continue
        del value.notes[QUANTIZATION]
        if isinstance(value.storage, Decoded):
            _dequantize(graph, value, value.storage)
        else:
            _quantize(graph, value, quantization, edition)


def _dequantize(graph: Graph, value: Value, stored: Decoded) -> None:
    """Insert DequantizeLinear for stored codes; if it cannot represent them, they are decoded on access."""
    linear = _stored_parameters(stored)
    if linear is None:
        return
    codes = graph.add_constant(value.name, TensorFact.of(stored.codes), stored.codes, origin=value.origin)
    result = Value(graph.fresh(value.name), value.fact, origin=value.origin)
    node = Node("DequantizeLinear", [codes, *_parameters(graph, value.name, linear)], [result], _axis(linear))
    graph.insert_after(value.producer, node)
    rewrite.swap_names(value, result)
    value.replace_uses(result)
    graph.remove_constant(value)


def _stored_parameters(stored: Decoded) -> _LinearParameters | None:
    dtype, decoding = stored.codes.dtype, stored.decoding
    if not isinstance(decoding, Affine) or (dtype not in _CODES and dtype is not DType.INT32):
        return None
    linear = _linear_parameters(decoding, dtype, *_range(dtype))
    # The widest codes have no zero point.
    return None if linear is not None and dtype is DType.INT32 and linear.zero_point.any() else linear


def _quantize(graph: Graph, value: Value, quantization: Quantization, edition: Edition) -> None:
    result = Value(graph.fresh(value.name), value.fact, origin=value.origin)
    readers = list(value.uses)
    place = value
    for node in _steps(graph, value, _linear_parameters_of(quantization), result) or [
        _nnef_quantization(graph, value, quantization, edition, result)
    ]:
        graph.insert_after(place.producer, node)
        place = node.output
    for use in readers:
        if isinstance(use.user, Node) or not value.is_input:
            use.read(result)
    if not value.is_input:
        rewrite.swap_names(value, result)


def _steps(graph: Graph, value: Value, linear: _LinearParameters | None, result: Value) -> list[Node]:
    """Return canonical nodes from `value` to `result`; empty if there is no equivalent."""
    if linear is None:
        return []
    nodes: list[Node] = []
    x = value
    if (linear.least, linear.most) != _range(linear.dtype):
        # There is one code less than the type has: the step below the least one is cut off before.
        floor = ((linear.least - linear.zero_point) * linear.scale).astype(np.float32)
        if linear.axis is not None:
            shape = value.shape
            if shape is None:
                return []
            floor = floor.reshape(-1, *[1] * (len(shape) - linear.axis - 1))
        x = Value(graph.fresh(value.name), value.fact)
        nodes.append(Node("Max", [value, _constant(graph, value.name, floor)], [x], origin=value.origin))
    codes = Value(graph.fresh(value.name))
    parameters, axis = _parameters(graph, value.name, linear), _axis(linear)
    nodes.append(Node("QuantizeLinear", [x, *parameters], [codes], axis, origin=value.origin))
    nodes.append(Node("DequantizeLinear", [codes, *parameters], [result], axis, origin=value.origin))
    return nodes


def _nnef_quantization(graph: Graph, value: Value, quantization: Quantization, edition: Edition, result: Value) -> Node:
    """Return NNEF's quantization operation, in the final edition."""
    from graphport.formats.nnef.container.declarations import standard
    from graphport.formats.nnef.container.editions import final_word

    operands: list[Value] = [value]
    attributes: dict[str, Stated] = {}
    declaration = standard(edition).get(quantization.operation)
    for name, given in quantization.arguments.items():
        index = None if declaration is None else declaration.index(name)
        if declaration is None or index is None or not declaration.formals[index].takes_tensors:
            attributes[name] = cast("Stated", given)
    if declaration is not None:
        for formal in declaration.formals[1:]:
            if formal.takes_tensors:
                numbers = np.asarray(quantization.arguments[formal.name])
                dtype = np.int64 if formal.name == "zero_point" else np.float32
                operands.append(_constant(graph, f"{value.name}_{formal.name}", numbers.astype(dtype)))
    op_type = final_word(quantization.operation, edition)
    return Node(op_type, operands, [result], attributes, dialect="nnef", origin=value.origin)


def _parameters(graph: Graph, name: str, linear: _LinearParameters) -> list[Value]:
    scale = _constant(graph, f"{name}_scale", linear.scale.astype(np.float32).reshape(_rank(linear)))
    if linear.dtype is DType.INT32:
        return [scale]
    shift = linear.zero_point.astype(linear.dtype.numpy).reshape(_rank(linear))
    return [scale, _constant(graph, f"{name}_zero_point", shift, linear.dtype)]


def _rank(linear: _LinearParameters) -> tuple[int, ...]:
    return () if linear.axis is None else (-1,)


def _axis(linear: _LinearParameters) -> dict[str, Stated]:
    return {} if linear.axis is None else {"axis": linear.axis}


def _constant(graph: Graph, name: str, numbers: Array, dtype: DType | None = None) -> Value:
    storage = storage_of(numbers, dtype)
    return graph.add_constant(name, TensorFact.of(storage), storage)


def _range(dtype: DType) -> tuple[int, int]:
    width = dtype.bits
    return (0, 2**width - 1) if dtype.kind == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def _linear_parameters_of(quantization: Quantization) -> _LinearParameters | None:
    """Return the parameters of an affine quantization with integral zero point, else `None`."""
    decoding, given = decoding_of(quantization), quantization.arguments
    bits, signed, symmetric = (int(cast("int", given.get(name, 0))) for name in ("bits", "signed", "symmetric"))
    dtype = next((each for each in _CODES if each.bits == bits and (each.kind == "i") == bool(signed)), None)
    if not isinstance(decoding, Affine) or dtype is None:
        return None
    least, most = _range(dtype)
    return _linear_parameters(decoding, dtype, least + (signed and symmetric), most)


def _linear_parameters(decoding: Affine, dtype: DType, least: int, most: int) -> _LinearParameters | None:
    scale, shift = np.broadcast_arrays(*_aligned(decoding.scale, decoding.zero_point))
    whole = np.rint(shift)
    long = [axis for axis, length in enumerate(scale.shape) if length > 1]
    low, high = _range(dtype)
    if len(long) > 1 or not np.all(np.isfinite(scale)) or np.any(np.abs(shift - whole) > _NEARLY_WHOLE):
        return None
    if np.any(whole < low) or np.any(whole > high):
        return None
    return _LinearParameters(dtype, scale.reshape(-1), whole.reshape(-1), long[0] if long else None, least, most)


def _aligned(a: Array, b: Array) -> tuple[Array, Array]:
    """Append axes of length 1 to give both arrays the same rank."""
    rank = max(a.ndim, b.ndim)
    return a.reshape(a.shape + (1,) * (rank - a.ndim)), b.reshape(b.shape + (1,) * (rank - b.ndim))


# ── nodes to notes ────────────────────────────────────────────────────────────────────────────────────────────────────


def note(graph: Graph) -> None:
    """Replace pairs of QuantizeLinear and DequantizeLinear by notes on the quantized tensor.

    Before  w = DequantizeLinear(codes);  a = DequantizeLinear(QuantizeLinear(Conv(x, w)))
    After   w (codes, quantized);  a = Conv(x, w) (quantized)

    Does not apply to blocked or computed scales, pairs with different scales, and codes with other users.
    """
    for node in graph:
        if node.op == "DequantizeLinear" and node.operand(0) is not None:
            _note(graph, node)
    rewrite.remove_dead(graph)


def _note(graph: Graph, node: Node) -> None:
    codes, result = node.inputs[0], node.output
    quantization = _quantization_of_node(node)
    if codes is None or quantization is None:
        return
    producer = codes.producer
    if codes.is_constant and codes.storage is not None:
        expressible = _with_positive_scales(codes.storage, quantization)
        if expressible is None:
            return
        kept, quantization = expressible
        decoding = decoding_of(quantization)
        if decoding is None:
            return
        stored = Decoded(kept, decoding)
        quantized = graph.add_constant(result.name, TensorFact(DType.FLOAT32, stored.shape), stored)
    elif not _is_positive(quantization):
        return
    elif producer is not None and producer.op == "QuantizeLinear" and _is_pair(producer, node):
        quantized = _unquantized(graph, producer)
    else:
        return
    quantized.notes[QUANTIZATION] = quantization
    rewrite.swap_names(result, quantized)
    result.replace_uses(quantized)


def _is_positive(quantization: Quantization) -> bool:
    """Whether all scales are positive and finite, as NNEF requires."""
    decoding = decoding_of(quantization)
    return isinstance(decoding, Affine) and bool(np.all((decoding.scale > 0) & np.isfinite(decoding.scale)))


def _with_positive_scales(codes: Storage, quantization: Quantization) -> tuple[Storage, Quantization] | None:
    """Replace zero scales, which NNEF refuses: their elements are set to the zero point.

    Weight channels of zeros have such scales.
    """
    if _is_positive(quantization):
        return codes, quantization
    decoding = decoding_of(quantization)
    if not isinstance(decoding, Affine):
        return None
    is_zero = decoding.scale == 0
    arguments = {**quantization.arguments, "scale": _tuples(np.where(is_zero, 1.0, decoding.scale))}
    positive = Quantization(quantization.operation, arguments)
    if not _is_positive(positive):
        return None
    numbers = codes.numpy()
    place, shift = (
        each.reshape(()) if each.size == 1 else each.reshape(each.shape + (1,) * (numbers.ndim - each.ndim))
        for each in (is_zero, decoding.zero_point)
    )
    return storage_of(np.where(place, shift.astype(numbers.dtype), numbers), codes.dtype), positive


def note_moved(graph: Graph) -> None:
    """Note the quantization for reshaped copies of stored codes, too."""
    for value in graph.constants:
        stored = value.storage
        if not isinstance(stored, Decoded) or not isinstance(stored.decoding, Affine) or quantization_of(value):
            continue
        dtype, decoding = stored.codes.dtype, stored.decoding
        arguments: dict[str, Attribute] = {
            "zero_point": _tuples(np.rint(decoding.zero_point).astype(np.int64)),
            "scale": _tuples(decoding.scale.astype(np.float64)),
            "bits": dtype.bits,
            "signed": dtype.kind == "i",
            "symmetric": False,
        }
        value.notes[QUANTIZATION] = Quantization("zero_point_linear_quantize", arguments)


def _tuples(numbers: Array) -> Attribute:
    """Convert an array to nested tuples; a single element to a number."""
    if numbers.size == 1:
        return cast("Attribute", numbers.reshape(-1)[0].item())
    flat = cast("list[Attribute]", numbers.reshape(-1).tolist())
    for count in reversed(numbers.shape[1:]):
        flat = [tuple(flat[at : at + count]) for at in range(0, len(flat), count)]
    return tuple(flat)


def _unquantized(graph: Graph, node: Node) -> Value:
    """Return the operand of `node` if it has no other user; else, and for an input or constant, a copy."""
    x = node.inputs[0]
    if x is not None and x.producer is not None and len(x.uses) == 1 and not quantization_of(x):
        return x
    copy = Value(graph.fresh("quantized"), node.output.fact if x is None else x.fact)
    graph.insert_before(node, Node("Identity", [x], [copy], origin=node.origin))
    return copy


def _is_pair(first: Node, second: Node) -> bool:
    one, other = _quantization_of_node(first), _quantization_of_node(second)
    return one is not None and other is not None and one.arguments == other.arguments and len(first.output.uses) == 1


def _quantization_of_node(node: Node) -> Quantization | None:
    """Return the NNEF quantization of a quantizing or dequantizing node."""
    scale, shift = node.operand(1), node.operand(2)
    codes = node.output if node.op == "QuantizeLinear" else node.operand(0)
    fact = None if codes is None else codes.fact
    dtype = fact.dtype if isinstance(fact, TensorFact) else None
    if dtype is None or not dtype.is_integer or node.attributes.get("block_size") or not _is_small(scale):
        return None
    numbers = _constant_array(scale)
    zeros = np.zeros_like(numbers) if shift is None else _constant_array(shift) if _is_small(shift) else None
    axis = node.attributes.get("axis", 1)
    rank = len(fact.shape) if isinstance(fact, TensorFact) and fact.shape is not None else None
    if zeros is None or not isinstance(axis, int):
        return None
    # Per-channel parameters are nested up to their axis, so the rank must be one that a tensor file can have.
    if max(numbers.size, zeros.size) > 1 and (rank is None or rank > MOST_DIMS):
        return None
    place = axis + (rank or 0) if axis < 0 else axis
    arguments: dict[str, Attribute] = {
        "zero_point": _nested(zeros.astype(np.int64), place, rank),
        "scale": _nested(numbers.astype(np.float64), place, rank),
        "bits": dtype.bits,
        "signed": dtype.kind == "i",
        "symmetric": False,
    }
    return Quantization("zero_point_linear_quantize", arguments)


def _is_small(value: Value | None) -> bool:
    storage = None if value is None else folded(value)
    return storage is not None and storage.nbytes <= _SMALL


def _constant_array(value: Value | None) -> Array:
    storage = None if value is None else folded(value)
    return np.zeros(0) if storage is None else storage.numpy().reshape(-1)


def _nested(numbers: Array, axis: int, rank: int | None) -> Attribute:
    """Return a number, or per-channel numbers nested for `axis` of a tensor of this rank."""
    if numbers.size == 1:
        return cast("Attribute", numbers.reshape(-1)[0].item())
    row = tuple(numbers.tolist())
    nested: Attribute = tuple((each,) for each in row) if axis == 0 and rank != 1 else row
    for _ in range(axis):
        nested = (nested,)
    return nested
