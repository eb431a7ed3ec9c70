"""Results are tables where they are printed, in notebooks, and for pandas."""

from __future__ import annotations

import numpy as np

import graphport as gp
from tests.reports.test_report import HOSTILE, chain


def check(result, *columns):
    rows = result.to_rows()
    assert rows
    assert all(list(row) == list(rows[0]) for row in rows)
    assert set(columns) <= set(rows[0])
    html = result._repr_html_()
    assert html.count("<tr>") == len(rows) + 1
    lines = str(result).splitlines()
    assert len(lines) == len(rows) + 2
    assert lines[0].split()[0] == next(iter(rows[0]))
    return rows, lines


def test_a_comparison_is_a_table():
    compared = gp.compare(gp.from_onnx(chain()), gp.from_onnx(chain(1.5)), every_value=True)
    rows, lines = check(compared, "value", "snr_db", "equal")
    assert [row["equal"] for row in rows] == [True, False, False, False]
    assert lines[-1] == "the outputs differ; the first value that differs is b"


def test_an_inspection_is_a_table():
    rows, lines = check(gp.inspect(gp.from_onnx(chain())), "operator", "nodes", "macs")
    assert next(row for row in rows if row["operator"] == "Conv")["macs"] == 3888
    assert lines[-1].startswith("x: float32[1, 3, 8, 8] → y: float32[1, 4, 6, 6]; ")


def test_a_quantization_is_a_table():
    samples = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype(np.float32)
    result = gp.quantize(gp.from_onnx(chain()), {"x": samples}, preset="fast")
    rows, lines = check(result.report, "name", "own_db", "quantized")
    assert [row["operator"] for row in rows] == ["Conv"]
    assert " dB on " in lines[-1]
    assert "<svg" in result._repr_html_()


def test_cells_are_no_markup():
    proto = chain(names=(HOSTILE, "b", "c"))
    assert "<script" not in gp.compare(gp.from_onnx(proto), gp.from_onnx(proto), every_value=True)._repr_html_()
