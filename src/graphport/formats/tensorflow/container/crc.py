"""CRC-32C of TensorBundles, of many parts of the data at once with NumPy."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array: TypeAlias = np.ndarray[Any, Any]

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_LANES = 1024
_SMALL = 4096


@cache
def _table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


def masked_crc(data: Array) -> int:
    """The CRC-32C of bytes, masked as LevelDB stores it: rotated right by 15 bits, plus a constant."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & _ONES


def crc32c(data: Array) -> int:
    """The CRC-32C (Castagnoli) of bytes."""
    length = data.size // _LANES if data.size > _SMALL else 0
    head = length * _LANES
    value = _ONES
    if length:
        lanes = _advance(np.zeros(_LANES, np.uint32), data[:head].reshape(_LANES, length))
        shift = _zeros_operator(length)
        for lane in lanes.tolist():
            value = _apply(shift, value) ^ lane
    table = _table().tolist()
    for byte in data[head:].tolist():
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ _ONES


def _advance(state: Array, lanes: Array) -> Array:
    """The remainders after the bytes of each lane."""
    table = _table()
    for column in np.ascontiguousarray(lanes.T):
        state = table[(state ^ column) & 0xFF] ^ state >> 8
    return state


def _apply(operator: Sequence[int], value: int) -> int:
    """A matrix over GF(2), given by its columns, times a vector of bits."""
    result = 0
    for column in operator:
        if value & 1:
            result ^= column
        value >>= 1
    return result


def _zeros_operator(count: int) -> list[int]:
    """The matrix that advances a remainder over `count` zero bytes."""
    table = _table().tolist()
    power = [table[bit & 0xFF] ^ bit >> 8 for bit in (1 << index for index in range(32))]
    result = [1 << index for index in range(32)]
    while count:
        if count & 1:
            result = [_apply(power, column) for column in result]
        power = [_apply(power, column) for column in power]
        count >>= 1
    return result
