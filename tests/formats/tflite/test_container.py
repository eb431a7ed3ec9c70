"""Signatures, buffers behind a file and beside it, options of custom operators."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.flexbuffers import FlexBufferError, read_numbers
from graphport.formats.tflite.container import schema
from graphport.formats.tflite.container import writer as written
from graphport.formats.tflite.container.encode import Encoder
from tests.formats.tflite.litert import LiteRT
from tests.formats.tflite.test_cases import CASES, recorded

if TYPE_CHECKING:
    from pathlib import Path


def model_of(path: Path, operator: str, operands, shapes, *, custom: bytes = b"", **extra) -> Path:
    """A file of one operator; operands are arrays, or shapes of inputs."""
    buffers, tensors, inputs = [("Buffer", {})], [], []
    for index, operand in enumerate(operands):
        told = {"name": f"x{index}", "has_rank": True}
        if isinstance(operand, np.ndarray):
            buffers.append(("Buffer", {"data": operand.tobytes()}))
            told |= {"shape": list(operand.shape), "buffer": len(buffers) - 1}
        else:
            inputs.append(index)
            told |= {"shape": list(operand)}
        tensors.append(("Tensor", told))
    outputs = list(range(len(tensors), len(tensors) + len(shapes)))
    tensors += [("Tensor", {"name": f"y{i}", "shape": list(shape), "has_rank": True}) for i, shape in enumerate(shapes)]
    code = schema.BY_NAME[operator].number if operator in schema.BY_NAME else schema.CUSTOM
    kind = {"builtin_code": code, "deprecated_builtin_code": min(code, 127), "version": 1}
    kind |= {} if operator in schema.BY_NAME else {"custom_code": operator}
    node = {
        "opcode_index": 0,
        "inputs": list(range(len(operands))),
        "outputs": outputs,
        "custom_options": custom or None,
    }
    graph = {"tensors": tensors, "inputs": inputs, "outputs": outputs, "operators": [("Operator", node)]}
    root = {"version": 3, "operator_codes": [("OperatorCode", kind)], "subgraphs": [("SubGraph", graph)]}
    root |= {"buffers": buffers} | extra
    with path.open("wb") as file:
        Encoder().write(("Model", root), file)
    return path


def signature(key: str, x: str, y: str):
    maps = {"inputs": [("TensorMap", {"name": x})], "outputs": [("TensorMap", {"name": y, "tensor_index": 1})]}
    return "SignatureDef", {"signature_key": key, "subgraph_index": 0} | maps


def test_a_signature_names_inputs_and_outputs(tmp_path: Path) -> None:
    told = [signature("first", "a", "b"), signature("second", "image", "answer")]
    path = model_of(tmp_path / "m.tflite", "TANH", [(2, 3)], [(2, 3)], signature_defs=told)
    assert list(gp.load(path).inputs) == ["x0"]
    model = gp.load(path, program="second")
    assert (list(model.inputs), list(model.outputs)) == (["image"], ["answer"])
    with pytest.raises(DiagnosticError, match="unknown signature 'third'") as caught:
        gp.load(path, program="third")
    assert caught.value.diagnostics[0].code == "TFL0207"
    assert "'first', 'second'" in (caught.value.diagnostics[0].help or "")


def test_weights_that_offsets_do_not_reach_lie_after_the_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(written, "MAX_INLINE_BYTES", 10)
    model = gp.load(CASES / "conv_2d.tflite")
    model.graph.rename(model.graph.inputs[0], "anew")
    gp.save(model, tmp_path / "m.tflite")
    inputs, expected = recorded("conv_2d")
    with LiteRT() as litert:
        found = litert(tmp_path / "m.tflite", inputs)
    for outputs in (found, gp.run(gp.load(tmp_path / "m.tflite"), {"anew": inputs[0]}).ordered):
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        pytest.param("w.bin", True, id="beside the model"),
        pytest.param("../w.bin", False, id="above its folder"),
        pytest.param("/etc/hostname", False, id="anywhere"),
        pytest.param("", False, id="no name"),
        pytest.param("a\0b", False, id="a name that no file has"),
    ],
)
def test_buffers_beside_a_file_are_read_in_its_folder_only(tmp_path: Path, name: str, is_read: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    for place in (home, tmp_path):
        (place / "w.bin").write_bytes(b"\0" * 16 + w.tobytes())
    group = [("ExternalBufferGroup", {"name": name})]
    buffer = [("ExternalBuffer", {"id": 5, "group": 0, "offset": 16, "length": 48})]
    told = {"external_buffer_groups": group, "external_buffers": buffer}
    path = model_of(home / "m.tflite", "ADD", [(3, 4), (3, 4)], [(3, 4)], **told)
    with_external(path)
    if not is_read:
        with pytest.raises(DiagnosticError) as caught:
            gp.load(path)
        assert {finding.code for finding in caught.value.diagnostics} == {"TFL0107"}
        return
    model = gp.load(path)
    assert list(model.inputs) == ["x0"]
    assert np.array_equal(gp.run(model, {"x0": np.ones((3, 4), np.float32)}).ordered[0], w + 1)


def with_external(path: Path) -> None:
    """Let the second tensor, in place of an input, have the external buffer 5."""
    from graphport.core.storage import MappedFile
    from graphport.formats.tflite.container.flatbuffer import FlatBuffer

    root = FlatBuffer(MappedFile(path)).root("Model")
    graph = root["subgraphs"][0]
    tensors = [("Tensor", {"name": t["name"], "shape": [3, 4], "has_rank": True}) for t in graph["tensors"]]
    tensors[1][1]["external_buffer"] = 5
    node = {"inputs": [0, 1], "outputs": [2]}
    told = {"tensors": tensors, "inputs": [0], "outputs": [2], "operators": [("Operator", node)]}
    kept = {name: [(record.table, dict(record)) for record in root[name]] for name in ("operator_codes", "buffers")}
    more = ("external_buffer_groups", "external_buffers")
    kept |= {name: [(record.table, dict(record)) for record in root[name]] for name in more}
    with path.open("wb") as file:
        Encoder().write(("Model", {"version": 3, "subgraphs": [("SubGraph", told)]} | kept), file)


def test_options_are_the_numbers_of_a_map() -> None:
    # As flatbuffers 25.12 writes it.
    data = bytes.fromhex("6e007265616c0069730003040c0b0000050000000100000003000000010000002c0100000000003f6a060e0f2601")
    assert read_numbers(data) == {"n": 300, "real": 0.5, "is": True}
    random = np.random.default_rng(0)
    for _ in range(2000):
        changed = bytearray(data[: random.integers(0, len(data) + 1)])
        for place in random.integers(0, max(len(changed), 1), 2):
            changed[place : place + 1] = bytes([random.integers(0, 256)])
        try:
            read_numbers(bytes(changed))
        except FlexBufferError:
            continue


def test_mediapipe_transposed_convolution_has_a_bias(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for padding, step, k, n in ((1, 2, 2, 4), (1, 2, 3, 5), (2, 2, 3, 4), (1, 3, 4, 5)):
        x, w = (random.normal(size=shape).astype(np.float32) for shape in ((1, n, n + 1, 3), (2, k, k, 3)))
        bias = np.array([1, -2], np.float32)
        cut = [max(0, k - (extent - 1) % step - 1) if padding == 1 else 0 for extent in x.shape[1:3]]
        height, width = (step * (extent - 1) + k - less for extent, less in zip(x.shape[1:3], cut, strict=True))
        expected = np.zeros((1, height, width, 2), np.float32) + bias
        for row, column, a, c in np.ndindex(n, n + 1, k, k):
            y, z = row * step - cut[0] // 2 + a, column * step - cut[1] // 2 + c
            if 0 <= y < height and 0 <= z < width:
                expected[0, y, z] += w[:, a, c] @ x[0, row, column]
        options = struct.pack("<4i", padding, step, step, 0)
        path = model_of(
            tmp_path / "m.tflite", "Convolution2DTransposeBias", [x.shape, w, bias], [expected.shape], custom=options
        )
        found = gp.run(gp.load(path), {"x0": x}).ordered[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_mediapipe_pooling_tells_places_and_puts_elements_back(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 5, 7, 2)).astype(np.float32)
    options = struct.pack("<6i", 1, 2, 2, 2, 2, 0)
    shape = (1, 3, 4, 2)
    path = model_of(tmp_path / "m.tflite", "MaxPoolingWithArgmax2D", [x.shape], [shape, shape], custom=options)
    best, place = gp.run(gp.load(path), {"x0": x}).ordered
    wide = np.full((1, 6, 8, 2), -np.inf, np.float32)
    wide[:, :5, :7] = x
    windows = wide.reshape(1, 3, 2, 4, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(*shape, 4)
    assert np.array_equal(best, windows.max(-1))
    np.testing.assert_allclose(place, windows.argmax(-1) + 0.1, rtol=1e-6)
    path = model_of(tmp_path / "n.tflite", "MaxUnpooling2D", [shape, shape], [(1, 6, 8, 2)], custom=options)
    back = gp.run(gp.load(path), {"x0": best, "x1": place}).ordered[0]
    assert np.array_equal(back[back != 0], wide[back != 0])
    assert np.count_nonzero(back) == best.size


def test_kernels_are_reported_with_what_a_delegate_takes() -> None:
    told = gp.inspect(gp.load(CASES / "conv_2d_int8.tflite")).kernels
    assert [tuple(each) for each in told] == [("CONV_2D", 3, 1, "partly")]
    assert [each[3] for each in gp.inspect(gp.load(CASES / "floor_mod.tflite")).kernels] == ["no"]
