"""Files of JAX in all forms compute what JAX computed, here and in ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.npz"))


def given(name, kind):
    with np.load(CASES / f"{name}.npz") as arrays:
        return [arrays[f"{kind}{k}"] for k in range(len(arrays.files)) if f"{kind}{k}" in arrays.files]


@pytest.mark.parametrize("form", ["mlir", "mlir.bc", "jaxexport"])
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_jax(name, form, tmp_path):
    model = graphport.load(CASES / f"{name}.{form}")
    feeds = dict(zip(model.inputs, given(name, "in"), strict=True))
    path = tmp_path / "model.onnx"
    graphport.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for outputs in (graphport.run(model, feeds, backend="reference").values(), session.run(None, feeds)):
        for found, expected in zip(outputs, given(name, "out"), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", ["order", "windows"])
def test_results_at_two_sizes_are_those_of_jax(name, tmp_path):
    model = graphport.load(CASES / "sizes" / f"{name}.jaxexport")
    path = tmp_path / "model.onnx"
    graphport.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (argument,) = model.inputs
    with np.load(CASES / "sizes" / f"{name}.npz") as arrays:
        for size in range(2):
            expected = [arrays[f"out{size}_{k}"] for k in range(len(model.outputs))]
            feeds = {argument: arrays[f"in{size}"]}
            own = graphport.run(model, feeds, backend="reference").values()
            for found, other, wanted in zip(own, session.run(None, feeds), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(other, wanted, rtol=1e-4, atol=1e-5)


def test_symbolic_dims_of_jax_export_stay_open():
    model = graphport.load(CASES / "symbolic.jaxexport")
    (name,) = model.inputs
    for size in (1, 4):
        (result,) = graphport.run(model, {name: np.ones((size, 3), np.float32)}).values()
        assert result.shape == (size, 4)


def test_a_file_is_recognized_by_content(tmp_path):
    for form in ("mlir", "mlir.bc", "jaxexport"):
        path = tmp_path / f"{form.replace('.', '_')}.bin"
        path.write_bytes((CASES / f"order.{form}").read_bytes())
        assert graphport.load(path).inputs
