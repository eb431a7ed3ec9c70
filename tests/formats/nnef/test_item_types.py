from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.storage import Bytes, FileStorage, storage_of
from graphport.formats.nnef.container.item_types import (
    Converted,
    Fill,
    ItemStorage,
    ItemType,
    Linear,
    Logarithmic,
    NumberEncoding,
    regrouped,
)
from tests.every import every


def packed(numbers, bits: int) -> bytes:
    """Numbers as one stream of bits, most significant first."""
    stream = "".join(format(number & (2**bits - 1), f"0{bits}b") for number in numbers)
    stream += "0" * (-len(stream) % 8)
    return bytes(int(stream[at : at + 8], 2) for at in range(0, len(stream), 8))


@every(
    ("storage", "dtype"),
    [
        pytest.param(storage_of(np.arange(-8, 8, dtype=np.int8)), DType.INT64, id="int8 to int64"),
        pytest.param(storage_of(np.linspace(0, 1, 11, dtype=np.float16)), DType.FLOAT32, id="half to single"),
        pytest.param(storage_of(np.linspace(0, 1, 11)), DType.FLOAT32, id="double to single"),
        pytest.param(storage_of(np.array([0, 1, 3, 0], np.uint8)), DType.BOOL, id="number to logical"),
        pytest.param(FileStorage(Bytes(b"\x21\x03"), 0, DType.UINT4, (3,)), DType.INT64, id="packed"),
    ],
)
@every("limit", [1, 8, 24, 1 << 20])
def test_a_conversion_is_the_same_in_chunks(storage, dtype, limit):
    converted = Converted(storage, dtype)
    expected = storage.numpy().astype(dtype.numpy)
    assert converted.numpy().dtype == dtype.numpy
    assert converted.numpy().tobytes() == expected.tobytes()
    assert b"".join(map(bytes, converted.chunks(limit))) == expected.tobytes()


def test_an_unsigned_integer_that_no_signed_one_holds_is_a_finding():
    storage = Converted(storage_of(np.array([1, 2**63], np.uint64)), DType.INT64)
    with pytest.raises(DiagnosticError, match=r"NNEF0714.*9223372036854775808"):
        storage.numpy()
    with pytest.raises(DiagnosticError, match="NNEF0714"):
        list(storage.chunks())


@given(st.integers(1, 63), st.lists(st.integers(0, 2**63 - 1), max_size=40), st.sampled_from([1, 100, 1 << 20]))
def test_decoding_is_the_same_in_chunks(bits, numbers, limit):
    numbers = [number % 2**bits for number in numbers]
    data = packed(numbers, bits)
    if bits % 8 == 0:
        data = b"".join(number.to_bytes(bits // 8, "little") for number in numbers)
    storage = ItemStorage(Bytes(data), 0, ItemType(NumberEncoding.UNSIGNED, bits), (len(numbers),))
    if bits not in (2, 4):
        assert storage.numpy().tolist() == numbers
        assert b"".join(map(bytes, storage.chunks(limit))) == storage.numpy().tobytes()


# ── others ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 4, 12, 1 << 20])
def test_a_filled_storage_is_one_number_many_times(limit):
    storage = Fill(2.5, DType.FLOAT32, (3, 5))
    expected = np.full((3, 5), 2.5, np.float32)
    assert storage.numpy().tolist() == expected.tolist()
    assert b"".join(map(bytes, storage.chunks(limit))) == expected.tobytes()
    assert list(Fill(1, DType.INT64, (0, 4)).chunks(limit)) == []


@given(st.lists(st.binary(max_size=9)), st.integers(1, 8))
def test_regrouping_keeps_the_bytes_and_cuts_at_multiples(pieces, size):
    found = [bytes(piece) for piece in regrouped(map(memoryview, pieces), size)]
    assert b"".join(found) == b"".join(pieces)
    assert all(piece and len(piece) % size == 0 for piece in found[:-1])


def test_codes_stand_for_the_reals_of_the_formulas():
    codes = np.array([0, 1, 255], np.uint8)
    assert Linear(-1, 1, 8).decode(codes).tolist() == [-1, 1 / 255 * 2 - 1, 1]
    assert Logarithmic.up_to(5, 255).decode(codes).tolist() == [2.0**-252, 2.0**-251, 8]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (ItemType(NumberEncoding.FLOAT, 32), "float of 32 bits"),
        (ItemType(NumberEncoding.LOGICAL, 1), "logical of 1 bit"),
        (ItemType(NumberEncoding.SIGNED, 8, is_quantized=True), "quantized signed integer of 8 bits"),
    ],
)
def test_an_item_states_what_it_is(item, text):
    assert str(item) == text
