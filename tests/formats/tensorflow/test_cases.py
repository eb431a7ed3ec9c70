"""TensorFlow files, held against what TensorFlow computes with them; see cases/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.recorded import check_file, check_refusal, files

CASES = Path(__file__).parent / "cases"
OPERATORS = Path(__file__).parent / "operators"
"""Files that `make_cases.py` writes."""


@pytest.mark.parametrize("recorded", [*files(CASES), *files(OPERATORS)])
@pytest.mark.filterwarnings("ignore")
def test_a_file_computes_what_tensorflow_computes(recorded, tmp_path):
    check_file(recorded, tmp_path)


@pytest.mark.parametrize("recorded", files(CASES, refused=True))
def test_a_file_that_cannot_be_expressed_is_refused(recorded):
    check_refusal(recorded)
