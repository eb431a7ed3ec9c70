"""Quantization end to end: models run on integers with the reported accuracy, and unusual models are handled."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.ir.verify import verify
from graphport.quantization.settings import Settings
from tests.draws import spread
from tests.models import model, node, typed
from tests.quantization import nets


def _snr(found, quantized, count=40, snr=nets.snr):
    inputs = nets.samples(found, count, seed=99)
    expected, given = gp.run(found, inputs), gp.run(quantized, inputs)
    return min(snr(expected[name], given[name]) for name in expected)


def _operators(quantized, tmp_path):
    """Return the op types of a model after ONNX Runtime's optimization."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(gp.to_onnx(quantized).SerializeToString(), options, ["CPUExecutionProvider"])
    return [item.op_type for item in onnx.load(tmp_path / "optimized.onnx").graph.node]


NETS = {"residual": nets.residual, "depthwise": nets.depthwise, "products": nets.products}


@pytest.mark.parametrize(("preset", "name"), spread(list(product(["fast", "balanced", "best"], NETS))))
def test_quantized_models_are_good(name, preset):
    found = NETS[name]()
    quantized = gp.quantize(found, nets.samples(found, 48), preset=preset)
    verify(quantized.graph)
    assert _snr(found, quantized) > 25


@pytest.mark.parametrize("name", list(NETS))
def test_reported_snr_is_that_of_the_written_model(name):
    found = NETS[name]()
    report = (quantized := gp.quantize(found, nets.samples(found, 160))).report
    low, high = report.snr_range
    assert low < report.snr_db < high < low + 8
    assert low < _snr(found, quantized, 400, nets.snr_of_variance) < high


def test_kept_steps_never_reduce_the_snr():
    found = nets.depthwise(imbalance=2)
    steps = gp.quantize(found, nets.samples(found), preset="best").report.steps
    kept = [step.snr_db for step in steps if step.is_kept and step.name in ("calibrate", "equalize", "round", "search")]
    assert kept == sorted(kept)


def test_the_argument_is_untouched():
    found = nets.residual()
    before = gp.to_onnx(found).SerializeToString()
    gp.quantize(found, nets.samples(found))
    assert gp.to_onnx(found).SerializeToString() == before


def test_the_result_is_the_same_every_time():
    found = nets.residual()
    first, second = (gp.to_onnx(gp.quantize(found, nets.samples(found))).SerializeToString() for _ in range(2))
    assert first == second


def test_the_batch_axis_stays_free_and_names_stay():
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found))
    assert list(quantized.inputs) == ["x"]
    assert list(quantized.outputs) == ["y"]
    assert gp.run(quantized, nets.samples(found, 3))["y"].shape == (3, 5)


def test_convolutions_and_sums_become_integer_kernels(tmp_path):
    found = nets.residual()
    operators = _operators(gp.quantize(found, nets.samples(found), cheap_layers=False), tmp_path)
    assert operators.count("QLinearConv") == 2
    assert "QLinearAdd" in operators
    assert "QGemm" in operators
    assert not {"Conv", "Relu", "Gemm"} & set(operators)


def test_bounded_activations_disappear_in_kernels(tmp_path):
    found = nets.depthwise()
    operators = _operators(gp.quantize(found, nets.samples(found)), tmp_path)
    assert operators.count("QLinearConv") == 3
    assert not {"Conv", "Clip"} & set(operators)


def test_products_become_integer_kernels_with_real_results(tmp_path):
    found = nets.products()
    operators = _operators(gp.quantize(found, nets.samples(found)), tmp_path)
    assert sum("MatMulInteger" in operator for operator in operators) == 2


