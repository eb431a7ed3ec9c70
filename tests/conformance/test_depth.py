"""What is nested five times as deep as the other tests try it, and chains five times as long."""

from __future__ import annotations

import pytest

from tests import deep
from tests.every import every
from tests.expression import test_expression, test_parse, test_samples, test_tutorial
from tests.formats.nnef import test_expand, test_expressions, test_formatter, test_inference, test_printer

pytestmark = pytest.mark.conformance(always=True)

TESTS = [
    test_expression.test_deep_expressions_are_computed,
    test_tutorial.TestSyntaxAnalysis().test_the_depth_does_not_matter,
    test_expressions.test_deep_nesting_takes_memory_not_the_stack,
    test_expand.test_large_valid_files_are_accepted,
    test_inference.test_deep_expressions_are_typed,
    test_printer.test_deep_trees_print,
    test_formatter.test_deep_and_long_texts_are_formatted,
]


@every("test", TESTS, ids=lambda test: test.__name__)
def test_deeper_nesting_does_not_use_the_stack(test, monkeypatch):
    monkeypatch.setattr(deep, "LEVELS", 5 * deep.LEVELS)
    test()


@every(("head", "core", "tail"), [("neg(", "@0", ")"), ("add(", "@0", ",1)"), ("add(1,", "@0", ")"), ("[", "@0", "]")])
def test_expressions_that_are_deeper_are_parsed(head, core, tail, monkeypatch):
    monkeypatch.setattr(deep, "LEVELS", 5 * deep.LEVELS)
    test_parse.test_depth_does_not_matter(head, core, tail)


@every(
    "case",
    [case for case in test_samples.CASES if "nested" in case and "expected" in case],
    ids=lambda case: case["id"],
)
def test_a_sample_that_is_deep_has_the_value_in_double_precision(case):
    test_samples.assert_value(case, "f64")
