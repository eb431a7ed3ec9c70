"""Windows over what ends before the last of them does."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.ncnn.rules.written import check, saved
from tests.models import model, node

pytest.importorskip("ncnn")


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_no_window_begins_after_the_end(tmp_path, op, rank):
    random = np.random.default_rng(rank)
    for _ in range(25):
        kernel, strides = random.integers(1, 4, rank), random.integers(1, 5, rank)
        pads = [int(random.integers(0, n)) for n in (*kernel, *kernel)]
        lengths = [int(n) for n in np.maximum(random.integers(1, 9, rank), kernel)]
        attributes = {"kernel_shape": kernel.tolist(), "strides": strides.tolist(), "pads": pads, "ceil_mode": 1}
        x = {"x": random.normal(size=[1, int(random.choice([1, 4, 8])), *lengths]).astype(np.float32)}
        check(tmp_path, [node(op, ["x"], ["y"], **attributes)], x)


def test_of_open_lengths_windows_are_refused_that_may_begin_after_the_end(tmp_path):
    def made(stride):
        pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[stride, stride], ceil_mode=1)
        return gp.from_onnx(model([pool], [("x", [1, 3, "h", "w"])], [("y", None)]))

    gp.save(made(2), tmp_path / "net.param")
    back = gp.load(tmp_path / "net.param")
    for shape in ((1, 3, 4, 5), (1, 3, 7, 2)):
        x = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
        assert np.array_equal(gp.run(back, x, backend="ncnn")["y"], gp.run(made(2), x, backend="onnxruntime")["y"])
    with pytest.raises(DiagnosticError, match="ncnn requires constant sizes"):
        gp.save(made(3), tmp_path / "net.param")


def test_zeros_after_the_end_count_where_padding_does(tmp_path):
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1}
    x = {"x": np.arange(18, dtype=np.float32).reshape(1, 3, 6)}
    made = saved(tmp_path, [node("AveragePool", ["x"], ["y"], **attributes)], x)
    found = gp.run(gp.load(tmp_path / "net.param"), x, backend="ncnn")["y"]
    np.testing.assert_allclose(found, gp.run(made, x, backend="reference")["y"], rtol=1e-6)
