"""Operators over their attributes: integer kernels, cut out and in whole models, compute what quantized graphs say."""

from __future__ import annotations

from functools import cache

import pytest

import graphport as gp
from graphport.formats.onnx import runtime as onnxruntime
from graphport.quantization.engine import session
from tests.conformance.quantization.operators import cases
from tests.quantization import nets
from tests.quantization.targets.pieces import MOST, pieces, quantized
from tests.quantization.targets.test_ncnn import Net
from tests.quantization.targets.test_openvino import Compiled

pytestmark = pytest.mark.conformance

CASES = dict(cases())
REFUSED = ("LEG0002", "QUANT0007", "RUN0003")


@cache
def _found(name):
    return CASES[name]()


def _quantized(name, target, **settings):
    """The model for a target; `None` where it could compute nothing on integers."""
    try:
        return quantized(_found(name), target, **settings)
    except gp.DiagnosticError as error:
        if [finding.code for finding in error.diagnostics] != ["QUANT0007"]:
            raise
        return None


def _check(made, run, **how):
    """One step at most, in few elements; formats may refuse a piece."""
    # Of fewer elements a pair that stands in the middle of two steps would be more than a thousandth.
    batch = how.pop("batch", 8)
    for piece in pieces(made, **how):
        try:
            steps = piece.differences(run, batch=batch)
        except gp.DiagnosticError as error:
            if not all(finding.code in REFUSED for finding in error.diagnostics):
                raise
            continue
        assert steps.max(initial=0) < 1.5, piece.words
        # One element of few is more than a thousandth of them.
        assert (steps > 0.5).sum() <= max(MOST * steps.size, 1), piece.words


def _whole(name, made, run):
    """What the runtime adds is a tenth of the noise of rounding at most."""
    x = nets.samples(_found(name), 4, seed=5)
    said, computed = session(made.graph, optimize=False).run(x)["y"], run(made, x)["y"]
    assert nets.snr(said, computed) > min(nets.snr(gp.run(_found(name), x, backend="reference")["y"], said), 50) + 10


def _onnxruntime(made, inputs):
    return onnxruntime.prepare(made.graph).run(inputs)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("changes", [
    pytest.param({}, id="unsigned"),
    pytest.param({"symmetric": True, "activation_type": "int8"}, id="signed"),
])  # fmt: skip
def test_onnxruntime_computes_the_specified_result(name, changes):
    made = _quantized(name, "onnxruntime", **changes)
    _check(made, _onnxruntime)
    # Between signed integers the runtime moves channels to the end, where its cubic kernel does not shrink.
    if not (changes and name == "Resize_cubic_half_pixel__0.5"):
        _whole(name, made, _onnxruntime)


@pytest.mark.parametrize("name", list(CASES))
def test_openvino_computes_the_specified_result(name, tmp_path):
    made = _quantized(name, "openvino")

    def run(found, inputs):
        return Compiled(found, tmp_path).run(inputs)

    _check(made, run)


@pytest.mark.parametrize("name", list(CASES))
def test_ncnn_computes_the_specified_result(name, tmp_path):
    made = _quantized(name, "ncnn")
    if made is not None:
        _check(made, lambda found, x: Net(found, tmp_path).run(x), batch=1, rounds_results=False)


@pytest.mark.parametrize("name", list(CASES))
def test_models_for_tensorrt_run_in_another_runtime(name):
    made = _quantized(name, "tensorrt")
    _check(made, lambda found, x: onnxruntime.prepare(found.graph, optimize=False).run(x))