@pytest.mark.parametrize("name", list(NETS))
def test_integer_kernels_match_the_graph(name):
    """Sums at a rounding tie may round either way; there is no other difference."""
    found = NETS[name]()
    quantized = gp.quantize(found, nets.samples(found), preset="fast")
    inputs = {name: 3 * x for name, x in nets.samples(found, 32, seed=5).items()}
    model_ = gp.to_onnx(quantized).SerializeToString()
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    as_said = onnxruntime.InferenceSession(model_, plain, ["CPUExecutionProvider"]).run(None, inputs)[0]
    computed = onnxruntime.InferenceSession(model_, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    assert nets.snr(as_said, computed) > _snr(found, quantized) + 10


def test_the_largest_weights_and_inputs_do_not_overflow():
    """Pairs of products of bytes overflow 16 bits on processors without dot products, unless codes are chosen for it."""
    w = np.full((4, 8, 1, 1), 1.0, np.float32)
    w[1] *= -1
    found = gp.from_onnx(
        model([node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "v"], ["y"])],
              [("x", ["N", 8, 2, 2])], [("y", ["N", 4, 2, 2])], {"w": w, "v": np.ones((4, 4, 1, 1), np.float32)})
    )  # fmt: skip
    x = np.abs(nets.samples(found, 40)["x"])
    x[::3] = x.max()
    quantized = gp.quantize(found, {"x": x}, weight_range="pairs")
    expected, given = gp.run(found, {"x": x})["y"], gp.run(quantized, {"x": x})["y"]
    assert np.abs(expected - given).max() < 0.03 * np.abs(expected).max()


def test_unlike_channels_are_recovered():
    found = nets.depthwise(imbalance=5, activation="Relu")
    data = nets.samples(found, 48)
    with_, without = (gp.quantize(found, data, equalize=flag, preset="balanced") for flag in (True, False))
    assert _snr(found, with_) > _snr(found, without) + 6


@pytest.mark.parametrize(("changes", "least"), [
    pytest.param({"activation_bits": 16}, 35, id="sixteen bits"),
    pytest.param({"symmetric": True, "activation_type": "int8"}, 22, id="symmetric"),
    pytest.param({"per_channel": False}, 20, id="one scale a weight"),
    pytest.param({"power_of_two": True}, 18, id="powers of two"),
    pytest.param({"weight_bits": 4}, 10, id="four bits"),
    pytest.param({"weight_bits": 4, "weight_block": 4}, 12, id="four bits in blocks"),
    pytest.param({"weights_only": True}, 35, id="weights only"),
    pytest.param({"weight_type": "uint8"}, 25, id="unsigned weights"),
    pytest.param({"weight_range": "reduced"}, 20, id="half of the codes"),
    pytest.param({"method": "percentile", "percentile": 99.99}, 20, id="percentile"),
    pytest.param({"method": "entropy"}, 10, id="entropy"),
    pytest.param({"method": "moving-average"}, 8, id="moving average"),
    pytest.param({"prepare": False}, 25, id="not prepared"),
])  # fmt: skip
def test_settings_are_obeyed_and_give_a_model(changes, least):
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found, 48), preset="fast", **changes)
    verify(quantized.graph)
    assert _snr(found, quantized) > least


def test_blocks_that_kernels_misread_are_refused():
    found = nets.products()
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0004.*block-wise int8 weights with uint8"):
        gp.quantize(found, nets.samples(found), weight_block=4)
    for changes in ({"weight_bits": 4}, {"activation_bits": 16}, {"weights_only": True}):
        quantized = gp.quantize(found, nets.samples(found), weight_block=4, preset="fast", **changes)
        assert _snr(found, quantized) > 12


def test_searched_ranges_respect_power_of_two():
    found = nets.residual()
    chosen = {"search": True, "power_of_two": True, "real_results": False, "cheap_layers": False}
    report = gp.quantize(found, nets.samples(found), "onnxruntime", **chosen)
    scales = [
        float(item.inputs[1].storage.numpy()) for item in report.graph if item.op == "QuantizeLinear"
    ]  # fmt: skip
    assert len(scales) > 3
    assert all(np.log2(scale) == round(np.log2(scale)) for scale in scales)


@pytest.mark.parametrize("weight_type", ["float8_e4m3fn", "float8_e5m2"])
def test_weights_may_be_float8(weight_type):
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found), weight_type=weight_type, weights_only=True)
    codes = [value for value in quantized.graph.constants if value.storage.dtype is DType.of(weight_type)]
    assert len(codes) >= 3
    assert _snr(found, quantized) > 12


