"""Every node test once more: operands from a file, folded; extents behind symbols; twice."""

import pytest

from tests.conformance.onnx.laws import LAWS, OPAQUE, violations
from tests.conformance.onnx.nodes import names, sample
from tests.draws import spread

PARTS = 16


@pytest.mark.parametrize("law", LAWS)
def test_a_sample_computes_equal_results_in_other_forms(law, tmp_path):
    assert violations(law, spread(sample()[::2]), tmp_path) == {}


@pytest.mark.conformance
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("law", LAWS)
def test_every_case_computes_equal_results_in_other_forms(law, part, tmp_path):
    assert violations(law, names()[part::PARTS], tmp_path) == {}


def test_cases_that_stay_opaque_are_cases():
    assert set(names()) >= OPAQUE
