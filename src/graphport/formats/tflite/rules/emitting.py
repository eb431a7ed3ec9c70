"""Shared parts of export rules to TFLite: emitting operators with facts, and constants."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.formats.tflite.rules.computed_sizes import ints, lengths_of, size_vector
from graphport.ops import registry
from graphport.ops.constant_folding import Computed
from graphport.ops.declare import OpDef, UnsupportedError
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, integers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.view import View

NUMERIC_TYPES = frozenset((DType.FLOAT32, DType.INT32, DType.INT64))
"""Element types that most kernels support."""
_MAX_TRANSPOSED_BYTES = 1 << 20
"""Maximum bytes of a constant that is transposed at once; larger ones are transposed when they are read."""


def zeros(b: Builder, *extents: int) -> Value:
    """Create a float constant of zeros.

    Raises:
        OverBudgetError: its size exceeds the limit for constants created by a rule.
    """
    return b.constant(np.zeros(bounded(extents), np.float32))


def in_int32(b: Builder, value: Value) -> Value:
    """Cast indices or sizes to int32; constants stay constants."""
    if dtype_of(value) is DType.INT32:
        return value
    numbers = integers(value)
    if numbers is not None:
        shape = [n for n in b.dims(value) if isinstance(n, int)]
        return ints(b, np.array(numbers, np.int64).reshape(shape).tolist())
    return cast_to(b, value, DType.INT32)


def cast_to(b: Builder, value: Value, dtype: DType) -> Value:
    """Cast a value to an element type; return it unchanged if it has that type."""
    if dtype_of(value) is dtype:
        return value
    array = array_of(value)
    if array is None:
        is_long = DType.UINT64 in (dtype, dtype_of(value))
        return _through_long(b, value, dtype) if is_long else emit(b, "CAST", value, types=(dtype,))
    with np.errstate(over="ignore", invalid="ignore"):
        return b.constant(array.astype(dtype.numpy), dtype)


_BITS = {
    **dict.fromkeys((DType.FLOAT64, DType.UINT64), DType.INT64),
    DType.UINT32: DType.INT32,
    DType.UINT16: DType.INT16,
}
"""Signed integer types by size: moving their bits moves elements of other types, too."""


def in_bits(b: Builder, value: Value, lacking: Collection[DType]) -> Value:
    """Reinterpret a value as integers if its type has no kernel."""
    own = dtype_of(value)
    if own not in lacking:
        return value
    array = array_of(value)
    if array is not None:
        return b.constant(np.ascontiguousarray(array).view(_BITS[own].numpy).reshape(array.shape))
    return emit(b, "BITCAST", value, types=(_BITS[own],))


def from_bits(b: Builder, value: Value, dtype: DType) -> Value:
    """Reinterpret the result of a computation on `in_bits` as `dtype`."""
    return value if dtype_of(value) is dtype else emit(b, "BITCAST", value, types=(dtype,))


def _through_long(b: Builder, value: Value, dtype: DType) -> Value:
    """Cast from or to uint64, which has no kernel, by way of int64."""
    own = dtype_of(value)
    reals = [each for each in (own, dtype) if not (each.is_integer or each is DType.BOOL)]
    if reals and reals[0].bits > DType.FLOAT32.bits:
        message = f"LiteRT has no kernel that casts {own} to {dtype}"
        raise UnsupportedError(message)
    if own is DType.UINT64:
        long = emit(b, "BITCAST", value, types=(DType.INT64,))
        return cast_to(b, _uint64_to_float(b, long) if reals else long, dtype)
    long = _float_to_uint64(b, cast_to(b, value, DType.FLOAT32)) if reals else cast_to(b, value, DType.INT64)
    return emit(b, "BITCAST", long, types=(dtype,))


_HIGHEST = float(1 << 63)


def _uint64_to_float(b: Builder, x: Value) -> Value:
    """Convert unsigned 64-bit integers, stored as int64, to float32.

    Values with the highest bit set are halved, converted and doubled; the lost bit is merged into the last bit so that
    rounding is correct.
    """
    parts = b.emit("BITCAST", x, facts=[TensorFact(DType.UINT32, (*b.dims(x), 2))], types=(DType.UINT32,))[0]
    parts = cast_to(b, parts, DType.INT64)
    low, high = (emit(b, "GATHER", parts, ints(b, place), axis=len(b.dims(x))) for place in (0, 1))
    odd = emit(b, "FLOOR_MOD", low, b.like(low, 2))
    half = emit(b, "ADD", emit(b, "MUL", high, b.like(high, 1 << 31)), _half(b, emit(b, "SUB", low, odd)))
    sticky = emit(b, "SUB", odd, emit(b, "MUL", odd, emit(b, "FLOOR_MOD", half, b.like(half, 2))))
    large = emit(b, "MUL", cast_to(b, emit(b, "ADD", half, sticky), DType.FLOAT32), 2.0)
    return emit(b, "SELECT_V2", emit(b, "LESS", x, b.like(x, 0)), large, cast_to(b, x, DType.FLOAT32))


def _half(b: Builder, x: Value) -> Value:
    """Return the upper or lower 32 bits as int64."""
    bits = emit(b, "CAST", x, types=(DType.UINT32,))
    return cast_to(b, emit(b, "RIGHT_SHIFT", bits, b.like(bits, 1)), DType.INT64)


def _float_to_uint64(b: Builder, x: Value) -> Value:
    """Convert a float to an unsigned 64-bit integer, stored as int64."""
    above = cast_to(b, emit(b, "SUB", x, _HIGHEST), DType.INT64)
    wrapped_ = emit(b, "ADD", above, b.constant(np.iinfo(np.int64).min, DType.INT64))
    return emit(b, "SELECT_V2", emit(b, "LESS", x, _HIGHEST), cast_to(b, x, DType.INT64), wrapped_)


_COMPUTE_TYPES = {
    **dict.fromkeys((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16), (DType.INT32,)),
    DType.UINT32: (DType.INT64,),
    DType.INT32: (DType.INT64,),
    **dict.fromkeys((DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64), (DType.FLOAT32,)),
}
"""Fallback types of computations: kernels support few types, and hardly any float64."""


def computed_in(
    b: Builder,
    types: Collection[DType],
    op_type: str,
    /,
    *operands: Value,
    beside: Sequence[Value] = (),
    **attributes: Attribute,
) -> Value:
    """Emit an operator on operands of one element type, computed in the nearest type with kernels.

    The operands `beside`, which have other types, follow.

    Raises:
        UnsupportedError: no type has kernels.
    """
    own = dtype_of(operands[0])
    if own is DType.UINT64 and DType.INT64 in types and not beside and op_type in _LONG:
        return _in_long(b, op_type, operands, attributes)
    wide = own if own in types else next((each for each in _COMPUTE_TYPES.get(own, ()) if each in types), None)
    if wide is None:
        message = f"LiteRT has no kernel for {op_type} of {own}"
        raise UnsupportedError(message)
    y = emit(b, op_type, *(cast_to(b, x, wide) for x in operands), *beside, **attributes)
    return cast_to(b, y, own) if dtype_of(y) is wide else y


_SUMS, _ORDERS = ("ADD", "SUB", "MUL"), ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "MAXIMUM", "MINIMUM")
_LONG = frozenset((*_SUMS, *_ORDERS, "EQUAL"))
"""Operators on uint64 that are computed in int64: sums and products have equal bits, and inverting the highest bit
keeps the order.
"""


def _in_long(b: Builder, op_type: str, operands: Sequence[Value], attributes: dict[str, Attribute]) -> Value:
    given = [cast_to(b, x, DType.INT64) for x in operands]
    least = b.constant(np.iinfo(np.int64).min, DType.INT64) if op_type in _ORDERS else None
    y = emit(b, op_type, *(x if least is None else emit(b, "ADD", x, least) for x in given), **attributes)
    if dtype_of(y) is not DType.INT64:
        return y
    return cast_to(b, y if least is None else emit(b, "ADD", y, least), DType.UINT64)


def _constant_of(value: Value | None) -> Storage | None:
    """Return the stored form of a constant, or of a cast constant."""
    maker = None if value is None else value.producer
    source = maker.operands[0] if maker is not None and maker.op_type in ("CAST", "Cast") else value
    return source.storage if source is not None and source.is_constant else None


def is_foldable(value: Value | None) -> bool:
    """Whether `array_of` can return the elements; it does not compute them."""
    return _constant_of(value) is not None


def array_of(value: Value | None) -> np.ndarray[Any, Any] | None:
    """Return the elements of a constant or a cast constant; `None` otherwise."""
    storage = _constant_of(value)
    if value is None or storage is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return storage.numpy() if storage is value.storage else storage.numpy().astype(dtype_of(value).numpy)


def needed_array(value: Value | None, what: str) -> np.ndarray[Any, Any]:
    """Return the elements of a constant.

    Raises:
        UnsupportedError: the value is computed.
    """
    found = array_of(value)
    if found is None:
        message = f"{what} must be constant"
        raise UnsupportedError(message)
    return found


def transposed_constant(b: Builder, value: Value, perm: Sequence[int]) -> Value:
    """Transpose a value; a constant stays a constant."""
    if list(perm) == list(range(len(perm))):
        return value
    storage = _constant_of(value)
    if storage is None:
        return emit(b, "TRANSPOSE", value, ints(b, list(perm)))
    if storage is value.storage and storage.nbytes > _MAX_TRANSPOSED_BYTES:
        # A check needs no weights in memory, and the writer reads them one at a time.
        shape = tuple(storage.shape[axis] for axis in perm)
        turn = partial(np.transpose, axes=tuple(perm))
        return b.constant(Computed(turn, (storage,), storage.dtype, shape), name=value.name)
    array = needed_array(value, "the operand")
    return b.constant(store_array(np.ascontiguousarray(array.transpose(perm)), dtype_of(value)), name=value.name)


def shaped(b: Builder, value: Value, dims: Sequence[Dim]) -> Value:
    """Reshape a value; open sizes are inferred or computed.

    Raises:
        UnsupportedError: several sizes are dynamic, and no input determines one.
    """
    numbers = [n if isinstance(n, int) else -1 for n in dims]
    if numbers.count(-1) > 1:
        return emit(b, "RESHAPE", value, size_vector(b, dims, value))
    constant = b.reshaped(value, numbers) if -1 not in numbers else None
    return constant or emit(b, "RESHAPE", value, ints(b, numbers))


def extent(b: Builder, value: Value, axis: int) -> int | Value:
    """Return the size of an axis: an integer, or an int32 scalar if it is dynamic."""
    dims = b.dims(value)
    n = dims[axis]
    return n if isinstance(n, int) else emit(b, "GATHER", lengths_of(b, value), ints(b, axis % len(dims)), axis=0)


def wrapped(b: Builder, indices: Value, n: int | Value) -> Value:
    """Convert negative indices along an axis of size `n`."""
    numbers = integers(indices)
    if numbers is not None and min(numbers, default=0) >= 0:
        return in_int32(b, indices)
    if numbers is not None and isinstance(n, int):
        array = np.array(numbers).reshape([d for d in b.dims(indices) if isinstance(d, int)])
        return ints(b, np.where(array < 0, array + n, array).tolist())
    int32_indices = in_int32(b, indices)
    is_negative = emit(b, "LESS", int32_indices, ints(b, 0))
    return emit(
        b,
        "SELECT_V2",
        is_negative,
        emit(b, "ADD", int32_indices, ints(b, n) if isinstance(n, int) else n),
        int32_indices,
    )


def export_reals(of: OpDef | type[View[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the export rule of an operator that computes other float types in float32.

    The rule receives float32 operands; with several results it must restore their types itself.
    """
    op_def, view = (of, None) if isinstance(of, OpDef) else (registry.op_defs()[of.operator], cast("Any", of))

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        @op_def.export_rule("tflite")
        @wraps(rule)
        def exported(b: Builder, first: Value, *others: Value | None, **attributes: Any) -> Any:
            if b.count == 1 and is_nonfloat32_float(first):
                return in_single(b, op_def, first, *others, **attributes)
            given = (first, *others)
            return rule(b, *given, **attributes) if view is None else rule(b, view(*given, **attributes))

        del exported
        return rule

    return register


def in_single(b: Builder, op_def: OpDef, first: Value, *others: Value | None, **attributes: Any) -> Value:
    """Compute an operator of float16 or float64 in float32 and cast the result to the type of the first operand.

    Results that are not floats (booleans, for example) and float16 constants are kept.
    """
    own = dtype_of(first)
    wide = [x if x is None or dtype_of(x) is not own else _in_float32(b, x) for x in (first, *others)]
    y = b(op_def, *wide, **attributes)
    return cast_to(b, y, own) if dtype_of(y) is DType.FLOAT32 else y


def _in_float32(b: Builder, x: Value) -> Value:
    return b(Cast, x, to=DType.FLOAT32) if dtype_of(x) is DType.FLOAT16 else cast_to(b, x, DType.FLOAT32)


def is_nonfloat32_float(value: Value) -> bool:
    """Whether a value is float16 or float64, which few kernels support."""
    return dtype_of(value) in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)
