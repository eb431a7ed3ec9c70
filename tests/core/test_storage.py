from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphport as gp
from graphport.core import storage
from graphport.core.budget import OverBudgetError
from graphport.core.dtypes import DType
from graphport.core.storage import (
    CHUNK,
    HELD,
    ArrayStorage,
    Bits,
    Bytes,
    FileStorage,
    MappedFile,
    Packing,
    Pages,
    Storage,
    View,
    Windows,
    pack,
    storage_of,
    unpack,
)
from tests.every import every
from tests.models import model, node, typed

NARROW = [dtype for dtype in DType if 0 < dtype.bits < 8]
WIDE = [dtype for dtype in DType if dtype.bits >= 8]


def bytes_of(storage: Storage, limit: int = CHUNK) -> bytes:
    return b"".join(bytes(piece) for piece in storage.chunks(limit))


# --- bytes and files --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["bytes", "file"])
def source(request, tmp_path):
    """Ten bytes, 0 to 9, in memory and in a file."""
    if request.param == "bytes":
        return Bytes(bytes(range(10)))
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(10)))
    return MappedFile(path)


def test_a_piece_is_seen_without_being_copied(source):
    assert source.size == 10
    assert bytes(source.view(2, 3)) == b"\2\3\4"
    assert bytes(source.view(10, 0)) == b""
    assert source.view(0, 10).readonly


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_chunks_yield_pieces_up_to_the_limit(source, limit):
    # A chunk is valid until the next is requested.
    pieces = [bytes(piece) for piece in source.chunks(1, 8, limit)]
    assert b"".join(pieces) == bytes(range(1, 9))
    assert all(len(piece) == limit for piece in pieces[:-1])
    assert list(source.chunks(5, 0, limit)) == []


def test_bytes_are_those_of_any_memory():
    assert bytes(Bytes(np.array([1, 2], "<u2").data).view(0, 4)) == b"\1\0\2\0"
    assert Bytes(b"").size == 0


def test_an_empty_file_is_no_trouble(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    file = MappedFile(path)
    assert (file.size, bytes(file.view(0, 0)), list(file.chunks(0, 0))) == (0, b"", [])


def test_mapped_file_is_independent_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"abc")
    file = MappedFile("weights.bin")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert bytes(file.view(0, 3)) == b"abc"
    assert b"".join(map(bytes, file.chunks(0, 3))) == b"abc"


def test_a_file_that_is_missing_is_noticed_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        MappedFile(tmp_path / "nothing")


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(10)))
    os.utime(path, (1, 1))
    return path


