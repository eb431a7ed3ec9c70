"""Results are tables where they are printed, in notebooks, and for pandas."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np

import graphport as gp
from tests.models import model as onnx_model
from tests.models import node
from tests.reports.test_report import HOSTILE, chain

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


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


def results_of_cells(path, folder, monkeypatch):
    """Execute the cells of a notebook in `folder`; return the value of the expression that ends each cell."""
    monkeypatch.chdir(folder)
    found, names = [], {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(path), "exec"), names)  # noqa: S102  a notebook of this repository
        found.append(None if last is None else eval(compile(ast.Expression(last.value), str(path), "eval"), names))  # noqa: S307
    return found


def test_the_example_notebook_runs(tmp_path, monkeypatch):
    model, inspection, outputs, verdict, compared, rows, report = results_of_cells(NOTEBOOK, tmp_path, monkeypatch)
    for shown in (model, inspection, compared, report):
        assert shown._repr_html_().startswith(("<div>", "<table>"))
    np.testing.assert_allclose(outputs["y"].sum(), 1, rtol=1e-5)
    assert verdict.value.startswith("verified")
    assert compared.passed
    assert [row["operator"] for row in rows] == ["MatMul", "Softmax"]


def columns_with_several_types(rows):
    """Return the columns whose values, apart from None, have more than one type: polars refuses them."""
    types = {name: {type(row[name]) for row in rows} - {type(None)} for name in rows[0]}
    return {name for name, each in types.items() if len(each - {int, float}) + bool(each & {int, float}) > 1}


def test_data_frame_columns_have_one_dtype(tmp_path):
    model = gp.from_onnx(chain())
    opened = gp.edit(model, batch="N")
    samples = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype(np.float32)
    pooled = [node("GlobalAveragePool", ["x"], ["p"]), node("MatMul", ["u", "v"], ["q"])]
    fixed = {"u": np.ones((2, 3), np.float32), "v": np.ones((3, 4), np.float32)}
    mixed = onnx_model(
        [*pooled, node("Conv", ["x", "k"], ["y"])],
        [("x", [1, 3, "H", "W"])],
        [("y", None), ("p", None), ("q", None)],
        fixed | {"k": np.ones((2, 3, 1, 1), np.float32)},
    )
    tables = [
        gp.inspect(mixed),
        gp.report(mixed),
        gp.compare(model, gp.from_onnx(chain(1.5)), every_value=True),
        gp.inspect(model),
        gp.inspect(opened),
        gp.report(model),
        gp.report(opened),
        gp.report(model, gp.from_onnx(chain(1.5))),
        gp.quantize(model, {"x": samples}, preset="fast").report,
    ]
    for table in tables:
        assert not columns_with_several_types(table.to_rows()), table
