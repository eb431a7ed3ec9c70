"""Weights of files before PyTorch 2.9: nested archives of `torch.save`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.pytorch.pt2.container import Container
from graphport.formats.pytorch.pt2.schema import SchemaError, fail
from graphport.formats.pytorch.pt2.unpickle import tensors
from graphport.formats.pytorch.pt2.weights import CONSTANTS, WEIGHTS, Layout, tensor

if TYPE_CHECKING:
    from graphport.core.storage import Bytes, MappedFile, Storage
    from graphport.formats.pytorch.pt2.unpickle import Tensor

_FLAT = {
    WEIGHTS: ("serialized_state_dict.pt", "serialized_state_dict.json"),
    CONSTANTS: ("serialized_constants.pt", "serialized_constants.json"),
}


class Saved:
    """One archive of `torch.save`: a pickled dictionary of tensors, and their storages."""

    def __init__(self, outer: Container, name: str) -> None:
        file, start, length = outer.placed(name)
        self._inner = Container(file, outer.source, start, length, within=name)
        if "byteorder" in self._inner and self._inner.read("byteorder").strip() != b"little":
            raise self._inner.fault("PT0010", "unsupported big-endian weights")
        self._tensors = tensors(self._inner.read("data.pkl"))
        self._placed: dict[str, tuple[MappedFile | Bytes, int, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def storage(self, name: str) -> Storage:
        """Return the elements of the tensor `name`."""
        found: Tensor = self._tensors[name]
        key = found.storage.key
        if not key.isalnum():
            fail(f"{name!r}: invalid storage name {key[:40]!r}")
        if min((found.offset, *found.sizes, *found.strides)) < 0 or len(found.sizes) != len(found.strides):
            fail(f"{name!r}: negative size, stride or offset")
        if key not in self._placed:
            self._placed[key] = self._inner.placed(f"data/{key}")
        try:
            layout = Layout(found.storage.dtype, found.sizes, found.strides, found.offset)
            return tensor(self._placed[key], layout)
        except SchemaError as error:
            message = f"{name!r}: {error}"
            raise SchemaError(message) from error


class _Archives:
    """Nested archives by name."""

    def __init__(self, container: Container, members: dict[str, tuple[str, ...]]) -> None:
        self._container = container
        self._members = members
        self._opened: dict[str, Saved | None] = {}
        self._made: dict[tuple[str, str], Storage] = {}

    def storage(self, folder: str, name: str) -> Storage:
        """Return the elements of `name`; non-persistent buffers are stored with the constants.

        Raises:
            DiagnosticError: the archive is corrupt.
            SchemaError: the archive does not contain `name`, or it is not a tensor.
        """
        key = folder, name
        if key not in self._made:
            self._made[key] = self._read(folder, name)
        return self._made[key]

    def _read(self, folder: str, name: str) -> Storage:
        for place in (folder, *(other for other in self._members if other != folder)):
            opened = self._open_archive(place)
            if opened is not None and name in opened:
                return opened.storage(name)
        return fail(f"missing elements of {name!r} in the archive")

    def _open_archive(self, folder: str) -> Saved | None:
        if folder not in self._opened:
            member = next((name for name in self._members[folder] if name in self._container), None)
            self._opened[folder] = None if member is None else Saved(self._container, member)
        return self._opened[folder]


class LegacyWeights(_Archives):
    """Layout up to PyTorch 2.7: one archive for weights, one for constants, in the folder of the program."""

    def __init__(self, container: Container) -> None:
        super().__init__(container, _FLAT)


class NestedWeights(_Archives):
    """Layout of PyTorch 2.8: the folders of the current layout with one archive in each."""

    def __init__(self, container: Container, program: str) -> None:
        super().__init__(container, {folder: (f"{folder}{program}.pt",) for folder in (WEIGHTS, CONSTANTS)})
