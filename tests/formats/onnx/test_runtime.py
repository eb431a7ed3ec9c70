"""ONNX Runtime: its results and its error messages."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from graphport.backends import reference
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx import from_proto
from graphport.formats.onnx import runtime as onnxruntime
from graphport.ir.graph import Graph, Node, Value
from graphport.proof.faults import habits
from tests.models import model, node, perceptron, typed, write_nnef

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def graph_of(*arguments, **options):
    return legalize(from_proto(model(*arguments, **options)))[0]


def test_onnx_runtime_matches_the_reference_interpreter():
    graph, _ = legalize(from_proto(perceptron()))
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    expected = reference.prepare(graph).run({"x": x}, every_value=True)
    found = onnxruntime.prepare(graph).run({"x": x}, every_value=True)
    assert list(found) == list(expected) == ["hidden", "active", "scores", "y"]
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)


def test_results_are_equal_without_optimizations():
    graph, _ = legalize(from_proto(perceptron()))
    x = np.ones((2, 4), np.float32)
    plain = onnxruntime.prepare(graph, optimize=False).run({"x": x})["y"]
    np.testing.assert_allclose(plain, onnxruntime.prepare(graph).run({"x": x})["y"], rtol=1e-6)


@pytest.mark.conformance(always=True)
def test_many_nodes_with_repeated_operands_load_quickly():
    # Looking for equal ones among them it would take 25 s.
    count = 20_000
    nodes = [node("Add", [f"a{i}", f"a{i}"], [f"a{i + 1}"]) for i in range(count)]
    graph = graph_of(nodes, [typed("a0", [2])], [typed(f"a{count}", [2])])
    before = time.process_time()
    session = onnxruntime.prepare(graph)
    assert time.process_time() - before < 10
    found = session.run({"a0": np.array([0, 2.0**-149], np.float32)})[f"a{count}"]
    assert found.tolist() == [0, np.inf]


def test_outputs_keep_their_order_with_inputs_and_constants():
    graph = graph_of(
        [node("Relu", ["x"], ["y"])],
        [("x", [2, 3])],
        [("y", [2, 3]), ("x", [2, 3]), ("c", [1])],
        {"c": np.ones(1, np.float32)},
    )
    found = onnxruntime.prepare(graph).run({"x": X})
    assert list(found) == ["y", "x", "c"]
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["c"], [1])


def test_models_of_other_formats_run(tmp_path):
    from graphport.formats import FORMATS

    graph, _ = legalize(FORMATS["nnef"].read(write_nnef(tmp_path / "small"))[0])
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    expected = reference.prepare(graph).run({"x": x})["y"]
    np.testing.assert_allclose(onnxruntime.prepare(graph).run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16, DType.INT64, DType.BOOL, DType.FLOAT8E4M3FN])
def test_non_numpy_dtypes_round_trip(dtype):
    code = {
        DType.BFLOAT16: TensorProto.BFLOAT16,
        DType.FLOAT16: TensorProto.FLOAT16,
        DType.INT64: TensorProto.INT64,
        DType.BOOL: TensorProto.BOOL,
        DType.FLOAT8E4M3FN: TensorProto.FLOAT8E4M3FN,
    }[dtype]
    graph = graph_of([node("Identity", ["x"], ["y"])], [typed("x", [3], code)], [typed("y", [3], code)], opset=21)
    x = np.array([0, 1, 1], np.float32).astype(dtype.numpy)
    found = onnxruntime.prepare(graph).run({"x": x})["y"]
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found.astype(np.float32), x.astype(np.float32))


def test_strings_round_trip():
    graph = graph_of(
        [node("Identity", ["x"], ["y"])],
        [typed("x", [2], TensorProto.STRING)],
        [typed("y", [2], TensorProto.STRING)],
    )
    assert list(onnxruntime.prepare(graph).run({"x": np.array(["a", "ä"], object)})["y"]) == ["a", "ä"]


def test_runtime_errors_name_the_op_type():
    graph = graph_of(
        [node("Reshape", ["x", "s"], ["y"])],
        [("x", [2, 3]), typed("s", [2], TensorProto.INT64)],
        [("y", None)],
    )
    with pytest.raises(DiagnosticError) as caught:
        onnxruntime.prepare(graph).run({"x": X, "s": np.array([4, 4])})
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0005"
    assert finding.message.startswith("ONNX Runtime: ")
    assert "[ONNXRuntimeError]" not in finding.message
    assert "\n" not in finding.message


def test_large_models_are_loaded_from_files(monkeypatch):
    monkeypatch.setattr(onnxruntime, "IN_MEMORY", 100)
    graph, _ = legalize(from_proto(perceptron()))
    x = np.ones((1, 4), np.float32)
    expected = reference.prepare(graph).run({"x": x})["y"]
    np.testing.assert_allclose(onnxruntime.prepare(graph).run({"x": x})["y"], expected, rtol=1e-5)


def test_large_models_are_loaded_from_memory_if_the_disk_is_full(monkeypatch):
    def full(*_args, **_options):
        raise DiagnosticError(Diagnostic("ONNX0406", "no space left on device"))

    monkeypatch.setattr(onnxruntime, "IN_MEMORY", 100)
    monkeypatch.setattr("graphport.formats.onnx.write", full)
    graph, _ = legalize(from_proto(perceptron()))
    x = np.ones((1, 4), np.float32)
    expected = reference.prepare(graph).run({"x": x})["y"]
    np.testing.assert_allclose(onnxruntime.prepare(graph).run({"x": x})["y"], expected, rtol=1e-5)
    monkeypatch.setattr(onnxruntime, "_MOST_IN_MEMORY", 100)
    with pytest.raises(DiagnosticError, match="no space left"):
        onnxruntime.prepare(graph)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find\nmore"), "Could not find"),
        (RuntimeError("plain"), "plain"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_error_messages_are_shortened(error, expected):
    assert onnxruntime._error_message(error) == expected


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_narrow_dtypes_are_passed_unchanged(name):
    dtype = DType.of(name)
    graph = Graph("narrow")
    x = graph.add_input("x", TensorFact(dtype, (3, 5)))
    y, z = Value("y", TensorFact(DType.FLOAT32, (3, 5))), Value("z", TensorFact(dtype, (3, 5)))
    graph.append(Node("Cast", [x], [y], {"to": DType.FLOAT32}))
    graph.append(Node("Cast", [y], [z], {"to": dtype}))
    graph.set_outputs([y, z])
    array = (np.arange(15).reshape(3, 5) % 3 - (dtype.kind != "u")).astype(dtype.numpy)
    found = onnxruntime.prepare(graph).run({"x": array})
    assert found["y"].tolist() == array.astype(np.float32).tolist()
    assert found["z"].dtype == array.dtype
    assert found["z"].tolist() == array.tolist()


def test_products_with_compressed_weights_are_computed_in_float32():
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (256, 64)).astype(np.uint8)
    scale = (random.random(64) * 0.01 + 0.005).astype(np.float32)
    zero = random.integers(100, 156, 64).astype(np.uint8)
    graph = graph_of(
        [node("DequantizeLinear", ["c", "s", "z"], ["w"], axis=1), node("MatMul", ["x", "w"], ["y"])],
        [("x", [1, 256])],
        [("y", [1, 64])],
        {"c": codes, "s": scale, "z": zero},
        opset=21,
    )
    x = random.normal(size=(1, 256)).astype(np.float32)
    found = onnxruntime.prepare(graph).run({"x": x})["y"]
    expected = x.astype(np.float64) @ ((codes.astype(np.float64) - zero) * scale)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


IR_LIMIT = "Unsupported model IR version: 13, max supported IR version: 10"
OPSET_LIMIT = "Opset 22 is under development. Current official support for domain ai.onnx is till opset 21."


@pytest.fixture
def old_runtime(monkeypatch):
    """Simulate ONNX Runtime 1.20, which refuses newer files; accepted files run in the installed version."""
    import onnxruntime as runtime

    real, seen = runtime.InferenceSession, []

    def session(data, *arguments):
        proto = onnx.load_from_string(data)
        seen.append((proto.ir_version, proto.opset_import[0].version))
        if proto.ir_version > 10:
            raise RuntimeError(IR_LIMIT)
        if proto.opset_import[0].version > 21:
            raise RuntimeError(OPSET_LIMIT)
        return real(data, *arguments)

    monkeypatch.setattr(runtime, "InferenceSession", session)
    return seen


def test_old_runtime_gets_a_supported_opset(old_runtime):
    graph = graph_of([node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("y", [2, 3])], opset=26)
    found = onnxruntime.prepare(graph).run({"x": X})
    np.testing.assert_array_equal(found["y"], np.maximum(X, 0))
    assert old_runtime[-1][1] == 21


def test_operators_missing_in_an_old_runtime_are_reported(old_runtime):
    graph = graph_of([node("BitCast", ["x"], ["y"], to=6)], [("x", [2, 3])], [("y", [2, 3])], opset=26)
    with pytest.raises(DiagnosticError) as caught:
        onnxruntime.prepare(graph)
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0003"
    assert "supports opsets up to 22" in finding.message
    assert finding.help == "install a newer ONNX Runtime, or choose another backend"


@pytest.mark.parametrize(("version", "is_refused"), [("1.23.0", True), ("1.31.1", False)])
def test_topk_of_an_empty_tensor_is_rejected_for_old_runtimes(monkeypatch, version, is_refused):
    """It would end the process."""
    two = {"k": np.array([2], np.int64)}
    graph = graph_of([node("TopK", ["x", "k"], ["y", "i"])], [("x", ["N", 3])], [("y", ["N", 2])], two)
    made = onnxruntime.prepare(graph)
    monkeypatch.setattr(onnxruntime, "distribution", lambda _: ("onnxruntime", version))
    assert made.run({"x": np.ones((1, 3), np.float32)})["y"].shape == (1, 2)
    empty = {"x": np.zeros((0, 3), np.float32)}
    if is_refused:
        with pytest.raises(DiagnosticError, match="which has an empty input"):
            made.run(empty)
    else:
        assert made.run(empty)["y"].shape == (0, 2)


def _dequantized(draw, *, has_zeros, block):
    """Stored int8 with a scale for each entry of an axis or each block, read directly and by a branch."""
    # Its kernels accept a per-tensor scale for such operands, and refuse blocks then.
    shape = [int(length) for length in draw.integers(3, 7, draw.integers(1, 4))]
    axis = int(draw.integers(len(shape)))
    blocks = [-(-n // block) if at == axis else n for at, n in enumerate(shape)] if block else [shape[axis]]
    scales = np.abs(draw.normal(size=blocks)).astype(np.float32) + 0.1
    weights = draw.integers(-128, 128, shape).astype(np.int8)
    zeros = draw.integers(-5, 5, scales.shape).astype(np.int8)
    operands = ["w", "s", *(["z"] if has_zeros else [])]
    options = {"axis": axis, **({"block_size": block} if block else {})}
    branch = onnx.helper.make_graph(
        [node("DequantizeLinear", operands, ["inner"], **options)], "branch", [], [typed("inner", shape)]
    )
    return graph_of(
        [
            node("DequantizeLinear", operands, ["d"], **options),
            node("Mul", ["d", "x"], ["y"]),
            node("Cast", ["x"], ["is"], to=TensorProto.BOOL),
            node("If", ["is"], ["z0"], then_branch=branch, else_branch=branch),
        ],
        [("x", [])],
        [("y", shape), ("z0", shape)],
        {"w": weights, "s": scales, **({"z": zeros} if has_zeros else {})},
        opset=21,
    )


def test_per_channel_and_block_dequantization_runs():
    draw = np.random.default_rng(3)
    for _ in range(12):
        for has_zeros in (False, True):
            for block in (0, 2):
                graph = _dequantized(draw, has_zeros=has_zeros, block=block)
                x = {"x": np.array(draw.normal(), np.float32)}
                found, expected = (each.prepare(graph).run(x) for each in (onnxruntime, reference))
                for name, array in expected.items():
                    np.testing.assert_allclose(found[name], array, rtol=1e-5, err_msg=name)
                assert not any("zero" in value.name for value in graph.values())


@pytest.mark.parametrize("scales", [(0.5, 0.25), (0.5, 0.5)], ids=["two", "one"])
def test_twice_dequantized_constant_expression_loads(scales):
    # Like the grid of a detector, for corners and for centres; constants that fit 7 bits are unchanged.
    nodes = [
        node("Expand", ["row", "shape"], ["rows"]),
        node("Concat", ["rows", "rows"], ["grid"], axis=0),
        *(node("DequantizeLinear", ["grid", f"s{n}", f"z{n}"], [f"d{n}"]) for n in range(2)),
        *(node("Add", ["x", f"d{n}"], [f"y{n}"]) for n in range(2)),
    ]
    constants = {
        "row": np.array([[-43, 127]], np.int8),
        "shape": np.array([2, 2]),
        **{f"s{n}": np.array(scale, np.float32) for n, scale in enumerate(scales)},
        **{f"z{n}": np.array(n, np.int8) for n in range(2)},
    }
    graph = graph_of(nodes, [("x", [4, 2])], [("y0", [4, 2]), ("y1", [4, 2])], constants)
    x = {"x": np.arange(8, dtype=np.float32).reshape(4, 2)}
    found, expected = (each.prepare(graph).run(x) for each in (onnxruntime, reference))
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("shared", ["z", "w", "turned", "s"])
def test_layers_of_int8_that_share_a_constant_are_loaded(shared: str):
    draw = np.random.default_rng(4)
    constants = {
        "s": np.array(0.02, np.float32),
        "z": np.array(0, np.int8),
        **{name: draw.integers(-127, 128, (6, 6)).astype(np.int8) for name in ("v", "w")},
    }
    v, w = {"w": ("w", "w"), "turned": ("turned", "again")}.get(shared, ("w", "v"))
    z = "z" if shared == "z" else "z2"
    constants["z2"] = np.array(1, np.int8)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        node("Transpose", ["w"], ["again"], perm=[1, 0]),
        node("DequantizeLinear", [v, "s", "z"], ["b"]),
        node("MatMul", ["a", "b"], ["c"]),
        node("DequantizeLinear", [w, "s", z], ["d"]),
        node("MatMul", ["c", "d"], ["y"]),
    ]
    graph = graph_of(nodes, [("x", [3, 6])], [("y", [3, 6])], constants, opset=21)
    x = {"x": draw.normal(size=(3, 6)).astype(np.float32)}
    found, expected = (each.prepare(graph).run(x)["y"] for each in (onnxruntime, reference))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("makes_sequence", [True, False])
def test_bodies_with_sequences_are_not_optimized(makes_sequence, monkeypatch):
    """The optimizer of 1.31 ends the process over an EmbeddingBag of PyTorch's exporter, which is a loop over one."""
    import onnxruntime as runtime

    item = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "zero"], ["a"])]
    inner = item if makes_sequence else [node("Identity", ["x"], ["a"])]
    taken = onnx.helper.make_graph(inner, "t", [], [typed("a", None)])
    other = onnx.helper.make_graph([node("Neg", ["x"], ["b"])], "e", [], [typed("b", None)])
    choice = onnx.helper.make_node("If", ["c"], ["y"], then_branch=taken, else_branch=other)
    inputs = [typed("x", ["N"]), typed("c", [], TensorProto.BOOL)]
    graph = graph_of([choice], inputs, [typed("y", None)], {"zero": np.array(0)})
    levels = []
    loaded = onnxruntime._loaded
    monkeypatch.setattr(onnxruntime, "_loaded", lambda *given: levels.append(given[2]) or loaded(*given))
    x = np.arange(3, dtype=np.float32)
    found = onnxruntime.prepare(graph).run({"x": x, "c": np.array(True)})
    np.testing.assert_array_equal(found["y"], x)
    off = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert [options.graph_optimization_level == off for options in levels] == [makes_sequence]


