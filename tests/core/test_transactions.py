"""Old or new, nothing else: files that belong together, written by processes that are ended at every step."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.core import atomic_write
from graphport.core.atomic_write import together
from graphport.core.diagnostics import DiagnosticError
from tests.core.ended import bring_back, contents, ended_at, left_at_every_step
from tests.models import model, node, typed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are forked")


def _net(scale: float) -> gp.Model:
    constants = {"w": np.full((64, 64), scale, np.float32)}
    return gp.from_onnx(
        model([node("MatMul", ["x", "w"], ["y"])], [typed("x", [1, 64])], [typed("y", [1, 64])], constants)
    )


def _numbers(path: Path) -> float:
    return float(gp.run(gp.load(path), {"x": np.ones((1, 64), np.float32)}, backend="reference")["y"][0, 0])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("m.onnx", {"external_data": True}),
        ("m.onnx", {}),
        ("m.xml", {}),
        ("m.pnnx.param", {}),
        ("m.ncnn.param", {}),
        ("m.prototxt", {}),
        ("m.caffemodel", {}),
        ("m.tflite", {}),
        ("m.graphport", {}),
        ("m.nnef.tgz", {}),
        ("m", {}),
    ],
)
def test_killed_writer_leaves_old_new_or_reported_incomplete_model(tmp_path, monkeypatch, name, options):
    """At each step of the writer, in the model's folder and in the cache folder."""
    old, new, folder, kept = _net(1), _net(2), tmp_path / "own", tmp_path / "kept"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder.mkdir()
    gp.save(old, folder / name, **options)
    shutil.copytree(folder, kept)
    before = sorted(each.name for each in folder.iterdir())
    outcomes = []
    for number in range(400):
        bring_back(kept, folder)
        is_killed = ended_at(number, tmp_path, lambda: gp.save(new, folder / name, **options))
        outcomes.append(_outcome(folder / name))
        if outcomes[-1] == "incomplete":
            restored = tmp_path / "restored"
            shutil.rmtree(restored, ignore_errors=True)
            shutil.copytree(folder, restored)
            subprocess.run(["sh", "-c", _restoring(folder / name)], cwd=restored, check=True)
            assert _numbers(restored / name) == 64
        gp.save(new, folder / name, **options)
        assert _numbers(folder / name) == 128
        assert sorted(each.name for each in folder.iterdir()) == before, "leftovers are swept"
        if not is_killed:
            break
    assert outcomes[0] == 64
    assert outcomes[-1] == 128
    assert outcomes == sorted(outcomes, key=[64, "incomplete", 128].index)
    assert not list((tmp_path / "cache").rglob("*.json")), "records are removed"


def _outcome(path: Path) -> float | str:
    try:
        return _numbers(path)
    except DiagnosticError as error:
        return {("IO0012",): "incomplete"}[tuple(each.code for each in error.diagnostics)]


def _restoring(path: Path) -> str:
    """The command that the diagnostic of an incomplete model gives."""
    with pytest.raises(DiagnosticError) as caught:
        gp.load(path)
    return caught.value.diagnostics[0].help.rpartition(f"{path.parent}: ")[2]


def test_left_at_every_step_matches_a_killed_process(tmp_path):
    folder = tmp_path / "own"
    graph, weights = folder / "m.xml", folder / "m.bin"
    folder.mkdir()

    def begin() -> None:
        for path in (graph, weights):
            path.write_text("old")

    begin()
    left = left_at_every_step(folder, lambda: _write_pair(graph, weights, "new"), tmp_path / "left")
    expected = [contents(each) for each in left]
    found = []
    for number in range(100):
        shutil.rmtree(folder)
        folder.mkdir()
        begin()
        is_ended = ended_at(number, folder, lambda: _write_pair(graph, weights, "new"))
        if not found or contents(folder) != found[-1]:
            found.append(contents(folder))
        if not is_ended:
            break
    assert found == expected[: len(found)]
    assert expected[len(found) :] in ([], found[-1:])


