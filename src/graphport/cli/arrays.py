"""`.npz` files with inputs and outputs of a run."""

from __future__ import annotations

import re
import zipfile
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.atomic_write import replacing
from graphport.core.corrupt_files import CORRUPT
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import is_numpy_own
from graphport.core.file_names import safe_path
from graphport.core.regular_files import open_regular
from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.api.model import Model

_STANDARD = "biufcU"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""Exceptions that reading a corrupt archive raises."""
_EXPANSION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
"""The maximum decompression ratio of an array in the archive."""


def inputs_of(model: Model, path: Path) -> dict[str, Any]:
    """Read the inputs of `model` from a file and gather sequences; see `read`."""
    from graphport.core.facts import SequenceFact

    return gathered(read(path), [name for name, value in model.inputs.items() if isinstance(value.fact, SequenceFact)])


def read(path: Path) -> dict[str, Any]:
    """Read arrays by name; a sequence `s` is stored as `s.0`, `s.1`, ….

    Raises:
        DiagnosticError: IO0005 the file is not a `.npz` of plain arrays.
        OSError: it cannot be opened.
    """
    with open_regular(path) as file:
        size = path.stat().st_size
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                return {entry.filename.removesuffix(".npy"): _read_array(archive, entry, size) for entry in entries}
        except CORRUPT as error:
            remedy = "write the file with np.savez(path, name=array), without Python objects"
            message = f"{path} is not an .npz file of numeric arrays: {error}"
            raise DiagnosticError(Diagnostic("IO0005", message, Span(Source(str(path))), remedy)) from error


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> Any:
    """Read one array of an archive of `most` bytes."""
    factor = _EXPANSION.get(entry.compress_type)
    if factor is None or entry.compress_size > most or entry.file_size > factor * (entry.compress_size + 1):
        message = f"{entry.filename} cannot have {entry.file_size} bytes"
        raise ValueError(message)
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            message = f"{entry.filename} has version {version[0]}.{version[1]}"
            raise ValueError(message)
        shape, _, dtype = _HEADERS[version](file)
        # Check the size in the header against the data before allocating memory.
        needed, left = prod(shape) * dtype.itemsize, entry.file_size - file.tell()
        if not dtype.hasobject and needed != left:
            message = f"{entry.filename}: truncated array: {needed} bytes expected, {left} left"
            raise ValueError(message)
    with archive.open(entry) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def gathered(arrays: Mapping[str, Any], sequences: list[str]) -> dict[str, Any]:
    """Gather `s.0`, `s.1`, … of `arrays` into one list for each of `sequences`."""
    found = dict(arrays)
    for name in sequences:
        items: list[Any] = []
        while f"{name}.{len(items)}" in found:
            items.append(found.pop(f"{name}.{len(items)}"))
        if name not in found:
            found[name] = items
    return found


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a temporary file and rename it to `path`.

    Types that `.npy` lacks are widened: bfloat16, float16 and float8 to float32, narrow integers to 8 bits, strings to
    fixed width; a sequence `s` becomes `s.0`, `s.1`, ….
    """
    flat: dict[str, Any] = {}
    for name, array in arrays.items():
        if is_sequence(array):
            flat.update({f"{name}.{i}": _storable(item) for i, item in enumerate(array)})
        elif array is not None:
            flat[name] = _storable(array)
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in flat.items():
            # Array names become file names, so names that would leave the folder on extraction are changed.
            member = safe_path(name) if ".." in re.split(r"[/\\]", name) else name
            with archive.open(f"{member}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _storable(array: Any) -> Any:
    array = np.asarray(array)
    if array.dtype == object:
        return array.astype(str)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind in _STANDARD and is_numpy_own(array.dtype):
        return array
    name = array.dtype.name
    return array.astype(np.uint8 if name.startswith("uint") else np.int8 if name.startswith("int") else np.float32)
