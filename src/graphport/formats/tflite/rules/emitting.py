"""What liftings to TFLite have in common: its words with their facts, and constants as it wants them."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import kept
from graphport.ops import registry
from graphport.ops.declare import Page, UnsupportedError
from graphport.ops.folded import Computed
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, integers
from graphport.ops.pages.arithmetic.cast import Cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.view import View

NUMBERS = frozenset((DType.FLOAT32, DType.INT32, DType.INT64))
"""Types that most kernels compute."""
_LARGEST = (1 << 31) - 1
_MOST_TRANSPOSED = 1 << 20
"""Bytes of a constant whose axes are put into another order at once; of a larger one when it is read."""


def ints(b: Builder, numbers: Sequence[int] | Sequence[Sequence[int]] | int) -> Value:
    """A constant of int32; what is larger becomes the largest, as ends of slices are.

    Raises:
        UnsupportedError: a number is less than all of int32.
    """
    return b.constant(np.clip(np.array(numbers, np.int64), -_LARGEST, _LARGEST).astype(np.int32))


def zeros(b: Builder, *extents: int) -> Value:
    """A constant of real zeros.

    Raises:
        OverBudgetError: they are more than a rule may make up.
    """
    return b.constant(np.zeros(bounded(extents), np.float32))


def in_int32(b: Builder, value: Value) -> Value:
    """Indices or extents in int32; of a constant, a constant."""
    if dtype_of(value) is DType.INT32:
        return value
    numbers = integers(value)
    if numbers is not None:
        shape = [n for n in b.dims(value) if isinstance(n, int)]
        return ints(b, np.array(numbers, np.int64).reshape(shape).tolist())
    return cast_to(b, value, DType.INT32)


def cast_to(b: Builder, value: Value, dtype: DType) -> Value:
    """A value in an element type; itself if it has that."""
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
"""Integers with a sign of as many bits: what moves these alone moves numbers of other types, too."""


def in_bits(b: Builder, value: Value, lacking: Collection[DType]) -> Value:
    """The bits of a value as integers, where its type is one of those that a kernel is lacking for."""
    own = dtype_of(value)
    if own not in lacking:
        return value
    array = array_of(value)
    if array is not None:
        return b.constant(np.ascontiguousarray(array).view(_BITS[own].numpy).reshape(array.shape))
    return emit(b, "BITCAST", value, types=(_BITS[own],))


def from_bits(b: Builder, value: Value, dtype: DType) -> Value:
    """What `in_bits` was given a value of `dtype` for, out of what was computed of it."""
    return value if dtype_of(value) is dtype else emit(b, "BITCAST", value, types=(dtype,))


def _through_long(b: Builder, value: Value, dtype: DType) -> Value:
    """From or to uint64, which has no kernel, as the integers of as many bits that have a sign."""
    own = dtype_of(value)
    reals = [each for each in (own, dtype) if not (each.is_integer or each is DType.BOOL)]
    if reals and reals[0].bits > DType.FLOAT32.bits:
        message = f"no kernel casts {own} to {dtype}"
        raise UnsupportedError(message)
    if own is DType.UINT64:
        long = emit(b, "BITCAST", value, types=(DType.INT64,))
        return cast_to(b, _as_real(b, long) if reals else long, dtype)
    long = _from_real(b, cast_to(b, value, DType.FLOAT32)) if reals else cast_to(b, value, DType.INT64)
    return emit(b, "BITCAST", long, types=(dtype,))


_HIGHEST = float(1 << 63)


def _as_real(b: Builder, x: Value) -> Value:
    """64 bits without a sign, given as int64, in float32.

    Of a number with the highest bit, twice its half: what is shifted out stays in the last bit, so that the half is
    rounded to the side that the whole is.
    """
    parts = b.word("BITCAST", x, facts=[TensorFact(DType.UINT32, (*b.dims(x), 2))], types=(DType.UINT32,))[0]
    parts = cast_to(b, parts, DType.INT64)
    low, high = (emit(b, "GATHER", parts, ints(b, place), axis=len(b.dims(x))) for place in (0, 1))
    odd = emit(b, "FLOOR_MOD", low, b.like(low, 2))
    half = emit(b, "ADD", emit(b, "MUL", high, b.like(high, 1 << 31)), _half(b, emit(b, "SUB", low, odd)))
    sticky = emit(b, "SUB", odd, emit(b, "MUL", odd, emit(b, "FLOOR_MOD", half, b.like(half, 2))))
    large = emit(b, "MUL", cast_to(b, emit(b, "ADD", half, sticky), DType.FLOAT32), 2.0)
    return emit(b, "SELECT_V2", emit(b, "LESS", x, b.like(x, 0)), large, cast_to(b, x, DType.FLOAT32))


def _half(b: Builder, x: Value) -> Value:
    """Half of what has 32 bits, in int64."""
    bits = emit(b, "CAST", x, types=(DType.UINT32,))
    return cast_to(b, emit(b, "RIGHT_SHIFT", bits, b.like(bits, 1)), DType.INT64)


def _from_real(b: Builder, x: Value) -> Value:
    """A real number as the 64 bits of an integer without a sign, given as int64."""
    above = cast_to(b, emit(b, "SUB", x, _HIGHEST), DType.INT64)
    wrapped_ = emit(b, "ADD", above, b.constant(np.iinfo(np.int64).min, DType.INT64))
    return emit(b, "SELECT_V2", emit(b, "LESS", x, _HIGHEST), cast_to(b, x, DType.INT64), wrapped_)


_WIDER = {
    **dict.fromkeys((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16), (DType.INT32,)),
    DType.UINT32: (DType.INT64,),
    DType.INT32: (DType.INT64,),
    **dict.fromkeys((DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64), (DType.FLOAT32,)),
}
"""In which type kernels compute what they do not compute in another one; there are next to none for float64."""


def computed_in(
    b: Builder,
    types: Collection[DType],
    word: str,
    /,
    *operands: Value,
    beside: Sequence[Value] = (),
    **attributes: Attribute,
) -> Value:
    """A word of operands of one element type, computed in the nearest type for which there are kernels.

    Behind them stand the operands `beside`, which are of other types.

    Raises:
        UnsupportedError: there are none.
    """
    own = dtype_of(operands[0])
    if own is DType.UINT64 and DType.INT64 in types and not beside and word in _LONG:
        return _in_long(b, word, operands, attributes)
    wide = own if own in types else next((each for each in _WIDER.get(own, ()) if each in types), None)
    if wide is None:
        message = f"no kernel computes {word} of {own}"
        raise UnsupportedError(message)
    y = emit(b, word, *(cast_to(b, x, wide) for x in operands), *beside, **attributes)
    return cast_to(b, y, own) if dtype_of(y) is wide else y


_SUMS, _ORDERS = ("ADD", "SUB", "MUL"), ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "MAXIMUM", "MINIMUM")
_LONG = frozenset((*_SUMS, *_ORDERS, "EQUAL"))
"""What of uint64 is computed as of int64: bits of sums and products are the same, and with the highest one turned so is
order."""


def _in_long(b: Builder, word: str, operands: Sequence[Value], attributes: dict[str, Attribute]) -> Value:
    given = [cast_to(b, x, DType.INT64) for x in operands]
    least = b.constant(np.iinfo(np.int64).min, DType.INT64) if word in _ORDERS else None
    y = emit(b, word, *(x if least is None else emit(b, "ADD", x, least) for x in given), **attributes)
    if dtype_of(y) is not DType.INT64:
        return y
    return cast_to(b, y if least is None else emit(b, "ADD", y, least), DType.UINT64)


def _constant_of(value: Value | None) -> Storage | None:
    """What is stored of a constant, or of one in another element type."""
    maker = None if value is None else value.producer
    source = maker.operands[0] if maker is not None and maker.word in ("CAST", "Cast") else value
    return source.storage if source is not None and source.is_constant else None


def is_known(value: Value | None) -> bool:
    """Whether `array_of` has its numbers, of which it computes none."""
    return _constant_of(value) is not None


def array_of(value: Value | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a constant, which may be one in another element type; `None` of anything else."""
    storage = _constant_of(value)
    if value is None or storage is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return storage.numpy() if storage is value.storage else storage.numpy().astype(dtype_of(value).numpy)


