"""Calibration tables."""

from __future__ import annotations

import math

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.ncnn import Scales, read_table, write_table

TEXT = "conv_param_0 12.5 100 3.5\nfc_param_0 1\nconv 42.25\n#fc 7\n"


def test_a_table_is_read_and_written_again(tmp_path):
    (tmp_path / "net.table").write_text(TEXT)
    lines = read_table(tmp_path / "net.table")
    assert lines[0] == Scales("conv_param_0", (12.5, 100.0, 3.5))
    assert [line.is_weights for line in lines] == [True, True, False, False]
    assert [line.is_float for line in lines] == [False, False, False, True]
    write_table(tmp_path / "again.table", lines)
    assert (tmp_path / "again.table").read_text() == TEXT


def test_infinite_scales_of_dead_channels_become_finite(tmp_path):
    (tmp_path / "net.table").write_text("conv_param_0 inf 2\n")
    assert read_table(tmp_path / "net.table")[0].scales == (1.0, 2.0)
    write_table(tmp_path / "again.table", [Scales("conv", (math.inf, 0.0, 3.0))])
    assert (tmp_path / "again.table").read_text() == "conv 1 1 3\n"


@pytest.mark.parametrize("text", ["conv x\n", "conv -1\n", "conv nan\n", "conv 0\n"])
def test_an_invalid_scale_is_refused(tmp_path, text):
    (tmp_path / "net.table").write_text(text)
    with pytest.raises(DiagnosticError, match="NCNN0401"):
        read_table(tmp_path / "net.table")
