"""Models of Keras 2 and 3 compute what Keras computed, in the reference interpreter and in ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp

FOLDER = Path(__file__).parent / "models"
MODELS = sorted(path.name for path in FOLDER.iterdir() if path.with_suffix(".npz").exists() and path.suffix != ".npz")
OPEN = {"convolutions.keras": (0, 1, 2), "attention.keras": (0, 1), "masked_recurrence.h5": (0, 1)}


def arrays(name):
    found = np.load((FOLDER / name).with_suffix(".npz"))
    return tuple(
        [found[f"{kind}{i}"] for i in range(len(found.files)) if f"{kind}{i}" in found] for kind in ("in", "out")
    )


def assert_close(found, expected):
    assert len(found) == len(expected)
    for y, want in zip(found, expected, strict=True):
        assert y.dtype == want.dtype
        np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_what_keras_computed(name, tmp_path):
    inputs, outputs = arrays(name)
    model = gp.load(FOLDER / name)
    feeds = dict(zip(model.inputs, inputs, strict=True))
    assert_close(list(gp.run(model, feeds).values()), outputs)
    gp.save(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert_close(session.run(None, feeds), outputs)


@pytest.mark.parametrize("name", OPEN)
def test_open_dims_stay_open(name):
    (value,) = gp.load(FOLDER / name).inputs.values()
    assert [axis for axis, dim in enumerate(value.shape) if not isinstance(dim, int)] == list(OPEN[name])


def test_convolutions_leave_no_transposes_between_them():
    model = gp.load(FOLDER / "convolutions.keras")
    words = [node.op_type for node in model.graph]
    # One for each of the two readers of the input, one behind each of the two results that are not reduced.
    moved = [node for node in model.graph if node.op_type == "Transpose" and not node.operands[0].is_constant]
    assert words.count("Conv") == 2
    assert len(moved) <= 4
