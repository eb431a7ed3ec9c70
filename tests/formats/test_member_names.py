"""Names of files and archive members of every writer, for models whose names are paths."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from tests.core.test_file_names import HOSTILE, faults
from tests.models import model, node, write_onnx

NAMES = [name for name in HOSTILE if name and "\ud800" not in name and "\0" not in name]
TARGETS = ("m.nnef", "m", "m.nnef.tgz", "m.nnef.tar", "m.pnnx.param", "m.graphport", "m.onnx", "m.xml", "m.ncnn.param")


def hostile(path: Path) -> Path:
    """A sum of weights, each with a hostile name."""
    weights = {f"{name}": np.full((2, 3), index, np.float32) for index, name in enumerate(NAMES)}
    results = [f"r{index}/../{name}" for index, name in enumerate(NAMES)]
    nodes = [
        node(
            "Add" if index % 2 else "Sub", ["x" if not index else results[index - 1], name], [results[index]], name=name
        )
        for index, name in enumerate(NAMES)
    ]
    return write_onnx(path, model(nodes, [("x", [2, 3])], [(results[-1], [2, 3])], weights))


def members(folder: Path) -> list[str]:
    """Files below a folder, and the members of archives there."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = [path.relative_to(folder).as_posix() for path in files]
    for path in files:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                # pnnx writes UTF-8 without the flag for it.
                found += [
                    i.filename if i.flag_bits & 0x800 else i.filename.encode("cp437").decode()
                    for i in archive.infolist()
                ]
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                found += archive.getnames()
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_members_are_safe_and_the_model_computes_equal_results(tmp_path, target):
    source = hostile(tmp_path / "source.onnx")
    folder = tmp_path / "written"
    folder.mkdir()
    options = {"format": "nnef"} if target == "m" else {}
    gp.save(gp.load(source), folder / target, **options)
    names = members(folder)
    assert [(name, faults(name)) for name in names if faults(name)] == []
    assert len({name.casefold() for name in names}) == len(names)
    x = np.ones((2, 3), np.float32)
    (expected,) = gp.run(gp.load(source), {"x": x}, backend="reference").values()
    written = gp.load(folder / target)
    (found,) = gp.run(written, {next(iter(written.inputs)): x}, backend="reference").values()
    np.testing.assert_allclose(found, expected)


def test_names_of_a_read_archive_of_pnnx_are_made_safe(tmp_path):
    text = "7767517\n4 3\npnnx.Input i 0 1 0 #0=(2)f32\npnnx.Attribute ../../up 0 1 1 @data=(2)f32\n"
    text += "pnnx.Expression e 2 1 0 1 2 expr=add(@0,@1)\npnnx.Output o 1 0 2\n"
    (tmp_path / "a.pnnx.param").write_text(text)
    with zipfile.ZipFile(tmp_path / "a.pnnx.bin", "w") as archive:
        archive.writestr("../../up.data", np.ones(2, np.float32).tobytes())
    gp.save(gp.load(tmp_path / "a.pnnx.param", raw=True), tmp_path / "b.pnnx.param")
    with zipfile.ZipFile(tmp_path / "b.pnnx.bin") as archive:
        assert [faults(name) for name in archive.namelist()] == [[]]
    x = np.zeros(2, np.float32)
    written = gp.load(tmp_path / "b.pnnx.param")
    (found,) = gp.run(written, dict.fromkeys(written.inputs, x), backend="reference").values()
    assert found.tolist() == [1, 1]
