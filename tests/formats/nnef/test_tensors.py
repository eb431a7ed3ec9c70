from __future__ import annotations

import math
import struct
import tempfile
import time
import tracemalloc
from typing import Any

import ml_dtypes
import nnef
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage, Bytes, FileStorage, MappedFile, Storage, storage_of
from graphport.formats.nnef.container.item_types import Converted, ItemType, NumberEncoding
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.tensors import Region, read_tensor, tensor_file
from tests.every import every

FINAL, PROVISIONAL = Edition.FINAL, Edition.PROVISIONAL


def final(shape, code, bits, data, *, params=b"", vendor=0, length=None, version=(1, 0), magic=b"\x4e\xef", rank=None):
    extents = [*shape, *[0] * (8 - len(shape))]
    length = len(data) if length is None else length
    rank = len(shape) if rank is None else rank
    head = magic + bytes(version) + struct.pack("<II8IIHH", length, rank, *extents, bits, code, vendor)
    return (head + params).ljust(128, b"\0") + data


def provisional(shape, code, bits, data, *, algorithm=b"", offset=None):
    offset = 16 + 4 * len(shape) + len(algorithm) if offset is None else offset
    head = b"\x4e\xef\x01\x00" + struct.pack(f"<II{len(shape)}I", offset, len(shape), *shape)
    head += bytes((code, bits)) + struct.pack("<H", len(algorithm)) + algorithm
    return head.ljust(offset, b"\0") + data


def opened(content: bytes, edition: Edition | None = None):
    return read_tensor(Region(Bytes(content), 0, len(content), "weights.dat"), edition)


def written(storage: Storage, **options) -> bytes:
    payload = tensor_file(storage, "weights.dat", **options)
    content = b"".join(bytes(piece) for piece in payload.chunks())
    assert len(content) == payload.size
    return content


