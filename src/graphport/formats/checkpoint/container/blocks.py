"""Block formats of GGUF, decoded to float32."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import CHUNK, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphport.core.storage import MappedFile

Array = np.ndarray[Any, np.dtype[Any]]

_NIBBLES = np.array([0, 4], np.uint8)
_PAIRS = np.array([0, 2, 4, 6], np.uint8)
_IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
"""Values of float4 (e2m1) by code, doubled."""


class BlockFormat(NamedTuple):
    """A type of tensors: elements and bytes of a block, and the function that decodes blocks.

    The function maps uint8 [blocks, bytes] to float32 [blocks, elements].
    """

    name: str
    elements: int
    bytes: int
    decode: Callable[[Array], Array]


class BlockStorage(Storage):
    """A tensor in a block format as float32, decoded in pieces."""

    __slots__ = ("file", "format", "is_big_endian", "start")

    def __init__(
        self, file: MappedFile, start: int, format_: BlockFormat, shape: Sequence[int], *, is_big_endian: bool = False
    ) -> None:
        super().__init__(DType.FLOAT32, shape)
        self.file = file
        self.start = start
        self.format = format_
        self.is_big_endian = is_big_endian

    @property
    def stored_bytes(self) -> int:
        """Number of bytes in the file."""
        return self.count // self.format.elements * self.format.bytes

    def blocks(self) -> Array:
        """Return the blocks as stored.  Shapes: → uint8 [blocks, bytes]."""
        raw = np.frombuffer(self.file.view(self.start, self.stored_bytes), np.uint8)
        return self._little_endian(raw).reshape(-1, self.format.bytes)

    def numpy(self) -> Array:
        found = self.format.decode(self.blocks()).reshape(self.shape)
        found.flags.writeable = False
        return found

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        size = self.format.bytes
        step = max(limit // (4 * self.format.elements), 1) * size
        for piece in self.file.chunks(self.start, self.stored_bytes, step):
            blocks = self._little_endian(np.frombuffer(piece, np.uint8)).reshape(-1, size)
            yield (
                np.ascontiguousarray(self.format.decode(blocks))
                .astype("<f4", copy=False)
                .reshape(-1)
                .view(np.uint8)
                .data
            )

    def at_index(self, index: int) -> BlockStorage:
        """Return the tensor at an index of the first axis."""
        shape = self.shape[1:]
        offset = index * (prod(shape) // self.format.elements) * self.format.bytes
        return BlockStorage(self.file, self.start + offset, self.format, shape, is_big_endian=self.is_big_endian)

    def _little_endian(self, raw: Array) -> Array:
        return raw.reshape(-1, self.format.bytes)[:, ::-1] if self.is_big_endian else raw


def _half(blocks: Array, start: int) -> Array:
    """Return the float16 at a byte of each block.  Shapes: → float32 [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2").astype(np.float32)


def _nibbles(codes: Array) -> Array:
    """Return low nibbles, then high ones.  Shapes: [blocks, n] → [blocks, 2 n]."""
    return ((codes[:, None, :] >> _NIBBLES[:, None]) & 15).reshape(len(codes), -1)


def _fifth_bits(blocks: Array, start: int) -> Array:
    """Return bit 4 of 32 codes, from the 32 bits at a byte.  Shapes: → uint8 [blocks, 32]."""
    return np.unpackbits(blocks[:, start : start + 4], axis=1, bitorder="little") << 4


def _f32(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32, copy=False)


def _f16(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _bf16(blocks: Array) -> Array:
    return (np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << 16).view(np.float32)


def _f64(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks).view("<f8").astype(np.float32)


def _q4_0(blocks: Array) -> Array:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: Array) -> Array:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _q5_0(blocks: Array) -> Array:
    codes = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return _half(blocks, 0) * (codes.astype(np.float32) - 16)


def _q5_1(blocks: Array) -> Array:
    codes = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return _half(blocks, 0) * codes.astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: Array) -> Array:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _scales_and_minima(blocks: Array) -> tuple[Array, Array]:
    """Return the 6-bit scales and minima of eight groups, times their factors (Q4_K, Q5_K).

    Shapes: → float32 [blocks, 8, 1], twice.
    """
    packed = blocks[:, 4:16]
    low, high, both = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (both & 15) | (low >> 6 << 4)], axis=1)
    minima = np.concatenate([high & 63, (both >> 4) | (high >> 6 << 4)], axis=1)
    return (_half(blocks, 0) * scales)[:, :, None], (_half(blocks, 2) * minima)[:, :, None]


def _q4_k(blocks: Array) -> Array:
    scales, minima = _scales_and_minima(blocks)
    codes = ((blocks[:, 16:].reshape(-1, 4, 1, 32) >> _NIBBLES[:, None]) & 15).reshape(-1, 8, 32)
    return (scales * codes - minima).reshape(-1, 256)