def test_other_programs_find_no_mixture(tmp_path):
    graph, weights = tmp_path / "m.xml", tmp_path / "m.bin"
    states = set()
    for number in range(100):
        for path in (graph, weights):
            path.write_text("old")
        if not ended_at(number, tmp_path, lambda: _write_pair(graph, weights, "new")):
            break
        states.add((graph.read_text() if graph.exists() else None, weights.read_text() if weights.exists() else None))
        _write_pair(graph, weights, "next")
        assert graph.read_text() == weights.read_text()
    assert ("old", "new") not in states
    assert ("new", "old") not in states
    assert {("old", "old"), ("new", "new")} <= states


def _write_pair(graph: Path, weights: Path, text: str) -> None:
    with together() as files:
        files.open_file(weights).write(text.encode())
        files.open_file(graph).write(text.encode())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_failed_rename_restores_the_old_files(tmp_path, monkeypatch, number):
    graph, weights = tmp_path / "m.xml", tmp_path / "m.bin"
    _write_pair(graph, weights, "old")
    real, steps = Path.rename, []

    def refused(self, target):
        steps.append(self)
        if len(steps) == fails_at:
            raise OSError(number, os.strerror(number))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    for fails_at in range(1, 6):  # noqa: B007  `refused` reads it
        steps.clear()
        with pytest.raises(OSError, match=os.strerror(number)):
            _write_pair(graph, weights, "new")
        assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"m.xml": "old", "m.bin": "old"}
    fails_at = 0
    _write_pair(graph, weights, "new")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"m.xml": "new", "m.bin": "new"}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_signal_leaves_old_or_new_files(tmp_path, monkeypatch, name):
    number = getattr(signal, name)
    real, steps, found = Path.rename, [], set()

    def interrupted(self, target):
        result = real(self, target)
        steps.append(self)
        if len(steps) == ends_at:
            os.kill(os.getpid(), number)
        return result

    def ended(*_):
        raise SystemExit(1)

    before = signal.signal(number, ended)
    try:
        monkeypatch.setattr(Path, "rename", interrupted)
        for ends_at in range(1, 7):  # noqa: B007  `interrupted` reads it
            graph, weights = tmp_path / "m.xml", tmp_path / "m.bin"
            monkeypatch.setattr(Path, "rename", real)
            _write_pair(graph, weights, "old")
            monkeypatch.setattr(Path, "rename", interrupted)
            steps.clear()
            try:
                _write_pair(graph, weights, "new")
            except SystemExit:
                found.add("ended")
            assert graph.read_text() == weights.read_text()
            found.add(graph.read_text())
            assert sorted(each.name for each in tmp_path.iterdir()) == ["m.bin", "m.xml"]
        assert signal.getsignal(number) is ended
    finally:
        signal.signal(number, before)
    assert found == {"ended", "new"}


def test_concurrent_writers_leave_one_consistent_model(tmp_path):
    graph, weights = tmp_path / "m.xml", tmp_path / "m.bin"
    processes = []
    for writer in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if not process:
            try:
                for _ in range(20):
                    _write_pair(graph, weights, str(writer))
                os._exit(0)
            finally:
                os._exit(1)
        processes.append(process)
    assert [os.waitpid(process, 0)[1] for process in processes] == [0] * 4
    assert graph.read_text() == weights.read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.bin", "m.xml"]


def test_non_regular_files_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("pipe", "folder", "null"):
        with pytest.raises(OSError, match=r"pipe|folder"), atomic_write.replacing(tmp_path / name):
            pass
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "null", "pipe"]
    for name in ("pipe.xml", "null.onnx", "null.graphport", "null.nnef"):
        (tmp_path / name).symlink_to("/dev/null")
        with pytest.raises(DiagnosticError):
            gp.save(_net(1), tmp_path / name)
