from __future__ import annotations

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, TensorProto

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import read
from graphport.formats.onnx.container import wire
from graphport.formats.onnx.container.protobuf_errors import find_corruption
from tests.every import every
from tests.formats.onnx.models import DATA, model, tensor, weights

SQUEEZENET = (DATA / "light_squeezenet.onnx").read_bytes()


def refusal(data: bytes) -> str:
    with pytest.raises(DiagnosticError) as caught:
        read(data, name="net.onnx")
    assert [finding.code for finding in caught.value.diagnostics] == ["ONNX0001"]
    return str(caught.value)


def test_a_whole_model_has_no_damage() -> None:
    assert find_corruption(memoryview(SQUEEZENET)) is None


def test_a_file_that_ends_too_early_names_the_innermost_field() -> None:
    proto = model([], [], [tensor("w", [5000])], initializer=[weights(n, np.zeros(5000, np.float32)) for n in "uvw"])
    data = proto.SerializeToString()
    assert "graph.initializer[1].raw_data" in refusal(data[: 20_000 + 10_000])
    assert "truncated file: 20,004 bytes expected, " in refusal(data[: 20_000 + 10_000])


@every("length", range(24, 400, 7))
def test_a_file_cut_within_its_graph_names_a_byte_before_the_cut(length: int) -> None:
    text = refusal(SQUEEZENET[:length])
    assert 23 <= int(text.split("byte ")[1].split(":")[0]) < length


def test_a_length_that_leaves_the_message_around_it_names_the_field() -> None:
    inner = TensorProto(name="w", dims=[1], data_type=TensorProto.FLOAT).SerializeToString()
    wrong = inner.replace(b"\x42\x01w", b"\x42\x7fw")
    graph = wire.head(5, len(wrong)) + wrong + GraphProto(name="behind it" * 20).SerializeToString()
    data = ModelProto(ir_version=8).SerializeToString() + wire.head(7, len(graph)) + graph
    assert "graph.initializer[0].name" in refusal(data)


def test_a_field_that_does_not_exist_names_the_message() -> None:
    data = ModelProto(ir_version=8).SerializeToString() + wire.head(7, 2) + b"\x07\x00"
    assert "byte 4: graph" in refusal(data)
    assert "invalid protobuf: no field of GraphProto begins with 0x7" in refusal(data)


def test_messages_nested_too_deep_are_refused() -> None:
    data = b""
    for _ in range(60):
        for field in (6, 5, 1):
            data = wire.head(field, len(data)) + data
    assert "messages are nested 100 levels deep" in refusal(wire.head(7, len(data)) + data)


def test_numbers_of_odd_length_are_refused() -> None:
    floats = wire.head(4, 3) + b"abc"
    graph = wire.head(5, len(floats)) + floats
    assert "graph.initializer[0].float_data" in refusal(wire.head(7, len(graph)) + graph)
