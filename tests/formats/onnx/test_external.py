from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from graphport.core.diagnostics import DiagnosticError
from graphport.core.storage import FileStorage
from graphport.formats.onnx import from_proto, read
from tests.formats.onnx.models import model, tensor

NUMBERS = np.arange(8, dtype=np.float32)


def outside(**entries: str) -> ModelProto:
    """Return a model whose weight [8] is external at the location in `entries`."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", [8])], initializer=[weight])


def codes(path: Path, **entries: str) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        from_proto(outside(**entries), folder=path)
    return [finding.code for finding in caught.value.diagnostics]


def weight(path: Path, **entries: str) -> FileStorage:
    (value,) = from_proto(outside(**entries), folder=path).constants
    assert isinstance(value.storage, FileStorage)
    return value.storage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "model"
    home.mkdir()
    (home / "w.bin").write_bytes(b"head" + NUMBERS.tobytes() + b"tail")
    (tmp_path / "secret.bin").write_bytes(NUMBERS.tobytes())
    return home


@pytest.mark.parametrize("more", [{"length": "32"}, {}, {"length": "32", "checksum": "ab"}])
def test_weights_are_views_on_the_file(folder: Path, more: dict[str, str]) -> None:
    storage = weight(folder, location="w.bin", offset="4", **more)
    np.testing.assert_array_equal(storage.numpy(), NUMBERS)
    assert storage.start == 4


def test_external_data_is_read_next_to_the_model(folder: Path) -> None:
    path = folder / "net.onnx"
    path.write_bytes(outside(location="w.bin", offset="4").SerializeToString())
    (value,) = read(path).constants
    assert value.storage is not None
    np.testing.assert_array_equal(value.storage.numpy(), NUMBERS)


def test_a_hard_link_and_a_link_inside_the_folder_are_read(folder: Path) -> None:
    os.link(folder / "w.bin", folder / "hard.bin")
    (folder / "soft.bin").symlink_to("w.bin")
    for name in ("hard.bin", "soft.bin", "./w.bin"):
        np.testing.assert_array_equal(weight(folder, location=name, offset="4").numpy(), NUMBERS)


def test_a_file_in_a_folder_below_is_read(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "w").write_bytes(NUMBERS.tobytes())
    np.testing.assert_array_equal(weight(folder, location="deep/w").numpy(), NUMBERS)


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "deep/../../secret.bin", "/etc/hostname", "C:\\w.bin", "\\\\host\\w", "..\\w", "", "a\0b"],
)
def test_a_location_outside_of_the_folder_is_refused(folder: Path, location: str) -> None:
    assert codes(folder, location=location) == ["ONNX0401"]


def test_a_link_that_leaves_the_folder_is_refused(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    (folder / "up").symlink_to(folder.parent)
    assert codes(folder, location="link.bin") == ["ONNX0401"]
    assert codes(folder, location="up/secret.bin") == ["ONNX0401"]


def test_external_data_that_is_no_regular_file_is_rejected(folder: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    for location in ("sub", "pipe", "loop", "missing.bin", "w.bin/x"):
        assert codes(folder, location=location) == ["ONNX0402"], location


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        pytest.param({"offset": "8"}, [], id="right up to the end"),
        pytest.param({"offset": "9"}, ["ONNX0403"], id="one byte behind"),
        pytest.param({"offset": "9" * 25}, ["ONNX0403"], id="behind every file"),
        pytest.param({"offset": "9" * 5000}, ["ONNX0404"], id="no number any more"),
        pytest.param({"offset": "-4"}, ["ONNX0404"], id="negative"),
        pytest.param({"offset": "4.0"}, ["ONNX0404"], id="no integer"),
        pytest.param({"offset": "٤"}, ["ONNX0404"], id="other digits"),
        pytest.param({"length": "31"}, ["ONNX0404"], id="another length"),
        pytest.param({"length": "x"}, ["ONNX0404"], id="no length"),
    ],
)
def test_ranges_are_checked_against_the_file(folder: Path, entries: dict[str, str], code: list[str]) -> None:
    if code:
        assert codes(folder, location="w.bin", **entries) == code
    else:
        assert weight(folder, location="w.bin", **entries).start == 8


def test_a_model_in_memory_has_no_files() -> None:
    with pytest.raises(DiagnosticError, match="folder"):
        from_proto(outside(location="w.bin"))


def test_texts_are_not_looked_for_in_files(folder: Path) -> None:
    proto = outside(location="w.bin")
    proto.graph.initializer[0].data_type = TensorProto.STRING
    with pytest.raises(DiagnosticError, match="ONNX0404"):
        from_proto(proto, folder=folder)


def test_external_data_of_a_symlinked_model_is_read_next_to_the_link(folder: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    (blobs / "1f").write_bytes(outside(location="w.bin", offset="4").SerializeToString())
    os.link(folder / "w.bin", blobs / "2e")
    (snapshot / "net.onnx").symlink_to("../blobs/1f")
    (snapshot / "w.bin").symlink_to("../blobs/2e")
    (value,) = read(snapshot / "net.onnx").constants
    assert value.storage is not None
    np.testing.assert_array_equal(value.storage.numpy(), NUMBERS)
    (snapshot / "w.bin").unlink()
    (snapshot / "w.bin").symlink_to("../secret.bin")
    with pytest.raises(DiagnosticError, match="ONNX0401"):
        read(snapshot / "net.onnx")
