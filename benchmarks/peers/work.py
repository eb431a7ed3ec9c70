"""Run one task by one tool in a separate process, and print processor seconds and megabytes as a line of JSON.

python work.py TASK TIMES FILE FOLDER

The result is the minimum of `TIMES` runs, in processor time of all threads, without preparation (imports, loading the
model to write). The megabytes are the peak of the process, including imports.
"""

from __future__ import annotations

import json
import logging
import pickle
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], object]

# ── graphport ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def graphport_load(file: Path, folder: Path) -> Work:
    """Load a canonical graph."""
    import graphport as gp

    return lambda: gp.load(file)


def graphport_read(file: Path, folder: Path) -> Work:
    """Load a graph in the file's dialect, with shapes."""
    import graphport as gp

    return lambda: gp.load(file, raw=True)


def graphport_save(file: Path, folder: Path) -> Work:
    """Save the canonical graph in its original format."""
    import graphport as gp

    model = gp.load(file)
    return lambda: gp.save(model, folder / file.name)


def graphport_write(file: Path, folder: Path) -> Work:
    """Save the graph of the file's dialect in its original format."""
    import graphport as gp

    model = gp.load(file, raw=True)
    return lambda: gp.save(model, folder / file.name)


def graphport_run(file: Path, folder: Path) -> Work:
    """Run the reference backend."""
    import graphport as gp

    model, feeds = gp.load(file), _feeds(file)
    return lambda: gp.run(model, feeds, backend="reference")


# ── peers ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def onnx_load(file: Path, folder: Path) -> Work:
    """Load the protobuf message."""
    import onnx

    return lambda: onnx.load(file)


def onnx_save(file: Path, folder: Path) -> Work:
    """Save the protobuf message."""
    import onnx

    model = onnx.load(file)
    return lambda: onnx.save(model, folder / file.name)


def onnx_ir_load(file: Path, folder: Path) -> Work:
    """Load an editable graph."""
    import onnx_ir

    return lambda: onnx_ir.load(file)


def onnx_ir_save(file: Path, folder: Path) -> Work:
    """Save an editable graph."""
    import onnx_ir

    model = onnx_ir.load(file)
    return lambda: onnx_ir.save(model, folder / file.name)


def onnx_shapes(file: Path, folder: Path) -> Work:
    """Load, and infer shapes."""
    import onnx

    return lambda: onnx.shape_inference.infer_shapes(onnx.load(file), data_prop=True)


def openvino_read(file: Path, folder: Path) -> Work:
    """Read with `read_model`, including shapes."""
    import openvino

    return lambda: openvino.Core().read_model(str(file))


def openvino_save(file: Path, folder: Path) -> Work:
    """Write with `serialize`."""
    import openvino

    model = openvino.Core().read_model(str(file))
    return lambda: openvino.serialize(model, str(folder / file.name))


def nnef_read(file: Path, folder: Path) -> Work:
    """Parse with the Khronos parser in C++, and infer shapes."""
    import nnef

    text = file.read_text(encoding="utf-8")
    return lambda: nnef.infer_shapes(nnef.parse_string(text))


def ncnn_load(file: Path, folder: Path) -> Work:
    """Load with ncnn."""
    import ncnn

    made: Any = ncnn
    return lambda: made.Net().load_param(str(file))


def onnx_reference(file: Path, folder: Path) -> Work:
    """Run the reference evaluator of the package onnx."""
    from onnx.reference import ReferenceEvaluator

    made, feeds = ReferenceEvaluator(str(file)), _feeds(file)
    return lambda: made.run(None, feeds)


def _feeds(file: Path) -> dict[str, Any]:
    import numpy as np
    import onnx

    graph = onnx.load(file, load_external_data=False).graph
    draw = np.random.default_rng(0)
    known = {each.name for each in graph.initializer}
    return {
        each.name: draw.standard_normal([dim.dim_value or 1 for dim in each.type.tensor_type.shape.dim], np.float32)
        for each in graph.input
        if each.name not in known
    }


# ── the reference backend on the package's node tests ─────────────────────────────────────────────────────────────────


