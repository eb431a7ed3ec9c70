"""Edge cases of each preparation rule: equal outputs, equal interface, and the required form."""

from __future__ import annotations

import onnx

import graphport as gp
from graphport.api.rewrite import rewrite_file
from graphport.passes.prepare import PREPARE
from tests.draws import spread
from tests.every import every
from tests.passes import facts
from tests.passes.cases import Case
from tests.passes.families import cases

CASES = cases()


@every("case", CASES, ids=lambda case: case.name)
def test_a_prepared_model_computes_equal_results_and_has_the_form(case: Case, tmp_path):
    source, result = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(case.model, source)
    rewrite_file(source, result, PREPARE, verify=False)
    proto = onnx.load(result)
    facts.assert_equal(source, result, case.feeds or facts.feeds_of(case.model), case.tolerance)
    if "dynamic" in case.facts:
        facts.assert_equal(source, result, facts.feeds_of(case.model, batch=3), case.tolerance)
    facts.assert_same_interface(case.model, proto)
    facts.assert_loads(source, result)
    facts.assert_tidy(proto)
    for fact in case.facts:
        facts.assert_fact(fact, proto)


@every("case", spread(CASES), ids=lambda case: case.name)
def test_prepare_is_idempotent(case: Case):
    once, _ = gp.prepare(gp.from_onnx(case.model), verify=False)
    _, report = gp.prepare(once, verify=False)
    assert {name: count for name, count in report.changes.items() if count} == {}
