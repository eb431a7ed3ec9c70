from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from graphport.core.replacing import obstacle, recover, replacing, together


def test_a_file_is_there_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"


def test_whoever_reads_meanwhile_sees_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_what_fails_leaves_nothing_behind(tmp_path):
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


def test_a_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "none" / "file"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_it_is_as_open_to_others_as_any_new_file(tmp_path):
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
            files.open(folder / name).write(content)


def test_weights_of_another_graph_stay_and_those_of_the_same_are_replaced(tmp_path):
    write_pair(tmp_path, "a", ".xml", b"one")
    with pytest.raises(FileExistsError, match=r"a\.bin is there already and may belong to a\.xml"):
        write_pair(tmp_path, "a", ".param", b"two")
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_what_is_no_file_is_told_by_name(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, words in {"folder": "it is a folder", "pipe": "a pipe, a socket or a device"}.items():
        with pytest.raises(OSError, match=words) as caught, replacing(tmp_path / name):
            pass
        assert caught.value.filename == str(tmp_path / name)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe"]


def test_what_is_written_is_flushed_to_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.delenv("GRAPHPORT_UNFLUSHED", raising=False)
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(str(Path(f"/proc/self/fd/{handle}").readlink())))
    with replacing(tmp_path / "model") as file:
        file.write(b"new")
    assert any(path.startswith(str(tmp_path / ".")) or path.endswith("model") for path in flushed)
    assert str(tmp_path) in flushed


def test_an_obstacle_is_told_in_the_words_of_the_system(tmp_path):
    assert obstacle(tmp_path) == ""
    assert obstacle(tmp_path / "nowhere") == "No such file or directory"


def test_a_name_that_no_system_has_is_nothing_to_recover(tmp_path):
    recover(tmp_path / "a\0b")
    recover(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
