"""TensorRT: explicit quantization by the rules of its documentation; there is no runtime to ask here."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.formats.onnx import runtime as onnxruntime
from tests.every import every
from tests.quantization import nets
from tests.quantization.targets.pieces import OPERATORS, check, operator, quantized

OUT_AXES = {"Conv": 0, "ConvTranspose": 1}
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
FOUND = [*OPERATORS, "residual", "depthwise", "products"]


@cache
def _made(name):
    found = getattr(nets, name)() if hasattr(nets, name) else OPERATORS[name]()
    return quantized(found, "tensorrt")


def _pairs(graph):
    return [n for n in graph if n.op in ("QuantizeLinear", "DequantizeLinear")]


@every("name", FOUND)
def test_tensorrt_qparams_are_symmetric_int8(name):
    """TensorRT refuses zero points other than 0, and knows int8 alone."""
    for n in _pairs(_made(name).graph):
        scale, zero_point = (value.storage.numpy() for value in n.operands[1:3])
        assert zero_point.dtype == np.int8
        assert not zero_point.any()
        assert np.isfinite(scale).all()
        assert (scale > 0).all()


@every("name", FOUND)
def test_tensorrt_uses_per_tensor_activations_and_per_channel_weights(name):
    for n in _pairs(_made(name).graph):
        if not n.operands[0].is_constant:
            assert n.operands[1].storage.count == 1
            continue
        (reader,) = n.output.users
        axis = OUT_AXES.get(reader.op, n.attributes["axis"])
        assert n.attributes["axis"] == axis
        assert n.operands[1].storage.shape == (n.operands[0].storage.shape[axis],)


@every("name", FOUND)
def test_tensorrt_weights_exclude_minus_128(name):
    codes = [n.operands[0].storage.numpy() for n in _pairs(_made(name).graph) if n.operands[0].is_constant]
    assert codes
    assert all(np.abs(x.astype(np.int32)).max() <= 127 for x in codes)


@every("name", FOUND)
def test_biases_stay_real(name):
    for n in _made(name).graph:
        if n.op in WEIGHTED and n.operand(2) is not None:
            bias = n.operand(2)
            assert bias.is_constant
            assert bias.storage.numpy().dtype == np.float32


@every("name", FOUND)
def test_quantized_values_are_dequantized_consistently(name):
    """A pair is fused into its layer only if both halves have one scale, and nobody else reads the codes."""
    for n in _made(name).graph:
        if n.op == "QuantizeLinear":
            (reader,) = n.output.users
            assert reader.op == "DequantizeLinear"
            assert reader.operands[1:] == n.operands[1:] or all(
                np.array_equal(a.storage.numpy(), b.storage.numpy())
                for a, b in zip(n.operands[1:], reader.operands[1:], strict=True)
            )


@every("name", FOUND)
def test_layers_read_a_rounded_input_and_a_rounded_weight(name):
    made = _made(name)
    floating = {layer.name for layer in made.report.floating}
    for n in made.graph:
        if n.op in WEIGHTED and (n.name or n.output.name) not in floating:
            assert {n.operands[place].producer.op for place in (0, 1)} == {"DequantizeLinear"}


def test_the_file_is_valid_onnx_without_operators_of_others(tmp_path):
    gp.save(_made("residual"), tmp_path / "net.onnx")
    found = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(found, full_check=True)
    assert {item.domain for item in found.graph.node} <= {"", "ai.onnx"}


@pytest.mark.parametrize("name", ["Conv", "Conv, depthwise", "Add", "MaxPool", "Gemm"])
def test_operators_compute_the_specified_result(name):
    """By a runtime that shares no code with the pages, node by node: its integer kernels add pairs of bytes."""
    check(
        operator(name, "tensorrt"),
        lambda piece, inputs: onnxruntime.prepare(piece.graph, optimize=False).run(inputs),
    )
