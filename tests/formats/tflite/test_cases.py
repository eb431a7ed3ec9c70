"""Files of one or few operators, compared with the recorded results of LiteRT's kernels (`make_cases.py`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphport as gp

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.tflite"))


def recorded(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs and outputs."""
    told = np.load(CASES / f"{name}.npz")
    return [told[f"in{i}"] for i in range(len(told)) if f"in{i}" in told], [
        told[f"out{i}"] for i in range(len(told)) if f"out{i}" in told
    ]


def assert_right(name: str, found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Assert floats equal up to rounding, and quantized integers within one step, or exactly."""
    for one, other in zip(found, expected, strict=False):
        if other.dtype.kind == "U":
            assert one.tolist() == other.tolist()
            continue
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(other).max())))
        else:
            steps = 0 if name.startswith("exact") else 1 if one.dtype.itemsize <= 2 else 0
            assert np.abs(one.astype(np.int64) - other.astype(np.int64)).max() <= steps, name


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_a_file_computes_what_litert_does(backend: str) -> None:
    assert len(NAMES) > 30
    for name in NAMES:
        model = gp.load(CASES / f"{name}.tflite")
        inputs, expected = recorded(name)
        outputs = gp.run(model, dict(zip(model.inputs, inputs, strict=False)), backend=backend)
        assert_right(name, list(outputs.values()), expected)


def test_the_state_of_an_operator_is_an_input_and_an_output_after_the_others() -> None:
    model = gp.load(CASES / "svdf.tflite")
    assert list(model.inputs) == ["x0", "s"]
    assert list(model.outputs) == ["y", "s.next"]
    inputs, _ = recorded("svdf")
    outputs = gp.run(model, {"x0": inputs[0]})
    # The memory holds the features of the last step at the end of each of its rows.
    memory = outputs["s.next"].reshape(2, 6, 5)
    assert np.any(memory[:, :, 4])
    assert not np.any(memory[:, :, :4])


def test_a_convolution_in_parts_is_one_with_gaps_where_that_is_the_same() -> None:
    def gaps(name: str) -> list[object]:
        graph = gp.load(CASES / f"{name}.tflite").graph
        return [node.attributes.get("dilations") for node in graph if node.op == "Conv"]

    assert gaps("dilated_in_parts_image") == gaps("dilated_in_parts_image_int8") == [(3, 2)]
    assert gaps("dilated_in_parts_signal") == [(1, 2)]
    assert gaps("strided_in_parts") == gaps("cut_in_parts") == [None]
