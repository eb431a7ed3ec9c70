"""Every function of the API takes what people hold: paths, bytes, open files, and models of other packages."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir
import pytest

import graphport as gp
from tests.models import model, node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.array([[1.0, -2.0, 3.0]], np.float32)
WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
EXPECTED = np.maximum(X @ WEIGHT, 0)


def proto() -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", "w"], ["h"], name="product"), node("Relu", ["h"], ["y"], name="relu")]
    return model(nodes, [("x", [1, 3])], [("y", [1, 2])], {"w": WEIGHT})


def _openvino(path: Path) -> Any:
    return pytest.importorskip("openvino").Core().read_model(path)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "name": str,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "ModelProto": onnx.load,
    "onnx_ir": onnx_ir.load,
    "openvino": _openvino,
    "Model": gp.load,
}
CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "load": lambda source, folder: gp.load(source),
    "run": lambda source, folder: gp.run(source, X),
    "session": lambda source, folder: gp.session(source).run([X]),
    "inspect": lambda source, folder: gp.inspect(source),
    "simplify": lambda source, folder: gp.simplify(source),
    "prepare": lambda source, folder: gp.prepare(source),
    "cast": lambda source, folder: gp.cast(source, "float16"),
    "quantize": lambda source, folder: gp.quantize(source, np.tile(X, (8, 1)), preset="fast"),
    "edit": lambda source, folder: gp.edit(source, rename={"y": "z"}),
    "report": lambda source, folder: gp.report(source),
    "save": lambda source, folder: gp.save(source, folder / "out.onnx"),
    "to_onnx": lambda source, folder: gp.to_onnx(source),
    "convert": lambda source, folder: gp.convert(source, folder / "out.xml"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(proto(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


PAIRS = [
    (source, call)
    for source in SOURCES
    for call in CALLS
    if source in ("path", "ModelProto") or call in ("load", "run", "convert")
]


@pytest.mark.parametrize(("source", "call"), PAIRS)
def test_every_function_accepts_every_kind_of_source(source: str, call: str, path: Path, tmp_path: Path) -> None:
    found = CALLS[call](SOURCES[source](path), tmp_path)
    if call in ("run", "session"):
        (y,) = found.values()
        np.testing.assert_allclose(y, EXPECTED, rtol=1e-6)
    elif call == "convert":
        assert found.passed
        # A model in memory is written as an archive, which no other runtime reads.
        assert found.verdict.value == "consistent" if source == "Model" else found.verdict.value.startswith("verified")
        assert found.source == (str(path) if source in ("path", "name") else "<bytes>")
    elif call == "load":
        np.testing.assert_allclose(gp.run(found, X).ordered[0], EXPECTED, rtol=1e-6)
    else:
        assert found is not None


@pytest.mark.parametrize("other", SOURCES)
def test_two_models_of_any_source_are_compared(other: str, path: Path) -> None:
    assert gp.compare(path, SOURCES[other](path), [X]).passed
    assert gp.verify(path, SOURCES[other](path), {"x": X}).passed
    assert gp.find_difference(path, SOURCES[other](path), X) is None


def test_an_open_file_is_read_to_its_end(path: Path) -> None:
    with path.open("rb") as file:
        np.testing.assert_allclose(gp.run(file, X).ordered[0], EXPECTED, rtol=1e-6)


class Device:
    """An array of another package, which has DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    "inputs", [X, [X], (X,), {"x": X}, [X.tolist()], Device(X), {"x": Device(X)}], ids=lambda each: type(each).__name__
)
def test_inputs_may_be_a_mapping_a_sequence_or_an_array(inputs: Any, path: Path) -> None:
    np.testing.assert_allclose(gp.run(path, inputs).ordered[0], EXPECTED, rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ([X, X], "RUN0006"),
        ({"z": X}, "RUN0006"),
        ([[[1], [2, 3]]], "RUN0007"),
        ([object()], "RUN0007"),
        (None, "RUN0007"),
    ],
)
def test_inputs_that_do_not_fit_are_diagnosed(inputs: Any, code: str, path: Path) -> None:
    with pytest.raises(gp.DiagnosticError) as told:
        gp.run(path, inputs)
    assert code in {finding.code for finding in told.value.diagnostics}


class Module:
    """A module of torch, by name of class and package."""


Module.__module__ = "torch.nn"


@pytest.mark.parametrize(
    ("source", "remedy"),
    [(None, "pass a path"), (3, "pass a path"), (io.StringIO("x"), "pass a path"), (Module(), "from_torch")],
)
@pytest.mark.parametrize("call", [gp.load, gp.inspect, gp.simplify, gp.to_onnx, lambda source: gp.run(source, X)])
def test_an_object_that_is_no_model_is_refused_with_a_remedy(source: Any, remedy: str, call: Any) -> None:
    with pytest.raises(gp.DiagnosticError, match="IO0020") as told:
        call(source)
    assert remedy in str(told.value)


class Name:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return bytes(self.path)


