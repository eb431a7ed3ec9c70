"""Weights of few bits in blocks, with samples and without: zero points, outstanding channels, generated inputs."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.core.dtypes import DType
from graphport.quantization import random_inputs
from graphport.quantization.random_inputs import random_samples
from graphport.quantization.unscale import unscale
from graphport.quantization.weights import least_squares
from tests.draws import spread
from tests.models import model, node
from tests.quantization import nets

TOKENS = 40


def test_low_bit_weights_use_blocks_of_32_by_default():
    sizes = {}
    for asked in (None, 0, 16):
        changes = {} if asked is None else {"weight_block": asked}
        made = gp.quantize(decoder(), weights_only=True, weight_bits=4, **changes)
        sizes[asked] = {n.attributes.get("block_size", 0) for n in made.graph if n.op == "DequantizeLinear"}
    assert sizes == {None: {32}, 0: {0}, 16: {16}}


def test_large_model_without_samples_uses_nearest_rounding(monkeypatch):
    """Its signal is at most 0.5 dB below that of many scales per block, and layers report the noise of their weight."""
    slow = gp.quantize(decoder(), weights_only=True, weight_bits=4, preset="fast")
    monkeypatch.setattr("graphport.quantization.layer.LARGE_UNSEEN", 1)
    quick = gp.quantize(decoder(), weights_only=True, weight_bits=4)
    assert quick.report.snr_db > slow.report.snr_db - 0.5
    assert [step.name for step in quick.report.steps] == ["round layer by layer"]
    assert all(20 < layer.own_db < 24 for layer in quick.report.layers if layer.is_quantized)
    best = gp.quantize(decoder(), weights_only=True, weight_bits=4, preset="best")
    assert len(best.report.steps) > 1


def decoder(outliers=0.0, seed=0):
    """Tokens, a table, twice a normalization with gain and a gated product around a shortcut, and scores of tokens."""
    r = np.random.default_rng(seed)
    width, hidden = 32, 64
    constants = {
        "table": r.normal(size=(TOKENS, width)).astype(np.float32),
        "eps": np.float32(1e-5),
        "two": np.float32(2),
    }
    nodes = [node("Gather", ["table", "ids"], ["h0"], name="embed")]
    for i in range(2):
        gain = (1 + 0.2 * r.normal(size=width)).astype(np.float32)
        gate, up = ((r.normal(size=(width, hidden)) / 6).astype(np.float32) for _ in range(2))
        down = (r.normal(size=(hidden, width)) / 8).astype(np.float32)
        if outliers:
            for given, reads, count in ((gain, (gate, up), 3), (up, (down,), 5)):
                places = np.random.default_rng(count).choice(given.shape[-1], count, replace=False)
                given[..., places] *= np.float32(outliers)
                for other in reads:
                    other[places] /= np.float32(outliers)
        constants |= {f"g{i}": gain, f"gate{i}": gate, f"up{i}": up, f"down{i}": down}
        nodes += [
            node("Pow", [f"h{i}", "two"], [f"sq{i}"]),
            node("ReduceMean", [f"sq{i}"], [f"mean{i}"], axes=[-1], keepdims=1),
            node("Add", [f"mean{i}", "eps"], [f"var{i}"]),
            node("Sqrt", [f"var{i}"], [f"std{i}"]),
            node("Div", [f"h{i}", f"std{i}"], [f"unit{i}"]),
            node("Mul", [f"unit{i}", f"g{i}"], [f"n{i}"]),
            node("MatMul", [f"n{i}", f"gate{i}"], [f"a{i}"], name=f"gate{i}"),
            node("Sigmoid", [f"a{i}"], [f"s{i}"]),
            node("Mul", [f"a{i}", f"s{i}"], [f"silu{i}"]),
            node("MatMul", [f"n{i}", f"up{i}"], [f"u{i}"], name=f"up{i}"),
            node("Mul", [f"silu{i}", f"u{i}"], [f"p{i}"]),
            node("MatMul", [f"p{i}", f"down{i}"], [f"d{i}"], name=f"down{i}"),
            node("Add", [f"h{i}", f"d{i}"], [f"h{i + 1}"]),
        ]
    constants["head"] = (r.normal(size=(width, TOKENS)) / 6).astype(np.float32)
    nodes.append(node("MatMul", ["h2", "head"], ["y"], name="head"))

    ids = onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["N", "L"])
    proto = model(nodes, [("x", ["N", 1])], [("y", None)], constants, opset=17)
    del proto.graph.input[:]
    proto.graph.input.append(ids)
    return gp.from_onnx(proto)


def _tokens(count=48, length=24, seed=1):
    return {"ids": np.random.default_rng(seed).integers(0, TOKENS, size=(count, length))}


def _theirs(found, inputs):
    """What ONNX Runtime computes of the file node by node."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = onnxruntime.InferenceSession(gp.to_onnx(found).SerializeToString(), options, ["CPUExecutionProvider"])
    return made.run(None, inputs)[0]


