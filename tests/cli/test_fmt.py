"""`graphport fmt` on files."""

import json

import pytest
from click.testing import CliRunner

from graphport.cli.main import cli

LOOSE = "version 1.0;\ngraph g(x)->(y){x=external(shape=[1,2]); # kept\n y=relu( x );}\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "graph.nnef"
    path.write_bytes(LOOSE.encode())
    return path


def fmt(*arguments):
    return CliRunner().invoke(cli, ["fmt", *map(str, arguments)])


def test_check_option_reports_and_writes_no_file(file):
    result = fmt("--check", file)
    assert result.exit_code == 1
    assert result.output == f"{file}: would change\n"
    assert file.read_text() == LOOSE


def test_a_formatted_file_stays(file):
    assert fmt(file).exit_code == 0
    text = file.read_text()
    assert text != LOOSE
    assert "# kept" in text
    assert fmt("--check", file).exit_code == 0
    assert fmt(file).output == ""
    assert file.read_text() == text


def test_folder_argument_formats_its_graph(file):
    assert json.loads(fmt("--json", file.parent).output) == {
        "schema": "graphport/fmt/1",
        "changed": [str(file.parent)],
        "written": True,
    }


def test_file_with_syntax_errors_is_not_changed(file):
    file.write_text("version 1.0;\ngraph g(x) -> (y) { x = ; }\n")
    result = fmt(file)
    assert result.exit_code == 1
    assert "graph.nnef:2:" in result.stderr
    assert "x = ;" in file.read_text()


def test_a_missing_file_is_a_finding(tmp_path):
    result = fmt(tmp_path / "none.nnef")
    assert result.exit_code == 1
    assert "error[IO" in result.stderr
