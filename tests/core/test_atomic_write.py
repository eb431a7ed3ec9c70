from __future__ import annotations

import errno
import os
import re
import signal
import stat
import sys
import threading
from pathlib import Path

import pytest

from graphport.core.atomic_write import (
    interrupted_with,
    interruption,
    move,
    obstacle,
    replacing,
    temporary_path,
    together,
)


def test_a_file_is_there_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"


def test_concurrent_readers_see_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_failure_leaves_no_files(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_symlink_is_kept_when_its_target_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_missing_folder_is_not_created(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "none" / "file"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_file_mode_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "file") as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def write_pair(folder, stem, ending, content):
    with together() as files:
        for name in (f"{stem}.bin", f"{stem}{ending}"):
            files.open_file(folder / name).write(content)


def test_weights_of_another_graph_stay_and_those_of_the_same_are_replaced(tmp_path):
    write_pair(tmp_path, "a", ".xml", b"one")
    with pytest.raises(FileExistsError, match=r"a\.bin exists and may belong to a\.xml") as caught:
        write_pair(tmp_path, "a", ".param", b"two")
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, str(tmp_path / "a.bin"))
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a.bin": b"one", "a.xml": b"one"}
    write_pair(tmp_path, "a", ".xml", b"three")
    assert (tmp_path / "a.bin").read_bytes() == b"three"


def test_weights_without_any_graph_are_replaced(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"left")
    (tmp_path / "ab.xml").write_bytes(b"another stem")
    write_pair(tmp_path, "a", ".param", b"new")
    assert (tmp_path / "a.bin").read_bytes() == b"new"
    (tmp_path / "b.onnx.bin").write_bytes(b"left")
    write_pair(tmp_path, "b.onnx", "", b"its own by name")
    assert (tmp_path / "b.onnx.bin").read_bytes() == b"its own by name"


def steps_of(work, folder, monkeypatch):
    """Return the flushes and moves of files in order: `flush` and `move` with names in a folder."""
    steps = []

    def named(path):
        found = re.sub(r"^\.(.+)\.[0-9]+-[0-9a-f]{8}\.part$", r"new \1", Path(path).name)
        return "the folder" if Path(path) == folder else found

    def noted(step, path):
        if Path(path) == folder or folder in Path(path).parents:
            steps.append(step)

    def moved(real):
        return lambda self, target: (noted(f"move {named(self)} to {named(target)}", self), real(self, target))[1]

    def flushed(handle):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        noted(f"flush {named(path)}", path)

    with monkeypatch.context() as patch:
        patch.delenv("GRAPHPORT_UNFLUSHED", raising=False)
        patch.setattr(os, "fsync", flushed)
        for name in ("rename", "replace"):
            patch.setattr(Path, name, moved(getattr(Path, name)))
        held = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  open files
        work()
        assert len(os.listdir("/proc/self/fd")) == held  # noqa: PTH208
    return steps


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are named in /proc")
def test_every_step_is_flushed_before_the_next(tmp_path, monkeypatch):
    assert steps_of(lambda: write_alone(tmp_path), tmp_path, monkeypatch) == [
        "flush new a.onnx",
        "move new a.onnx to a.onnx",
        "flush the folder",
    ]
    written = ["flush new a.bin", "flush new a.xml", "flush new a.xml", "move new a.xml to .a.xml.moves"]
    moved = ["move new a.bin to a.bin", "move new a.xml to a.xml"]
    assert steps_of(lambda: write_pair(tmp_path, "a", ".xml", b"one"), tmp_path, monkeypatch) == [
        *written,
        "flush the folder",
        *moved,
        "flush the folder",
    ]
    aside = ["move a.xml to new a.xml", "move a.bin to new a.bin"]
    assert steps_of(lambda: write_pair(tmp_path, "a", ".xml", b"two"), tmp_path, monkeypatch) == [
        *written,
        "flush the folder",
        *aside,
        *moved,
        "flush the folder",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.bin", "a.onnx", "a.xml"]


def write_alone(folder):
    with replacing(folder / "a.onnx") as file:
        file.write(b"new")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are named in /proc")
def test_files_of_a_folder_are_flushed_before_the_move(tmp_path, monkeypatch):
    beside = temporary_path(tmp_path / "m")
    (beside / "inner").mkdir(parents=True)
    for name in ("one", "inner/two"):
        (beside / name).write_text("new")
    found = steps_of(lambda: move([(beside, tmp_path / "m")]), tmp_path, monkeypatch)
    assert sorted(found[:4]) == ["flush inner", "flush new m", "flush one", "flush two"]
    assert found[4:] == ["move new m to m", "flush the folder"]
    again = temporary_path(tmp_path / "m")
    again.mkdir()
    assert steps_of(lambda: move([(again, tmp_path / "m")]), tmp_path, monkeypatch)[-3:] == [
        "move m to new m",
        "move new m to m",
        "flush the folder",
    ]
    assert [each.name for each in tmp_path.rglob("*")] == ["m"]


def test_file_does_not_replace_a_folder(tmp_path):
    beside = temporary_path(tmp_path / "m")
    beside.write_text("new")
    (tmp_path / "m").mkdir()
    with pytest.raises(IsADirectoryError, match="it is a folder") as caught:
        move([(beside, tmp_path / "m")])
    assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, str(tmp_path / "m"))
    move([])


