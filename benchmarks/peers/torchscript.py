"""Convert TorchScript files with graphport and its peers, and compare the results with the outputs of PyTorch.

python -m benchmarks.peers.torchscript FOLDER --python TORCH_PYTHON [--only TEXT] [--json FILE]

FOLDER has `cases.json`, and for each case a `.pt` file and an `.npz` file with inputs and outputs. TORCH_PYTHON is a
Python with torch, torchvision, onnx, onnxruntime, openvino and pnnx. Each conversion runs in a separate process. A
result is right if count, shapes and values of all outputs are (element types are not compared), `refused` if the
conversion or the run fails. Cases with bfloat16 are left out, since NumPy has no such type.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

MAX_SECONDS = 120

Row = dict[str, Any]
Arrays = dict[str, "np.ndarray[Any, Any]"]


def graphport(path: Path, row: Row, arrays: Arrays) -> list[Any]:
    """Read the file, write ONNX, and run it in ONNX Runtime."""
    import graphport as gp

    tensors = {r["name"]: arrays[f"in{i}"] for i, r in enumerate(row["inputs"]) if "constant" not in r}
    shapes: Row = {
        name: [f"{x.dtype}:{x.shape[0]}", *x.shape[1:]] if x.shape else [f"{x.dtype}:"] for name, x in tensors.items()
    }
    shapes |= {r["name"]: r["constant"] for r in row["inputs"] if "constant" in r}
    gp.save(gp.load(path, shapes=shapes), "model.onnx")
    return _run_onnx("model.onnx", list(tensors.values()))


def torch_onnx(path: Path, row: Row, arrays: Arrays) -> list[Any]:
    """Export the loaded module with the TorchScript-based exporter, and run it in ONNX Runtime."""
    import torch  # pyright: ignore[reportMissingImports]

    module, args = torch.jit.load(path), _arguments(row, arrays)
    torch.onnx.export(module, args, "model.onnx", dynamo=False, opset_version=17)
    return _run_onnx("model.onnx", [np.asarray(x) for x in _leaves(args)])


def openvino_convert(path: Path, row: Row, arrays: Arrays) -> list[Any]:
    """Convert the loaded module, and run it on the CPU in float32."""
    import openvino as ov
    import torch  # pyright: ignore[reportMissingImports]

    args = _arguments(row, arrays)
    model = ov.convert_model(torch.jit.load(path), example_input=args)
    tensors = _tensors(args)
    for parameter, x in zip(model.inputs, tensors, strict=False):
        parameter.get_node().set_partial_shape(ov.PartialShape(list(x.shape)))
        parameter.get_node().set_element_type(ov.Type(x.numpy().dtype))
    model.validate_nodes_and_infer_types()
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([x.numpy() for x in tensors][: len(compiled.inputs)])
    return [found[i] for i in range(len(compiled.outputs))]


def pnnx_convert(path: Path, row: Row, arrays: Arrays) -> list[Any]:
    """Convert the file, and run the Python module that pnnx writes."""
    import pnnx  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    Path("model.pt").write_bytes(path.read_bytes())
    args = _arguments(row, arrays)
    pnnx.convert("model.pt", inputs=list(_tensors(args)))
    sys.path.insert(0, ".")
    with torch.no_grad():
        found = __import__("model_pnnx").Model()(*_tensors(args))
    return [x.detach().float().numpy() if x.dtype == torch.bfloat16 else x.detach().numpy() for x in _tensors(found)]


CONVERTERS: dict[str, Callable[[Path, Row, Arrays], list[Any]]] = {
    "graphport": graphport,
    "torch.onnx.export": torch_onnx,
    "openvino.convert_model": openvino_convert,
    "pnnx": pnnx_convert,
}


def _arguments(row: Row, arrays: Arrays) -> tuple[Any, ...]:
    import torch  # pyright: ignore[reportMissingImports]

    arguments: Row = {}
    for i, r in enumerate(row["inputs"]):
        value = r["constant"] if "constant" in r else torch.from_numpy(arrays[f"in{i}"])
        if r["type"].startswith("List"):
            arguments.setdefault(r["name"].rpartition(".")[0], []).append(value)
        else:
            arguments[r["name"]] = value
    return tuple(arguments.values())


def _leaves(value: Any) -> list[Any]:
    """Return all tensors and scalars of nested containers, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    return [x for item in value for x in _leaves(item)] if isinstance(value, list | tuple) else [value]