@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "tensorrt", "ncnn", "nnef"])
def test_every_target_produces_a_runnable_model(target):
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found, 48), target, preset="fast")
    assert quantized.report.settings.target == target
    assert quantized.report.snr_db > 15


def test_symmetric_targets_have_zero_in_the_middle():
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found), "tensorrt", preset="fast")
    zero_points = [
        item.inputs[2].storage.numpy() for item in quantized.graph if item.op == "QuantizeLinear"
    ]  # fmt: skip
    assert zero_points
    assert all(not zero_point.any() for zero_point in zero_points)


def test_byte_valued_input_is_quantized_exactly():
    """Scales that fit the data exactly are found."""
    found = nets.residual()
    x = np.random.default_rng(0).integers(0, 256, (48, 3, 8, 8)).astype(np.float32)
    quantized = gp.quantize(found, {"x": x}, preset="fast")
    assert np.array_equal(
        quantized.report.layers[0].input_range, (0.0, pytest.approx(255.0, rel=1e-3))
    )  # fmt: skip


def test_float_nodes_stay_floating(tmp_path):
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found), float_nodes=("second",), cheap_layers=False)
    assert [layer.name for layer in quantized.report.floating] == ["second"]
    assert "Conv" in _operators(quantized, tmp_path)


def test_unknown_names_are_reported():
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError, match="QUANT0101"):
        gp.quantize(found, nets.samples(found), float_nodes=("nobody",))


def test_a_goal_is_met_with_the_fewest_floating_layers():
    found = nets.depthwise(imbalance=2)
    # With fewer samples it cannot estimate the error of new ones.
    data = nets.samples(found, 192)
    base = gp.quantize(found, data).report.snr_db
    quantized = gp.quantize(found, data, min_snr=base + 2)
    assert quantized.report.goal_met
    assert quantized.report.snr_db >= base + 2
    floating = [layer.name for layer in quantized.report.floating]
    assert 0 < len(floating) < 3
    assert all("SNR goal" in layer.reasons[0] for layer in quantized.report.floating)


def test_a_goal_that_cannot_be_met_is_stated_not_to_be():
    found = nets.residual()
    report = gp.quantize(found, nets.samples(found), min_snr=140.0, max_float_layers=1).report
    assert report.goal_met is False
    assert not report.passed
    assert len(report.floating) == 1


def test_satisfied_goal_keeps_no_layer_float():
    found = nets.residual()
    report = gp.quantize(found, nets.samples(found), min_snr=5.0).report
    assert report.goal_met
    assert report.floating == []


def test_the_report_is_plain_data():
    found = nets.residual()
    document = json.loads(json.dumps(gp.quantize(found, nets.samples(found)).report.as_json()))
    assert {layer["name"] for layer in document["layers"]} == {"first", "second", "head"}
    assert document["worst"]
    assert all({"own_db", "accumulated_db", "means"} <= set(layer) for layer in document["layers"])
    assert Settings.from_json(document["settings"]) == Settings()


def test_layer_noise_is_less_than_accumulated_noise():
    found = nets.residual()
    plain = dict.fromkeys(("round", "correct", "equalize", "cheap_layers"), False)
    report = gp.quantize(found, nets.samples(found), search=True, **plain).report
    known = [layer for layer in report.layers if layer.own_db is not None]
    assert len(known) == 3
    assert all(layer.own_db > layer.accumulated_db - 3 for layer in known)


def test_reasons_name_unlike_channels():
    found = nets.depthwise(imbalance=6, activation="Relu")
    report = gp.quantize(found, nets.samples(found), preset="fast", equalize=False).report
    assert any("unequal channels" in reason for layer in report.layers for reason in layer.reasons)


