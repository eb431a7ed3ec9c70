from __future__ import annotations

import contextlib
import errno
import gc
import io
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from graphport.core import spill
from graphport.core.dtypes import DType
from graphport.core.spill import LEAST, UnnamedFile, spilling, store_array, store_converted
from graphport.core.storage import ArrayStorage, FileStorage

LARGE = np.arange(LEAST // 4, dtype=np.float32).reshape(2, -1)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def content(storage):
    return b"".join(bytes(piece) for piece in storage.chunks())


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        pytest.param(LARGE, None, id="floats"),
        pytest.param(LARGE.T, None, id="in another order of axes"),
        pytest.param(LARGE.astype(">f4"), None, id="of the other byte order"),
        pytest.param(np.arange(LEAST) % 3 == 0, None, id="truth values"),
        pytest.param(LARGE.astype(DType.BFLOAT16.numpy).repeat(2), DType.BFLOAT16, id="a type that NumPy has not"),
        pytest.param(LARGE.astype(np.complex64), None, id="complex"),
    ],
)
def test_a_large_array_looks_like_weights_that_were_read(array, dtype):
    there = ArrayStorage(array, dtype)
    with spilling():
        storage = store_array(array, dtype)
    assert isinstance(storage, FileStorage)
    assert (storage.dtype, storage.shape) == (there.dtype, there.shape)
    np.testing.assert_array_equal(storage.numpy(), there.numpy())
    assert content(storage) == content(there)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        pytest.param(np.zeros(LEAST // 4 - 1, np.float32), None, id="it is small"),
        pytest.param(np.zeros(4 * LEAST, DType.INT4.numpy), DType.INT4, id="its elements are narrower than a byte"),
        pytest.param(np.full(LEAST, "text", object), None, id="it is text"),
    ],
)
def test_small_or_unsupported_arrays_are_not_spilled(array, dtype):
    with spilling():
        assert isinstance(store_array(array, dtype), ArrayStorage)


def test_arrays_are_spilled_only_inside_spilling():
    assert isinstance(store_array(LARGE), ArrayStorage)
    with spilling():
        pass
    assert isinstance(store_array(LARGE), ArrayStorage)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
def test_spilled_arrays_share_a_growing_file():
    before = open_files()
    with spilling(), spilling():
        storages = [store_array(LARGE + number) for number in range(4)]
        assert open_files() == before + 1
        seen = [storage.numpy() for storage in storages[:2]]
        storages.append(store_array(LARGE + 4))
    for number, storage in enumerate(storages):
        np.testing.assert_array_equal(storage.numpy(), LARGE + number)
    for number, array in enumerate(seen):
        np.testing.assert_array_equal(array, LARGE + number)


def test_spilled_conversion_rounds_like_numpy():
    exact = np.random.default_rng(0).standard_normal((3, LEAST // 4))
    with spilling():
        storage = store_converted(exact, DType.FLOAT16)
    assert isinstance(storage, FileStorage)
    np.testing.assert_array_equal(storage.numpy(), exact.astype(np.float16))


def test_a_type_that_the_array_does_not_hold_is_refused():
    with spilling(), pytest.raises(ValueError, match="cannot store float64"):
        store_array(LARGE, DType.FLOAT64)


def test_without_room_for_the_file_arrays_stay_in_memory(monkeypatch):
    def refused(*_args, **_options):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(spill.tempfile, "TemporaryFile", refused)
    with spilling():
        storage = store_array(LARGE)
    assert isinstance(storage, ArrayStorage)
    np.testing.assert_array_equal(storage.numpy(), LARGE)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
def test_spill_file_is_closed_with_its_last_array():
    gc.collect()  # files of other tests go now
    before = open_files()
    with spilling():
        storage = store_array(LARGE)
    array = storage.numpy()
    assert open_files() > before
    del storage, array
    gc.collect()
    assert open_files() == before


def test_spill_file_in_a_reference_cycle_is_closed_without_warning():
    with spilling():
        cycle: list[object] = [store_array(LARGE)]
    cycle.append(cycle)
    # A collection while the file has another reference moves it before its owners in the collector's order.
    files = [each for each in gc.get_objects() if isinstance(each, io.FileIO) and not each.closed]
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del files, cycle
        gc.collect()
    assert not told


def test_empty_spill_file_has_an_empty_view():
    assert bytes(UnnamedFile().view(0, 0)) == b""


@pytest.mark.parametrize("inside", [True, False])
def test_rounded_pieces_never_hold_the_whole_array(inside):
    asked, wide = [], LARGE.astype(np.float64) / 3

    def pieces():
        asked.append(None)
        flat = wide.reshape(-1)
        return (flat[at : at + 1000] for at in range(0, flat.size, 1000))

    with spilling() if inside else contextlib.nullcontext():
        storage = spill.rounded_pieces(pieces, LARGE.shape, DType.FLOAT32)
    assert isinstance(storage, FileStorage) is inside
    assert (storage.dtype, storage.shape) == (DType.FLOAT32, LARGE.shape)
    np.testing.assert_array_equal(storage.numpy(), wide.astype(np.float32))
    assert asked


def test_each_array_begins_at_a_multiple_of_64_bytes_after_those_before():
    file = UnnamedFile()
    assert file.size == 0
    starts = [file.add([memoryview(bytes([number]) * length)]) for number, length in enumerate((1, 63, 64, 65, 0, 2))]
    assert starts == [0, 64, 128, 192, 320, 320]
    assert file.size == 322
    assert bytes(file.view(0, 2)) == b"\0\0"
    assert bytes(file.view(127, 66)) == b"\0" + b"\2" * 64 + b"\3"
    assert bytes(file.view(320, 2)) == b"\5\5"
    assert [bytes(piece) for piece in file.chunks(190, 5, 2)] == [b"\2\2", b"\3\3", b"\3"]
    assert list(file.chunks(190, 0, 2)) == []


def test_partial_writes_are_continued(monkeypatch):
    file = UnnamedFile()
    file.add([])
    plain, real = file._file, []
    assert plain is not None

    class Slow:
        seek, tell = plain.seek, plain.tell

        def write(self, data):
            real.append(len(data))
            return plain.write(data[:2])

    monkeypatch.setattr(file, "_file", Slow())
    assert file.add([memoryview(b"abcde"), memoryview(b"fg")]) == 0
    monkeypatch.setattr(file, "_file", plain)
    assert bytes(file.view(0, 7)) == b"abcdefg"
    assert real == [5, 3, 1, 2]


def test_an_array_is_rounded_in_pieces_of_about_a_megabyte(monkeypatch):
    seen, plain = [], UnnamedFile.add

    def watched(self, pieces):
        return plain(self, (seen.append(len(piece)) or piece for piece in pieces))

    monkeypatch.setattr(UnnamedFile, "add", watched)
    with spilling():
        store_converted(np.zeros((1 << 18) + 1, np.float64), DType.FLOAT32)
        store_converted(np.zeros(1 << 18, np.float32), DType.FLOAT64)
    assert seen == [1 << 20, 4, 1 << 20, 1 << 20]
