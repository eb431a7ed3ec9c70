"""Journals of interrupted writes: which ones a writer follows, and that a reader follows none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from graphport.core import journals
from graphport.core.atomic_write import interrupted_with, interruption, temporary_path, together
from tests.core.ended import contents, ended_at

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are forked")


def write_pair(folder: Path, text: str) -> None:
    with together() as files:
        for name in ("m.bin", "m.xml"):
            files.open_file(folder / name).write(text.encode())


@pytest.fixture
def interrupted(tmp_path, monkeypatch) -> Path:
    """A folder in which the old graph is renamed away, and the process that was to go on is killed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    for number in range(100):
        write_pair(folder, "old")
        ended_at(number, folder, lambda: write_pair(folder, "new"))
        if not (folder / "m.xml").exists():
            return folder
    raise AssertionError


def seen(folder: Path) -> dict[str, list[bytes]]:
    return {name: data for name, data in contents(folder).items() if not name.startswith(".")}


def state(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


def test_the_next_writer_of_the_same_files_finishes(interrupted):
    found = interruption(interrupted / "m.xml")
    assert found is not None
    assert found.is_incomplete
    assert "m.xml" in found.missing
    write_pair(interrupted, "next")
    assert contents(interrupted) == {"m.bin": [b"next"], "m.xml": [b"next"]}
    assert not list((interrupted.parent / "cache").rglob("*.json"))


def test_failed_write_keeps_the_recovered_earlier_write(interrupted, monkeypatch):
    from graphport.core import atomic_write

    def fail(*_):
        raise OSError(28, "no room")

    monkeypatch.setattr(atomic_write, "_move_together", fail)
    with pytest.raises(OSError, match="no room"):
        write_pair(interrupted, "next")
    assert contents(interrupted) == {"m.bin": [b"new"], "m.xml": [b"new"]}


def _of_another_owner(marker, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def _readable_by_others(marker, monkeypatch):
    marker.chmod(0o644)


def _hard_link(marker, monkeypatch):
    os.link(marker, marker.with_name("other"))


def _symbolic_link(marker, monkeypatch):
    marker.rename(marker.with_name("other"))
    marker.symlink_to("other")


def _pipe(marker, monkeypatch):
    marker.unlink()
    os.mkfifo(marker, 0o600)


def _folder(marker, monkeypatch):
    marker.unlink()
    marker.mkdir()


def _large(marker, monkeypatch):
    marker.write_bytes(marker.read_bytes() + b" " * journals.MAX_BYTES)


def _nested(marker, monkeypatch):
    marker.write_bytes(b"[" * 60_000)


def _another_id(marker, monkeypatch):
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"id": "0" * 32}))


def _no_record(marker, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(marker.parent.parent / "another cache"))


