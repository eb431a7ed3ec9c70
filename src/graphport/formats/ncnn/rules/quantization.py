"""Integers in ncnn: layers with int8 weights quantize their input, multiply int8 by int8, and return floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.formats.ncnn.rules.activation import activated
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.ir.graph import Node, Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed, folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, Cast, Div, Floor, Max, Mul, Sign
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.definitions.reduction import ReduceMax
from graphport.ops.lowering.operands import dtype_of

Array: TypeAlias = "np.ndarray[Any, Any]"

TERM = 8
"""Parameter that enables integer computation."""
_WITH_RESULT = 100
"""Terms above this one round the result, too."""
_MOST = 127
GROUPED = 4
"""Output groups of this size, or of a multiple, are not computed on integers.

The runtime returns uninitialized memory if SIMD vectors of channels have the size of a group.
"""
_TOLERANCE = 1e-5
_WINOGRAD = 64
"""The bit of parameter 31 that forbids Winograd's algorithm in a layer."""
_TILED = (3, 3)
"""The kernels that the algorithm is for."""
_WINOGRAD_FACTOR = 576
"""Magnification of sums in the Winograd algorithm on 4x4 tiles."""


# ── from ncnn ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def rounded_operands(
    at: Layer, shape: list[int], place: int, groups: int = 0, *, is_transposed: bool = False
) -> tuple[Value, Value]:
    """Return the quantized and dequantized input of a layer, and its float weight.

    Args:
        at: a layer whose `TERM` is set.
        shape: of the weight; axis 0 is the outputs.
        place: index of the weight scales among the layer's weights; the input scale is next.
        groups: number of weight scales; 0 for one per output.
        is_transposed: return the weight as a matrix with a column per output.

    Source: ncnn's Convolution, `weight * scale` and `input * scale` are rounded and clipped to -127 and 127.
    """
    b, weight = at.b, at.stored(0)
    scales, results = at.stored(place), shape[0]
    wanted = groups or results
    if scales.count != wanted or results % max(wanted, 1):
        message = f"{scales.count} scales for {results} output channels in {wanted} groups"
        raise ShapeError(message)
    share = results // max(wanted, 1)
    steps = Computed(lambda array: np.repeat(inverse(array), share), (scales,), DType.FLOAT32, (results,))
    codes = weight.reshaped(shape)
    if weight.dtype is not DType.INT8:
        codes = Computed(
            lambda array, scale: _codes(array, np.repeat(scale, share)), (codes, scales), DType.INT8, (*shape,)
        )
    if is_transposed:
        codes = Computed(lambda array: array.reshape(shape).T, (codes,), DType.INT8, (*reversed(shape),))
    w = b(DequantizeLinear, b.constant(codes), b.constant(steps), axis=int(is_transposed))
    return _on_grid(b, at.x, at.stored(place + 1)), w


def rounded_result(at: Layer, y: Value, place: int) -> Value:
    """Return the layer result `y`, quantized and dequantized if the layer has a result scale, weight `place` + 2."""
    return _on_grid(at.b, y, at.stored(place + 2)) if at.integer(TERM) > _WITH_RESULT else y


def inverse(scales: Array) -> Array:
    """Return 1 / scales; 0 for a scale of 0, which marks an all-zero channel."""
    return np.divide(1.0, scales, out=np.zeros_like(scales, np.float32), where=scales != 0)


def _codes(weight: Array, scales: Array) -> Array:
    """Quantize a weight with scales along axis 0 to int8, -127 to 127, rounded half away from zero like `roundf`."""
    scaled = weight * scales.reshape(-1, *[1] * (weight.ndim - 1))
    return np.clip(np.sign(scaled) * np.floor(np.abs(scaled) + 0.5), -_MOST, _MOST).astype(np.int8)


def _on_grid(b: Builder, x: Value, stored: Storage) -> Value:
    """Quantize and dequantize `x` with codes from -127 to 127."""
    if stored.count != 1:
        message = f"{stored.count} input scales, expected 1"
        raise UnsupportedError(message)
    scale = float(stored.numpy().reshape(-1)[0])
    if not (np.isfinite(scale) and scale > 0):
        message = f"the input scale is {scale}"
        raise ShapeError(message, "expected a positive finite scale")
    step, zero = b.constant(np.float32(1 / scale)), b.constant(np.int8(0))
    if dtype_of(x) is DType.INT8:
        # A previous layer has quantized already; the scale gives the meaning of the integers.
        return b(DequantizeLinear, x, step, zero)
    kept = b(Max, x, -_MOST / scale)
    return b(DequantizeLinear, b(QuantizeLinear, kept, step, zero), step, zero)


