"""What stops the search for test inputs, or the comparison of segments, leaves parts uncovered and refutes nothing."""

from __future__ import annotations

import pytest

import graphport as gp
from graphport.core import faults
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.proof import judge
from graphport.proof.process import UnansweredError
from graphport.proof.verdict import Verdict
from tests.models import write_onnx
from tests.passes.cases import info, model, node


@pytest.mark.parametrize("name", ["explore", "record_segments"])
@pytest.mark.parametrize(
    "error",
    [
        IndexError("invalid index"),
        UnansweredError("its process ended with 3"),
        DiagnosticError(Diagnostic("RUN0013", "it was stopped at a limit", None)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_verdict_reports_it(tmp_path, monkeypatch, name, error):
    def stop(*_arguments):
        raise error

    monkeypatch.setattr(judge, name, stop)
    monkeypatch.setattr(faults, "is_debugging", lambda: False)
    path = write_onnx(tmp_path / "net.onnx", model([node("Tanh", "x", "y")], [info("x", [2, 3])], [info("y", None)]))
    proof = gp.verify(path, path)
    assert proof.verdict is Verdict.WHERE_COVERED
    message = str(error) if not isinstance(error, DiagnosticError) else error.diagnostics[0].message
    assert message in proof.sentence
    assert proof.exit_code(is_strict=True) == 1
