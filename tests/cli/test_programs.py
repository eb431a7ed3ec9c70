"""Packages of several programs on the command line: every verb that reads takes --program and --state."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphport.cli.main import cli

PROGRAMS = Path(__file__).parent.parent / "formats" / "pytorch" / "pt2" / "programs"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """`first` and `second`, which are the same program but for their names."""
    path = tmp_path_factory.mktemp("package") / "both.pt2"
    with zipfile.ZipFile(PROGRAMS / "cache.pt2") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            for program in ("first", "second") if "/model" in name and name.endswith(".json") else ("",):
                own = name.replace("models/model.json", f"models/{program}.json")
                archive.writestr(own.replace("/model_", f"/{program}_") if program else own, data)
    path.write_bytes(packed.getvalue())
    return path


def invoked(*arguments):
    result = CliRunner().invoke(cli, [str(each) for each in arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("simplify", "IN", "OUT.onnx"),
        ("prepare", "IN", "OUT.onnx", "--no-verify"),
        ("cast", "IN", "OUT.onnx", "--to", "float16", "--no-verify"),
        ("quantize", "IN", "OUT.onnx", "--weights-only", "--no-verify", "--no-latency"),
        ("edit", "IN", "OUT.onnx", "--rename", "x=image", "--no-verify"),
        ("compare", "IN", "IN"),
        ("verify", "IN", "IN"),
        ("bench", "IN", "--backend", "reference", "--seconds", "0.01"),
        ("convert", "IN", "OUT.onnx", "--no-verify"),
        ("check", "IN"),
        ("inspect", "IN"),
        ("shapes", "IN"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_verb_chooses_a_program_by_its_name(arguments, package, tmp_path):
    given = [str(package) if each == "IN" else each.replace("OUT", str(tmp_path / "net")) for each in arguments]
    code, told = invoked(*given)
    assert code == 1
    assert "PT0008" in told
    assert "first, second" in told
    code, told = invoked(*given, "--program", "second")
    assert "PT00" not in told
    assert code == 0, told


def test_simplify_and_prepare_keep_states(package, tmp_path):
    for verb in ("simplify", "prepare"):
        target = tmp_path / f"{verb}.onnx"
        code, told = invoked(verb, package, target, "--program", "first", "--state", "--no-verify")
        assert code == 0, told
        _, told = invoked("inspect", target, "--json")
        assert set(json.loads(told)["inputs"]) == {"x", "place", "count_in", "keys_in"}
