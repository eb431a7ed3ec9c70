"""Four-bit weights in blocks of 32 with a scale each, as in tract and GGUF.

A block has 18 bytes: a float16 scale and 16 bytes of codes; an element is (code - 8) * scale. In the newer item type,
byte i contains codes i (low four bits) and i + 16; in the older one, codes 2 i and 2 i + 1.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.nnef.container.tensors import Region

VENDOR = 0x5452
NEWER, OLDER = 0x3040, 0x2040
BLOCK = 32
_BYTES = 18
_HEADER = 128
_FIXED = struct.Struct("<2sBBII8IIHH")


class Blocked(NamedTuple):
    """Block-quantized weights: codes -8 to 7 [rows, columns], a scale per 32 codes, and the tensor's shape."""

    codes: Any
    scales: Any
    shape: tuple[int, ...]


def read_blocked(region: Region) -> Blocked | None:
    """Read the blocked tensor in `region`; `None` if it is something else or truncated."""
    head = region.read(0, _HEADER)
    if len(head) < _HEADER:
        return None
    _, _, _, length, rank, *extents, _, code, vendor = _FIXED.unpack_from(head)
    if vendor != VENDOR or code not in (NEWER, OLDER) or not 1 <= rank <= len(extents):
        return None
    shape = tuple(extents[:rank])
    rows = shape[0] if rank > 1 else 1
    columns = prod(shape) // max(rows, 1)
    count = rows * columns // BLOCK
    if columns % BLOCK or length != count * _BYTES or region.size < _HEADER + length:
        return None
    blocks = np.frombuffer(region.read(_HEADER, length), np.uint8).reshape(count, _BYTES)
    scales = blocks[:, :2].copy().view("<f2").reshape(rows, columns // BLOCK).astype(np.float32)
    low, high = blocks[:, 2:] & 15, blocks[:, 2:] >> 4
    halves = [low, high]
    nibbles = np.concatenate(halves, axis=1) if code == NEWER else np.stack(halves, axis=2)
    return Blocked(nibbles.reshape(rows, columns).astype(np.int8) - 8, scales, shape)


def blocked_file(codes: Any, scales: Any, shape: Sequence[int]) -> bytes:
    """Return a tensor file of codes -8 to 7 [rows, columns] and scales [rows, columns / 32]."""
    nibbles = (np.asarray(codes, np.int16) + 8).astype(np.uint8).reshape(-1, 2, BLOCK // 2)
    packed = nibbles[:, 0] | nibbles[:, 1] << 4
    halves = np.ascontiguousarray(np.asarray(scales, "<f2").reshape(-1, 1)).view(np.uint8)
    data = np.concatenate([halves, packed], axis=1).tobytes()
    extents = [*shape, *[0] * (8 - len(shape))]
    head = _FIXED.pack(b"\x4e\xef", 1, 0, len(data), len(shape), *extents, 0xFFFFFFFF, NEWER, VENDOR)
    return head.ljust(_HEADER, b"\0") + data