@pytest.mark.parametrize("size", [3, 9, 11, 33_554_433])
@pytest.mark.parametrize("alpha", [{}, {"alpha": 0.5}])
def test_lrn_size_is_limited_to_the_channels(size, alpha, monkeypatch):
    """The kernel allocates the whole window: half a gigabyte for the largest size here."""
    sizes = []
    loaded = onnxruntime._loaded
    monkeypatch.setattr(
        onnxruntime,
        "_loaded",
        lambda _, graph, *more: sizes.extend(n.attributes["size"] for n in graph) or loaded(_, graph, *more),
    )
    graph = graph_of([node("LRN", ["x"], ["y"], size=size, **alpha)], [("x", [1, 5, 2, 2])], [("y", None)])
    x = np.random.default_rng(0).normal(size=(1, 5, 2, 2)).astype(np.float32)
    found, expected = (each.prepare(graph).run({"x": x})["y"] for each in (onnxruntime, reference))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert sizes == [min(size, 9)]


@pytest.mark.parametrize("filler", [None, 0.0, -1.0, -np.inf])
def test_zeros_around_a_choice_are_chosen(filler):
    """The optimizer of 1.31 takes them for padding."""
    constants = {"pads": np.array([0, 0, 1, 0, 0, 1])} | ({} if filler is None else {"v": np.float32(filler)})
    nodes = [
        node("Pad", ["x", "pads", *(["v"] if "v" in constants else [])], ["padded"]),
        node("MaxPool", ["padded"], ["y"], kernel_shape=[2]),
    ]
    graph = graph_of(nodes, [("x", [1, 1, 3])], [("y", [1, 1, 4])], constants)
    found = onnxruntime.prepare(graph).run({"x": np.array([[[-3, -2, -5]]], np.float32)})["y"]
    edge = filler or 0
    np.testing.assert_array_equal(found, [[[max(edge, -3), -2, -2, max(edge, -5)]]])


