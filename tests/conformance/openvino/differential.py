"""Compare the results of OpenVINO, ONNX Runtime and the reference backend for an IR model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import graphport as gp
from graphport.core.facts import TensorFact
from tests.conformance.openvino.cases import NAMES, Array, Case, given


@cache
def core() -> Any:
    """Return an OpenVINO core in float32 on one thread, without memory-mapped files."""
    import openvino

    found = openvino.Core()
    found.set_property({"ENABLE_MMAP": False})
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    found.set_property("CPU", settings | {"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})
    return found


def by_plugin(path: Path, arrays: Sequence[Array]) -> list[Array]:
    """Run a file on OpenVINO's CPU plugin."""
    compiled = core().compile_model(core().read_model(str(path)), "CPU")
    request = compiled.create_infer_request()
    for number, x in enumerate(arrays):
        request.set_input_tensor(number, tensor(x))
    request.start_async()
    request.wait()
    return [numbers(request.get_output_tensor(number)) for number in range(len(compiled.outputs))]


def by_evaluation(path: Path, arrays: Sequence[Array]) -> list[Array]:
    """Run a file on OpenVINO's reference implementation."""
    import openvino

    model = core().read_model(str(path))
    results = [openvino.Tensor(output.get_element_type(), openvino.Shape([0])) for output in model.outputs]
    if not model.evaluate(results, [tensor(x) for x in arrays]):
        message = "OpenVINO cannot evaluate it"
        raise RuntimeError(message)
    return [numbers(result) for result in results]


def tensor(array: Array) -> Any:
    """An array as OpenVINO's tensor."""
    import openvino

    held = np.ascontiguousarray(array).reshape(array.shape)
    name = NAMES[array.dtype.name]
    made = openvino.Tensor(getattr(openvino.Type, name), openvino.Shape(held.shape))
    if held.size:
        made.data.reshape(-1).view(np.uint8)[:] = held.reshape(-1).view(np.uint8)
    return made


_FOREIGN = {"bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}


def numbers(held: Any) -> Array:
    """OpenVINO's tensor as an array."""
    array = np.array(held.data)
    foreign = _FOREIGN.get(held.element_type.get_type_name())
    return array if foreign is None else array.reshape(-1).view(np.uint8).view(foreign).reshape(array.shape)


def by_us(path: Path, arrays: Sequence[Array], backend: str) -> list[Array]:
    """Run an IR file on a backend of graphport."""
    return run(gp.load(path), arrays, backend)


def run(model: gp.Model, arrays: Sequence[Array], backend: str) -> list[Array]:
    """Return the outputs of a model; raise if a node was not legalized."""
    opaque = sorted({node.op for node in model.graph if node.dialect})
    if opaque:
        message = f"opaque: {', '.join(opaque)}"
        raise RuntimeError(message)
    found = gp.run(model, dict(zip(model.inputs, arrays, strict=True)), backend=backend)
    return [np.asarray(found[name]) for name in model.outputs]


def by_onnx(path: Path, arrays: Sequence[Array]) -> list[Array]:
    """Convert an IR file to ONNX and run it in ONNX Runtime."""
    other = path.with_name("case.onnx")
    gp.save(gp.load(path), other)
    return run(gp.load(other), arrays, "onnxruntime")


def again(path: Path, **options: Any) -> Path:
    """An IR file that was understood, and written as IR."""
    other = path.with_name("again.xml")
    gp.save(gp.load(path), other, **options)
    return other


JUDGES = {"plugin": by_plugin, "evaluation": by_evaluation}


class UnjudgedError(Exception):
    """No oracle computes the drawn case."""


def deviation(case: Case, path: Path) -> str | None:
    """Return how our results of a case differ from those of every oracle; `None` if one agrees with all of them.

    Our results are those of the reference backend, of ONNX Runtime on the written ONNX file, and of the oracle on the
    written IR file.

    Raises:
        UnjudgedError: every oracle refuses the original file.
    """
    arrays, other = given(case), again(path)
    ways = {"reference": by_us(path, arrays, "reference"), "onnx": by_onnx(path, arrays)}
    findings: list[str] = []
    refusals: list[str] = []
    for judge in case.judges:
        try:
            expected = JUDGES[judge](path, arrays) if case.expected is None else case.expected
        except RuntimeError as error:
            refusals.append(f"{judge} refuses: {error}")
            continue
        try:
            said = JUDGES[judge](other, arrays)
        except RuntimeError as error:
            findings.append(f"{judge} refuses what was written again: {error}")
            continue
        found = {way: difference(x, expected, case.tolerance) for way, x in {**ways, "again": said}.items()}
        wrong = {way: words for way, words in found.items() if words is not None}
        if not wrong and facts_hold(gp.load(path), expected):
            return None
        findings.append(f"{judge}: {wrong or 'shapes that are claimed'}")
    if not findings:
        raise UnjudgedError("; ".join(refusals))
    return "; ".join(findings)


def difference(found: Sequence[Array], expected: Sequence[Array], tolerance: float) -> str | None:
    """Return a description of the first difference; `None` if the results agree."""
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape:
            return f"result {number} has shape {a.shape}, not {b.shape}"
        if a.dtype != b.dtype:
            return f"result {number} is {a.dtype}, not {b.dtype}"
        if b.dtype.kind in "iub":
            if not np.array_equal(a, b):
                return f"result {number}: {int(np.sum(a != b))} of {a.size} integers differ: {_first(a, b, a != b)}"
            continue
        unit = {"float16": 2e-3, "bfloat16": 2e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}.get(b.dtype.name, 0.0)
        x, y = a.astype(np.float64), b.astype(np.float64)
        largest = float(np.max(np.abs(y[np.isfinite(y)]), initial=0))
        near = np.isclose(
            x, y, rtol=max(tolerance, unit), atol=max(tolerance, unit) * min(largest, 1) + 1e-30, equal_nan=True
        )
        if not near.all():
            return f"result {number}: {int(np.sum(~near))} of {a.size} numbers differ: {_first(a, b, ~near)}"
    return None


def _first(a: Array, b: Array, differs: Array) -> str:
    place = tuple(int(k) for k in np.argwhere(differs)[0])
    return f"{a[place]}, not {b[place]} at {place}"


def facts_hold(model: gp.Model, results: Sequence[Array]) -> bool:
    """Return whether the facts of the outputs agree with the results."""
    for value, array in zip(model.outputs.values(), results, strict=True):
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.shape is None:
            continue
        if len(fact.shape) != array.ndim:
            return False
        if any(isinstance(d, int) and d != n for d, n in zip(fact.shape, array.shape, strict=True)):
            return False
    return True
