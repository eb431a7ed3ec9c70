"""Run a model through every verb and format, and compare each result with that of an independent program.

Every step ends as `right`, `refused` (a diagnostic), or with a fault: wrong values, an exception, or a written file
that we cannot read or its native runtime refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import graphport as gp
from graphport import DiagnosticError

RIGHT, REFUSED = "right", "refused"
SUFFIXES = {"onnx": ".onnx", "openvino": ".xml", "pnnx": ".pnnx.param", "nnef": "", "ncnn": ".ncnn.param"}
OPEN = ("onnx", "openvino")
"""Formats that keep extents open, and are judged by their own runtimes here."""

_TOLERANCE = {"float16": 2e-2, "bfloat16": 8e-2}
_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Sample:
    """Inputs and expected outputs of the network, by position."""

    inputs: Arrays
    outputs: Arrays


@dataclass
class Journey:
    """The result of each step."""

    found: dict[str, str] = field(default_factory=dict)

    @property
    def faults(self) -> dict[str, str]:
        """Steps that neither ended well nor were refused."""
        return {step: end for step, end in self.found.items() if end not in (RIGHT, REFUSED)}

    def take(self, step: str, act: Callable[[], str]) -> bool:
        try:
            end = act() or RIGHT
        except DiagnosticError as error:
            end = _refusal(error)
        except Exception as error:  # noqa: BLE001  any exception is the result of the step
            end = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self.found[step] = end
        return end == RIGHT


class Unreadable(Exception):
    """We do not read, or cannot run, what we wrote."""


def travel(path: Path, samples: Mapping[str, Sample], folder: Path, *, tolerance: float = 1e-3) -> Journey:
    """Run the model at `path` through every verb and format; formats with static dims get those of the first sample."""
    journey = Journey()
    models: list[Any] = []

    def load() -> str:
        models.append(gp.load(path))
        return ""

    if not journey.take("load", load):
        return journey
    model = models[0]
    for backend in ("auto", "reference"):
        journey.take(backend, lambda b=backend: _compared(samples, lambda x: run(model, x, b), tolerance))
    for verb in ("simplify", "prepare"):
        act = getattr(gp, verb)
        journey.take(
            verb, lambda a=act, v=verb: _written(a(model, verify=False)[0], "onnx", folder / v, samples, tolerance)
        )
    first = dict(list(samples.items())[:1])
    for name in SUFFIXES:
        known = samples if name in OPEN else first
        journey.take(
            name,
            lambda n=name, k=known: _written(
                model if n in OPEN else bound(path, next(iter(first.values()))), n, folder / n, k, tolerance
            ),
        )
    return journey


def bound(path: Path, sample: Sample) -> Any:
    """The model with the extents of a sample."""
    names = list(gp.load(path).inputs)
    return gp.load(path, shapes={name: np.shape(x) for name, x in zip(names, sample.inputs, strict=True)})


def run(model: Any, inputs: Arrays, backend: str = "auto") -> list[Any]:
    """The outputs of our own run, by position."""
    fed = {name: _fitted(model.inputs[name], x) for name, x in zip(model.inputs, inputs, strict=True)}
    return list(gp.run(model, fed, backend=backend).values())


def by_onnx_runtime(path: Path, inputs: Arrays) -> list[Any]:
    """The outputs of ONNX Runtime, with its optimizer off."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    return session.run(None, {put.name: x for put, x in zip(session.get_inputs(), inputs, strict=True)})


def by_openvino(path: Path, inputs: Arrays) -> list[Any]:
    """The outputs of OpenVINO, without its shortcuts in precision."""
    import openvino

    hints = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    core = openvino.Core()
    request = core.compile_model(core.read_model(path), "CPU", hints).create_infer_request()
    request.infer({index: np.ascontiguousarray(x).reshape(np.shape(x)) for index, x in enumerate(inputs)})
    return [request.get_output_tensor(i).data.copy() for i in range(len(request.model_outputs))]


_RUNTIMES = {"onnx": by_onnx_runtime, "openvino": by_openvino}


