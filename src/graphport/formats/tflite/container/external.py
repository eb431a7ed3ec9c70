"""Elements of tensors in external files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.sidecar_files import AbsentError, OutsideError, open_sidecar
from graphport.core.storage import FileStorage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.tflite.container.findings import Findings
    from graphport.formats.tflite.container.flatbuffer import Record

_UNPACKED = frozenset((None, "", "unpacked"))


class External:
    """The external buffers of a model by number; each buffer group is a file, mapped once."""

    def __init__(self, model: Record, findings: Findings, path: Path | None) -> None:
        self._findings = findings
        self._folder = None if path is None else path.parent
        self._home = None if path is None else path.resolve().parent
        self._groups: list[Record] = model.records("external_buffer_groups")
        self._buffers = {record["id"]: record for record in model.records("external_buffers")}
        self._files: dict[int, MappedFile | None] = {}

    def storage(self, tensor: Record, dtype: DType | None, shape: Sequence[int], place: str) -> Storage | None:
        """Return the elements of a tensor; `None` after an error was reported."""
        number = tensor["external_buffer"]
        location = self._buffers.get(number)
        if location is None or not 0 <= location["group"] < len(self._groups):
            self._findings.error("TFL0107", f"external buffer {number} or its buffer group does not exist", place)
            return None
        if (
            dtype is None
            or dtype is DType.STRING
            or tensor["sparsity"] is not None
            or location["packing"] not in _UNPACKED
        ):
            packing = location["packing"] or "sparse or text"
            self._findings.error(
                "TFL0107", f"the external buffer {number} is {packing}", place, "store the buffer in the file"
            )
            return None
        file = self._file(location["group"], place)
        if file is None:
            return None
        start, length = location["offset"], location["length"]
        storage = FileStorage(file, 0, dtype, tuple(shape))
        if start + length > file.size or storage.nbytes > length:
            message = (
                f"bytes {start} to {start + length} of {file.size} do "
                f"not match the tensor, which has {storage.nbytes} bytes"
            )
            self._findings.error(
                "TFL0107", message, place, "restore the data file: it is truncated or belongs to another model"
            )
            return None
        storage.start = start
        return storage

    def _file(self, group: int, place: str) -> MappedFile | None:
        if group not in self._files:
            self._files[group] = None
            try:
                self._files[group] = open_sidecar(self._folder, self._home, self._groups[group]["name"] or "")
            except (OutsideError, AbsentError) as error:
                self._findings.error("TFL0107", str(error), place, error.help)
        return self._files[group]