def replace(path: Path, data: bytes) -> None:
    """Replace the file at `path` by a new one."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(path)


CHANGED = r"weights\.bin was changed or replaced after it was opened"


def test_a_file_that_is_written_into_is_noticed(weights):
    file = MappedFile(weights)
    os.truncate(weights, 5)
    with pytest.raises(OSError, match=CHANGED):
        list(file.chunks(0, 5))
    with pytest.raises(OSError, match=CHANGED):
        file.view(0, 5)


@pytest.mark.parametrize("change", [lambda path: os.truncate(path, 5), lambda path: path.write_bytes(bytes(10))])
def test_steady_detects_a_change_at_its_end(weights, change):
    file = MappedFile(weights)

    def look():
        with file.steady():
            assert bytes(file.view(0, 3)) == bytes(range(3))
            change(weights)
            assert len(file.view(0, 3)) == 3

    with pytest.raises(OSError, match=CHANGED):
        look()
    with pytest.raises(OSError, match=CHANGED):
        file.view(0, 3)


def test_steady_ignores_an_unread_removed_file(weights):
    file = MappedFile(weights)
    with file.steady():
        weights.unlink()


@pytest.mark.parametrize("size", [10, 4096, 100_000])
def test_in_place_change_with_reset_mtime_is_detected(tmp_path, monkeypatch, size):
    monkeypatch.setattr(storage, "_PATIENCE", 0)
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(size))
    before = path.stat()
    seen, read = MappedFile(path), MappedFile(path)
    assert bytes(seen.view(0, 5)) == bytes(5)
    pieces = read.chunks(0, size, 7)
    next(pieces)
    with path.open("r+b") as file:
        file.write(bytes([1]) * size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(OSError, match=CHANGED):
        seen.view(0, 5)
    with pytest.raises(OSError, match=CHANGED):
        list(pieces)  # reported at the end, after some chunks


@pytest.mark.skipif(os.name != "posix", reason="the system keeps no time of the last change")
def test_change_between_sampled_pages_with_reset_mtime_is_detected(tmp_path):
    size = 10_000_000
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(size))
    before = path.stat()
    file = MappedFile(path)
    file.view(0, 5)
    with path.open("r+b") as written:
        written.seek(size // 2)
        written.write(b"1")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(OSError, match=CHANGED):
            file.view(0, 5)


def test_sample_digest_covers_small_files_completely(tmp_path):
    def digests(size, place):
        path = tmp_path / "weights.bin"
        path.write_bytes(bytes(size))
        file = MappedFile(path)
        before = file._sample_digest()
        with path.open("r+b") as written:
            written.seek(place)
            written.write(b"1")
        return before, file._sample_digest()

    page, whole = 4096, 1 << 18
    for size in (1, page, page + 1, 100_000, whole + page - 1):
        for place in {0, 1, size // 2, size // 5, size - 1} - {size}:
            before, after = digests(size, place)
            assert before != after, (size, place)
    size = whole + 10 * page
    starts = [(size - page) * each // 3 for each in range(4)]
    for start in starts:
        for place in (start, start + page - 1):
            before, after = digests(size, place)
            assert before != after, place
        if start:
            before, after = digests(size, start - 1)
            assert before == after, start
    before, after = digests(whole + page, whole // 2)
    assert before == after


def test_sample_digest_is_repeated_after_the_interval(tmp_path, monkeypatch):
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(10))
    now, looks = [0.0], []
    monkeypatch.setattr(storage.time, "monotonic", lambda: now[0])
    plain = MappedFile._sample_digest
    monkeypatch.setattr(MappedFile, "_sample_digest", lambda self: (looks.append(now[0]), plain(self))[1])
    file = MappedFile(path)
    file.view(0, 1)
    for now[0] in (0.0, 0.04, 0.05, 0.09, 0.101, 0.2):
        file.view(0, 1)
    assert looks == [0.0, 0.05, 0.101, 0.2]


def test_missing_digest_does_not_report_a_change(weights, monkeypatch):
    monkeypatch.setattr(storage, "_PATIENCE", 0)
    file = MappedFile(weights)
    file.view(0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "_sample_digest", lambda self: None)
        assert bytes(file.view(1, 2)) == b"\1\2"
    assert bytes(file.view(1, 2)) == b"\1\2"


@pytest.mark.skipif(os.name != "posix", reason="rights and links as POSIX has them")
def test_other_rights_and_other_links_are_no_other_numbers(weights, tmp_path):
    weights.chmod(0o640)
    file = MappedFile(weights)
    for change in (
        lambda: weights.chmod(0o600),
        lambda: weights.chmod(0o640),
        lambda: os.link(weights, tmp_path / "link"),
        (tmp_path / "link").unlink,
    ):
        change()
        assert bytes(file.view(0, 2)) == b"\0\1"


@pytest.mark.parametrize("name", ["m.nnef.tgz", "m.nnef.tar", "m.graphport", "m.tflite", "m.onnx", "folder"])
def test_unchanged_files_have_a_stable_digest(tmp_path, monkeypatch, name):
    monkeypatch.setattr(storage, "_PATIENCE", 0)
    weights = {"w": np.arange(64 * 300, dtype=np.float32).reshape(64, 300)}
    made = gp.from_onnx(
        model([node("MatMul", ["x", "w"], ["y"])], [typed("x", [1, 64])], [typed("y", [1, 300])], weights)
    )
    gp.save(made, tmp_path / name)
    held = [value.storage for value in gp.load(tmp_path / name).graph.constants if value.storage is not None]
    for _ in range(3):
        assert max(each.numpy().max() for each in held) == 64 * 300 - 1
        assert sum(len(bytes_of(each)) for each in held) >= 64 * 300 * 4


def test_a_file_that_becomes_shorter_while_it_is_read_is_noticed(weights):
    file = MappedFile(weights)
    pieces = file.chunks(0, 10, 4)
    assert bytes(next(pieces)) == b"\0\1\2\3"
    os.truncate(weights, 5)
    assert bytes(next(pieces)) == b"\4"
    with pytest.raises(OSError, match=r"weights\.bin was truncated while it was read"):
        next(pieces)


def test_view_past_the_end_raises_oserror(weights):
    with pytest.raises(OSError, match=r"weights\.bin was truncated while it was read"):
        MappedFile(weights).view(5, 6)


@pytest.mark.parametrize("change", [lambda path: replace(path, b"other"), Path.unlink], ids=["replaced", "removed"])
def test_mapped_file_keeps_its_content_after_replacement(weights, change):
    file = MappedFile(weights)
    assert bytes(file.view(0, 1)) == b"\0"
    change(weights)
    assert bytes(file.view(2, 3)) == b"\2\3\4"
    assert b"".join(map(bytes, file.chunks(2, 5, 2))) == b"\2\3\4\5\6"


def test_a_file_that_is_replaced_before_it_is_mapped_is_noticed(weights):
    file = MappedFile(weights)
    replace(weights, bytes(10))
    with pytest.raises(OSError, match=CHANGED):
        list(file.chunks(0, 10))
    with pytest.raises(OSError, match=CHANGED):
        file.view(0, 10)


def test_files_are_closed_again(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(10))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        file = MappedFile(path)
        file.view(0, 1)
        list(file.chunks(0, 10, 3))
        del file
        gc.collect()


# --- storages ---------------------------------------------------------------------------------------------------------


@every("dtype", WIDE, ids=str)
def test_numbers_in_a_file_are_those_that_were_written(dtype, tmp_path):
    array = (np.arange(6) % 2).astype(dtype.numpy).reshape(2, 3)
    stored = ArrayStorage(array)
    path = tmp_path / "weights.bin"
    path.write_bytes(b"x" + bytes_of(stored))
    storage = FileStorage(MappedFile(path), 1, dtype, [2, 3])
    assert (storage.dtype, storage.shape, storage.count, storage.nbytes) == (dtype, (2, 3), 6, array.nbytes)
    assert storage.numpy().dtype == dtype.numpy
    assert storage.numpy().tobytes() == array.tobytes()
    assert bytes_of(storage) == bytes_of(storage, 5) == array.tobytes()


@pytest.mark.skipif(sys.byteorder != "little", reason="elsewhere the bytes are swapped into a copy")
def test_numbers_in_a_file_have_the_very_type_of_their_element_type():
    for dtype in WIDE:
        storage = FileStorage(Bytes(bytes(2 * dtype.bits // 8)), 0, dtype, (2,))
        assert storage.numpy().dtype is dtype.numpy or storage.numpy().dtype.isbuiltin == dtype.numpy.isbuiltin


@pytest.mark.parametrize("packing", Packing)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@given(data=st.data())
def test_narrow_numbers_are_unpacked_and_packed(dtype, packing, data):
    raw = data.draw(st.binary(max_size=9))
    count = len(raw) * 8 // dtype.bits
    shape = data.draw(st.sampled_from([(count,), (count, 1), (1, count, 1)]))
    storage = FileStorage(Bytes(raw), 0, dtype, shape, packing)
    digits = [f"{byte:08b}" for byte in raw]
    width = dtype.bits
    if packing is Packing.LOW_FIRST:
        fields = [digit[8 - start - width : 8 - start] for digit in digits for start in range(0, 8, width)]
    else:
        fields = [digit[start : start + width] for digit in digits for start in range(0, 8, width)]
    numbers = [int(field, 2) for field in fields]
    if dtype.kind == "i":
        numbers = [number - (1 << width) if number >> (width - 1) else number for number in numbers]
    expected = np.array(numbers, np.int64).astype(dtype.numpy)
    if dtype.kind == "f":
        expected = np.array(numbers, np.uint8).view(dtype.numpy)
    assert storage.numpy().shape == shape
    assert storage.numpy().dtype == dtype.numpy
    assert storage.numpy().tobytes() == expected.tobytes()
    # For any source, bits are packed from the least significant on.
    again = unpack(np.frombuffer(bytes_of(storage, 2), np.uint8), dtype, shape)
    assert again.tobytes() == expected.tobytes()
    assert bytes_of(ArrayStorage(expected)) == bytes_of(storage) == pack(expected, width)


@pytest.mark.parametrize(
    ("dtype", "raw", "low", "high"),
    [
        pytest.param(DType.INT4, b"\x81\x0f", [1, -8, -1], [-8, 1, 0], id="int4"),
        pytest.param(DType.UINT4, b"\x81\x0f", [1, 8, 15], [8, 1, 0], id="uint4"),
        pytest.param(DType.INT2, b"\x1b", [-1, -2, 1], [0, 1, -2], id="int2"),
        pytest.param(DType.FLOAT4E2M1, b"\x29\x07", [-0.5, 1.0, 6.0], [1.0, -0.5, 0.0], id="float4"),
    ],
)
def test_packed_elements_support_both_bit_orders(dtype, raw, low, high):
    for packing, expected in ((Packing.LOW_FIRST, low), (Packing.HIGH_FIRST, high)):
        found = FileStorage(Bytes(raw), 0, dtype, (3,), packing).numpy()
        assert found.astype(np.float64).tolist() == expected


def test_pack_zeroes_unused_bits():
    assert pack(np.array([-1, -1, -1], DType.INT4.numpy), 4) == b"\xff\x0f"
    assert pack(np.array([300, 1], np.int64), 4) == b"\x1c"
    assert pack(np.array([], np.uint8), 2) == b""


def test_bool_storage_treats_nonzero_as_true():
    storage = FileStorage(Bytes(b"\0\1\2\xff"), 0, DType.BOOL, (4,))
    assert storage.numpy().view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT4, DType.BOOL, DType.BFLOAT16])
def test_tensors_without_elements_or_axes_are_no_trouble(dtype, shape):
    storage = ArrayStorage(np.zeros(shape, dtype.numpy))
    raw = bytes_of(storage)
    assert len(raw) == storage.nbytes == dtype.size(storage.count)
    read = FileStorage(Bytes(raw), 0, dtype, shape)
    assert (read.numpy().shape, bytes_of(read)) == (shape, raw)


def test_arrays_are_not_copied_and_not_to_be_written():
    array = np.arange(4.0)
    storage = ArrayStorage(array)
    assert np.shares_memory(storage.numpy(), array)
    assert array.flags.writeable
    raw = Bytes(bytes(16))
    for found in (
        storage.numpy(),
        FileStorage(raw, 0, DType.FLOAT32, (4,)).numpy(),
        FileStorage(raw, 0, DType.INT4, (4,)).numpy(),
        FileStorage(raw, 0, DType.BOOL, (4,)).numpy(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1


def test_array_storage_is_little_endian_and_contiguous():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    for same in (array, np.asfortranarray(array), array.astype(">i2"), np.repeat(array, 2, axis=1)[:, ::2]):
        storage = ArrayStorage(same)
        assert (storage.dtype, storage.numpy().dtype) == (DType.INT16, np.dtype(np.int16))
        assert bytes_of(storage) == bytes([0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0])
        assert bytes_of(storage, 5) == bytes_of(storage)


def test_array_storage_rejects_a_different_dtype():
    with pytest.raises(ValueError, match="an array of float64 cannot store float32"):
        ArrayStorage(np.zeros(2), DType.FLOAT32)
    with pytest.raises(ValueError, match="an array of uint8 cannot store int4"):
        ArrayStorage(np.zeros(2, np.uint8), DType.INT4)


def test_texts_are_objects_and_have_no_bytes():
    for data in (["a", "bc"], np.array(["a", "bc"]), np.array(["a", "bc"], object)):
        storage = storage_of(data)
        assert (storage.dtype, storage.nbytes, storage.numpy().dtype) == (DType.STRING, 0, np.dtype(object))
        assert storage.numpy().tolist() == ["a", "bc"]
        assert bytes_of(storage) == b""
    assert storage_of([b"a"]).numpy().tolist() == [b"a"]


def test_storages_are_built_from_numbers_and_lists():
    assert (storage_of(1).dtype, storage_of(1).shape) == (DType.INT64, ())
    assert storage_of([[1.5]]).dtype is DType.FLOAT64
    assert storage_of([1, 2], DType.INT4).numpy().dtype == DType.INT4.numpy
    assert storage_of(["a"], DType.STRING).numpy().tolist() == ["a"]


def test_the_same_numbers_are_seen_in_another_shape():
    array = np.arange(6, dtype=np.float32)
    storage = ArrayStorage(array).reshaped((2, 3)).reshaped([3, 2])
    assert (storage.dtype, storage.shape, storage.numpy().tolist()) == (DType.FLOAT32, (3, 2), [[0, 1], [2, 3], [4, 5]])
    assert np.shares_memory(storage.numpy(), array)
    assert bytes_of(storage, 5) == array.tobytes()
    with pytest.raises(ValueError, match=r"6 elements cannot have shape \(4,\)"):
        storage.reshaped((4,))


def test_reshaping_again_and_again_stays_quick():
    storage: Storage = ArrayStorage(np.arange(6))
    for _ in range(5_000):
        storage = storage.reshaped((6,))
    assert storage.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert isinstance(storage, View)
    assert isinstance(storage.of, ArrayStorage)


@pytest.mark.parametrize(
    ("source", "dtype", "shape", "expected"),
    [
        pytest.param(np.array([[0x21, 0x43]], np.uint8), DType.UINT4, (4,), [1, 2, 3, 4], id="nibbles"),
        pytest.param(np.array([0xF1], np.uint8), DType.INT4, (1, 2), [[1, -1]], id="signed nibbles"),
        pytest.param(np.array([0x3F800000], np.int32), DType.FLOAT32, (1,), [1.0], id="floats"),
        pytest.param(np.array([0xE4], np.uint8), DType.UINT2, (4,), [0, 1, 2, 3], id="two bits"),
    ],
)
def test_bits_reinterprets_bytes_as_another_dtype(source, dtype, shape, expected):
    bits = Bits(storage_of(source), dtype, shape)
    assert bits.numpy().astype(np.float64).tolist() == expected
    assert (bits.dtype, bits.shape, bits.nbytes) == (dtype, shape, source.nbytes)
    assert b"".join(map(bytes, bits.chunks(1))) == source.tobytes()


@pytest.mark.parametrize(("dtype", "shape"), [(DType.UINT4, (5,)), (DType.STRING, ())], ids=["other length", "text"])
def test_bytes_of_another_number_are_no_such_tensor(dtype, shape):
    with pytest.raises(ValueError, match="2 bytes of uint8"):
        Bits(storage_of(np.zeros(2, np.uint8)), dtype, shape)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_pages_that_were_looked_at_are_released_and_views_stay_good(tmp_path):
    def resident():
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile:"))

    path, step = tmp_path / "large.bin", HELD // 4
    with path.open("wb") as file:
        for number in range(32):
            file.write(bytes([number]) * step)
    mapped, before = MappedFile(path), resident()
    seen = [np.frombuffer(mapped.view(number * step, step), np.uint8) for number in range(32)]
    most = 0
    for number in range(32):
        np.frombuffer(mapped.view(number * step, step), np.uint8).sum()
        most = max(most, resident() - before)
    assert most < 2 * HELD
    assert [int(array[-1]) for array in seen] == list(range(32))


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")
def test_a_file_larger_than_the_addresses_is_mapped_piece_by_piece(tmp_path):
    path = tmp_path / "weights.bin"
    with path.open("wb") as file:
        file.truncate(5 << 30)
        file.seek(3 << 30)
        file.write(b"here")
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from graphport.core import storage
from graphport.core.storage import MappedFile
file = MappedFile({str(path)!r})
assert file.view(3 << 30, 4).tobytes() == b"here"
assert file.view((3 << 30) - 5000, 5004)[-4:].tobytes() == b"here"
assert sum(map(len, file.chunks(0, 1 << 26))) == 1 << 26
try:
    file.view(0, 4 << 30)
except OSError as error:
    assert "weights.bin" in str(error) and "ulimit -v" in str(error)
else:
    raise SystemExit("it was mapped")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_mapped_pages_are_released_after_the_limit(weights, monkeypatch):
    class Map:
        given_back = 0

        def madvise(self, _):
            Map.given_back += 1

    monkeypatch.setattr(storage, "HELD", 5 * 4096)
    with weights.open("rb") as file:
        pages = Pages(file.fileno())
    pages._map = Map()  # pyright: ignore[reportAttributeAccessIssue]
    # Each view maps at least a page.
    for length, expected in ((1, 0), (4096, 0), (3 * 4096, 0), (1, 1), (4 * 4096, 1), (1, 2), (6 * 4096, 3), (0, 4)):
        pages.view(0, length)
        assert Map.given_back == expected, length


def test_is_cut_detects_truncation(weights):
    with weights.open("rb") as file:
        pages = Pages(file.fileno())
    assert not pages.is_cut()
    os.truncate(weights, 20)
    assert not pages.is_cut()
    os.truncate(weights, 9)
    assert pages.is_cut()


def test_sample_digest_of_an_unreadable_file_is_none(weights, monkeypatch):
    def refused(*_, **__):
        raise PermissionError

    file = MappedFile(weights)
    monkeypatch.setattr(storage, "open", refused, raising=False)
    assert file._sample_digest() is None


def test_windows_start_at_allocation_granularity(tmp_path):
    path, grain = tmp_path / "weights.bin", mmap.ALLOCATIONGRANULARITY
    data = np.random.default_rng(0).bytes(3 * grain)
    path.write_bytes(data)
    with path.open("rb") as file:
        windows = Windows(file.fileno(), len(data), path)
    for start in (0, 1, grain - 1, grain, grain + 1, 2 * grain + 7):
        for length in (0, 1, 100, grain - 7):
            assert bytes(windows.view(start, length)) == data[start : start + length]
    assert not windows.is_cut()
    os.truncate(path, len(data) - 1)
    assert windows.is_cut()


@every("limit", [1, 3, 7, 100])
def test_narrow_numbers_in_pieces_are_those_at_once(limit):
    """For any number of elements, in both bit orders."""
    raw = bytes(range(0, 250, 4))
    for bits, dtype in ((2, DType.UINT2), (4, DType.UINT4)):
        for count in (0, 1, 7, 8, 9, 100):
            for packing in Packing:
                stored = FileStorage(Bytes(raw), 2, dtype, (count,), packing)
                packed = bytes_of(stored, limit)
                again = FileStorage(Bytes(packed), 0, dtype, (count,))
                np.testing.assert_array_equal(again.numpy(), stored.numpy())
                assert len(packed) == (count * bits + 7) // 8
                if packing is Packing.LOW_FIRST:
                    expected = [(raw[2 + at * bits // 8] >> (at * bits % 8)) & ((1 << bits) - 1) for at in range(count)]
                else:
                    shifts = [8 - bits - at * bits % 8 for at in range(count)]
                    expected = [
                        (raw[2 + at * bits // 8] >> shift) & ((1 << bits) - 1) for at, shift in enumerate(shifts)
                    ]
                assert stored.numpy().astype(int).tolist() == expected


def test_empty_storage_with_oversized_dims_is_over_budget():
    empty = FileStorage(Bytes(b""), 0, DType.FLOAT32, (0, 2**31, 2**31, 2**31))
    assert empty.nbytes == 0
    with pytest.raises(OverBudgetError, match="the limit is"):
        empty.numpy()
    assert FileStorage(Bytes(b""), 0, DType.FLOAT32, (0, 5)).numpy().shape == (0, 5)
