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
def test_an_op_type_means_what_tract_computes(tmp_path, name):
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


def test_booleans_are_not_built_from_the_bytes_of_numbers(tmp_path):
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


HEAD = "version 1.0;\nextension tract_registry tract_core;\nextension tract_registry tract_onnx;\n"
X, Z = np.arange(12.0).reshape(3, 4), np.arange(-8.0, 12).reshape(4, 5)


@pytest.mark.parametrize(
    ("op_type", "inputs", "expected"),
    [
        ("tract_core_matmul(x, z, axes = [0, 1, 0, 1, 0, 1])", (X, Z), X @ Z),
        ("tract_core_matmul(x, z, axes = [1, 0, 1, 0, 1, 0])", (X.T, Z.T), (X @ Z).T),
        ("tract_core_matmul(x, z, axes = [1, 2, 2, 1, 2, 1])", (X[None], Z.T[None]), (X @ Z).T[None]),
        (
            "tract_onnx_ml_reverse_lookup(x, z, fallback = -1)",
            (np.array([[9, 4], [-3, 5]]), np.array([4, -3, 4, 100])),
            np.array([[-1, 0], [1, -1]]),
        ),
    ],
)
def test_op_types_that_tract_wrote_once(tmp_path, op_type, inputs, expected):
    """tract 0.23.9 loads neither as it means it: columns of products are axes of the first factor, keys are a number."""
    given = [each.astype(np.float32 if each.dtype.kind == "f" else np.int64) for each in inputs]
    lines = [
        f"{name} = tract_core_external(shape = {list(each.shape)}, datum_type = '{each.dtype.kind}{8 * each.itemsize}');"
        for name, each in zip("xz", given, strict=True)
    ]
    text = f"{HEAD}graph g(x, z) -> (y) {{ {' '.join(lines)} y = {op_type}; }}"
    (tmp_path / "graph.nnef").write_text(text)
    found = gp.run(gp.load(tmp_path / "graph.nnef"), dict(zip("xz", given, strict=True)))["y"]
    np.testing.assert_array_equal(found, expected)


def test_a_product_of_codes_in_matrices_is_that_of_an_einsum(tmp_path):
    """tract 0.23.9 takes all nine operands for factors; the einsum it is means what tract computes of that word."""
    case = CASES["einsum_q"]
    matrices = case["text"].replace("tract_core_einsum_q([a, w], ", "tract_core_qmatmul(a, w, ")
    matrices = matrices.replace(
        "expr = 'ik,kj,,,,,,,->ij', acc = 'i32', output", "axes = [0, 1, 0, 1, 0, 1], output_type"
    )
    assert matrices.count("qmatmul") == matrices.count("output_type") == 1
    (tmp_path / "graph.nnef").write_text(matrices)
    given = {key: np.asarray(each, np.float32) for key, each in case["inputs"].items()}
    (found,) = gp.run(gp.load(tmp_path / "graph.nnef"), given).values()
    np.testing.assert_array_equal(found, case["outputs"][0])
