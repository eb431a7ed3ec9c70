"""Every node test of the `onnx` package; what is not computed is listed, with the operator that is why."""

import pytest

from tests.conformance.onnx.judgement import judge_passes, judge_reference, judge_rewriting
from tests.conformance.onnx.nodes import cases, names, unsupported

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("name", names())
def test_the_reference_computes_what_is_expected_or_states_what_it_lacks(name):
    judge_reference(name)


@pytest.mark.parametrize("name", names())
def test_nothing_that_onnx_runtime_computes_is_lost_by_rewriting(name, monkeypatch):
    judge_rewriting(name, monkeypatch)


@pytest.mark.parametrize("verb", ["simplify", "prepare"])
@pytest.mark.parametrize("name", names())
def test_passes_keep_what_onnx_runtime_computes(name, verb, monkeypatch):
    judge_passes(name, verb, monkeypatch)


def test_the_lists_name_cases_that_there_are():
    assert names() == sorted(cases())
    assert set(unsupported()) <= set(names())


def test_most_are_computed():
    assert len(names()) - len(unsupported()) >= 1600
