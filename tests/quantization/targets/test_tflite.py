"""What is quantized for LiteRT computes there what was simulated, in kernels for integers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import graphport as gp
from tests.quantization import nets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "word", "count"),
    [("residual", "CONV_2D", 2), ("depthwise", "DEPTHWISE_CONV_2D", 1), ("products", "FULLY_CONNECTED", 2)],
)
def test_layers_compute_on_integers_what_was_simulated(name: str, word: str, count: int, tmp_path: Path) -> None:
    model = getattr(nets, name)()
    quantized = gp.quantize(model, nets.samples(model, 16), target="tflite")
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    layers = Counter((node.word, str(node.operands[0].fact.dtype)) for node in raw.graph)
    assert layers[word, "int8"] == count
    x = nets.samples(model, 2, seed=7)
    expected = gp.run(model, x, backend="reference")
    simulated = gp.run(quantized, x, backend="reference")
    found = gp.run(gp.load(tmp_path / "q.tflite"), x, backend="litert")
    for one in expected:
        assert nets.snr(simulated[one], found[one]) > 45
        assert nets.snr(expected[one], found[one]) > 28
