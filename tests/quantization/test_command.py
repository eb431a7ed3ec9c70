"""`graphport quantize`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.backends import BACKENDS
from graphport.cli.destination import default_target
from graphport.cli.main import cli
from graphport.ir import rewrite
from tests.models import model, node
from tests.quantization import nets
from tests.sabotage import scale_weight


@pytest.fixture
def place(tmp_path):
    found = nets.residual()
    gp.save(found, tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", **nets.samples(found))
    return tmp_path


def _run(place, *options):
    arguments = ["quantize", place / "net.onnx", place / "out.onnx", "--calibration", place / "samples.npz", *options]
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_model_is_written_and_its_noise_is_reported(place):
    result = _run(place, "--no-latency")
    assert result.exit_code == 0, result.output
    assert "dB on" in result.stdout
    assert gp.load(place / "out.onnx")


def test_bytes_include_external_data(place):
    gp.save(gp.load(place / "net.onnx"), place / "net.onnx", external_data="weights.bin")
    document = json.loads(_run(place, "--json", "--preset", "fast", "--no-latency").stdout)
    assert document["bytes"]["source"] == sum((place / name).stat().st_size for name in ("net.onnx", "weights.bin"))


def test_json_is_one_document(place):
    result = _run(place, "--json", "--preset", "fast")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["snr_db"] > 20
    assert document["bytes"]["target"] < document["bytes"]["source"] * 3
    assert document["latency"]["source_ms"] > 0
    assert "onnxruntime" in document["latency"]["runtimes"]
    assert document["settings"]["preset"] == "fast"


@pytest.mark.parametrize(("option", "expected"), [("--real-results", True), ("--no-real-results", False)])
def test_real_results_option_is_followed(place, option, expected):
    result = _run(place, "--json", "--no-latency", option)
    assert json.loads(result.stdout)["settings"]["real_results"] is expected
    words = [node.op for node in gp.load(place / "out.onnx").graph]
    assert ("ConvInteger" in words) is expected


@pytest.mark.parametrize(("option", "expected"), [("--cheap-layers", True), ("--no-cheap-layers", False)])
def test_cheap_layers_option_is_followed(place, option, expected):
    result = _run(place, "--json", "--no-latency", option)
    document = json.loads(result.stdout)
    assert document["settings"]["cheap_layers"] is expected
    assert expected or not any("it is small" in json.dumps(layer) for layer in document["floating"])


def test_every_runtime_that_runs_both_models_is_timed(place):
    result = _run(place, "--preset", "fast")
    assert "a run of one sample on onnxruntime: " in result.stdout


def test_missed_goal_exits_with_1(place):
    result = _run(place, "--json", "--no-latency", "--min-snr", "140", "--max-float-layers", "0")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["goal_met"] is False
    assert (place / "out.onnx").exists()


def test_options_are_settings(place):
    options = (
        "--json", "--no-latency", "--target", "tensorrt", "--method", "percentile", "--bits", "16", "--weight-bits", "4",
        "--block", "4", "--dispatch", "all-in", "--float", "first", "--no-prepare",
    )  # fmt: skip
    settings = json.loads(_run(place, *options).stdout)["settings"]
    assert settings == settings | {
        "target": "tensorrt", "method": "percentile", "activation_bits": 16, "weight_bits": 4, "weight_block": 4,
        "dispatch": "all-in", "float_nodes": ["first"], "prepare": False,
    }  # fmt: skip


def test_options_override_the_settings_file(place):
    (place / "settings.json").write_text('{"preset": "fast", "method": "mse"}')
    result = _run(place, "--json", "--no-latency", "--settings", place / "settings.json", "--method", "min-max")
    settings = json.loads(result.stdout)["settings"]
    assert (settings["preset"], settings["method"]) == ("fast", "min-max")


def test_settings_file_errors_have_a_location(place):
    (place / "settings.json").write_text('{"presett": "fast", "batchh": 2}')
    findings = json.loads(_run(place, "--json", "--settings", place / "settings.json").stdout)["diagnostics"]
    assert [(finding["code"], finding["file"]) for finding in findings] == [
        ("QUANT0004", str(place / "settings.json"))
    ] * 2


def test_verbose_output_lists_the_placement_of_every_layer(place):
    quick = ("--no-latency", "--no-verify", "--preset", "fast", "--float", "first")
    assert "every layer:" not in _run(place, *quick).stdout
    told = _run(place, *quick, "-v").stdout.partition("every layer:")[2].splitlines()
    first, second = (next(line for line in told if line.startswith(name)) for name in ("first", "second"))
    assert "reals" in first
    assert "the settings keep it" in first
    assert "integers" in second
    assert "nearest" in second


def test_a_layer_is_explained(place):
    document = json.loads(_run(place, "--json", "--no-latency", "--explain", "second").stdout)
    assert document["explained"]["name"] == "second"


def test_a_layer_that_is_missing_is_reported(place):
    result = _run(place, "--json", "--no-latency", "--preset", "fast", "--explain", "nobody")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "QUANT0010"
    assert not (place / "out.onnx").exists()


@pytest.mark.parametrize(
    "options", [("--preset", "worst"), ("--bits", "7"), ("--target", "toaster"), ("--method", "guess")]
)
def test_wrong_usage_ends_with_two(place, options):
    assert _run(place, *options).exit_code == 2


def test_data_that_do_not_fit_are_reported_before_work(place):
    np.savez(place / "samples.npz", z=np.ones(3, np.float32))
    result = _run(place, "--json")
    assert result.exit_code == 1
    assert {finding["code"] for finding in json.loads(result.stdout)["diagnostics"]} == {"QUANT0002"}
    assert not (place / "out.onnx").exists()


def test_interruption_writes_no_file(place, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("graphport.quantization.layerwise.Follower.run", interrupted)
    before = sorted(place.iterdir())
    assert _run(place, "--no-latency").exit_code != 0
    assert sorted(place.iterdir()) == before


def test_resume_option_stores_statistics(place):
    assert _run(place, "--no-latency", "--resume", place / "seen.npz").exit_code == 0
    assert (place / "seen.npz").exists()
    assert _run(place, "--no-latency", "--resume", place / "seen.npz").exit_code == 0


@pytest.fixture
def untouched(place, monkeypatch):
    def fail(*_, **__):
        pytest.fail("work was begun")

    monkeypatch.setattr(gp, "quantize", fail)
    return place


@pytest.mark.parametrize(("destination", "options", "code"), [
    pytest.param("out.nnef", ["--target", "nnef"], "NNEF0762", id="a free axis where there are none"),
    pytest.param("out", [], "NNEF0762", id="a name without ending"),
    pytest.param("out.xyz", [], "IO0003", id="an ending that nobody has"),
    pytest.param("nowhere/out.onnx", [], "QUANT0013", id="no such folder"),
    pytest.param(".", ["--to", "onnx"], "QUANT0013", id="a folder"),
    pytest.param("out.prototxt", [], "QUANT0014", id="a format without grids"),
    pytest.param("out.pnnx.param", ["--target", "ncnn"], "QUANT0014", id="another without grids"),
    pytest.param("out.param", ["--target", "onnxruntime"], "QUANT0014", id="a format with other grids"),
])  # fmt: skip
def test_unwritable_target_is_reported_before_work(untouched, destination, options, code):
    words = ["quantize", untouched / "net.onnx", untouched / destination, "--calibration", untouched / "samples.npz"]
    result = CliRunner().invoke(cli, [str(op_type) for op_type in [*words, *options, "--json"]])
    finding = json.loads(result.stdout)["diagnostics"][0]
    assert (result.exit_code, finding["code"]) == (1, code)
    assert finding["help"]


def test_a_remedy_shows_a_shape_that_the_input_can_have(untouched):
    words = ["quantize", "net.onnx", "out.nnef", "--calibration", "samples.npz", "--target", "nnef", "--json"]
    result = CliRunner().invoke(cli, [str(untouched / op_type) if "." in op_type else op_type for op_type in words])
    assert "--input x=1x3x8x8" in json.loads(result.stdout)["diagnostics"][0]["help"]


@pytest.mark.parametrize("name", ["nowhere/seen.npz", "."])
def test_unwritable_statistics_path_is_reported_before_work(untouched, name):
    result = _run(untouched, "--json", "--resume", untouched / name)
    assert (result.exit_code, json.loads(result.stdout)["diagnostics"][0]["code"]) == (1, "QUANT0016")


def test_interruption_reports_the_stored_statistics(place, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("graphport.quantization.layerwise.Follower.run", interrupted)
    result = _run(place, "--no-latency", "--resume", place / "seen.npz")
    assert result.exit_code != 0
    assert "seen.npz: run the same command to resume" in result.stderr


def test_statistics_of_other_samples_are_refused(place):
    assert _run(place, "--no-latency", "--preset", "fast", "--resume", place / "seen.npz").exit_code == 0
    with np.load(place / "samples.npz") as data:
        np.savez(place / "samples.npz", **{name: 8 * x for name, x in data.items()})
    (place / "out.onnx").unlink()
    result = _run(place, "--json", "--preset", "fast", "--resume", place / "seen.npz")
    finding = json.loads(result.stdout)["diagnostics"][0]
    assert (result.exit_code, finding["code"]) == (1, "QUANT0009")
    assert "the samples" in finding["message"]
    assert "delete the file" in finding["help"]
    assert not (place / "out.onnx").exists()


def test_a_node_cannot_stay_floating_and_be_quantized(place):
    result = _run(place, "--json", "--float", "first", "--quantize", "first")
    assert (result.exit_code, json.loads(result.stdout)["diagnostics"][0]["code"]) == (1, "QUANT0004")


def test_settings_file_target_selects_the_output_format(untouched):
    (untouched / "settings.json").write_text('{"target": "ncnn"}')
    words = ["quantize", "net.onnx", "out.pnnx.param", "--calibration", "samples.npz", "--settings", "settings.json"]
    result = CliRunner().invoke(
        cli, [str(untouched / op_type) if "." in op_type else op_type for op_type in [*words, "--json"]]
    )
    assert "ncnn" in json.loads(result.stdout)["diagnostics"][0]["message"]


@pytest.mark.parametrize(("name", "target", "for_weights"), [
    ("o.onnx", "onnxruntime", "onnxruntime"), ("o.xml", "openvino", "openvino"), ("o.param", "ncnn", "ncnn"),
    ("o.nnef.tgz", "nnef", "tract"), ("o.tflite", "tflite", "tflite"),
])  # fmt: skip
def test_written_files_run_in_their_native_runtime(name, target, for_weights):
    assert default_target(Path(name), None, weights_only=False) == target
    assert default_target(Path(name), None, weights_only=True) == for_weights


def test_an_ir_file_has_the_grids_of_openvino(place):
    words = ["quantize", "net.onnx", "o.xml", "--calibration", "samples.npz", "--preset", "fast", "--no-latency"]
    result = CliRunner().invoke(
        cli, [str(place / op_type) if "." in op_type else op_type for op_type in [*words, "--json"]]
    )
    assert json.loads(result.stdout)["settings"]["target"] == "openvino"


def test_every_preset_reports_the_noise_of_layers(place):
    document = json.loads(_run(place, "--json", "--no-latency", "--preset", "fast").stdout)
    assert document["worst"]
    assert all(layer["own_db"] > 0 and layer["accumulated_db"] > 0 for layer in document["layers"])


def test_goal_is_missed_if_only_float_layers_would_reach_it(place):
    result = _run(place, "--no-latency", "--json", "--preset", "fast", "--min-snr", "300")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["goal_met"] is False
    assert sum(layer["quantized"] for layer in document["layers"]) == 1
    (finding,) = document["diagnostics"]
    assert finding["code"] == "QUANT0022"
    assert f"{document['snr_db']:.2f} dB" in finding["message"]


def test_a_ruined_model_is_reported(place):
    found = nets.depthwise(imbalance=10, activation="Relu")
    gp.save(found, place / "net.onnx")
    np.savez(place / "samples.npz", **nets.samples(found))
    (place / "settings.json").write_text('{"equalize": false}')
    result = _run(place, "--no-latency", "--preset", "fast", "--settings", place / "settings.json")
    assert result.exit_code == 1
    assert "QUANT0020" in result.stderr
    assert "--preset balanced" in result.stderr
    assert (place / "out.onnx").exists()


def test_statistics_path_must_not_be_a_device(place):
    result = _run(place, "--resume", "/dev/full")
    assert result.exit_code != 0
    assert "QUANT0016" in result.stderr
    assert "device" in result.stderr


def test_a_run_of_the_first_sample_is_timed(tmp_path, monkeypatch):
    """Dims of a symbolic input are those of the user's sample, not the minimum."""
    graph = model(
        [node("Conv", ["x", "w"], ["y"])],
        [("x", ["N", 3, "H", "W"])],
        [("y", ["N", 2, "P", "Q"])],
        {"w": np.ones((2, 3, 3, 3), "f")},
    )
    onnx.save(graph, tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(1).normal(size=(6, 3, 40, 72)).astype(np.float32))
    given = []
    monkeypatch.setattr("graphport.cli.quantize._times_on", lambda *rest: given.append(rest[-1]))
    words = ["quantize", "net.onnx", "out.onnx", "--calibration", "samples.npz", "--no-verify"]
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert given
    assert {each["x"].shape for each in given} == {(1, 3, 40, 72)}


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn", "litert"])
def test_times_are_those_that_users_have(monkeypatch, backend):
    from graphport.cli.quantize import _times_on

    module = import_module(BACKENDS[backend].module)
    told, real = [], module.prepare
    monkeypatch.setattr(
        module, "prepare", lambda *given, **rest: told.append(rest.get("quick")) or real(*given, **rest)
    )
    net = nets.residual()
    inputs = {name: x[:1] for name, x in nets.samples(net).items()}
    assert _times_on(backend, net, net, inputs) is not None
    assert told == [True, True]