def _relative_cache(marker, monkeypatch):
    shutil.move(marker.parent.parent / "cache" / "graphport", marker.parent.parent / "model" / "graphport")
    monkeypatch.chdir(marker.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", ".")
    monkeypatch.setenv("HOME", str(marker.parent.parent / "home"))


def _cache_in_the_folder_of_the_model(marker, monkeypatch):
    shutil.move(marker.parent.parent / "cache" / "graphport", marker.parent / "graphport")
    monkeypatch.setenv("XDG_CACHE_HOME", str(marker.parent))


def _cache_that_others_write(marker, monkeypatch):
    (marker.parent.parent / "cache" / "graphport" / "journals").chmod(0o777)


def _cache_that_is_a_link(marker, monkeypatch):
    own = marker.parent.parent / "cache" / "graphport" / "journals"
    own.rename(own.with_name("real"))
    own.symlink_to("real")


def _target_swapped_for_a_folder(marker, monkeypatch):
    (marker.parent / "m.xml").mkdir()
    (marker.parent / "m.xml" / "mine").write_text("mine")


def _target_written_since(marker, monkeypatch):
    (marker.parent / "m.xml").write_text("mine")


def _target_swapped_for_a_link(marker, monkeypatch):
    (marker.parent / "mine").write_text("mine")
    (marker.parent / "m.xml").symlink_to("mine")


def _source_swapped(marker, monkeypatch):
    for part in list(marker.parent.glob(".m.xml.*.part")):
        part.rename(marker.parent / "filler")  # keeps its inode number in use
        part.write_bytes((marker.parent / "filler").read_bytes())


def _record_names_another_file(marker, monkeypatch):
    (record,) = (marker.parent.parent / "cache").rglob("*.json")
    stated = json.loads(record.read_text())
    (marker.parent / "notes.txt").write_text("mine")
    stated["moves"][0][1] = "notes.txt"
    stated["moves"][0][4] = (marker.parent / "notes.txt").stat().st_ino
    record.write_text(json.dumps(stated))


def _record_leaves_the_folder(marker, monkeypatch):
    (record,) = (marker.parent.parent / "cache").rglob("*.json")
    stated = json.loads(record.read_text())
    stated["moves"][0][1] = "../m.bin"
    record.write_text(json.dumps(stated))


def _record_without_moves(marker, monkeypatch):
    (record,) = (marker.parent.parent / "cache").rglob("*.json")
    record.write_text(json.dumps({"id": json.loads(record.read_text())["id"]}))


def _copied_folder(marker, monkeypatch):
    shutil.copytree(marker.parent, marker.parent.parent / "copy", symlinks=True)
    shutil.rmtree(marker.parent)
    (marker.parent.parent / "copy").rename(marker.parent)


FORMS = [value for name, value in globals().items() if name.startswith("_") and callable(value) and name[1] != "_"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_foreign_or_outdated_journals_are_ignored(interrupted, monkeypatch, form):
    marker = interrupted / ".m.xml.moves"
    form(marker, monkeypatch)
    before = {path: state(path) for path in interrupted.rglob("*") if not path.match(".m.*.part")}
    found = interruption(interrupted / "m.xml")
    if form is not _target_swapped_for_a_link:  # another file then
        assert found is not None
        assert not found.is_incomplete or form is _record_names_another_file
    assert {path: state(path) for path in before} == before, "reading changes nothing"
    if (interrupted / "m.xml").is_dir():
        with pytest.raises(IsADirectoryError):
            write_pair(interrupted, "next")
    else:
        write_pair(interrupted, "next")
        assert (interrupted / "m.xml").read_text() == (interrupted / "m.bin").read_text() == "next"
    for path, was in before.items():
        if path.name not in ("m.xml", "m.bin", "mine") and path.is_file():
            assert state(path) == was, f"{path.name} is as it was"
    assert not (interrupted / "notes.txt").exists() or (interrupted / "notes.txt").read_text() == "mine"


def test_unwritable_cache_folder_only_disables_the_journal(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folder = tmp_path / "model"
    folder.mkdir()
    for text in ("old", "new"):
        write_pair(folder, text)
        assert contents(folder) == {"m.bin": [text.encode()], "m.xml": [text.encode()]}


@pytest.mark.parametrize("name", ["new\nline", "sp ace", "q'uote", "-dash", "\udcff", "a$(touch pwn)"])
def test_names_of_any_kind(tmp_path, monkeypatch, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    graph, weights = folder / f"{name}.xml", folder / f"{name}.bin"

    def write(text: bytes) -> None:
        with together() as files:
            for path in (weights, graph):
                files.open_file(path).write(text)

    for number in range(100):
        write(b"old")
        if not ended_at(number, folder, lambda: write(b"new")):
            break
        found = interruption(graph)
        if found is not None and found.restore and not graph.exists():
            assert os.system(f"cd {folder} && {os.fsencode(found.restore).decode('utf-8', 'surrogateescape')}") == 0  # noqa: S605  what a user runs
            assert graph.read_bytes() == weights.read_bytes() == b"old"
    assert graph.read_bytes() == weights.read_bytes() == b"new"
    assert not list(tmp_path.rglob("pwn"))


def test_interrupted_write_is_found_by_its_marker_name(interrupted):
    (interrupted / ".m.xml.moves").rename(interrupted / ".other.moves")
    assert interrupted_with(interrupted / "m.xml") is None, "the record is of another marker"
    (interrupted / ".other.moves").rename(interrupted / ".m.xml.moves")
    found = interrupted_with(interrupted / "m.bin")
    assert found is not None
    assert found.is_incomplete


def test_temporary_files_of_other_users_are_kept(tmp_path, monkeypatch):
    part = temporary_path(tmp_path / "m.xml")
    part = part.with_name(part.name.replace(str(os.getpid()), "4194305"))
    part.write_text("theirs")
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        write_pair(tmp_path, "new")
    assert part.exists()
    write_pair(tmp_path, "newer")
    assert not part.exists()
