from __future__ import annotations

import os
import tempfile

import pytest

from graphport.formats.nnef.container.unpacked_file import UnpackedFile


@pytest.fixture
def unpacked(tmp_path) -> UnpackedFile:
    (tmp_path / "archive").write_bytes(b"packed")
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(100)))
        file.flush()
        return UnpackedFile(tmp_path / "archive", file.fileno(), 100)


def test_it_is_read_and_mapped_after_its_maker_closed_it(unpacked):
    assert unpacked.size == 100
    assert bytes(unpacked.view(10, 3)) == b"\x0a\x0b\x0c"
    assert [bytes(piece) for piece in unpacked.chunks(0, 5, 2)] == [b"\0\1", b"\2\3", b"\4"]


def test_an_archive_that_unpacks_to_more_is_still_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("graphport.core.storage._PATIENCE", 0.0)
    (tmp_path / "archive").write_bytes(bytes(range(256)) * 40)
    with tempfile.TemporaryFile() as file:
        file.write(bytes(100_000))
        file.flush()
        made = UnpackedFile(tmp_path / "archive", file.fileno(), 100_000)
    assert bytes(made.view(50_000, 2)) == b"\0\0"
    assert sum(len(piece) for piece in made.chunks(0, 100_000)) == 100_000


def test_two_readers_do_not_disturb_each_other(unpacked):
    first, second = unpacked.chunks(0, 4, 2), unpacked.chunks(50, 4, 2)
    assert [bytes(next(each)) for each in (first, second, first, second)] == [b"\0\1", b"23", b"\2\3", b"45"]


def test_reading_beyond_the_end_is_an_error(unpacked):
    with pytest.raises(OSError, match="truncated"):
        list(unpacked.chunks(90, 20))


def test_its_descriptor_is_closed_with_it(tmp_path):
    (tmp_path / "archive").write_bytes(b"packed")
    with tempfile.TemporaryFile() as file:
        made = UnpackedFile(tmp_path / "archive", file.fileno(), 0)
    descriptor = made._descriptor
    assert bytes(made.view(0, 0)) == b""
    del made
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)
