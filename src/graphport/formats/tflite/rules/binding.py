"""Registration of import rules of TFLite: the operands of a rule, and the conversion of its results.

A node has its options as attributes, and the attributes `quantized` and `quantized_results`: for each operand and
result `None`, or element type, axis (-1 for per-tensor), scales and zero points. A rule computes with dequantized
floats; its results are clamped by the fused activation and quantized. A rule that only moves data receives the stored
integers if operands and results have equal quantization parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.formats.tflite.rules.fixed_point import in_fifteen_bits
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.activation import Clip, Relu
from graphport.ops.definitions.arithmetic import Add, Max, Mul, Round, Sub
from graphport.ops.definitions.convolution.window import same_pads
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.lowering.operands import cast, dtype_of, transposed

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

DIALECT = "tflite"
Quantization: TypeAlias = "tuple[DType, int, tuple[float, ...], tuple[int, ...]]"
Rule: TypeAlias = "Callable[[Operator], Any]"
T = TypeVar("T")

RELU, RELU_N1_TO_1, RELU6, TANH = 1, 2, 3, 4
LAYOUTS: dict[str, str] = {}
"""Axis handling of operators, filled while the rule modules are imported; see `op_type`."""
_BOUNDS = {RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
_CLIPPED = frozenset((DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT64))
NARROW = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16))
"""Integer types with little support in ONNX runtimes."""
_QUANTIZED = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT4, DType.UINT4, DType.INT2))


@dataclass(slots=True)
class FileNode(Generic[T]):
    """A node of the file: operands, options and quantization parameters."""

    operands: Sequence[T | None]
    options: dict[str, Any]
    quantized: Sequence[Quantization | None]

    def has(self, index: int) -> bool:
        """Whether operand `index` is present."""
        return index < len(self.operands) and self.operands[index] is not None

    def option(self, name: str, default: Any = 0) -> Any:
        """Return an option; `default` if it is absent."""
        value = self.options.get(name)
        return default if value is None else value


@dataclass(slots=True)
class Operator(FileNode["Value"]):
    """An operator during import."""

    b: Builder
    results: Sequence[Quantization | None]
    types: Sequence[DType | None]
    is_raw: bool = False
    has_long_factor: bool = False
    """Whether the kernel multiplies 64-bit sums by a 31-bit factor; other kernels use 15 bits."""

    @property
    def count(self) -> int:
        """Number of operands."""
        return len(self.operands)

    @property
    def result(self) -> Quantization | None:
        """Quantization parameters of the first result."""
        return self.results[0] if self.results else None

    def raw(self, index: int) -> Value:
        """Return operand `index` as stored.

        Raises:
            ShapeError: it is absent.
        """
        value = self.operands[index] if index < len(self.operands) else None
        if value is None:
            message = f"missing operand {index}"
            raise ShapeError(message)
        return value

    def quantization(self, index: int) -> Quantization | None:
        """Return the quantization parameters of operand `index`."""
        return self.quantized[index] if index < len(self.quantized) else None

    def __getitem__(self, index: int) -> Value:
        """Return operand `index` as floats; as stored for rules that only move data."""
        if self.is_raw:
            return self.raw(index)
        value, quantization = self._widened_operand(index)
        return value if quantization is None else dequantized(self.b, value, quantization)

    def bias(self, index: int, x: int = 0) -> Value | None:
        """Return the bias, operand `index`, of the product of operands `x` and 1, if it is present.

        Kernels add the stored integers to integer sums: the scale that the file declares for the bias is ignored.
        """
        if not self.has(index):
            return None
        quantization, left, right = self.quantization(index), self.quantization(x), self.quantization(1)
        if quantization is None or left is None or right is None or quantization[0] not in (DType.INT32, DType.INT64):
            return self[index]
        steps = tuple(left[2][0] * step for step in self._multiplied(right[2]))
        zeros = (0,) * len(steps)
        return dequantized(self.b, self.raw(index), (quantization[0], 0 if len(steps) > 1 else -1, steps, zeros))

    def _widened_operand(self, index: int) -> tuple[Value, Quantization | None]:
        """Return operand `index` as stored; weights of fewer bits than ONNX runtimes support as int8.

        The runtimes support int4 weights with float activations only, and no int2.
        """
        value, quantization = self.raw(index), self.quantization(index)
        if quantization is None or value.storage is None or quantization[0] not in (DType.INT4, DType.INT2):
            return value, quantization
        if quantization[0] is DType.INT4 and self.quantization(0) is None:
            return value, quantization
        return self.widened(index), (DType.INT8, *quantization[1:])

    def widened(self, index: int) -> Value:
        """Return operand `index` as stored, as int8 if it is a constant of fewer bits."""
        value = self.raw(index)
        if value.storage is None or dtype_of(value) not in (DType.INT4, DType.INT2):
            return value
        return self.b.constant(value.storage.numpy().astype(np.int8), DType.INT8)

    def all(self, start: int = 0) -> list[Value]:
        """Return all operands from `start` on.

        Raises:
            ShapeError: there is none.
        """
        self.raw(start)
        return [self[index] for index in range(start, self.count)]

    def weight(self, index: int, perm: Sequence[int], *, is_symmetric: bool = False) -> Value:
        """Return operand `index` with permuted axes: the stored integers are transposed, then dequantized.

        Zero points of `is_symmetric` weights are ignored, as hybrid kernels do.
        """
        value, quantization = self._widened_operand(index)
        moved = transposed(self.b, value, perm)
        if quantization is None:
            dtype = dtype_of(moved)
            return moved if dtype is not DType.FLOAT16 else cast(self.b, moved, DType.FLOAT32)
        dtype, axis, scales, zeros = quantization
        zeros = (0,) * len(zeros) if is_symmetric else zeros
        scales = self._multiplied(scales)
        return dequantized(self.b, moved, (dtype, perm.index(axis) if axis >= 0 else axis, scales, zeros))

    def _multiplied(self, scales: tuple[float, ...]) -> tuple[float, ...]:
        """Return weight scales for int16 kernels with 64-bit sums, which round the combined multiplier to 15 bits."""
        x, y = self._short(), self.result
        if x is None or y is None or y[0] is not DType.INT16 or self.has_long_factor or self._has_short_bias():
            return scales
        return tuple((in_fifteen_bits(x * np.array(scales) / y[2][0]) * y[2][0] / x).tolist())

    def _short(self) -> float | None:
        """Return the scale of the int16 activation of a product (operand 0 or 2); `None` for other types."""
        quantization = self.quantization(0) or self.quantization(2)
        return quantization[2][0] if quantization is not None and quantization[0] is DType.INT16 else None

    def _has_short_bias(self) -> bool:
        return any(each is not None and each[0] is DType.INT32 for each in self.quantized[2:])

    def dims(self, index: int, rank: int | None = None, *, at_least: int = 0) -> tuple[Dim, ...]:
        """Return the shape of operand `index`, which must have `rank` dims or `at_least` that many."""
        return self.b.dims(self.raw(index), rank, at_least=at_least)

    def type_of(self, index: int) -> DType | None:
        """Return the declared dtype of result `index`; `None` if the node does not have it."""
        return self.types[index] if index < len(self.types) else None

    def stored(self, value: Value, activation: int, quantization: Quantization | None) -> Value:
        """Apply the fused activation to a result and quantize it."""
        return quantized_as(self.b, activated(self.b, value, activation), quantization)

    def positive(self, *names: str) -> tuple[int, ...]:
        """Return options that are positive integers.

        Raises:
            ShapeError: an option is below 1.
        """
        found = tuple(int(self.option(name)) for name in names)
        for name, number in zip(names, found, strict=True):
            if number < 1:
                message = f"{name} is {number}"
                raise ShapeError(message, "it must be at least 1")
        return found


def import_rule(
    *names: str,
    moves: bool | Sequence[int] = False,
    is_raw: bool | DType = False,
    has_states: bool = False,
    is_even: bool = False,
    layout: str = "",
) -> Callable[[Rule], Rule]:
    """Register the import rule of builtin operators.

    Args:
        names: the operator, or several with the same rule.
        moves: the operator only moves data: if these operands (the first, if `True`) and the results have equal
            quantization parameters or one storage type, the stored integers are moved. Kernels ignore scales.
        is_raw: the rule receives and returns stored integers; of an element type: only if operand 0 has that type.
        layout: `any` if the operator is element-wise; otherwise how it identifies axes: `axis` by that option alone,
            `picks` by the axis of operand 0, `axes` by the elements of operand 1, `rows` by one element per axis in all
            other operands, `strides` likewise with bit masks, `parts by 0` and `parts by 2` by that operand,
                along which
            operand 1 or 0 is split.
        is_even: the kernel computes on the stored integers: operands are dequantized with the parameters of the result.
        has_states: the rule applies the activation itself, and returns the next states of operands after the results.
    """
    if layout:
        LAYOUTS.update(dict.fromkeys(names, layout))

    def register(rule: Rule) -> Rule:
        @wraps(rule)
        def lowered(
            b: Builder,
            *operands: Value | None,
            quantized: Sequence[Quantization | None] = (),
            quantized_results: Sequence[Quantization | None] = (),
            types: Sequence[DType | None] = (),
            states: Sequence[int] = (),
            **options: Any,
        ) -> Any:
            result_quantization = quantized_results[0] if is_even and quantized_results else None
            if result_quantization is not None:
                quantized = [
                    result_quantization if each is not None and each[0] is result_quantization[0] else each
                    for each in quantized
                ]
            op = Operator(operands, options, quantized, b, quantized_results, types)
            _check_element_types(op)
            is_stored = dtype_of(op.raw(0)) is is_raw if isinstance(is_raw, DType) else is_raw
            op.is_raw = is_stored or (moves is not False and _moves_stored_integers(op, _moved(moves, op.count)))
            answer = rule(op)
            results = list(answer) if is_sequence(answer) else [answer]
            if op.is_raw:
                return results
            activation = 0 if has_states else op.option("fused_activation_function")
            stored = [*(_at(op.results, index) for index in range(len(types))), *map(op.quantization, states)]
            return [
                None if value is None else op.stored(value, activation, _at(stored, index))
                for index, value in enumerate(results)
            ]

        for name in names:
            lower(DIALECT, name)(lowered)
        return rule

    return register


def _check_element_types(op: Operator) -> None:
    """Reject complex operands, which no ONNX runtime supports, and custom operators without tensor types.

    Raises:
        UnsupportedError: an operand or a result is complex, or has no element type.
    """
    dtypes: Sequence[Any] = op.types
    if any(each is not None and not isinstance(each, DType) for each in dtypes):
        message = "the attribute types contains integers, expected element types"
        raise UnsupportedError(message)
    facts = [value.fact for value in op.operands if value is not None]
    for dtype in (*op.types, *(fact.dtype for fact in facts if isinstance(fact, TensorFact))):
        if dtype is not None and dtype.kind == "c":
            message = f"elements of type {dtype} are not supported"
            raise UnsupportedError(message)


def _moves_stored_integers(op: Operator, indices: Sequence[int]) -> bool:
    """Whether stored integers are moved, regardless of their quantization parameters."""
    stored = {dtype_of(op.raw(place)) for place in indices if op.has(place)}
    return has_equal_qparams(op, indices) or (bool(stored) and stored == set(op.types[:1]))


def has_equal_qparams(op: Operator, indices: Sequence[int]) -> bool:
    """Whether the operands `indices` and all results have equal quantization parameters, or integers without any."""
    sides = [(op.quantization(place), dtype_of(op.raw(place))) for place in indices if op.has(place)]
    sides += list(zip(op.results, op.types, strict=False))
    known = {quantization for quantization, _ in sides if quantization is not None}
    if len(known) > 1 or not sides:
        return False
    return all(
        quantization in known or not known or any(dtype is each[0] for each in known) for quantization, dtype in sides
    )


def _moved(moves: bool | Sequence[int], count: int) -> Sequence[int]:
    if moves is True:
        return (0,)
    return moves if not isinstance(moves, bool) and moves else range(count)


def _at(items: Sequence[Quantization | None], index: int) -> Quantization | None:
    return items[index] if index < len(items) else None


def dequantized(b: Builder, value: Value, quantization: Quantization) -> Value:
    """Dequantize a stored value."""
    dtype, axis, scales, zeros = quantization
    scale = np.array(scales if axis >= 0 else scales[0], np.float32)
    if dtype not in _QUANTIZED and not (dtype is DType.INT32 and not any(zeros)):
        return _multiplied(b, value, scale, axis, zeros)
    operands = [value, b.constant(scale)]
    if any(zeros):
        operands.append(b.constant(np.array(zeros if axis >= 0 else zeros[0]).astype(dtype.numpy), dtype))
    elif dtype is not DType.INT32:
        operands.append(b.constant(np.zeros(scale.shape).astype(dtype.numpy), dtype))
    return b(DequantizeLinear, *operands, axis=axis if axis >= 0 else None)


def _multiplied(b: Builder, value: Value, scale: np.ndarray[Any, Any], axis: int, zeros: Sequence[int]) -> Value:
    """Dequantize integers of types that DequantizeLinear does not support."""
    if any(zeros):
        value = b(Sub, value, b.like(value, np.array(zeros[0])))
    if axis >= 0:
        scale = scale.reshape(-1, *[1] * (len(b.dims(value)) - axis - 1))
    return b(Mul, cast(b, value, DType.FLOAT32), b.constant(scale))


def quantized_as(b: Builder, value: Value, quantization: Quantization | None) -> Value:
    """Quantize floats."""
    if quantization is None:
        return value
    dtype, axis, scales, zeros = quantization
    scale = np.array(scales if axis >= 0 else scales[0], np.float32)
    if dtype not in _QUANTIZED:
        rounded = b(Round, b(Mul, value, b.constant(np.float32(1) / scale)))
        return b(Add, cast(b, rounded, dtype), zeros[0]) if any(zeros) else cast(b, rounded, dtype)
    zero = b.constant(np.array(zeros if axis >= 0 else zeros[0]).astype(dtype.numpy), dtype)
    return b(QuantizeLinear, value, b.constant(scale), zero, axis=axis if axis >= 0 else None)


def activated(b: Builder, value: Value, activation: int) -> Value:
    """Apply the fused activation of an operator.

    LiteRT's kernels clamp; they silently ignore other activations (TANH, SIGN_BIT).
    """
    if activation == RELU:
        return b(Relu, value) if dtype_of(value).is_floating else b(Max, value, 0)
    bounds = _BOUNDS.get(activation)
    if bounds is None:
        return value
    return b(Clip, value, b.like(value, bounds[0]), b.like(value, bounds[1]))


def to_channels_first(b: Builder, x: Value) -> Value:
    """Transpose from channels-last to channels-first."""
    return transposed(b, x, (0, len(b.dims(x)) - 1, *range(1, len(b.dims(x)) - 1)))


def to_channels_last(b: Builder, x: Value) -> Value:
    """Transpose from channels-first to channels-last."""
    return transposed(b, x, (0, *range(2, len(b.dims(x))), 1))


def pads_of(
    op: Operator, dims: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> dict[str, Any]:
    """Return the padding of a window over `dims` as ONNX attributes: explicit pads if the sizes are static.

    Raises:
        ShapeError: the window exceeds its input, or has another number of axes.
    """
    if len(dims) != len(kernel):
        message = f"the window {list(kernel)} has {len(kernel)} axes, the operand has {len(dims)} spatial axes"
        raise ShapeError(message)
    if op.option("padding") != 0:
        for n, k, d in zip(dims, kernel, dilations, strict=True):
            if isinstance(n, int) and n < (k - 1) * d + 1:
                message = f"a window of {(k - 1) * d + 1} exceeds the input size {n}"
                raise ShapeError(message)
        return {}
    pads = [same_pads(*each, "SAME_UPPER") for each in zip(dims, kernel, strides, dilations, strict=True)]
    flat_pads = [side for pair in zip(*pads, strict=True) for side in pair]
    if not all(isinstance(side, int) for side in flat_pads):
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": tuple(flat_pads)} if any(flat_pads) else {}


def nearest(dtype: DType, types: Collection[DType]) -> DType:
    """Return `dtype` if it is in `types`, else float32 for floats and int32 for integers."""
    return dtype if dtype in types else DType.FLOAT32 if dtype.is_floating else DType.INT32
