"""`graphport quantize`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from tests.quantization import nets


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


def test_a_model_is_written_and_its_noise_told(place):
    result = _run(place, "--no-latency")
    assert result.exit_code == 0, result.output
    assert "dB on" in result.stdout
    assert gp.load(place / "out.onnx")


def test_json_is_one_document(place):
    result = _run(place, "--json", "--preset", "fast")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["snr_db"] > 20
    assert document["bytes"]["target"] < document["bytes"]["source"] * 3
    assert document["latency"]["source_ms"] > 0
    assert document["settings"]["preset"] == "fast"


def test_a_goal_that_is_not_reached_ends_with_one(place):
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


def test_settings_come_from_a_file_and_options_on_top(place):
    (place / "settings.json").write_text('{"preset": "fast", "method": "mse"}')
    result = _run(place, "--json", "--no-latency", "--settings", place / "settings.json", "--method", "min-max")
    settings = json.loads(result.stdout)["settings"]
    assert (settings["preset"], settings["method"]) == ("fast", "min-max")


def test_a_layer_is_explained(place):
    document = json.loads(_run(place, "--json", "--no-latency", "--explain", "second").stdout)
    assert document["explained"]["name"] == "second"


def test_a_layer_that_is_not_there_is_told(place):
    result = _run(place, "--json", "--no-latency", "--explain", "nobody")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "QUANT0010"


@pytest.mark.parametrize(
    "options", [("--preset", "worst"), ("--bits", "7"), ("--target", "toaster"), ("--method", "guess")]
)
def test_wrong_usage_ends_with_two(place, options):
    assert _run(place, *options).exit_code == 2


def test_data_that_do_not_fit_are_told_before_work(place):
    np.savez(place / "samples.npz", z=np.ones(3, np.float32))
    result = _run(place, "--json")
    assert result.exit_code == 1
    assert {finding["code"] for finding in json.loads(result.stdout)["diagnostics"]} == {"QUANT0002"}
    assert not (place / "out.onnx").exists()


def test_statistics_are_kept_for_another_time(place):
    assert _run(place, "--no-latency", "--resume", place / "seen.npz").exit_code == 0
    assert (place / "seen.npz").exists()
    assert _run(place, "--no-latency", "--resume", place / "seen.npz").exit_code == 0