def quantized_net(op, weights):
    """Return a quantized layer with weights of very different scales from Cast and Mul, as other formats write it."""
    shape = (4, 3, 3, 3) if op == "Conv" else (6, 5)
    random = np.random.default_rng(4)
    sizes = np.geomspace(1e-2, 1, shape[0]).astype(np.float32).reshape(-1, *[1] * (len(shape) - 1))
    constants = {"s": np.float32(0.05), "z": np.uint8(128), "c": random.integers(-127, 128, shape, np.int8)}
    constants |= {"sizes": sizes / 127, "t": np.float32(2e-3)}
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"])]
    if weights == "real":
        nodes += [node("Cast", ["c"], ["real"], to=TensorProto.FLOAT), node("Mul", ["real", "sizes"], ["w"])]
    else:
        constants["sizes"] = constants["sizes"].reshape(-1)
        nodes += [node("DequantizeLinear", ["c", "sizes"], ["w"], axis=0)]
    # A fine output scale, since a coarse one would hide differences of earlier nodes.
    nodes += [node(op, ["d", "w"], ["m"]), node("QuantizeLinear", ["m", "t", "z"], ["r"])]
    nodes += [node("DequantizeLinear", ["r", "t", "z"], ["y"])]
    x = [1, 3, 8, 8] if op == "Conv" else [64, 6]
    return graph_of(nodes, [("x", x)], [("y", None)], constants, opset=17), np.float32(0.05) * random.normal(size=x)


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_real_weights_between_steps_stay_real(op):
    """Its optimizer rounds them to eight bits with one scale for all."""
    graph, x = quantized_net(op, "real")
    given = {"x": x.astype(np.float32)}
    found, expected = (each.prepare(graph).run(given)["y"] for each in (onnxruntime, reference))
    assert np.abs(found - expected).max() < 2.1e-3  # a step where a sum is in the middle
    assert (found != expected).mean() < 0.02
    # Told to be quick it does as by itself.
    rounded = onnxruntime.prepare(graph, quick=True).run(given)["y"]
    assert (rounded != expected).mean() > 0.04


