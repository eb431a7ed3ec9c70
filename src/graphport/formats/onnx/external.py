"""Weights beside the model: which files may be read, and where in them a tensor lies."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Protocol

from graphport.core.storage import FileStorage, MappedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.formats.onnx.findings import Findings


class External(Protocol):
    """Whoever holds the numbers of tensors that say `data_location: EXTERNAL`."""

    def storage(
        self, entries: Mapping[str, str], dtype: DType, shape: Sequence[int], findings: Findings, place: str
    ) -> Storage | None:
        """The numbers at `entries` (`location`, `offset`, `length`), `None` if there is a finding."""
        ...


class Folder:
    """The files beside a model, each mapped once.

    Only regular files inside `path` are read: a location is relative, holds no `..`, and leaves the folder through no
    symbolic link, unless into `home`: that is where a model lies that is a link itself, as in caches that keep each
    file once. Without a `path`, as for a model in memory, there are none.
    """

    def __init__(self, path: Path | None, home: Path | None = None) -> None:
        self._path = path
        self._home = home
        self._files: dict[str, MappedFile | None] = {}

    def storage(
        self, entries: Mapping[str, str], dtype: DType, shape: Sequence[int], findings: Findings, place: str
    ) -> Storage | None:
        location = entries.get("location", "")
        if location not in self._files:
            self._files[location] = self._open(location, findings, place)
        file = self._files[location]
        if file is None:
            return None
        storage = FileStorage(file, 0, dtype, shape)
        size = storage.nbytes
        start, length = (_number(entries, key, findings, place) for key in ("offset", "length"))
        if start is None or length is None:
            return None
        if length not in (-1, size):
            findings.error("ONNX0404", f"{length} bytes are declared, {dtype}{list(shape)} takes {size}", place)
            return None
        start = max(start, 0)
        if start + size > file.size:
            message = f"it takes bytes {start} to {start + size} of {location}, which has {file.size}"
            findings.error("ONNX0403", message, place, "the file is cut short, or belongs to another model")
            return None
        storage.start = start
        return storage

    def _open(self, location: str, findings: Findings, place: str) -> MappedFile | None:
        if self._path is None:
            message = f"its numbers are in the file {location!r}, and a model in memory has no folder"
            findings.error("ONNX0402", message, place, "say where its files are with `folder`")
            return None
        if not _is_inside(location):
            message = f"the location {location!r} leaves the folder of the model"
            findings.error(
                "ONNX0401", message, place, "keep weights beside the model, under a relative path without '..'"
            )
            return None
        path = self._path / location
        try:
            real = path.resolve(strict=True)
            is_regular = stat.S_ISREG(real.stat().st_mode)
        except (OSError, RuntimeError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            findings.error("ONNX0402", f"{path} cannot be read: {reason}", place, "put the file beside the model")
            return None
        if not any(real.is_relative_to(root.resolve()) for root in (self._path, self._home) if root is not None):
            message = f"{location!r} is a link to {real}, outside of the folder of the model"
            findings.error("ONNX0401", message, place, "copy the file (or make a hard link) into the folder")
            return None
        if not is_regular:
            findings.error("ONNX0402", f"{path} is no regular file", place)
            return None
        file = MappedFile(real)
        # Mapped now, it stays what it is should a model be written over it.
        file.view(0, 0)
        return file


def _is_inside(location: str) -> bool:
    """Whether a location, as it stands, names something below a folder on any system."""
    parts = location.replace("\\", "/").split("/")
    is_rooted = location.startswith(("/", "\\")) or ":" in parts[0] or os.path.isabs(location)  # noqa: PTH117
    return bool(location) and "\0" not in location and not is_rooted and ".." not in parts


def _number(entries: Mapping[str, str], key: str, findings: Findings, place: str) -> int | None:
    """The entry `key` as a count of bytes, -1 if there is none, `None` if it is something else."""
    text = entries.get(key)
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 32):
        findings.error("ONNX0404", f"{key} is {text[:40]!r}, no number of bytes", place)
        return None
    return int(text)
