"""Operators of ONNX for which LiteRT has no kernel of their type or form, in LiteRT."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper

import graphport as gp
from tests.formats.tflite.litert import LiteRT
from tests.formats.tflite.test_cases import CASES
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


def test_signs_of_long_integers(tmp_path: Path) -> None:
    x = np.array([-(2**63), -(2**40), -1, 0, 1, 2**31, 2**63 - 1])
    told = [helper.make_tensor_value_info(name, TensorProto.INT64, [len(x)]) for name in "xy"]
    onnx.save(model([node("Sign", ["x"], ["y"])], told[:1], told[1:]), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as run:
        (found,) = run(tmp_path / "m.tflite", [x])
    np.testing.assert_array_equal(found, np.sign(x))


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


def test_means_over_images_of_dynamic_shape_are_padded_to_the_same(tmp_path: Path) -> None:
    told = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, f"{name}h", f"{name}w"]) for name in "xy"]
    pool = node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    onnx.save(model([pool], told[:1], told[1:]), tmp_path / "m.onnx")
    source = gp.load(tmp_path / "m.onnx")
    gp.save(source, tmp_path / "m.tflite")
    x = np.random.default_rng(5).normal(size=(1, 2, 7, 8)).astype(np.float32)
    with LiteRT() as run:
        (found,) = run(tmp_path / "m.tflite", [x])
    np.testing.assert_allclose(found, gp.run(source, {"x": x}, backend="reference")["y"], rtol=1e-5, atol=1e-6)


def words_of(net: onnx.ModelProto, folder: Path) -> Counter[str]:
    """Return the op types of an exported net after a comparison of LiteRT with the reference backend."""
    onnx.save(net, folder / "m.onnx")
    source = gp.load(folder / "m.onnx")
    gp.save(source, folder / "m.tflite")
    shape = source.graph.inputs[0].fact.shape
    x = np.random.default_rng(6).normal(size=shape).astype(np.float32)
    with LiteRT() as run:
        (found,) = run(folder / "m.tflite", [x])
    np.testing.assert_allclose(found, gp.run(source, {"x": x}, backend="reference")["y"], rtol=1e-4, atol=1e-4)
    return Counter(node.op_type for node in gp.load(folder / "m.tflite", raw=True).graph)


def test_a_gelu_that_was_split_is_one_operator(tmp_path: Path) -> None:
    erf = [
        node("Div", ["x", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["a"]),
        node("Mul", ["x", "a"], ["m"]),
        node("Mul", ["m", "half"], ["y"]),
    ]
    told = {"root": np.float32(np.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5)}
    assert words_of(model(erf, [("x", (2, 3))], [("y", (2, 3))], told), tmp_path) == {"GELU": 1}
    # Another factor is another function.
    other = words_of(model(erf, [("x", (2, 3))], [("y", (2, 3))], told | {"half": np.float32(0.6)}), tmp_path)
    assert "GELU" not in other


def test_transposes_pass_by_comparisons_casts_choices_and_computed_lines(tmp_path: Path) -> None:
    """Channels are last between the convolutions; values computed per channel are reshaped."""
    random = np.random.default_rng(7)
    nodes = [
        node("Conv", ["x", "w"], ["h"]),
        node("Greater", ["h", "zero"], ["is"]),
        node("Cast", ["is"], ["shares"], to=TensorProto.FLOAT),
        node("Mul", ["h", "shares"], ["k"]),
        node("Where", ["is", "k", "h"], ["c"]),
        node("Sqrt", ["stored"], ["line"]),
        node("Exp", ["x"], ["grown"]),
        node("ReduceSum", ["grown", "all"], ["total"], keepdims=0),
        node("Mul", ["line", "total"], ["own"]),
        node("Reshape", ["own", "shape"], ["factor"]),
        node("Mul", ["c", "factor"], ["s"]),
        node("Conv", ["s", "v"], ["y"]),
    ]
    w, v = (random.normal(size=(4, n, 1, 1)).astype(np.float32) for n in (3, 4))
    told = {"w": w, "v": v, "zero": np.float32(0), "stored": np.array([1, 2, 3, 4], np.float32)}
    told |= {"shape": np.array([4, 1, 1]), "all": np.array([0, 1, 2, 3])}
    words = words_of(model(nodes, [("x", (1, 3, 5, 6))], [("y", (1, 4, 5, 6))], told), tmp_path)
    assert words["TRANSPOSE"] == 2
    assert words["CONV_2D"] == 2


def test_parameters_of_a_normalization_that_are_stored_as_integers_are_constants(tmp_path: Path) -> None:
    numbers = {"g": np.array([5, -3], np.int8), "o": np.array([100, -70], np.int32)}
    told = numbers | {
        "gs": np.float32(0.1),
        "os": np.float32(0.01),
        "m": np.float32([0.5, -1]),
        "v": np.float32([2, 3]),
    }
    nodes = [
        node("DequantizeLinear", ["g", "gs"], ["scale"]),
        node("DequantizeLinear", ["o", "os"], ["bias"]),
        node("BatchNormalization", ["x", "scale", "bias", "m", "v"], ["y"]),
    ]
    words = words_of(model(nodes, [("x", (2, 2, 3))], [("y", (2, 2, 3))], told), tmp_path)
    assert words["MUL"] == words["ADD"] == 1
    assert not {"DIV", "SQRT", "SUB"} & words.keys()


def test_filters_that_are_filled_are_filled_as_they_are_wanted(tmp_path: Path) -> None:
    filler = onnx.numpy_helper.from_array(np.array([0.25], np.float32))
    nodes = [node("ConstantOfShape", ["shape"], ["w"], value=filler), node("Conv", ["x", "w"], ["y"])]
    told = {"shape": np.array([4, 3, 2, 2])}
    words = words_of(model(nodes, [("x", (1, 3, 5, 6))], [("y", (1, 4, 4, 5))], told), tmp_path)
    assert words["TRANSPOSE"] == 2


def test_what_weighs_channels_has_them_last_too(tmp_path: Path) -> None:
    """Pooled images have one cell in each channel: their Transposes cancel, or are reshapings."""
    random = np.random.default_rng(9)
    nodes = [
        node("Conv", ["x", "w"], ["h"]),
        node("GlobalAveragePool", ["h"], ["p"]),
        node("Conv", ["p", "u"], ["q"]),
        node("Relu", ["q"], ["r"]),
        node("Conv", ["r", "u"], ["s"]),
        node("Sigmoid", ["s"], ["g"]),
        node("Mul", ["h", "g"], ["k"]),
        node("Conv", ["k", "u"], ["z"]),
        node("GlobalAveragePool", ["z"], ["y"]),
    ]
    told = {name: random.normal(size=(4, n, 1, 1)).astype(np.float32) for name, n in (("w", 3), ("u", 4))}
    words = words_of(model(nodes, [("x", (1, 3, 5, 6))], [("y", (1, 4, 1, 1))], told), tmp_path)
    assert words["TRANSPOSE"] == 1


def test_casts_to_few_bits_keep_the_last_ones(tmp_path: Path) -> None:
    """Kernels saturate, ONNX does not."""
    x = np.arange(-20, 21, dtype=np.float32)
    for dtype, least, count in ((TensorProto.INT4, -8, 16), (TensorProto.UINT4, 0, 16), (TensorProto.INT2, -2, 4)):
        nodes = [node("Cast", ["x"], ["few"], to=dtype), node("Cast", ["few"], ["y"], to=TensorProto.FLOAT)]
        onnx.save(model(nodes, [("x", x.shape)], [("y", x.shape)], opset=25), tmp_path / "m.onnx")
        gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
        with LiteRT() as run:
            (found,) = run(tmp_path / "m.tflite", [x])
        np.testing.assert_array_equal(found, (x - least) % count + least)


def test_a_spectrum_that_is_a_result_goes_through_onnx_as_it_is(tmp_path: Path) -> None:
    """No canonical operator has complex results, so the TFLite node is unchanged."""
    raw = gp.load(CASES / "spectrum.tflite", raw=True)
    whole = gp.cut(raw, inputs=["x0"], outputs=["z"])
    gp.save(whole, tmp_path / "z.tflite")
    gp.save(gp.load(tmp_path / "z.tflite"), tmp_path / "z.onnx")
    gp.save(gp.load(tmp_path / "z.onnx"), tmp_path / "back.tflite")
    x = np.random.default_rng(11).normal(size=(2, 6, 7)).astype(np.float32)
    with LiteRT() as run:
        first, second = (run(tmp_path / name, [x]) for name in ("z.tflite", "back.tflite"))
    np.testing.assert_array_equal(second[0], first[0])
