"""Damaged and foreign checkpoints: a diagnostic with its code, and nothing is executed."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

import graphport as gp

MODELS = Path(__file__).parent / "models"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(MODELS / "llama", tmp_path / "llama"))


def code_of(path):
    with pytest.raises(gp.DiagnosticError) as refused:
        gp.load(path)
    return refused.value.diagnostics[0].code


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_header(folder, change):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


@pytest.mark.parametrize(
    ("values", "code"),
    [
        pytest.param({"model_type": "unheard_of"}, "CKPT0005", id="unknown type"),
        pytest.param({"model_type": None}, "CKPT0006", id="no type"),
        pytest.param({"num_hidden_layers": 10**9}, "CKPT0006", id="a thousand million layers"),
        pytest.param({"num_hidden_layers": 3}, "CKPT0007", id="more layers than tensors"),
        pytest.param({"num_hidden_layers": 1}, "CKPT0008", id="fewer layers than tensors"),
        pytest.param({"num_hidden_layers": 1.5}, "CKPT0006", id="half a layer"),
        pytest.param({"num_attention_heads": 3}, "CKPT0006", id="heads that do not divide"),
        pytest.param({"num_key_value_heads": 4}, "CKPT0007", id="other shapes than the tensors"),
        pytest.param({"hidden_act": "unheard_of"}, "CKPT0005", id="unknown activation"),
        pytest.param({"rope_parameters": {"rope_type": "unheard_of"}}, "CKPT0005", id="unknown rope type"),
        pytest.param({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "CKPT0006", id="factor of 0"),
        pytest.param({"attention_bias": True}, "CKPT0007", id="biases that are absent"),
    ],
)
def test_a_configuration_of_another_model_is_refused(folder, values, code):
    change_config(folder, **values)
    assert code_of(folder) == code


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda h: h["model.norm.weight"].update(shape=[17]), id="shape of other bytes"),
        pytest.param(lambda h: h["model.norm.weight"].update(shape=[-16]), id="negative dim"),
        pytest.param(lambda h: h["model.norm.weight"].update(dtype="F17"), id="unknown type"),
        pytest.param(lambda h: h["model.norm.weight"].update(data_offsets=[32, 0]), id="end before begin"),
        pytest.param(lambda h: h.pop("model.norm.weight"), id="a hole"),
        pytest.param(lambda h: h.update(extra={"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}), id="overlap"),
        pytest.param(lambda h: h.update(extra=3), id="no object"),
    ],
)
def test_a_malformed_header_is_refused(folder, change):
    change_header(folder, change)
    assert code_of(folder) == "CKPT0003"


def test_lengths_beyond_the_file_are_refused(folder):
    for data in (b"", b"\0" * 7, struct.pack("<Q", 1 << 63) + b"{}", struct.pack("<Q", 2) + b"[]"):
        (folder / "model.safetensors").write_bytes(data)
        assert code_of(folder) == "CKPT0003"


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "/etc/hostname", "..\\m.safetensors", "m.bin", "a\0.safetensors"]
)
def test_an_index_names_files_of_its_folder_alone(folder, name):
    index = {"weight_map": {"model.norm.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert code_of(folder) == "CKPT0006"


def test_pickles_and_adapters_are_refused_by_name(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(gp.DiagnosticError, match="pickle"):
        gp.load(folder)
    (folder / "pytorch_model.bin").rename(folder / "adapter_model.safetensors")
    with pytest.raises(gp.DiagnosticError, match="adapter"):
        gp.load(folder)


def test_the_limit_of_json_is_followed(folder, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_LIMITS", "checkpoint.json=10")
    assert code_of(folder) == "CKPT0002"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GGUF", id="cut"),
        pytest.param(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), id="2^60 tensors"),
        pytest.param(b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), id="2^60 keys"),
        pytest.param(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62) + b"\0" * 90, id="a key of 2^62 bytes"),
        pytest.param(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 99) + b"\0" * 90, id="type"),
    ],
)
def test_a_malformed_gguf_file_is_refused(tmp_path, data):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    assert code_of(path) == "CKPT0004"


def test_version_1_of_gguf_is_refused_by_name(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    with pytest.raises(gp.DiagnosticError, match="version 1"):
        gp.load(path)


def test_a_quantized_checkpoint_without_codes_is_refused(folder):
    change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    assert code_of(folder) == "CKPT0007"


def test_a_quantized_checkpoint_is_refused_by_the_name_of_its_method(folder):
    change_config(folder, quantization_config={"quant_method": "bitsandbytes", "bits": 4})
    with pytest.raises(gp.DiagnosticError, match="bitsandbytes"):
        gp.load(folder)


def test_a_decoder_that_attends_to_later_tokens_is_refused(folder):
    change_config(folder, use_bidirectional_attention=True)
    with pytest.raises(gp.DiagnosticError, match=r"CKPT0005.*later tokens"):
        gp.load(folder)


def test_the_language_model_of_several_modalities_is_read_with_a_warning(folder):
    path = folder / "config.json"
    text = {**json.loads(path.read_text()), "model_type": "llama"}
    path.write_text(json.dumps({"model_type": "llava", "text_config": text}))

    def change(header):
        for name in list(header):
            if name.startswith("model."):
                header[f"language_model.{name}"] = header.pop(name)

    change_header(folder, change)
    model = gp.load(folder)
    assert [finding.code for finding in model.findings] == ["CKPT0010"]
    assert next(iter(model.outputs)) == "logits"


def test_weights_may_be_links_into_the_folder_of_a_cache_alone(folder):
    weights, blobs = folder / "model.safetensors", folder.parent / "blobs"
    blobs.mkdir()
    weights.rename(blobs / "0a1b")
    weights.symlink_to("../blobs/0a1b")
    assert code_of(folder) == "CKPT0001"
    (folder / "config.json").rename(blobs / "2c3d")
    (folder / "config.json").symlink_to("../blobs/2c3d")
    assert gp.load(folder).outputs
    weights.unlink()
    weights.symlink_to(weights.name)
    assert code_of(folder) == "CKPT0001"
