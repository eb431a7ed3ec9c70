"""Maps of numbers, as the library `flatbuffers` writes them, and bytes that are none."""

from __future__ import annotations

import struct
from collections.abc import Set as AbstractSet
from contextlib import suppress

import pytest
from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.flexbuffers import FlexBufferError, _FlexBuffer, read_numbers
from tests.draws import times

VALUES = st.one_of(st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(-1e30, 1e30))


def written(
    entries,
    *,
    indirect: AbstractSet[str] = frozenset(),
    unsigned: AbstractSet[str] = frozenset(),
    texts: AbstractSet[str] = frozenset(),
):
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in entries.items():
            builder.Key(name)
            if name in texts:
                builder.String(str(value))
            elif isinstance(value, bool):
                builder.Bool(value)
            elif isinstance(value, float):
                (builder.IndirectFloat if name in indirect else builder.Float)(value)
            elif name in unsigned and value >= 0:
                (builder.IndirectUInt if name in indirect else builder.UInt)(value)
            else:
                (builder.IndirectInt if name in indirect else builder.Int)(value)
    return bytes(builder.Finish())


@settings(max_examples=times(60))
@given(st.dictionaries(st.text("abcdefghij_", min_size=1, max_size=9), VALUES, max_size=6), st.data())
def test_flexbuffers_of_the_official_library_are_read(entries, data):
    chosen = [data.draw(st.sets(st.sampled_from(sorted(entries)))) if entries else set() for _ in range(3)]
    indirect, unsigned, texts = chosen
    found = read_numbers(written(entries, indirect=indirect, unsigned=unsigned, texts=texts))
    wanted = {name: value for name, value in entries.items() if name not in texts}
    assert found == wanted
    assert {name: type(value) for name, value in found.items()} == {name: type(x) for name, x in wanted.items()}


@pytest.mark.parametrize("width", [2, 4, 8])
def test_numbers_of_every_width(width):
    integer = {2: -300, 4: -70000, 8: -(1 << 40)}[width]
    real = {2: 0.5, 4: 0.1, 8: 0.1}[width]
    exact = struct.unpack("<f", struct.pack("<f", real))[0] if width == 4 else real
    assert read_numbers(written({"a": integer, "b": exact})) == {"a": integer, "b": exact}
    assert read_numbers(written({"a": abs(integer)}, unsigned={"a"})) == {"a": abs(integer)}


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\1\4\1", bytes([5, 4, 1])], ids=["none", "two", "number", "integer"])
def test_a_value_that_is_not_a_feature_map_is_refused(data):
    with pytest.raises(FlexBufferError, match=f"{len(data)} bytes, not a FlexBuffer map"):
        read_numbers(data)


def test_flexbuffer_offsets_out_of_range_are_rejected():
    good = written({"width": 7, "alpha": 0.25, "flag": True, "big": 1 << 40})
    assert len(read_numbers(good)) == 4
    damaged = [
        good[:place] + bytes([value]) + good[place + 1 :] for place in range(len(good)) for value in (0, 1, 127, 255)
    ]
    for data in [*damaged, *(good[:length] for length in range(len(good)))]:
        with suppress(FlexBufferError):
            assert all(isinstance(each, int | float) for each in read_numbers(data).values())


def test_a_map_of_too_many_entries_is_refused():
    # A count of 65,535 before the map, whose own bytes are not there.
    data = b"\0" * 8 + struct.pack("<HHH", 0, 2, 65535) + struct.pack("<H", 0) + bytes([(9 << 2) | 1, 2])
    with pytest.raises(FlexBufferError, match="a map of 65535 entries"):
        read_numbers(data)


def test_a_name_that_is_no_text_is_reported_byte_by_byte():
    data = written({"ab": 1})
    assert read_numbers(data.replace(b"ab\0", b"a\xff\0")) == {"a\\xff": 1}


def test_flexbuffer_map_size_is_limited_to_4096():
    most = {f"k{number:04}": number % 7 for number in range(1 << 12)}
    assert read_numbers(written(most)) == most
    with pytest.raises(FlexBufferError, match="a map of 4097 entries"):
        read_numbers(written(most | {"more": 1}))


def test_shortest_flexbuffer_with_invalid_offset_is_rejected():
    with pytest.raises(FlexBufferError, match="is not among its 3"):
        read_numbers(bytes([1, 9 << 2, 1]))


def test_nan_is_omitted():
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("a")
        builder.Int(1)
        builder.Key("b")
        with builder.Vector():
            builder.Int(1)
        builder.Key("c")
        builder.Null()
        builder.Key("d")
        builder.Bool(True)
    assert read_numbers(bytes(builder.Finish())) == {"a": 1, "d": True}
    assert read_numbers(written({})) == {}


def test_one_byte_float_is_rejected():
    data = bytearray(written({"a": 0.5}))
    data[-2] = 9 << 2 | data[-2] & 3
    found = read_numbers(bytes(data))
    assert found == {"a": 0.5}
    small = bytearray(written({"a": 3}))
    place = small.rindex(bytes([1 << 2]))
    small[place] = 3 << 2
    with pytest.raises(FlexBufferError, match="numeric type of 1 bytes"):
        read_numbers(bytes(small))


def test_a_name_ends_at_the_first_zero_or_with_the_bytes():
    for data, expected in ((b"ab\0c", "ab"), (b"\0ab", ""), (b"ab", "ab"), (b"a", "a")):
        assert _FlexBuffer(data).text(0) == expected
    assert _FlexBuffer(b"ab\0cd").text(3) == "cd"
    with pytest.raises(FlexBufferError):
        _FlexBuffer(b"ab").text(2)
