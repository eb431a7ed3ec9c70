"""The JSON of every verb keeps the schema that is shipped for it, and the schema leaves nothing out."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from graphport.cli.main import VERBS, cli
from graphport.cli.schema import described, schema
from tests.models import NNEF, model, node, perceptron, write_onnx

WITHOUT_JSON = {"schema", "lsp"}

COMMANDS = """
check net.onnx
check broken.nnef
check net.onnx --edition nosuch
shapes net.onnx
shapes open.onnx --input x=2..8x3
inspect net.onnx
inspect open.onnx
convert net.onnx net.tflite
convert net.onnx plain.onnx --no-verify
convert net.onnx told.xml --no-verify -v
convert net.onnx open.onnx missing.onnx --to openvino --out-dir converted --no-verify
simplify net.onnx small.onnx -v
prepare net.onnx ready.onnx -v
quantize net.onnx int8.onnx --calibration samples.npz --preset fast
dequantize int8.onnx dequantized.onnx
cast net.onnx half.onnx --to float16 --keep layer
cut net.onnx part.onnx --to hidden
edit net.onnx other.onnx --set-attribute hidden.alpha=2.0
compare net.onnx other.onnx --find
merge net.onnx open.onnx both.onnx --connect a.y=b.x
report net.onnx
report net.onnx -o page.html
report missing.onnx
run net.onnx
compare net.onnx open.onnx --all
bench net.onnx --seconds 0.05 --nodes
latency net.onnx -o table.json
verify net.onnx open.onnx
expr add(@0,1)
expr add(@0,1) --inputs at.npz
expr add(@0
fmt text.nnef --check
formats
explain NNEF0302
explain fuse-batchnorm
explain Conv
explain ncnn
ops
ops Conv
ops leaky_relu
ops Cnv
doctor
demo
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_onnx(tmp_path / "net.onnx", perceptron())
    weight = {"w": np.eye(3, dtype=np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["h"], name="layer"), node("Relu", ["h"], ["y"])]
    write_onnx(tmp_path / "open.onnx", model(nodes, [("x", ["N", 3])], [("y", ["N", 3])], weight))
    (tmp_path / "text.nnef").write_text(NNEF)
    (tmp_path / "broken.nnef").write_text(NNEF.replace("relu", "rellu"))
    numbers: dict[str, Any] = {"@0": np.ones(3, np.float32)}
    np.savez("at.npz", **numbers)
    np.savez("samples.npz", x=np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))
    return tmp_path


def closed(part: Any) -> Any:
    """A schema that takes no property which it does not name."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: closed(value) for key, value in part.items()}
    names = part.get("properties")
    if part.get("type") == "object" and isinstance(names, dict) and "$defs" not in part:
        found.setdefault("additionalProperties", False)
    return found


@cache
def validator(verb: str) -> Draft202012Validator:
    document = schema(verb)
    Draft202012Validator.check_schema(document)
    strict = closed(document)
    # The schema name is an additional property of both alternatives.
    for name in ("result", "refused"):
        for alternative in strict["$defs"][name].get("anyOf", [strict["$defs"][name]]):
            target = strict["$defs"][alternative["$ref"].rpartition("/")[2]] if "$ref" in alternative else alternative
            target.get("properties", {}).setdefault("schema", {"type": "string"})
    return Draft202012Validator(strict)


def test_every_document_is_described_whole(folder):
    seen = set()
    for line in COMMANDS.split("\n")[1:-1]:
        verb, *arguments = line.split(" ")
        result = CliRunner().invoke(cli, [verb, *arguments, "--json"])
        assert result.stdout.count("\n") == 1, f"{line}\n{result.output}"
        document = json.loads(result.stdout)
        assert document["schema"] == f"graphport/{verb}/1", line
        errors = [f"{error.json_path}: {error.message[:300]}" for error in validator(verb).iter_errors(document)]
        assert not errors, f"{line}\n{errors}\n{result.stdout[:2000]}"
        seen.add(verb)
    assert seen == set(VERBS) - WITHOUT_JSON


def test_a_document_of_another_form_is_refused():
    good = {"schema": "graphport/check/1", "valid": True, "format": "onnx", "diagnostics": []}
    assert validator("check").is_valid(good)
    assert not validator("check").is_valid(good | {"schema": "graphport/check/2"})
    assert not validator("check").is_valid(good | {"more": 1})
    assert not validator("check").is_valid({"schema": "graphport/check/1", "valid": True})


def test_every_verb_with_json_has_a_schema_that_can_be_printed():
    assert set(described()) == set(VERBS) - WITHOUT_JSON
    for verb in described():
        printed = json.loads(CliRunner().invoke(cli, ["schema", verb]).stdout)
        assert printed["properties"]["schema"] == {"const": f"graphport/{verb}/1"}
    assert (files("graphport.cli") / "schemas" / "common.json").is_file()
    assert CliRunner().invoke(cli, ["schema"]).stdout.split() == described()


@pytest.mark.parametrize(
    ("arguments", "verb", "said"),
    [
        (["chek", "x"], "usage", "did you mean 'check'?"),
        (["check"], "check", "Missing argument"),
        (["check", "--jsno", "x"], "check", "--json"),
        (["simplify", "net.onnx", "b.onnx", "--skip", "fuse-batchnor"], "simplify", "did you mean 'fuse-batchnorm'"),
        (["cast", "net.onnx", "b.onnx", "--to", "flot16"], "cast", "did you mean 'float16' or 'bfloat16'"),
        (["quantize", "net.onnx", "b.onnx", "--target", "tensort"], "quantize", "did you mean 'tensorrt'"),
    ],
)
def test_wrong_usage_under_json_is_json(arguments, verb, said, folder):
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert (result.exit_code, result.stderr) == (2, "")
    document = json.loads(result.stdout)
    assert document["schema"] == f"graphport/{verb}/1"
    (finding,) = document["diagnostics"]
    assert finding["code"] == "USE0001"
    assert said in finding["message"]


def test_an_unknown_target_of_latency_is_wrong_usage(tmp_path):
    result = CliRunner().invoke(cli, ["latency", str(tmp_path / "missing.onnx"), "--target", "ort"])
    assert (result.exit_code, "did you mean" in result.stderr or "is not one of" in result.stderr) == (2, True)


def test_an_unknown_backend_is_reported_before_any_work(tmp_path):
    # The file does not exist, which the command has not checked yet.
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "missing.onnx"), "--backend", "ort", "--json"])
    (finding,) = json.loads(result.stdout)["diagnostics"]
    assert (result.exit_code, finding["code"], finding["help"]) == (2, "RUN0001", "did you mean onnxruntime?")
