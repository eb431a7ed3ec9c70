"""Every rule, snippet and switch of the description of PPQ's loading and formatting, by its section."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.passes.prepare import PREPARE
from tests.models import write_onnx
from tests.passes.cases import bn, info, model, node, norm, some

DOCUMENT = Path(__file__).parents[2] / "docs" / "from-ppq.md"
FLAGS = {
    "FORMATTER_FORMAT_CONSTANT_INPUT": "lift-constants",
    "FORMATTER_FUSE_BIAS_ADD": "fuse-bias",
    "FORMATTER_FUSE_BN": "fuse-batchnorm",
    "FORMATTER_REPLACE_BN_TO_CONV": "batchnorm-to-conv",
    "FORMATTER_REPLACE_REMOVE_IDENTITY": "remove-noops",
    "FORMATTER_REPLACE_REMOVE_ISOLATED": "remove-dead",
}
SWITCHES = {
    "lift-constants": [
        node("Constant", "", "k", value=numpy_helper.from_array(some(6, 1, 1), "k")),
        node("Mul", "x k", "y"),
    ],
    "fuse-bias": [node("Conv", "x w", "h"), node("Add", "h c", "y")],
    "fuse-batchnorm": [node("Conv", "x w", "h"), bn("h", "y")],
    "batchnorm-to-conv": [bn("x", "y")],
    "remove-noops": [node("Relu", "x", "h"), node("Identity", "h", "y")],
    "remove-dead": [node("Relu", "x", "h"), node("Neg", "x", "y")],
}


def prepared(nodes, constants=None, x=("N", 6, 5, 5), **options):
    proto = model(nodes, [info("x", x)], [info("y", None)], constants or {}, **options)
    return gp.prepare(gp.from_onnx(proto))


def words(result) -> list[str]:
    return [each.op for each in result.graph]


# 加载计算图: loading the graph


def test_loading_parses_and_formats(tmp_path):
    proto = model(
        [node("Conv", "x w", "h"), bn("h", "y")],
        [info("x", [1, 6, 5, 5])],
        [info("y", None)],
        {"w": some(6, 6, 1, 1), **norm(6)},
    )
    path = write_onnx(tmp_path / "net.onnx", proto)
    assert words(gp.load(path)) == ["Conv", "BatchNormalization"]
    assert words(gp.prepare(gp.load(path))[0]) == ["Conv"]


# ONNX模型解析: parsing ONNX


def test_loaded_model_keeps_initializers_and_versions(tmp_path):
    path = write_onnx(
        tmp_path / "net.onnx",
        model([node("Conv", "x w", "y")], [info("x", [1, 6, 5, 5])], [info("y", None)], {"w": some(6, 6, 1, 1)}),
    )
    loaded = gp.load(path)
    assert [value.name for value in loaded.graph.constants] == ["w"]
    assert loaded.versions == {"ai.onnx": "17"}


# 原生计算图解析: PPQ's own files


def test_pickles_are_refused_without_running_them(tmp_path):
    path = tmp_path / "graph.native"
    path.write_bytes(b"\x80\x04\x8c\x14PPQ GRAPH DEFINITION\x94.\x80\x04K\x01.")
    with pytest.raises(DiagnosticError) as caught:
        gp.load(path)
    assert caught.value.diagnostics[0].is_error


# 量化计算图预处理: the four rules, and the switches


@pytest.mark.parametrize(("flag", "name"), FLAGS.items())
def test_every_switch_is_the_name_of_a_pass(flag, name):
    assert name in [each.name for each in PREPARE]
    assert flag in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SWITCHES)
def test_skipped_pass_makes_no_changes(name):
    constants = {"w": some(6, 6, 1, 1), "c": some(6, 1, 1), **norm(6)}
    proto = model(SWITCHES[name], [info("x", [1, 6, 5, 5])], [info("y", None)], constants)
    _, with_it = gp.prepare(gp.from_onnx(proto))
    _, without = gp.prepare(gp.from_onnx(proto), skip=[name])
    assert with_it.changes[name] > 0
    assert name not in without.changes
    assert without.passed


# constant算子优化


def test_constant_nodes_become_constant_operands():
    k = node("Constant", "", "k", value=numpy_helper.from_array(some(6, 1, 1), "k"))
    result, _ = prepared([k, node("Mul", "x k", "y")])
    (mul,) = result.graph
    assert (mul.op, mul.operands[1].is_constant) == ("Mul", True)


# batchnorm算子优化: the formula


@pytest.mark.parametrize("op", ["Conv", "Gemm", "ConvTranspose"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_weights_are_those_of_the_formula(op, bias):
    w = some(5, 6) if op == "Gemm" else some(6, 6, 3, 3)
    b = some(6, seed=1)
    constants = {"w": w, **norm(6)} | ({"b": b} if bias else {})
    nodes = [node(op, "x w b" if bias else "x w", "h"), bn("h", "y", epsilon=0.1)]
    result, _ = prepared(nodes, constants, x=("N", 5) if op == "Gemm" else ("N", 6, 5, 5))
    (weighted,) = result.graph
    alpha, beta, mean, var = norm(6).values()
    scale = alpha / np.sqrt(var + 0.1)
    along = {"Conv": (6, 1, 1, 1), "Gemm": (1, 6), "ConvTranspose": (1, 6, 1, 1)}[op]
    found = [value.storage.numpy() for value in weighted.operands[1:]]
    np.testing.assert_allclose(found[0], w * scale.reshape(along), rtol=1e-5)
    np.testing.assert_allclose(found[1], (b * bias - mean) * scale + beta, rtol=1e-4, atol=1e-6)


# 单独batchnorm算子替换成卷积


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_lone_normalization_is_a_depthwise_convolution(rank):
    result, _ = prepared([bn("x", "y")], norm(6), x=("N", 6, *[4] * (rank - 2)))
    (conv,) = result.graph
    assert (conv.op, conv.attributes["group"]) == ("Conv", 6)
    assert conv.operands[1].storage.shape == (6, 1, *[1] * (rank - 2))


# add算子融合


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm"])
def test_sums_are_biases(op):
    shape, x = ((1, 6), ("N", 5)) if op == "Gemm" else ((1, 6, 1, 1), ("N", 6, 5, 5))
    w = some(5, 6) if op == "Gemm" else some(6, 6, 1, 1)
    for operands in ("x w", "x w b"):
        result, _ = prepared(
            [node(op, operands, "h"), node("Add", "h c", "y")], {"w": w, "b": some(6), "c": some(*shape)}, x=x
        )
        assert words(result) == [op]


# cast算子


@pytest.mark.parametrize("to", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8, TensorProto.FLOAT8E4M3FN])
def test_types_of_casts_stay(to):
    result, _ = prepared([node("Cast", "x", "h", to=to), node("Cast", "h", "y", to=1)], opset=19)
    assert words(result) == ["Cast", "Cast"]


# opset1算子


def test_slices_of_opset_1_take_operands():
    result, report = prepared([node("Slice", "x", "y", starts=[1], ends=[3], axes=[1])], opset=9)
    (cut,) = result.graph
    assert [value.storage.numpy().tolist() for value in cut.operands[1:4]] == [[1], [3], [1]]
    assert report.passes[0].name == "upgrade"


# CLIP算子


@pytest.mark.parametrize("attributes", [{}, {"min": 0.0}, {"max": 6.0}, {"min": 0.0, "max": 6.0}])
def test_clip_bounds_become_operands(attributes):
    result, _ = prepared([node("Clip", "x", "y", **attributes)], opset=10)
    (clip,) = result.graph
    assert [clip.operand(i) is not None for i in (1, 2)] == ["min" in attributes, "max" in attributes]


# Pad算子


def test_mode_and_value_of_pad_stay():
    result, _ = prepared([node("Pad", "x", "y", pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="reflect", value=1.5)], opset=10)
    (pad,) = result.graph
    assert pad.attributes["mode"] == "reflect"


# resize算子


def test_resizes_of_opset_10_keep_their_coordinates():
    result, _ = prepared([node("Resize", "x s", "y", mode="nearest")], {"s": np.float32([1, 1, 2, 2])}, opset=10)
    (resize,) = result.graph
    assert resize.attributes["coordinate_transformation_mode"] == "asymmetric"
    assert resize.attributes["nearest_mode"] == "floor"


# Identity算子


def test_identity_is_removed_and_io_names_are_kept():
    result, _ = prepared([node("Identity", "x", "a"), node("Relu", "a", "b"), node("Identity", "b", "y")])
    assert words(result) == ["Relu"]
    assert (list(result.inputs), list(result.outputs)) == (["x"], ["y"])


# 分裂参数变量


def test_prepare_splits_shared_parameters():
    nodes = [node("Add", "x c", "a"), node("Mul", "a c", "b"), node("Sub", "b c", "y")]
    result, _ = prepared(nodes, {"c": some(5)})
    assert [len(value.uses) for value in result.graph.constants] == [1, 1, 1]
    kept, _ = gp.prepare(result, skip=["split-parameters"])
    assert len(kept.graph.constants) == 3


# The document


def test_the_document_names_every_pass_and_method():
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in ("conservative", "aggressive", "pointwise", "all-in", "between-convolutions", "closure"):
        assert f'"{name}"' in text
    for name in re.findall(r"`([a-z]+-[a-z-]+)`", text):
        assert name in {each.name for each in PREPARE} or name in ("all-in", "between-convolutions")
