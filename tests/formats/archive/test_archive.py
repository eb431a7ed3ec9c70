from __future__ import annotations

import io
import json
import pickle
import re
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphport as gp
from graphport import Model
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage, FileStorage, storage_of
from graphport.formats import FORMATS, recognize
from graphport.formats.archive import Documents, read, write
from graphport.formats.archive.container.string_tensors import packed, unpacked
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from graphport.ops.declare import OPSET
from graphport.ops.infer import infer
from tests.every import every

F32 = DType.FLOAT32


def small(name: str = "net", count: int = 20) -> Graph:
    """y = x * w, with more weights than are written out."""
    graph = Graph(name, opsets={"": OPSET})
    x = graph.add_input("x", TensorFact(F32, (count,)))
    storage = storage_of(np.arange(count, dtype=np.float32))
    w = graph.add_constant("w", TensorFact.of(storage), storage)
    graph.append(Node("Mul", [x, w], [Value("y")], name="times"))
    graph.set_outputs([graph.first_node.output])
    infer(graph)
    return graph


def saved(folder: Path, graph: Graph | None = None, **options) -> Path:
    path = folder / "net.graphport"
    write(small() if graph is None else graph, path, **options)
    return path


def error_codes(path: Path) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    return [finding.code for finding in caught.value.diagnostics]


