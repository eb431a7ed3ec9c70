"""Data-dependent integers and quantized values in texts that both readers support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nnef
import numpy as np
import pytest
import tract
from onnx import helper, numpy_helper

import graphport as gp

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
TABLE = RNG.normal(size=(5, 6)).astype(np.float32)

COMPUTED = {
    "places": "y = cast<scalar>(argmax_reduce(x, axes = [1]));",
    "least places": "y = cast<scalar>(argmin_reduce(x, axes = [2]));",
    "moved places": "i = argmax_reduce(x, axes = [1]); j = transpose(squeeze(i, axes = [1]), axes = [1, 0]);"
    "y = cast<scalar>(concat([j, slice(j, axes = [0], begin = [1], end = [3])], axis = 0));",
    "chosen places": "i = argmax_reduce(x, axes = [1]); j = argmin_reduce(x, axes = [1]);"
    "y = cast<scalar>(select(gt(sum_reduce(x, axes = [1]), 0.0), i, j));",
    "whole numbers": "y = cast<scalar>(cast<integer>(mul(x, 3.0)));",
    "truths": "y = cast<scalar>(cast<integer>(gt(x, 0.0)));",
    "stored": "y = add(x, cast<scalar>(n));",
    "a number of the text": "y = add(x, cast<scalar>(3));",
    "a row": "i = squeeze(argmax_reduce(x, axes = [2]), axes = [2]); y = gather(w, i, axis = 0);",
    "a column": "i = squeeze(argmax_reduce(x, axes = [2]), axes = [2]); y = gather(w, i, axis = 1);",
    "of what a run computes": "i = squeeze(argmax_reduce(x, axes = [0]), axes = [0]); y = gather(exp(x), i, axis = 1);",
    "from the end": "i = cast<integer>(sub(cast<scalar>(squeeze(argmax_reduce(x, axes = [2]), axes = [2])), 5.0));"
    "y = gather(w, i);",
}


def document(folder: Path, body: str, quantization: str = "") -> gp.Model:
    folder.mkdir()
    lines = body.replace(";", ";\n    ")
    head = "version 1.0;\nextension KHR_enable_operator_expressions;\n"
    given = (
        "x = external(shape = [3, 4, 5]);\n    w = variable(shape = [5, 6], label = 'w');\n"
        "    n = variable<integer>(shape = [1, 4, 1], label = 'n');\n"
    )
    text = f"{head}graph net( x ) -> ( y )\n{{\n    {given}    {lines}\n}}\n"
    (folder / "graph.nnef").write_text(text)
    for name, array in (("w", TABLE), ("n", np.array([[[4], [-2], [0], [7]]]))):
        with (folder / f"{name}.dat").open("wb") as file:
            nnef.write_tensor(file, array)
    if quantization:
        (folder / "graph.quant").write_text(quantization)
    return gp.load(folder)


def held(folder: Path, model: gp.Model, x=X) -> str:
    """Return the text for both readers, after a comparison of the results of all three."""
    gp.save(model, folder, format="nnef", flavour="both")
    nnef.infer_shapes(nnef.load_graph(str(folder)))
    expected = gp.run(model, {"x": x}, backend="reference")["y"]
    found = tract.nnef().load(str(folder)).into_runnable().run([x])[0].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    again = gp.run(gp.load(folder), {"x": x}, backend="reference")["y"]
    np.testing.assert_allclose(again, expected, rtol=1e-6, atol=1e-6)
    return (folder / "graph.nnef").read_text()


@pytest.mark.parametrize("case", COMPUTED)
def test_integers_that_a_run_computes_are_real_numbers(tmp_path, case):
    text = held(tmp_path / "both", document(tmp_path / "own", COMPUTED[case]))
    assert "= cast" not in text
    assert "= gather" not in text


@pytest.mark.parametrize("case", COMPUTED)
def test_readers_of_the_standard_keep_its_op_types(tmp_path, case):
    model = document(tmp_path / "own", COMPUTED[case])
    gp.save(gp.simplify(model, verify=False)[0], tmp_path / "k", format="nnef", flavour="khronos")
    nnef.load_graph(str(tmp_path / "k"))


def test_integers_of_an_input_are_read_by_op_types_that_tract_lacks(tmp_path):
    text = (
        "version 1.0;\ngraph net( x ) -> ( y )\n{\n    x = external<integer>(shape = [2]);\n"
        "    z = reshape(x, shape = [1, 2]);\n    y = cast<scalar>(z);\n}\n"
    )
    (tmp_path / "graph.nnef").write_text(text)
    model = gp.load(tmp_path)
    with pytest.raises(gp.DiagnosticError, match="tract does not accept cast"):
        gp.save(model, tmp_path / "both", format="nnef", flavour="both")


def test_rows_of_what_may_be_infinite_are_not_taken_by_a_product(tmp_path):
    x = np.zeros((3, 4, 5), np.float32)
    x[1, :, 2] = -np.inf
    x[0, 3, 1] = 1
    body = "i = squeeze(argmax_reduce(slice(x, axes = [0], begin = [0], end = [1]), axes = [2]), axes = [0, 2]);"
    body += "y = gather(x, i, axis = 2);"
    text = held(tmp_path / "both", document(tmp_path / "own", body), x)
    assert "matmul" not in text


def test_many_rows_of_what_may_be_infinite_are_refused(tmp_path):
    body = "i = squeeze(argmax_reduce(x, axes = [2]), axes = [2]); t = tile(x, repeats = [64, 16, 8]);"
    body += "y = gather(t, i, axis = 0);"
    with pytest.raises(gp.DiagnosticError, match="gather"):
        gp.save(document(tmp_path / "own", body), tmp_path / "both", format="nnef", flavour="both")


QUANTIZED = {
    "numbers": "scale = 0.05, zero_point = 10, bits = 8, signed = false, symmetric = false",
    "signed": "scale = 0.02, zero_point = 0, bits = 8, signed = true, symmetric = true",
    "channels": "scale = [[0.5, 0.25, 0.125, 1.0]], zero_point = [[1, -3, 0, 7]], bits = 8, signed = true,"
    " symmetric = false",
    "few bits": "scale = 0.25, zero_point = 4, bits = 4, signed = false, symmetric = false",
}


@pytest.mark.parametrize("case", QUANTIZED)
def test_what_is_quantized_is_arithmetic_for_both(tmp_path, case):
    quantization = "".join(f'"{name}": zero_point_linear_quantize({QUANTIZED[case]});\n' for name in "ay")
    model = document(tmp_path / "own", "a = mul(x, 3.0); y = add(a, 0.125);", quantization)
    # Multiples of half a step, which show rounding to even.
    x = (np.round(X * 16) / 24).astype(np.float32)
    held(tmp_path / "both", model, x)
    assert not (tmp_path / "both" / "graph.quant").exists()
    gp.save(model, tmp_path / "khronos", format="nnef", flavour="khronos")
    assert (tmp_path / "khronos" / "graph.quant").exists()


def test_codes_of_each_channel_are_numbers_for_both_and_codes_for_tract(tmp_path):
    names: dict[str, Any] = {"w": RNG.integers(-128, 128, (5, 6)).astype(np.int8), "z": np.zeros(6, np.int8)}
    names["s"] = (RNG.random(6) + 0.1).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["w", "s", "z"], ["r"], axis=1),
            helper.make_node("MatMul", ["x", "r"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, [3, 4, 5])],
        [helper.make_tensor_value_info("y", 1, [3, 4, 6])],
        [numpy_helper.from_array(array, name) for name, array in names.items()],
    )
    (tmp_path / "q.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    )
    model = gp.load(tmp_path / "q.onnx")
    held(tmp_path / "both", model)
    gp.save(model, tmp_path / "tract", format="nnef", flavour="tract")
    expected = gp.run(model, {"x": X}, backend="reference")["y"]
    for folder, least in (("tract", 30), ("both", 120)):
        found = tract.nnef().load(str(tmp_path / folder)).into_runnable().run([X])[0].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        assert max(file.stat().st_size for file in (tmp_path / folder).glob("*.dat")) - 128 == least
    findings = gp.save(model, tmp_path / "default", format="nnef")
    assert [finding.code for finding in findings] == ["NNEF0776"]
    text = (tmp_path / "default" / "graph.nnef").read_text()
    assert text == (tmp_path / "tract" / "graph.nnef").read_text()
    gp.save(model, tmp_path / "khronos", format="nnef", flavour="khronos")
    assert "[[" in (tmp_path / "khronos" / "graph.quant").read_text()