def _tensors(value: Any) -> list[Any]:
    return [x for x in _leaves(value) if hasattr(x, "numpy")]


def _run_onnx(path: str, inputs: list[Any]) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip((x.name for x in session.get_inputs()), inputs, strict=False))))


def difference(found: list[Any], row: Row, arrays: Arrays) -> str:
    """Return the first difference from the outputs of PyTorch, empty if there is none."""
    expected = [(i, r) for i, r in enumerate(row["outputs"]) if "constant" not in r]
    if len(found) != len(expected):
        return f"{len(found)} outputs instead of {len(expected)}"
    for output, (i, r) in zip(found, expected, strict=True):
        y, want = np.asarray(output), arrays[f"out{i}"]
        if y.shape != want.shape and not r.get("symbolic"):
            return f"output {i}: shape {y.shape} instead of {want.shape}"
        tolerance = max(row["tolerance"], 2e-3 if r["dtype"] == "float16" else 0)
        largest = min(max(1, np.abs(want[np.isfinite(want)]).max(initial=0)), 100) if want.dtype.kind == "f" else 1
        slack = 1 if row["group"] == "quant" and want.dtype.kind in "iu" else tolerance * largest
        if not np.allclose(y.astype(complex), want.astype(complex), tolerance, slack, equal_nan=True):
            return f"output {i}: other values"
    return ""


def work(tool: str, path: Path, row: Row) -> str:
    """Return the verdict of one conversion; the current folder receives its files."""
    with np.load(path.with_name(row["name"] + ".npz")) as stored:
        arrays = dict(stored)
    try:
        found = CONVERTERS[tool](path, row, arrays)
    except BaseException as fault:  # noqa: BLE001  exceptions of other tools are results here
        return f"refused: {type(fault).__name__} {fault}"
    wrong = difference(found, row, arrays)
    return f"wrong: {wrong}" if wrong else "right"


def verdict(tool: str, python: str, path: Path, row: Row) -> str:
    """Run one conversion in a process and return its verdict in one line."""
    interpreter = sys.executable if tool == "graphport" else python
    with TemporaryDirectory() as folder:
        command = [interpreter, "-W", "ignore", __file__, str(path), "--tool", tool, "--row", json.dumps(row)]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"refused: {MAX_SECONDS} s passed"
    lines = re.findall(r"^verdict (.*)", done.stdout, re.MULTILINE)
    return lines[-1] if lines else f"refused: exit code {done.returncode}"


def main() -> None:
    """Print the verdict of each file and tool, and a table in Markdown."""
    parser = argparse.ArgumentParser(description="Compare converters of TorchScript files.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tool", help=argparse.SUPPRESS)
    parser.add_argument("--row", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tool:
        line = work(options.tool, options.path, options.row).replace("\n", " ")
        sys.stdout.write(f"\nverdict {line[:300]}\n")
        return
    rows = json.loads((options.path / "cases.json").read_text())
    found: dict[str, dict[str, str]] = {}
    for name, row in sorted(rows.items()):
        if options.only not in name or any(r.get("dtype") == "bfloat16" for r in (*row["inputs"], *row["outputs"])):
            continue
        path = (options.path / row["file"]).resolve()
        found[name] = {tool: verdict(tool, options.python, path, row | {"name": name}) for tool in CONVERTERS}
        lines = (f"{name} {tool}: {each[:100]}\n" for tool, each in found[name].items())
        sys.stdout.writelines(lines)
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write("\n| tool | right | wrong | refused |\n| --- | --- | --- | --- |\n")
    for tool in CONVERTERS:
        count = Counter(each[tool].partition(":")[0] for each in found.values())
        sys.stdout.write(f"| {tool} | {count['right']} | {count['wrong']} | {count['refused']} |\n")


if __name__ == "__main__":
    main()
