"""Casts to half precision: which nodes are cast, and that no result overflows; oracles are ONNX Runtime and NumPy."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.backends.interpreter import InterpreterSession
from graphport.cli.main import cli
from graphport.formats.onnx import runtime as onnxruntime_
from graphport.ir.verify import verify
from graphport.quantization.engine import Noise, session
from graphport.quantization.half import ranges
from tests.models import model, node, typed
from tests.quantization import nets

NETS = {"residual": nets.residual, "depthwise": nets.depthwise, "products": nets.products}


def _theirs(found, inputs):
    """Run the file in ONNX Runtime with inputs cast to its types."""
    proto = gp.to_onnx(found)
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    kinds = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(int64)": np.int64}
    given = {x.name: np.asarray(inputs[x.name]).astype(kinds[x.type]) for x in session.get_inputs()}
    return dict(zip([x.name for x in session.get_outputs()], session.run(None, given), strict=True))


def _halves(found):
    return [str(value.fact.dtype) for node_ in found.graph for value in node_.results]


@pytest.mark.parametrize("name", list(NETS))
def test_float16_cast_halves_the_size_and_keeps_accuracy(name):
    found = NETS[name]()
    made = gp.cast(found, "float16", calibration=nets.samples(found))
    verify(made.graph)
    x = nets.samples(found, 96, seed=5)
    expected, given = gp.run(found, x)["y"], _theirs(made, x)["y"]
    assert given.dtype == np.float16
    assert nets.snr(expected, given) > 55
    assert made.report.snr_db == pytest.approx(nets.snr_of_variance(expected, given), abs=4)
    assert made.report.bytes_after * 2 <= made.report.bytes_before + 8
    assert not made.report.kept


def test_keep_io_keeps_float32_inputs_and_outputs():
    found = nets.residual()
    made = gp.cast(found, "float16", keep_io=True)
    x = nets.samples(found, 4)
    given = _theirs(made, x)["y"]
    assert given.dtype == np.float32
    assert nets.snr(gp.run(found, x)["y"], given) > 55
    assert list(made.inputs) == list(found.inputs)


def _large(scale):
    """The middle value is `scale` times as large as those around it."""
    r = np.random.default_rng(2)
    w1, w2 = (r.normal(size=(8, 8)).astype(np.float32) for _ in range(2))
    constants = {"w1": w1 * np.float32(scale), "w2": w2 / np.float32(scale), "w3": w2}
    nodes = [
        node("MatMul", ["x", "w1"], ["a"], name="up"),
        node("Relu", ["a"], ["b"], name="act"),
        node("MatMul", ["b", "w2"], ["c"], name="down"),
        node("MatMul", ["c", "w3"], ["y"], name="last"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 8])], [("y", ["N", 8])], constants))


@pytest.mark.parametrize("has_samples", [True, False])
@pytest.mark.parametrize("scale", [2.0**17, 2.0**-22])
def test_values_that_overflow_or_underflow_stay_float32(scale, has_samples):
    found = _large(scale)
    samples = nets.samples(found, 16)
    made = gp.cast(found, "float16", calibration=samples if has_samples else None)
    assert {kept.name for kept in made.report.kept} == {"up", "act", "down"}
    for name, array in gp.run(made, {"x": samples["x"].astype(np.float16)}, every_value=True).items():
        assert np.isfinite(array).all(), name
    assert nets.snr(gp.run(found, samples)["y"], _theirs(made, samples)["y"]) > 55


def test_a_constant_that_float16_values_do_not_hold_keeps_its_node():
    constants = {"e": np.float32(1e-12), "m": np.asarray([0.0, -1e9], np.float32)}
    nodes = [
        node("Add", ["x", "e"], ["a"], name="epsilon"),
        node("Add", ["a", "m"], ["b"], name="mask"),
        node("Softmax", ["b"], ["c"], name="choice"),
        node("Sqrt", ["c"], ["d"], name="root"),
        node("Mul", ["d", "d"], ["y"], name="square"),
    ]
    found = gp.from_onnx(model(nodes, [("x", ["N", 2])], [("y", ["N", 2])], constants))
    made = gp.cast(found, "float16")
    reasons = {kept.name: kept.reason for kept in made.report.kept}
    assert "constant" in reasons["epsilon"]
    assert "16-bit range" in reasons["mask"]
    assert "square" not in reasons
    x = np.asarray([[0.5, 2.0]], np.float32)
    assert np.allclose(np.asarray(_theirs(made, {"x": x})["y"]), [[1.0, 0.0]], atol=1e-3)


def _normalized(epsilon):
    """`x / max(|x|, epsilon)` as in the export of PyTorch's `F.normalize`, followed by a MatMul."""
    nodes = [
        node("ReduceL2", ["x", "axes"], ["n"], keepdims=1, name="norm"),
        node("Clip", ["n", "e"], ["c"], name="clip"),
        node("Expand", ["c", "shape"], ["w"], name="expand"),
        node("Div", ["x", "w"], ["d"], name="divide"),
        node("MatMul", ["d", "k"], ["y"], name="product"),
    ]
    constants = {"e": np.float32(epsilon), "axes": np.asarray([1]), "shape": np.asarray([1, 4])}
    constants["k"] = np.eye(4, dtype=np.float32)
    return gp.from_onnx(model(nodes, [("x", ["N", 4])], [("y", ["N", 4])], constants, opset=18))


