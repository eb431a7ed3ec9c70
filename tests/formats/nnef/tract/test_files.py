"""Files by torch_to_nnef in both flavours, and by tract itself, with the results of PyTorch and tract.

`files/generators` are the scripts that made them (torch 2.13.0, torch_to_nnef 0.24.12, tract 0.23.9).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

FILES = Path(__file__).with_name("files")
CASES = json.loads((FILES / "cases.json").read_text())


def series(data, prefix):
    count = sum(key.removeprefix(prefix).isdigit() for key in data if key.startswith(prefix))
    return [data[f"{prefix}{place}"] for place in range(count)]


def runs(case):
    """Yield inputs and expected outputs: as exported, and at another size if dims are symbolic."""
    data = dict(np.load(FILES / case["data"]))
    yield series(data, "x"), series(data, case["expected"])
    if case["other"]:
        yield series(data, "ox"), series(data, f"o{case['expected']}")


@pytest.mark.parametrize("file", CASES)
def test_a_file_computes_what_its_network_did(file):
    model = gp.load(FILES / file)
    for given, expected in runs(CASES[file]):
        found = list(gp.run(model, dict(zip(model.inputs, given, strict=True))).values())
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, CASES[file]["tolerance"], CASES[file]["tolerance"])


def test_an_ensemble_of_trees_votes_as_in_tract(tmp_path):
    model = gp.load(FILES / "trees.opl.nnef.tgz")
    data = dict(np.load(FILES / "trees.npz"))
    gp.save(model, tmp_path / "trees.onnx")
    for read, backend in ((model, "reference"), (gp.load(tmp_path / "trees.onnx"), "onnxruntime")):
        found = list(gp.run(read, {"x": data["x0"]}, backend=backend).values())
        for one, other in zip(found, series(data, "t"), strict=True):
            np.testing.assert_allclose(one, other, 1e-6)


ENDLESS = (
    "fragment f(a: tensor<scalar>) -> (b: tensor<scalar>) { b = f(a); }\n"
    "graph g(x) -> (y) { x = external(shape = [2]); y = f(x); }"
)
HEAD = "version 1.0;\nextension tract_registry tract_core;\n"


def written(tmp_path, text, head=HEAD):
    (tmp_path / "graph.nnef").write_text(head + text)
    return tmp_path / "graph.nnef"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NNEF0902", "graph g(x) -> (y) { x = tract_core_external(shape = [2], datum_type = 'f8'); y = relu(x); }"),
        ("NNEF0903", "extension tract_symbol N;\ngraph g(x) -> (y) { x = external(shape = [2]); y = x * N; }"),
        (
            "NNEF0904",
            "graph g(x) -> (y) { x = external(shape = [2]); y = tract_core_scan(body = 'b', scan = [('a', x, 0, 1)]); }",
        ),
        ("NNEF0322", "graph g(x) -> (y) { x = external(shape = [2]); y = tract_core_gathered(x); }"),
        ("NNEF0324", "graph g(x) -> (y) { x = external(shape = [2]); y = tract_core_gather(x); }"),
        ("NNEF0303", "graph g(x) -> (y) { x = external(shape = [2]); y = relu(z); }"),
        ("NNEF0305", "graph g(x) -> (y) { x = external(shape = [2]); z = relu(x); }"),
        ("NNEF0201", "graph g(x) -> (y) { x = external(shape = [2]) y = relu(x); }"),
        ("NNEF0207", "graph g(x) -> (y) { x = external(shape = [2]); y = " + "(" * 300 + "x" + ")" * 300 + "; }"),
        ("NNEF0510", ENDLESS),
    ],
)  # fmt: skip
def test_a_fault_is_reported_by_its_code(tmp_path, code, text):
    with pytest.raises(DiagnosticError) as raised:
        gp.load(written(tmp_path, text))
    assert [each.code for each in raised.value.diagnostics] == [code]


def test_a_symbol_that_nobody_declared_is_one_with_a_warning(tmp_path):
    text = "graph g(x) -> (y) { x = external(shape = [2, N]); y = relu(x); }"
    model = gp.load(written(tmp_path, text))
    assert [each.code for each in model.findings] == ["NNEF0901"]
    assert [str(dim) for dim in model.inputs["x"].fact.shape] == ["2", "N"]


def test_what_is_this_flavour_without_exporting_so_is_reported(tmp_path):
    text = "graph g(x) -> (y) { x = external(shape = [2, 3]); y = leaky_relu(x, 0.5); }"
    path = written(tmp_path, text, "version 1.0;\n")
    model = gp.load(path)
    assert "NNEF0905" in [each.code for each in model.findings]
    assert gp.run(model, {"x": np.full((2, 3), -2, np.float32)})["y"].tolist() == [[-1.0] * 3] * 2
    assert "NNEF0329" in [each.code for each in gp.check(path)]


def test_assertions_bound_symbols_and_unknown_extensions_are_kept(tmp_path):
    text = "extension tract_symbol N;\nextension tract_assert N >= 3;\nextension vendor_word a b;\n"
    text += "graph g(x) -> (y) { x = external(shape = [N]); y = relu(x); }"
    model = gp.load(written(tmp_path, text))
    (dim,) = model.inputs["x"].fact.shape
    assert dim.bounds[0] == 3
    assert [each.code for each in model.findings] == ["NNEF0338"]


def test_assertions_on_expressions_are_facts_of_the_graph(tmp_path):
    text = "extension tract_symbol N;\nextension tract_symbol P;\nextension tract_assert P+N <= 2048;\n"
    text += "extension tract_assert P == 2*N;\nextension tract_assert N < 9;\n"
    text += "graph g(x, y) -> (z) { x = external(shape = [N]); y = external(shape = [P]); z = relu(y); }"
    model = gp.load(written(tmp_path, text))
    assert model.inputs["x"].fact.shape[0].bounds == (0, 8)
    assert [str(each) for each in model.graph.extents.constraints] == ["N+P <= 2048", "P = 2*N"]
    assert str(model.outputs["z"].fact.shape[0]) == "2*N"
