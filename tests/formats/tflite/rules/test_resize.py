"""Resizing of integers in TFLite."""

from __future__ import annotations

import pytest

from graphport.core.budget import OverBudgetError
from graphport.formats.tflite.rules.resize import neighbours


def test_as_many_places_as_a_file_names_are_requested_first():
    with pytest.raises(OverBudgetError, match="indices of an axis"):
        neighbours(4, 1 << 29, "half_pixel")