def _by_deviation(epsilon):
    """`x / sqrt(v + epsilon)` with a variance that may be 0."""
    nodes = [
        node("ReduceSumSquare", ["x", "axes"], ["v"], keepdims=1, name="variance"),
        node("Add", ["v", "e"], ["a"], name="epsilon"),
        node("Sqrt", ["a"], ["s"], name="root"),
        node("Div", ["x", "s"], ["d"], name="divide"),
        node("MatMul", ["d", "k"], ["y"], name="product"),
    ]
    constants = {"e": np.float32(epsilon), "axes": np.asarray([1]), "k": np.eye(4, dtype=np.float32)}
    return gp.from_onnx(model(nodes, [("x", ["N", 4])], [("y", ["N", 4])], constants, opset=18))


@pytest.mark.parametrize(
    ("net", "stays"),
    [
        (_normalized(1e-12), {"clip", "expand", "divide"}),
        (_by_deviation(1e-10), {"epsilon", "root"}),  # its square root is a normal float16
        (_by_deviation(1e-20), {"epsilon", "root", "divide"}),
        (_normalized(0.25), set()),
    ],
)
def test_nodes_with_small_epsilon_stay_float32(net, stays):
    made = gp.cast(net, "float16")
    assert {kept.name for kept in made.report.kept} == stays
    x = np.asarray([[0, 0, 0, 0], [1, -2, 3, 0.5]], np.float32)
    found = _theirs(made, {"x": x})["y"].astype(np.float32)
    np.testing.assert_allclose(found, gp.run(net, {"x": x})["y"], atol=2e-3)


def test_sums_that_could_overflow_stay():
    nodes = [node("ReduceSum", ["x", "axes"], ["s"], keepdims=1, name="sum"), node("Relu", ["s"], ["y"], name="act")]
    constants = {"axes": np.asarray([1], np.int64)}
    found = gp.from_onnx(model(nodes, [("x", ["N", 4096])], [("y", ["N", 1])], constants))
    x = np.full((8, 4096), 20.0, np.float32) * np.where(np.arange(4096) % 2, 1, -1).astype(np.float32)
    assert "sum" in {kept.name for kept in gp.cast(found, "float16", calibration={"x": x}).report.kept}
    assert not gp.cast(found, "float16", calibration={"x": x / 16}).report.kept


def test_scales_and_sizes_of_resizing_are_untouched():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Resize", ["a", "", "scales"], ["b"], mode="linear"),
        node("Relu", ["b"], ["y"]),
    ]
    scales = np.asarray([1, 1, 2, 2], np.float32)
    found = gp.from_onnx(model(nodes, [("x", [1, 2, 4, 4])], [("y", None)], {"scales": scales}))
    x = nets.samples(found, 1)
    made = gp.cast(found, "float16")
    assert nets.snr(gp.run(found, x)["y"], _theirs(made, x)["y"]) > 55
    (resize,) = [item for item in made.graph if item.op == "Resize"]
    assert str(resize.operands[-1].fact.dtype) == "float32"


