"""Gzip streams of tar archives, compressed by the strategy that suits each file."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, BinaryIO, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

SAMPLE_BYTES = 1 << 16
"""Writes of at least this size are measured; shorter ones keep the strategy."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"  # no name, no time, fastest algorithm, unknown system
_MATCHES = (1, zlib.Z_DEFAULT_STRATEGY)
_RUNS = (1, zlib.Z_RLE)
_STORED = (0, zlib.Z_DEFAULT_STRATEGY)
MATCHES_SHARE = 0.9
"""Sizes with matches below this share of those with runs are worth the time of the search."""
RUNS_SHARE = 0.99
"""Data that runs do not compress below this share are stored."""


class GzipStream:
    """A gzip file of one member, of deflate blocks with different strategies.

    Trained weights have no repeated strings: `Z_RLE` compresses them as well as the search for matches, in a third of
    the time.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._size = 0
        self._checksum = 0
        self._strategy: tuple[int, int] = _MATCHES
        self._deflate = _compressor(_MATCHES)
        self._is_long = False
        target.write(_HEADER)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._target.write(self._deflate.flush())
            self._target.write(self._checksum.to_bytes(4, "little") + (self._size % (1 << 32)).to_bytes(4, "little"))

    def tell(self) -> int:
        """Return the number of bytes before compression."""
        return self._size

    def write(self, data: bytes | memoryview) -> int:
        """Compress `data`. The first long write after a short one, which begins a file, chooses the strategy."""
        view = memoryview(data).cast("B")
        is_long = len(view) >= SAMPLE_BYTES
        if is_long and not self._is_long:
            self._use(choose_strategy(view[:SAMPLE_BYTES]))
        self._is_long = is_long
        self._size += len(view)
        self._checksum = zlib.crc32(view, self._checksum)
        self._target.write(self._deflate.compress(view))
        return len(view)

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Compress each of `pieces`."""
        for piece in pieces:
            self.write(piece)

    def _use(self, strategy: tuple[int, int]) -> None:
        if strategy != self._strategy:
            # Blocks of the next compressor begin at a byte and refer to no earlier bytes.
            self._target.write(self._deflate.flush(zlib.Z_SYNC_FLUSH))
            self._strategy, self._deflate = strategy, _compressor(strategy)


def choose_strategy(sample: memoryview) -> tuple[int, int]:
    """Return level and strategy for data that begin with `sample`."""
    matches, runs = (_compressed_size(sample, strategy) for strategy in (_MATCHES, _RUNS))
    if matches < MATCHES_SHARE * runs:
        return _MATCHES
    return _RUNS if runs < RUNS_SHARE * len(sample) else _STORED


def _compressed_size(sample: memoryview, strategy: tuple[int, int]) -> int:
    deflate = _compressor(strategy)
    return len(deflate.compress(sample)) + len(deflate.flush())


def _compressor(strategy: tuple[int, int]) -> zlib._Compress:  # pyright: ignore[reportPrivateUsage]
    level, kind = strategy
    return zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 8, kind)