def reference(content: bytes) -> Any:
    """The same file as the reference reader sees it."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return nnef.read_tensor(file)


def packed(numbers, bits: int) -> bytes:
    """Numbers as one stream of bits, most significant first."""
    stream = "".join(format(number & (2**bits - 1), f"0{bits}b") for number in numbers)
    stream += "0" * (-len(stream) % 8)
    return bytes(int(stream[at : at + 8], 2) for at in range(0, len(stream), 8))


def refused(content: bytes, edition: Edition | None = None):
    with pytest.raises(DiagnosticError) as caught:
        opened(content, edition)
    return caught.value.diagnostics


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "bits", "dtype"),
    [
        pytest.param(0, 16, "float16", id="half"),
        pytest.param(0, 32, "float32", id="single"),
        pytest.param(0, 64, "float64", id="double"),
        *(pytest.param(1, bits, f"uint{bits}", id=f"unsigned of {bits}") for bits in (8, 16, 32, 64)),
        *(pytest.param(4, bits, f"int{bits}", id=f"signed of {bits}") for bits in (8, 16, 32, 64)),
    ],
)
def test_items_that_numpy_knows_are_views_of_the_file(tmp_path, code, bits, dtype):
    numbers = np.array([[0, 1, 2], [3, 100, 7]], dtype)
    path = tmp_path / "weights.dat"
    path.write_bytes(final((2, 3), code, bits, numbers.tobytes()))
    file = MappedFile(path)
    tensor = read_tensor(Region(file, 0, file.size, "weights.dat"))
    assert isinstance(tensor.storage, FileStorage)
    assert tensor.layout is FINAL
    assert tensor.storage.dtype is DType.of(dtype)
    assert tensor.storage.numpy().tolist() == numbers.tolist()
    assert not tensor.storage.numpy().flags.owndata


@every("bits", range(1, 65))
def test_integers_have_every_width_up_to_64_bits(bits):
    numbers = [0, 1, 2**bits - 1, 2 ** (bits - 1), 2**bits // 3]
    data = packed(numbers, bits)
    if bits % 8 == 0:
        data = b"".join(number.to_bytes(bits // 8, "little") for number in numbers)
    unsigned = opened(final((5,), 1, bits, data)).storage
    signed = opened(final((5,), 4, bits, data)).storage
    assert [int(x) for x in unsigned.numpy()] == numbers
    assert [int(x) for x in signed.numpy()] == [x - 2**bits if x >= 2 ** (bits - 1) else x for x in numbers]
    assert unsigned.dtype.kind == "u"
    assert signed.dtype.kind == "i"


@pytest.mark.parametrize(
    ("bits", "dtype"),
    [
        (1, "uint8"),
        (2, "uint2"),
        (3, "uint8"),
        (4, "uint4"),
        (7, "uint8"),
        (9, "uint16"),
        (24, "uint32"),
        (33, "uint64"),
    ],
)
def test_a_width_without_element_type_is_widened_to_the_next(bits, dtype):
    assert opened(final((1,), 1, bits, bytes((bits + 7) // 8))).storage.dtype is DType.of(dtype)


def test_items_narrower_than_a_byte_begin_at_its_most_significant_bit():
    assert opened(final((4,), 1, 4, b"\x1f\x20")).storage.numpy().astype(int).tolist() == [1, 15, 2, 0]


def test_logical_items_of_one_bit_begin_at_the_most_significant():
    assert opened(final((10,), 5, 1, b"\xa0\x40")).storage.numpy().tolist() == [
        *[True, False, True, False, False],
        *[False, False, False, False, True],
    ]


def test_any_logical_byte_that_is_not_zero_is_true():
    storage = opened(final((3,), 5, 8, b"\x00\x02\xff")).storage
    assert storage.dtype is DType.BOOL
    assert storage.numpy().tolist() == [False, True, True]
    assert b"".join(map(bytes, storage.chunks())) == b"\x00\x01\x01"


def test_integers_of_files_until_1_0_2_are_signed_where_a_flag_states_so():
    data = b"\xff\x01"
    assert opened(final((2,), 1, 8, data, params=struct.pack("<f", 1))).storage.numpy().tolist() == [-1, 1]
    assert opened(final((2,), 1, 8, data, params=struct.pack("<f", 0))).storage.numpy().tolist() == [255, 1]


@pytest.mark.parametrize(("code", "dtype"), [(2, "uint8"), (3, "int8")])
def test_quantized_items_without_range_stay_codes(code, dtype):
    tensor = opened(final((2,), code, 8, b"\xff\x01"))
    assert tensor.item.is_quantized
    assert tensor.item.decoding is None
    assert tensor.storage.dtype is DType.of(dtype)


@pytest.mark.parametrize("code", [2, 0x10])
def test_a_range_spreads_the_codes_evenly(code):
    tensor = opened(final((3,), code, 8, b"\x00\x33\xff", params=struct.pack("<ff", -1, 4)))
    assert tensor.storage.dtype is DType.FLOAT32
    np.testing.assert_allclose(tensor.storage.numpy(), [-1, -1 + 0x33 / 255 * 5, 4], rtol=1e-7)


@pytest.mark.parametrize("code", [3, 0x11])
def test_a_logarithmic_range_makes_codes_powers_of_two(code):
    # m = ceil(log2 5) = 3, r = 2^4 - 1 = 15: code q is 2^(q + 3 - 15).
    tensor = opened(final((3,), code, 4, b"\x0c\xf0", params=struct.pack("<ff", 0, 5)))
    assert tensor.storage.numpy().tolist() == [2.0**-12, 1.0, 8.0]


def test_a_scalar_has_rank_0():
    tensor = opened(final((), 0, 32, struct.pack("<f", 2.5)))
    assert tensor.storage.shape == ()
    assert tensor.storage.numpy().item() == 2.5


def test_a_tensor_in_the_middle_of_a_file_is_read_in_place():
    content = final((2,), 0, 32, struct.pack("<2f", 1, 2))
    file = Bytes(b"before" + content + b"behind")
    assert read_tensor(Region(file, 6, len(content), "weights.dat")).storage.numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("code", "bits", "data", "dtype", "expected"),
    [
        pytest.param(0, 32, struct.pack("<2f", 1, -2), "float32", [1, -2], id="float"),
        pytest.param(2, 8, b"\xff\x01", "int8", [-1, 1], id="signed"),
        pytest.param(3, 4, b"\xf1", "uint4", [15, 1], id="unsigned of 4 bits"),
        pytest.param(1, 8, b"\xf1\x01", "uint8", [241, 1], id="codes"),
    ],
)
def test_the_provisional_header_is_known_by_its_content(code, bits, data, dtype, expected):
    content = provisional((2,), code, bits, data)
    for edition in (None, FINAL, PROVISIONAL):
        tensor = opened(content, edition)
        assert tensor.layout is PROVISIONAL
        assert tensor.storage.dtype is DType.of(dtype)
        assert tensor.storage.numpy().astype(float).tolist() == expected


def test_a_final_header_is_known_in_a_provisional_document():
    for rank in range(9):
        shape = (1,) * rank
        assert opened(final(shape, 0, 32, bytes(4)), PROVISIONAL).layout is FINAL
        assert opened(provisional(shape, 0, 32, bytes(4)), FINAL).layout is PROVISIONAL


def test_the_edition_decides_what_is_damaged():
    content = b"\x4e\xef\x01\x00" + b"\xff" * 200
    assert [finding.code for finding in refused(content, FINAL)] == ["NNEF0704"]
    assert "64" in refused(content, PROVISIONAL)[0].message


@pytest.mark.parametrize(
    "algorithm",
    [
        b"linear_quantize(min = -1.0, max = 4.0, bits = 8)",
        b"linear_quantize(-1.0,4.0,8)",
        b"linear(max=4, min=-1e0)\0\0",
    ],
)
def test_provisional_codes_are_spread_as_their_algorithm_states(algorithm):
    tensor = opened(provisional((3,), 1, 8, b"\x00\x33\xff", algorithm=algorithm))
    np.testing.assert_allclose(tensor.storage.numpy(), [-1, 0, 4], atol=1e-6)


def test_provisional_logarithmic_codes_end_at_the_power_above_the_maximum():
    algorithm = b"logarithmic_quantize(max = 5.0, bits = 4)"
    tensor = opened(provisional((2,), 1, 4, b"\x04", algorithm=algorithm))
    assert tensor.storage.numpy().tolist() == [2.0**-1, 2.0**3]


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = final((2, 3), 0, 32, bytes(24))


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        pytest.param(b"", "NNEF0702", 0, id="empty"),
        pytest.param(b"PK" + GOOD[2:], "NNEF0702", 0, id="another format"),
        pytest.param(GOOD[:10], "NNEF0701", 10, id="cut in the first fields"),
        pytest.param(GOOD[:100], "NNEF0701", 100, id="cut in the header"),
        pytest.param(GOOD[:140], "NNEF0708", 140, id="cut in the data"),
        pytest.param(final((), 0, 32, bytes(4), version=(2, 0)), "NNEF0703", 2, id="version 2.0"),
        pytest.param(final((), 0, 32, bytes(4), rank=9), "NNEF0704", 8, id="rank 9"),
        pytest.param(final((2,), 6, 8, bytes(2)), "NNEF0705", 48, id="item type 6"),
        pytest.param(final((1,), 0, 8, bytes(1)), "NNEF0706", 44, id="float of 8 bits"),
        pytest.param(final((1,), 0, 128, bytes(16)), "NNEF0706", 44, id="float of 128 bits"),
        pytest.param(final((1,), 1, 0, b""), "NNEF0706", 44, id="integer of 0 bits"),
        pytest.param(final((1,), 4, 65, bytes(9)), "NNEF0706", 44, id="integer of 65 bits"),
        pytest.param(final((1,), 5, 2, bytes(1)), "NNEF0706", 44, id="logical of 2 bits"),
        pytest.param(final((2,), 0, 32, bytes(8), length=4), "NNEF0707", 4, id="length against extents"),
        pytest.param(final((2,), 0, 32, bytes(8), vendor=0x5452), "NNEF0710", 48, id="another vendor's items"),
        pytest.param(
            final((1,), 2, 8, bytes(1), params=struct.pack("<ff", 1, -1)), "NNEF0711", 52, id="range upside down"
        ),
        pytest.param(
            final((1,), 2, 8, bytes(1), params=struct.pack("<ff", 1, math.inf)), "NNEF0711", 52, id="endless range"
        ),
        pytest.param(
            final((1,), 3, 8, bytes(1), params=struct.pack("<ff", 0, -4)), "NNEF0711", 56, id="power below zero"
        ),
    ],
)
def test_a_damaged_header_is_refused_with_its_location(content, code, place):
    finding = next(finding for finding in refused(content) if finding.code == code)
    assert str(finding.span) == f"weights.dat: byte {place}"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(provisional((2,), 4, 8, bytes(2)), "NNEF0705", id="item type 4"),
        pytest.param(provisional((2,), 2, 65, bytes(20)), "NNEF0706", id="65 bits"),
        pytest.param(provisional((2,), 0, 32, bytes(4)), "NNEF0708", id="too little data"),
        pytest.param(provisional((2,), 0, 32, bytes(100), offset=4), "NNEF0712", id="data inside the header"),
        pytest.param(provisional((2,), 1, 8, bytes(2), algorithm=b"fancy(1)"), "NNEF0713", id="another algorithm"),
        pytest.param(provisional((2,), 1, 8, bytes(2), algorithm=b"linear(max=1)"), "NNEF0713", id="half a range"),
        pytest.param(provisional((2,), 0, 32, bytes(8))[:18], "NNEF0701", id="cut in the extents"),
    ],
)
def test_a_damaged_provisional_header_is_refused(content, code):
    assert code in [finding.code for finding in refused(content, PROVISIONAL)]


def test_all_faults_of_a_header_are_reported_at_once():
    found = refused(final((2, 3), 0, 32, bytes(20), length=7))
    assert [finding.code for finding in found] == ["NNEF0707", "NNEF0708"]


def test_extents_of_astronomical_volume_take_no_memory():
    content = final((2**32 - 1,) * 8, 4, 64, bytes(64))
    tracemalloc.start()
    found = refused(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {"NNEF0707", "NNEF0708"} == {finding.code for finding in found}
    assert peak < 100_000


def test_bytes_after_the_data_are_a_warning():
    tensor = opened(GOOD + b"more")
    (finding,) = tensor.findings
    assert (finding.code, finding.severity, str(finding.span)) == ("NNEF0709", "warning", "weights.dat: byte 152")
    assert tensor.storage.numpy().shape == (2, 3)


@given(st.binary(max_size=300), st.sampled_from([None, FINAL, PROVISIONAL]))
def test_no_bytes_whatever_make_anything_but_a_tensor_or_findings(content, edition):
    for start in (b"", b"\x4e\xef\x01\x00"):
        try:
            tensor = opened(start + content, edition)
        except DiagnosticError:
            continue
        else:
            assert tensor.storage.numpy().shape == tensor.storage.shape


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────

DTYPES = [
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "bool",
]


@every("dtype", DTYPES)
@every("shape", [(), (3,), (2, 3, 5), (1, 1, 1, 1, 1, 1, 1, 2)], ids=str)
def test_what_is_written_reads_back_here_and_in_the_reference_reader(dtype, shape):
    array = (np.arange(math.prod(shape)).reshape(shape) % 5).astype(dtype)
    content = written(storage_of(array))
    tensor = opened(content)
    assert tensor.storage.numpy().dtype == array.dtype
    assert tensor.storage.numpy().tolist() == array.tolist()
    theirs = reference(content) if shape else array
    assert theirs.dtype == array.dtype
    assert theirs.tolist() == array.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_reference_writes_is_what_we_write(dtype, tmp_path):
    array = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
    path = tmp_path / "weights.dat"
    with path.open("wb") as file:
        nnef.write_tensor(file, array)
    assert path.read_bytes() == written(storage_of(array))


@pytest.mark.parametrize("edition", [FINAL, PROVISIONAL])
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_packed_integers_are_written_from_the_most_significant_bit(dtype, edition):
    numbers = [1, 0, 1, 1, 1] if dtype == "int2" else [1, 2, 3, 0, 1]
    array = np.array(numbers, getattr(ml_dtypes, dtype))
    content = written(ArrayStorage(array), edition=edition)
    assert content.endswith(packed(numbers, int(dtype[-1])))
    tensor = opened(content)
    assert tensor.storage.numpy().astype(int).tolist() == numbers
    assert written(tensor.storage, edition=edition) == content


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "int64"])
def test_the_provisional_layout_is_written(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    content = written(storage_of(array), edition=PROVISIONAL)
    tensor = opened(content)
    assert tensor.layout is PROVISIONAL
    assert tensor.storage.dtype is DType.of(dtype)
    assert tensor.storage.numpy().tolist() == array.tolist()


def test_provisional_files_have_no_logical_items():
    tensor = opened(written(storage_of(np.array([True, False, True])), edition=PROVISIONAL))
    assert tensor.item == ItemType(NumberEncoding.UNSIGNED, 1)
    assert tensor.storage.numpy().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(final((5,), 4, 3, packed([1, 2, 3, 4, 5], 3)), id="3 bits"),
        pytest.param(final((5,), 5, 8, b"\x01\x00\x01\x01\x00"), id="logical bytes"),
        pytest.param(final((2,), 0, 16, b"\x00\x3c\x00\x40"), id="half"),
    ],
)
def test_items_are_written_as_they_were_read(content):
    storage = opened(content).storage
    assert written(storage) == content
    assert written(Converted(storage, DType.INT64).reshaped(storage.shape)) == content


def test_plain_files_have_only_items_that_all_readers_know():
    nibbles = opened(final((5,), 4, 4, packed([1, 2, 3, 4, 5], 4))).storage
    assert reference(written(nibbles, is_plain=True)).tolist() == [1, 2, 3, 4, 5]
    three = opened(final((5,), 1, 3, packed([1, 2, 3, 4, 5], 3))).storage
    assert reference(written(three, is_plain=True)).tolist() == [1, 2, 3, 4, 5]
    logical = opened(final((3,), 5, 8, b"\x01\x00\x01")).storage
    assert reference(written(logical, is_plain=True)).tolist() == [True, False, True]


def test_codes_are_marked_as_such():
    content = written(storage_of(np.array([1, 2], np.uint8)), is_quantized=True)
    assert opened(content).item == ItemType(NumberEncoding.UNSIGNED, 8, is_quantized=True)


def huge(shape, dtype: DType = DType.FLOAT32) -> Storage:
    """A storage that says how large it is and has nothing behind it."""
    return FileStorage(Bytes(b""), 0, dtype, shape)


@pytest.mark.parametrize(
    ("storage", "code"),
    [
        pytest.param(huge((2**30,)), "NNEF0720", id="4 GiB"),
        pytest.param(huge((1,) * 9), "NNEF0721", id="rank 9"),
        pytest.param(huge((2**32,), DType.UINT2), "NNEF0721", id="an extent of 33 bits"),
        pytest.param(huge((1,), DType.BFLOAT16), "NNEF0722", id="bfloat16"),
        pytest.param(huge((1,), DType.COMPLEX64), "NNEF0722", id="complex"),
        pytest.param(ArrayStorage(np.array(["a"], object)), "NNEF0722", id="text"),
    ],
)
def test_what_a_header_cannot_express_is_refused(storage, code):
    with pytest.raises(DiagnosticError) as caught:
        tensor_file(storage, "weights.dat")
    assert [finding.code for finding in caught.value.diagnostics] == [code]


def test_just_under_4_gib_can_be_written():
    assert tensor_file(huge((2**30 - 1,)), "weights.dat").size == 2**32 - 4 + 128


# ── cost ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_large_tensor_is_opened_and_rewritten_in_bounded_memory(tmp_path):
    path, copy = tmp_path / "weights.dat", tmp_path / "copy.dat"
    count = 16 << 20
    with path.open("wb") as file:
        file.write(final((count,), 0, 32, b"", length=4 * count))
        file.truncate(128 + 4 * count)
    tracemalloc.start()
    file = MappedFile(path)
    tensor = read_tensor(Region(file, 0, file.size, "weights.dat"))
    for storage in (tensor.storage, Converted(tensor.storage, DType.FLOAT16)):
        with copy.open("wb") as target:
            for piece in tensor_file(storage, "weights.dat", is_plain=True).chunks():
                target.write(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert copy.stat().st_size == 128 + 2 * count
    assert peak < 8 << 20


def test_opening_looks_at_headers_only(tmp_path):
    for number in range(25):
        with (tmp_path / f"{number}.dat").open("wb") as file:
            file.write(final((1 << 20,), 0, 32, b"", length=4 << 20))
            file.truncate(128 + (4 << 20))

    def open_all() -> float:
        began = time.process_time()
        for number in range(25):
            file = MappedFile(tmp_path / f"{number}.dat")
            read_tensor(Region(file, 0, file.size, "weights.dat"))
        return time.process_time() - began

    # The goal is 5 ms of the processor, which a busy machine tells less exactly.
    assert min(open_all() for _ in range(5)) < 0.02
