"""Decoders written as a folder of onnxruntime-genai and as a stateful OpenVINO IR."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.runtimes import memory

MODELS = Path(__file__).parent / "models"


def test_the_folder_of_onnxruntime_genai_is_complete(tmp_path):
    report = gp.convert(MODELS / "qwen2", tmp_path / "out", format="genai", verify=False)
    assert report.passed
    config = json.loads((tmp_path / "out" / "genai_config.json").read_text())
    assert config["model"]["eos_token_id"] == 2
    assert config["model"]["decoder"]["num_key_value_heads"] == 2
    assert config["model"]["decoder"]["filename"] == "model.onnx"
    assert next(iter(gp.load(tmp_path / "out").outputs)) == "logits"


def test_convert_takes_the_format_as_layout(tmp_path):
    arguments = ["convert", str(MODELS / "qwen2"), str(tmp_path / "out"), "--layout", "genai", "--no-verify"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"genai_config.json", "model.onnx"}


def test_quantize_writes_a_folder_of_onnxruntime_genai(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    arguments = ["quantize", str(MODELS / "qwen2"), str(out), "--to", "genai", "--weights-only", "--weight-bits", "8"]
    result = CliRunner().invoke(cli, [*arguments, "--no-latency", "--no-verify"])
    assert result.exit_code == 0, result.output
    model = onnx.load(out / "model.onnx")
    assert {tensor.data_type for tensor in model.graph.initializer} & {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}
    assert json.loads((out / "genai_config.json").read_text())["model"]["decoder"]["filename"] == "model.onnx"


def test_standard_input_in_the_format_of_a_folder_is_refused():
    result = CliRunner().invoke(cli, ["check", "-", "--from", "genai"], input=b"\x08\x09")
    assert result.exit_code == 1
    assert "IO0002" in result.output


def test_a_folder_with_a_damaged_configuration_is_refused(tmp_path):
    gp.convert(MODELS / "qwen2", tmp_path / "out", format="genai", verify=False)
    (tmp_path / "out" / "genai_config.json").write_text("{}")
    with pytest.raises(gp.DiagnosticError, match="GENAI0001"):
        gp.load(tmp_path / "out")


def test_files_of_the_tokenizer_are_copied_as_they_are(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for file in (MODELS / "llama").iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    (source / "tokenizer.json").write_bytes(b'{"not": "read"}\r\n')
    (source / "chat_template.jinja").write_bytes(b"{{ raise_exception() }}")
    (source / "modeling.py").write_bytes(b"raise SystemExit")
    gp.convert(source, tmp_path / "out", format="genai", verify=False)
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == b'{"not": "read"}\r\n'
    assert (tmp_path / "out" / "chat_template.jinja").read_bytes() == b"{{ raise_exception() }}"
    assert not (tmp_path / "out" / "modeling.py").exists()


def test_a_folder_with_files_is_left_alone(tmp_path):
    """An interrupted write would mix old and new files there."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tokenizer.json").write_bytes(b"old")
    with pytest.raises(gp.DiagnosticError, match="GENAI0003"):
        gp.save(gp.load(MODELS / "llama"), tmp_path / "out", format="genai")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tokenizer.json"]
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == b"old"


def test_a_graph_without_caches_is_no_folder_of_genai(tmp_path):
    model = gp.load(MODELS / "llama")
    gp.save(model, tmp_path / "m.onnx")
    with pytest.raises(gp.DiagnosticError, match="GENAI0002"):
        gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "out", format="genai")


@pytest.mark.parametrize("name", ["llama", "gemma2", "falcon_alibi"])
def test_the_ir_keeps_its_caches(tmp_path, name):
    gp.save(gp.load(MODELS / name), tmp_path / "m.xml")
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    compiled = openvino.Core().compile_model(tmp_path / "m.xml", "CPU", exact)
    request = compiled.create_infer_request()
    stored = np.load(MODELS / f"{name}.npz")
    mask = stored["mask"]
    found = run(compiled, request, stored["ids"], mask)
    seen = mask.astype(bool)
    np.testing.assert_allclose(found[seen], stored["logits"][seen], rtol=0, atol=5e-4)
    longer = np.concatenate([mask, np.ones_like(stored["next"])], 1)
    found = run(compiled, request, stored["next"], longer)
    np.testing.assert_allclose(found, stored["next_logits"], rtol=0, atol=5e-4)


def run(compiled, request, ids, mask):
    given = {"input_ids": ids, "attention_mask": mask}
    given["position_ids"] = np.clip(mask.cumsum(1) - 1, 0, None)[:, -ids.shape[1] :]
    names = {port.get_any_name() for port in compiled.inputs}
    return request.infer({name: value for name, value in given.items() if name in names})["logits"].copy()


def test_the_size_of_a_model_counts_the_files_after_converted_weights():
    """Limits of runs grow with it; bfloat16 weights, transposed ones and parts of fused ones are converted."""
    for name in ("llama", "gpt2", "phi3_partial"):
        model = gp.load(MODELS / name)
        stored = (MODELS / name / "model.safetensors").stat().st_size
        assert memory.size_of(model.graph, model.path) >= stored, name
