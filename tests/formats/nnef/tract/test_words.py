"""A document for each word of tract's registries, and for each liberty of its grammar, held against tract.

`words.json` is written by `make_words.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from tests.every import every

CASES = json.loads(Path(__file__).with_name("words.json").read_text())


@every("name", CASES)
def test_a_word_means_what_tract_computes(tmp_path, name):
    case = CASES[name]
    (tmp_path / "graph.nnef").write_text(case["text"])
    model = gp.load(tmp_path / "graph.nnef")
    given = {key: np.asarray(each, model.inputs[key].fact.dtype.numpy) for key, each in case["inputs"].items()}
    found = list(gp.run(model, given).values())
    assert len(found) == len(case["outputs"])
    for one, other in zip(found, case["outputs"], strict=True):
        expected = np.asarray(other)
        assert one.shape == expected.shape
        assert one.dtype.kind == expected.dtype.kind or {one.dtype.kind, expected.dtype.kind} <= {"i", "u"}
        near = 1e-3 if one.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(one.astype(np.float64), expected.astype(np.float64), near, near)


def test_truths_are_not_made_of_the_bytes_of_numbers(tmp_path):
    text = CASES["product"]["text"].replace("tract_core_product_reduce", "any_reduce")
    (tmp_path / "graph.nnef").write_text(text)
    model = gp.load(tmp_path / "graph.nnef")
    with pytest.raises(gp.DiagnosticError, match="x is float32"):
        gp.run(model, {"x": np.ones((3, 4), np.float32)})


def test_whole_numbers_beside_reals_are_reals(tmp_path):
    """As `torch_to_nnef` writes them."""
    text = "n = unsqueeze(2, axes = [0, 1]);\n    y = select(gt(x, n), x, mul(x, n));"
    whole = "    y = tract_core_product_reduce(x, axes = [1]);"
    (tmp_path / "graph.nnef").write_text(CASES["product"]["text"].replace(whole, f"    {text}"))
    x = np.linspace(-3, 5, 12, dtype=np.float32).reshape(3, 4)
    found = gp.run(gp.load(tmp_path / "graph.nnef"), {"x": x})["y"]
    np.testing.assert_array_equal(found, np.where(x > 2, x, 2 * x))