class Failing(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        raise OSError("the device is gone")

    def write(self, data: Any) -> int:
        raise OSError("no space left")


ANY: Any = gp
WRONG_ARGUMENTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a text as shapes": (lambda net: ANY.load(gp.to_onnx(net), shapes="1x3"), "shapes is '1x3', expected Mapping"),
    "a dim that is None": (lambda net: ANY.load(gp.to_onnx(net), shapes={"x": [None, 3]}), r"x\[0\] is None"),
    "no backend": (lambda net: ANY.run(net, X, backend=None), "backend is None, expected str"),
    "a text as a number": (lambda net: ANY.run(net, X, threads="two"), "threads is 'two', expected int"),
    "a text as limits": (lambda net: ANY.compare(net, net, limits="30"), "limits is '30'"),
    "a text as names": (lambda net: ANY.cut(net, "h", ["y"]), "inputs is 'h', expected Sequence"),
    "a list as a mapping": (lambda net: ANY.merge(net, net, connect=["y"]), "connect is"),
    "a field of an edit": (lambda net: ANY.edit(net, batch=1.5), "batch is 1.5, expected int"),
    "an option of a writer": (lambda net: ANY.save(net, io.BytesIO(), format="onnx", opset="x"), "opset is 'x'"),
    "no target": (lambda net: ANY.convert(net, None), "target is None"),
    "no model": (lambda net: ANY.from_onnx(None), "NoneType"),
    "a file that fails": (lambda net: ANY.load(Failing()), "the device is gone"),
    "a file that is full": (lambda net: ANY.save(net, Failing(), format="onnx"), "no space left"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_an_argument_of_another_type_is_refused_by_name(name: str, path: Path) -> None:
    call, message = WRONG_ARGUMENTS[name]
    with pytest.raises(gp.DiagnosticError, match=message) as told:
        call(gp.load(path))
    assert {each.code for each in told.value.diagnostics} <= {"IO0020", "IO0021"}


def test_numpy_numbers_and_bytes_of_paths_are_arguments(path: Path) -> None:
    found = ANY.load(Name(path), shapes={"x": np.array([1, 3])})
    np.testing.assert_array_equal(ANY.run(found, X, threads=np.int64(1))["y"], EXPECTED)


def test_reports_with_graphs_are_copied_and_pickled(path: Path) -> None:
    _, report = gp.simplify(path)
    for twin in (copy.copy(report), copy.deepcopy(report), pickle.loads(pickle.dumps(report))):  # noqa: S301
        assert [node.op for node in twin.graph] == [node.op for node in report.graph]
        assert twin.passes == report.passes


def test_a_quantized_model_is_shown_like_a_model(path: Path) -> None:
    assert repr(gp.quantize(path, np.tile(X, (8, 1)), preset="fast")).startswith("<QuantizedModel ")


def test_copies_are_independent_and_share_weights(path: Path) -> None:
    source = gp.load(path)
    twin = copy.deepcopy(source)
    twin.graph.rename(twin.inputs["x"], "other")
    assert list(source.inputs) == ["x"]
    np.testing.assert_allclose(gp.run(twin, {"other": X}).ordered[0], EXPECTED, rtol=1e-6)
    assert copy.copy(source).graph is source.graph


def test_a_pickled_model_computes_equal_results_without_its_file(path: Path) -> None:
    source = gp.load(path)
    data = pickle.dumps(source)
    path.unlink()
    found = pickle.loads(data)  # noqa: S301  its own data
    assert (found.format, found.versions, found.path) == (source.format, source.versions, source.path)
    np.testing.assert_allclose(gp.run(found, X).ordered[0], EXPECTED, rtol=1e-6)


def test_a_deep_graph_is_pickled(tmp_path: Path) -> None:
    nodes = [node("Relu", [f"v{n}"], [f"v{n + 1}"]) for n in range(3000)]
    source = gp.load(model(nodes, [("v0", [2])], [("v3000", [2])]))
    found = pickle.loads(pickle.dumps(source))  # noqa: S301  its own data
    assert len(found.graph) == 3000
    assert len(copy.deepcopy(source).graph) == 3000


def test_a_quantized_model_keeps_its_report_when_pickled(path: Path) -> None:
    source = gp.quantize(path, np.tile(X, (8, 1)), preset="fast")
    found = pickle.loads(pickle.dumps(source))  # noqa: S301  its own data
    assert found.report.snr_db == source.report.snr_db
    np.testing.assert_allclose(gp.run(found, X).ordered[0], gp.run(source, X).ordered[0])


@pytest.mark.parametrize("format", ["onnx", "tflite", "archive"])
def test_models_are_saved_to_open_files(format: str, path: Path) -> None:
    file = io.BytesIO()
    gp.save(path, file, format=format)
    file.seek(0)
    np.testing.assert_allclose(gp.run(file, X).ordered[0], EXPECTED, rtol=1e-6)


@pytest.mark.parametrize(
    ("file", "format", "text"),
    [
        (io.BytesIO(), None, "format='onnx'"),
        (io.BytesIO(), "openvino", "several files"),
        (io.StringIO(), "onnx", "opened in binary mode"),
    ],
)
def test_an_open_file_that_cannot_hold_the_model_is_refused(
    file: Any, format: str | None, text: str, path: Path
) -> None:
    with pytest.raises(gp.DiagnosticError, match=text):
        gp.save(path, file, format=format)
    assert not file.getvalue()
