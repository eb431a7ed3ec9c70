"""Awkward models: for every target a model that runs, or a finding that says why not. All models, for all targets."""

from __future__ import annotations

import pytest

from tests.every import every
from tests.quantization.awkward import CASES
from tests.quantization.awkward_judge import QUANTIZING, check

pytestmark = pytest.mark.conformance(always=True)


@pytest.mark.parametrize("target", QUANTIZING)
@every("name", list(CASES))
def test_awkward_models_are_quantized_or_reported(name, target, tmp_path):
    check(name, target, tmp_path)
