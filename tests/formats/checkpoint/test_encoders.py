"""Encoders of `models/`: hidden states and task heads are those of transformers, with padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp

MODELS = Path(__file__).parent / "models"
NAMES = sorted(path.stem for path in MODELS.glob("encoder_*.npz"))


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_transformers(name, tmp_path):
    gp.save(gp.load(MODELS / name), tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    stored = np.load(MODELS / f"{name}.npz")
    found = session.run(None, {port.name: stored[port.name] for port in session.get_inputs()})
    names = [port.name for port in session.get_outputs()]
    assert set(names) == set(stored.files) - {port.name for port in session.get_inputs()}
    for output, value in zip(names, found, strict=True):
        seen = stored["attention_mask"].astype(bool) if value.ndim == 3 else slice(None)
        np.testing.assert_allclose(value[seen], stored[output][seen], rtol=0, atol=2e-4)
