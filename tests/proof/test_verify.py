"""`verify`: its output, files and refusals; accepted evidence; the range of integer inputs."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.proof.integer_ranges import integer_range
from graphport.proof.test_inputs import KINDS, make_test_input
from tests.formats.openvino.documents import Layer, parameter, write_ir
from tests.models import write_onnx
from tests.passes.cases import info, model, node, some


def told(*arguments: object, code: int):
    result = CliRunner().invoke(cli, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def net(tmp_path):
    proto = model(
        [node("Conv", "x w", "h"), node("Tanh", "h", "y")],
        [info("x", ["N", 3, "L"])],
        [info("y", None)],
        {"w": some(4, 3, 3)},
    )
    return write_onnx(tmp_path / "net.onnx", proto)


def test_two_files_are_proven_equal_and_the_proof_can_be_repeated(net, tmp_path):
    gp.convert(net, tmp_path / "net.xml", verify=False)
    proof = tmp_path / "proof.json"
    found = told("verify", net, tmp_path / "net.xml", "--proof", proof, code=0)
    own = {(w["side"], w["runtime"]) for w in found["witnesses"] if w["is_own"] and w["ran"]}
    assert own == {("a", "onnxruntime"), ("b", "openvino")}
    assert [draw["kind"] for draw in found["draws"]][:6] == [*KINDS, *KINDS]
    assert found["sizes"][0]["N"] == 1
    assert found["sizes"][1] == {"N": 3, "L": 7}
    assert found["outputs"][0]["position"] == 0
    assert found["outputs"][0]["snr_db"] > 80
    document = json.loads(proof.read_text())
    assert document["files"]["b"]["sha256"].keys() == {"net.xml", "net.bin"}
    assert told("verify", net, tmp_path / "net.xml", "--proof", proof, code=0)["changed"] == []
    (tmp_path / "net.xml").write_text((tmp_path / "net.xml").read_text() + "\n")
    assert told("verify", net, tmp_path / "net.xml", "--proof", proof, code=0)["changed"] == ["net.xml"]


def test_difference_is_reported_with_its_index(net, tmp_path):
    other = onnx.load(net)
    weight = onnx.numpy_helper.to_array(other.graph.initializer[0]).copy()
    weight[2, 1, 0] += 0.25
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
    write_onnx(tmp_path / "other.onnx", other)
    proof = gp.verify(net, tmp_path / "other.onnx")
    assert not proof.passed
    assert proof.outputs[0].first_index[1] == 2
    assert str(proof).startswith("verification failed: the outputs differ: y ")


def test_results_are_compared_by_position(tmp_path):
    nodes = [node("Neg", "x", "a"), node("Abs", "x", "b")]
    write_onnx(tmp_path / "one.onnx", model(nodes, [info("x", [4])], [info("a", [4]), info("b", [4])]))
    write_onnx(tmp_path / "two.onnx", model(nodes, [info("x", [4])], [info("b", [4]), info("a", [4])]))
    assert not gp.verify(tmp_path / "one.onnx", tmp_path / "two.onnx").passed


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        pytest.param([node("Sub", "x x", "y")], "was the same for all test inputs", id="unchanged"),
        pytest.param([node("Slice", "x none none", "y")], "was empty for all test inputs", id="empty"),
        pytest.param([node("Mul", "x nan", "y")], "was NaN for all test inputs", id="no number"),
    ],
)
def test_proof_without_evidence_is_reported_as_unproven(tmp_path, nodes, reason):
    constants = {"none": np.array([0]), "nan": np.array(np.nan, np.float32)}
    used = {name: array for name, array in constants.items() if any(name in each.input for each in nodes)}
    path = write_onnx(tmp_path / "net.onnx", model(nodes, [info("x", [4])], [info("y", None)], used))
    proof = gp.verify(path, path)
    assert not proof.passed
    assert not proof.failed
    assert reason in str(proof)
    assert told("verify", path, path, code=1)["unproven"] is not None


def test_indices_are_drawn_over_their_axis():
    proto = model(
        [node("Unsqueeze", "i axes", "j"), node("Gather", "t j", "y")],
        [info("i", [64], onnx.TensorProto.INT64)],
        [info("y", None)],
        {"t": some(50, 2), "axes": np.array([0])},
    )
    graph = gp.from_onnx(proto).graph
    assert integer_range(graph.inputs[0], {})[:2] == (0, 50)
    found = np.concatenate([make_test_input(graph, kind, {}, 0).arrays["i"] for kind in KINDS])
    assert {0, 49} <= set(found.tolist()) <= set(range(50))
    assert len(set(found.tolist())) > 25


def test_a_result_that_is_listed_twice_is_two(tmp_path):
    proto = model([node("Neg", "x", "y")], [info("x", [2])], [info("y", [2])])
    loaded = gp.from_onnx(proto)
    (x,), (y,) = loaded.graph.inputs, loaded.graph.outputs
    loaded.graph.set_outputs([y, x, y])
    assert list(loaded.outputs) == ["y", "x", "y:2"]
    found = gp.run(loaded, {"x": np.array([1, -2], np.float32)})
    assert list(found) == ["y", "x", "y:2"]
    assert [each.tolist() for each in found.ordered] == [[-1, 2], [1, -2], [-1, 2]]


@pytest.mark.parametrize("is_rounded", [False, True])
def test_undocumented_runtime_rounding_is_noted(tmp_path, is_rounded):
    import onnxruntime

    before = [node("QuantizeLinear", "x r", "q"), node("DequantizeLinear", "q r", "h")] if is_rounded else []
    multiplied = node("MatMul", "h d" if is_rounded else "x d", "y")
    weights = np.random.default_rng(0).integers(-128, 128, (64, 32)).astype(np.int8)
    constants = {"w": weights, "s": np.full(32, 0.1, np.float32), **({"r": np.float32(0.02)} if is_rounded else {})}
    nodes = [*before, node("DequantizeLinear", "w s", "d", axis=1), multiplied]
    proto = model(nodes, [info("x", ["N", 64])], [info("y", None)], constants, opset=21)
    path = write_onnx(tmp_path / "net.onnx", proto)
    found = told("verify", path, path, code=0)
    assert (
        any("ONNX Runtime by default rounds" in note and "(1 here)" in note for note in found["notes"])
        is not is_rounded
    )
    if is_rounded:
        return
    x = some(4, 64)
    options = onnxruntime.SessionOptions()
    (rounded,) = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"]).run(None, {"x": x})
    (exact,) = gp.run(gp.load(path), {"x": x}, backend="reference").values()
    assert 1e-4 < np.abs(rounded - exact).max() / np.abs(exact).max() < 2e-2


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_dynamic_dtypes_are_bound_in_the_native_runtime(tmp_path, dtype):
    layers = [parameter("x", "?,?", "dynamic"), Layer("y", "opset1.Add", {"auto_broadcast": "numpy"}, ["x", "x"])]
    path = write_ir(tmp_path, layers, ["y"])
    found = told("convert", path, tmp_path / "made.onnx", "--verify", "--input", f"x={dtype}:1x8", code=0)
    own = {(w["side"], w["runtime"]) for w in found["verify"]["witnesses"] if w["is_own"] and w["ran"]}
    assert own == {("a", "openvino"), ("b", "onnxruntime")}


def test_results_that_depend_on_ties_use_inputs_with_fewer_ties(tmp_path):
    nodes = [node("Sigmoid", "x", "s"), node("TopK", "s k", "v i"), node("Gather", "rows i", "y")]
    constants = {"k": np.array([40]), "rows": some(64, 3)}
    proto = model(nodes, [info("x", [64])], [info("y", None), info("v", None)], constants)
    first = write_onnx(tmp_path / "first.onnx", proto)
    again = model(
        [
            *nodes[:1],
            node("Neg", "s", "m"),
            node("TopK", "m k", "w i", largest=0),
            node("Neg", "w", "v"),
            nodes[2],
        ],
        [info("x", [64])],
        [info("y", None), info("v", None)],
        constants,
    )
    assert gp.verify(first, write_onnx(tmp_path / "again.onnx", again)).passed
    wrong = {**constants, "rows": constants["rows"] + 1e-2}
    other = model(nodes, [info("x", [64])], [info("y", None), info("v", None)], wrong)
    assert gp.verify(first, write_onnx(tmp_path / "other.onnx", other)).failed


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_no_integer_divisor_is_zero(op):
    proto = model(
        [node("Unsqueeze", "b axes", "c"), node(op, "a c", "y")],
        [info("a", [50], onnx.TensorProto.INT64), info("b", [50], onnx.TensorProto.INT64)],
        [info("y", None, onnx.TensorProto.INT64)],
        {"axes": np.array([0])},
    )
    graph = gp.from_onnx(proto).graph
    found = np.concatenate([make_test_input(graph, kind, {}, 0).arrays["b"] for kind in KINDS])
    assert 0 not in found
    assert len(set(found.tolist())) > 5


def test_lengths_are_such_that_there_are_mirror_images(tmp_path):
    proto = model(
        [node("Pad", "x pads", "y", mode="reflect")],
        [info("x", ["N", "L"])],
        [info("y", None)],
        {"pads": np.array([0, 2, 0, 1])},
    )
    path = write_onnx(tmp_path / "net.onnx", proto)
    proof = gp.verify(path, path)
    assert proof.passed
    assert all(draw.sizes["L"] > 2 for draw in proof.draws)


def test_outputs_are_released_after_comparison(tmp_path):
    proto = model(
        [node("Expand", "x n", "a"), node("Tanh", "a", "y")],
        [info("x", [1])],
        [info("y", None)],
        {"n": np.array([1 << 21], np.int64)},
    )
    path = write_onnx(tmp_path / "m.onnx", proto)
    gp.convert(path, tmp_path / "m.xml", verify=False)
    tracemalloc.start()
    try:
        proof = gp.verify(path, tmp_path / "m.xml")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert proof.passed
    assert {witness.runtime for witness in proof.witnesses if witness.ran} == {"onnxruntime", "openvino"}
    assert most < 6 * (8 << 20)


def test_memory_limit_blocks_runs_unless_raised_by_the_user(tmp_path, monkeypatch):
    path = tmp_path / "m.ncnn.param"
    pads = " ".join(f"{side}=5170" for side in range(4))
    path.write_text(f"7767517\n2 2\nInput x 0 1 x 0=100 1=100 2=1\nPadding p 1 1 x y {pads}\n")
    (tmp_path / "m.ncnn.bin").touch()
    found = told("convert", path, tmp_path / "m.onnx", code=0)
    assert not found["verify"]["witnesses"]
    assert "MiB; set GRAPHPORT_LIMITS=proof.memory=N to raise it" in found["verify"]["unproven"]
    told("convert", path, tmp_path / "m.onnx", "--verify", code=1)
    path.write_text(path.read_text().replace("5170", "170"))
    assert told("convert", path, tmp_path / "m.onnx", code=0)["verify"]["passed"]
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.memory=1000")
    assert "proof.memory=N" in told("convert", path, tmp_path / "m.onnx", code=0)["verify"]["unproven"]
