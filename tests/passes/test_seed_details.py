"""What the description of PPQ says in passing: conditions of rules, checks of files, choices, by its section."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.formats import FORMATS
from graphport.ir.search import paths
from graphport.quantization.dispatch import ComputeDomain, dispatch
from tests.formats.caffe.networks import Network
from tests.models import perceptron, write_onnx
from tests.passes.cases import bn, info, model, node, norm, some

X, Y = info("x", ["N", 6, 5, 5]), info("y", None)
W = {"w": some(6, 6, 1, 1)}


def prepared(nodes, constants=None, x=X, y=Y, **options):
    outputs = y if isinstance(y, list) else [y]
    return gp.prepare(gp.from_onnx(model(nodes, [x], outputs, constants or {}, **options)))


def words(result) -> list[str]:
    return [each.op for each in result.graph]


def left(report, name: str) -> list[str]:
    return [str(note) for each in report.passes if each.name == name for note in each.left]


# 前言: load, then dispatch by platform, dispatcher and table


def test_a_graph_is_loaded_and_then_dispatched_with_a_table(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", perceptron())
    graph = gp.prepare(gp.load(path))[0].graph
    every = dispatch(graph, "all-in")
    name = next(each.name for each, decision in every.items() if decision.place is ComputeDomain.QUANTIZED)
    table = dispatch(graph, "all-in", operators={each.op for each in graph}, floating=[name])
    assert {each.name for each in graph if table[each].place is not every[each].place} == {name}


# 解析模型: NetworkFramework, five kinds of which PPQ reads three


@pytest.mark.parametrize(("framework", "format"), [("ONNX", "onnx"), ("CAFFE", "caffe"), ("NATIVE", "archive")])
def test_every_framework_that_can_be_parsed_has_a_format(framework, format):
    assert format in FORMATS, framework


def test_the_framework_is_reported_by_the_content(tmp_path):
    write_onnx(tmp_path / "net.bin", perceptron())
    net = Network("net")
    net.conv("conv", net.input("x", 1, 3, 4, 4), 3, 2, 1)
    caffe = net.save(tmp_path / "caffe")
    assert (gp.load(tmp_path / "net.bin").format, gp.load(caffe).format) == ("onnx", "caffe")


# ONNX模型解析: external data, opsets, initializers, names of tops


def test_weights_outside_of_the_file_are_loaded(tmp_path):
    proto = model([node("Conv", "x w", "y")], [X], [Y], {"w": some(9, 6, 5, 5)})
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    (w,) = gp.load(tmp_path / "net.onnx").graph.constants
    np.testing.assert_array_equal(w.storage.numpy(), some(9, 6, 5, 5))


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_default_domain_opset_is_read_at_any_position(tmp_path, opset):
    proto = model([node("Relu", "x", "y")], [X], [Y], opset=opset, domains={"com.example": 7})
    proto.opset_import.reverse()
    versions = gp.load(write_onnx(tmp_path / "net.onnx", proto)).versions
    assert versions == {"com.example": "7", "ai.onnx": str(opset)}


def test_shared_initializer_is_one_constant():
    proto = model([node("Add", "x c", "h"), node("Mul", "h c", "y")], [X], [Y], {"c": some(5)})
    (c,) = gp.from_onnx(proto).graph.constants
    assert len(c.uses) == 2


def test_a_top_that_is_its_bottom_is_a_new_value(tmp_path):
    net = Network("net")
    x = net.conv("conv", net.input("x", 1, 3, 4, 4), 3, 2, 1)
    net.relu("conv", x)
    relu = gp.load(net.save(tmp_path)).graph.last_node
    assert relu.operands[0].name != relu.output.name


# 原生计算图解析: signature, version, end of file, definition


@pytest.fixture
def archive(tmp_path):
    gp.save(gp.from_onnx(perceptron()), tmp_path / "net.graphport")
    return tmp_path / "net.graphport"


def changed(path, **manifest):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    said = json.loads(members["manifest.json"]) | manifest
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, json.dumps(said) if name == "manifest.json" else data)
    return path


def codes(path) -> list[str]:
    return [finding.code for finding in gp.check(path)]


def test_a_damaged_signature_is_an_error(archive):
    archive.write_bytes(archive.read_bytes().replace(b"x-graphport", b"x-graphpart"))
    with pytest.raises(DiagnosticError):
        gp.load(archive)


def test_versions_are_numbers_and_no_texts(archive):
    assert codes(changed(archive, version=[1, 10])) == ["IO0205"]
    assert gp.load(archive).findings[0].message.startswith("the archive has version 1.10, this reader supports 1.0")
    assert codes(changed(archive, version=[10, 0])) == ["IO0204"]


def test_an_unexpected_end_of_file_is_an_error(archive):
    archive.write_bytes(archive.read_bytes()[:-40])
    assert codes(archive) == ["IO0202"]


def test_a_damaged_definition_is_an_error(archive):
    with zipfile.ZipFile(archive) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    with zipfile.ZipFile(archive, "w") as opened:
        for name, data in members.items():
            opened.writestr(name, data.replace(b"return %", b"return %z") if name == "graph.txt" else data)
    assert codes(archive) == ["IO0103"]


# 量化计算图预处理: "we do not want to see Constant, BatchNormalization, shared weights, isolated operators"


def test_unrequested_values_are_removed():
    nodes = [
        node("Constant", "", "k", value=numpy_helper.from_array(some(6, 1, 1))),
        node("Conv", "x w", "a"),
        bn("a", "b"),
        node("Conv", "b w", "c"),
        bn("c", "d"),
        node("Add", "d k", "y"),
        node("Mul", "x k", "alone"),
    ]
    result, report = prepared(nodes, {**W, **norm(6)})
    assert words(result) == ["Conv", "Conv"]
    assert all(len(value.uses) == 1 for value in result.graph.constants)
    assert report.passed


# constant算子优化: its one output; the Constant goes, its value stays


def test_a_constant_of_a_constant_is_a_parameter_of_every_reader():
    k = node("Constant", "", "k", value=numpy_helper.from_array(some(6, 1, 1)))
    result, _ = prepared([k, node("Mul", "x k", "h"), node("Add", "h k", "m"), node("Sub", "m x", "y")])
    constants = [value for each in result.graph for value in each.operands if value.is_constant]
    assert len(constants) == len(set(constants)) == 2
    for value in constants:
        np.testing.assert_array_equal(value.storage.numpy(), some(6, 1, 1))


# batchnorm算子优化: one reader, one source, four parameters, epsilon


def test_paths_finds_conv_followed_by_batchnorm():
    nodes = [node("Conv", "x w", "h"), bn("h", "k"), node("Relu", "k", "m"), bn("m", "y", "z")]
    graph = gp.from_onnx(model(nodes, [X], [Y], {**W, **norm(6), **norm(6, "z")})).graph
    found = paths(graph, {"Conv", "Gemm", "ConvTranspose"}, {"BatchNormalization"})
    assert [[each.op for each in path] for path in found] == [["Conv", "BatchNormalization"]]


def test_with_two_readers_both_stay_right_and_the_reason_is_reported():
    nodes = [node("Conv", "x w", "h"), bn("h", "k"), node("Relu", "h", "r"), node("Add", "k r", "y")]
    result, report = prepared(nodes, {**W, **norm(6)})
    assert words(result) == ["Conv", "Conv", "Relu", "Add"]
    _, alone = gp.prepare(gp.from_onnx(model(nodes, [X], [Y], {**W, **norm(6)})), only=["fuse-batchnorm"])
    assert left(alone, "fuse-batchnorm")[0].startswith("BatchNormalization k: h has another consumer")
    assert report.passed


def test_parameters_that_are_computed_are_reported():
    given = {name: array for name, array in norm(6).items() if name != "mean"}
    proto = model([node("Conv", "x w", "h"), bn("h", "y")], [X, info("mean", [6])], [Y], {**W, **given})
    result, report = gp.prepare(gp.from_onnx(proto))
    assert "BatchNormalization" in words(result)
    assert "input_mean are not float constants" in left(report, "fuse-batchnorm")[0]


def test_missing_batchnorm_epsilon_uses_the_default():
    variance = {**norm(6), "var": np.full(6, 1e-5, np.float32)}
    result, _ = prepared([node("Conv", "x w", "h"), bn("h", "y")], {**W, **variance})
    found = result.graph.first_node.operands[1].storage.numpy()
    expected = W["w"] * (norm(6)["scale"] / np.sqrt(np.float32(2e-5))).reshape(6, 1, 1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("group", [1, 2, 3])
def test_a_transposed_convolution_is_scaled_group_by_group(group):
    w = some(6, 12 // group, 2, 2)
    nodes = [node("ConvTranspose", "x w", "h", group=group), bn("h", "y")]
    result, report = prepared(nodes, {"w": w, **norm(12)})
    scale = norm(12)["scale"] / np.sqrt(norm(12)["var"] + 1e-5)
    whole = w.reshape(group, 6 // group, 12 // group, 2, 2) * scale.reshape(group, 1, -1, 1, 1)
    np.testing.assert_allclose(result.graph.first_node.operands[1].storage.numpy(), whole.reshape(w.shape), rtol=1e-5)
    assert report.passed


def test_attributes_and_name_of_the_operator_stay():
    conv = node("Conv", "x w", "h", name="c1", strides=[2, 2], pads=[1, 0, 1, 0])
    result, _ = prepared([conv, bn("h", "y")], {**W, **norm(6)})
    (each,) = result.graph
    assert (each.name, each.output.name) == ("c1", "y")
    assert (each.attributes["strides"], each.attributes["pads"]) == ((2, 2), (1, 0, 1, 0))


# 单独batchnorm算子替换成卷积


def test_batchnorm_to_conv_sets_only_group_and_kernel_shape():
    result, report = prepared([bn("x", "y")], norm(6))
    (conv,) = result.graph
    assert conv.attributes == {"group": 6, "kernel_shape": (1, 1)}
    assert len(conv.operands) == 3
    assert report.changes["batchnorm-to-conv"] == 1


# add算子融合: z = w * x + a, y = z + b


@pytest.mark.parametrize("shape", [(1, 6, 1, 1), (6, 1, 1), (), (1,)], ids=str)
def test_biases_are_summed(shape):
    constants = {**W, "a": some(6), "b": some(*shape, seed=1)}
    result, _ = prepared([node("Conv", "x w a", "h"), node("Add", "h b", "y")], constants)
    (conv,) = result.graph
    expected = constants["a"] + constants["b"].reshape(-1)
    np.testing.assert_allclose(conv.operands[2].storage.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        pytest.param([node("Conv", "x w", "h"), node("Add", "h h", "y")], None, id="no parameter"),
        pytest.param([node("Conv", "x w", "h"), node("Add", "h m", "y")], "per-channel", id="a map"),
        pytest.param(
            [node("Conv", "x w", "h"), node("Add", "h b", "k"), node("Mul", "h k", "y")],
            "h has another consumer",
            id="two readers",
        ),
    ],
)
def test_add_that_is_no_bias_is_kept(nodes, reason):
    result, report = prepared(nodes, {**W, "m": some(5, 5), "b": some(6, 1, 1)})
    assert "Add" in words(result)
    assert reason is None or reason in left(report, "fuse-bias")[0]
    assert report.passed


# CLIP算子: one bound absent among operands is no error, where PPQ has one


@pytest.mark.parametrize("operands", ["x _ high", "x low _", "x low", "x"])
def test_an_operand_that_is_absent_is_no_bound(operands):
    result, report = prepared([node("Clip", operands, "y")], {"low": np.float32(-1), "high": np.float32(1)})
    (clip,) = result.graph
    assert [clip.operand(1) is not None, clip.operand(2) is not None] == ["low" in operands, "high" in operands]
    assert report.passed


def test_numbers_beyond_two_to_the_31_are_not_cut():
    result, _ = prepared([node("Clip", "x", "y", min=0.0)], opset=10)
    x = np.full((1, 6, 5, 5), 1e12, np.float32)
    np.testing.assert_array_equal(gp.run(result, {"x": x})["y"], x)


# 分裂参数变量: every reader, and every place of one reader


def test_a_reader_that_reads_twice_has_two_parameters():
    result, _ = prepared([node("PRelu", "x c", "h"), node("Clip", "h c c", "y")], {"c": np.float32(0.5)})
    constants = [value for each in result.graph for value in each.operands if value.is_constant]
    assert len(constants) == len(set(constants)) == 3


# Identity算子 and 孤立算子: inputs stay although they are unused


def test_inputs_without_consumer_stay():
    proto = model([node("Relu", "x", "y"), node("Neg", "z", "d")], [X, info("z", [2])], [Y])
    result, _ = gp.prepare(gp.from_onnx(proto))
    assert (list(result.inputs), words(result)) == (["x", "z"], ["Relu"])
