"""Reading and writing ncnn's files."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.formats import recognize
from graphport.formats.ncnn import read, write

LINES = """7767517
5 6
Input                    in0                      0 1 in0
Split                    splitncnn_0              1 2 in0 1 2
Convolution              conv_0                   1 1 1 3 0=2 1=1 5=1 6=6 9=2 -23310=1,0.5
ReLU                     relu_0                   1 1 2 4 0=0.1
Concat                   cat_0                    2 1 3 4 out0 0=0
"""
KERNEL = np.array([[1, -2, 3], [0.5, 0, -1]], np.float32)
BIAS = np.array([0.25, -0.5], np.float32)


def tagged(array, tag=0):
    raw = array.tobytes()
    return struct.pack("<I", tag) + raw + bytes(-len(raw) % 4)


def model(folder, text=LINES, weights=None):
    path = folder / "net.ncnn.param"
    path.write_text(text)
    data = tagged(KERNEL) + BIAS.tobytes() if weights is None else weights
    (folder / "net.ncnn.bin").write_bytes(data)
    return path


def expected(x):
    y = np.einsum("oi,nihw->nohw", KERNEL, x) + BIAS[:, None, None]
    return np.concatenate([np.where(y < 0, 0.5 * y, y), np.where(x < 0, 0.1 * x, x)], axis=1)


def codes(path):
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    return [finding.code for finding in caught.value.diagnostics if finding.is_error]


def picture(channels=3, height=4, width=5):
    return np.random.default_rng(0).normal(size=(1, channels, height, width)).astype(np.float32)


def test_a_type_is_an_op_type_and_its_parameters_are_attributes(tmp_path):
    graph, findings = read(model(tmp_path))
    assert findings == []
    assert [node.op for node in graph] == ["ncnn.Split", "ncnn.Convolution", "ncnn.ReLU", "ncnn.Concat"]
    convolution = graph.first_node.next
    assert {key: convolution.attributes[key] for key in ("0", "1", "10")} == {"0": 2, "1": 1, "10": (0.5,)}
    assert convolution.attributes["@0"].numpy().tolist() == KERNEL.reshape(-1).tolist()
    assert [value.name for value in graph.outputs] == ["out0"]


def test_an_unchanged_graph_comes_out_byte_by_byte(tmp_path):
    graph, _ = read(model(tmp_path))
    write(graph, tmp_path / "again.ncnn.param")
    assert (tmp_path / "again.ncnn.param").read_text() == LINES
    assert (tmp_path / "again.ncnn.bin").read_bytes() == (tmp_path / "net.ncnn.bin").read_bytes()


def test_rank_and_channels_of_an_input_follow_from_its_readers(tmp_path):
    loaded = gp.load(model(tmp_path))
    assert loaded.inputs["in0"].fact.shape[:2] == (1, 3)
    x = picture()
    np.testing.assert_allclose(gp.run(loaded, {"in0": x})["out0"], expected(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("weights", "tolerance"),
    [
        pytest.param(tagged(KERNEL.astype(np.float16), 0x01306B47) + BIAS.tobytes(), 0, id="halves"),
        pytest.param(tagged(KERNEL, 0x0002C056) + BIAS.tobytes(), 0, id="raw"),
        pytest.param(
            struct.pack("<I", 7)
            + np.pad(np.unique(KERNEL), (0, 250 + 6 - np.unique(KERNEL).size)).astype("<f4").tobytes()
            + np.searchsorted(np.unique(KERNEL), KERNEL.reshape(-1)).astype(np.uint8).tobytes()
            + bytes(2)
            + BIAS.tobytes(),
            0,
            id="places in a table",
        ),
    ],
)
def test_weights_are_stored_in_several_ways(tmp_path, weights, tolerance):
    loaded = gp.load(model(tmp_path, weights=weights))
    x = picture()
    np.testing.assert_allclose(gp.run(loaded, {"in0": x})["out0"], expected(x), rtol=1e-5, atol=1e-6 + tolerance)


def test_a_binary_list_has_equal_content(tmp_path):
    words = [7767517, 2, 2, 16, 0, 1, 0, -233, 26, 1, 1, 0, 1, 0, struct.unpack("<i", struct.pack("<f", 0.25))[0], -233]
    (tmp_path / "net.param.bin").write_bytes(struct.pack(f"<{len(words)}i", *words))
    (tmp_path / "net.bin").write_bytes(b"")
    assert recognize(tmp_path / "net.param.bin").name == "ncnn"
    graph, _ = read(tmp_path / "net.param.bin")
    assert [(node.op, node.attributes) for node in graph] == [("ncnn.ReLU", {"0": 0.25})]


@pytest.mark.parametrize(("name", "kind"), [("net.param", "ncnn"), ("model", "ncnn"), ("net.onnx", "ncnn")])
def test_content_is_recognized_whatever_the_name(tmp_path, name, kind):
    (tmp_path / name).write_text(LINES)
    assert recognize(tmp_path / name).name == kind


FAULTS = [
    pytest.param("", "NCNN0001", id="empty"),
    pytest.param("7767518\n1 1\n", "NCNN0001", id="another magic number"),
    pytest.param("7767517\nfive six\n", "NCNN0002", id="no counts"),
    pytest.param(LINES.replace("5 6", "99 6"), "NCNN0002", id="more layers than there are"),
    pytest.param(LINES.replace("1 1 2 4", "7 1 2 4"), "NCNN0003", id="more inputs than words"),
    pytest.param(LINES.replace("0=0.1", "77=0.1"), "NCNN0004", id="a parameter that does not exist"),
    pytest.param(LINES.replace("0=0.1", "0=0.1.2"), "NCNN0004", id="a number that is none"),
    pytest.param(LINES.replace("=1,0.5", "=9,0.5"), "NCNN0004", id="an array of another length"),
    pytest.param(LINES.replace("1 1 2 4", "1 1 9 4"), "NCNN0006", id="a blob from nowhere"),
    pytest.param(LINES.replace("1 1 2 4", "1 1 2 3"), "NCNN0007", id="a blob that is there already"),
    pytest.param(LINES.replace("6=6", "6=60000"), "NCNN0102", id="weights beyond the end"),
    pytest.param(LINES.replace("6=6", "6=-6"), "NCNN0102", id="a negative length"),
    pytest.param(LINES.replace("6=6", "6=99999999999999"), "NCNN0102", id="a length that nothing has"),
]


@pytest.mark.parametrize(("text", "code"), FAULTS)
def test_fault_is_a_diagnostic(tmp_path, text, code):
    assert code in codes(model(tmp_path, text))


def test_missing_weights_are_reported(tmp_path):
    path = model(tmp_path)
    (tmp_path / "net.ncnn.bin").unlink()
    assert codes(path) == ["NCNN0101"]


def test_weights_that_are_left_over_are_reported(tmp_path):
    path = model(tmp_path, weights=tagged(KERNEL) + BIAS.tobytes() + bytes(8))
    assert [finding.code for finding in read(path)[1]] == ["NCNN0103"]


def test_no_damage_to_a_text_is_a_fault_of_ours(tmp_path):
    draw = random.Random(2)
    for _ in range(200):
        at = draw.randrange(len(LINES))
        text = LINES[:at] + draw.choice(["", " ", "=", "9", "-", ",", "0", "\0", "é"]) + LINES[at + draw.randrange(3) :]
        assert gp.check(model(tmp_path, text)) is not None


def test_no_damage_to_a_binary_list_is_a_fault_of_ours(tmp_path):
    words = [7767517, 2, 2, 16, 0, 1, 0, -233, 26, 1, 1, 0, 1, -23300, 2, 1, 2, -233]
    draw = random.Random(3)
    (tmp_path / "net.bin").write_bytes(b"")
    for _ in range(200):
        damaged = list(words)
        damaged[draw.randrange(1, len(words))] = draw.choice([-(2**31), -1, 0, 5, 233, 2**31 - 1])
        data = struct.pack(f"<{len(words)}i", *damaged)
        (tmp_path / "net.param.bin").write_bytes(data[: draw.randrange(4, len(data) + 1)])
        assert gp.check(tmp_path / "net.param.bin") is not None


def test_a_shape_that_was_given_is_written_with_the_input(tmp_path):
    path = model(tmp_path)
    again = tmp_path / "again.param"
    gp.save(gp.load(path, shapes={"in0": [1, 3, 4, 5]}), again)
    assert gp.load(again).inputs["in0"].fact.shape == (1, 3, 4, 5)
    x = picture()
    assert np.allclose(next(iter(gp.run(gp.load(again), {"in0": x}, backend="ncnn").values())), expected(x), atol=1e-5)
