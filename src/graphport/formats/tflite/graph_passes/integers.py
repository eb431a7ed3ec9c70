"""Replace operators between DEQUANTIZE and QUANTIZE by the integer operators that agree within one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.container.notes import TENSOR
from graphport.formats.tflite.container.tensors import Tensor
from graphport.formats.tflite.graph_passes.kernels import KERNELS
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from graphport.core.facts import Fact
    from graphport.formats.tflite.graph_passes.kernels import Kernel
    from graphport.formats.tflite.rules.binding import Quantization

_DIALECT = "tflite"
_UINT8_OFFSET = 128
"""Difference between uint8 and int8 codes."""
_CLAMPS = {"RELU": (1, 0.0, np.inf), "RELU6": (3, 0.0, 6.0)}
"""Operators that may be fused as activations: their number, and their lower and upper bound."""
_FILLS, _CUTS = "PADV2", frozenset(("SLICE", "STRIDED_SLICE", "RESHAPE"))
_BOUNDS = {"MAXIMUM": (0, -np.inf), "MINIMUM": (1, np.inf)}
_MAKES_REAL = ("DEQUANTIZE", "CAST")
_MAX_CLAMPS = 3
_SHORT_SHIFT = 15
"""Maximum left shift of operands in int16 kernels."""
_MAX_BIAS = {DType.INT32: (1 << 31) - 1, DType.INT64: (1 << 39) - 1}
"""Maximum bias: int16 kernels shift 48-bit sums."""


def integers(graph: Graph) -> None:
    """Replace operators between DEQUANTIZE and one QUANTIZE by integer operators.

    Before  y = QUANTIZE(RELU(CONV_2D(DEQUANTIZE(x), DEQUANTIZE(w), b)))
    After   y = CONV_2D(x, w, b as integers), with the activation fused
    """
    for node in list(graph):
        if node.op_type == "QUANTIZE":
            _make_signed(node)
    _round_before_cuts(graph)
    _tell_moved(graph)
    _fill_with_zero(graph)
    fused = [
        node for node in list(graph) if node.dialect == _DIALECT and node.op_type in KERNELS and _fuse(graph, node)
    ]
    if not fused:
        return
    for node in reversed(list(graph)):
        is_ours = node.dialect == _DIALECT and (node.op_type in KERNELS or node.op_type in _MAKES_REAL)
        if is_ours and not any(value.uses or value.is_output for value in node.results):
            graph.remove(node)


def _round_before_cuts(graph: Graph) -> None:
    """Move slices and reshapes of a result after its QUANTIZE.

    Before  y = QUANTIZE(RELU(SLICE(TRANSPOSE_CONV(x, w), begin, size)))
    After   y = SLICE(QUANTIZE(RELU(TRANSPOSE_CONV(x, w))), begin, size)
    """
    for node in list(graph):
        if node.dialect == _DIALECT and node.op_type == "QUANTIZE" and quantization_of(node, "quantized") is None:
            _round_before_cut(graph, node)


def _round_before_cut(graph: Graph, node: Node) -> None:
    quantization, behind = quantization_of(node, "quantized_results"), [node]
    while (maker := behind[-1].operands[0].producer) is not None and maker.op_type in _CLAMPS:
        behind.append(maker)
    cut = behind[-1].operands[0].producer
    if (
        cut is None
        or cut.dialect != _DIALECT
        or cut.op_type not in _CUTS
        or cut.graph is not graph
        or quantization is None
    ):
        return
    source, middle = cut.operands[0], [each.operands[0] for each in behind]
    is_made = source.producer is not None and source.producer.dialect == _DIALECT and quantization[1] < 0
    if not is_made or any(len(value.uses) != 1 or value.is_output for value in (source, *middle)):
        return
    fact, value = cast("TensorFact", source.fact), source
    for each in reversed(behind):
        whole = Value(
            graph.fresh(f"{source.name}_whole"), TensorFact(quantization[0] if each is node else fact.dtype, fact.shape)
        )
        twin = Node(each.op_type, [], [whole], dict(each.attributes), dialect=_DIALECT, origin=each.unasked_origin)
        graph.insert_before(cut, twin)
        twin.inputs = [value, *each.inputs[1:]]
        value = whole
    attributes: dict[str, Any] = {**cut.attributes, "types": (quantization[0],), "quantized_results": (quantization,)}
    attributes["quantized"] = (quantization, *[None] * (len(cut.inputs) - 1))
    last = Node(cut.op_type, [value, *cut.inputs[1:]], [], attributes, dialect=_DIALECT, origin=cut.unasked_origin)
    graph.insert_before(cut, last)
    last.take_outputs(node)
    for each in (*behind, cut):
        graph.remove(each)


def _tell_moved(graph: Graph) -> None:
    """Set equal quantization parameters on operands and results of data movements, which kernels require."""
    known = {
        value: quantization
        for node in graph
        for value, quantization in _quantized_values(node)
        if value is not None and quantization is not None
    }
    for value in (*graph.inputs, *graph.outputs):
        note = value.notes.get(TENSOR) if value.has_notes else None
        if isinstance(note, Tensor) and note.quantization is not None:
            known.setdefault(value, note.quantization)
    moving = [
        node
        for node in graph
        if node.op_type in KERNELS and len(node.results) == 1 and _hands_on(KERNELS[node.op_type])
    ]
    for nodes in (moving, moving[::-1]):
        for node in nodes:
            first = node.operands[0]
            quantization = known.get(first) or known.get(node.output)
            if not KERNELS[node.op_type].moves:
                _tell_joined(node, known)
            elif (
                quantization is not None
                and quantization[1] < 0
                and first.dtype is quantization[0]
                and "quantized" not in node.attributes
            ):
                known[first] = known[node.output] = quantization
                is_fill = node.op_type == _FILLS
                entries = (quantization, None, quantization if is_fill else None)[: len(node.inputs)]
                node.set_attribute("quantized", cast("Any", entries))
                node.set_attribute("quantized_results", cast("Any", (quantization,)))


def _hands_on(kernel: Kernel) -> bool:
    """Whether a kernel requires equal quantization parameters of all operands and results."""
    return kernel.moves or (kernel.is_same and not kernel.numbers)


def _fill_with_zero(graph: Graph) -> None:
    """Replace PADV2 by `PAD`, which XNNPACK supports, if the fill value is the zero point."""
    for node in list(graph):
        quantization = (
            quantization_of(node, "quantized") if node.dialect == _DIALECT and node.op_type == _FILLS else None
        )
        filler = node.inputs[2] if quantization is not None and len(node.inputs) > 2 else None
        storage = filler.storage if filler is not None and filler.is_constant else None
        if (
            quantization is None
            or storage is None
            or quantization[1] >= 0
            or storage.numpy().reshape(-1).tolist() != [quantization[3][0]]
        ):
            continue
        attributes: dict[str, Any] = {**node.attributes, "quantized": (quantization, None)}
        twin = Node("PAD", node.inputs[:2], [], attributes, dialect=_DIALECT, origin=node.unasked_origin)
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)


def _tell_joined(node: Node, known: dict[Value, Quantization]) -> None:
    """Set equal quantization parameters on operands and result of a concatenation or selection, if known ones agree."""
    values = [*node.operands, node.output]
    found = {quantization for value in values if (quantization := known.get(value)) is not None}
    if len(found) != 1 or "quantized" in node.attributes:
        return
    (quantization,) = found
    if quantization[1] >= 0 or any(value.dtype is not quantization[0] for value in values):
        return
    known.update(dict.fromkeys(values, quantization))
    node.set_attribute("quantized", cast("Any", (quantization,) * len(node.inputs)))
    node.set_attribute("quantized_results", cast("Any", (quantization,)))


def _quantized_values(node: Node) -> list[tuple[Value | None, Quantization | None]]:
    sides = ((node.inputs, node.attributes.get("quantized")), (node.outputs, node.attributes.get("quantized_results")))
    pairs = [(values, cast("Any", entries)) for values, entries in sides if isinstance(entries, tuple)]
    return [pair for values, entries in pairs for pair in zip(values, entries, strict=False)]


def _make_signed(node: Node) -> None:
    """Convert uint8 values that only DEQUANTIZE reads to int8: uint8 kernels do not support per-channel scales."""
    quantization, users = quantization_of(node, "quantized_results"), [use.user for use in node.output.uses]
    if (
        quantization is None
        or quantization[0] is not DType.UINT8
        or quantization[1] >= 0
        or node.output.is_output
        or not users
    ):
        return
    readers = [user for user in users if isinstance(user, Node) and user.op_type == "DEQUANTIZE"]
    fact = node.output.fact
    if len(readers) < len(users) or not isinstance(fact, TensorFact):
        return
    if any(quantization_of(reader, "quantized") != quantization for reader in readers):
        return
    signed = _signed(quantization)
    node.output.fact = TensorFact(DType.INT8, fact.shape)
    node.set_attribute("quantized_results", cast("Any", (signed,)))
    node.set_attribute("types", (DType.INT8,))
    for reader in readers:
        reader.set_attribute("quantized", cast("Any", (signed,)))


def _signed(quantization: Quantization) -> Quantization:
    return DType.INT8, quantization[1], quantization[2], tuple(zero - _UINT8_OFFSET for zero in quantization[3])


def _fuse(graph: Graph, node: Node) -> bool:
    """Replace a node by an integer operator; return whether it was replaced."""
    kernel = KERNELS[node.op_type]
    end = _end(node, kernel)
    if end is None or node.attributes.get("quantized") is not None:
        return False
    activation, last = end
    quantization = quantization_of(last, "quantized_results")
    if quantization is None or not _can_produce(quantization, kernel):
        return False
    operands = _operands(graph, node, kernel, quantization)
    if operands is None:
        return False
    values, entries = operands
    attributes: dict[str, Any] = {**node.attributes, "quantized": tuple(entries), "quantized_results": (quantization,)}
    attributes["types"] = (quantization[0],)
    if activation:
        attributes["fused_activation_function"] = activation
    if kernel.shift and quantization[0] is DType.INT16:
        attributes["pot_scale_int16"] = False
    result = Value(graph.fresh(f"{last.output.name}_{quantization[0]}"), last.output.fact)
    graph.insert_after(node, made := Node(node.op_type, [], [result], attributes, dialect=_DIALECT, origin=node.origin))
    made.inputs = values
    if last.output.is_output:
        name = last.output.name
        graph.rename(last.output, graph.fresh(f"{name}_unused"))
        graph.rename(result, name)
    last.output.replace_uses(result)
    graph.remove(last)
    return True


def _can_produce(quantization: Quantization, kernel: Kernel) -> bool:
    """Whether a kernel supports results with the quantization parameters `quantization`."""
    dtype, axis, scales, zeros = quantization
    if dtype not in kernel.types or axis >= 0 or (dtype is DType.INT16 and zeros[0]):
        return False
    if kernel.fixed is None:
        return True
    scale, zero = kernel.fixed[dtype]
    return zeros[0] == zero and bool(np.isclose(scales[0], scale, rtol=1e-6, atol=0))


def _end(node: Node, kernel: Kernel) -> tuple[int, Node] | None:
    """Return the activation to fuse into a node and the QUANTIZE after it; `None` if the result has another consumer.

    Clamps to the range of the integers or beyond are dropped: saturation has the same effect.
    """
    fused = cast("int", node.attributes.get("fused_activation_function", 0))
    low, high = -np.inf, np.inf
    value = node.results[0] if len(node.results) == 1 else None
    for _ in range(_MAX_CLAMPS + 1):
        if value is None or len(value.uses) != 1 or value.is_output:
            return None
        user = next(iter(value.uses)).user
        if not isinstance(user, Node) or user.dialect != _DIALECT:
            return None
        if user.op_type == "QUANTIZE":
            return (fused, user) if _saturates(user, low, high) else None
        if user.op_type in _CLAMPS and kernel.clamps and not fused and low == -np.inf and high == np.inf:
            fused = _CLAMPS[user.op_type][0]
        else:
            bounds = _clamp(user, value)
            if bounds is None:
                return None
            low, high = max(low, bounds[0]), min(high, bounds[1])
        value = user.output
    return None


def _clamp(node: Node, value: Value) -> tuple[float, float] | None:
    """Return the bounds to which a node clamps a value, if it has no other effect."""
    if node.op_type in _CLAMPS:
        return _CLAMPS[node.op_type][1:]
    if node.op_type not in _BOUNDS or len(node.operands) != 2:
        return None
    other = node.operands[1 if node.operands[0] is value else 0]
    if not other.is_constant or other.storage is None or other.storage.count != 1:
        return None
    found = [-np.inf, np.inf]
    found[_BOUNDS[node.op_type][0]] = float(other.storage.numpy().reshape(-1)[0])
    return found[0], found[1]


def _saturates(node: Node, low: float, high: float) -> bool:
    """Whether all numbers below `low` and above `high` quantize like `low` and `high`."""
    quantization = quantization_of(node, "quantized_results")
    if quantization is None:
        return False
    limits = np.iinfo(quantization[0].numpy)
    scale, zero = quantization[2][0], quantization[3][0]
    return low <= (limits.min - zero + 0.5) * scale and high >= (limits.max - zero - 0.5) * scale


def quantization_of(node: Node, name: str, place: int = 0) -> Quantization | None:
    """Return entry `place` of the attribute `name`, `quantized` or `quantized_results`; `None` if it is absent."""
    entries = node.attributes.get(name)
    return cast("Any", entries)[place] if isinstance(entries, tuple) and len(entries) > place else None


def _operands(
    graph: Graph, node: Node, kernel: Kernel, result: Quantization
) -> tuple[list[Value | None], list[Quantization | None]] | None:
    indices = kernel.numbers or range(len(node.inputs))
    quantizations = {place: stored_quantization(node.inputs[place]) for place in indices}
    known = [each for each in quantizations.values() if each is not None and each[0] is result[0]]
    if len(known) < len(quantizations) or (kernel.is_same and any(each != result for each in known)):
        return None
    shift = min(kernel.shift, _SHORT_SHIFT if result[0] is DType.INT16 else kernel.shift)
    if shift and 2 * max(each[2][0] for each in known) >= result[2][0] * 2**shift:
        # Its kernel aborts the process.
        return None
    values: list[Value | None] = list(node.inputs)
    entries: list[Quantization | None] = [quantizations.get(place) for place in range(len(values))]
    if kernel.weights is not None:
        found = _weights(graph, node, kernel.weights, known[0])
        if found is None:
            return None
        for place, value, entry in zip(kernel.weights, *found, strict=False):
            values[place], entries[place] = value, entry
    if node.op_type == _FILLS:
        if _filler(values[2], result) is None:
            return None
        values[2], entries[2] = _add_filler(graph, values[2], result), result
    for place in indices:
        values[place] = stored_integers(graph, node, cast("Value", node.inputs[place]))
    return values, entries


def _filler(value: Value | None, quantization: Quantization) -> np.ndarray[Any, Any] | None:
    """Quantize a constant fill value, saturated; `None` if it is not exactly representable."""
    real = float_bias_of(value)
    if real is None or real.size != 1:
        return None
    dtype, _, scales, zeros = quantization
    limits = np.iinfo(dtype.numpy)
    place = np.clip(float(real.reshape(-1)[0]) / scales[0] + zeros[0], limits.min, limits.max)
    return np.array(place).astype(dtype.numpy) if place == np.round(place) else None


def _add_filler(graph: Graph, value: Value | None, quantization: Quantization) -> Value:
    storage = storage_of(cast("np.ndarray[Any, Any]", _filler(value, quantization)))
    return graph.add_constant("filler", TensorFact.of(storage), storage)


def stored_quantization(value: Value | None) -> Quantization | None:
    """Return the quantization parameters of a value that DEQUANTIZE computes, possibly with data movements after it."""
    node = None if value is None else value.producer
    if node is None or node.dialect != _DIALECT:
        return None
    if node.op_type == "DEQUANTIZE":
        quantization = quantization_of(node, "quantized")
        return quantization if quantization is not None and quantization[1] < 0 else None
    kernel = KERNELS.get(node.op_type)
    if kernel is None or not kernel.moves or len(node.results) > 1 or node.attributes.get("fused_activation_function"):
        return None
    quantization = stored_quantization(node.operand(0))
    if quantization is None or quantization[0] not in kernel.types:
        return None
    return quantization if node.op_type != _FILLS or _filler(node.inputs[2], quantization) is not None else None


def stored_integers(graph: Graph, before: Node, value: Value) -> Value:
    """Return the integers before DEQUANTIZE of a value; repeat the data movements between both on the integers."""
    node = cast("Node", value.producer)
    first = cast("Value", node.operand(0))
    if node.op_type == "DEQUANTIZE":
        return first
    quantization = cast("Quantization", stored_quantization(value))
    fact = cast("TensorFact", value.fact)
    result = Value(graph.fresh(f"{value.name}_{quantization[0]}"), TensorFact(quantization[0], fact.shape))
    entries = (quantization, *[None] * (len(node.inputs) - 1))
    attributes: dict[str, Any] = {**node.attributes, "quantized": entries, "quantized_results": (quantization,)}
    attributes["types"] = (quantization[0],)
    source = stored_integers(graph, before, first)
    rest = list(node.inputs[1:])
    if node.op_type == _FILLS:
        rest[1] = _add_filler(graph, rest[1], quantization)
        attributes["quantized"] = (quantization, None, quantization)
    made = Node(node.op_type, [], [result], attributes, dialect=_DIALECT, origin=node.unasked_origin)
    graph.insert_before(before, made)
    made.inputs = [source, *rest]
    return result


def _weights(
    graph: Graph, node: Node, at: tuple[int, int, int], x: Quantization
) -> tuple[list[Value | None], list[Quantization | None]] | None:
    """Return int8 filters, and the bias in the scale of the products.

    `at` has their operand indices and the axis of scales.
    """
    place, last, along = at
    found = filters_of(node.inputs[place])
    bias = float_bias_of(node.inputs[last]) if len(node.inputs) > last else None
    if found is None or bias is None:
        return None
    array, quantization = found
    if quantization[0] is not DType.INT8 or any(quantization[3]) or quantization[1] not in (-1, along):
        return None
    if array.min(initial=0) == -_UINT8_OFFSET:
        # Kernels with 16-bit activations require symmetric weights.
        return None
    steps = np.array(quantization[2], np.float64) * np.float32(x[2][0])
    numbers = np.round(bias.reshape(-1).astype(np.float64) / steps)
    dtype = DType.INT32 if x[0] is DType.INT8 else DType.INT64
    if np.abs(numbers).max(initial=0) > _MAX_BIAS[dtype]:
        return None
    weights, counts = storage_of(array), storage_of(numbers.astype(dtype.numpy))
    values = [
        graph.add_constant(f"{node.output.name}_w", TensorFact.of(weights), weights),
        graph.add_constant(f"{node.output.name}_b", TensorFact.of(counts), counts),
    ]
    by_axis = 0 if quantization[1] >= 0 else -1
    products: Quantization = (dtype, by_axis, tuple(map(float, steps)), (0,) * len(quantization[2]))
    return list(values), [quantization, products]


def filters_of(value: Value | None) -> tuple[np.ndarray[Any, Any], Quantization] | None:
    """Return stored elements and quantization parameters of dequantized constant filters, transposed like the graph."""
    node = None if value is None else value.producer
    if node is None or node.dialect != _DIALECT:
        return None
    first = node.operand(0)
    if node.op_type == "DEQUANTIZE" and first is not None and first.storage is not None and first.is_constant:
        quantization = quantization_of(node, "quantized")
        if quantization is None:
            return None
        if quantization[0] is not DType.UINT8:
            return first.storage.numpy(), quantization
        return (first.storage.numpy().astype(np.int16) - _UINT8_OFFSET).astype(np.int8), _signed(quantization)
    if node.op_type == "RESHAPE":
        return _reshaped(filters_of(first), node.output.fact)
    order = node.operand(1) if node.op_type == "TRANSPOSE" else None
    found = filters_of(first) if order is not None and order.storage is not None else None
    if found is None or order is None or order.storage is None:
        return None
    perm = [int(axis) for axis in order.storage.numpy()]
    array, (dtype, axis, scales, zeros) = found
    return np.ascontiguousarray(array.transpose(perm)), (dtype, perm.index(axis) if axis >= 0 else -1, scales, zeros)


def _reshaped(
    found: tuple[np.ndarray[Any, Any], Quantization] | None, fact: Fact
) -> tuple[np.ndarray[Any, Any], Quantization] | None:
    """Reshape filters by inserting or removing axes of length 1."""
    shape = fact.shape if isinstance(fact, TensorFact) else None
    if found is None or shape is None:
        return None
    array, (dtype, axis, scales, zeros) = found
    before, after = ([at for at, n in enumerate(dims) if n != 1] for dims in (array.shape, shape))
    if [array.shape[at] for at in before] != [shape[at] for at in after] or (axis >= 0 and axis not in before):
        return None
    own = after[before.index(axis)] if axis >= 0 else -1
    return array.reshape(cast("Any", shape)), (dtype, own, scales, zeros)


def float_bias_of(value: Value | None) -> np.ndarray[Any, Any] | None:
    """Return the elements of a constant bias as floats; it may be dequantized."""
    if value is None:
        return None
    if value.is_constant and value.storage is not None:
        return value.storage.numpy()
    node = value.producer
    if node is None or node.dialect != _DIALECT:
        return None
    if node.op_type in ("RESHAPE", "CAST"):
        return float_bias_of(node.operand(0))
    if node.op_type == "MUL":
        # ONNX has no DequantizeLinear of 64-bit integers.
        factors = [float_bias_of(each) for each in node.inputs]
        return None if any(each is None for each in factors) else _product(cast("Any", factors))
    found = filters_of(value)
    if found is None or found[0].ndim != 1:
        return None
    array, (_, _, scales, zeros) = found
    return (array.astype(np.float64) - np.array(zeros)) * np.array(scales)


def _product(factors: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return factors[0].astype(np.float64) * factors[1].astype(np.float64)
