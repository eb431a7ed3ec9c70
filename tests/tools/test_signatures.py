"""Models generated from operator signatures end in a result or a diagnostic, in every verb."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and processes as POSIX has them")

ROOT = Path(__file__).parent.parent.parent
CASES = 30
EVERY_BASE = 60


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("fuzz")


KINDS = (
    "signatures",
    "signatures.com.microsoft",
    "signatures.openvino",
    "signatures.tflite",
    "signatures.nnef",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_an_operator_with_wrong_operands_ends_in_a_result_or_a_diagnostic(fuzz, kind, tmp_path):
    name = fuzz.KINDS[kind][1]
    read = 0
    for number in range(CASES):
        files = fuzz.signature_case(kind, number, EVERY_BASE)
        if files is None:
            continue
        out = tmp_path / str(number)
        out.mkdir()
        path = fuzz.Seed(name, files).put(tmp_path / "given" / str(number))
        outcomes = fuzz.outcome(kind, path, out)
        assert set(outcomes.values()) <= {"done", "told"}, (number, outcomes)
        read += outcomes.get("load") == "done"
    assert read > CASES // 10  # a generator of models none of which is read finds nothing


def test_generated_models_are_the_same_every_time(fuzz):
    for kind in KINDS:
        made = [fuzz.signature_case(kind, number, EVERY_BASE) for number in range(20)]
        assert made == [fuzz.signature_case(kind, number, EVERY_BASE) for number in range(20)]
        assert len({str(each) for each in made}) > 10
