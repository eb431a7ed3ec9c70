"""External weights: which files may be read, and byte ranges of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graphport.core import budget
from graphport.core.sidecar_files import AbsentError, OutsideError, open_sidecar
from graphport.core.storage import FileStorage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.core.dtypes import DType
    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.onnx.container.findings import Findings


class External(Protocol):
    """Provider of the elements of tensors with `data_location: EXTERNAL`."""

    def storage(
        self, entries: Mapping[str, str], dtype: DType, shape: Sequence[int], findings: Findings, place: str
    ) -> Storage | None:
        """Return the elements at `entries` (`location`, `offset`, `length`), `None` after an error."""
        ...


class Folder:
    """The files next to a model, each mapped once.

    Only regular files inside `path` or `home` are read, see `open_sidecar`.
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
            self._files[location] = self._map_location(location, findings, place)
        file = self._files[location]
        if file is None:
            return None
        storage = FileStorage(file, 0, dtype, shape)
        size = storage.nbytes
        start, length = (_read_byte_count(entries, key, findings, place) for key in ("offset", "length"))
        if start is None or length is None:
            return None
        if length not in (-1, size):
            findings.error(
                "ONNX0404",
                f"external data declares {length} bytes, but {dtype}{list(shape)} takes {budget.shown(size)}",
                place,
            )
            return None
        start = max(start, 0)
        if start + size > file.size:
            message = (
                f"truncated external data: the tensor needs bytes {start} to {start + size} of {location}, "
                f"which has {file.size}"
            )
            findings.error(
                "ONNX0403", message, place, "restore the data file: it is truncated or belongs to another model"
            )
            return None
        storage.start = start
        return storage

    def _map_location(self, location: str, findings: Findings, place: str) -> MappedFile | None:
        try:
            return open_sidecar(self._path, self._home, location)
        except OutsideError as error:
            findings.error("ONNX0401", str(error), place, error.help)
        except AbsentError as error:
            findings.error("ONNX0402", str(error), place, error.help)
        return None


def _read_byte_count(entries: Mapping[str, str], key: str, findings: Findings, place: str) -> int | None:
    """The entry `key` as a count of bytes, -1 if there is none, `None` if it is something else."""
    text = entries.get(key)
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 32):
        findings.error("ONNX0404", f"{key} is {text[:40]!r}, expected a byte count", place)
        return None
    return int(text)