def _q5_k(blocks: Array) -> Array:
    scales, minima = _scales_and_minima(blocks)
    low = ((blocks[:, 48:].reshape(-1, 4, 1, 32) >> _NIBBLES[:, None]) & 15).reshape(-1, 8, 32)
    high = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    return (scales * (low | high << 4) - minima).reshape(-1, 256)


def _q6_k(blocks: Array) -> Array:
    low = ((blocks[:, :128].reshape(-1, 2, 1, 64) >> _NIBBLES[:, None]) & 15).reshape(-1, 2, 4, 32)
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> _PAIRS[:, None]) & 3
    codes = (low | high << 4).astype(np.float32).reshape(-1, 16, 16) - 32
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    return (codes * scales[:, :, None]).reshape(-1, 256)


def _two_bits(codes: Array) -> Array:
    """Return the codes of Q2_K and Q3_K.  Shapes: [blocks, 64] → [blocks, 16, 16]."""
    return ((codes.reshape(-1, 2, 1, 32) >> _PAIRS[:, None]) & 3).reshape(-1, 16, 16)


def _q2_k(blocks: Array) -> Array:
    packed = blocks[:, :16]
    scales = (_half(blocks, 80) * (packed & 15))[:, :, None]
    minima = (_half(blocks, 82) * (packed >> 4))[:, :, None]
    return (scales * _two_bits(blocks[:, 16:80]) - minima).reshape(-1, 256)


def _q3_k(blocks: Array) -> Array:
    packed = blocks[:, 96:108]
    low = _nibbles(packed[:, :8])
    high = ((packed[:, None, 8:] >> _PAIRS[:, None]) & 3).reshape(-1, 16)
    scales = _half(blocks, 108) * ((low | high << 4).astype(np.float32) - 32)
    missing = ((blocks[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None]) & 1 ^ 1).reshape(-1, 16, 16)
    codes = _two_bits(blocks[:, 32:96]).astype(np.float32) - 4 * missing
    return (codes * scales[:, :, None]).reshape(-1, 256)


def _iq4_nl(blocks: Array) -> Array:
    return _half(blocks, 0) * _IQ4[_nibbles(blocks[:, 2:])]


def _iq4_xs(blocks: Array) -> Array:
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2")
    low = ((blocks[:, 4:8, None] >> _NIBBLES) & 15).reshape(-1, 8)
    codes = low | ((high >> np.arange(0, 16, 2, dtype=np.uint16)) & 3) << 4
    scales = _half(blocks, 0) * (codes.astype(np.float32) - 32)
    values = _IQ4[((blocks[:, 8:].reshape(-1, 8, 1, 16) >> _NIBBLES[:, None]) & 15).reshape(-1, 8, 32)]
    return (scales[:, :, None] * values).reshape(-1, 256)


def _mxfp4(blocks: Array) -> Array:
    scales = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)
    return scales * E2M1[_nibbles(blocks[:, 1:])]


def _tq2_0(blocks: Array) -> Array:
    codes = (blocks[:, :64].reshape(-1, 2, 1, 32) >> _PAIRS[:, None]) & 3
    return _half(blocks, 64) * (codes.reshape(-1, 256).astype(np.float32) - 1)


FORMATS: dict[int, BlockFormat] = {
    0: BlockFormat("F32", 1, 4, _f32),
    1: BlockFormat("F16", 1, 2, _f16),
    2: BlockFormat("Q4_0", 32, 18, _q4_0),
    3: BlockFormat("Q4_1", 32, 20, _q4_1),
    6: BlockFormat("Q5_0", 32, 22, _q5_0),
    7: BlockFormat("Q5_1", 32, 24, _q5_1),
    8: BlockFormat("Q8_0", 32, 34, _q8_0),
    10: BlockFormat("Q2_K", 256, 84, _q2_k),
    11: BlockFormat("Q3_K", 256, 110, _q3_k),
    12: BlockFormat("Q4_K", 256, 144, _q4_k),
    13: BlockFormat("Q5_K", 256, 176, _q5_k),
    14: BlockFormat("Q6_K", 256, 210, _q6_k),
    20: BlockFormat("IQ4_NL", 32, 18, _iq4_nl),
    23: BlockFormat("IQ4_XS", 256, 136, _iq4_xs),
    28: BlockFormat("F64", 1, 8, _f64),
    30: BlockFormat("BF16", 1, 2, _bf16),
    35: BlockFormat("TQ2_0", 256, 66, _tq2_0),
    39: BlockFormat("MXFP4", 32, 17, _mxfp4),
}
"""Types of tensors by number."""

NAMES = {
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    21: "IQ3_S",
    22: "IQ2_S",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    29: "IQ1_M",
    34: "TQ1_0",
}
"""Names of types that are not read."""
