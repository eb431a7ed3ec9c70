"""Files referenced by a text in tract's flavour: submodels, and weights in safetensors files."""

from __future__ import annotations

import json
import struct
from math import prod
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, MappedFile
from graphport.formats.nnef.container.packaging import Container, Folder, open_container

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.tensors import Region

SUFFIX = ".safetensors"
_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 100_000_000
_TYPES = {
    "F16": DType.FLOAT16,
    "F32": DType.FLOAT32,
    "BF16": DType.BFLOAT16,
    "F64": DType.FLOAT64,
    "BOOL": DType.BOOL,
    "I8": DType.INT8,
    "I16": DType.INT16,
    "I32": DType.INT32,
    "I64": DType.INT64,
}
_ARCHIVES = (".nnef.tgz", ".nnef.tar", ".nnef.tar.gz")


class _Within(Container):
    """A submodel in a folder of another model."""

    def __init__(self, outer: Container, label: str) -> None:
        super().__init__(outer.path, outer.limits)
        self.name = f"{outer.name}/{label}"
        self._outer = outer
        self._label = label

    def find(self, name: str) -> Region | None:
        return self._outer.find(f"{self._label}/{name}")


def submodel(outer: Container, label: str) -> Container | None:
    """Return the model named `label` next to `outer`: a folder, or an archive in the same folder."""
    if not label or "/" in label or label.startswith("."):
        return None
    within = _Within(outer, label)
    if within.find("graph.nnef") is not None:
        return within
    if isinstance(outer, Folder):
        for suffix in _ARCHIVES:
            if outer.find(f"{label}{suffix}") is not None:
                return open_container(outer.path / f"{label}{suffix}", outer.limits)
    return None


def safetensors(container: Container) -> dict[str, Storage]:
    """Return the tensors of all safetensors files next to the text, by name.

    Raises:
        DiagnosticError: NNEF0906, a file is damaged.
    """
    if not isinstance(container, Folder):
        return {}
    found: dict[str, Storage] = {}
    for path in sorted(container.path.glob(f"*{SUFFIX}")):
        region = container.find(path.name)
        if region is not None and isinstance(region.file, MappedFile):
            found |= _tensors(region, region.file)
    return found


def _tensors(region: Region, file: MappedFile) -> dict[str, Storage]:
    head = region.read(0, _LENGTH.size)
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else -1
    begin = _LENGTH.size + length
    if not 0 < length <= min(_MOST_HEADER, region.size - _LENGTH.size):
        raise _corrupt_error(region, "the header is longer than the file")
    try:
        header: Any = json.loads(region.read(_LENGTH.size, length))
    except (ValueError, RecursionError) as error:
        raise _corrupt_error(region, f"the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise _corrupt_error(region, "the header is not a JSON object")
    found: dict[str, Storage] = {}
    for name, entry in cast("dict[str, Any]", header).items():
        if name != "__metadata__" and (storage := _storage(region, file, begin, name, entry)) is not None:
            found[name] = storage
    return found


def _storage(region: Region, file: MappedFile, begin: int, name: str, entry: Any) -> Storage | None:
    """Return the tensor of a header entry; `None` for an unsupported type."""
    try:
        dtype = _TYPES.get(str(entry["dtype"]))
        shape = tuple(_count(extent) for extent in entry["shape"])
        first, last = (_count(offset) for offset in entry["data_offsets"])
    except (TypeError, KeyError, ValueError) as error:
        raise _corrupt_error(region, f"'{name}' has no type, shape or position") from error
    if dtype is None:
        return None
    if last - first != prod(shape) * (dtype.bits // 8 or 1) or begin + last > region.size or first > last:
        raise _corrupt_error(region, f"'{name}' of shape {list(shape)} does not fit bytes {first} to {last}")
    return FileStorage(file, region.start + begin + first, dtype, shape)


def _count(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        message = f"{number!r} is not a count"
        raise ValueError(message)
    return number


def _corrupt_error(region: Region, message: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic("NNEF0906", message, Span(Source(region.name)), "create the archive again: it is corrupt")
    )
