"""Write models as `.pt2`, run them with torch in a separate process, and compare."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphport.core.dtypes import DType

PYTHON = os.environ.get("GRAPHPORT_PYTHON_TORCH", "")
"""The interpreter that has torch."""
_BITS = {
    DType.BFLOAT16: np.uint16,
    DType.FLOAT8E4M3FN: np.uint8,
    DType.FLOAT8E4M3FNUZ: np.uint8,
    DType.FLOAT8E5M2: np.uint8,
    DType.FLOAT8E5M2FNUZ: np.uint8,
    DType.FLOAT8E8M0: np.uint8,
}
_NAMES = {
    DType.BFLOAT16: "bfloat16",
    DType.FLOAT8E4M3FN: "float8_e4m3fn",
    DType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    DType.FLOAT8E5M2: "float8_e5m2",
    DType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    DType.FLOAT8E8M0: "float8_e8m0fnu",
}
_HELD_AS = {
    DType.INT2: DType.INT8,
    DType.INT4: DType.INT8,
    DType.UINT2: DType.UINT8,
    DType.UINT4: DType.UINT8,
    DType.FLOAT4E2M1: DType.FLOAT8E4M3FN,
}
"""Element types that torch lacks (PT0106)."""
_TYPES = {name: dtype for dtype, name in _NAMES.items()}
SECONDS = 1800


class Outcome(NamedTuple):
    """Torch's result for a program: outputs, or an error."""

    outputs: Sequence[Any]
    error: str


def store(path: Path, inputs: Iterable[Any]) -> None:
    """Store the inputs of the program at `path`."""
    arrays: dict[str, Any] = {}
    for index, value in enumerate(inputs):
        array = widened(np.asarray(value))
        kind = next((dtype for dtype in _BITS if array.dtype == dtype.numpy), None)
        name = f"{index}|" if kind is None else f"{index}|{_NAMES[kind]}"
        arrays[name] = array if kind is None else array.view(_BITS[kind])
    np.savez(str(path).removesuffix(".pt2") + ".in.npz", **arrays)


def widened(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements in the type that a program holds them in."""
    return next((array.astype(wide.numpy) for own, wide in _HELD_AS.items() if array.dtype == own.numpy), array)


def run_all(folder: Path, form: str = "program") -> None:
    """Run all programs of a folder in torch; `form` is `program`, `unflatten` (with submodules) or `code` (as Python)."""
    script = Path(__file__).with_name("run_programs.py")
    subprocess.run([PYTHON, "-W", "ignore", str(script), str(folder), form], check=True, timeout=SECONDS)


def outcome(path: Path) -> Outcome:
    """Return torch's result for the program at `path`."""
    stem = str(path).removesuffix(".pt2")
    error = Path(f"{stem}.error")
    if error.exists():
        return Outcome((), error.read_text())
    found: list[Any] = []
    with np.load(f"{stem}.out.npz") as arrays:
        for name in sorted(arrays.files, key=lambda each: int(each.partition("|")[0])):
            kind = name.partition("|")[2]
            found.append(arrays[name].view(_TYPES[kind].numpy) if kind else arrays[name])
    return Outcome(found, "")
