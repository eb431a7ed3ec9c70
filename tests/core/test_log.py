"""The logger `graphport` of the standard library."""

from __future__ import annotations

import logging
import subprocess
import sys

import onnx
import pytest

import graphport as gp
from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.log import log_findings
from graphport.core.progress import stage
from tests.models import model, node


@pytest.fixture
def path(tmp_path):
    onnx.save(model([node("Relu", ["x"], ["y"])], [("x", [1, 3])], [("y", [1, 3])]), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_stages_are_logged_with_their_time(path, caplog):
    caplog.set_level(logging.DEBUG, "graphport")
    gp.load(path)
    logged = [(each.levelname, each.getMessage()) for each in caplog.records if "net.onnx" in each.getMessage()]
    assert logged[0] == ("DEBUG", "begin reading net.onnx")
    assert logged[-1][0] == "INFO"
    assert logged[-1][1].startswith("reading net.onnx: ")
    assert logged[-1][1].endswith(" s")


def test_failed_stage_is_logged(caplog):
    caplog.set_level(logging.INFO, "graphport")
    with pytest.raises(ValueError, match="inside"), stage("writing"):
        raise ValueError("inside")
    assert [each.getMessage()[:9] for each in caplog.records] == ["writing: "]


@pytest.mark.parametrize("severity", Severity)
def test_diagnostics_are_logged_at_their_severity(severity, caplog):
    caplog.set_level(logging.DEBUG, "graphport")
    log_findings([Diagnostic("IO0001", "a message", severity=severity)])
    (record,) = caplog.records
    assert record.levelname == {"error": "ERROR", "warning": "WARNING", "note": "INFO"}[severity]
    assert "IO0001" in record.getMessage()


def test_errors_of_the_reader_are_logged(tmp_path, caplog):
    (tmp_path / "bad.nnef").write_text("version 1.0;\ngraph g(x) -> (y) { x = external(shape = [1]); y = relu(z); }\n")
    with pytest.raises(gp.DiagnosticError):
        gp.load(tmp_path / "bad.nnef")
    # The reader raises; what it found is in the exception.
    assert all(each.levelno < logging.ERROR for each in caplog.records)


SILENT = """
import sys, logging
import graphport as gp
from graphport.core.diagnostics import Diagnostic
from graphport.core.log import log_findings
log_findings([Diagnostic("IO0001", "a message")])
"""


def test_logging_without_handler_prints_no_output():
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_logging_is_not_imported():
    code = SILENT.replace(", logging", "") + 'raise SystemExit("logging" in sys.modules)'
    subprocess.run([sys.executable, "-c", code], check=True)
