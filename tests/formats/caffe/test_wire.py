from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.storage import Bytes, FileStorage, Storage, storage_of
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.blobs import storage_of_blob
from graphport.formats.caffe.container.findings import Findings
from graphport.formats.caffe.container.message import Identifier, Message
from graphport.formats.caffe.container.prototxt import parse
from graphport.formats.caffe.container.wire import decode, encode
from tests.formats.caffe.networks import blob_bytes, length_field

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {"string": 9, "bytes": 12, "bool": 8, "float": 2, "double": 1, "int32": 5, "int64": 3, "uint32": 13}


def protobuf_class(kind: str):
    """The message as the protobuf library has it, from the same tables."""
    file = descriptor_pb2.FileDescriptorProto(name="net.proto", package="net", syntax="proto2")
    for name in schema.kinds():
        message = file.message_type.add(name=name)
        for enum, values in schema.ENUMS.items():
            if any(field.type == enum for field in schema.fields(name).values()):
                inner = message.enum_type.add(name=enum)
                for op_type, number in values.items():
                    inner.value.add(name=op_type, number=number)
        for field in schema.fields(name).values():
            label = _FIELD.LABEL_REPEATED if field.is_repeated else _FIELD.LABEL_OPTIONAL
            made = message.field.add(name=field.name, number=field.number, label=label)
            if field.type in _TYPES:
                made.type = _TYPES[field.type]
                if field.is_packed:
                    made.options.packed = True
            elif field.type in schema.ENUMS:
                made.type, made.type_name = _FIELD.TYPE_ENUM, f".net.{name}.{field.type}"
            else:
                made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".net.{field.type}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"net.{kind}"))


NET = protobuf_class("NetParameter")

TEXT = """
name: "net" input: "x" input_dim: 1 input_dim: -3 force_backward: true
state { phase: TEST level: -1 stage: "a" }
layer { name: "c" type: "Convolution" bottom: "x" top: "y" loss_weight: 0.5 propagate_down: true
  convolution_param { num_output: 4294967295 kernel_size: 3 kernel_size: 5 axis: -1 engine: CUDNN }
  include { phase: TRAIN } }
layers { type: POOLING pooling_param { pool: AVE } layer { type: "conv" kernelsize: 3 } }
"""


def plain(message: Message) -> dict:
    def of(content):
        if isinstance(content, Message):
            return plain(content)
        return content.numpy().tolist() if isinstance(content, Storage) else content

    return {name: [of(entry.content) for entry in entries] for name, entries in message.entries.items()}


def decoded(data: bytes, kind: str = "NetParameter") -> Message:
    return decode(Bytes(data), Source("net.caffemodel"), kind)[0]


def codes(data: bytes) -> list[str]:
    try:
        decoded(data)
    except DiagnosticError as error:
        return [finding.code for finding in error.diagnostics]
    return []


def joined(message: Message) -> bytes:
    return b"".join(
        b"".join(map(bytes, piece.chunks())) if isinstance(piece, Storage) else piece for piece in encode(message)
    )


def test_written_message_is_read_by_protobuf():
    message = parse(Source("net.prototxt", TEXT), Findings())
    theirs = NET.FromString(joined(message))
    assert theirs.name == "net"
    assert list(theirs.input_dim) == [1, -3]
    assert theirs.state.level == -1
    assert list(theirs.layer[0].convolution_param.kernel_size) == [3, 5]
    assert theirs.layer[0].convolution_param.num_output == 4294967295
    assert theirs.layers[0].type == schema.ENUMS["LayerType"]["POOLING"]
    assert theirs.layers[0].layer.kernelsize == 3


def test_files_written_by_protobuf_are_read():
    message = parse(Source("net.prototxt", TEXT), Findings())
    theirs = NET.FromString(joined(message))
    assert plain(decoded(theirs.SerializeToString())) == plain(message)


def test_field_numbers_are_unique():
    for kind in schema.kinds():
        assert len(schema.fields_by_number(kind)) == len(schema.fields(kind)), kind


def test_every_field_type_is_defined():
    known = {*schema.SCALARS, *schema.ENUMS, *schema.kinds()}
    assert all(field.type in known for kind in schema.kinds() for field in schema.fields(kind).values())


def test_numbers_of_a_blob_stay_in_the_file():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    blob = decoded(blob_bytes(array), "BlobProto")
    (entry,) = blob.all("data")
    assert isinstance(entry.content, FileStorage)
    storage = storage_of_blob(blob, Findings(), "the blob")
    np.testing.assert_array_equal(storage.numpy(), array)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3, 1, 1)])
def test_blobs_of_both_ages(shape):
    array = np.random.default_rng(0).random(shape).astype(np.float32)
    found = storage_of_blob(decoded(blob_bytes(array), "BlobProto"), Findings(), "b")
    assert found.shape == shape
    legacy = storage_of_blob(decoded(blob_bytes(array, legacy=True), "BlobProto"), Findings(), "b")
    assert legacy.shape == (1,) * (4 - len(shape)) + shape


def test_unpacked_repeated_floats_are_read():
    array = np.random.default_rng(0).random(5).astype("<f4")
    data = b"".join(b"\x2d" + number.tobytes() for number in array) + length_field(7, length_field(1, b"\x05"))
    found = storage_of_blob(decoded(data, "BlobProto"), Findings(), "b")
    np.testing.assert_array_equal(found.numpy(), array)


