"""Random bits by the counter-based generators Threefry and Philox, equal to XLA's.

Source: J. Salmon et al., SC 2011 (Random123).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import TensorType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.elementwise import SIGNED, UNSIGNED
from graphport.formats.stablehlo.rules.emitter import Emitter, rule

if TYPE_CHECKING:
    from graphport.formats.stablehlo.program import Operation
    from graphport.formats.stablehlo.rules.values import Held
    from graphport.ir.graph import Value

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY = 0x1BD11BDA
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10


def _halves(e: Emitter, x: Value) -> tuple[Value, Value]:
    """The low and the high 32 bits of uint64 elements."""
    high = e("BitShift", x, e.constant(32, DType.UINT64), direction="RIGHT")
    low = e("BitwiseAnd", x, e.constant(0xFFFFFFFF, DType.UINT64))
    return e.cast(low, DType.UINT32), e.cast(high, DType.UINT32)


def _joined(e: Emitter, low: Value, high: Value) -> Value:
    """uint64 elements of their low and high 32 bits."""
    shifted = e("BitShift", e.cast(high, DType.UINT64), e.constant(32, DType.UINT64), direction="LEFT")
    return e("BitwiseOr", e.cast(low, DType.UINT64), shifted)


def _count(e: Emitter, length: int) -> Value:
    """[0, 1, ..., length - 1] as uint64."""
    return e.cast(e("Range", e.constant(0, DType.INT64), length, 1), DType.UINT64)


def threefry(e: Emitter, counter: Value, key: Value) -> tuple[Value, Value]:
    """The two uint32 results of Threefry-2x32 with 20 rounds, for uint64 counters."""
    k0, k1 = _halves(e, key)
    parity = e.constant(_THREEFRY_PARITY, DType.UINT32)
    keys = (k0, k1, e("BitwiseXor", e("BitwiseXor", k0, k1), parity))
    low, high = _halves(e, counter)
    a, b = e("Add", low, keys[0]), e("Add", high, keys[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            a = e("Add", a, b)
            left = e("BitShift", b, e.constant(distance, DType.UINT32), direction="LEFT")
            right = e("BitShift", b, e.constant(32 - distance, DType.UINT32), direction="RIGHT")
            b = e("BitwiseXor", a, e("BitwiseOr", left, right))
        a = e("Add", a, keys[(group + 1) % 3])
        b = e("Add", e("Add", b, keys[(group + 2) % 3]), e.constant(group + 1, DType.UINT32))
    return a, b


def philox(e: Emitter, counter: tuple[Value, ...], key: Value) -> list[Value]:
    """The four uint32 results of Philox-4x32 with 10 rounds."""
    x = list(counter)
    k = list(_halves(e, key))
    for _ in range(_PHILOX_ROUNDS):
        low0, high0 = _product(e, x[0], _PHILOX_MULTIPLIERS[0])
        low1, high1 = _product(e, x[2], _PHILOX_MULTIPLIERS[1])
        first, third = (e("BitwiseXor", v, key) for v, key in ((x[1], k[0]), (x[3], k[1])))
        x = [e("BitwiseXor", high1, first), low1, e("BitwiseXor", high0, third), low0]
        k = [e("Add", v, e.constant(step, DType.UINT32)) for v, step in zip(k, _PHILOX_KEY_STEPS, strict=True)]
    return x


def _product(e: Emitter, x: Value, factor: int) -> tuple[Value, Value]:
    return _halves(e, e("Mul", e.cast(x, DType.UINT64), e.constant(factor, DType.UINT64)))


@rule("rng_bit_generator")
def rng_bit_generator(e: Emitter, op: Operation, state: Value) -> list[Held]:
    """Random bits and the state after them."""
    algorithm = str(op.attributes.get("rng_algorithm"))
    type: Any = op.result_types[-1]
    if algorithm not in ("THREE_FRY", "PHILOX"):
        refuse(
            "SH0006",
            f"unsupported: rng_bit_generator with the algorithm {algorithm}, which each device implements differently",
            help="use jax.random keys of threefry2x32, or RandomAlgorithm.RNG_THREE_FRY or RNG_PHILOX",
        )
    if not isinstance(type, TensorType) or None in type.shape or not type.dtype.is_integer or type.dtype.bits < 8:
        refuse("SH0006", f"unsupported: rng_bit_generator of {type}")
    if state.dtype is not DType.UINT64 or e.dims(state) not in ((2,), (3,)):
        refuse("SH0006", "unsupported: rng_bit_generator with a state other than two or three ui64")
    dims = [dim for dim in type.shape if dim is not None]
    make = _threefry_bits if algorithm == "THREE_FRY" else _philox_bits
    after, bits = make(e, state, dims, is_wide=type.dtype.bits == 64)
    bits = e.cast(bits, UNSIGNED.get(type.dtype, type.dtype))
    return [after, e("BitCast", bits, to=type.dtype) if type.dtype in SIGNED.values() else bits]


def _state_word(e: Emitter, state: Value, index: int) -> Value:
    return e.slice(state, 0, index, index + 1)


def _threefry_bits(e: Emitter, state: Value, dims: list[int], *, is_wide: bool) -> tuple[Value, Value]:
    """The state after it, and uint32 or uint64 bits; uint32 pairs alternate along the first even axis."""
    key, counter = _state_word(e, state, 0), _state_word(e, state, 1)
    if is_wide:
        count = prod(dims)
        low, high = threefry(e, e("Add", _count(e, count), counter), key)
        bits = e.reshape(_joined(e, low, high), dims)
    else:
        sizes = dims or [1]
        axis = next((k for k, dim in enumerate(sizes) if dim % 2 == 0), sizes.index(max(sizes)))
        half = [*sizes[:axis], (sizes[axis] + 1) // 2, 1, *sizes[axis + 1 :]]
        count = prod(half)
        pair = threefry(e, e("Add", _count(e, count), counter), key)
        joined = e("Concat", *[e.reshape(x, half) for x in pair], axis=axis + 1)
        whole = [*sizes[:axis], 2 * half[axis], *sizes[axis + 1 :]]
        bits = e.reshape(e.slice(e.reshape(joined, whole), axis, 0, sizes[axis]), dims)
    after = e("Add", counter, e.constant(count, DType.UINT64))
    return e("Concat", key, after, axis=0), bits


def _philox_bits(e: Emitter, state: Value, dims: list[int], *, is_wide: bool) -> tuple[Value, Value]:
    """The state after it, and uint32 or uint64 bits, in the order of the results of each counter.

    The high half of the counter is the key if the state has no third element, as in XLA's RngBitGeneratorExpander.
    """
    key, low = _state_word(e, state, 0), _state_word(e, state, 1)
    has_high = e.dims(state) == (3,)
    high = _state_word(e, state, 2) if has_high else key
    count = prod(dims)
    blocks = (count * (2 if is_wide else 1) + 3) // 4
    lows, highs = _added(e, low, high, _count(e, blocks))
    x = philox(e, (*_halves(e, lows), *_halves(e, highs)), key)
    parts = [_joined(e, x[0], x[1]), _joined(e, x[2], x[3])] if is_wide else x
    joined = e("Concat", *[e.unsqueeze(words, 1) for words in parts], axis=1)
    bits = e.reshape(e.slice(e.reshape(joined, [blocks * len(parts)]), 0, 0, count), dims)
    after = _added(e, low, high, e.constant([blocks], DType.UINT64))
    return e("Concat", key, *(after if has_high else after[:1]), axis=0), bits


def _added(e: Emitter, low: Value, high: Value, step: Value) -> tuple[Value, Value]:
    """Add uint64 integers to the 128-bit integer (low, high)."""
    total = e("Add", low, step)
    carries = e("Less", total, low)
    return total, e("Where", carries, e("Add", high, e.constant(1, DType.UINT64)), high)
