"""Layers of ncnn that are one for several, as ncnn itself computes the written files."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.models import model, node, write_onnx

pytest.importorskip("ncnn")

RANDOM = np.random.default_rng(1)


def numbers(*shape):
    return (RANDOM.normal(size=shape) / 3).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def written(tmp_path, proto, **options):
    """The types of layers, in order; ncnn has computed the file as the source is."""
    report = gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.param", optimize=True, **options)
    assert report.passed, [finding.message for finding in report.findings]
    assert any(each.runtime == "ncnn" and each.ran for each in report.proof.witnesses)
    return [line.split()[0] for line in (tmp_path / "net.param").read_text().splitlines()[2:]]


def attention(sources="xxx", *, factor=8**-0.5, bias=True, reader=None):
    """Two heads of 8 features, of 5 places; `sources` are what queries, keys and values are made of."""
    constants = {"h": ints(0, 0, 2, 8), "j": ints(0, 0, 16), "s": np.array(factor, np.float32)}
    nodes = []
    for name, source in zip("qkv", sources, strict=True):
        constants |= {f"w{name}": numbers(12 if source != "z" else 7, 16), f"b{name}": numbers(16)}
        nodes.append(node("MatMul", [source, f"w{name}"], [f"{name}0"]))
        nodes.append(
            node("Add", [f"{name}0", f"b{name}"], [f"{name}1"])
            if bias
            else node("Identity", [f"{name}0"], [f"{name}1"])
        )
        nodes.append(node("Reshape", [f"{name}1", "h"], [f"{name}2"]))
        nodes.append(node("Transpose", [f"{name}2"], [f"{name}3"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))
    constants |= {"wo": numbers(16, 12), "bo": numbers(12)}
    nodes += [
        node("Mul", ["q3", "s"], ["q4"]),
        node("MatMul", ["q4", "k3"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v3"], ["mixed"]),
        node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "j"], ["joined"]),
        node("MatMul", ["joined", "wo"], ["o"]),
        node("Add", ["o", "bo"], ["y"]),
    ]
    inputs = [("x", [1, 5, 12])] + ([("z", [1, 6, 7])] if "z" in sources else [])
    outputs = [("y", [1, 5, 12])]
    if reader:
        nodes.append(node("Relu", [reader], ["more"]))
        outputs.append(("more", None))
    return model(nodes, inputs, outputs, constants)


@pytest.mark.parametrize("sources", ["xxx", "xzz"])
@pytest.mark.parametrize(("factor", "bias"), [(8**-0.5, True), (0.4, False)])
def test_attention_is_one_layer(sources, factor, bias, tmp_path):
    layers = written(tmp_path, attention(sources, factor=factor, bias=bias))
    assert layers.count("MultiHeadAttention") == 1
    assert not {"Softmax", "MatMul", "Permute", "InnerProduct"} & set(layers)


@pytest.mark.parametrize("reader", ["q1", "scores", "shares", "joined"])
def test_values_with_another_consumer_are_unchanged(reader, tmp_path):
    assert "MultiHeadAttention" not in written(tmp_path, attention(reader=reader))


def test_a_product_adds_what_is_known_and_rows_are_a_matrix(tmp_path):
    constants = {"w": numbers(6, 4), "b": numbers(4), "v": numbers(4, 3), "c": numbers(3)}
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["b", "h"], ["i"]),
        node("Tanh", ["i"], ["j"]),
        node("MatMul", ["j", "v"], ["k"]),
        node("Add", ["k", "c"], ["l"]),
        node("Relu", ["l"], ["y"]),
    ]
    proto = model(nodes, [("x", [1, 5, 6])], [("y", [1, 5, 3])], constants)
    assert written(tmp_path, proto) == ["Input", "Gemm", "TanH", "InnerProduct"]
    vector = model(nodes, [("x", [1, 6])], [("y", [1, 3])], constants)
    assert written(tmp_path, vector) == ["Input", "InnerProduct", "TanH", "InnerProduct"]


def test_an_open_number_of_rows_is_a_matrix(tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])]
    proto = model(nodes, [("x", [1, "T", 6])], [("y", [1, "T", 4])], {"w": numbers(6, 4), "b": numbers(4)})
    assert written(tmp_path, proto) == ["Input", "Gemm"]


def test_what_is_added_to_rows_stays(tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])]
    proto = model(nodes, [("x", [1, 4, 6])], [("y", [1, 4, 4])], {"w": numbers(6, 4), "b": numbers(4, 1)})
    assert "BinaryOp" in written(tmp_path, proto)


@pytest.mark.parametrize("groups", [2, 3])
def test_channels_are_shuffled_by_one_layer(groups, tmp_path):
    each = 12 // groups
    constants = {"a": ints(0, groups, each, 4, 5), "b": ints(0, 12, 4, 5)}
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "a"], ["p"]),
        node("Transpose", ["p"], ["t"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["t", "b"], ["y"]),
    ]
    proto = model(nodes, [("x", [1, 12, 4, 5])], [("y", [1, 12, 4, 5])], constants)
    assert written(tmp_path, proto) == ["Input", "ReLU", "ShuffleChannel"]


@pytest.mark.parametrize(("width", "returned"), [(7, False), (6, False), (7, True)])
def test_channels_are_weighed_by_vectors(width, returned, tmp_path):
    constants = {"a": numbers(3, 6, 1, 1), "c": numbers(3), "b": numbers(6, 3, 1, 1), "d": numbers(6)}
    nodes = [
        node("GlobalAveragePool", ["x"], ["m"]),
        node("Conv", ["m", "a", "c"], ["h"]),
        node("Relu", ["h"], ["i"]),
        node("Conv", ["i", "b", "d"], ["j"]),
        node("Sigmoid", ["j"], ["k"]),
        node("Mul", ["x", "k"], ["y"]),
    ]
    outputs = [("y", [1, 6, 5, width])] + ([("k", [1, 6, 1, 1])] if returned else [])
    layers = written(tmp_path, model(nodes, [("x", [1, 6, 5, width])], outputs, constants))
    assert layers.count("Pooling") == (not returned)
    assert layers.count("InnerProduct") == (0 if returned else 2)