@pytest.mark.parametrize(("kind", "dtype"), [(0, "<f8"), (1, "<f4"), (2, "<f2")])
def test_numbers_of_another_type_become_single(kind, dtype):
    array = np.array([0.5, -2, 3], dtype)
    data = bytes([10 << 3, kind]) + length_field(12, array.tobytes()) + length_field(7, length_field(1, b"\x03"))
    found = storage_of_blob(decoded(data, "BlobProto"), Findings(), "b")
    np.testing.assert_array_equal(found.numpy(), array.astype(np.float32))


def test_double_numbers():
    data = length_field(8, np.array([1.5], "<f8").tobytes()) + length_field(7, length_field(1, b"\x01"))
    found = storage_of_blob(decoded(data, "BlobProto"), Findings(), "b")
    assert (found.dtype.numpy, found.numpy().tolist()) == (np.float32, [1.5])


def test_gradients_are_ignored():
    data = blob_bytes(np.ones(2)) + length_field(6, np.ones(2, "<f4").tobytes())
    assert "diff" not in decoded(data, "BlobProto").entries


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(
            length_field(5, b"\0" * 8) + length_field(7, length_field(1, b"\x03")),
            "CAFFE0303",
            id="fewer numbers than the shape takes",
        ),
        pytest.param(length_field(7, length_field(1, b"\x03")), "CAFFE0303", id="no numbers"),
        pytest.param(length_field(5, b"\0" * 8) + b"\x08" + b"\xff" * 9 + b"\x01", "CAFFE0302", id="a negative extent"),
        pytest.param(
            length_field(5, b"\0" * 4) * 2 + length_field(7, length_field(1, b"\x02")),
            "CAFFE0304",
            id="numbers in two pieces",
        ),
        pytest.param(
            bytes([10 << 3, 3]) + length_field(12, b"\0" * 4), "CAFFE0304", id="numbers of a type without meaning"
        ),
    ],
)
def test_damaged_blob_is_reported(data, code):
    findings = Findings()
    assert storage_of_blob(decoded(data, "BlobProto"), findings, "the blob") is None
    assert [finding.code for finding in findings.all_findings()] == [code]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0a\x05ab", id="cut short"),
        pytest.param(b"\x0a\xff\xff\xff\xff\x7f", id="a length beyond the file"),
        pytest.param(b"\xff" * 11, id="a number that does not end"),
        pytest.param(b"\x0b", id="a group"),
        pytest.param(length_field(100, length_field(7, length_field(5, b"abc"))), id="no whole number of floats"),
        pytest.param(length_field(100, length_field(8, b"\x08")), id="a message cut short within another"),
        pytest.param(b"\x08\x01", id="a text that is a number"),
    ],
)
def test_damaged_bytes_are_refused(data):
    with pytest.raises(DiagnosticError) as caught:
        decoded(data)
    assert [finding.code for finding in caught.value.diagnostics] == ["CAFFE0301"]


def _accepts(data: bytes) -> bool:
    try:
        NET.FromString(data)
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(length_field(4, b"conv"), id="text"),
        pytest.param(b"\x50\x01", id="word"),
        pytest.param(b"\x50\x81\x00", id="word of two bytes"),
        pytest.param(b"\x2d" + b"\0\0\x80\x3f", id="real"),
        pytest.param(length_field(5, b"\0\0\x80\x3f" * 2), id="packed reals"),
        pytest.param(length_field(106, length_field(4, b"\x03\x85\x00")), id="packed integers in a message"),
        pytest.param(length_field(7, length_field(5, b"\0\0\x80\x3f")), id="blob"),
        pytest.param(length_field(7, b"\x2d\0\0\x80\x3f"), id="blob of single numbers"),
        pytest.param(length_field(7, length_field(8, b"\0" * 8)), id="blob of double numbers"),
        pytest.param(length_field(7, length_field(7, length_field(1, b"\x03\x85\x00"))), id="shape of a blob"),
        pytest.param(b"\xf8\x3f\x01", id="unknown number"),
        pytest.param(b"\xfd\x3f\0\0\0\0", id="unknown 4 bytes"),
        pytest.param(b"\xf9\x3f" + b"\0" * 8, id="unknown 8 bytes"),
        pytest.param(b"\xfa\x3f\x02ab", id="unknown text"),
    ],
)
def test_truncated_fields_are_rejected_like_protobuf(inner):
    """Every field cut short by a byte or more, and followed by what would complete it, is refused as protobuf does."""
    assert codes(length_field(100, inner)) == []
    for cut in range(1, len(inner)):
        for behind in (b"", inner[cut:], b"\0" * 9):
            data = length_field(100, inner[:cut]) + behind
            assert codes(data) == ([] if _accepts(data) else ["CAFFE0301"]), (cut, behind)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    assert codes(data) in ([], ["CAFFE0301"])


@given(st.data())
def test_damage_is_refused_or_harmless(data):
    whole = NET.FromString(joined(parse(Source("n", TEXT), Findings()))).SerializeToString()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255))
    assert codes(whole[:place] + bytes([byte]) + whole[place + 1 :]) in ([], ["CAFFE0301"])


def test_blob_round_trips():
    storage = storage_of(np.arange(3, dtype=np.float32))
    blob = Message("BlobProto")
    blob.add("data", storage)
    assert plain(decoded(joined(blob), "BlobProto")) == {"data": [[0.0, 1.0, 2.0]]}


def test_enum_names_are_written_as_numbers():
    layer = Message("LayerParameter")
    layer.add("phase", Identifier("TEST"))
    assert joined(layer) == bytes([10 << 3, 1])
