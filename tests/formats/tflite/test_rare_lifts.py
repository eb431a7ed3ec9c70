"""Operators of ONNX for which LiteRT has no kernel of their type or form, in LiteRT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper

import graphport as gp
from tests.formats.tflite.litert import LiteRT
from tests.models import model, node

if TYPE_CHECKING:
    from pathlib import Path


def test_quotients_of_long_integers_are_rounded_towards_zero(tmp_path: Path) -> None:
    random, count = np.random.default_rng(4), 3000
    x, y = (random.integers(-(2**62), 2**62, count) >> random.integers(0, 61, count) for _ in range(2))
    y = np.where(y == 0, -7, y)
    wanted = [abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    told = [helper.make_tensor_value_info(name, TensorProto.INT64, [count]) for name in "xyz"]
    onnx.save(model([node("Div", ["x", "y"], ["z"])], told[:2], told[2:]), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as run:
        (found,) = run(tmp_path / "m.tflite", [x, y])
    np.testing.assert_array_equal(found, wanted)


def test_integers_of_32_bits_that_are_fed_stand_for_reals(tmp_path: Path) -> None:
    x = np.array([[-(2**20), 5], [77, 2**21]], np.int32)
    told = helper.make_tensor_value_info("x", TensorProto.INT32, [2, 2])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    graph = model([node("DequantizeLinear", ["x", "scale"], ["y"])], [told], [result], {"scale": np.float32(0.25)})
    onnx.save(graph, tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as run:
        (found,) = run(tmp_path / "m.tflite", [x])
    np.testing.assert_array_equal(found, x * np.float32(0.25))


def test_means_over_images_of_open_extents_are_padded_to_the_same(tmp_path: Path) -> None:
    told = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, f"{name}h", f"{name}w"]) for name in "xy"]
    pool = node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    onnx.save(model([pool], told[:1], told[1:]), tmp_path / "m.onnx")
    source = gp.load(tmp_path / "m.onnx")
    gp.save(source, tmp_path / "m.tflite")
    x = np.random.default_rng(5).normal(size=(1, 2, 7, 8)).astype(np.float32)
    with LiteRT() as run:
        (found,) = run(tmp_path / "m.tflite", [x])
    np.testing.assert_allclose(found, gp.run(source, {"x": x}, backend="reference")["y"], rtol=1e-5, atol=1e-6)
