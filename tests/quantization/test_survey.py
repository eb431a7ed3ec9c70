"""Samples are checked before quantization: invalid ones are refused, doubtful ones reported."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.quantization.samples import gather
from graphport.quantization.survey import survey
from tests.models import model, node, typed

R = np.random.default_rng(0)
X = R.normal(size=(17, 3)).astype(np.float32)


def _graph():
    return gp.from_onnx(model([node("Relu", ["x"], ["y"])], [("x", ["N", 3])], [("y", ["N", 3])])).graph


def _said(data):
    return [(finding.code, finding.message) for finding in survey(gather(_graph(), {"x": data})).findings]


def test_enough_samples_that_differ_are_fine():
    assert _said(X) == []


@pytest.mark.parametrize(("data", "code", "words"), [
    pytest.param(np.zeros_like(X), "QUANT0017", "all elements of the calibration data of 'x' are 0", id="zeros"),
    pytest.param(np.full_like(X, 2.5), "QUANT0017", "'x' are 2.5", id="one number"),
    pytest.param(np.repeat(X[:1], 17, axis=0), "QUANT0017", "all 17 samples are equal", id="one sample again"),
    pytest.param(X[:1], "QUANT0017", "a single sample determines", id="a single one"),
    pytest.param(X[:7], "QUANT0017", "all 7 samples determine", id="few"),
    pytest.param(X[:15], "QUANT0017", "there are only 15 samples", id="fewer than 16"),
    pytest.param(X + np.float64(1 / 3), "QUANT0018", "rounded to float32", id="longer numbers"),
])  # fmt: skip
def test_poor_samples_are_reported(data, code, words):
    ((found, message),) = _said(data)
    assert found == code
    assert words in message


def test_exact_float64_samples_are_not_reported():
    assert _said(X.astype(np.float64)) == []


def test_all_inputs_with_nan_or_infinity_are_reported_together():
    inputs = [("a", ["N", 2]), ("b", ["N", 2])]
    graph = gp.from_onnx(model([node("Add", ["a", "b"], ["y"])], inputs, [("y", ["N", 2])])).graph
    a, b = np.ones((5, 2), np.float32), np.ones((5, 2), np.float32)
    a[3:], b[1] = np.nan, np.inf
    with pytest.raises(DiagnosticError) as error:
        survey(gather(graph, {"a": a, "b": b}))
    first, second = (finding.message for finding in error.value.diagnostics)
    assert "a contain NaN or infinity: 2 of 5 samples, the first has index 3" in first
    assert "b contain NaN or infinity: 1 of 5 samples, the first has index 1" in second


def test_sample_values_that_overflow_float32_are_rejected():
    with pytest.raises(DiagnosticError, match=r"QUANT0003.*the first has index 2"):
        survey(gather(_graph(), {"x": np.where(np.arange(len(X))[:, None] == 2, 1e300, X.astype(np.float64))}))


def test_integers_that_do_not_fit_are_reported_with_their_sample():
    shape = ("N", 2)
    inputs = [typed("i", list(shape), TensorProto.INT32)]
    graph = gp.from_onnx(
        model([node("Relu", ["i"], ["y"])], inputs, [typed("y", list(shape), TensorProto.INT32)])
    ).graph
    data = np.ones((4, 2), np.int64)
    data[2] = 1 << 40
    with pytest.raises(DiagnosticError, match=r"QUANT0002.*sample 2 .*int64.*int32"):
        survey(gather(graph, {"i": data}))


def test_survey_returns_the_requested_samples():
    found = survey(gather(_graph(), {"x": X}), {1, 4})
    assert {number: sample["x"].tolist() for number, sample in found.taken.items()} == {
        1: [X[1].tolist()],
        4: [X[4].tolist()],
    }