@pytest.mark.parametrize("is_there", [True, False])
def test_openvino_accuracy_is_reported_if_openvino_is_installed(place, monkeypatch, is_there):
    if not is_there:
        monkeypatch.setattr("graphport.quantization.engine.is_installed", lambda name: name != "openvino")
    result = _run(place, "--preset", "fast", "--target", "openvino", "--no-latency")
    assert ("as run by OpenVINO" in result.stdout) is is_there
    assert result.exit_code == 0


def test_a_result_is_timed_in_the_form_written_for_its_target(monkeypatch):
    """By default ONNX Runtime computes the activation after an integer MatMul in floats."""
    from graphport.api.run import timed_session
    from graphport.formats.onnx import runtime as onnxruntime

    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "w"], ["y"], name="z")]
    net = gp.from_onnx(model(nodes, [("x", [1, 16])], [("y", [1, 16])], {"w": weight}))
    made = gp.quantize(net, {"x": np.ones((8, 16), np.float32)}, cheap_layers=False, float_nodes=("z",))
    seen, real = [], onnxruntime._session
    monkeypatch.setattr(onnxruntime, "_session", lambda *given: seen.append(given[0]) or real(*given))
    timed_session(made, "onnxruntime")
    written = gp.to_onnx(made).graph.node
    assert sorted(node.op for node in seen[0]) == sorted(node.op_type for node in written)
    assert "Sum" in {node.op for node in seen[0]}


