"""Keras files that cannot be read are refused with the reason, and nothing of a file is executed."""

import contextlib
import json
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

import graphport as gp

FOLDER = Path(__file__).parent / "models"


def refusal(path):
    with pytest.raises(gp.DiagnosticError) as raised:
        gp.load(path)
    return raised.value.diagnostics[0]


def rewritten(tmp_path, change, name="convolutions.keras"):
    """A copy of an archive with another configuration."""
    path = tmp_path / name
    with zipfile.ZipFile(FOLDER / name) as old, zipfile.ZipFile(path, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename == "config.json":
                config = json.loads(data)
                change(config["config"]["layers"])
                data = json.dumps(config).encode()
            new.writestr(item.filename, data)
    return path


def use_a_boolean_dim(layers):
    layer(layers, "InputLayer")["config"]["batch_shape"][1] = True


def use_unnamed_arguments(layers):
    layer(layers, "Conv2D")["inbound_nodes"][0]["kwargs"] = ["x"]


def drop_arguments(layers):
    layer(layers, "Conv2D")["inbound_nodes"][0]["args"] = []


@pytest.mark.parametrize(
    ("change", "code"),
    [(use_a_boolean_dim, "KERAS0402"), (use_unnamed_arguments, "KERAS0404"), (drop_arguments, "SHAPE0001")],
)
def test_a_malformed_configuration_is_refused(tmp_path, change, code):
    assert refusal(rewritten(tmp_path, change)).code == code


def test_a_wrapper_without_an_input_is_refused(tmp_path):
    path = tmp_path / "m.keras"
    source = next(each for each in sorted(FOLDER.parent.glob("*/*.keras")) if _has(each, "Bidirectional"))
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename == "config.json":
                config = json.loads(data)
                layer(config["config"]["layers"], "Bidirectional")["inbound_nodes"][0]["args"] = []
                data = json.dumps(config).encode()
            new.writestr(item.filename, data)
    assert refusal(path).code == "KERAS0403"


def _has(path, class_name):
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))["config"]
    layers = config.get("layers") if isinstance(config, dict) else None
    found = [each for each in layers or () if each["class_name"] == class_name]
    return bool(found and found[0].get("inbound_nodes"))


def layer(layers, class_name):
    return next(each for each in layers if each["class_name"] == class_name)


def test_a_lambda_is_refused_with_its_class_and_the_way_out():
    found = refusal(FOLDER / "lambda.keras")
    assert found.code == "KERAS0201"
    assert "Lambda" in found.message
    assert "model.export" in found.help


def test_weights_without_an_architecture_are_named():
    found = refusal(FOLDER / "weights_alone.weights.h5")
    assert found.code == "KERAS0106"
    assert "architecture" in found.message


def use_other_module(layers):
    layer(layers, "Conv2D")["module"] = "os"


def use_custom_activation(layers):
    layer(layers, "Conv2D")["config"]["activation"] = {
        "module": "os",
        "class_name": "function",
        "config": "system",
        "registered_name": "system",
    }


def use_unknown_option(layers):
    layer(layers, "Conv2D")["config"]["deformable"] = True


def use_huge_input(layers):
    layer(layers, "InputLayer")["config"]["batch_shape"][1] = 10**30


def read_missing_layer(layers):
    node = layer(layers, "BatchNormalization")["inbound_nodes"][0]
    node["args"][0]["config"]["keras_history"][0] = "nowhere"


def read_itself(layers):
    found = layer(layers, "BatchNormalization")
    found["inbound_nodes"][0]["args"][0]["config"]["keras_history"][0] = found["name"]


def add_weight(layers):
    layer(layers, "Conv2D")["class_name"] = "SeparableConv2D"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(use_other_module, "KERAS0201", id="class of another module"),
        pytest.param(use_custom_activation, "KERAS0202", id="function of another module"),
        pytest.param(use_unknown_option, "KERAS0203", id="option that is not known"),
        pytest.param(use_huge_input, "KERAS0402", id="dim of 10^30"),
        pytest.param(read_missing_layer, "KERAS0403", id="layer that does not exist"),
        pytest.param(read_itself, "KERAS0403", id="call that reads itself"),
        pytest.param(add_weight, "KERAS0301", id="fewer weights than the layer has"),
    ],
)
def test_a_configuration_is_refused(tmp_path, change, code):
    assert refusal(rewritten(tmp_path, change)).code == code


@pytest.mark.parametrize("count", [10**12, 2**70])
def test_a_huge_number_of_results_is_refused(tmp_path, count):
    path = rewritten(tmp_path, lambda layers: layer(layers, "Unstack")["config"].update(num=count), "windows.keras")
    assert refusal(path).code == "KERAS0405"


@pytest.mark.parametrize("name", ["convolutions.keras", "convolutions_keras2.h5", "masked_recurrence.h5"])
def test_a_file_cut_anywhere_is_diagnosed(tmp_path, name):
    data = (FOLDER / name).read_bytes()
    path = tmp_path / name
    for part in range(1, 20):
        path.write_bytes(data[: len(data) * part // 20])
        with pytest.raises(gp.DiagnosticError):
            gp.load(path)


@pytest.mark.parametrize("name", ["convolutions_keras2.h5", "attention_keras2.h5"])
def test_a_damaged_hdf5_file_ends_in_a_graph_or_a_diagnostic(tmp_path, name):
    data = bytearray((FOLDER / name).read_bytes())
    path = tmp_path / name
    for at in range(0, min(len(data), 4096), 61):
        changed = data.copy()
        changed[at : at + 4] = struct.pack("<I", 0xFFFFFFF0)
        path.write_bytes(changed)
        # A fault of the product would not be a diagnostic, for tests let it through.
        with contextlib.suppress(gp.DiagnosticError):
            gp.load(path)


def test_a_file_is_recognized_by_its_content(tmp_path):
    shutil.copy(FOLDER / "attention.keras", tmp_path / "renamed.bin")
    assert list(gp.load(tmp_path / "renamed.bin").inputs) == ["x"]