def _written(model: Any, name: str, stem: Path, samples: Mapping[str, Sample], tolerance: float) -> str:
    target = stem.with_name(stem.name + SUFFIXES[name])
    gp.save(model, target, format=name)
    try:
        again = gp.load(target)
        end = _compared(samples, lambda x: run(again, x), tolerance, types=name == "onnx", batch=name != "ncnn")
    except DiagnosticError as error:
        raise Unreadable(_sentences(error)) from error
    runtime = _RUNTIMES.get(name)
    if end or runtime is None or any(_is_narrow(x) for s in samples.values() for x in (*s.inputs, *s.outputs)):
        return end
    end = _compared(samples, lambda x: runtime(target, x), tolerance, types=name == "onnx")
    return f"its own runtime: {end}" if end else ""


def _is_narrow(x: Any) -> bool:
    return not isinstance(x, list) and np.asarray(x).dtype in _NARROW


def _compared(
    samples: Mapping[str, Sample],
    compute: Callable[[Arrays], Arrays],
    tolerance: float,
    *,
    types: bool = False,
    batch: bool = True,
) -> str:
    for size, sample in samples.items():
        end = differs(sample.outputs, compute(sample.inputs), tolerance, types=types, batch=batch)
        if end:
            return f"[{size}] {end}"
    return ""


def differs(wanted: Arrays, given: Arrays, tolerance: float, *, types: bool = False, batch: bool = True) -> str:
    """What differs first; without `batch`, shapes need only have as many elements."""
    if len(wanted) != len(given):
        return f"{len(given)} outputs for {len(wanted)}"
    for place, (want, got) in enumerate(zip(wanted, given, strict=True)):
        if isinstance(want, list) or isinstance(got, list):
            is_both = isinstance(want, list) and isinstance(got, list)
            end = differs(want, got, tolerance, types=types, batch=batch) if is_both else "a sequence and a tensor"
        else:
            end = _array_differs(np.asarray(want), np.asarray(got), tolerance, types=types, batch=batch)
        if end:
            return f"output {place}: {end}"
    return ""


def _array_differs(want: Any, got: Any, tolerance: float, *, types: bool, batch: bool) -> str:
    if not batch and got.size == want.size:
        got = got.reshape(want.shape)
    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    if types and got.dtype != want.dtype:
        return f"{got.dtype} for {want.dtype}"
    if want.dtype.kind in "OSU":
        return "" if [*map(str, want.flat)] == [*map(str, got.flat)] else "texts differ"
    if want.dtype.kind in "iub" and batch:
        count = int((np.asarray(got).astype(want.dtype) != want).sum())
        return f"{count} of {want.size} differ" if count else ""
    wide = np.complex128 if "c" in (want.dtype.kind, got.dtype.kind) else np.float64
    a, b = want.astype(wide), got.astype(wide)
    top = max(np.abs(a[np.isfinite(a)]).max(initial=0), 1e-5)
    allowed = max(tolerance, _TOLERANCE.get(want.dtype.name, 0), _TOLERANCE.get(got.dtype.name, 0)) * top
    with np.errstate(invalid="ignore"):
        bad = ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
        return (
            f"{int(bad.sum())} of {bad.size} differ, by {np.nanmax(np.abs(a - b)):.3g} of {top:.3g}"
            if bad.any()
            else ""
        )


def _fitted(value: Any, x: Any) -> Any:
    dtype = getattr(value.fact, "dtype", None)
    x = np.asarray(x)
    return x if dtype is None or x.dtype.kind in "OSU" else x.astype(dtype.numpy)


def _refusal(error: DiagnosticError) -> str:
    # A Python exception text inside a diagnostic counts as an internal error.
    words = ("object has no attribute", "NoneType", "positional argument", "unexpected keyword", "divided by 0")
    text = _sentences(error)
    return text if any(op_type in text for op_type in words) else REFUSED


def _sentences(error: DiagnosticError) -> str:
    return "; ".join(sorted({f"{each.code} {each.message}" for each in error.diagnostics}))[:300]