def _snr(found, made):
    x = _tokens(seed=7)
    return nets.snr(_theirs(found, x), _theirs(made, x))


FOUR = {"weights_only": True, "weight_bits": 4, "weight_block": 16}


def test_no_block_is_further_off_than_with_its_whole_range():
    r = np.random.default_rng(0)
    blocks = r.normal(size=(50, 7, 16)) * r.uniform(0.01, 5, size=(50, 7, 1)) + r.normal(size=(50, 7, 1))
    blocks[0, 0] = 0
    blocks[1, 1] = 3.0
    scale, zero = least_squares(blocks, DType.INT4)
    codes = np.clip(np.rint(blocks / scale[..., None]) + zero[..., None], -8, 7)
    errors = np.sum(((codes - zero[..., None]) * scale[..., None] - blocks) ** 2, axis=-1)
    plain = np.maximum(np.abs(blocks).max(axis=-1) / 7, 1e-30)[..., None]
    expected = np.sum((np.clip(np.rint(blocks / plain), -7, 7) * plain - blocks) ** 2, axis=-1)
    assert zero.min() >= -8
    assert zero.max() <= 7
    assert np.all(scale > 0)
    assert np.all(errors <= expected * (1 + 1e-5) + 1e-9)
    assert errors.sum() < 0.7 * expected.sum()


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4])
def test_blocks_of_a_gguf_file_keep_their_values(dtype, is_quick):
    """Q4_0: the element of the largest magnitude, of either sign, has the code -8, and the scale is a float16."""
    r = np.random.default_rng(3)
    original = r.normal(size=(60, 5, 32))
    extremes = np.take_along_axis(original, np.abs(original).argmax(-1)[..., None], -1)
    scales = (extremes / -8).astype(np.float16).astype(np.float32)
    codes = np.clip(np.floor(original / scales + 8.5), 0, 15) - 8
    assert np.all(codes.min(-1) == -8)
    stored = (scales * codes).astype(np.float32)
    scale, zero = least_squares(stored, dtype, is_quick=is_quick)
    least, most = (-8, 7) if dtype is DType.INT4 else (0, 15)
    found = np.clip(np.rint(stored / scale[..., None]) + zero[..., None], least, most) - zero[..., None]
    np.testing.assert_array_equal(found.astype(np.float32) * scale[..., None], stored)


def test_second_order_rounding_supports_block_zero_points():
    found = decoder()
    nearest = gp.quantize(found, _tokens(), preset="fast", **FOUR)
    rounded = gp.quantize(found, _tokens(), preset="balanced", **FOUR)
    assert _snr(found, rounded) > _snr(found, nearest) + 1
    for item in (item for item in rounded.graph if item.op == "DequantizeLinear" and item.attributes.get("block_size")):
        codes = item.operands[0].storage.numpy().astype(int)
        assert -8 <= codes.min() < 0 < codes.max() <= 7
        assert len(np.unique(item.operands[2].storage.numpy().astype(int))) > 1
    symmetric = gp.quantize(found, _tokens(), preset="fast", symmetric=True, **FOUR)
    assert _snr(found, symmetric) < _snr(found, nearest)


@pytest.mark.parametrize("has_samples", spread([True, False]))
def test_outlier_channels_are_rescaled(has_samples):
    """A twin that computes the same to the last bit is as near in the end as the plain model."""
    plain, twin = decoder(), decoder(outliers=64.0)
    x = _tokens(seed=3)
    assert np.allclose(_theirs(plain, x), _theirs(twin, x), rtol=1e-4, atol=1e-4)
    data = _tokens() if has_samples else None
    found = [_snr(each, gp.quantize(each, data, **FOUR)) for each in (plain, twin)]
    assert found[1] > found[0] - 1
    assert _snr(twin, gp.quantize(twin, data, equalize=False, **FOUR)) < found[1] - 5


