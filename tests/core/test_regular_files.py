"""Files that are opened: regular ones, whole, and as they were when they were opened."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.regular_files import contents, open_regular, regular_status
from graphport.core.storage import MappedFile

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and devices as POSIX has them")


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return path


def _device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("make", "kind"), [(_pipe, "a pipe"), (_socket, "a socket"), (_device, "a device"), (_folder, "a folder")]
)
@pytest.mark.parametrize("use", [regular_status, open_regular, contents, MappedFile])
def test_endless_files_are_not_opened(tmp_path, monkeypatch, make, kind, use):
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    with pytest.raises(OSError, match=f"it is {kind}") as caught:
        use(make(Path("file")))
    assert (caught.value.errno, Path(caught.value.filename).name) == (0, "file")


@pytest.mark.parametrize(
    "name", ["m.onnx", "m.nnef", "m.xml", "m.pnnx.param", "m.ncnn.param", "m.prototxt", "m.graphport"]
)
@pytest.mark.parametrize("make", [_pipe, _device])
def test_no_format_is_read_from_a_pipe_or_a_device(tmp_path, name, make):
    with pytest.raises(DiagnosticError, match="IO0006") as caught:
        gp.load(make(tmp_path / name))
    assert name in str(caught.value)


def test_weights_next_to_a_model_are_no_pipe(tmp_path):
    (tmp_path / "m.ncnn.param").write_text(
        "7767517\n2 2\nInput in 0 1 x 0=4\nInnerProduct fc 1 1 x y 0=3 1=0 2=12\n", encoding="ascii"
    )
    _pipe(tmp_path / "m.ncnn.bin")
    with pytest.raises(DiagnosticError, match="a pipe"):
        gp.load(tmp_path / "m.ncnn.param")


@pytest.mark.parametrize("change", ["cut", "written"])
def test_change_of_a_mapped_file_is_reported(tmp_path, change):
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(256)) * 64)
    file = MappedFile(path)
    assert file.view(0, 4).tobytes() == b"\0\1\2\3"
    with path.open("r+b") as changed:
        if change == "cut":
            changed.truncate(100)
        else:
            changed.write(b"\xff" * 200)
            os.utime(changed.fileno(), ns=(1, 1))
    with pytest.raises(OSError, match=r"changed|shorter"):
        file.view(8192, 4)


def test_mapped_file_survives_replacement_of_its_path(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"old!")
    file = MappedFile(path)
    file.view(0, 4)
    path.unlink()
    path.write_bytes(b"new!")
    assert file.view(0, 4).tobytes() == b"old!"