def needed_array(value: Value | None, what: str) -> np.ndarray[Any, Any]:
    """The numbers of a constant.

    Raises:
        UnsupportedError: it is computed.
    """
    found = array_of(value)
    if found is None:
        message = f"{what} must be constant"
        raise UnsupportedError(message)
    return found


def transposed_constant(b: Builder, value: Value, perm: Sequence[int]) -> Value:
    """A value with its axes in another order; a constant stays one."""
    if list(perm) == list(range(len(perm))):
        return value
    storage = _constant_of(value)
    if storage is None:
        return emit(b, "TRANSPOSE", value, ints(b, list(perm)))
    if storage is value.storage and storage.nbytes > _MOST_TRANSPOSED:
        # Who asks whether a network can be written does not want its weights in memory, and a writer one by one.
        shape = tuple(storage.shape[axis] for axis in perm)
        turn = partial(np.transpose, axes=tuple(perm))
        return b.constant(Computed(turn, (storage,), storage.dtype, shape), name=value.name)
    array = needed_array(value, "the operand")
    return b.constant(kept(np.ascontiguousarray(array.transpose(perm)), dtype_of(value)), name=value.name)


def shaped(b: Builder, value: Value, dims: Sequence[Dim]) -> Value:
    """A value in another shape, of which one extent may be open.

    Raises:
        UnsupportedError: more are.
    """
    numbers = [n if isinstance(n, int) else -1 for n in dims]
    if numbers.count(-1) > 1:
        message = "the shape must be known"
        raise UnsupportedError(message)
    constant = b.reshaped(value, numbers) if -1 not in numbers else None
    return constant or emit(b, "RESHAPE", value, ints(b, numbers))