def test_unscale_keeps_the_results():
    twin = decoder(outliers=32.0)
    x = _tokens(seed=5)
    expected = _theirs(twin, x)
    assert unscale(twin.graph) == 4
    assert np.allclose(_theirs(twin, x), expected, rtol=1e-5, atol=1e-5)
    assert unscale(decoder().graph) == 0


@pytest.mark.parametrize("block", spread([16, 32]))
def test_the_nearest_preset_is_not_rounded_while_it_runs(block):
    found, x = decoder(), _tokens(seed=8)

    def as_it_is(made):
        options = onnxruntime.SessionOptions()
        session = onnxruntime.InferenceSession(gp.to_onnx(made).SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(None, x)[0]

    made = gp.quantize(found, _tokens(), preset="best", **FOUR | {"weight_block": block})
    said = gp.run(made, x, backend="reference")["y"]
    assert {node.op_type for node in gp.to_onnx(made).graph.node} >= {"MatMulNBits"}
    assert [item.version for item in gp.to_onnx(made).opset_import if not item.domain] == [17]
    assert nets.snr(said, as_it_is(made)) > 100


def test_random_indices_are_within_their_table(monkeypatch):
    drawn, is_likely = random_samples(decoder().graph)
    ids = np.stack([each["ids"] for each in drawn])
    assert is_likely
    assert ids.shape[-1] == 48
    assert ids.min() >= 0
    assert TOKENS // 2 < ids.max() < TOKENS
    assert not random_samples(nets.products().graph)[1]
    # A model that takes no text of that length is given a shorter one.
    monkeypatch.setattr(random_inputs, "_runs", lambda _, given: given["ids"].shape[-1] < 20)
    assert random_samples(decoder().graph)[0][0]["ids"].shape[-1] == 16


@pytest.mark.parametrize("name", ["decoder", "products", "residual"])
def test_weights_are_rounded_without_samples(name):
    found = decoder() if name == "decoder" else getattr(nets, name)()
    report = gp.quantize(found, **FOUR | ({} if name != "residual" else {"weight_bits": 8, "weight_block": 0})).report
    assert report.samples == 0
    assert report.snr_range is None
    assert report.snr_db > 15


# Of one entry and of 128: all products exact, none, and one half or the other of them.
LEVELS = {
    "all": ([1.2, 1.0, 1.1, 1.1], [0.4, 1.0, 0.7, 0.7]),
    "none": ([2.5, 1.0, 1.8, 1.8], [0.9, 1.0, 0.95, 0.95]),
    "half": ([1.3, 1.0, 1.12, 1.15], [0.7, 0.9, 0.75, 0.8]),
}


@pytest.mark.parametrize("has_samples", [False, True])
@pytest.mark.parametrize("way", LEVELS)
def test_the_level_is_the_lesser_evil_with_and_without_samples(way, has_samples, monkeypatch):
    lengths = []

    def parts_of(sessions, inputs):
        assert len(sessions) == 4
        lengths.append(inputs["ids"].shape[-1])
        return 1.0, LEVELS[way][len(lengths) - 1]

    monkeypatch.setattr("graphport.quantization.optimise.costs.relative_times", parts_of)
    made = gp.quantize(decoder(), _tokens() if has_samples else None, preset="fast", **FOUR)
    assert lengths == [1, 128]
    levels = [
        attribute.i
        for node in gp.to_onnx(made).graph.node
        for attribute in node.attribute
        if attribute.name == "accuracy_level"
    ]
    exact = made.report.exact_layers
    assert (made.report.accuracy_level == 1) is (way == "all")
    assert levels.count(1) == len(exact)
    assert set(levels) == {"all": {1}, "none": set(), "half": {1, 4}}[way]
    assert len(exact) in {"all": [len(levels)], "none": [0], "half": [len(levels) // 2, -(-len(levels) // 2)]}[way]


def test_activations_are_not_rounded_without_samples():
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0001.*without samples.*--weights-only"):
        gp.quantize(nets.residual())


@pytest.mark.parametrize(("target", "name"), [("onnxruntime", "half.onnx"), ("openvino", "half.xml")])
def test_weights_are_stored_in_float16_values(tmp_path, target, name):
    source, made = tmp_path / "net.onnx", tmp_path / name
    gp.save(nets.residual(), source)
    gp.save(gp.quantize(gp.load(source), target=target, weights_only=True, weight_type="float16"), made)
    proof = gp.verify(source, made, nets.samples(nets.residual(), 3, seed=7))
    # Halves lose what a float32 holds: nothing was stored in them if that is not seen.
    assert 55 < proof.outputs[0].worst.snr_db < 90
    stored = made.with_suffix(".bin") if name.endswith("xml") else made
    weights = sum(value.storage.nbytes for value in nets.residual().graph.constants if value.storage.count >= 16)
    assert stored.stat().st_size < source.stat().st_size - 0.45 * weights


def test_the_command_needs_no_samples_for_weights(tmp_path):
    gp.save(decoder(), tmp_path / "net.onnx")
    words = [
        "quantize",
        tmp_path / "net.onnx",
        tmp_path / "out.onnx",
        "--weights-only",
        "--weight-bits",
        "4",
        "--no-latency",
    ]
    result = CliRunner().invoke(cli, [str(op_type) for op_type in [*words, "--block", "16"]])
    assert result.exit_code == 0, result.output
    assert "random inputs" in result.stdout
    document = json.loads(
        CliRunner().invoke(cli, [str(op_type) for op_type in [*words, "--block", "16", "--json"]]).stdout
    )
    assert document["samples"] == document["held_back"] == 0


def test_report_includes_the_noise_in_onnx_runtime(tmp_path):
    found = decoder()
    given = _tokens()
    made = gp.quantize(found, given, preset="fast", **FOUR)
    gp.save(made, tmp_path / "net.onnx")
    theirs = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), None, ["CPUExecutionProvider"])
    x = _tokens(seed=7)
    as_run = nets.snr(_theirs(found, x), theirs.run(None, x)[0])
    assert made.report.snr_as_run_db == pytest.approx(as_run, abs=0.5)
    exact = gp.quantize(found, given, preset="best", **FOUR)
    assert exact.report.snr_as_run_db == pytest.approx(exact.report.snr_db, abs=0.01)
    fine = gp.quantize(found, given, preset="fast", weights_only=True, weight_bits=8)
    assert fine.report.snr_as_run_db < fine.report.snr_db - 0.1


@pytest.mark.parametrize("options", [{"weight_bits": 4}, {"weight_bits": 8}, {"max_bytes": 1}], ids=str)
def test_onnx_runtime_defaults_reproduce_the_reported_noise(tmp_path, options):
    """Also of a point of the front, and of eight bits: activations are rounded while it runs, unless a session is told not to."""
    found = decoder()
    samples = {"ids": np.random.default_rng(2).integers(0, TOKENS, size=(6, 12))}
    made = gp.quantize(found, samples, weights_only=True, weight_block=16, **options)
    gp.save(found, tmp_path / "real.onnx")
    gp.save(made, tmp_path / "net.onnx")
    real, codes = (
        onnxruntime.InferenceSession(str(tmp_path / name)).run(None, samples)[0] for name in ("real.onnx", "net.onnx")
    )
    assert made.report.snr_as_run_db == pytest.approx(nets.snr_of_variance(real, codes), abs=0.1)
    if made.report.chosen is not None:
        assert made.report.chosen.snr_db == pytest.approx(nets.snr_of_variance(real, codes), abs=0.1)


@pytest.mark.parametrize("options", [{"weight_bits": 4, "weight_block": 16}, {"weight_bits": 8}], ids=str)
def test_openvino_defaults_reproduce_the_reported_noise(tmp_path, options):
    """It rounds activations in front of such weights, and to bfloat16, where the processor has what is quick for that."""
    found = decoder()
    samples = {"ids": np.random.default_rng(2).integers(0, TOKENS, size=(6, 12))}
    made = gp.quantize(found, samples, weights_only=True, target="openvino", **options)
    gp.save(made, tmp_path / "net.xml")
    core = openvino.Core()
    codes = core.compile_model(tmp_path / "net.xml", "CPU")(samples)[0]
    assert made.report.snr_as_run_db == pytest.approx(nets.snr_of_variance(_theirs(found, samples), codes), abs=0.1)
    if core.get_property("CPU", "INFERENCE_PRECISION_HINT") != openvino.Type.f32 and options["weight_bits"] > 4:
        assert made.report.snr_as_run_db < made.report.snr_db - 1
