"""Files whose views are mapped one by one, where addresses do not suffice for all of them."""

from __future__ import annotations

import mmap
import os

import pytest

from graphport.core import storage
from graphport.core.storage import MappedFile, Windows

SIZE = 3 * mmap.ALLOCATIONGRANULARITY + 17
CONTENT = bytes(index * 7 % 251 for index in range(SIZE))


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "w.bin"
    found.write_bytes(CONTENT)
    return found


def windows(path):
    with path.open("rb") as file:
        return Windows(file.fileno(), SIZE, path)


@pytest.mark.parametrize("start", [0, 1, mmap.ALLOCATIONGRANULARITY - 1, mmap.ALLOCATIONGRANULARITY, SIZE - 5])
def test_window_view_returns_the_requested_bytes(path, start):
    found = windows(path)
    for length in (1, 5, SIZE - start):
        assert bytes(found.view(start, length)) == CONTENT[start : start + length]
    assert bytes(found.view(start, 0)) == b""


def test_window_view_survives_unlink_and_release(path):
    found = windows(path)
    path.unlink()
    view = found.view(3, 4)
    del found
    assert bytes(view) == CONTENT[3:7]


def test_releasing_windows_closes_the_file_and_keeps_views(path):
    found = windows(path)
    handle, view = found._handle, found.view(1, 2)
    assert os.fstat(handle).st_size == SIZE
    del found
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
    assert bytes(view) == CONTENT[1:3]


def test_a_file_that_has_become_shorter_is_seen(path):
    found = windows(path)
    assert not found.is_cut()
    os.truncate(path, SIZE - 1)
    assert found.is_cut()


def test_bytes_that_cannot_be_mapped_are_reported(path, monkeypatch):
    found = windows(path)

    def refuse(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(storage.mmap, "mmap", refuse)
    with pytest.raises(OSError, match=r"9 bytes cannot be mapped: .*ulimit") as caught:
        found.view(0, 9)
    assert (caught.value.errno, caught.value.filename) == (12, str(path))


def test_unmappable_file_is_read_in_windows(path, monkeypatch):
    whole, asked = mmap.mmap, []

    def refuse_all(handle, length, **options):
        asked.append(length)
        if len(asked) == 1:
            raise OSError(12, "Cannot allocate memory")
        return whole(handle, length, **options)

    monkeypatch.setattr(storage.mmap, "mmap", refuse_all)
    assert bytes(MappedFile(path).view(5, 9)) == CONTENT[5:14]
    assert len(asked) == 2


def test_other_mapping_errors_are_raised(path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(storage.mmap, "mmap", refuse)
    with pytest.raises(OSError, match="Input/output"):
        MappedFile(path).view(5, 9)