def test_bodies_stay_float32_with_their_captured_values():
    def branch(name, op_type):
        value = onnx.helper.make_tensor_value_info(f"{name}_y", onnx.TensorProto.FLOAT, None)
        return onnx.helper.make_graph([node(op_type, ["a"], [f"{name}_y"])], name, [], [value])

    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Neg", ["r"], ["a"]),
        node("If", ["p"], ["b"], then_branch=branch("then", "Exp"), else_branch=branch("else", "Neg")),
        node("Neg", ["b"], ["y"]),
    ]
    found = gp.from_onnx(_with_condition(nodes))
    made = gp.cast(found, "float16", keep_io=True)
    verify(made.graph)
    x = {"x": nets.samples(found, 2)["x"], "p": np.asarray(True)}
    assert nets.snr(gp.run(found, x)["y"], gp.run(made, x)["y"]) > 50


def _with_condition(nodes):
    info = onnx.helper.make_tensor_value_info
    inputs = [info("x", onnx.TensorProto.FLOAT, [2, 3]), info("p", onnx.TensorProto.BOOL, [])]
    outputs = [info("y", onnx.TensorProto.FLOAT, [2, 3])]
    graph = onnx.helper.make_graph(nodes, "branches", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def test_keep_option_keeps_named_nodes():
    found = nets.residual()
    for pattern, names in (("first", {"first"}), ("Conv", {"first", "second"}), ("s*", {"second", "sum", "sum_relu"})):
        made = gp.cast(found, "float16", keep=[pattern])
        assert names <= {kept.name for kept in made.report.kept}
    with pytest.raises(gp.DiagnosticError, match=r"CAST0007.*'nobody'"):
        gp.cast(found, "float16", keep=["nobody"])
    with pytest.raises(gp.DiagnosticError, match="did you mean 'Conv'") as caught:
        gp.cast(found, "float16", keep=["Cnov"])
    assert caught.value.diagnostics[0].code == "CAST0007"


def test_more_stays_for_a_goal():
    found = nets.residual()
    samples = nets.samples(found)
    plain = gp.cast(found, "float16", calibration=samples, keep_io=True).report
    better = gp.cast(found, "float16", calibration=samples, min_snr=plain.snr_db + 1, keep_io=True).report
    assert better.passed
    assert better.snr_db >= plain.snr_db + 1
    assert 0 < better.cast < plain.cast


def test_float16_values_convert_back(tmp_path):
    found = nets.products()
    samples = nets.samples(found, 8)
    half = gp.cast(found, "float16")
    gp.save(half, tmp_path / "half.onnx")
    again = gp.cast(gp.load(tmp_path / "half.onnx"), "float32")
    assert not {"float16"} & set(_halves(again))
    assert not [item for item in again.graph if item.op == "Cast"]
    assert nets.snr(gp.run(found, samples)["y"], _theirs(again, samples)["y"]) > 60
    kept = gp.cast(half, "float32", keep_io=True)
    assert _theirs(kept, samples)["y"].dtype == np.float16
    with pytest.raises(gp.DiagnosticError, match="CAST0001"):
        gp.cast(found, "float32")


def test_bfloat16_is_stated_and_computed_by_the_reference():
    found = nets.products()
    made = gp.cast(found, "bfloat16", keep_io=True)
    onnx.checker.check_model(gp.to_onnx(made), full_check=True)
    assert made.report.cast == made.report.nodes
    x = nets.samples(found, 4)
    given = gp.run(made, x, backend="reference")["y"]
    assert 30 < nets.snr(gp.run(found, x)["y"], given) < 55


def test_a_file_that_its_runtime_does_not_load_is_reported(tmp_path):
    """ONNX Runtime has no kernel for products in bfloat16; OpenVINO has."""
    gp.save(nets.products(), tmp_path / "net.onnx")

    def run(name, *options):
        words = ["cast", str(tmp_path / "net.onnx"), str(tmp_path / name), "--to", "bfloat16", *options]
        return CliRunner().invoke(cli, words)

    told = run("told.onnx")
    assert told.exit_code == 0
    assert "CAST0009" in told.stderr
    assert (tmp_path / "told.onnx").exists()
    refused = run("refused.onnx", "--verify")
    assert refused.exit_code == 1
    assert "RUN0010" in refused.stderr
    assert not (tmp_path / "refused.onnx").exists()
    fine = run("net.xml", "--verify")
    assert fine.exit_code == 0
    assert "CAST0009" not in fine.stderr


def test_other_formats_hold_it(tmp_path):
    found = gp.load(_saved(nets.residual(batch=2), tmp_path / "net.onnx"))
    x = nets.samples(found, 2)
    expected = gp.run(found, x)["y"]
    for name in ("net.xml", "net.nnef", "net.graphport"):
        # NNEF has no casts: there everything is narrow or nothing.
        made = gp.cast(found, "float16", keep_io=name != "net.nnef")
        gp.save(made, tmp_path / name)
        assert nets.snr(expected, gp.run(gp.load(tmp_path / name), x)["y"]) > 50, name


def _saved(found, path):
    gp.save(found, path)
    return path


def test_cast_command_reports_its_result(tmp_path):
    found = nets.residual()
    gp.save(found, tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", **nets.samples(found))

    def run(*options):
        words = ["cast", tmp_path / "net.onnx", tmp_path / "out.onnx", *options]
        return CliRunner().invoke(cli, [str(op_type) for op_type in words])

    result = run("--to", "float16", "--calibration", tmp_path / "samples.npz", "--keep", "head", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["schema"] == "graphport/cast/1"
    assert [kept["name"] for kept in document["kept"]] == ["head"]
    assert document["snr_db"] > 45
    assert document["weight_bytes"]["target"] < 0.6 * document["weight_bytes"]["source"]
    missed = run("--to", "bfloat16", "--keep-io", "--min-snr", "500")
    assert missed.exit_code == 1
    assert "CAST0003" in missed.output


def test_small_values_are_looked_at_together(monkeypatch):
    made = []
    monkeypatch.setattr(ranges, "session", lambda graph, **options: made.append(graph) or session(graph, **options))
    nodes = [node("Relu", [f"a{i}"], [f"a{i + 1}"]) for i in range(300)]
    graph = gp.from_onnx(model(nodes, [typed("a0", [2, 3])], [typed("a300", [2, 3])])).graph
    seen = ranges.ranges(graph, [{"a0": np.ones((2, 3), np.float32)}])
    assert len(made) == 1
    assert len(seen) == 301


@pytest.mark.conformance(always=True)
@pytest.mark.parametrize("op_type", ["Relu", "Add"])
def test_twenty_thousand_small_nodes_are_cast_in_time(op_type):
    # ONNX Runtime takes a time that grows with the square of nodes: 18 s, and 25 s where all operands are one value.
    count = 20_000
    nodes = [node(op_type, [f"a{i}"] * (1 + (op_type == "Add")), [f"a{i + 1}"]) for i in range(count)]
    given = gp.from_onnx(model(nodes, [typed("a0", [1, 4])], [typed(f"a{count}", [1, 4])]))
    before = time.process_time()
    found = gp.cast(given, "float16")
    assert time.process_time() - before < 10
    # Repeatedly doubled sums leave the float16 range, and their nodes stay float32.
    assert found.report.cast == count if op_type == "Relu" else 0 < found.report.cast < count


def test_infinities_that_both_have_are_no_noise():
    noise = Noise()
    x = np.array([[np.inf, -np.inf, 3.0, 4.0]], np.float32)
    noise.add({"y": x}, {"y": x})
    assert (noise.signal["y"], noise.noise["y"]) == (25.0, 0.0)
    noise.add({"y": x}, {"y": np.array([[np.inf, -np.inf, 3.0, 3.0]])})
    assert (noise.signal["y"], noise.noise["y"]) == (50.0, 1.0)
    noise.add({"y": x}, {"y": np.array([[1.0, -np.inf, 3.0, 4.0]])})
    assert noise.noise["y"] == np.inf


def test_long_chain_matches_onnx_runtime():
    words = ("Relu", "Sigmoid", "Neg", "Abs", "Tanh")
    nodes = [node(words[i % 5], [f"a{i}"], [f"a{i + 1}"]) for i in range(6000)]
    given = gp.from_onnx(model(nodes, [typed("a0", [2, 4])], [typed("a6000", [2, 4])]))
    x = {"a0": np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)}
    ours = session(given.graph)
    assert isinstance(ours, InterpreterSession)
    np.testing.assert_allclose(ours.run(x)["a6000"], onnxruntime_.prepare(given.graph).run(x)["a6000"], rtol=1e-5)
    # Few nodes, large values, and bodies are the runtime's.
    for other in (nets.residual(), nets.products()):
        assert not isinstance(session(other.graph), InterpreterSession)


@pytest.mark.parametrize("scale", [2.0**22, 2.0**-34])
def test_output_outside_the_float16_range_stays_float32(scale):
    """The result of the last node would overflow or underflow, which is reported."""
    r = np.random.default_rng(4)
    weights = {"w1": r.normal(size=(8, 8)).astype(np.float32), "w2": r.normal(size=(8, 8)).astype(np.float32) * scale}
    weights["w2"] = weights["w2"].astype(np.float32)
    nodes = [
        node("MatMul", ["x", "w1"], ["a"], name="first"),
        node("MatMul", ["a", "w2"], ["y"], name="last"),
        node("Relu", ["a"], ["z"], name="beside"),
    ]
    found = gp.from_onnx(model(nodes, [("x", ["N", 8])], [("y", ["N", 8]), ("z", ["N", 8])], weights))
    x = nets.samples(found, 16)
    made = gp.cast(found, "float16", calibration=x)
    given = _theirs(made, x)
    expected = gp.run(found, x)
    assert given["y"].dtype == np.float32
    assert given["z"].dtype == np.float16
    for name in ("y", "z"):
        assert nets.snr(expected[name], given[name]) > 50
    assert [finding.code for finding in made.report.findings if finding.code == "CAST0008"] == ["CAST0008"]
    assert made.report.passed


@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0), (1, 2, 0, 3), (1, 2, 3, 0), (0, 2, 1), (2, 1, 0)])
def test_transposed_float16_products_that_crash_onnx_runtime_stay_float32(perm):
    """In a separate process: a float16 Transpose before a MatMul with a constant crashed it."""
    dims = [2, 3, 4, 5][: len(perm)]
    r = np.random.default_rng(0)
    weight = r.normal(size=(dims[perm[-1]], 6)).astype(np.float32)
    nodes = [
        node("Relu", ["x"], ["a"], name="act"),
        node("Transpose", ["a"], ["t"], perm=list(perm), name="turn"),
        node("MatMul", ["t", "w"], ["y"], name="last"),
    ]
    made = gp.cast(gp.from_onnx(model(nodes, [("x", dims)], [("y", None)], {"w": weight})), "float16")
    text = gp.to_onnx(made).SerializeToString()
    code = "import sys, onnxruntime as o; o.InferenceSession(sys.stdin.buffer.read())"
    ended = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr[-300:]
    assert made.report.cast


def test_sequence_operators_stay_float32():
    nodes = [
        node("Relu", ["x"], ["a"], name="act"),
        node("SplitToSequence", ["a", "two"], ["s"], axis=1, name="split"),
        node("SequenceAt", ["s", "one"], ["b"], name="pick"),
        node("Add", ["b", "b"], ["y"], name="last"),
    ]
    constants = {"two": np.asarray(2, np.int64), "one": np.asarray(1, np.int64)}
    found = gp.from_onnx(model(nodes, [("x", [3, 6])], [("y", [3, 2])], constants))
    made = gp.cast(found, "float16")
    x = {"x": np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)}
    assert nets.snr(gp.run(found, x)["y"], _theirs(made, x)["y"]) > 60
    assert {kept.name for kept in made.report.kept} >= {"split", "pick"}