def lengths_of(b: Builder, value: Value) -> Value:
    """The shape of a value as int32, where the file computes it."""
    return emit(b, "SHAPE", value, out_type=2, types=(DType.INT32,))


def extent(b: Builder, value: Value, axis: int) -> int | Value:
    """How long an axis is: a number, or int32 of rank 0 where that is open."""
    n = b.dims(value)[axis]
    return n if isinstance(n, int) else emit(b, "GATHER", lengths_of(b, value), ints(b, axis), axis=0)


def wrapped(b: Builder, indices: Value, n: int | Value) -> Value:
    """Indices counted from the front, along an axis as long as `n`."""
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


def lift_reals(of: Page | type[View[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how an operator, by its page or view, is lifted that is computed in float32 for other reals.

    The rule does not see these, but where more than one result is wanted.
    """
    page, view = (of, None) if isinstance(of, Page) else (registry.pages()[of.operator], cast("Any", of))

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        @page.lift("tflite")
        @wraps(rule)
        def lifted(b: Builder, first: Value, *others: Value | None, **attributes: Any) -> Any:
            if b.count == 1 and is_other_real(first):
                return in_single(b, page, first, *others, **attributes)
            given = (first, *others)
            return rule(b, *given, **attributes) if view is None else rule(b, view(*given, **attributes))

        del lifted
        return rule

    return register


def in_single(b: Builder, page: Page, first: Value, *others: Value | None, **attributes: Any) -> Value:
    """An operator of halves or float64 computed in float32, and given in the type of its first operand.

    Results that are no reals, truths say, stay as they are, and so do stored halves.
    """
    own = dtype_of(first)
    wide = [x if x is None or dtype_of(x) is not own else _in_float32(b, x) for x in (first, *others)]
    y = b(page, *wide, **attributes)
    return cast_to(b, y, own) if dtype_of(y) is DType.FLOAT32 else y


def _in_float32(b: Builder, x: Value) -> Value:
    return b(Cast, x, to=DType.FLOAT32) if dtype_of(x) is DType.FLOAT16 else cast_to(b, x, DType.FLOAT32)


def is_other_real(value: Value) -> bool:
    """Whether it is of halves or float64, for which kernels are few."""
    return dtype_of(value) in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)
