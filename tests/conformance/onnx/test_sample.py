"""200 of the node tests of the `onnx` package, the same every time."""

from tests.conformance.onnx.judgement import judge_passes, judge_reference, judge_rewriting
from tests.conformance.onnx.nodes import sample
from tests.every import every


@every("name", sample())
def test_the_reference_computes_what_is_expected_or_states_what_it_lacks(name):
    judge_reference(name)


@every("name", sample())
def test_nothing_that_onnx_runtime_computes_is_lost_by_rewriting(name, monkeypatch):
    judge_rewriting(name, monkeypatch)


@every("verb", ["simplify", "prepare"])
@every("name", sample()[::10])
def test_passes_keep_what_onnx_runtime_computes(name, verb, monkeypatch):
    judge_passes(name, verb, monkeypatch)
