"""Adaptive pooling of axes whose lengths are not known before a run, against the formula written out."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import graphport as gp

TEXT = """7767517
3 {blobs}
pnnx.Input    in   0 1 0 #0={shape}f32
{op_type} pool 1 {count} 0 {results} {attributes}
pnnx.Output   out  {count} 0 {results}
"""


def windows(extent: int, count: int) -> list[slice]:
    return [slice(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def pooled(x: np.ndarray, sizes: tuple[int, int], reduce) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = (windows(n, m) for n, m in zip(x.shape[2:], sizes, strict=True))
    every = np.broadcast_to(np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:]), x.shape)
    values, places = np.zeros((*x.shape[:2], *sizes), x.dtype), np.zeros((*x.shape[:2], *sizes), np.int64)
    for (i, r), (j, c) in product(enumerate(rows), enumerate(columns)):
        part = x[:, :, r, c].reshape(*x.shape[:2], -1)
        values[:, :, i, j] = reduce(part, axis=-1)
        at = part.argmax(-1)[..., None]
        places[:, :, i, j] = np.take_along_axis(every[:, :, r, c].reshape(part.shape), at, -1)[..., 0]
    return values, places


@pytest.mark.parametrize("op_type", ["nn.AdaptiveAvgPool2d", "nn.AdaptiveMaxPool2d", "with places"])
@pytest.mark.parametrize("target", ["reference", "onnx"])
def test_adaptive_pooling_of_dynamic_dims_matches_the_runtime_sizes(tmp_path: Path, op_type, target):
    rng = np.random.default_rng(5)
    with_places = op_type == "with places"
    attributes = f"output_size=(3,4){' return_indices=True' if with_places else ''}"
    text = TEXT.format(
        op_type="nn.AdaptiveMaxPool2d" if with_places else op_type,
        shape="(?,?,?,?)",
        attributes=attributes,
        blobs=3 if with_places else 2,
        count=2 if with_places else 1,
        results="1 2" if with_places else "1",
    )
    (tmp_path / "m.pnnx.param").write_text(text)
    model = gp.load(tmp_path / "m.pnnx.param")
    if target == "onnx":
        gp.save(model, tmp_path / "m.onnx")
        model = gp.load(tmp_path / "m.onnx")
    for shape in ((1, 2, 3, 4), (2, 1, 7, 5), (1, 3, 10, 17), (1, 1, 2, 3)):
        x = rng.integers(-4, 5, shape).astype(np.float32)  # many are the largest
        wanted = pooled(x, (3, 4), np.mean if "Avg" in op_type else np.max)
        found = gp.run(model, {next(iter(model.inputs)): x}, backend="reference" if target == "reference" else "auto")
        for a, b in zip(found.ordered, wanted, strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op_type", ["nn.AdaptiveAvgPool2d", "nn.AdaptiveMaxPool2d"])
def test_adaptive_pooling_output_may_exceed_the_input(tmp_path: Path, op_type):
    x = np.random.default_rng(6).normal(size=(1, 2, 1, 3)).astype(np.float32)
    for sizes in ((3, 3), (2, 7), (1, 6), (4, 2)):
        told = f"output_size=({sizes[0]},{sizes[1]})"
        text = TEXT.format(op_type=op_type, shape="(1,2,1,3)", attributes=told, blobs=2, count=1, results="1")
        (tmp_path / "m.pnnx.param").write_text(text)
        model = gp.load(tmp_path / "m.pnnx.param")
        (found,) = gp.run(model, dict(zip(model.inputs, [x], strict=True)), backend="reference").values()
        wanted, _ = pooled(x, sizes, np.mean if "Avg" in op_type else np.max)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
