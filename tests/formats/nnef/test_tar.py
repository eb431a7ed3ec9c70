from __future__ import annotations

import io
import tarfile
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.storage import Bytes
from graphport.formats.nnef.container.tar import Archive, Member, fault_of_name, is_tar, tar_end, tar_header


def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(header(b"a.dat", b"77777777777\0"), id="8 GiB"),
        pytest.param(header(b"a.dat", b"\x80" + b"\xff" * 11), id="2^88 bytes"),
        pytest.param(header(b"a.dat", b"\xff" * 12), id="negative"),
        pytest.param(header(b"a.dat", b"12x"), id="no number"),
        pytest.param(header(b"a", b"77777777777\0", b"x"), id="notes of 8 GiB"),
        pytest.param(header(b"a", b"00000300000\0", b"L") + bytes(1 << 17), id="a name of 96 KiB"),
    ],
)
def test_sizes_are_compared_before_memory_is_taken(block):
    file = Bytes(header(b"graph.nnef", b"0") + block + bytes(1024))
    tracemalloc.start()
    with pytest.raises(DiagnosticError, match="NNEF0737"):
        Archive(file, Source("a.tar"), 10).members()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 19


@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=8))
def test_no_damage_makes_anything_but_members_or_findings(changes):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("graph.nnef", "ü" * 60 + ".dat"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
    content = bytearray(buffer.getvalue())
    for place, value in changes:
        content[place] = value
        for block in range(0, 4096, 512):
            # Checksums are made right again, so that the damage is looked at.
            if content.startswith(b"ustar", block + 257):
                content[block + 148 : block + 156] = b" " * 8
                content[block + 148 : block + 156] = b"%06o\0 " % sum(content[block : block + 512])
    try:
        members = Archive(Bytes(bytes(content)), Source("a.tar"), 10).members()
    except DiagnosticError:
        return
    assert all(member.start + member.size <= len(content) for member in members.values())


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a", None),
        ("a/b.c", None),
        ("a..b/..c", None),
        ("block 1:a", None),
        ("", "names no file"),
        ("a\0b", "names no file"),
        ("/a", "is absolute"),
        ("\\\\host\\a", "is absolute"),
        ("C:/a", "is absolute"),
        ("..", "points outside of the folder"),
        ("a/../b", "points outside of the folder"),
        ("a\\..\\b", "points outside of the folder"),
    ],
)
def test_a_name_stays_in_its_folder_or_states_why_not(name, fault):
    assert fault_of_name(name) == fault


def test_headers_have_equal_content_to_other_readers():
    name = "a" * 150 + "/b.dat"
    content = tar_header(name, 3) + b"abc".ljust(512, b"\0") + tar_end()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        (member,) = archive.getmembers()
        file = archive.extractfile(member)
        assert file is not None
        assert (member.name, file.read(), member.mtime) == (name, b"abc", 0)
    (start,) = Archive(Bytes(content), Source("a.tar"), 1).members().values()
    assert start == Member(len(content) - 3 * 512, 3)


def test_signed_checksums_of_old_archivers_are_right():
    block = bytearray(header(b"\xff\xfe.dat", b"0"))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(byte - 256 if byte > 127 else byte for byte in block)
    assert is_tar(bytes(block))
    assert not is_tar(bytes(512))
    assert not is_tar(bytes(block[:500]))
