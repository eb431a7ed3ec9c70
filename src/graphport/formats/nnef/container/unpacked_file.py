"""Content of a compressed archive in an anonymous temporary file."""

from __future__ import annotations

import os
import weakref
from threading import Lock
from typing import TYPE_CHECKING

from graphport.core.storage import CHUNK, MappedFile, Pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class UnpackedFile(MappedFile):
    """An anonymous file, deleted when its last reference is dropped or the process ends.

    `path` is the archive that it was unpacked from.
    """

    __slots__ = ("__weakref__", "_descriptor", "_lock")

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        """Keep a duplicate of `descriptor`, a file of `size` bytes."""
        super().__init__(path)
        self.size = size
        self._descriptor = os.dup(descriptor)
        self._lock = Lock()
        weakref.finalize(self, os.close, self._descriptor)

    def chunks(self, start: int, length: int, limit: int = CHUNK) -> Iterator[memoryview]:
        while length > 0:
            with self._lock:
                os.lseek(self._descriptor, start, os.SEEK_SET)
                piece = os.read(self._descriptor, min(length, limit))
            if not piece:
                message = f"the temporary file unpacked from {self.path} was truncated"
                raise OSError(message)
            start += len(piece)
            length -= len(piece)
            yield memoryview(piece)

    def _open_pages(self) -> Pages:
        return Pages(self._descriptor)