def test_temporary_files_of_ended_processes_are_removed(tmp_path):
    gone = 2**22 + 1  # no process has a number so large
    names = [
        f".a.onnx.{gone}-0123abcd.part",
        f".a.onnx.{os.getpid()}-0123abcd.part",
        f".a.onnx.{os.getppid()}-89abcdef.part",
    ]
    others = [f".b.onnx.{gone}-0123abcd.part", f".a.onnx.{gone}-0123abc.part", f"a.onnx.{gone}-0123abcd.part"]
    for name in (*names, *others):
        (tmp_path / name).write_text("half")
    folder = tmp_path / f".a.onnx.{10**30}-0123abcd.part"
    folder.mkdir()
    (folder / "inner").write_text("half")
    write_alone(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"a.onnx", *names[1:], *others}


def test_a_file_that_cannot_be_replaced_or_removed_is_renamed(tmp_path, monkeypatch):
    """As on Windows one that is mapped: simulated, by the two calls that are refused there."""
    path = tmp_path / "a.onnx"
    path.write_text("old")
    number, remove, replace = path.stat().st_ino, Path.unlink, Path.replace

    def refuse_to_replace(self, target):
        if Path(target).exists():
            raise PermissionError(13, "a mapped file is there")
        return replace(self, target)

    def refuse_to_remove(self, *, missing_ok=False):
        if self.exists() and self.stat().st_ino == number:
            raise PermissionError(13, "it is mapped")
        remove(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "replace", refuse_to_replace)
    monkeypatch.setattr(Path, "unlink", refuse_to_remove)
    write_alone(tmp_path)
    assert path.read_text() != "old"
    (aside,) = (each for each in tmp_path.iterdir() if each != path)
    assert (aside.suffix, aside.read_text()) == (".part", "old")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_target_that_is_no_regular_file_is_reported(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, words in {"folder": "it is a folder", "pipe": "a pipe, a socket or a device"}.items():
        with pytest.raises(OSError, match=words) as caught, replacing(tmp_path / name):
            pass
        assert caught.value.filename == str(tmp_path / name)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe"]


def test_written_data_is_flushed_to_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.delenv("GRAPHPORT_UNFLUSHED", raising=False)
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(str(Path(f"/proc/self/fd/{handle}").readlink())))
    with replacing(tmp_path / "model") as file:
        file.write(b"new")
    assert any(path.startswith(str(tmp_path / ".")) or path.endswith("model") for path in flushed)
    assert str(tmp_path) in flushed


def asked_ahead(monkeypatch, path, *, least):
    """Return the prefetched parts of a 22-byte file in pieces of at most 5, at least `least` bytes each."""
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr("graphport.core.atomic_write._AHEAD", least)
        patch.setattr(
            os, "posix_fadvise", lambda _, start, length, advice: asked.append((start, length, advice)), raising=False
        )
        patch.setattr(os, "POSIX_FADV_DONTNEED", "begin", raising=False)
        with replacing(path) as file:
            for piece in (b"abcde", b"fghij", b"klmno", b"pqrst", b"uv"):
                file.write(piece)
                file.flush()
            file.seek(0)
            file.write(b"ABCDEFGH")
    assert path.read_bytes() == b"ABCDEFGHijklmnopqrstuv"
    return asked


def test_flushing_starts_during_the_write(tmp_path, monkeypatch):
    monkeypatch.delenv("GRAPHPORT_UNFLUSHED", raising=False)
    assert asked_ahead(monkeypatch, tmp_path / "model", least=10) == [(0, 10, "begin"), (10, 10, "begin")]
    assert asked_ahead(monkeypatch, tmp_path / "model", least=100) == []


def test_graphport_unflushed_disables_early_flushes(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_UNFLUSHED", "1")
    assert asked_ahead(monkeypatch, tmp_path / "model", least=10) == []


def test_a_file_system_without_such_a_queue_is_written_to(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.delenv("GRAPHPORT_UNFLUSHED", raising=False)
    monkeypatch.setattr("graphport.core.atomic_write._AHEAD", 4)
    monkeypatch.setattr(os, "posix_fadvise", refused, raising=False)
    with replacing(tmp_path / "model") as file:
        file.write(b"abcde" * 4000)
    assert (tmp_path / "model").read_bytes() == b"abcde" * 4000


def test_obstacle_returns_the_system_message(tmp_path):
    assert obstacle(tmp_path) == ""
    assert obstacle(tmp_path / "nowhere") == "No such file or directory"


@pytest.mark.parametrize("name", ["a\0b", "nothing", ".", "a" * 300])
def test_a_name_without_a_file_has_no_interrupted_write(tmp_path, name):
    assert interruption(tmp_path / name) is None
    assert interrupted_with(tmp_path / name) is None


def test_no_handle_stays_open(tmp_path):
    def handles():
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists them")
    for _ in range(2):
        before = handles()
        with replacing(tmp_path / "file") as file:
            file.write(b"new")
        with together(tmp_path / "a.xml"):
            pass
    assert handles() == before


@pytest.mark.skipif(os.name != "posix", reason="folders are opened there alone")
def test_files_are_moved_without_locks_and_folder_handles(tmp_path, monkeypatch):
    real = os.open

    def refusing(path, flags, *more, **options):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *more, **options)

    monkeypatch.delenv("GRAPHPORT_UNFLUSHED", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        write_pair(tmp_path, "a", ".xml", b"one")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fcntl", None)
        write_pair(tmp_path, "a", ".xml", b"two")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a.bin": b"two", "a.xml": b"two"}


def test_other_threads_do_not_change_signal_handlers(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work():
        write_pair(tmp_path, "a", ".xml", b"one")
        seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
    assert (tmp_path / "a.xml").read_bytes() == b"one"


def test_permission_error_of_a_move_is_raised(tmp_path, monkeypatch):
    def refuse(self, target):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        write_alone(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_cleanup_ignores_a_missing_temporary_file(tmp_path):
    def fail():
        with together() as files:
            files.open_file(tmp_path / "a").write(b"half")
            files.moves[0][0].unlink()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []
