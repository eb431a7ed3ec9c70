"""Models that are links: written where the link leads to, whole, and read from there."""

from __future__ import annotations

import os

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.models import model, node, typed, write_onnx

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")

KINDS = {
    "m.onnx": {"external_data": True},
    "m.xml": {},
    "m.pnnx.param": {},
    "m.ncnn.param": {},
    "m.prototxt": {},
    "m.caffemodel": {},
    "m.tflite": {},
    "m.graphport": {},
    "m.nnef.tgz": {},
    "m": {},
}


def _net(scale: float):
    constants = {"w": np.full((64, 64), scale, np.float32)}
    return model([node("MatMul", ["x", "w"], ["y"])], [typed("x", [1, 64])], [typed("y", [1, 64])], constants)


def _number(path) -> float:
    return float(gp.run(gp.load(path), {"x": np.ones((1, 64), np.float32)}, backend="reference")["y"][0, 0])


@pytest.fixture(params=["save", "convert"])
def write(request, tmp_path):
    """What writes a network with that weight to a path."""

    def written(scale, path, **options):
        if request.param == "save":
            gp.save(gp.from_onnx(_net(scale)), path, **options)
        else:
            gp.convert(write_onnx(tmp_path / "given.onnx", _net(scale)), path, verify=False, **options)

    return written


@pytest.mark.parametrize(("name", "options"), KINDS.items())
def test_model_written_through_a_symlink_keeps_the_link(tmp_path, write, name, options):
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    real, link = tmp_path / "real" / name, tmp_path / "links" / name
    write(1, real, **options)
    files = sorted(each.name for each in real.parent.iterdir())
    link.symlink_to(real)
    assert _number(link) == 64
    write(2, link, **options)
    assert link.is_symlink()
    assert _number(link) == _number(real) == 128
    assert sorted(each.name for each in real.parent.iterdir()) == files
    assert [each.name for each in link.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["m.xml", "m.pnnx.param", "m.ncnn.param", "m.prototxt"])
def test_a_cache_that_has_each_file_under_another_name_is_written_whole(tmp_path, write, name):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    snapshot.mkdir()
    write(1, snapshot / name)
    blobs.mkdir()
    for number, each in enumerate(sorted(snapshot.iterdir())):
        (snapshot / each.name).rename(blobs / str(number))
        each.symlink_to(blobs / str(number))
    write(2, snapshot / name)
    assert _number(snapshot / name) == 128
    assert sorted(each.name for each in blobs.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("name", ["m.xml", "m.pnnx.param", "m.ncnn.param", "m.prototxt", "m.caffemodel"])
def test_model_files_are_written_to_one_folder(tmp_path, write, name):
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    real, link = tmp_path / "real" / name, tmp_path / "links" / name
    write(1, real)
    write(1, link)
    for path in (real, link):
        path.with_suffix(".kept").write_bytes(path.read_bytes())
    link.unlink()
    link.symlink_to(real)
    before = {each: each.read_bytes() for each in tmp_path.rglob("m.*")}
    with pytest.raises((DiagnosticError, OSError), match="by links"):
        write(2, link)
    assert {each: each.read_bytes() for each in tmp_path.rglob("m.*")} == before
    assert not [each.name for each in tmp_path.rglob(".*")]
