"""Which format a path is in: by content first, then by name."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.formats import FORMATS, by_name, recognize
from tests.models import NNEF, perceptron, write_nnef, write_onnx

READ_ONLY = ("checkpoint", "keras", "stablehlo", "tensorflow", "torchscript")


def code_of(call, *arguments):
    with pytest.raises(DiagnosticError) as caught:
        call(*arguments)
    (finding,) = caught.value.diagnostics
    return finding.code


def archive(folder, mode):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(folder).as_posix())
    return file.getvalue()


@pytest.mark.parametrize("name", ["net.onnx", "net.nnef", "net.tgz", "net", "net.bin"])
def test_onnx_is_onnx_whatever_it_is_called(tmp_path, name):
    assert recognize(write_onnx(tmp_path / name, perceptron())).name == "onnx"


@pytest.mark.parametrize("name", ["net.nnef", "net.onnx", "net", "graph.txt"])
@pytest.mark.parametrize("before", ["", "\ufeff", "# a comment\n\n  "], ids=["plain", "byte order mark", "comment"])
def test_nnef_text_is_nnef_whatever_it_is_called(tmp_path, name, before):
    path = tmp_path / name
    path.write_text(before + NNEF, encoding="utf-8")
    assert recognize(path).name == "nnef"


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("name", ["net.nnef.tgz", "net.tar", "net", "net.onnx"])
def test_archives_of_nnef_are_nnef_whatever_they_are_called(tmp_path, mode, name):
    path = tmp_path / name
    path.write_bytes(archive(write_nnef(tmp_path / "small"), mode))
    assert recognize(path).name == "nnef"


def test_a_folder_with_a_graph_is_nnef(tmp_path):
    assert recognize(write_nnef(tmp_path / "small.onnx")).name == "nnef"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("empty.onnx", "onnx"),
        ("empty.nnef", "nnef"),
        ("empty.nnef.tgz", "nnef"),
        ("EMPTY.ONNX", "onnx"),
        ("a.onnx.nnef", "nnef"),
    ],
)
def test_the_name_decides_where_the_content_states_nothing(tmp_path, name, expected):
    path = tmp_path / name
    path.write_bytes(b"")
    assert recognize(path).name == expected


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "IO0002"),
        (b"hello", "IO0002"),
        (b"\0" * 5000, "IO0002"),
        (b"\x08\x08", "IO0002"),
        (b"PK\x03\x04" + b"\0" * 100, "IO0017"),
        (gzip.compress(b"hello", mtime=0), "IO0017"),
    ],
)
def test_what_is_in_no_format_is_refused(tmp_path, content, code):
    path = tmp_path / "net.bin"
    path.write_bytes(content)
    assert code_of(recognize, path) == code


def test_an_empty_folder_is_refused(tmp_path):
    assert code_of(recognize, tmp_path) == "IO0017"


@pytest.mark.parametrize("name", ["missing.onnx", "missing/net.onnx", "", "file/net.onnx", "nul\0.onnx"])
def test_what_is_not_there_is_reported(tmp_path, name):
    (tmp_path / "file").write_text("hello")
    path = tmp_path / name if name else tmp_path / "nowhere"
    assert code_of(recognize, path) == "IO0001"


def test_a_name_that_the_system_refuses_is_reported(tmp_path):
    assert code_of(recognize, tmp_path / ("n" * 5000)) == "IO0006"


def test_what_may_not_be_read_is_reported(tmp_path, monkeypatch):
    path = write_onnx(tmp_path / "net.onnx", perceptron())

    def refuse(*_arguments: object, **_options: object):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    # Root may read everything, so the mode of the file would tell nothing there.
    monkeypatch.setattr(os, "open", refuse)
    assert code_of(recognize, path) == "IO0006"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("net.onnx", "onnx"),
        ("net.nnef", "nnef"),
        ("net.nnef.tgz", "nnef"),
        ("net.tar.gz", "nnef"),
        ("net.Nnef.Tgz", "nnef"),
        ("folder", "nnef"),
        ("folder/", "nnef"),
        ("dotted.folder/net", "nnef"),
    ],
)
def test_the_ending_states_what_is_written(name, expected):
    assert by_name(name).name == expected


def test_a_format_that_is_named_overrules_the_ending():
    assert by_name("net.onnx", "nnef").name == "nnef"


@pytest.mark.parametrize(("path", "name"), [("net.xyz", None), ("net.onnx", "xyz"), ("net.onnx", "")])
def test_what_states_no_format_is_reported(path, name):
    assert code_of(by_name, path, name) == "IO0003"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_and_all_but_some_are_written(name):
    assert FORMATS[name].writes == (name not in READ_ONLY)


def test_what_is_only_read_is_reported():
    assert code_of(by_name, "net.mlir") == "IO0003"


def test_versions_are_those_of_the_file(tmp_path):
    onnx, nnef = FORMATS["onnx"], FORMATS["nnef"]
    graph, _ = onnx.read(write_onnx(tmp_path / "net.onnx", perceptron(opset=9)))
    assert onnx.versions(graph) == {"ai.onnx": "9"}
    graph, _ = nnef.read(write_nnef(tmp_path / "small"))
    assert nnef.versions(graph) == {"edition": "final"}
    old = write_nnef(tmp_path / "old", NNEF.replace(";", "\n"))
    graph, _ = nnef.read(old, edition="provisional", unknown="ignored")
    assert nnef.versions(graph) == {"edition": "provisional"}


@pytest.mark.parametrize(
    ("dialect", "kept"),
    [("com.microsoft", True), ("onnx", True), ("onnx:nnef", True), ("nnef", False), ("pnnx", False)],
)
def test_onnx_keeps_nodes_of_its_domains(dialect, kept):
    assert FORMATS["onnx"].keeps(dialect) is kept
    assert not FORMATS["nnef"].keeps(dialect)