def rebuilt(path: Path, change, *, compression=zipfile.ZIP_STORED) -> Path:
    """The archive with its members changed by `change(name, data)`; `None` leaves one out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            new = change(name, data)
            if new is not None:
                archive.writestr(zipfile.ZipInfo(name), new, zipfile.ZIP_STORED if name == "mimetype" else compression)
    return path


def with_manifest(path: Path, **changes) -> Path:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps(json.loads(data) | changes).encode() if name == "manifest.json" else data

    return rebuilt(path, change)


def test_graph_round_trips(tmp_path):
    graph = small()
    again, warnings = read(saved(tmp_path, graph))
    verify(again)
    assert warnings == []
    assert to_text(again, inline=None) == to_text(graph, inline=None)


def test_archive_is_deterministic(tmp_path):
    first = saved(tmp_path).read_bytes()
    second = saved(tmp_path).read_bytes()
    assert first == second


def test_an_archive_of_an_archive_is_the_same(tmp_path):
    path = saved(tmp_path, documents=Documents(provenance={"source": "net.onnx"}))
    gp.convert(path, tmp_path / "copy.graphport")
    assert path.read_bytes() == (tmp_path / "copy.graphport").read_bytes()


def test_there_and_back_is_the_same(tmp_path):
    gp.save(Model(small()), tmp_path / "a.onnx")
    gp.convert(tmp_path / "a.onnx", tmp_path / "a.graphport")
    gp.convert(tmp_path / "a.graphport", tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_any_unzip_opens_it(tmp_path):
    with zipfile.ZipFile(saved(tmp_path)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["mimetype", "manifest.json", "graph.txt", "weights/w0"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("count", [17, 18, 19, 100])
def test_weights_begin_at_multiples_of_64_bytes_and_stay_in_the_file(tmp_path, count):
    graph, _ = read(saved(tmp_path, small(count=count)))
    (value,) = graph.constants
    assert isinstance(value.storage, FileStorage)
    assert value.storage.start % 64 == 0
    np.testing.assert_array_equal(value.storage.numpy(), np.arange(count))


def test_numbers_that_are_shared_are_written_once(tmp_path):
    graph = small()
    storage = next(iter(graph.constants)).storage
    other = graph.add_constant("v", TensorFact.of(storage), storage)
    graph.append(Node("Add", [graph.outputs[0], other], [Value("z")]))
    graph.set_outputs([graph.last_node.output])
    with zipfile.ZipFile(saved(tmp_path, graph)) as archive:
        assert [name for name in archive.namelist() if name.startswith("weights/")] == ["weights/w0"]


@every("dtype", [each for each in DType if each is not DType.STRING], ids=str)
def test_every_dtype_round_trips(tmp_path, dtype):
    array = (
        np.arange(40).astype(np.int8).astype(dtype.numpy) % dtype.numpy.type(2)
        if dtype.kind in "iu"
        else np.ones(40).astype(dtype.numpy)
    )
    graph = Graph()
    storage = ArrayStorage(array, dtype)
    graph.set_outputs([graph.add_constant("w", TensorFact.of(storage), storage)])
    again, _ = read(saved(tmp_path, graph))
    found = again.outputs[0].storage
    assert found.dtype is dtype
    assert b"".join(map(bytes, found.chunks())) == b"".join(map(bytes, storage.chunks()))


@given(st.lists(st.text() | st.binary(), max_size=5))
def test_strings_round_trip(elements):
    array = np.empty(len(elements), object)
    array[:] = elements
    storage = ArrayStorage(array, DType.STRING)
    assert unpacked(packed(storage), (len(elements),), len(elements)).numpy().tolist() == elements


@given(st.binary(max_size=40), st.integers(0, 4))
def test_any_bytes_are_texts_or_not(data, count):
    found = unpacked(data, (count,), count)
    assert found is None or found.count == count


def test_string_tensor_round_trips(tmp_path):
    graph = Graph()
    storage = storage_of(np.array([f"word {index}" for index in range(30)], object))
    graph.set_outputs([graph.add_constant("w", TensorFact.of(storage), storage)])
    again, _ = read(saved(tmp_path, graph))
    assert again.outputs[0].storage.numpy().tolist() == storage.numpy().tolist()


def test_only_plain_notes_round_trip(tmp_path):
    graph = small()
    graph.inputs[0].notes.update(original_name="x:0", place=object(), size=2, ratio=0.5)
    graph.first_node.notes["comment"] = "scaled"
    graph.notes["producer"] = "me"
    again, _ = read(saved(tmp_path, graph))
    assert again.inputs[0].notes == {"original_name": "x:0", "size": 2, "ratio": 0.5}
    assert again.first_node.notes == {"comment": "scaled"}
    assert again.notes["producer"] == "me"


def test_dialect_op_types_round_trip(tmp_path):
    graph = Graph()
    x = graph.add_input("x", TensorFact(F32, (2,)))
    graph.append(Node("Fancy", [x], [Value("y")], {"gain": 2}, dialect="caffe"))
    graph.set_outputs([graph.first_node.output])
    again, _ = read(saved(tmp_path, graph))
    assert (again.first_node.op, again.first_node.attributes) == ("caffe.Fancy", {"gain": 2})
    report = gp.convert(tmp_path / "net.graphport", tmp_path / "copy.graphport", shapes={"x": (2,)})
    assert report.unsupported == {}


def test_a_graph_of_an_older_opset_is_upgraded(tmp_path):
    graph = small()
    graph.opsets[""] = 13
    model = gp.load(saved(tmp_path, graph))
    assert model.graph.opsets == {"": OPSET}
    assert [node.op for node in model.graph] == ["Mul"]


def test_archive_is_recognized_by_content(tmp_path):
    path = saved(tmp_path).rename(tmp_path / "renamed.bin")
    assert recognize(path) is FORMATS["archive"]


# What is wrong


def test_another_signature_is_refused(tmp_path):
    path = rebuilt(saved(tmp_path), lambda name, data: b"application/epub+zip" if name == "mimetype" else data)
    assert error_codes(path) == ["IO0201"]


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"nonsense" * 100])
def test_a_file_that_is_not_an_archive_is_refused(tmp_path, data):
    path = tmp_path / "net.graphport"
    path.write_bytes(data)
    assert [finding.code for finding in gp.check(path)] == ["IO0201"]


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_refused(tmp_path, kept):
    path = saved(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    assert error_codes(path) == ["IO0202"]


def test_every_changed_weight_is_named(tmp_path):
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    place = data.index(struct.pack("<2f", 5, 6))
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DiagnosticError, match="checksum mismatch of 'weights/w0'") as caught:
        read(path)
    assert [finding.code for finding in caught.value.diagnostics] == ["IO0203"]


def test_a_newer_layout_is_refused(tmp_path):
    assert error_codes(with_manifest(saved(tmp_path), version=[10, 0])) == ["IO0204"]


def test_a_slightly_newer_layout_is_a_warning(tmp_path):
    # As numbers: as texts, 10 would be older than 9.
    graph, warnings = read(with_manifest(saved(tmp_path), version=[1, 10]))
    assert len(graph) == 1
    assert [(finding.code, finding.is_error) for finding in warnings] == [("IO0205", False)]


def test_a_required_section_that_is_unknown_is_refused(tmp_path):
    sections = [{"name": "graph", "member": "graph.txt", "required": True}, {"name": "secrets", "required": True}]
    assert error_codes(with_manifest(saved(tmp_path), sections=sections)) == ["IO0206"]


def test_another_section_that_is_unknown_is_a_warning(tmp_path):
    sections = [{"name": "graph", "member": "graph.txt", "required": True}, {"name": "plots", "required": False}]
    _, warnings = read(with_manifest(saved(tmp_path), sections=sections))
    assert [finding.code for finding in warnings] == ["IO0205"]


@pytest.mark.parametrize("missing", ["manifest.json", "graph.txt", "weights/w0"])
def test_a_member_that_does_not_exist_is_named(tmp_path, missing):
    path = rebuilt(saved(tmp_path), lambda name, data: None if name == missing else data)
    assert error_codes(path) == ["IO0207"]


def test_weights_that_the_text_has_and_the_manifest_has_not(tmp_path):
    assert error_codes(with_manifest(saved(tmp_path), weights={})) == ["IO0107"]


def test_a_value_without_producer(tmp_path):
    path = rebuilt(
        saved(tmp_path), lambda name, data: data.replace(b"return %y", b"return %z") if name == "graph.txt" else data
    )
    assert error_codes(path) == ["IO0103"]


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        pytest.param(b"%y: float32[20]", b"%y: float32[21]", "warning", id="another shape than it has"),
        pytest.param(b"%y: float32[20]", b"%y: int64[20]", "error", id="another type than it has"),
        pytest.param(b"Mul(%x, %w)", b"Mul(%x)", "error", id="an operand missing"),
        pytest.param(b"%x: float32[20]", b"%x: float32[7]", "error", id="extents that do not fit"),
    ],
)
def test_inconsistent_graph_is_reported(tmp_path, old, new, severity):
    path = rebuilt(saved(tmp_path), lambda name, data: data.replace(old, new, 1) if name == "graph.txt" else data)
    findings = gp.check(path)
    assert {finding.code for finding in findings} <= {"SHAPE0001", "SHAPE0002"}
    assert findings[0].severity == severity
    assert "graph.txt:" in str(findings[0].span)


OPERATORS = (
    'graph net(%x: float32[1, 2, 8, 8]) opsets {"" = 26} {\n'
    "  constant %w = float32[2, 1, 3, 3](...)\n"
    "  constant %k = int64[1](2)\n"
    '  %h = Conv(%x, %w) {group = 2, pads = (1, 1, 1, 1), auto_pad = "NOTSET"}\n'
    "  %p, %i = MaxPool(%h) {kernel_shape = (2, 2), strides = (2, 2)}\n"
    "  %t, _ = TopK(%p, %k) {axis = -1, largest = 1}\n"
    "  %c = Cast(%t) {to = float16}\n"
    "  %f = caffe.Softmax(%p) {axis = 1}\n"
    "  return %c, %f\n"
    "}\n"
)


def with_text(folder: Path, text: str) -> Path:
    path = saved(folder, Graph())
    return rebuilt(path, lambda name, data: text.encode() if name == "graph.txt" else data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("group = 2", 'group = "a"'),
        ("group = 2", "group = 1.5"),
        ("group = 2", "group = none"),
        ("group = 2", "group = 99999999999999999999"),
        ("pads = (1, 1, 1, 1)", "pads = 1"),
        ("pads = (1, 1, 1, 1)", "pads = (1, 1, 1, (1))"),
        ("pads = (1, 1, 1, 1)", "pads = int64[4](1, 1, 1, 1)"),
        ('auto_pad = "NOTSET"', "auto_pad = 3"),
        ("to = float16", 'to = "float16"'),
    ],
)
def test_an_attribute_of_another_type_is_refused(tmp_path, old, new):
    text = OPERATORS.replace("(...)", f"({', '.join(['0.5'] * 18)})")
    assert gp.check(with_text(tmp_path, text)) == []
    assert error_codes(with_text(tmp_path, text.replace(old, new))) == ["IO0216"]


def test_an_attribute_of_another_type_of_a_dialect_is_refused(tmp_path):
    text = OPERATORS.replace("(...)", f"({', '.join(['0.5'] * 18)})")
    changed = text.replace("caffe.Softmax(%p) {axis = 1}", 'caffe.Softmax(%p) {axis = "a"}')
    (finding,) = gp.check(with_text(tmp_path, changed))
    assert (finding.code, finding.is_error) == ("SHAPE0001", True)
    assert "axis is 'a', expected int" in finding.message


_TOKEN = re.compile(r"-?[0-9][0-9.]*|%\w+|\"\w+\"|\([0-9, ]+\)|(?<== )[\w.]+")


@given(st.data())
def test_invalid_edits_of_a_graph_are_reported(tmp_path_factory, data):
    text = OPERATORS.replace("(...)", f"({', '.join(['0.5'] * 18)})")
    for _ in range(data.draw(st.integers(1, 3))):
        found = list(_TOKEN.finditer(text))
        place = data.draw(st.sampled_from(found))
        others = [
            "0",
            "-1",
            "1.5",
            '"a"',
            "(1, 2)",
            "none",
            "float32",
            "true",
            "1" * 20,
            data.draw(st.sampled_from(found))[0],
        ]
        text = text[: place.start()] + data.draw(st.sampled_from(others)) + text[place.end() :]
    findings = gp.check(with_text(tmp_path_factory.mktemp("net"), text))
    assert all(finding.code for finding in findings)


def test_compressed_members_are_refused(tmp_path):
    assert error_codes(rebuilt(saved(tmp_path), lambda _, data: data, compression=zipfile.ZIP_DEFLATED)) == ["IO0208"]


def test_duplicate_members_are_rejected(tmp_path):
    path = saved(tmp_path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("graph.txt", "graph other() {\n return\n}\n")
    assert error_codes(path) == ["IO0209"]


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1.0"},
        {"version": [1]},
        {"version": [0, 1]},
        {"sections": {}},
        {"sections": [1]},
        {"sections": [{"member": "graph.txt"}]},
        {"sections": []},
        {"weights": []},
        {"weights": {"w0": {"member": "weights/w0"}}},
        {"weights": {"w0": {"member": "weights/w0", "dtype": "float31", "shape": [20]}}},
        {"weights": {"w0": {"member": "weights/w0", "dtype": "float32", "shape": [-20]}}},
        {"weights": {"w0": {"member": "weights/w0", "dtype": "float32", "shape": [1 << 62, 4]}}},
    ],
    ids=str,
)
def test_a_wrong_manifest_is_refused(tmp_path, changes):
    assert error_codes(with_manifest(saved(tmp_path), **changes)) == ["IO0210"]


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"\xff", b"[" * 100_000], ids=["open", "a list", "no UTF-8", "nested deep"]
)
def test_a_manifest_that_is_no_object_is_refused(tmp_path, data):
    path = rebuilt(saved(tmp_path), lambda name, old: data if name == "manifest.json" else old)
    assert error_codes(path) == ["IO0210"]


def test_weights_of_wrong_size_are_rejected(tmp_path):
    weights = {"w0": {"member": "weights/w0", "dtype": "float32", "shape": [21]}}
    assert error_codes(with_manifest(saved(tmp_path), weights=weights)) == ["IO0212"]


def test_a_newer_opset_is_refused(tmp_path):
    graph = small()
    graph.opsets[""] = OPSET + 1
    assert error_codes(saved(tmp_path, graph)) == ["IO0214"]


def test_a_file_that_cannot_be_written_is_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiagnosticError) as caught:
        write(small(), tmp_path / "file" / "net.graphport")
    assert [finding.code for finding in caught.value.diagnostics] == ["IO0215"]


def test_writing_that_fails_leaves_the_old_file(tmp_path):
    path = saved(tmp_path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write(small(), path, documents=Documents(provenance={"what": object()}))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


class Trap:
    """What a pickle may do: run anything."""

    def __reduce__(self):
        return pytest.fail, ("the file was run",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_graph_of_ppq_is_refused_and_not_run(tmp_path, protocol):
    data = io.BytesIO()
    for item in ("PPQ GRAPH DEFINITION", "0.6.6", Trap()):
        pickle.dump(item, data, protocol)
    path = tmp_path / "quantized.native"
    path.write_bytes(data.getvalue())
    findings = gp.check(path)
    assert [finding.code for finding in findings] == ["IO0213"]
    assert "ONNX" in findings[0].help


@given(st.data())
def test_damage_is_refused_or_harmless(tmp_path_factory, data):
    path = saved(tmp_path_factory.mktemp("net"))
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        graph, _ = read(path)
    except DiagnosticError as error:
        assert {finding.code[:4] for finding in error.diagnostics} == {"IO02"}  # noqa: PT017
    else:
        assert to_text(graph, inline=None) == to_text(small(), inline=None)


def test_source_may_be_overwritten_after_reading(tmp_path):
    path = saved(tmp_path)
    graph, _ = read(path)
    graph.rename(graph.inputs[0], "renamed")
    write(graph, path)
    again, _ = read(path)
    assert again.inputs[0].name == "renamed"
    np.testing.assert_array_equal(next(iter(again.constants)).storage.numpy(), np.arange(20))
    shutil.rmtree(tmp_path)
