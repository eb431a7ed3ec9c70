"""Protobuf, checksums and constants, against formulas written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphport as gp
from graphport.formats.tensorflow.container.crc import crc32c


def varint(number: int) -> bytes:
    out = b""
    number &= (1 << 64) - 1
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def node(name: str, op: str, *inputs: str, **attributes: bytes) -> bytes:
    content = field(1, name.encode()) + field(2, op.encode())
    content += b"".join(field(3, each.encode()) for each in inputs)
    content += b"".join(field(5, field(1, key.encode()) + field(2, each)) for key, each in attributes.items())
    return field(1, content)


FLOAT = field(6, 1)


def shape(*dims: int) -> bytes:
    return b"".join(field(2, field(1, n)) for n in dims)


PLACEHOLDER = node("x", "Placeholder", dtype=FLOAT, shape=field(7, shape(4)))


def constant(name: str, dims: tuple[int, ...], values: bytes) -> bytes:
    return node(name, "Const", dtype=FLOAT, value=field(8, field(1, 1) + field(2, shape(*dims)) + values))


@given(st.binary(max_size=9000))
def test_the_checksum_is_that_of_the_definition(data: bytes) -> None:
    remainder = 0xFFFFFFFF
    for byte in data[:200]:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    assert crc32c(np.frombuffer(data[:200], np.uint8)) == remainder ^ 0xFFFFFFFF


def test_the_checksum_of_lanes_is_that_of_single_bytes() -> None:
    data = np.random.default_rng(0).integers(0, 256, 9001, np.uint8)
    parts = crc32c(data)
    table = [0] * 256
    for index in range(256):
        value = index
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table[index] = value
    remainder = 0xFFFFFFFF
    for byte in data.tolist():
        remainder = table[(remainder ^ byte) & 0xFF] ^ remainder >> 8
    assert parts == remainder ^ 0xFFFFFFFF


def test_the_last_value_of_a_constant_is_repeated_and_none_is_zero(tmp_path: Path) -> None:
    packed = np.array([1, 2], "<f4").tobytes()
    graph = PLACEHOLDER + constant("c", (4,), field(5, packed)) + constant("z", (4,), b"")
    graph += node("s", "AddV2", "x", "c") + node("y", "AddV2", "s", "z")
    (tmp_path / "m.pb").write_bytes(graph)
    (found,) = gp.run(gp.load(tmp_path / "m.pb"), {"x": np.zeros(4, np.float32)}).values()
    np.testing.assert_array_equal(found, [1, 2, 2, 2])


def test_a_constant_of_two_to_the_34_elements_costs_nothing(tmp_path: Path) -> None:
    graph = PLACEHOLDER + constant("c", (1 << 34,), field(5, np.array([3], "<f4").tobytes()))
    graph += constant("i", (), b"") + node("y", "Identity", "c") + node("z", "Relu", "x")
    (tmp_path / "m.pb").write_bytes(graph)
    assert gp.load(tmp_path / "m.pb").outputs["y"].shape == (1 << 34,)


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        pytest.param(PLACEHOLDER + node("y", "AddV2", "x", "y"), "TF0201", id="a node reads itself"),
        pytest.param(PLACEHOLDER + node("y", "Relu", "x:3"), "TF0201", id="no such result"),
        pytest.param(PLACEHOLDER + node("y", "Relu", "x:99999999999999999999"), "TF0201", id="a huge index"),
        pytest.param(PLACEHOLDER + node("y", "Relu", "w"), "TF0201", id="no such node"),
        pytest.param(PLACEHOLDER + PLACEHOLDER + node("y", "Relu", "x"), "TF0201", id="two nodes of one name"),
        pytest.param(PLACEHOLDER + node("y", "Foo>Gelu", "x"), "TF0206", id="unknown operator"),
        pytest.param(PLACEHOLDER + node("y", "EagerPyFunc", "x"), "TF0206", id="Python code"),
        pytest.param(PLACEHOLDER + node("y", "RandomUniform", "x"), "TF0206", id="random numbers"),
        pytest.param(
            PLACEHOLDER + constant("y", (2,), field(5, b"\0" * 12)) + node("z", "Relu", "y"),
            "TF0202",
            id="too many values",
        ),
        pytest.param(PLACEHOLDER + b"\x0a\xff\x01", "TF0101", id="truncated"),
    ],
)
def test_a_damaged_graph_is_refused(graph: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / "m.pb").write_bytes(graph)
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.run(gp.load(tmp_path / "m.pb"), {})
    assert caught.value.diagnostics[0].code == code


def test_functions_that_double_are_refused_within_the_budget(tmp_path: Path) -> None:
    def function(name: str, *nodes: bytes, result: str) -> bytes:
        signature = (
            field(1, name.encode()) + field(2, field(1, b"a") + field(3, 1)) + field(3, field(1, b"r") + field(3, 1))
        )
        return field(
            1,
            field(1, signature)
            + b"".join(field(3, each) for each in nodes)
            + field(4, field(1, b"r") + field(2, result.encode())),
        )

    def call(name: str, callee: str, argument: str) -> bytes:
        return node(
            name, "PartitionedCall", argument, f=field(10, field(1, callee.encode())), Tout=field(1, field(6, 1))
        )[2:]

    functions = function("f0", node("n", "Relu", "a")[2:], result="n:activations:0")
    for k in range(1, 50):
        first, second = call("p", f"f{k - 1}", "a"), call("q", f"f{k - 1}", "p:output:0")
        functions += function(f"f{k}", first, second, result="q:output:0")
    graph = PLACEHOLDER + node("y", "PartitionedCall", "x", f=field(10, field(1, b"f49")), Tout=field(1, field(6, 1)))
    (tmp_path / "m.pb").write_bytes(graph + field(2, functions))
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(tmp_path / "m.pb")
    assert caught.value.diagnostics[0].code == "TF0205"
