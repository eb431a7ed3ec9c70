"""The one model in a folder, an archive or a compressed file is read; several are listed; hostile archives are refused."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.formats import locate, recognize
from graphport.formats.recognition import containers
from tests.models import perceptron, write_nnef, write_onnx

ENDINGS = {"textproto": ".textproto", "json": ".onnxjson", "onnxtxt": ".onnxtxt"}


@pytest.fixture
def model(tmp_path):
    return write_onnx(tmp_path / "source" / "net.onnx", perceptron())


@pytest.fixture(autouse=True)
def source_folder(tmp_path):
    (tmp_path / "source").mkdir()


def same(path, expected):
    """Whether two models compute the same on one input, in ONNX Runtime by way of the reference."""
    found, wanted = gp.load(path), gp.load(expected)
    draw = np.random.default_rng(0)
    inputs = {
        name: draw.standard_normal([int(n) if isinstance(n, int) else 2 for n in shape]).astype(np.float32)
        for name, (_, shape) in _inputs(wanted).items()
    }
    for a, b in zip(gp.run(found, inputs).values(), gp.run(wanted, inputs).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def _inputs(model):
    return {value.name: (value.fact.dtype, value.fact.shape) for value in model.graph.inputs}


def refusal(path):
    with pytest.raises(gp.DiagnosticError) as caught:
        recognize(path)
    return caught.value.diagnostics[0]


@pytest.mark.parametrize("encoding", ENDINGS)
@pytest.mark.parametrize("name", ["own", "m.bin", "m.onnx"])
def test_onnx_as_text_is_read_whatever_it_is_called(tmp_path, model, encoding, name):
    path = tmp_path / (f"m{ENDINGS[encoding]}" if name == "own" else name)
    onnx.save(onnx.load(model), path, format=encoding)
    assert recognize(path).name == "onnx"
    if encoding != "onnxtxt":  # its writer leaves out the values of initializers
        same(path, model)


@pytest.mark.parametrize(
    "text", ["ir_version: 8\ngraph {", '{"irVersion": "8", "graph": [}', "<ir_version: 8>\ng (x) =>"]
)
def test_damaged_text_is_a_diagnostic(tmp_path, text):
    path = tmp_path / "m.txt"
    path.write_text(text)
    with pytest.raises(gp.DiagnosticError, match="ONNX0008"):
        gp.load(path)


@pytest.mark.parametrize(
    "opening", ['{"irVersion": "8", "graph": ' + '{"node": [' * 5000, "ir_version: 8 graph {" + "node {" * 5000]
)
def test_deep_text_is_refused(tmp_path, opening):
    path = tmp_path / "m.txt"
    path.write_text(opening)
    with pytest.raises(gp.DiagnosticError, match=r"ONNX0008.*brackets"):
        gp.load(path)


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_a_compressed_model_is_read(tmp_path, model, ending, compress):
    path = tmp_path / f"net.onnx{ending}"
    path.write_bytes(compress(model.read_bytes()))
    same(path, model)
    path = tmp_path / "net"
    path.write_bytes(compress(model.read_bytes()))
    same(path, model)


@pytest.mark.parametrize("folder", ["", "a/", "a/b/"])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "folder"])
def test_the_one_model_in_a_container_is_read(tmp_path, model, kind, folder):
    members = {f"{folder}net.onnx": model.read_bytes(), f"{folder}README.md": b"# net", f"{folder}labels.txt": b"cat"}
    same(pack(tmp_path / "packed", kind, members), model)


def pack(path, kind, members):
    if kind == "folder":
        for name, data in members.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return path
    with tarfile.open(path, "w:gz" if kind.endswith("gz") else "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("ending", [".onnx", ".tflite", ".graphport"])
def test_models_of_each_format_are_found(tmp_path, model, ending):
    gp.save(gp.load(model), tmp_path / f"net{ending}")
    members = {f"net{ending}": (tmp_path / f"net{ending}").read_bytes(), "notes.txt": b"x"}
    same(pack(tmp_path / "packed", "zip", members), model)


@pytest.mark.parametrize("kind", ["zip", "tar", "folder"])
def test_weights_in_sidecar_files_come_with_it(tmp_path, model, kind):
    proto = onnx.load(model)
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    members = {f"m/{name}": (tmp_path / name).read_bytes() for name in ("net.onnx", "net.data")}
    same(pack(tmp_path / "packed", kind, members), model)


def test_a_zip_file_of_an_nnef_folder_is_read(tmp_path):
    folder = write_nnef(tmp_path / "net")
    members = {f"net/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    same(pack(tmp_path / "net.zip", "zip", members), folder)


@pytest.mark.parametrize("kind", ["zip", "tar", "folder"])
def test_several_models_are_listed(tmp_path, model, kind):
    found = refusal(pack(tmp_path / "packed", kind, {"a.onnx": model.read_bytes(), "b/c.onnx": model.read_bytes()}))
    assert found.code == "IO0018"
    assert "packed contains 2 models: a.onnx, b/c.onnx" in found.message


@pytest.mark.parametrize("name", ["onnx/model.onnx", "model.onnx"])
def test_the_exported_model_of_a_hugging_face_folder_is_read(tmp_path, model, name):
    data = model.read_bytes()
    members = {"config.json": json.dumps({"model_type": "bert"}).encode(), name: data}
    members |= {name.replace("model.", "model_fp16."): data, name.replace("model.", "model_quantized."): data}
    folder = pack(tmp_path / "bert", "folder", members)
    assert locate(folder).path == folder / name
    same(folder, model)


def test_several_exported_models_of_a_hugging_face_folder_are_listed(tmp_path, model):
    names = ["onnx/decoder_model.onnx", "onnx/encoder_model.onnx"]
    config = {"config.json": json.dumps({"model_type": "bert"}).encode()}
    found = refusal(pack(tmp_path / "t5", "folder", config | {name: model.read_bytes() for name in names}))
    assert found.code == "IO0018"
    assert "t5 contains 2 models: onnx/decoder_model.onnx, onnx/encoder_model.onnx" in found.message
    folder = pack(tmp_path / "one", "folder", config | {names[1]: model.read_bytes()})
    assert locate(folder).path == folder / names[1]


def test_members_outside_of_the_archive_are_not_written(tmp_path, model):
    members = {"net.onnx": model.read_bytes(), "../evil.txt": b"x", f"{tmp_path}/absolute.txt": b"x"}
    located = locate(pack(tmp_path / "packed.zip", "zip", members))
    assert {path.name for path in located.path.parent.iterdir()} == {"net.onnx"}
    assert not (located.path.parents[1] / "evil.txt").exists()
    assert not (tmp_path / "absolute.txt").exists()


@pytest.mark.parametrize("kind", ["zip", "gzip"])
def test_a_bomb_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(containers, "MAX_BYTES_AT_ANY_RATIO", 1 << 16)
    data = b"version 1.0;" + b" " * (1 << 24)
    path = pack(tmp_path / "packed", "zip", {"graph.nnef": data}) if kind == "zip" else tmp_path / "net.gz"
    if kind == "gzip":
        path.write_bytes(gzip.compress(data))
    found = refusal(path)
    assert found.code == "IO0019"
    assert "GRAPHPORT_LIMITS=container.unpacked=N" in found.help


@pytest.mark.parametrize("kind", ["zip", "gzip"])
def test_a_damaged_archive_is_refused(tmp_path, model, kind):
    data = model.read_bytes() * 3
    path = pack(tmp_path / "packed", "zip", {"net.onnx": data}) if kind == "zip" else tmp_path / "net.onnx.gz"
    if kind == "gzip":
        path.write_bytes(gzip.compress(data)[:-20])
    else:
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2 - 30] ^= 0xFF
        path.write_bytes(damaged)
    assert refusal(path).code in ("IO0017", "IO0019")


def test_a_file_is_unpacked_once_and_again_after_a_change(tmp_path, model):
    path = tmp_path / "net.onnx.gz"
    path.write_bytes(gzip.compress(model.read_bytes()))
    first = locate(path).path
    assert locate(path).path == first
    other = write_onnx(tmp_path / "other.onnx", perceptron(opset=9))
    path.write_bytes(gzip.compress(other.read_bytes()))
    assert locate(path).path.read_bytes() == other.read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as POSIX has them")
@pytest.mark.parametrize("name", ["saved_model.pb", "model.onnx", "config.json", "graph.nnef", "m.keras"])
def test_a_pipe_in_a_folder_is_not_opened(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(gp.DiagnosticError):
        gp.load(tmp_path)


def test_a_member_in_very_many_folders_is_refused(model, tmp_path):
    path = tmp_path / "m.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(model, "a/" * 2000 + "m.onnx")
    with pytest.raises(gp.DiagnosticError, match=r"IO0019.*folders"):
        gp.load(path)
