"""The directory of a zip archive that a stranger may have damaged."""

from __future__ import annotations

import io
import random
from zipfile import BadZipFile, ZipFile

import pytest

from graphport.core.storage import Bytes
from graphport.core.zip_directory import member_start, read_directory, read_mapped_directory


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w") as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    return file.getvalue()


def test_members_begin_after_their_headers():
    data = archive(a=b"first", long_name=b"second")
    entries = read_mapped_directory(Bytes(data))
    for entry, expected in zip(entries, (b"first", b"second"), strict=True):
        start = member_start(Bytes(data), entry.header_offset)
        assert start is not None
        assert data[start : start + entry.file_size] == expected


def test_zip_directory_is_read_from_a_part_of_a_file():
    data = archive(a=b"first")
    (entry,) = read_mapped_directory(Bytes(b"in front" + data + b"behind"), 8, len(data))
    assert (entry.filename, entry.header_offset) == ("a", 0)


@pytest.mark.parametrize("header", [-1, 1, 1000, 1 << 40])
def test_a_position_without_a_header_has_no_member(header):
    assert member_start(Bytes(archive(a=b"first")), header) is None


def test_a_damaged_directory_is_a_bad_zip_file_or_is_read():
    chance = random.Random(0)
    whole = archive(a=b"first", b=b"second" * 9)
    refused = 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read_mapped_directory(Bytes(bytes(data[: chance.randint(1, len(data))] if chance.random() < 0.2 else data)))
        except BadZipFile:
            refused += 1
    assert 400 < refused < 2000


def test_a_newer_version_of_the_format_is_a_bad_zip_file():
    data = bytearray(archive(a=b"first"))
    at = data.index(b"PK\1\2")
    data[at + 6] = 99
    with pytest.raises(BadZipFile, match="version"):
        read_directory(io.BytesIO(bytes(data)))