def rounded_rows(b: Builder, x: Value, axes: Sequence[int] = (-1,)) -> Value:
    """Quantize each row of `x`, or what `axes` span, to -127 to 127 at run time, and dequantize it.

    Shapes: x [..., k].  Source: ncnn's LSTM and Gemm, `x * 127 / absmax` is rounded, halves away from zero.
    """
    most = b(ReduceMax, b(Abs, x), b.constant(np.array(axes)), keepdims=1)
    zero, one = b.like(x, 0.0), b.like(x, 1.0)
    scale = b(Where, b(Equal, most, zero), one, b(Div, float(_MOST), most))
    scaled = b(Mul, x, scale)
    codes = b(Mul, b(Sign, scaled), b(Floor, b(Add, b(Abs, scaled), 0.5)))
    return b(Div, codes, scale)


@layer("Quantize")
def quantize(at: Layer) -> Value:
    """Quantize: clip(round(input * scale), -127, 127) with one scale or per-channel scales."""
    return _rounded(at, at.x, 0)


@layer("Dequantize")
def dequantize(at: Layer) -> Value:
    """Dequantize: input * scale + bias."""
    return _dequantize(at, 0, at.count(1) and 1)


@layer("Requantize")
def requantize(at: Layer) -> Value:
    """Requantize: clip(round(activation(input * scale_in + bias) * scale_out), -127, 127)."""
    parameters = {"9": at.integer(3), "10": at.array(4)}
    return _rounded(at, activated(Layer(at.b, at.inputs, parameters), _dequantize(at, 0, at.count(2) and 2)), 1)


def _dequantize(at: Layer, scale: int, bias: int) -> Value:
    """Dequantize 32-bit sums; index 0 means no bias."""
    x, dtype = at.x, dtype_of(at.x)
    if dtype.is_floating or dtype is DType.INT8:
        message = f"{at.x.name} is {at.x.fact}; the layer requires int32"
        raise UnsupportedError(message)
    x = x if dtype is DType.INT32 else at.b(Cast, x, to=DType.INT32)
    y = at.b(DequantizeLinear, x, at.b.constant(_along(at, scale)), axis=1)
    return at.b(Add, y, at.b.constant(_align_channel_vector(at, _along(at, bias)))) if bias else y


def _rounded(at: Layer, y: Value, place: int) -> Value:
    """Quantize the float32 `y` to int8, -127 to 127, with the scales in weight `place` (integers per real unit)."""
    if dtype_of(y) is not DType.FLOAT32:
        message = f"{y.name} is {y.fact}; the layer requires float32"
        raise UnsupportedError(message)
    b, scale = at.b, _along(at, place)
    if not (scale > 0).all():
        message = f"the scale is {scale.min():g}"
        raise ShapeError(message, "expected a positive finite scale")
    kept = b(Max, y, b.constant(_align_channel_vector(at, -_MOST / scale)))
    return b(QuantizeLinear, kept, b.constant(1 / scale), b.constant(np.zeros(scale.shape, np.int8)), axis=1)


def _along(at: Layer, place: int) -> Array:
    """Return weight `place`: one finite number per index of axis 0 of the blob, or a scalar for all."""
    found = at.stored(place).numpy().astype(np.float32).reshape(-1)
    if not np.isfinite(found).all():
        message = f"weight {place} contains {found[~np.isfinite(found)][0]:g}"
        raise ShapeError(message, "expected finite elements")
    if found.size == 1:
        return found.reshape(())
    if at.rank == 1:
        message = f"weight {place} has {found.size} elements; ncnn reads one element if the input is a vector"
        raise UnsupportedError(message)
    wanted = at.b.dims(at.x, at_least=2)[1]
    if isinstance(wanted, int) and found.size != wanted:
        message = f"weight {place} has {found.size} elements, expected 1 or {wanted}"
        raise ShapeError(message)
    return found


def _align_channel_vector(at: Layer, numbers: Array) -> Array:
    """Reshape a vector along axis 0 of a blob to broadcast with the following axes."""
    return numbers.reshape(-1, *[1] * (at.rank - 1)) if numbers.ndim else numbers


# ── to ncnn ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Integers:
    """Operands of an integer layer.

    `x` is the input before quantization, `codes` the weight with outputs along axis 0, `scales` are integers per real
    unit: one per output, and one for the input.
    """

    x: Value
    codes: Storage
    scales: Storage
    input_scale: Storage

    def parameters(self, place: int, *, term: int = 2) -> dict[str, Any]:
        """Return `int8_scale_term` and both scales, as weights `place` and `place + 1`."""
        return {f"p{TERM}": term, f"w{place}": self.scales, f"w{place + 1}": self.input_scale}

    def by_group(self, groups: int) -> Integers:
        """Return these integers with one weight scale per group of output channels.

        Raises:
            UnsupportedError: the scales in a group differ, or ncnn's kernel is wrong for groups of this size.
        """
        results, depth = self.codes.shape[0] // groups, self.codes.shape[1]
        if results % GROUPED == 0 and (results, depth) != (1, 1):
            message = f"ncnn's int8 kernel computes wrong results for groups of {results} output channels"
            raise UnsupportedError(message)
        scales = self.scales.numpy().reshape(groups, -1)
        if (scales != scales[:, :1]).any():
            message = "the output channels of one group have different scales"
            raise UnsupportedError(message)
        kept = Computed(lambda array: array.reshape(groups, -1)[:, 0], (self.scales,), DType.FLOAT32, (groups,))
        return Integers(self.x, self.codes, kept, self.input_scale)

    def overflows(self) -> bool:
        """Whether int32 sums of Winograd's algorithm, which are larger than those of the convolution, may overflow."""
        if self.codes.shape[2:] != _TILED:
            return False
        sums = np.abs(self.codes.numpy().astype(np.int64)).reshape(self.codes.shape[0], -1).sum(axis=1)
        return bool(sums.max(initial=0) * _MOST * _WINOGRAD_FACTOR >= 1 << 31)