def test_every_preset_equalizes_unbalanced_channels():
    found = nets.depthwise(imbalance=6, activation="Relu")
    plain, fast = (gp.quantize(found, nets.samples(found), preset="fast", equalize=way) for way in (False, None))
    assert plain.report.snr_db < 15
    assert fast.report.snr_db > plain.report.snr_db + 6


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_model_is_written_at_the_opset_of_its_source(opset, tmp_path):
    """Also if preparation fuses operators newer than the opset."""
    gp.save(nets.residual(), tmp_path / "source.onnx", opset=opset)
    found = gp.load(tmp_path / "source.onnx")
    made = gp.to_onnx(gp.quantize(found, nets.samples(found), preset="fast"))
    assert [item.version for item in made.opset_import if not item.domain] == [opset]
    blocked = gp.quantize(found, nets.samples(found), preset="fast", weights_only=True, weight_bits=4, weight_block=4)
    assert [item.version for item in gp.to_onnx(blocked).opset_import if not item.domain] == [21]


def test_progress_is_reported():
    found = nets.residual()
    heard = []
    gp.quantize(found, nets.samples(found), on_progress=lambda *said: heard.append(said))
    assert {stage for stage, _, _ in heard} >= {"observe", "adjust"}
    assert all(0 < done <= total for _, done, total in heard)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_samples_are_enough_to_begin_with(count):
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found, count))
    assert _snr(found, quantized) > 12
    assert any("few samples" in reason for layer in quantized.report.layers for reason in layer.reasons)


def test_a_model_with_a_fixed_batch_is_quantized():
    found = nets.residual(batch=1)
    quantized = gp.quantize(found, {"x": nets.samples(nets.residual(), 24)["x"]})
    assert quantized.report.snr_db > 25


# Odd models


def test_a_quantized_model_is_refused():
    found = nets.residual()
    data = nets.samples(found)
    with pytest.raises(gp.DiagnosticError, match="QUANT0006"):
        gp.quantize(gp.quantize(found, data), data)


def test_a_model_without_layers_is_refused():
    found = gp.from_onnx(model([node("Relu", ["x"], ["y"])], [("x", ["N", 4])], [("y", ["N", 4])]))
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0007.*no node with weights"):
        gp.quantize(found, nets.samples(found))


def test_model_without_supported_layers_is_rejected_with_the_reason():
    weight = np.ones((2, 2, 2, 2), np.float32)
    found = gp.from_onnx(
        model([node("ConvTranspose", ["x", "w"], ["y"])], [("x", ["N", 2, 3, 3])], [("y", None)], {"w": weight})
    )
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0007.*no integer kernel for ConvTranspose"):
        gp.quantize(found, nets.samples(found))


def test_a_shared_weight_is_quantized_for_each_reader():
    r = np.random.default_rng(0)
    constants = {"w": r.normal(size=(4, 4, 1, 1)).astype(np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "w"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 5, 5])], [("y", ["N", 4, 5, 5])], constants))
    assert _snr(found, gp.quantize(found, nets.samples(found))) > 25


def test_layers_in_bodies_stay_floating_and_are_named():
    w = np.random.default_rng(0).normal(size=(4, 4, 1, 1)).astype(np.float32)
    then = onnx.helper.make_graph([node("Conv", ["a", "w"], ["t"])], "then", [], [typed("t", None)])
    other = onnx.helper.make_graph([node("Relu", ["a"], ["e"])], "else", [], [typed("e", None)])
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        node("Conv", ["b", "w"], ["y"]),
    ]
    inputs = [("x", ["N", 4, 3, 3]), typed("c", [], onnx.TensorProto.BOOL)]
    found = gp.from_onnx(model(nodes, inputs, [("y", ["N", 4, 3, 3])], {"w": w}))
    x = nets.samples(nets.depthwise(), 16)["x"][:, :, :3, :3]
    items = [{"x": x[i : i + 1], "c": np.asarray(bool(i % 2))} for i in range(16)]
    quantized = gp.quantize(found, items)
    assert [finding.code for finding in quantized.report.findings] == ["QUANT0008"]
    assert quantized.report.snr_db > 15


