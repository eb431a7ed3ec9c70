"""Weights of four bits of floating point and scales that are powers of two: numbers in ONNX, stored narrowly in IR."""

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.openvino import write
from graphport.ir.graph import Graph, Node, Value
from tests.ops.openvino_oracle import completed

RANDOM = np.random.default_rng(0)


@pytest.fixture
def path(tmp_path):
    """x times weights of f4e2m1 in blocks of eight, with scales of f8e8m0."""
    graph = Graph("narrow")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (3, 16)))
    codes = RANDOM.choice([-6, -3, -1.5, 0, 0.5, 2, 4], (4, 2, 8)).astype(DType.FLOAT4E2M1.numpy)
    scales = (2.0 ** RANDOM.integers(-3, 4, (4, 2, 1))).astype(DType.FLOAT8E8M0.numpy)
    flat = storage_of(np.array([4, 16]))
    stored = [
        graph.add_constant(name, TensorFact.of(storage), storage)
        for name, storage in (("w", storage_of(codes)), ("s", storage_of(scales)), ("flat", flat))
    ]
    to = {"destination_type": DType.FLOAT32}
    wide, scale = (said(graph, "opset1.Convert", [value], **to) for value in stored[:2])
    product = said(graph, "opset1.Multiply", [wide, scale])
    weights = said(graph, "opset1.Reshape", [product, stored[2]], special_zero=False)
    graph.add_output(said(graph, "opset1.MatMul", [x, weights], transpose_b=True))
    write(graph, tmp_path / "model.xml")
    return tmp_path / "model.xml"


def said(graph, op_type, operands, **attributes):
    node = Node(op_type, operands, [Value(graph.fresh("v"))], completed(op_type, attributes), dialect="openvino")
    return graph.append(node).output


@pytest.mark.parametrize("backend", ["onnxruntime", "reference", "openvino"])
def test_they_are_the_numbers_that_they_stand_for(backend, path):
    model = gp.load(path)
    x = RANDOM.normal(size=(3, 16)).astype(np.float32)
    raw = gp.load(path, raw=True).graph
    numbers = {value.name: value.storage.numpy() for value in raw.constants if value.storage is not None}
    weights = (numbers["w"].astype(np.float32) * numbers["s"].astype(np.float32)).reshape(4, 16)
    (found,) = gp.run(model, {"x": x}, backend=backend).values()
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-5, atol=1e-5)


def test_written_again_they_are_stored_as_they_were(path, tmp_path):
    gp.save(gp.load(path), tmp_path / "again.xml")
    weights_alone = 4 * 2 * 8 * 4
    assert (tmp_path / "again.bin").stat().st_size < weights_alone / 2
    types = {value.fact.dtype for value in gp.load(tmp_path / "again.xml", raw=True).graph.constants}
    assert {DType.FLOAT4E2M1, DType.FLOAT8E8M0} <= types
