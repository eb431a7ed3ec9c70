"""Awkward models: for every target a model that runs, or a finding that says why not."""

from __future__ import annotations

from tests.every import every
from tests.quantization.awkward import CASES
from tests.quantization.awkward_judge import QUANTIZING, check

THINNED = len(QUANTIZING)
"""Of the models that are written and computed each target has one in so many, and each target others, so that each model
has one target: all of all take forty seconds, in tests/conformance."""
MET = [
    (name, target)
    for number, target in enumerate(QUANTIZING)
    for index, (name, case) in enumerate(CASES.items())
    if case.code is not None or target in case.unsaid or (index + number) % THINNED == 0
]


@every(("name", "target"), MET)
def test_awkward_models_are_quantized_or_reported(name, target, tmp_path):
    check(name, target, tmp_path)


def test_every_model_is_met_by_a_target():
    assert {name for name, _ in MET} == set(CASES)
