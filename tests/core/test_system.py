"""Windows-specific behaviour. Its system calls are replaced by fakes that follow its documentation."""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
from types import SimpleNamespace

from graphport.core import system


def test_free_memory_is_some_and_no_more_than_there_is():
    assert 0 < system.free_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_windows_free_memory_is_available_physical_memory(monkeypatch):
    def tell(place):
        words = (ctypes.c_uint64 * 8).from_address(ctypes.addressof(place._obj))
        assert words[0] & 0xFFFFFFFF == ctypes.sizeof(words)
        words[1:] = [10, 7, 20, 17, 30, 27, 0]

    monkeypatch.setattr(sys, "platform", "win32")
    kernel = SimpleNamespace(GlobalMemoryStatusEx=tell)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert system.free_memory() == 7


def test_a_process_lives_until_it_has_ended():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert system.lives(process.pid)
        process.communicate(b"\n")
    assert not system.lives(process.pid)
    assert system.lives(os.getpid())
    assert not system.lives(10**30)


def test_windows_process_check_sends_no_signal(monkeypatch):
    """`os.kill(number, 0)` is Ctrl-C there."""
    states = {4: 259, 5: 0}

    def open_process(_, __, number):
        return number.value if number.value in states else None

    def state(handle, place):
        ctypes.c_uint32.from_address(ctypes.addressof(place._obj)).value = states[handle.value]

    def fail(*_):
        raise AssertionError

    def library(*_, **__):
        # Functions, on which types can be set.
        return SimpleNamespace(OpenProcess=open_process, GetExitCodeProcess=state, CloseHandle=lambda _: None)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", fail)
    monkeypatch.setattr(ctypes, "WinDLL", library, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 87, raising=False)
    assert [system.lives(number) for number in (4, 5, 6, 10**30)] == [True, False, False, False]
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 5, raising=False)  # access is denied
    assert system.lives(6)


def test_file_opened_as_movable_is_readable_after_rename(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    with open(tmp_path / "a", "rb", opener=system.open_movable) as file:
        (tmp_path / "a").rename(tmp_path / "b")
        assert file.read() == b"abc"


def test_free_memory_defaults_to_half_of_the_total(monkeypatch):
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def told(text):
        def opened(path, *_, **__):
            assert path == "/proc/meminfo"
            if text is None:
                raise FileNotFoundError
            return io.StringIO(text)

        return opened

    for text, expected in (
        (None, whole // 2),
        ("MemTotal: 9 kB\n", whole // 2),
        ("MemAvailable: many kB\n", whole // 2),
        ("no colon\n", whole // 2),
        ("MemTotal: 9 kB\nMemAvailable:   3 kB\n", 3 << 10),
    ):
        monkeypatch.setattr("builtins.open", told(text))
        assert system.free_memory() == expected, text


def test_open_movable_uses_windows_sharing_flags(monkeypatch):
    asked = []
    calls = SimpleNamespace(GENERIC_READ=1 << 31, OPEN_EXISTING=3, NULL=0, CreateFile=lambda *a: asked.append(a) or 5)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "_winapi", calls)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(open_osfhandle=lambda handle, flags: (handle, flags)))
    assert system.open_movable("a", os.O_RDONLY) == (5, os.O_RDONLY)
    # Others may read, write and remove it: FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE.
    assert asked == [("a", 1 << 31, 1 | 2 | 4, 0, 3, 0, 0)]
