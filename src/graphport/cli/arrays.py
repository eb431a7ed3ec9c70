"""`.npz` files: inputs and outputs of a run."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.replacing import replacing
from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_STANDARD = "biufcU"


def read(path: Path) -> dict[str, Any]:
    """Arrays by name; a list `s` is `s.0`, `s.1`, ….

    Raises:
        DiagnosticError: IO0005 the file is no `.npz` of plain arrays.
    """
    span = Span(Source(str(path)))
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DiagnosticError(
                    Diagnostic("IO0005", f"{path} is one array, no .npz", span, "np.savez(path, name=array)")
                )
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        remedy = "write it by np.savez(path, name=array), without objects"
        raise DiagnosticError(
            Diagnostic("IO0005", f"{path} is no .npz of plain arrays: {error}", span, remedy)
        ) from error


def gathered(arrays: Mapping[str, Any], sequences: list[str]) -> dict[str, Any]:
    """`arrays` with `s.0`, `s.1`, … as one list for each of `sequences`."""
    found = dict(arrays)
    for name in sequences:
        items: list[Any] = []
        while f"{name}.{len(items)}" in found:
            items.append(found.pop(f"{name}.{len(items)}"))
        if name not in found:
            found[name] = items
    return found


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays beside `path` and rename the file into place.

    What `.npy` has no type for is widened: bfloat16, float16 and float8 to float32, narrow integers to 8 bits, text to
    fixed width; a list `s` becomes `s.0`, `s.1`, ….
    """
    flat: dict[str, Any] = {}
    for name, array in arrays.items():
        if is_sequence(array):
            flat.update({f"{name}.{i}": _storable(item) for i, item in enumerate(array)})
        elif array is not None:
            flat[name] = _storable(array)
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in flat.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _storable(array: Any) -> Any:
    array = np.asarray(array)
    if array.dtype == object:
        return array.astype(str)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind in _STANDARD and array.dtype.isbuiltin == 1:
        return array
    name = array.dtype.name
    return array.astype(np.uint8 if name.startswith("uint") else np.int8 if name.startswith("int") else np.float32)
