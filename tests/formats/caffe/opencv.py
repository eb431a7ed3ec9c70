"""Networks as OpenCV runs them, which reads Caffe with code of its own."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

import graphport as gp


def outputs_of_opencv(path: Path, inputs: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    weights = path.with_suffix(".caffemodel")
    net = cv2.dnn.readNetFromCaffe(str(path), str(weights) if weights.exists() else "")
    for name, array in inputs.items():
        net.setInput(array, name)
    return dict(zip(names, net.forward(names), strict=True))


def inputs_for(model: gp.Model, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(value.fact.shape).astype(np.float32) for name, value in model.inputs.items()}


def assert_agrees(path: Path, inputs: dict[str, np.ndarray] | None = None, *, rtol: float = 2e-4) -> gp.Model:
    """Hold our outputs against OpenCV's, relative to the largest entry."""
    model = gp.load(path)
    assert not [finding for finding in model.findings if finding.code != "CAFFE0201"]
    given = inputs_for(model) if inputs is None else inputs
    ours = gp.run(model, given)
    theirs = outputs_of_opencv(path, given, list(ours))
    for name, array in ours.items():
        assert array.shape == theirs[name].shape, name
        np.testing.assert_allclose(array, theirs[name], rtol=0, atol=rtol * np.abs(theirs[name]).max() + 1e-6)
    return model
