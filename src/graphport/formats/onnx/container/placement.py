"""Placement of tensor elements: inside the message or in an external file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graphport.core.storage import View

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.onnx.container.notes import Properties

ALIGNMENT = 64
"""Alignment of tensors in bytes: a cache line, and the widest vector register."""

SMALL = 1024
"""Tensors below this size in bytes are stored in the message: runtimes read shapes before they open other files."""


class Placement(Protocol):
    """Strategy that decides where elements are stored."""

    def place_storage(self, storage: Storage, *, is_attribute: bool) -> Properties | None:
        """Return the `external_data` of the tensor; `None` if its elements are in the message."""
        ...


class Inside:
    """Stores all elements in the message."""

    def place_storage(self, storage: Storage, *, is_attribute: bool) -> Properties | None:  # noqa: ARG002
        """Return `None`: no tensor is external."""
        return None


class DataFile:
    """An external file named `location` that elements are collected for; a shared storage is stored once.

    Tensors of attributes stay in the message unless `with_attributes`, because not every runtime supports external
    ones.
    """

    def __init__(self, location: str, *, with_attributes: bool = False, least: int = SMALL) -> None:
        self.location = location
        self._with_attributes = with_attributes
        self.size = 0
        self.placed: list[tuple[int, Storage]] = []
        """Offsets, in order, and the storages there."""
        self._least = least
        self._offsets: dict[int, int] = {}

    def place_storage(self, storage: Storage, *, is_attribute: bool) -> Properties | None:
        if storage.nbytes < self._least or (is_attribute and not self._with_attributes):
            return None
        while isinstance(storage, View):
            storage = storage.of
        offset = self._offsets.get(id(storage))
        if offset is None:
            offset = -(-self.size // ALIGNMENT) * ALIGNMENT
            self._offsets[id(storage)] = offset
            self.placed.append((offset, storage))
            self.size = offset + storage.nbytes
        return ("location", self.location), ("offset", str(offset)), ("length", str(storage.nbytes))
