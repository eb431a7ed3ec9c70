"""Files of other frameworks, held against what these frameworks compute with them.

A folder has `cases.json`, files, and for each case `NAME.npz` with the arrays `in0`, `in1` … of the inputs and `out0` … of the
outputs; `in0_b` … are a second set of other sizes where extents are open. `cases.json` maps the name of a case to its
`files` (each with the names of its inputs and outputs in the order of the arrays, empty where the order is enough), `inputs`
and `outputs` (element types, tolerances), and `refused`, a pattern of the diagnostic for files that cannot be expressed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from pathlib import Path

BITS = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
"""Element types that an `.npz` file stores as their bits."""
WIDER = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}
"""Element types that it stores in bytes."""


@dataclass(frozen=True)
class Recorded:
    """A file and the case that it belongs to."""

    path: Path
    case: dict[str, Any]

    @property
    def arrays(self) -> Path:
        """The inputs and outputs."""
        return self.path.parent / f"{self.case['name']}.npz"

    def sets(self) -> list[tuple[list[Any], list[Any]]]:
        """Inputs and outputs of each set of sizes."""
        found = []
        with np.load(self.arrays) as arrays:
            for suffix in ("", "_b"):
                if f"out0{suffix}" not in arrays:
                    continue
                inputs = [_typed(arrays[f"in{i}{suffix}"], row) for i, row in enumerate(self.case["inputs"])]
                outputs = [_typed(arrays[f"out{i}{suffix}"], row) for i, row in enumerate(self.case["outputs"])]
                found.append((inputs, outputs))
        return found

    def names(self, kind: str, names: list[str]) -> list[str]:
        """The `inputs` or `outputs` of the model in the order of the arrays: by name, else by position."""
        known = {name.removeprefix("serving_default_").removesuffix(":0"): name for name in names}
        wanted = [name.removesuffix(":0") for name in self.case["files"][self.path.name].get(kind, [])]
        if wanted and set(wanted) <= set(known):
            return [known[name] for name in wanted]
        assert len(names) == len(self.case[kind])
        return names


def _typed(array: Any, row: dict[str, Any]) -> Any:
    if row["dtype"] in BITS:
        return array.view(BITS[row["dtype"]])
    return array.astype(WIDER[row["dtype"]]) if row["dtype"] in WIDER else array


def files(folder: Path, *, refused: bool = False) -> list[Any]:
    """The files of a folder as parameters of a test: those that are refused, or the others."""
    cases = json.loads((folder / "cases.json").read_text("utf-8"))
    return [
        pytest.param(Recorded(folder / name, {**case, "name": case_name}), id=name)
        for case_name, case in cases.items()
        for name in case["files"]
        if ("refused" in case) == refused
    ]


def assert_outputs(found: list[Any], expected: list[Any], case: dict[str, Any]) -> None:
    """Hold that outputs are those of the framework within the tolerances of the case."""
    for y, want, row in zip(found, expected, case["outputs"], strict=True):
        array = np.asarray(y)
        assert (array.shape, array.dtype) == (want.shape, want.dtype)
        if want.dtype.kind in "biuSUO" or row["dtype"] in WIDER:
            np.testing.assert_array_equal(array, want)
            continue
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        finite = np.abs(want.astype(wide)[np.isfinite(want.astype(wide))])
        scale = min(max(1.0, float(finite.max(initial=0))), 100)
        tolerance = row["tolerance"]
        np.testing.assert_allclose(array.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance * scale)


def check_file(recorded: Recorded, folder: Path) -> None:
    """Hold that a file, and the ONNX file that it becomes, compute what its framework computes."""
    model = gp.load(recorded.path)
    names = recorded.names("inputs", list(model.inputs))
    outputs = recorded.names("outputs", list(model.outputs))
    for inputs, expected in recorded.sets():
        found = gp.run(model, dict(zip(names, inputs, strict=True)))
        assert_outputs([found[name] for name in outputs], expected, recorded.case)
    if recorded.case.get("no_onnxruntime"):
        return
    gp.save(model, folder / "m.onnx")
    session = onnxruntime.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    used = {each.name for each in session.get_inputs()}
    positions = [list(model.outputs).index(name) for name in outputs]
    for inputs, expected in recorded.sets():
        feeds = {name: array for name, array in zip(names, inputs, strict=True) if name in used}
        found = session.run(None, feeds)
        assert_outputs([found[at] for at in positions], expected, recorded.case)


def check_refusal(recorded: Recorded) -> None:
    """Hold that a file is refused for the reason of the case."""
    with pytest.raises(DiagnosticError) as caught:
        gp.load(recorded.path)
    texts = " ".join(f"{each.message} {each.help or ''}" for each in caught.value.diagnostics)
    assert re.search(recorded.case["refused"], texts, re.IGNORECASE)