def _node_tests(folder: Path) -> list[tuple[Path, list[Any]]]:
    """Return the models of the package onnx's node tests with one set of inputs each; written once to `folder`."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    made = folder / "node_tests"
    if not made.exists():
        made.mkdir()
        for case in collect_testcases(None):
            inputs = case.data_sets[0][0] if case.data_sets else []
            if case.model is not None and all(hasattr(each, "dtype") for each in inputs):  # no sequences and optionals
                onnx.save(case.model, made / f"{case.name}.onnx")
                (made / f"{case.name}.pickle").write_bytes(pickle.dumps(inputs))
    return [(path, _kept(path.with_suffix(".pickle"))) for path in sorted(made.glob("*.onnx"))]


def _kept(file: Path) -> list[Any]:
    return pickle.loads(file.read_bytes())  # noqa: S301  written above


def graphport_node_tests(file: Path, folder: Path) -> Work:
    """Run every test that both backends compute, on loaded models."""
    import graphport as gp

    ready: list[tuple[Any, dict[str, Any]]] = []
    for path, arrays in _both(folder):
        model = gp.load(path)
        ready.append((model, dict(zip([value.name for value in model.graph.inputs], arrays, strict=False))))
    return lambda: [gp.run(model, feeds, backend="reference") for model, feeds in ready]


def onnx_node_tests(file: Path, folder: Path) -> Work:
    """Run every test that both backends compute, on loaded models."""
    from onnx.reference import ReferenceEvaluator

    ready: list[tuple[Any, dict[str, Any]]] = []
    for path, arrays in _both(folder):
        made: Any = ReferenceEvaluator(str(path))
        ready.append((made, dict(zip(made.input_names, arrays, strict=False))))
    return lambda: [made.run(None, feeds) for made, feeds in ready]


def _both(folder: Path) -> list[tuple[Path, list[Any]]]:
    """Return the tests that both backends compute; the list is computed once and saved."""
    note = folder / "node_tests.json"
    every = _node_tests(folder)
    if note.exists():
        names = set(json.loads(note.read_text(encoding="utf-8")))
        return [(path, arrays) for path, arrays in every if path.stem in names]
    from onnx.reference import ReferenceEvaluator

    import graphport as gp

    found: list[tuple[Path, list[Any]]] = []
    for path, arrays in every:
        try:
            made: Any = ReferenceEvaluator(str(path))
            made.run(None, dict(zip(made.input_names, arrays, strict=False)))
            model = gp.load(path)
            feeds = dict(zip([value.name for value in model.graph.inputs], arrays, strict=False))
            gp.run(model, feeds, backend="reference")
        except BaseException:  # noqa: BLE001, S112  any exception: not computed by both
            continue
        found.append((path, arrays))
    note.write_text(json.dumps([path.stem for path, _ in found]), encoding="utf-8")
    return found


# ── large files ───────────────────────────────────────────────────────────────────────────────────────────────────────


def graphport_convert(file: Path, folder: Path, ending: str) -> Work:
    """Load and save, without the proof of the command line."""
    import graphport as gp

    def work() -> None:
        target = folder / f"converted{ending}"
        gp.save(gp.load(file), target)
        _flush(target)

    return work


def cp(file: Path, folder: Path) -> Work:
    """Copy the file."""

    def work() -> None:
        shutil.copyfile(file, folder / "copy")
        _flush(folder / "copy")

    return work


def _flush(target: Path) -> None:
    """Flush the file, so that the next task does not wait for cached writes."""
    import os

    for each in [target, *target.parent.glob(f"{target.stem}*")]:
        if each.is_file():
            with each.open("rb") as file:
                os.fsync(file.fileno())


TASKS: dict[str, Callable[[Path, Path], Work]] = {
    "graphport.load": graphport_load,
    "graphport.read": graphport_read,
    "graphport.save": graphport_save,
    "graphport.write": graphport_write,
    "graphport.run": graphport_run,
    "graphport.node_tests": graphport_node_tests,
    "onnx.load": onnx_load,
    "onnx.save": onnx_save,
    "onnx.shapes": onnx_shapes,
    "onnx.reference": onnx_reference,
    "onnx.node_tests": onnx_node_tests,
    "onnx-ir.load": onnx_ir_load,
    "onnx-ir.save": onnx_ir_save,
    "openvino.read": openvino_read,
    "openvino.save": openvino_save,
    "nnef.read": nnef_read,
    "ncnn.load": ncnn_load,
    "cp.cp": cp,
    "graphport.to_onnx": lambda file, folder: graphport_convert(file, folder, ".onnx"),
    "graphport.to_ir": lambda file, folder: graphport_convert(file, folder, ".xml"),
    "graphport.to_nnef": lambda file, folder: graphport_convert(file, folder, ".nnef.tar"),
    "graphport.to_archive": lambda file, folder: graphport_convert(file, folder, ".graphport"),
}


def main() -> None:
    """Run the task and print its cost."""
    task, times, file, folder = sys.argv[1:5]
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    work = TASKS[task](Path(file), Path(folder))
    best = wall = float("inf")
    for _ in range(int(times)):
        begun, start = time.perf_counter(), time.process_time()
        made = work()
        best = min(best, time.process_time() - start)
        wall = min(wall, time.perf_counter() - begun)
        del made
    sys.stdout.write(f"\n{json.dumps({'cpu_s': best, 'wall_s': wall, 'peak_mb': _peak()})}\n")


def _peak() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
