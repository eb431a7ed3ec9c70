"""What becomes of a runtime in a process of its own that does not answer."""

from __future__ import annotations

import pytest

from graphport.backends.subprocess import Worker
from graphport.core.diagnostics import DiagnosticError


def test_a_process_that_ends_without_an_answer_is_told():
    with pytest.raises(DiagnosticError) as caught:
        Worker("nothing", "graphport.backends.pages", [])
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0003"
    assert finding.message == "nothing does not load the model: it gave up, and its process ended with 0"
