"""The operator tests of the ONNX project: every model of theirs survives reading and writing."""

from __future__ import annotations

from typing import Any

import pytest

from graphport.formats.onnx import from_proto, to_proto
from graphport.ir.verify import verify
from tests.formats.onnx.models import plain

pytestmark = pytest.mark.conformance


def cases() -> list[Any]:
    from onnx.backend.test.case.model import collect_testcases
    from onnx.backend.test.loader import load_node_model_tests

    return [*load_node_model_tests(), *(case for case in collect_testcases() if case.model is not None)]


@pytest.mark.filterwarnings("ignore")  # some of the cases are made by arithmetic that overflows
def test_every_node_model_round_trips() -> None:
    everything = cases()
    assert len(everything) > 1800
    for case in everything:
        graph = from_proto(case.model)
        verify(graph)
        written = to_proto(graph)
        assert plain(written) == plain(case.model), case.name
        assert to_proto(from_proto(written)).SerializeToString() == written.SerializeToString(), case.name