def winograd_forbidden(found: Integers) -> dict[str, int]:
    """Return the parameter that disables Winograd's algorithm for a layer in which its sums may overflow."""
    return {"p31": _WINOGRAD} if found.overflows() else {}


def integers_of(x: Value, w: Value, *, axis: int = 0) -> Integers | None:
    """Return the integers of a layer's input and weight; `None` if ncnn has no such layer.

    Before  DequantizeLinear(QuantizeLinear(x, s), s) and DequantizeLinear(codes, t)  in int8 with zero points of 0
    """
    source, weight = _input_of(x), w.producer
    if source is None or weight is None or weight.op != "DequantizeLinear" or weight.attributes.get("block_size"):
        return None
    codes, steps = (None if value is None else folded(value) for value in (weight.operand(0), weight.operand(1)))
    if codes is None or steps is None or codes.dtype is not DType.INT8 or not _is_zero(weight.operand(2)):
        return None
    results = codes.shape[axis]
    rank = len(codes.shape)
    along = weight.attributes.get("axis", 1)
    if steps.count not in (1, results) or not isinstance(along, int) or (steps.count > 1 and along % rank != axis):
        return None
    scales = Computed(
        lambda array: np.broadcast_to(inverse(array.reshape(-1)), (results,)), (steps,), DType.FLOAT32, (results,)
    )
    if axis:
        shape = (results, *codes.shape[:axis], *codes.shape[axis + 1 :])
        codes = Computed(lambda array: np.moveaxis(array, axis, 0), (codes,), DType.INT8, shape)
    value, step = source
    return Integers(value, codes, scales, Computed(lambda array: 1 / array.reshape(1), (step,), DType.FLOAT32, (1,)))


def _input_of(x: Value) -> tuple[Value, Storage] | None:
    """Return the value that is quantized to `x`, and its scale."""
    node = x.producer
    quantize = None if node is None else node.operand(0)
    first = None if quantize is None else quantize.producer
    if node is None or node.op != "DequantizeLinear" or first is None or first.op != "QuantizeLinear":
        return None
    steps = [None if value is None else folded(value) for value in (node.operand(1), first.operand(1))]
    if not all(step is not None and step.count == 1 for step in steps):
        return None
    numbers = {float(step.numpy().reshape(-1)[0]) for step in steps if step is not None}
    if len(numbers) > 1 or not _is_zero(node.operand(2)) or not _is_zero(first.operand(2)):
        return None
    given, step = first.operand(0), steps[0]
    return None if given is None or step is None else (given, step)


def _is_zero(value: Value | None) -> bool:
    """Whether an int8 zero point is 0 everywhere, or absent."""
    storage = None if value is None else folded(value)
    return value is None or (storage is not None and storage.dtype is DType.INT8 and not storage.numpy().any())


def cuts_to_grid(node: Node) -> bool:
    """Whether `node` is a Max with -127 * scale before an int8 QuantizeLinear, as ncnn clips in any case.

    Such a node is `m = Max(x, floor)` for  QuantizeLinear(m, s, 0)  with  floor = -127 * s.
    """
    if node.op_type != "Max" or node.dialect or len(node.inputs) != 2 or not node.output.users:
        return False
    floor = None if node.operands[1].storage is None else folded(node.operands[1])
    if floor is None or floor.count != 1:
        return False
    least = float(floor.numpy().reshape(-1)[0])
    return all(_saturates_at(reader, least) for reader in node.output.users) and not node.output.is_output


def _saturates_at(node: Node, least: float) -> bool:
    step = node.operand(1)
    storage = None if node.op != "QuantizeLinear" or step is None else folded(step)
    if storage is None or storage.count != 1 or node.operand(2) is None or not _is_zero(node.operand(2)):
        return False
    return abs(least + _MOST * float(storage.numpy().reshape(-1)[0])) <= _TOLERANCE * abs(least)


_REASON = "ncnn computes in int8 only layers with weights, with signed integers and a zero point of 0"


def _unsupported(b: Builder, *operands: Value | None, **attributes: Any) -> Value:
    """Reject QuantizeLinear alone: only layers with weights quantize their input.

    Raises:
        UnsupportedError: always; not reported if a layer has fused the node.
    """
    raise UnsupportedError(_REASON)


QuantizeLinear.export_rule("ncnn")(_unsupported)
DequantizeLinear.export_rule("ncnn")(_unsupported)
