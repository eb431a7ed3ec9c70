"""`-` is standard input and output, `-q` is silent, and mistyped names get suggestions."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile

import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import VERBS, cli
from graphport.cli.usage import Verb
from tests.models import NNEF, perceptron, write_onnx


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_onnx(tmp_path / "net.onnx", perceptron())


def run(*arguments: str, given: bytes = b""):
    return CliRunner().invoke(cli, arguments, input=given)


def test_a_model_is_read_from_standard_input_and_called_so(net):
    done = run("check", "-", given=net.read_bytes())
    assert (done.exit_code, done.output) == (0, "<stdin>: valid ONNX\n")
    cut = run("check", "-", "--json", given=net.read_bytes()[:200])
    assert cut.exit_code == 1
    assert '"file": "<stdin>"' in cut.stdout
    assert "graphport-" not in cut.stdout  # the temporary folder


def test_model_goes_to_stdout_and_messages_to_stderr(net, tmp_path):
    done = run("convert", "-", "-", "--to", "nnef", "--input", "x=1x4", given=net.read_bytes())
    assert done.exit_code == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout_bytes)) as archive:
        assert "graph.nnef" in archive.getnames()
    assert "written to <stdout>" in done.stderr
    again = run("simplify", "-", "-", "--to", "onnx", "-q", given=done.stdout_bytes)
    assert (again.exit_code, again.stderr) == (0, "")
    (tmp_path / "again.onnx").write_bytes(again.stdout_bytes)
    assert gp.compare(gp.load(net, shapes={"x": [1, 4]}), gp.load(tmp_path / "again.onnx")).passed


def test_stdout_rejects_formats_of_several_files(net):
    for arguments, said in (
        (["--to", "openvino"], "several files"),
        ([], "--to FORMAT is required"),
        (["--to", "onnx", "--json"], "standard output"),
    ):
        done = run("convert", str(net), "-", *arguments)
        assert done.exit_code == 2
        assert said in done.output
    assert run("compare", "-", "-", given=net.read_bytes()).exit_code == 2
    assert run("check", str(net), "--from", "onnx").exit_code == 2
    assert "did you mean 'onnx'" in run("check", "-", "--from", "onx").stderr


def test_a_text_is_laid_out_from_standard_input():
    ugly = NNEF.replace("    ", " ")
    done = run("fmt", "-", given=ugly.encode())
    assert done.exit_code == 0
    assert done.stdout == run("fmt", "-", given=done.stdout.encode()).stdout
    assert "graph" in done.stdout
    assert run("fmt", "--check", "-", given=ugly.encode()).exit_code == 1


def test_quiet_prints_only_errors(net, tmp_path):
    assert run("check", "-q", str(net)).output == ""
    assert run("-q", "inspect", str(net)).output == ""
    assert "IO0001" in run("check", "-q", str(tmp_path / "missing")).output
    broken = NNEF.replace("relu", "rellu").encode()
    assert "error[" in run("check", "-q", "-", given=broken).output


def test_every_verb_has_the_quiet_option():
    assert all(isinstance(cli.get_command(None, name), Verb) for name in VERBS)  # type: ignore[arg-type]


def test_the_version_has_a_short_option():
    assert run("-V").output == f"graphport, version {gp.__version__}\n"


def test_mistyped_verbs_options_and_passes_are_answered_with_a_question(net):
    for arguments, meant in (
        (["chek", "x"], "'check'"),
        (["simplfy", "a", "b"], "'simplify'"),
        (["check", "--jso", "x"], "No such option '--jso'. Did you mean '--json'?"),
        (["--versio"], "No such option '--versio'. Did you mean '--version'?"),
        (["prepare", str(net), "b.onnx", "--only", "fuse-batchnor"], "'fuse-batchnorm'"),
        (["schema", "chek"], "'check'"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert "id you mean" in done.stderr
        assert meant in done.stderr


def test_a_shell_completes_verbs_and_options():
    start = "import sys; sys.argv = ['graphport']; from graphport.cli import main; main()"
    for words, expected in (("graphport ch", "plain,check"), ("graphport convert --fl", "plain,--flatten")):
        asked = {"_GRAPHPORT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", start], env=os.environ | asked, capture_output=True, text=True, check=False
        )
        assert expected in done.stdout.splitlines()


def test_summaries_of_the_help_are_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("--help").output.partition("Look at a model:")[2]
    assert "..." not in listed
    assert " ".join(listed.split()).count("the formats that can express it") == 1


def test_help_groups_writer_options_by_format():
    shown = run("convert", "--help").output
    for heading, option in (
        ("Written as ONNX:", "--opset"),
        ("Written as NNEF:", "--flavour"),
        ("Written as OpenVINO IR:", "--ir-version"),
        ("Output:", "--json"),
    ):
        assert option in shown.partition(heading)[2].partition("\n\n")[0]
