"""Variables of a SavedModel: the TensorBundle `variables.index` (an SSTable) and `variables.data-*` files."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphport.core import budget
from graphport.core.regular_files import contents
from graphport.core.storage import Bytes, FileStorage, MappedFile
from graphport.formats.tensorflow.container.crc import masked_crc
from graphport.formats.tensorflow.container.schema import dtype_of
from graphport.formats.tensorflow.container.tensors import shape_of
from graphport.formats.tensorflow.container.wire import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.formats.tensorflow.container.findings import Findings
    from graphport.formats.tensorflow.container.wire import Message

MAX_INDEX_BYTES = 1 << 26
"""Size of `variables.index`."""
MAX_CHECKED_BYTES = 1 << 26
"""Bytes of variables whose checksums are verified when a file is read."""
_MAX_SHARDS = 100_000
_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER, _TRAILER = 48, 5
_UNSAFE_KEY = re.compile(r"(^|/)\.\.(/|$)|^/|\\|\0")
_DAMAGED = "copy the model folder again: the variables are corrupt or belong to another model"


class BundleEntry(NamedTuple):
    """A tensor of the bundle."""

    dtype: DType
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    is_sliced: bool


class Bundle:
    """The variables of a SavedModel by their keys."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        """Read the index of `folder`, that of the variables.

        Raises:
            DiagnosticError: TF0103 it is damaged.
            OSError: it cannot be read.
        """
        self.folder = folder
        self.findings = findings
        self.place = "variables/variables.index"
        path = folder / "variables.index"
        self._check_inside(path)
        most = budget.limit("tensorflow.index", MAX_INDEX_BYTES)
        size = path.stat().st_size
        if size > most:
            help = "set GRAPHPORT_LIMITS=tensorflow.index=N to allow N bytes"
            findings.refuse("TF0103", f"variables.index has {size} bytes, the limit is {most}", self.place, help)
        self.data = contents(path)
        self.document = Document(Bytes(self.data), findings.source)
        self.shards = 1
        self.entries = self._read()
        self._files: dict[int, MappedFile] = {}
        self._left_to_check = MAX_CHECKED_BYTES

    def storage(self, key: str) -> Storage | None:
        """The elements of a variable; `None` if the key is missing.

        Raises:
            DiagnosticError: TF0103 its file or its place in the file is wrong.
        """
        entry = self.entries.get(key)
        if entry is None:
            return None
        if entry.is_sliced:
            help = "save the model without partitioned variables"
            self.findings.refuse(
                "TF0103", f"unsupported: the variable {key} is partitioned into slices", self.place, help
            )
        if entry.dtype.bits == 0:
            self.findings.refuse(
                "TF0103", f"unsupported: the variable {key} contains strings", self.place, "remove string variables"
            )
        file = self._file(entry.shard, key)
        wanted = entry.dtype.size(prod(entry.shape))
        if entry.size != wanted:
            text = f"{key} has {entry.size} bytes, but {entry.dtype}{list(entry.shape)} requires {wanted}"
            self.findings.refuse("TF0103", text, self.place, _DAMAGED)
        if not 0 <= entry.offset <= file.size - entry.size:
            text = f"{key} is at bytes {entry.offset} to {entry.offset + entry.size}, but the file has {file.size}"
            self.findings.refuse("TF0103", text, self.place, _DAMAGED)
        self._check_crc(file, entry, key)
        return FileStorage(file, entry.offset, entry.dtype, entry.shape)

    def _check_crc(self, file: MappedFile, entry: BundleEntry, key: str) -> None:
        self._left_to_check -= entry.size
        if self._left_to_check < 0:
            return
        if masked_crc(np.frombuffer(file.view(entry.offset, entry.size), np.uint8)) != entry.crc:
            self.findings.refuse("TF0103", f"checksum mismatch of {key}", self.place, _DAMAGED)

    def _file(self, shard: int, key: str) -> MappedFile:
        if not 0 <= shard < self.shards:
            text = f"{key} is in shard {shard}, but the model has {self.shards}"
            self.findings.refuse("TF0103", text, self.place, _DAMAGED)
        if shard not in self._files:
            path = self.folder / f"variables.data-{shard:05}-of-{self.shards:05}"
            self._check_inside(path)
            if not path.is_file():
                help = "copy the complete model folder"
                self.findings.refuse("TF0103", f"missing file {path.name}", "variables", help)
            self._files[shard] = MappedFile(path)
        return self._files[shard]

    def _check_inside(self, path: Path) -> None:
        """Refuse a file that links, its own or that of a folder, place outside of the model.

        Raises:
            DiagnosticError: TF0103 the links form a loop; TF0104 the file is outside of the model.
        """
        home = self.folder.parent.resolve()
        try:
            real = path.resolve()
        except RuntimeError:
            self.findings.refuse("TF0103", f"{path.name} is a link to itself", "variables", _DAMAGED)
        if home not in real.parents:
            help = "copy the file to the model folder"
            self.findings.refuse(
                "TF0104", f"{path.name} is a link to {real}, outside of the model folder", "variables", help
            )

    # The index: an SSTable of LevelDB

    def _refuse(self, text: str) -> None:
        self.findings.refuse("TF0103", text, self.place, _DAMAGED)

    def _read(self) -> dict[str, BundleEntry]:
        data = self.data
        if len(data) < _FOOTER or data[-len(_MAGIC) :] != _MAGIC:
            self._refuse("not a variable index: the magic number at its end is wrong")
        at = len(data) - _FOOTER
        _, at = self._handle(at)
        index, _ = self._handle(at)
        found: dict[str, BundleEntry] = {}
        seen: set[tuple[int, int]] = set()
        for _, value in self._block(*index):
            document = Document(Bytes(value), self.findings.source)
            offset, after = document.varint(0, len(value))
            size, _ = document.varint(after, len(value))
            if (offset, size) in seen:
                self._refuse("duplicate block")
            seen.add((offset, size))
            for key, entry in self._block(offset, size):
                self._add(found, key, entry)
        return found

    def _add(self, found: dict[str, BundleEntry], key: bytes, value: bytes) -> None:
        document = Document(Bytes(value), self.findings.source)
        if not key:
            header = document.root("BundleHeader")
            self.shards = header.integer("shards")
            if header.integer("endianness"):
                self._refuse("its variables are big-endian")
            if not 0 <= self.shards <= _MAX_SHARDS:
                self._refuse(f"invalid number of shards: {self.shards}")
            return
        name = key.decode("utf-8", "backslashreplace")
        if _UNSAFE_KEY.search(name):
            self.findings.refuse("TF0104", f"the key {name!r} points outside of the model folder", self.place, _DAMAGED)
        entry = self._parse_entry(document.root("BundleEntry"), name)
        if entry is not None:
            found[name] = entry

    def _parse_entry(self, message: Message, name: str) -> BundleEntry | None:
        dtype = dtype_of(message.integer("dtype"))
        shape = shape_of(message.message("shape"), self.findings, f"variable {name}") or ()
        if dtype is None or min(shape, default=0) < 0:
            return None
        crc = message.numeric_elements("crc")
        return BundleEntry(
            dtype,
            shape,
            message.integer("shard"),
            message.integer("offset"),
            message.integer("size"),
            int(crc[-1]) if crc.size else 0,
            message.has("slices"),
        )

    def _handle(self, at: int) -> tuple[tuple[int, int], int]:
        offset, at = self.document.varint(at, len(self.data))
        size, at = self.document.varint(at, len(self.data))
        return (offset, size), at

    def _block(self, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of a block; each key is stored without the prefix it has in common with the previous key."""
        data = self.data
        if offset + size + _TRAILER > len(data) or size < 4:
            self._refuse(f"the block of {size} bytes at {offset} exceeds the file of {len(data)} bytes")
        kind = data[offset + size]
        if kind:
            self._refuse(f"a block has the unknown compression {kind}")
        stored = int.from_bytes(data[offset + size + 1 : offset + size + _TRAILER], "little")
        if masked_crc(np.frombuffer(data, np.uint8, size + 1, offset)) != stored:
            self._refuse("checksum mismatch of a block")
        restarts = int.from_bytes(data[offset + size - 4 : offset + size], "little")
        stop = offset + size - 4 - 4 * restarts
        if stop < offset:
            self._refuse(f"a block of {size} bytes has {restarts} restart points")
        key, at = b"", offset
        while at < stop:
            shared, at = self.document.varint(at, stop)
            own, at = self.document.varint(at, stop)
            length, at = self.document.varint(at, stop)
            if shared > len(key) or own + length > stop - at:
                self._refuse("an entry exceeds its block")
            key = key[:shared] + data[at : at + own]
            yield key, data[at + own : at + own + length]
            at += own + length
