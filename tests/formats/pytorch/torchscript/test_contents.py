"""The modules, weights, methods and extra files of an archive are listed without a graph."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import jsonschema
from click.testing import CliRunner

from graphport.cli.main import cli
from graphport.cli.schema import schema
from graphport.formats import FORMATS

CASES = Path(__file__).parent / "cases"


def contents(name):
    found = FORMATS["torchscript"].contents(CASES / name)
    assert found is not None
    return found


def test_modules_have_their_classes_and_weights():
    found = {module.path: module for module in contents("network.pt").modules}
    assert found[""].type
    tensors = {f"{path}.{name}": t for path, module in found.items() for name, t in module.tensors.items()}
    convolutions = [path for path, module in found.items() if module.type == "torch.nn.modules.conv.Conv2d"]
    assert convolutions
    assert all(len(tensors[f"{path}.weight"].shape) == 4 for path in convolutions)
    assert {t.dtype for t in tensors.values()} >= {"float32"}


def test_packed_weights_belong_to_their_module():
    found = contents("quantized_static.pt")
    assert not any("torch.classes" in module.type for module in found.modules)
    assert any(t.is_quantized and t.dtype == "int8" for module in found.modules for t in module.tensors.values())


def test_the_methods_have_signatures():
    assert contents("network.pt").methods[0].startswith("forward(x: Tensor) -> Tensor")


def test_extra_files_and_the_version_record_are_listed(tmp_path):
    path = tmp_path / "m.pt"
    shutil.copy(CASES / "network.pt", path)
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{root}/extra/config.txt", b'{"stride": 32}')
    found = FORMATS["torchscript"].contents(path)
    assert found.extra_files == {"config.txt": 14}
    assert found.versions["version"].isdecimal()


def test_inspect_prints_them_also_where_inputs_have_no_shapes():
    result = CliRunner().invoke(cli, ["inspect", str(CASES / "containers.pt")])
    assert result.exit_code == 1
    assert "(root)" in result.output
    assert "forward(" in result.output
    assert "TS0007" in result.output


def test_the_json_document_has_them():
    for name, code in (("network.pt", 0), ("containers.pt", 1)):
        result = CliRunner().invoke(cli, ["inspect", str(CASES / name), "--json"])
        assert result.exit_code == code
        document = json.loads(result.stdout)
        jsonschema.validate(document, schema("inspect"))
        assert document["contents"]["modules"][0]["path"] == ""
