"""Gzip streams: any reader unpacks them, and each file gets the strategy that suits it."""

from __future__ import annotations

import gzip
import io
import zlib

import numpy as np
import pytest

from graphport.formats.nnef.container.gzip_stream import GzipStream

SIZE = 1 << 20
RANDOM = np.random.default_rng(0)
TEXT = b"".join(b"h%d = conv(h%d, w%d, 0.0, padding = [(1, 1), (1, 1)]);\n" % (n, n - 1, n % 7) for n in range(20000))
KINDS = {
    "text": TEXT,
    "trained weights": (0.03 * RANDOM.standard_normal(SIZE // 4)).astype("float32").tobytes(),
    "noise": RANDOM.bytes(SIZE),
    "ones": np.ones(SIZE // 4, "float32").tobytes(),
    "zeros": bytes(SIZE),
    "nothing": b"",
}


def packed(*files: bytes) -> bytes:
    target = io.BytesIO()
    with GzipStream(target) as stream:
        for data in files:
            stream.write(b"name".ljust(512, b"\0"))
            stream.writelines([data[: SIZE // 2], memoryview(data)[SIZE // 2 :]])
    return target.getvalue()


def test_files_of_all_kinds_are_unpacked_as_one_member():
    files = list(KINDS.values())
    unpack = zlib.decompressobj(wbits=31)
    unpacked = unpack.decompress(packed(*files))
    assert unpacked == b"".join(b"name".ljust(512, b"\0") + data for data in files)
    assert (unpack.eof, unpack.unused_data) == (True, b"")


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_is_larger_than_by_gzip(kind):
    data = KINDS[kind]
    assert len(packed(data)) <= 1.01 * len(gzip.compress(b"name".ljust(512, b"\0") + data, 1)) + 64


def test_each_file_has_its_own_strategy():
    alone = sum(len(packed(data)) for data in KINDS.values())
    assert len(packed(*KINDS.values())) <= 1.001 * alone
    assert len(packed(*reversed(KINDS.values()))) <= 1.001 * alone


def test_a_stream_that_fails_is_not_completed():
    target = io.BytesIO()
    with pytest.raises(TypeError), GzipStream(target) as stream:
        stream.writelines([b"name", None])
    with pytest.raises(EOFError):
        gzip.decompress(target.getvalue())