@pytest.mark.parametrize(("weights", "count"), [("real", 1), ("stored", 0)])
def test_proof_notes_report_bias_rounding(weights, count):
    graph, _ = quantized_net("Conv", weights)
    assert sum("WeightBiasQuantization" in habit for habit in habits("onnxruntime", graph)) == count


@pytest.mark.parametrize(("options", "spins"), [({}, True), ({"spins": False}, False), ({"once": True}, False)])
def test_threads_spin_only_for_repeated_runs(options, spins):
    session = onnxruntime.prepare(legalize(from_proto(perceptron()))[0], **options)
    told = session._session.get_session_options()
    if spins:
        with pytest.raises(RuntimeError, match="does not have"):
            told.get_session_config_entry("session.intra_op.allow_spinning")
    else:
        assert told.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_weights_in_half_precision_after_exchanged_axes_end_no_process():
    code = """
import numpy as np
import graphport as gp
from graphport.core.dtypes import DType
from graphport.ir.graph import Graph, Node, Value
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of

graph = Graph("turned")
x = graph.add_input("x", TensorFact(DType.FLOAT16, (3, 1, 5)))
weights = storage_of(np.ones((5, 6), np.float16))
w = graph.add_constant("w", TensorFact.of(weights), weights)
turned = graph.append(Node("Transpose", [x], [Value("t", TensorFact(DType.FLOAT16, (1, 3, 5)))], {"perm": (1, 0, 2)})).output
graph.append(Node("MatMul", [turned, w], [Value("y", TensorFact(DType.FLOAT16, (1, 3, 6)))]))
graph.set_outputs([value for value in graph.values() if value.name == "y"])
print(gp.run(gp.Model(graph), {"x": np.ones((3, 1, 5), np.float16)}, backend="onnxruntime")["y"].sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "90.0\n"), done.stderr[-500:]