def test_free_spatial_axes_stay_free():
    r = np.random.default_rng(0)
    constants = {"w": r.normal(size=(4, 3, 3, 3)).astype(np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 3, "H", "W"])], [("y", None)], constants))
    quantized = gp.quantize(found, [{"x": r.normal(size=(2, 3, 6, 7)).astype(np.float32)} for _ in range(8)])
    assert gp.run(quantized, {"x": np.ones((1, 3, 9, 5), np.float32)})["y"].shape == (1, 4, 9, 5)


def test_sequences_between_layers_are_followed():
    """A sequence has no shape, and its arrays may have different shapes."""
    r = np.random.default_rng(0)
    constants = {"w": r.normal(size=(4, 4)).astype(np.float32), "i": np.asarray(0), "p": np.asarray([2, 3, 1])}
    nodes = [
        node("MatMul", ["x", "w"], ["a"]), node("SplitToSequence", ["a", "p"], ["s"], axis=1),
        node("Relu", ["x"], ["r"]), node("MatMul", ["r", "w"], ["b"]),
        node("SequenceAt", ["s", "i"], ["t"]), node("MatMul", ["t", "w"], ["c"]), node("Identity", ["b"], ["d"]),
    ]  # fmt: skip
    found = gp.from_onnx(model(nodes, [("x", [1, 6, 4])], [("c", None), ("d", None)], constants))
    items = [{"x": r.normal(size=(1, 6, 4)).astype(np.float32)} for _ in range(48)]
    assert gp.quantize(found, items).report.snr_db > 20


@pytest.mark.parametrize("batch", [1, "N"])
@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_samples_may_have_different_sizes(batch, preset):
    r = np.random.default_rng(0)
    constants = {
        "w": r.normal(size=(4, 3, 3, 3)).astype(np.float32), "v": r.normal(size=(4, 4, 3, 3)).astype(np.float32)
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "v"], ["y"])
    ]  # fmt: skip
    found = gp.from_onnx(model(nodes, [("x", [batch, 3, "H", "W"])], [("y", None)], constants))
    items = [{"x": r.normal(size=(1, 3, 6 + i % 3, 7 + i // 6)).astype(np.float32)} for i in range(12)]
    quantized = gp.quantize(found, items, preset=preset)
    assert quantized.report.samples == 12
    assert _snr_of(found, quantized, items) > 25


def _snr_of(found, quantized, items):
    both = [[gp.run(each, item)["y"].reshape(-1) for item in items] for each in (found, quantized)]
    return nets.snr(*(np.concatenate(outputs) for outputs in both))


def test_layers_in_a_loop_stay_floating_and_those_around_it_do_not():
    w = np.random.default_rng(0).normal(size=(4, 4, 1, 1)).astype(np.float32) / 2
    body = onnx.helper.make_graph(
        [node("Conv", ["h", "w"], ["t"]), node("Relu", ["t"], ["h2"]), node("Identity", ["go"], ["go2"])],
        "body",
        [typed("i", [], onnx.TensorProto.INT64), typed("go", [], onnx.TensorProto.BOOL), typed("h", ["N", 4, 3, 3])],
        [typed("go2", [], onnx.TensorProto.BOOL), typed("h2", ["N", 4, 3, 3])],
    )
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Loop", ["count", "", "a"], ["b"], body=body),
        node("Conv", ["b", "w"], ["y"]),
    ]
    constants = {"w": w, "count": np.asarray(3, np.int64)}
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 3, 3])], [("y", ["N", 4, 3, 3])], constants))
    x = {"x": nets.samples(nets.depthwise(), 24)["x"][:, :, :3, :3]}
    quantized = gp.quantize(found, x)
    assert [finding.code for finding in quantized.report.findings] == ["QUANT0008"]
    assert len(quantized.report.layers) == 2
    assert nets.snr(gp.run(found, x)["y"], gp.run(quantized, x)["y"]) > 20


@pytest.mark.parametrize("stage", ["observe", "adjust"])
def test_interruption_leaves_no_partial_files(tmp_path, stage):
    """Ctrl-C during observation or tracing leaves no files except the statistics of complete shards."""
    found = nets.residual()

    def told(now, _done, _total):
        if now == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gp.quantize(found, nets.samples(found), on_progress=told, statistics=tmp_path / "s.npz")
    left = [path.name for path in tmp_path.iterdir()]
    # Complete statistics are saved for the next run.
    assert left == ([] if stage == "observe" else ["s.npz"])
    assert gp.quantize(found, nets.samples(found), statistics=tmp_path / "s.npz").report.snr_db > 25


