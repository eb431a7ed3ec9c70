"""`.npz` files are untrusted like everything else."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from graphport.cli import arrays
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType


def refused(path):
    with pytest.raises(DiagnosticError) as caught:
        arrays.read(path)
    (finding,) = caught.value.diagnostics
    assert finding.code == "IO0005"
    assert finding.span is not None
    assert finding.span.file == str(path)
    return finding.message


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def archive(path, **entries):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files_of_numpy_are_read(tmp_path, save):
    given = {"x": np.arange(6.0).reshape(2, 3), "a/b:0": np.array(True), "empty": np.zeros((0, 3), np.int8)}
    given["fortran"] = np.asfortranarray(given["x"])
    save(tmp_path / "in.npz", **given)
    found = arrays.read(tmp_path / "in.npz")
    assert list(found) == list(given)
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_arrays_of_the_second_header_version_are_read(tmp_path):
    path = archive(tmp_path / "in.npz", x=npy(np.arange(3), version=(2, 0)))
    np.testing.assert_array_equal(arrays.read(path)["x"], [0, 1, 2])


def test_object_arrays_are_rejected_without_unpickling(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    header = npy(np.array([None]), allow_pickle=True)
    path = archive(tmp_path / "in.npz", x=header[: header.index(b"\x80")] + pickle.dumps(Trap()))
    assert "Object arrays cannot be loaded" in refused(path)


def test_shape_larger_than_the_file_is_rejected_before_allocation(tmp_path):
    honest = npy(np.zeros(1, np.float64))
    lie = honest.replace(b"(1,), ", b"(1" + b"0" * 14 + b",), ").replace(b" " * 14 + b"\n", b"\n")
    assert len(lie) == len(honest)
    assert "truncated array: 800000000000000 bytes expected, 8 left" in refused(archive(tmp_path / "in.npz", x=lie))


def test_wrong_zip_entry_size_is_rejected_before_allocation(tmp_path):
    lie = npy(np.zeros(1)).replace(b"(1,), ", b"(1" + b"0" * 8 + b",), ").replace(b" " * 8 + b"\n", b"\n")
    path = archive(tmp_path / "in.npz", x=lie)
    content = path.read_bytes()
    directory = content.rindex(b"PK\x01\x02")
    claimed = struct.pack("<I", 128 + 800_000_000)
    path.write_bytes(content[: directory + 24] + claimed + content[directory + 28 :])
    assert "cannot have 800000128 bytes" in refused(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello", id="text"),
        pytest.param(npy(np.arange(3)), id="one array"),
        pytest.param(b"PK\x05\x06" + b"\0" * 17, id="a cut archive"),
    ],
)
def test_a_file_that_is_not_an_archive_is_refused(tmp_path, content):
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    assert "is not an .npz file of numeric arrays" in refused(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello world", id="not an array"),
        pytest.param(npy(np.arange(3))[:-1], id="cut"),
        pytest.param(npy(np.arange(3)) + b"\0", id="too long"),
        pytest.param(b"\x93NUMPY\x03\x00" + npy(np.arange(3))[8:], id="a version for named fields"),
        pytest.param(b"\x93NUMPY\x01\x00" + struct.pack("<H", 8) + b"{'descr'", id="a cut header"),
        pytest.param(b"\x93NUMPY\x01\x00" + struct.pack("<H", 8) + b"f(x)    ", id="a call as header"),
        pytest.param(b"\x93NUMPY\x01\x00" + struct.pack("<H", 8) + b"'''     ", id="an open text as header"),
    ],
)
def test_a_damaged_entry_is_refused(tmp_path, content):
    refused(archive(tmp_path / "in.npz", x=content))


@pytest.mark.parametrize("step", [1, 7, 64, 200])
def test_damaged_bytes_are_refused_or_read(tmp_path, step):
    np.savez_compressed(tmp_path / "in.npz", x=np.arange(100), y=np.zeros(50))
    content = (tmp_path / "in.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    for place in range(0, len(content), step * 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            arrays.read(path)
        except DiagnosticError:
            continue


def test_a_file_that_is_missing_is_the_systems_fault(tmp_path):
    with pytest.raises(FileNotFoundError):
        arrays.read(tmp_path / "in.npz")


def test_lists_are_gathered_and_written_item_by_item(tmp_path):
    arrays.write(tmp_path / "out.npz", {"s": [np.zeros(2), np.ones(3)], "x": np.arange(2), "none": None})
    found = arrays.read(tmp_path / "out.npz")
    assert list(found) == ["s.0", "s.1", "x"]
    gathered = arrays.gathered(found, ["s", "t"])
    assert list(gathered) == ["x", "s", "t"]
    np.testing.assert_array_equal(gathered["s"][1], np.ones(3))
    assert gathered["t"] == []


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (DType.BFLOAT16, np.float32),
        (DType.FLOAT16, np.float32),
        (DType.FLOAT8E5M2, np.float32),
        (DType.FLOAT4E2M1, np.float32),
        (DType.INT4, np.int8),
        (DType.UINT2, np.uint8),
        (DType.FLOAT64, np.float64),
        (DType.BOOL, np.bool_),
        (DType.COMPLEX64, np.complex64),
        (DType.UINT64, np.uint64),
    ],
    ids=str,
)
def test_dtypes_missing_in_npy_are_widened(tmp_path, dtype, stored):
    x = np.array([0, 1], np.float32).astype(dtype.numpy)
    arrays.write(tmp_path / "out.npz", {"x": x})
    with np.load(tmp_path / "out.npz") as file:
        found = file["x"]
    assert found.dtype == stored
    np.testing.assert_array_equal(found.astype(np.complex128), [0, 1])


def test_texts_are_stored_with_a_fixed_width(tmp_path):
    arrays.write(tmp_path / "out.npz", {"x": np.array(["a", "bc"], object)})
    with np.load(tmp_path / "out.npz") as file:
        assert file["x"].tolist() == ["a", "bc"]


def test_writing_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    path = tmp_path / "out.npz"
    arrays.write(path, {"x": np.arange(2)})
    before = path.read_bytes()
    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="No space left"):
        arrays.write(path, {"x": np.arange(3)})
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["out.npz"]


def test_no_member_of_an_archive_leaves_the_folder(tmp_path):
    arrays.write(tmp_path / "r.npz", {"../../up": np.ones(2), "a/b": np.ones(1), "/layer/out": np.zeros(1)})
    with np.load(tmp_path / "r.npz") as data:
        assert set(data) == {"up", "a/b", "/layer/out"}
