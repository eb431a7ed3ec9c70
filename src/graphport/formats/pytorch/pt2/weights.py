"""Parameters, buffers and constants: strided views of the archive's storages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core import budget
from graphport.core.storage import ArrayStorage, FileStorage
from graphport.formats.pytorch.pt2.document import document
from graphport.formats.pytorch.pt2.schema import (
    STRIDED,
    SchemaError,
    dtype_of,
    fail,
    fields,
    integer,
    list_of,
    text,
    union,
)
from graphport.ops.constant_folding import Computed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dtypes import DType
    from graphport.core.storage import Bytes, MappedFile, Storage
    from graphport.formats.pytorch.pt2.container import Container

WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
_CONFIGS = {WEIGHTS: "_weights_config.json", CONSTANTS: "_constants_config.json"}
_FEW, _SMALL = 8, 1 << 20
MOST_RANK = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a tensor in its storage, in elements."""

    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def needs(self) -> int:
        """The minimum number of elements of the storage."""
        if 0 in self.sizes:
            return 0
        return self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)) + 1

    @property
    def is_contiguous(self) -> bool:
        """Whether the tensor is contiguous."""
        step = 1
        for n, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if n != 1 and stride != step:
                return False
            step *= n
        return True


def tensor(placed: tuple[MappedFile | Bytes, int, int], layout: Layout) -> Storage:
    """Return the tensor in the storage `placed`: file, offset and length in bytes.

    Raises:
        SchemaError: the tensor exceeds the storage.
    """
    file, start, length = placed
    width = layout.dtype.bits // 8
    if layout.needs * width > length:
        if length == 0:
            fail("the elements are missing: the program was exported without weights (FakeTensorMode)")
        fail(f"{budget.shown(layout.needs)} elements of {layout.dtype} exceed the payload of {length} bytes")
    if not budget.fits_in_memory(layout.sizes):
        fail(f"sizes {list(layout.sizes)} exceed the addressable memory")
    if 0 in layout.sizes:
        return ArrayStorage(np.zeros(layout.sizes, layout.dtype.numpy), layout.dtype)
    if layout.is_contiguous:
        return FileStorage(file, start + layout.offset * width, layout.dtype, layout.sizes)
    if prod(layout.sizes) > max(length // width * _FEW, _SMALL):
        fail(f"it repeats the {length} bytes of its payload in {budget.shown(prod(layout.sizes))} elements")
    whole = FileStorage(file, start + layout.offset * width, layout.dtype, (layout.needs - layout.offset,))
    return Computed(partial(_strided, layout.sizes, layout.strides), (whole,), layout.dtype, layout.sizes)


def _strided(sizes: Sequence[int], strides: Sequence[int], flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Sizes and strides were checked against the storage above.
    width = flat.dtype.itemsize
    # NumPy cannot stride over the element types of ml_dtypes, so the bits are strided as integers.
    bits = flat if flat.dtype.isbuiltin == 1 else flat.view(f"u{width}")
    found = np.lib.stride_tricks.as_strided(bits, sizes, [stride * width for stride in strides], writeable=False)
    return found.view(flat.dtype)


class Weights:
    """Elements of the parameters, buffers and constants of one program by qualified name."""

    def __init__(self, container: Container, program: str) -> None:
        self._container = container
        self._program = program
        self._configs: dict[str, dict[str, Any]] = {}
        self._made: dict[tuple[str, str], Storage] = {}
        self._placed: dict[str, tuple[MappedFile | Bytes, int, int]] = {}

    def storage(self, folder: str, name: str) -> Storage:
        """Return the elements of `name`.

        Raises:
            DiagnosticError: PT0004 to PT0006 errors of the archive's members.
            SchemaError: the weight is missing, pickled, or differs from its declaration.
        """
        key = folder, name
        if key not in self._made:
            self._made[key] = self._read(folder, name)
        return self._made[key]

    def _read(self, folder: str, name: str) -> Storage:
        config = self._config(folder)
        if name not in config:
            fail(f"missing elements of {name!r} in the archive")
        payload = fields(config[name], f"the payload of {name!r}")
        try:
            return self._payload(folder, payload)
        except SchemaError as error:
            message = f"{name!r}: {error}"
            raise SchemaError(message) from error

    def _payload(self, folder: str, payload: dict[str, Any]) -> Storage:
        if payload.get("use_pickle"):
            fail("unsupported: it is stored as a pickle, which can execute code when it is loaded")
        path = text(payload.get("path_name"), "its path")
        if "/" in path or path.startswith("."):
            fail(f"its path {path!r} is not a payload name")
        if path not in self._placed:
            self._placed[path] = self._container.placed(folder + path)
        return tensor(self._placed[path], layout_of(payload.get("tensor_meta")))

    def _config(self, folder: str) -> dict[str, Any]:
        if folder not in self._configs:
            member = f"{folder}{self._program}{_CONFIGS[folder]}"
            found = document(self._container, member) if member in self._container else {}
            self._configs[folder] = fields(found.get("config", {}), f"the config of {member}")
        return self._configs[folder]


def layout_of(meta: Any) -> Layout:
    """Return the layout in a tensor's description.

    Raises:
        SchemaError: the description is not that of a dense tensor.
    """
    found = fields(meta, "its description")
    if found.get("layout", STRIDED) != STRIDED:
        fail("it is sparse, but its payload is dense")
    sizes = _counts(found.get("sizes"), "size")
    strides = _counts(found.get("strides"), "stride")
    if len(sizes) != len(strides) or len(sizes) > MOST_RANK:
        fail(f"it has {len(sizes)} sizes but {len(strides)} strides")
    offset = _count(found.get("storage_offset", {"as_int": 0}), "offset")
    return Layout(dtype_of(found.get("dtype"), "its element type"), sizes, strides, offset)


def _counts(found: Any, what: str) -> tuple[int, ...]:
    return tuple(_count(item, what) for item in list_of(found, f"the {what}s"))


def _count(found: Any, what: str) -> int:
    kind, value = union(found, f"a {what}")
    if kind != "as_int":
        fail(f"a {what} is an expression, expected an integer")
    count = integer(value, f"a {what}")
    return count if count >= 0 else fail(f"a {what} is {count}")