def test_an_output_that_others_read_keeps_its_name():
    r = np.random.default_rng(0)
    constants = {"w": r.normal(size=(4, 4, 1, 1)).astype(np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Conv", ["a", "w"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 3, 3])], [("y", None), ("a", None)], constants))
    quantized = gp.quantize(found, nets.samples(found))
    assert list(quantized.outputs) == ["y", "a"]
    assert _snr(found, quantized) > 25


def test_a_bias_that_thirty_two_bits_do_not_hold_stays_real():
    constants = {"w": np.full((2, 2, 1, 1), 1e-12, np.float32), "b": np.asarray([1e4, -1e4], np.float32)}
    found = gp.from_onnx(
        model([node("Conv", ["x", "w", "b"], ["y"])], [("x", ["N", 2, 2, 2])], [("y", None)], constants)
    )
    assert _snr(found, gp.quantize(found, nets.samples(found))) > 25


def test_written_for_nnef_the_grids_are_in_the_file(tmp_path):
    found = nets.residual(batch=1)
    quantized = gp.quantize(found, {"x": nets.samples(nets.residual(), 16)["x"]}, "nnef", preset="fast")
    gp.save(quantized, tmp_path / "model", format="nnef")
    assert (tmp_path / "model" / "graph.quant").exists()
    again = gp.load(tmp_path / "model")
    x = {"x": nets.samples(nets.residual(), 1)["x"]}
    assert nets.snr(gp.run(quantized, x, backend="reference")["y"], gp.run(again, x, backend="reference")["y"]) > 40


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_weight_that_is_no_number_is_reported(target, number):
    weight = np.ones((4, 3), np.float32)
    weight[1, 1] = number
    found = gp.from_onnx(
        model([node("MatMul", ["x", "w"], ["y"])], [("x", ["N", 4])], [("y", ["N", 3])], {"w": weight})
    )
    with pytest.raises(gp.DiagnosticError, match="QUANT0015"), np.errstate(invalid="ignore"):
        gp.quantize(found, {"x": np.ones((9, 4), np.float32)}, target, preset="fast")


def test_a_value_that_becomes_infinite_is_reported():
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    weight = np.full((4, 4), 1e30, np.float32)
    found = gp.from_onnx(model(nodes, [("x", ["N", 4])], [("y", ["N", 4])], {"w": weight}))
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0015.*'a'"):
        gp.quantize(found, {"x": np.full((9, 4), 1e10, np.float32)}, preset="fast")


@pytest.mark.parametrize("reach", ["auto", "pairs", "reduced"])
def test_block_quantized_weights_use_all_codes(reach):
    found = nets.residual()
    data = nets.samples(found)
    blocked = gp.quantize(found, data, preset="fast", weights_only=True, weight_block=4, weight_range=reach)
    whole = gp.quantize(found, data, preset="fast", weights_only=True, weight_range="full")
    assert blocked.report.snr_db > whole.report.snr_db


def test_grouped_convtranspose_bias_uses_the_scale_of_its_sums():
    """Of 2 groups with 3 maps each, weights have 3 scales and the bias 6 entries."""
    random = np.random.default_rng(0)
    constants = {
        "w": (random.normal(size=(4, 3, 3, 3)) * [[[[1]], [[4]], [[16]]]]).astype(np.float32),
        "b": random.normal(size=6).astype(np.float32),
    }
    nodes = [node("ConvTranspose", ["x", "w", "b"], ["y"], group=2)]
    found = gp.from_onnx(model(nodes, [typed("x", ["n", 4, 8, 8])], [typed("y", None)], constants))
    samples = {"x": random.normal(size=(16, 4, 8, 8)).astype(np.float32)}
    quantized = gp.quantize(found, samples, target="tflite")
    assert _snr(found, quantized) > 30
