"""Whatever writes: the old files or the new ones, all that belong together, whoever is ended at whatever step."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from tests.core.ended import bring_back, contents, ended_at, left_at_every_step
from tests.draws import spread
from tests.models import model, node, typed, write_onnx

SOURCE = Path(gp.__file__).parent
ELSEWHERE = {
    "api/pickling.py": "a temporary folder",
    "api/temporary_source.py": "a temporary folder",
    "cli/main.py": "/dev/null",
    "cli/progress.py": "a log, which grows line by line",
    "cli/quiet.py": "/dev/null",
    "cli/streams.py": "a pipe's or a folder of its own",
    "core/journals.py": "the journals of the one way",
    "expression/fused/engine.py": "the cache, beside its place and moved there",
    "formats/archive/container/members.py": "inside an archive",
    "formats/__init__.py": "a temporary folder",
    "formats/pytorch/pt2/archive.py": "inside an archive",
    "formats/genai/writer.py": "a new folder, whose configuration is written last",
    "formats/recognition/containers.py": "a temporary folder",
    "formats/nnef/container/packaging.py": "a folder beside its place, moved there whole",
    "cli/arrays.py": "inside an archive",
    "runtimes/serve.py": "a stream",
    "quantization/distributed.py": "a folder of its own",
}
"""Modules that open files to write by themselves, and what they write."""


OPENING = re.compile(r"open\(|\.write_|tofile")


def _network(scale: float):
    weights = {"w": np.full((4, 3, 3, 3), scale, np.float32), "v": np.full((8, 4), scale, np.float32)}
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "v"], ["y"], transB=1),
    ]
    return model(nodes, [typed("x", [1, 3, 8, 8])], [typed("y", [1, 8])], weights)


def _samples(scale: float):
    return {"x": np.linspace(-scale, scale, 2 * 3 * 64, dtype=np.float32).reshape(2, 3, 8, 8)}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """What writes the old files and the new ones into a folder, by the name of the file that is read."""
    folder = tmp_path_factory.mktemp("given")
    sources = [write_onnx(folder / f"{scale}.onnx", _network(scale)) for scale in (1, 2)]
    models = [gp.load(source) for source in sources]
    rounded = [gp.quantize(each, _samples(scale), target="ncnn", preset="fast") for scale, each in enumerate(models, 1)]
    return {
        "m.ncnn.param": [lambda path, each=each: gp.save(each, path) for each in rounded],
        "m.pnnx.param": [lambda path, each=each: gp.convert(each, path, code=True, verify=False) for each in sources],
        "m.xml": [lambda path, each=each: gp.convert(each, path, verify=False) for each in sources],
        "m.html": [lambda path, each=each: gp.report(each).save(path) for each in models],
        "s.npz": [
            lambda path, each=each, scale=scale: gp.quantize(each, _samples(scale), preset="fast", statistics=path)
            for scale, each in enumerate(models, 1)
        ],
    }


@pytest.mark.skipif(os.name != "posix", reason="processes are forked")
@pytest.mark.parametrize("name", spread(["m.ncnn.param", "m.pnnx.param", "m.xml", "m.html", "s.npz"]))
def test_ended_writer_leaves_no_mixed_files(tmp_path, given, name):
    """As they lie there for programs that know no journals: no file, or part of one set, and never parts of both."""
    write_old, write_new = given[name]
    folder = tmp_path / "own"
    folder.mkdir()
    write_old(folder / name)
    old = contents(folder)
    if name == "s.npz":
        (folder / name).unlink()  # of another model they are refused, and not replaced
        old = {}
    left = left_at_every_step(folder, lambda: write_new(folder / name), tmp_path / "left")
    new = contents(folder)
    assert len(left) >= 3
    outcomes = []
    for each in left:
        found = {file: data for file, data in contents(each).items() if not file.startswith(".")}
        is_old, is_new = (all(files.get(k) == v for k, v in found.items()) for files in (old, new))
        is_graph_there = all(file in found for file in new if file.endswith((".param", ".xml", ".html", ".npz")))
        outcomes.append("part" if not is_graph_there else "old" if is_old else "new" if is_new else "mixed")
    assert outcomes == sorted(outcomes, key=["old", "part", "new", "mixed"].index)
    assert "mixed" not in outcomes
    assert outcomes[-1] == "new"


@pytest.mark.skipif(os.name != "posix", reason="processes are forked")
def test_pnnx_with_code_and_ncnn_become_visible_together(tmp_path, given, monkeypatch):
    """Six files of two models in one transaction: after the next write nothing of an interrupted one is left."""
    write_old, write_new = given["m.pnnx.param"]
    folder, kept = tmp_path / "own", tmp_path / "kept"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder.mkdir()
    write_old(folder / "m.pnnx.param")
    shutil.copytree(folder, kept)
    old = contents(folder)
    write_new(folder / "m.pnnx.param")
    new = contents(folder)
    assert len(old) == len(new) == 6
    counts = Counter()
    for number in range(0, 400, 3):
        bring_back(kept, folder)
        if not ended_at(number, tmp_path, lambda: write_new(folder / "m.pnnx.param")):
            break
        for graph in ("m.pnnx.param", "m.ncnn.param"):
            counts[_outcome(folder / graph, (old, new))] += 1
        write_new(folder / "m.pnnx.param")
        assert contents(folder) == new
    assert set(counts) == {"old", "new", "IO0012"}


def _outcome(graph, sets) -> str:
    """Which of two sets a model that loads belongs to, or the code of the diagnostic."""
    try:
        gp.load(graph)
    except gp.DiagnosticError as error:
        return error.diagnostics[0].code
    family = graph.name.split(".")[1]
    found = {name: data for name, data in contents(graph.parent).items() if family in name and name[0] != "."}
    names = {"pnnx": ["m.pnnx.param", "m.pnnx.bin"], "ncnn": ["m.ncnn.param", "m.ncnn.bin"]}[family]
    held = [all(found[name] == files[name] for name in names) for files in sets]
    mine = [all(files.get(name) == data for name, data in found.items()) for files in sets]
    return {(True, False): "old", (False, True): "new"}.get((held[0] and mine[0], held[1] and mine[1]), "mixed")


def test_all_writes_use_atomic_write():
    """What opens a file to write does so through `core.atomic_write`, or where nobody else looks."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        for call in ast.walk(ast.parse(text)) if OPENING.search(text) else ():
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            modes = [
                each.value for each in (*call.args, *(k.value for k in call.keywords)) if isinstance(each, ast.Constant)
            ]
            is_writing = name in ("open", "fdopen") and any(
                isinstance(mode, str) and len(mode) <= 3 and set(mode) & set("wax+") and set(mode) <= set("rwaxb+t")
                for mode in modes
            )
            if is_writing or name in ("write_text", "write_bytes", "tofile"):
                found.setdefault(str(path.relative_to(SOURCE)), []).append(call.lineno)
    assert set(found) == set(ELSEWHERE), found