def test_a_result_that_is_slower_is_reported(place, monkeypatch):
    times = {"source_ms": 1.0, "target_ms": 2.0, "speed_up": 0.5}
    monkeypatch.setattr("graphport.cli.quantize._times_on", lambda *_: times)
    told = _run(place, "--preset", "fast").stderr
    assert "QUANT0023" in told
    assert "layers are on integers" in told
    assert "--preset fast" not in told, "that was asked for"
    monkeypatch.setattr("graphport.cli.quantize._times_on", lambda *_: times | {"speed_up": 1.5})
    assert "QUANT0023" not in _run(place, "--preset", "fast").stderr


@pytest.mark.parametrize(
    ("target", "name", "runtime"), [("onnxruntime", "o.onnx", "onnxruntime"), ("openvino", "o.xml", "openvino")]
)
def test_written_file_is_verified_by_the_target_runtime(place, target, name, runtime):
    source, samples = str(place / "net.onnx"), str(place / "samples.npz")
    said = ["--calibration", samples, "--target", target, "--preset", "fast", "--no-latency", "--json"]
    result = CliRunner().invoke(cli, ["quantize", source, str(place / name), *said])
    document = json.loads(result.stdout)
    (own,) = [each for each in document["verify"]["witnesses"] if each["is_own"]]
    assert (own["runtime"], own["ran"], own["side"]) == (runtime, True, "b")
    assert document["verify"]["passed"]
    assert document["written"] == str(place / name)
    assert result.exit_code == 0


@pytest.mark.parametrize("verb", ["quantize", "cast"])
def test_file_that_fails_verification_is_removed(place, verb, monkeypatch):
    from graphport.api import proven_write

    right = proven_write.export
    monkeypatch.setattr(proven_write, "export", lambda *of: (said := right(*of))._replace(graph=sabotaged(said.graph)))
    said = ["--preset", "fast", "--no-latency"] if verb == "quantize" else ["--to", "float16"]
    arguments = [verb, place / "net.onnx", place / "o.onnx", "--calibration", place / "samples.npz", "--json", *said]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["written"] is None
    assert not document["verify"]["passed"]
    assert not (place / "o.onnx").exists()
    kept = CliRunner().invoke(cli, [*map(str, arguments), "--keep-failed"])
    assert json.loads(kept.stdout)["written"] == str(place / "o.onnx.failed")


def sabotaged(graph):
    """Return a copy of `graph` with one weight multiplied by 1.5."""
    twin = rewrite.copy(graph)
    scale_weight(twin)
    return twin
