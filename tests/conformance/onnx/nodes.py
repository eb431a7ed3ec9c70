"""The node tests of the `onnx` package: models, inputs, expected outputs, and results of graphport and ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
from onnx.backend.test.case.model import _SimpleModelTestCases, collect_testcases
from onnx.backend.test.case.node import _NodeTestCases
from onnx.backend.test.loader import load_node_model_tests

from graphport.backends import prepare
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import raise_errors
from graphport.formats.onnx import read, to_proto

HERE = Path(__file__).parent
RELATIVE, ABSOLUTE = 1e-3, 1e-7
SAMPLE = 200


class Unsupported(Exception):
    """The model has nodes that have no canonical form."""


@cache
def names() -> list[str]:
    """Return every case in order; cases with random results have no expected outputs and are left out."""
    return (HERE / "cases.txt").read_text().split()


def unsupported() -> dict[str, str]:
    """Cases that the reference does not compute, and the first operator that is why."""
    lines = (HERE / "unsupported.txt").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def sample() -> list[str]:
    """200 of the cases, spread evenly."""
    every = names()
    return [every[index * len(every) // SAMPLE] for index in range(SAMPLE)]


class Cases(Mapping[str, Any]):
    """The cases by name, each generated on access because all take seconds; some use random numbers."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._found: dict[str, Any] = {}
        self._read = 0

        def kept(cls: type, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
            for key in members:
                if key.startswith("export"):
                    about = key.removeprefix("export_") if key != "export" else name.lower()
                    self._waiting.setdefault(about, []).append(getattr(cls, key))

        with patch("onnx.backend.test.case.base._Exporter.__init__", kept):
            load_node_model_tests()
            collect_testcases()

    def __getitem__(self, name: str) -> Any:
        near = [about for about in self._waiting if name.removeprefix("test_").startswith(about)]
        for about in sorted(near, key=len, reverse=True):
            if name not in self._found:
                self._make(about)
        if name not in self._found:  # its exporter has another name
            self._make(*(about for about in self._waiting if f"test_{about}" not in names()))
        if name not in self._found:
            self._make(*self._waiting)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        self._make(*self._waiting)
        return iter(self._found)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _make(self, *abouts: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for about in abouts:
                for export in self._waiting.pop(about, ()):
                    np.random.seed(0)  # noqa: NPY002  as its caller in `onnx` does
                    export()
        made = [*_NodeTestCases, *_SimpleModelTestCases]
        if len(made) != self._read:
            self._read = len(made)
            self._found |= {case.name: case for case in made if not case.name.startswith("test_bernoulli")}


@cache
def cases() -> Cases:
    """The cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Cases()


def data(case: Any) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs of each run of a case, as arrays and lists."""
    return [([_plain(x) for x in inputs], [_plain(x) for x in outputs]) for inputs, outputs in case.data_sets]


def _plain(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def reference(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """The outputs that the pages compute.

    Raises:
        Unsupported: a node has no canonical form.
    """
    graph, findings = legalize(read(model))
    raise_errors(findings)
    opaque = [finding.message for finding in findings if finding.code == "LEG0001"]
    if opaque:
        raise Unsupported(opaque[0].partition(" ")[0])
    names = [value.name for value in graph.inputs]
    answers = prepare(graph, "reference").run(dict(zip(names, inputs, strict=False)))
    return [answers[value.name] for value in graph.outputs]


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model read, legalized where it can be, and written again."""
    graph, findings = legalize(read(model))
    raise_errors(findings)
    return to_proto(graph)


def forms(model: onnx.ModelProto, inputs: Sequence[Any]) -> Iterator[tuple[str, onnx.ModelProto, list[Any]]]:
    """Yield the unchanged model, and models with all inputs, all but the first, and only the first as constants."""
    yield "as it is", model, list(inputs)
    constants = {each.name for each in model.graph.initializer}
    given = [each for each in model.graph.input if each.name not in constants]
    if any(x is None or isinstance(x, list | dict) for x in inputs) or not given:
        return
    chosen = {"constant": given, "first free": given[1:], "first constant": given[:1]}
    for name, known in chosen.items() if len(given) > 1 else [("constant", given)]:
        twin = onnx.ModelProto()
        twin.CopyFrom(model)
        twin.ir_version = max(twin.ir_version, 4)
        names = [each.name for each in known]
        arrays = {each.name: np.asarray(x) for each, x in zip(given, inputs, strict=False)}
        twin.graph.initializer.extend(onnx.numpy_helper.from_array(arrays[each], each) for each in names)
        kept = [each for each in twin.graph.input if each.name not in names]
        del twin.graph.input[:]
        twin.graph.input.extend(kept)
        yield name, twin, [x for each, x in zip(given, inputs, strict=False) if each.name not in names]


def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """The outputs that ONNX Runtime computes, without rewriting anything."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    if all(x is None or isinstance(x, list) or x.dtype.kind in "biufcOU" for x in inputs):
        return list(session.run(None, dict(zip(names, inputs, strict=False))))
    values = {name: _value(x) for name, x in zip(names, inputs, strict=False)}
    return [value.numpy() for value in session.run_with_ort_values(None, values)]


def _value(x: Any) -> onnxruntime.OrtValue:
    if x.dtype.kind in "biufcOU":
        return onnxruntime.OrtValue.ortvalue_from_numpy(x)
    raw = x.view({1: np.uint8, 2: np.uint16}[x.dtype.itemsize])
    code = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, code)


def difference(found: Any, expected: Any) -> str:
    """How the two differ beyond the tolerance of the suite, or nothing."""
    if expected is None or found is None:
        return "" if found is expected else f"{found}, {expected} expected"
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return "sequences of two lengths"
        return next(filter(None, map(difference, found, expected)), "")
    a, b = np.asarray(found), np.asarray(expected)
    if b.dtype.kind in "OUS":
        return "" if a.astype(str).tolist() == b.astype(str).tolist() else "other texts"
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{a.dtype}{list(a.shape)}, {b.dtype}{list(b.shape)} expected"
    if b.dtype.kind in "biu":
        return "" if np.array_equal(a, b) else f"{int((a != b).sum())} of {b.size} differ"
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    near = np.isclose(a.astype(wide), b.astype(wide), rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
    return "" if near.all() else f"{int((~near).sum())} of {b.size} differ"


def differences(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """The first difference of an output."""
    return next(filter(None, map(difference, found, expected)), "") if len(found) >= len(expected) else "outputs miss"
