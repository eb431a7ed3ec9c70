"""Pairs of models that differ on purpose are never called verified without saying what was not covered."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, load, numpy_helper, save

import graphport as gp
from graphport.proof.verdict import Verdict
from tests.models import node
from tools import false_conversions
from tools.planted_differences import PLANTS

TESTS = Path(__file__).parents[1]


def _saved(path, nodes, inputs, outputs, initializers=(), opset=21):
    values = [
        [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in side] for side in (inputs, outputs)
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in initializers]
    graph = helper.make_graph(nodes, "net", *values, constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


FLOAT = TensorProto.FLOAT


def test_a_scale_that_kernels_of_litert_hide_is_refuted_by_both_readings(tmp_path):
    source = TESTS / "formats/tflite/cases/fake_quant_above_zero.tflite"
    gp.convert(source, tmp_path / "n.onnx", verify=False)
    assert gp.verify(source, tmp_path / "n.onnx").passed
    model = load(tmp_path / "n.onnx")
    assert PLANTS["quantization"](model, random.Random(0))
    save(model, tmp_path / "wrong.onnx")
    proof = gp.verify(source, tmp_path / "wrong.onnx")
    assert proof.verdict is Verdict.FAILED
    assert "as graphport reads both files" in proof.sentence


def test_half_precision_that_a_runtime_hides_is_listed(tmp_path):
    pytest.importorskip("openvino")
    x, y = [("x", FLOAT, [2, 3, 4])], [("y", FLOAT, [2, 4])]
    axes = [("axes", np.array([1], np.int64))]
    source = _saved(tmp_path / "a.onnx", [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)], x, y, axes)
    gp.convert(source, tmp_path / "a.xml", verify=True)
    nodes = [
        node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        node("ReduceMean", ["half", "axes"], ["mean"], keepdims=0, name="mean"),
        node("Cast", ["mean"], ["y"], to=FLOAT),
    ]
    other = _saved(tmp_path / "b.onnx", nodes, x, y, axes)
    proof = gp.verify(tmp_path / "a.xml", other)
    assert proof.verdict is not Verdict.VERIFIED
    assert proof.failed or "half precision" in proof.sentence


def test_a_name_that_another_format_could_keep_is_listed(tmp_path):
    pytest.importorskip("openvino")
    source = _saved(tmp_path / "a.onnx", [node("Relu", ["x"], ["y"])], [("x", FLOAT, [2, 3])], [("y", FLOAT, [2, 3])])
    renamed = _saved(tmp_path / "b.onnx", [node("Relu", ["z"], ["y"])], [("z", FLOAT, [2, 3])], [("y", FLOAT, [2, 3])])
    gp.convert(renamed, tmp_path / "b.xml", verify=True)
    assert gp.convert(source, tmp_path / "a.xml").proof.verdict is Verdict.VERIFIED
    proof = gp.verify(source, tmp_path / "b.xml")
    assert proof.verdict is Verdict.WHERE_COVERED
    assert proof.coverage.never == ("the input 'x' by its name ('z' in b.xml)",)


def test_a_renamed_input_of_a_format_without_runtime_is_paired_by_order_and_noted(tmp_path):
    pytest.importorskip("ai_edge_litert")
    source = TESTS / "formats/tensorflow/cases/batch_matmul_adjoint.sm"
    gp.convert(source, tmp_path / "same.tflite")
    assert not any("paired by order" in note for note in gp.verify(source, tmp_path / "same.tflite").notes)
    names = [value.name for value in gp.load(source).graph.inputs]
    gp.save(gp.edit(gp.load(source), rename={names[0]: "other"}), tmp_path / "b.tflite")
    proof = gp.verify(source, tmp_path / "b.tflite")
    assert proof.verdict is Verdict.CONSISTENT
    assert any(f"paired by order, not compared: the input '{names[0]}'" in note for note in proof.notes)


def test_an_attribute_without_a_visible_effect_is_listed(tmp_path):
    x, y = [("x", FLOAT, ["n", 6])], [("y", FLOAT, ["m", 3])]
    shape = [("shape", np.array([-1, 3], np.int64))]
    paths = [
        _saved(
            tmp_path / f"{value}.onnx", [node("Reshape", ["x", "shape"], ["y"], name="r", allowzero=value)], x, y, shape
        )
        for value in (0, 1)
    ]
    proof = gp.verify(*paths)
    assert proof.verdict is Verdict.WHERE_COVERED
    assert "the effect of another allowzero at 'r'" in proof.coverage.never


@pytest.mark.parametrize("name", ["b.onnx", "b.xml"])
def test_an_epsilon_too_small_to_show_is_listed(name, tmp_path):
    """h / max(|h|, epsilon): no input of the model reaches a norm of 1e-12 or 1.1e-12."""
    pytest.importorskip("openvino")
    nodes = [
        node("Abs", ["x"], ["size"]),
        node("Add", ["size", "x2"], ["h"]),
        node("ReduceL2", ["h", "axes"], ["norm"], name="n"),
        node("Max", ["norm", "epsilon"], ["limited"], name="m"),
        node("Div", ["h", "limited"], ["y"], name="d"),
    ]
    x, y = [("x", FLOAT, [4, 6])], [("y", FLOAT, [4, 6])]
    paths = []
    for epsilon in (1e-12, 1.1e-12):
        constants = [("axes", np.array([1], np.int64)), ("epsilon", np.float32(epsilon)), ("x2", np.float32(0.5))]
        paths.append(_saved(tmp_path / f"{epsilon}.onnx", nodes, x, y, constants))
    assert gp.convert(paths[0], tmp_path / f"a{name}").proof.verdict is Verdict.VERIFIED
    gp.convert(paths[1], tmp_path / name, verify=True)
    proof = gp.verify(paths[0], tmp_path / name)
    assert proof.verdict is Verdict.WHERE_COVERED
    assert any("the effect of" in each for each in proof.coverage.never)


def test_a_mask_that_leaves_a_row_empty_is_computed_by_both_runtimes(tmp_path):
    nodes = [
        node("Where", ["m", "zero", "low"], ["w"]),
        node("Add", ["s", "w"], ["a"]),
        node("ReduceMax", ["a", "axes"], ["t"]),
        node("Equal", ["t", "low"], ["e"]),
        node("Softmax", ["a"], ["p"], axis=-1),
        node("Where", ["e", "zero", "p"], ["y"]),
    ]
    constants = [
        ("zero", np.zeros((), np.float32)),
        ("low", np.array(-np.inf, np.float32)),
        ("axes", np.array([1], np.int64)),
    ]
    inputs = [("s", FLOAT, [2, 4]), ("m", TensorProto.BOOL, [2, 4])]
    source = _saved(tmp_path / "a.onnx", nodes, inputs, [("y", FLOAT, [2, 4])], constants)
    proof = gp.convert(source, tmp_path / "n.nnef.tgz").proof
    assert proof.verdict is Verdict.VERIFIED, proof.sentence
    assert any("mask" in run.input for run in proof.runs if run.side == "b")


def test_planted_differences_are_not_verified(tmp_path):
    """A sample of what `tools/false_conversions.py` draws: every kind of difference once, in models of the suite."""
    sources = [
        TESTS / "formats/tflite/cases/exact_convolution_int16.tflite",
        TESTS / "formats/checkpoint/models/gpt2",
        _decoder(tmp_path / "decoder.onnx"),
    ]
    kinds = ("float_attribute", "weight", "table_row", "insertion", "operands", "quantization", "axis", "operator")
    found = []
    for source in sources:
        for seed, kind in enumerate(kinds):
            result = false_conversions.prove_pair(source, kind, "onnx", random.Random(seed))
            found += [] if result is None else [result]
    assert len(found) >= 12
    assert not [each for each in found if each["verdict"] == "verified"]


def _decoder(path):
    """An embedding, a normalization, a product and a softmax."""
    drawn = np.random.default_rng(3)
    nodes = [
        node("Gather", ["table", "ids"], ["e"], axis=0),
        node("LayerNormalization", ["e", "gain"], ["n"], epsilon=1e-5),
        node("MatMul", ["n", "w"], ["h"]),
        node("Sub", ["h", "e"], ["d"]),
        node("Softmax", ["d"], ["y"], axis=-1),
    ]
    constants = [
        ("table", drawn.standard_normal((11, 8)).astype(np.float32)),
        ("gain", np.ones(8, np.float32)),
        ("w", drawn.standard_normal((8, 8)).astype(np.float32)),
    ]
    return _saved(path, nodes, [("ids", TensorProto.INT64, [2, 5])], [("y", FLOAT, [2, 5, 8])], constants)


def test_a_quotient_that_ncnn_cannot_compute_is_named(tmp_path):
    pytest.importorskip("ncnn")
    nodes = [node("Relu", ["x"], ["divisor"]), node("Div", ["y", "divisor"], ["z"], name="quotient")]
    inputs = [("x", FLOAT, [1, 8, 4]), ("y", FLOAT, [1, 8, 4])]
    source = _saved(tmp_path / "a.onnx", nodes, inputs, [("z", FLOAT, [1, 8, 4])])
    proof = gp.convert(source, tmp_path / "b.ncnn.param").proof
    assert proof.notes[-1] == "ncnn computes NaN where Div quotient is infinite, at an operand of 0"


NAN = [node("IsNaN", ["x"], ["q"]), node("Where", ["q", "low", "x"], ["s"])]
SIGNED = [node("Add", ["x", "zero"], ["s"])]


@pytest.mark.parametrize(
    ("nodes", "more", "shape", "where"),
    [
        pytest.param([node("ReduceMax", ["s", "axes"], ["y"], keepdims=0)], NAN, ["n", 6], "NaN", id="NaN is replaced"),
        pytest.param(
            [node("Reciprocal", ["s"], ["r"]), node("Sign", ["r"], ["y"])],
            SIGNED,
            ["n"],
            "-0",
            id="the sign of zero is lost",
        ),
    ],
)
def test_a_difference_at_unusual_numbers_is_listed_or_refuted(tmp_path, nodes, more, shape, where):
    shapes = [("x", FLOAT, shape)], [("y", FLOAT, None)]
    held = [("axes", np.array([1])), ("low", np.float32(-3e38)), ("zero", np.float32(0))]
    source = _saved(tmp_path / "a.onnx", [node("Identity", ["x"], ["s"]), *nodes], *shapes, held)
    proof = gp.verify(source, _saved(tmp_path / "b.onnx", [*more, *nodes], *shapes, held))
    assert proof.failed or f"{where} in the inputs (the files differ there)" in proof.coverage.never
