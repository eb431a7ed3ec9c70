"""Conversions that are right are not refuted: models with states, unused inputs, scalars, float64, quantized layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import graphport as gp
from graphport.api.verify import side as api_side
from graphport.proof.coverage.search import DIFFERS_ON_NAN
from graphport.proof.coverage.undefined import undefined_result
from graphport.proof.faults import known_fault
from graphport.proof.interface import interface_differences
from graphport.proof.narrow_floats import narrowed_nodes
from graphport.proof.segments.ranges import is_integral
from graphport.proof.side import Side, paired
from graphport.proof.test_inputs import KINDS, make_test_input
from tests.models import node
from tools import true_conversions

TESTS = Path(__file__).parents[1]


def _saved(path, nodes, inputs, outputs, initializers=(), opset=21):
    values = [
        [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in side] for side in (inputs, outputs)
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in initializers]
    graph = helper.make_graph(nodes, "net", *values, constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


@pytest.mark.parametrize("name", ["n.ncnn.param", "n.nnef.tgz", "n.prototxt", "n.xml", "n.onnx"])
def test_states_may_become_inputs_and_outputs(name, tmp_path):
    pytest.importorskip("ncnn")
    report = gp.convert(TESTS / "formats/tflite/cases/svdf.tflite", tmp_path / name)
    assert str(report.proof.verdict) == "consistent", report.proof.sentence


CASES = [
    pytest.param("keras/cases/gru_both_resets.h5", "n.xml", id="recurrent layers that share a Transpose"),
    pytest.param("keras/cases/transformer_encoder.keras", "n.nnef.tgz", id="causal mask of open length in tract"),
    pytest.param("tflite/cases/svdf_int8.tflite", "n.xml", id="a variable of int16 in OpenVINO"),
    pytest.param("pytorch/pt2/programs/runs.pt2", "n.onnx", id="float8e5m2 without saturation in ONNX Runtime"),
    pytest.param("pytorch/pt2/programs/network.core.pt2", "n.nnef.tgz", id="Expand to max(n, 1) in tract"),
]


@pytest.mark.parametrize(("path", "name"), CASES)
def test_written_forms_that_runtimes_compute_wrongly_are_avoided(path, name, tmp_path):
    pytest.importorskip("openvino")
    pytest.importorskip("tract")
    report = gp.convert(TESTS / "formats" / path, tmp_path / name)
    assert str(report.proof.verdict) == "consistent", report.proof.sentence


TEXTS = [
    pytest.param(
        [2, 3, 4, 4],
        "local_response_normalization(x, size = [1, 3, 1, 1], alpha = 0.5, beta = 0.75, bias = 2.0)",
        "n.onnx",
        "consistent",
        id="LRN in ONNX Runtime",
    ),
    # No comparison of outputs without elements is a proof.
    pytest.param([1, 3, 8, 8], "add(x, [])", "n.xml", "not verified", id="a constant without elements in OpenVINO"),
]


@pytest.mark.parametrize(("shape", "text", "name", "verdict"), TEXTS)
def test_runtime_faults_do_not_fail_a_correct_conversion(shape, text, name, verdict, tmp_path):
    pytest.importorskip("openvino")
    source = tmp_path / "net.nnef"
    lines = ["version 1.0;", "graph net(x) -> (y)", "{", f"x = external(shape = {shape});", f"y = {text};", "}"]
    source.write_text("\n".join(lines))
    report = gp.convert(source, tmp_path / name)
    assert str(report.proof.verdict) == verdict, report.proof.sentence


def test_runtime_state_of_earlier_sizes_does_not_fail_a_conversion(tmp_path):
    """OpenVINO 2026.4.1 computes attention wrongly after a run of length 1; in a new process it is right."""
    pytest.importorskip("openvino")
    x, y = (TensorProto.FLOAT, ["batch", "length", 12]), (TensorProto.FLOAT, ["batch", "length", 3, 4])
    nodes = [
        node("Reshape", ["x", "heads"], ["h"]),
        node("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Softmax", ["scores"], ["weights"]),
        node("MatMul", ["weights", "q"], ["context"]),
        node("Transpose", ["context"], ["y"], perm=[0, 2, 1, 3]),
    ]
    path = _saved(tmp_path / "a.onnx", nodes, [("x", *x)], [("y", *y)], [("heads", np.array([0, 0, 3, 4], np.int64))])
    gp.convert(path, tmp_path / "b.xml", verify=False)
    proof = gp.verify(path, tmp_path / "b.xml")
    assert proof.passed, proof.sentence


def test_quotients_of_quantized_values_are_not_run_by_litert():
    cases = TESTS / "formats/tflite/reference_cases"
    fault = known_fault("litert", gp.load(cases / "uint8.tflite").graph)
    assert fault is not None
    assert "quotients" in fault.what
    assert known_fault("litert", gp.load(cases / "int16.tflite").graph) is None


def test_constants_beyond_32_bits_are_not_run_by_openvino(tmp_path):
    pytest.importorskip("openvino")
    x = ("x", TensorProto.FLOAT, [2])
    y = ("y", TensorProto.UINT64, [2])
    number = [("i", np.array([2**32, 5], np.int64))]
    nodes = [node("Cast", ["i"], ["y"], to=TensorProto.UINT64), node("Relu", ["x"], ["z"])]
    path = _saved(tmp_path / "a.onnx", nodes, [x], [y, ("z", TensorProto.FLOAT, [2])], number)
    assert str(gp.convert(path, tmp_path / "b.xml").proof.verdict) == "consistent"
    number = [("i", np.array([2**63 - 1, 5], np.int64))]
    assert known_fault("openvino", gp.load(_saved(tmp_path / "c.onnx", nodes, [x], [y], number)).graph) is None


def test_stateful_variables_are_paired_with_checkpoint_states(tmp_path):
    pytest.importorskip("openvino")
    report = gp.convert(TESTS / "formats/checkpoint/models/falcon_alibi", tmp_path / "n.xml")
    assert str(report.proof.verdict) == "consistent", report.proof.sentence
    assert any("present" in output.name for output in report.proof.outputs)


def test_an_update_is_written_though_it_is_no_output(tmp_path):
    gp.convert(TESTS / "formats/tflite/cases/svdf.tflite", tmp_path / "n.nnef", verify=False, flavour="khronos")
    text = next(iter(tmp_path.rglob("graph.nnef")), tmp_path / "n.nnef").read_text()
    assert "update(" in text


def test_an_original_name_of_another_value_is_no_input(tmp_path):
    x = [("0", TensorProto.FLOAT, [2, 3])]
    y = [("1", TensorProto.FLOAT, [2, 3]), ("2", TensorProto.FLOAT, [2, 3])]
    path = _saved(tmp_path / "a.onnx", [node("Identity", ["0"], ["1"]), node("Relu", ["0"], ["2"])], x, y)
    assert gp.convert(path, tmp_path / "n.nnef.tgz").passed


def test_unused_inputs_are_omitted():
    x = [("x", TensorProto.FLOAT, [2]), ("unused", TensorProto.FLOAT, [2])]
    y = [("y", TensorProto.FLOAT, [2])]
    made = helper.make_graph(
        [node("Relu", ["x"], ["y"])],
        "net",
        *([helper.make_tensor_value_info(*each) for each in side] for side in (x, y)),
    )
    a = gp.from_onnx(helper.make_model(made)).graph
    b = gp.from_onnx(helper.make_model(made)).graph
    b.remove_input(next(value for value in b.inputs if value.name == "unused"))
    assert paired({"x": 1, "unused": 2}, a, b) == {"x": 1}


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(TensorProto.FLOAT, "n.nnef.tgz"), (TensorProto.DOUBLE, "n.ncnn.param")],
    ids=["rank 0", "float64"],
)
def test_inputs_have_the_rank_and_the_numbers_of_the_format(dtype, name, tmp_path):
    shape = [] if dtype == TensorProto.FLOAT else [2, 3]
    nodes = [node("Add", ["x", "x"], ["y"])]
    path = _saved(tmp_path / "a.onnx", nodes, [("x", dtype, shape)], [("y", dtype, shape)])
    report = gp.convert(path, tmp_path / name)
    assert str(report.proof.verdict) == "verified", report.proof.sentence


def _quantized(path, epsilon):
    """A normalization between quantizations, whose steps hide its epsilon."""
    random = np.random.default_rng(0)
    floats = {name: random.uniform(0.5, 1.5, 4).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
    constants = [*floats.items(), ("s", np.float32(0.05)), ("z", np.int8(0))]
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("BatchNormalization", ["d", "scale", "bias", "mean", "var"], ["n"], epsilon=epsilon),
        node("QuantizeLinear", ["n", "s", "z"], ["r"]),
        node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    port = TensorProto.FLOAT, ["N", 4, 3]
    return _saved(path, nodes, [("x", *port)], [("y", *port)], constants)


def test_segments_between_quantizations_are_compared(tmp_path):
    a, b = _quantized(tmp_path / "a.onnx", 1e-5), _quantized(tmp_path / "b.onnx", 3e-4)
    proof = gp.verify(a, b)
    assert "segment" in proof.sentence
    assert not proof.passed


def test_the_same_quantized_file_is_verified(tmp_path):
    a, b = _quantized(tmp_path / "a.onnx", 1e-5), _quantized(tmp_path / "b.onnx", 1e-5)
    assert str(gp.verify(a, b).verdict) == "verified"


def _half(path, limit):
    """Elements in half precision, below a limit."""
    nodes = [node("Min", ["x", "limit"], ["m"]), node("Add", ["m", "x"], ["y"])]
    port = TensorProto.FLOAT16, [2, 5]
    return _saved(path, nodes, [("x", *port)], [("y", *port)], [("limit", np.float16(limit))])


def test_differing_float16_segments_are_reported_as_uncovered(tmp_path):
    proof = gp.verify(_half(tmp_path / "a.onnx", 60000), _half(tmp_path / "b.onnx", 50000))
    assert str(proof.verdict) == "verified where covered"
    assert "segment" in proof.sentence


def test_random_conversions_are_not_refuted():
    """`tools/true_conversions.py` draws more, also of other folders."""
    paths = true_conversions.model_files([TESTS / "formats"])
    found = []
    for path, target in true_conversions.draw(paths, 0, list(true_conversions.ENDINGS)):
        found += [result for result in [true_conversions.convert(path, target)] if result["verdict"] is not None]
        if len(found) == 4:
            break
    assert all(each["verdict"] != true_conversions.FAILED for each in found), true_conversions.summary(found)


def test_infinities_that_a_softmax_combines_are_no_difference(tmp_path):
    x, y = [("x", TensorProto.FLOAT, [2, 3, 4])], [("y", TensorProto.FLOAT, [2, 3, 4])]
    nodes = [
        node("Clip", ["x", "low"], ["c"]),
        node("ReduceLogSumExp", ["c", "axes"], ["s"], keepdims=1),
        node("Sub", ["c", "s"], ["d"]),
        node("Exp", ["d"], ["y"]),
    ]
    constants = [("low", np.array(-1e3, np.float32)), ("axes", np.array([1, 2], np.int64))]
    path = _saved(tmp_path / "a.onnx", nodes, x, y, constants)
    report = gp.convert(path, tmp_path / "n.nnef.tgz")
    assert str(report.proof.verdict) == "verified", report.proof.sentence


def test_dim_fixed_by_matmul_may_be_written_as_static(tmp_path):
    open_dims = [("x", TensorProto.FLOAT, ["n", "k"])]
    fixed = [("x", TensorProto.FLOAT, ["n", 3])]
    y = [("y", TensorProto.FLOAT, ["n", 2])]
    weights = [("w", np.ones((3, 2), np.float32))]

    def side(letter, inputs):
        path = _saved(tmp_path / f"{letter}.onnx", [node("MatMul", ["x", "w"], ["y"])], inputs, y, weights)
        return Side(letter, letter, gp.load(path).graph, format="onnx")

    assert not interface_differences(side("a", open_dims), side("b", fixed))
    assert interface_differences(side("a", open_dims), side("b", [("x", TensorProto.FLOAT, [4, 3])]))


def test_an_operator_on_bfloat16_does_not_end_the_process_of_litert(tmp_path):
    pytest.importorskip("ai_edge_litert")
    report = gp.convert(TESTS / "formats/checkpoint/models/falcon_alibi", tmp_path / "n.tflite")
    assert str(report.proof.verdict) == "consistent", report.proof.sentence
    assert any(run.runtime == "litert" and run.ran for run in report.proof.runs)


def test_nan_is_compared_only_for_models_that_test_for_nan(tmp_path):
    pytest.importorskip("ai_edge_litert")
    report = gp.convert(TESTS / "formats/tensorflow/cases/reductions.pb", tmp_path / "n.tflite")
    assert report.passed, report.proof.sentence
    assert not any("search" in each for each in (*report.proof.coverage.never, *report.proof.notes))


SAME_TWICE = """7767517
4 3
pnnx.Input               pnnx_input_0             0 1 0 #0=(2,3)f32
nn.ReLU                  relu                     1 1 0 1 #0=(2,3)f32 #1=(2,3)f32
prim::TupleConstruct     pnnx_0                   3 1 1 0 1 2
pnnx.Output              pnnx_output_0            1 0 2
"""


def test_a_value_that_is_two_outputs_has_two_positions(tmp_path):
    (tmp_path / "net.pnnx.param").write_text(SAME_TWICE)
    (tmp_path / "net.pnnx.bin").write_bytes(b"PK\5\6" + bytes(18))
    report = gp.convert(tmp_path / "net.pnnx.param", tmp_path / "net.prototxt")
    assert report.passed, report.proof.sentence


def _graph(path, nodes, inputs, outputs, constants=()):
    return gp.load(_saved(path, nodes, inputs, outputs, constants)).graph


def test_generated_operands_of_range_have_a_defined_length(tmp_path):
    scalars = [(name, TensorProto.FLOAT, []) for name in ("start", "limit", "delta")]
    direct = [node("Range", ["start", "limit", "delta"], ["y"])]
    stepwise = [
        node("Sub", ["limit", "start"], ["way"]),
        node("Div", ["way", "delta"], ["steps"]),
        node("Ceil", ["steps"], ["count"]),
        node("Range", ["zero", "count", "one"], ["y"]),
    ]
    numbers = [("zero", np.float32(0)), ("one", np.float32(1))]
    for nodes in (direct, stepwise):
        graph = _graph(tmp_path / "net.onnx", nodes, scalars, [("y", TensorProto.FLOAT, [None])], numbers)
        for kind in KINDS:
            given = make_test_input(graph, kind, {}, 0).arrays
            assert given["start"] <= given["limit"]
            assert given["delta"] >= 1
            assert all(array == np.rint(array) for array in given.values())


X_TO_Y = [("x", TensorProto.FLOAT, [3])], [("y", TensorProto.FLOAT, [3])]


def test_nan_that_reaches_an_output_from_outside_of_a_domain_is_undefined(tmp_path):
    root = [node("Sqrt", ["x"], ["r"])]
    plain = _graph(tmp_path / "plain.onnx", [*root, node("Neg", ["r"], ["y"])], *X_TO_Y)
    guard = [node("Less", ["x", "zero"], ["is_low"]), node("Where", ["is_low", "zero", "r"], ["y"])]
    guarded = _graph(tmp_path / "guarded.onnx", [*root, *guard], *X_TO_Y, [("zero", np.float32(0))])
    below, above = {"x": np.float32([1, -1, 4])}, {"x": np.float32([1, 2, 4])}
    assert "computes NaN" in undefined_result(plain, below).reason
    assert undefined_result(plain, above) is None
    assert undefined_result(guarded, below) is None


def test_elements_next_to_nan_refute(tmp_path):
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("Sub", ["minus", "a"], ["below"]),
        node("Sqrt", ["below"], ["nan"]),
        node("Add", ["x", "b"], ["z"]),
        node("Concat", ["nan", "z"], ["y"], axis=0),
    ]
    ports = [("x", TensorProto.FLOAT, [3])], [("y", TensorProto.FLOAT, [6])]
    numbers = [("minus", np.float32(-1))]
    paths = [_saved(tmp_path / f"{b}.onnx", nodes, *ports, [*numbers, ("b", np.float32(b))]) for b in (1, 1.5)]
    assert str(gp.verify(*paths, effort=0).verdict) == "verification failed"


def test_a_float_of_two_to_the_31_has_no_int32(tmp_path):
    ports = [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.INT32, [2])]
    graph = _graph(tmp_path / "net.onnx", [node("Cast", ["x"], ["y"], to=TensorProto.INT32)], *ports)
    assert "beyond the range of int32" in undefined_result(graph, {"x": np.float32([0, 2**31])}).reason
    assert undefined_result(graph, {"x": np.float32([-(2**31), 2**31 - 128])}) is None


def test_litert_is_not_requested_inputs_and_outputs_of_bfloat16(tmp_path):
    ports = [[(name, TensorProto.BFLOAT16, [3])] for name in "xy"]
    path = _saved(tmp_path / "net.onnx", [node("Relu", ["x"], ["y"])], *ports)
    report = gp.convert(path, tmp_path / "net.tflite")
    assert str(report.proof.verdict) == "consistent", report.proof.sentence


def test_difference_for_nan_only_is_reported_in_the_coverage(tmp_path):
    kept = [node("IsInf", ["x"], ["is_infinite"]), node("Where", ["is_infinite", "x", "r"], ["y"])]
    relu = _saved(tmp_path / "a.onnx", [node("Relu", ["x"], ["r"]), *kept], *X_TO_Y)
    chosen = [node("Greater", ["x", "zero"], ["is_high"]), node("Where", ["is_high", "x", "zero"], ["r"])]
    where = _saved(tmp_path / "b.onnx", [*chosen, *kept], *X_TO_Y, [("zero", np.float32(0))])
    proof = gp.verify(relu, where)
    assert str(proof.verdict) == "verified where covered", proof.sentence
    assert DIFFERS_ON_NAN in proof.coverage.never
    assert DIFFERS_ON_NAN not in gp.verify(where, where).coverage.never


def test_added_narrowing_cast_is_reported(tmp_path):
    plain = _saved(tmp_path / "a.onnx", [node("Relu", ["x"], ["r"]), node("Neg", ["r"], ["y"])], *X_TO_Y)
    casts = [
        node("Cast", ["r"], ["h"], to=TensorProto.FLOAT16, name="narrow"),
        node("Cast", ["h"], ["w"], to=TensorProto.FLOAT),
    ]
    nodes = [node("Relu", ["x"], ["r"]), *casts, node("Neg", ["w"], ["y"])]
    rounded = _saved(tmp_path / "b.onnx", nodes, *X_TO_Y)
    one, two = (api_side(letter, gp.load(path)) for letter, path in (("a", plain), ("b", rounded)))
    assert "narrow" in narrowed_nodes(one, two)[0]
    assert not narrowed_nodes(two, one)


def test_sign_and_roundings_are_whole():
    assert is_integral(_computed("Floor"))
    assert is_integral(_computed("Sign"))
    assert not is_integral(_computed("Tanh"))


def _computed(op):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([node(op, ["x"], ["y"])], "net", [values[0]], [values[1]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return gp.from_onnx(model).graph.outputs[0]


def test_requantization_rounds_the_ratio_of_two_scales(tmp_path):
    """XNNPACK's QUANTIZE of int8 multiplies by a ratio of 8 bits; a layer amplifies the steps that this changes."""
    pytest.importorskip("ai_edge_litert")
    scales = {"s": 0.19312286, "t": 0.66946411, "u": 0.02, "v": 2.0}
    zeros = {"zs": -3, "zt": 3, "zu": 0, "zv": 0}
    weights = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    numbers = [
        *((name, np.float32(value)) for name, value in scales.items()),
        *((name, np.int8(value)) for name, value in zeros.items()),
        ("w", weights),
        ("ten", np.float32(10)),
    ]
    nodes = [
        node("Mul", ["x", "ten"], ["wide"]),
        node("QuantizeLinear", ["wide", "s", "zs"], ["a"]),
        node("DequantizeLinear", ["a", "s", "zs"], ["b"]),
        node("QuantizeLinear", ["b", "t", "zt"], ["c"]),
        node("DequantizeLinear", ["c", "t", "zt"], ["d"]),
        node("DequantizeLinear", ["w", "u", "zu"], ["f"]),
        node("Conv", ["d", "f"], ["g"]),
        node("QuantizeLinear", ["g", "v", "zv"], ["y"]),
    ]
    ports = [("x", TensorProto.FLOAT, [1, 4, 8, 8])], [("y", TensorProto.INT8, [1, 4, 8, 8])]
    path = _saved(tmp_path / "net.onnx", nodes, *ports, numbers)
    report = gp.convert(path, tmp_path / "net.tflite")
    assert report.passed, report.proof.sentence


def test_softmax_of_values_rounded_by_more_than_1_is_undefined(tmp_path):
    nodes = [node("Mul", ["x", "factor"], ["h"]), node("Softmax", ["h"], ["y"])]
    x, y = [("x", TensorProto.FLOAT, [1, 3])], [("y", TensorProto.FLOAT, [1, 3])]
    path = _saved(tmp_path / "a.onnx", nodes, x, y, [("factor", np.float32(1e7))])
    graph = gp.load(path).graph
    found = undefined_result(graph, {"x": np.float32([[1, 1, 0.5]])})
    assert found is not None
    assert found.is_rounded
    assert undefined_result(graph, {"x": np.float32([[0.5, 0.5, -100]])}) is None


def test_branches_are_paired_by_name(tmp_path):
    pytest.importorskip("openvino")
    pair = TESTS / "proof/pairs/if_length_64_branch_wrong.a.onnx"
    proof = gp.convert(pair, tmp_path / "net.xml").proof
    assert proof.verdict.passed, proof.sentence
    other = TESTS / "proof/pairs/if_length_64_branch_wrong.b.onnx"
    assert gp.verify(other, tmp_path / "net.xml").failed
