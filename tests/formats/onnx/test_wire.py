from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.formats.onnx import read
from graphport.formats.onnx.container import wire
from graphport.ir.verify import verify
from tests.formats.onnx.models import DATA, model, tensor, weights

SQUEEZENET = (DATA / "light_squeezenet.onnx").read_bytes()
LARGE = np.arange(4096, dtype=np.float32)


def mixed() -> ModelProto:
    """A model with large and small tensors at every place where one can be."""
    then = helper.make_graph([], "t", [], [tensor("a", [4096])], initializer=[weights("a", LARGE)])
    orelse = helper.make_graph([], "e", [], [tensor("b", [2])], initializer=[weights("b", LARGE[:2])])
    floats = TensorProto(dims=[4096], data_type=TensorProto.FLOAT, name="typed", float_data=LARGE)
    return model(
        [
            helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=orelse),
            helper.make_node("Constant", [], ["k"], value=weights("", LARGE + 1)),
            helper.make_node("Add", ["w", "typed"], ["z"]),
        ],
        [tensor("c", [], TensorProto.BOOL)],
        [tensor("y", None), tensor("k", [4096]), tensor("z", [4096])],
        initializer=[weights("w", LARGE * 2), floats, weights("small", LARGE[:3])],
    )


def test_skeleton_excludes_large_payloads() -> None:
    data = mixed().SerializeToString()
    skeleton = wire.scan(memoryview(data))
    assert len(skeleton.cuts) == 4
    assert len(skeleton.data) < 2000
    assert {cut.length for cut in skeleton.cuts} == {4 * 4096}
    contents = {data[cut.start : cut.start + cut.length] for cut in skeleton.cuts}
    assert contents == {(LARGE * factor + more).tobytes() for factor, more in [(1, 0), (1, 1), (2, 0)]}


def test_skeleton_parses_as_the_model_without_payloads() -> None:
    proto = mixed()
    skeleton = wire.scan(memoryview(proto.SerializeToString()))
    found = ModelProto.FromString(bytes(skeleton.data))
    assert [node.op_type for node in found.graph.node] == ["If", "Constant", "Add"]
    assert found.opset_import == proto.opset_import
    for index, cut in enumerate(found.graph.initializer[:2]):
        assert (cut.segment.end, cut.dims) == (wire.CUT, [4096]), index
    assert found.graph.initializer[2] == proto.graph.initializer[2]


def test_model_without_large_tensors_equals_its_skeleton() -> None:
    data = memoryview(SQUEEZENET)
    assert wire.scan(data).data is data


@pytest.mark.parametrize("fields", [["float_data", "float_data"], ["raw_data", "float_data"]])
def test_a_payload_in_several_pieces_is_not_cut(fields: list[str]) -> None:
    # Two messages of one type, one after another, are read as one.
    pieces = [TensorProto(dims=[4096], data_type=TensorProto.FLOAT)]
    for field in fields:
        piece = TensorProto()
        if field == "raw_data":
            piece.raw_data = LARGE.tobytes()
        else:
            piece.float_data.extend(LARGE)
        pieces.append(piece)
    assert not wire.scan(memoryview(b"".join(p.SerializeToString() for p in pieces)), "TensorProto").cuts


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_numbers_survive_both_ways(number: int) -> None:
    data = wire.to_varint(number)
    assert wire.varint(memoryview(data), 0, 0) == (number, len(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x3a\x05abc", id="a field is longer than the file"),
        pytest.param(b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="a length near 2 ** 64"),
        pytest.param(b"\x08" + b"\xff" * 10, id="a number that does not end"),
        pytest.param(b"\x0b\x0c", id="a group"),
        pytest.param(b"\x3a", id="nothing behind a tag"),
        pytest.param(b"\x09abc", id="too few bytes for eight"),
    ],
)
def test_mismatched_sizes_are_reported_as_damage(data: bytes) -> None:
    with pytest.raises(wire.CorruptFileError):
        wire.scan(memoryview(data))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] ^= 1 << draw(st.integers(0, 7))
    if draw(st.booleans()):
        start = draw(st.integers(0, len(changed)))
        changed[start:start] = draw(st.binary(max_size=12))
    if draw(st.booleans()):
        del changed[draw(st.integers(0, len(changed))) :]
    return bytes(changed)


@given(st.one_of(damaged(SQUEEZENET), damaged(mixed().SerializeToString())))
def test_damaged_files_are_read_or_rejected_with_locations(data: bytes) -> None:
    for finding in refusals(data):
        assert finding.code.startswith("ONNX")
        assert finding.code != "ONNX0001" or "byte " in str(finding.span)


def refusals(data: bytes) -> list[Diagnostic]:
    try:
        verify(read(data))
    except DiagnosticError as error:
        return error.diagnostics
    return []


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(DiagnosticError):
        read(data)
