"""Write the integer types that ONNX Runtime's CPU kernels support, for operators with exact results.

    python tools/onnxruntime_kernels.py            write src/graphport/formats/onnx/graph_passes/kernels.json

An operator is listed if a CPU kernel lacks an integer type or bool that ONNX allows: type variable, first and last
opset, and the supported types.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi import _pybind_state

from graphport.ops import registry
from graphport.ops.declare import OPSET

PLACE = Path(__file__).parents[1] / "src/graphport/formats/onnx/graph_passes/kernels.json"
runtime: Any = _pybind_state  # no type stubs
NAMES = {f"tensor({kind}int{bits})": f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)} | {
    "tensor(bool)": "bool"
}
LAST = 2**31 - 1
WRONG = ("ReduceMax", "ReduceMin")
"""For 64-bit integers, to which other types would be cast, ONNX Runtime 1.31 compares the low 32 bits."""


def table() -> dict[str, Any]:
    """Return operator → type variable → `[first opset, last opset or null, types]`."""
    kernels: dict[str, list[Any]] = {}
    for kernel in runtime.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and not kernel.domain:
            kernels.setdefault(kernel.op_name, []).append((kernel.version_range, kernel.type_constraints))
    found: dict[str, Any] = {}
    for name, op_def in sorted(registry.op_defs().items()):
        if name not in kernels or name in WRONG or not (op_def.exactness == "exact" or op_def.moves_data):
            continue
        for constraint in onnx.defs.get_schema(name, OPSET).type_constraints:
            rows = _rows(kernels[name], constraint.type_param_str)
            allowed = {NAMES[each] for each in constraint.allowed_type_strs if each in NAMES}
            if rows and any(not allowed <= set(types) for _, _, types in rows):
                found.setdefault(name, {})[constraint.type_param_str] = rows
    return found


def _rows(kernels: list[Any], variable: str) -> list[list[Any]]:
    by_range: dict[tuple[int, int], set[str]] = {}
    for versions, constraints in kernels:
        if variable in constraints:
            by_range.setdefault(versions, set()).update(NAMES[e] for e in constraints[variable] if e in NAMES)
    return [[first, None if last == LAST else last, sorted(types)] for (first, last), types in sorted(by_range.items())]


if __name__ == "__main__":
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in table().items()]
    head = f' "onnxruntime": {json.dumps(onnxruntime.__version__)}'
    PLACE.write_text("{\n" + ",\n".join([head, *lines]) + "\n}\n")
