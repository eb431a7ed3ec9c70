from __future__ import annotations

import os
import stat
import sys

import numpy as np
import pytest

from graphport.expression.expression import Expression
from graphport.expression.fused import engine

pytest.importorskip("llvmlite")

TEXT = "define i64 @answer{0}() {{ ret i64 {0} }}"


def load(number):
    return engine.load(TEXT.format(number), [f"answer{number}"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_KERNELS", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def test_compiled_models_are_cached_and_reused(folder):
    load(101)
    (file,) = folder.iterdir()
    written = file.stat().st_mtime_ns
    assert load(101).addresses.keys() == {"answer101"}
    assert [path.stat().st_mtime_ns for path in folder.iterdir()] == [written]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 or sys.platform == "win32"


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: b"", lambda raw: raw[:40] + b"\0" + raw[41:]])
def test_a_damaged_file_is_compiled_anew(folder, damage):
    code = load(102)
    del code
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    load(102)
    assert file.read_bytes() == whole


def test_a_whole_file_of_another_program_is_compiled_anew(folder):
    code = load(110)
    (own,) = folder.iterdir()
    whole = own.read_bytes()
    other = load(111)
    (foreign,) = set(folder.iterdir()) - {own}
    del code, other
    own.write_bytes(foreign.read_bytes())
    load(110)
    assert own.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_cache_entries_that_are_no_regular_file_do_not_block(folder):
    for number, make in enumerate((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"))):
        code = load(112 + number)
        (file,) = folder.iterdir()
        del code
        file.unlink()
        make(file)
        assert load(112 + number).addresses.keys() == {f"answer{112 + number}"}
        file.rmdir() if file.is_dir() else file.unlink()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_world_writable_cache_folder_is_not_used(folder):
    folder.mkdir()
    folder.chmod(0o777)
    load(103)
    assert not list(folder.iterdir())


def test_empty_graphport_kernels_disables_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHPORT_KERNELS", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert engine.cache_folder() is None
    load(104)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="where Linux keeps such things")
def test_kernels_are_cached_in_the_user_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAPHPORT_KERNELS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert engine.cache_folder() == tmp_path / "graphport" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(engine.cache_folder()) == "/home/someone/.cache/graphport/kernels"


def test_old_kernels_make_room(folder, monkeypatch):
    monkeypatch.setattr(engine, "_MOST_FILES", 4)
    for number in range(110, 120):
        load(number)
    assert len(list(folder.iterdir())) <= 4


def test_missing_cache_folder_does_not_fail(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHPORT_KERNELS", str(tmp_path / "file" / "kernels"))
    x = np.ones(3, np.float32)
    assert Expression("add(@0,1.0625)", tier="fused")(x).tolist() == [2.0625] * 3
