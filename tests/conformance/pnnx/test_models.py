"""Models that pnnx wrote, from all parts of PyTorch: reading, writing, and conversion to ONNX."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.conversion.legalize import is_canonical
from graphport.formats.pnnx import read, write
from tests.formats.pnnx.samples import draw

ARCHIVE = Path(__file__).parent / "models.zip"
SAMPLE = (
    "fft_roundtrip",
    "gpt_dyn",
    "lstm_proj",
    "lstm_text",
    "mha_kpm",
    "opt0_vit",
    "stft",
    "swin",
    "unet_dyn",
    "yolo",
)
"""Those that every run of the tests has."""

WITHOUT_A_RULE = frozenset(("combinations", "digamma_lgamma", "lstm_proj"))
"""What ONNX has no operator for, or only one that nobody missed yet: they stay words of PNNX."""


@cache
def models() -> dict[str, Any]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return json.loads(archive.read("models.json"))


@cache
def weights() -> dict[str, bytes]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        places, data = json.loads(archive.read("weights.json")), archive.read("weights.bin")
    return {name: data[start : start + length] for name, (start, length) in places.items()}


def unpack(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pnnx.param"
    path.write_text(models()[name]["text"])
    (folder / f"{name}.pnnx.bin").write_bytes(weights()[name])
    return path


def check(name: str, folder: Path) -> None:
    """Read, write again, convert to ONNX, and compare with PyTorch's results."""
    path = unpack(name, folder)
    graph, _ = read(path, tolerant=True)
    write(graph, folder / "again.pnnx.param")
    assert (folder / "again.pnnx.param").read_text() == models()[name]["text"]
    assert (folder / "again.pnnx.bin").read_bytes() == weights()[name]
    model = gp.load(path)
    if name in WITHOUT_A_RULE:
        assert not is_canonical(model.graph)
        return
    gp.save(model, folder / "net.onnx")
    onnx.checker.check_model(folder / "net.onnx", full_check=True)
    inputs = [draw(each) for each in models()[name]["inputs"]]
    loaded = gp.load(folder / "net.onnx")
    found = gp.run(loaded, dict(zip(loaded.inputs, inputs, strict=True)), backend="onnxruntime")
    for result, expected in zip(found.values(), models()[name]["outputs"], strict=True):
        assert (result.dtype.name, list(result.shape)) == (expected["dtype"], expected["shape"])
        values = np.frombuffer(bytes.fromhex(expected["values"]), result.dtype)
        part = result.reshape(-1)[:: expected["every"]]
        if result.dtype.kind == "f":
            largest = np.abs(values[np.isfinite(values)]).max(initial=1.0)
            np.testing.assert_allclose(part, values, rtol=1e-4, atol=2e-5 * largest)
        else:
            assert part.tolist() == values.tolist()


@pytest.mark.parametrize("name", SAMPLE)
def test_sample_models_match_pytorch(tmp_path, name):
    check(name, tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("name", sorted(set(models()) - set(SAMPLE)))
def test_models_match_pytorch(tmp_path, name):
    check(name, tmp_path)


def test_models_cover_many_op_types():
    words = {line.split()[0] for each in models().values() for line in each["text"].splitlines()[2:]}
    assert len(words) > 160
