"""Check the quantization of awkward models for a target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.backends import reference
from graphport.ir.verify import verify
from graphport.quantization.engine import MAX_SNR_DB
from graphport.quantization.targets import TARGETS
from tests.quantization import nets
from tests.quantization.awkward import CASES

QUANTIZING = [name for name, each in TARGETS.items() if not each.only_weights]
FILES = {
    "onnxruntime": "net.onnx",
    "tensorrt": "net.onnx",
    "openvino": "net.xml",
    "ncnn": "net.param",
    "nnef": "net",
    "tflite": "net.tflite",
}
BACKENDS = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "ncnn": "ncnn",
    "nnef": "reference",
    "tflite": "litert",
}
REFUSED = "LEG0002|NCNN0305|NNEF076[23]|RUN0003|SHAPE0001"


def check(name: str, target: str, folder: Path) -> None:
    """Assert that the quantized model runs for the target, or that the expected diagnostic is reported."""
    case = CASES[name]
    found = gp.from_onnx(case.proto)
    if case.code is not None:
        with pytest.raises(gp.DiagnosticError, match=case.code):
            gp.quantize(found, case.samples(), target, preset="fast")
        return
    made = gp.quantize(found, case.samples(), target, preset="fast")
    verify(made.graph)
    assert list(made.outputs) == list(found.outputs)
    (inputs,) = case.samples(1, seed=9)
    expected = reference.prepare(found.graph).run(inputs)
    said = reference.prepare(made.graph).run(inputs)
    assert all(nets.snr(expected[key], x) > 8 or np.allclose(expected[key], x) for key, x in said.items())
    if target not in FILES:  # it reads a qparams document next to the ONNX file
        return
    path = folder / FILES[target]
    if target in case.unsaid:
        with pytest.raises(gp.DiagnosticError, match=REFUSED):
            _run(made, path, target, inputs)
    elif target in BACKENDS:
        computed = _run(made, path, target, inputs)
        for key, x in said.items():
            _assert_close(x, _renamed(computed, key, said).reshape(x.shape), expected[key], target)


def _run(made, path, target, inputs):
    """Run the file in the target's runtime."""
    gp.save(made, path, format=TARGETS[target].formats[0])
    again = gp.load(path)
    return gp.run(again, dict(zip(again.inputs, inputs.values(), strict=False)), backend=BACKENDS[target])


def _renamed(computed, key, said):
    """An output; formats call it otherwise where it is an input or a constant, too."""
    (other,) = [key] if key in computed else set(computed) - set(said)
    return computed[other]


def _assert_close(said, computed, expected, target):
    """Assert that the error is 10 dB below the quantization noise, unless all results are equal.

    LiteRT rounds a few elements to the neighbouring integer (TFL0306), which exceeds that.
    """
    differs = ~np.isclose(said, computed, rtol=1e-4, atol=1e-30)
    if not differs.any():
        return
    is_litert = target == "tflite"
    assert not is_litert or differs.sum() <= max(differs.size / 8, 2)
    assert nets.snr(said, computed) > min(nets.snr(expected, said) + (3 if is_litert else 10), MAX_SNR_DB)
