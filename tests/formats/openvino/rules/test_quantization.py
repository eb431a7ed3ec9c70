"""FakeQuantize and integers in OpenVINO, held against its runtime."""

import numpy as np
import pytest

from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Cast
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.quantization import DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear
from graphport.ops.definitions.reshape import Transpose
from graphport.ops.infer import Inference
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word, completed

FAKE = "opset1.FakeQuantize"


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def limits(*values):
    return [np.array(value, np.float32) for value in values]


@at_once(
    ("ends", "levels"),
    [
        pytest.param((-1, 1, -1, 1), 256, id="no whole zero point"),
        pytest.param((-1, 1, -2, 3), 256, id="other limits behind"),
        pytest.param((-1, 1, -1, 1), 2, id="two levels"),
        pytest.param((-0.7, 0.9, 0, 15), 16, id="to integers"),
        pytest.param((0, 2.55, 0, 2.55), 256, id="bytes"),
        pytest.param((-1.28, 1.27, -1.28, 1.27), 256, id="signed bytes"),
    ],
)
@at_once("symbolic", [False, True])
def test_fake_quantize_is_what_the_runtime_computes(ends, levels, symbolic):
    check_word(FAKE, [numbers(2, 3, 4, 4), *limits(*ends)], constants=(1, 2, 3, 4), levels=levels, symbolic=symbolic)


def test_fake_quantize_has_limits_for_each_channel():
    high = np.array([1.27, 2.54, 0.635], np.float32).reshape(1, 3, 1, 1)
    low = high * np.float32(-128 / 127)
    check_word(FAKE, [numbers(2, 3, 4, 4), low, high, low, high], constants=(1, 2, 3, 4), levels=256)


def test_fake_quantize_with_limits_of_the_run():
    check_word(FAKE, [numbers(2, 3), *limits(-1, 1, -1, 1)], levels=256)


def test_bytes_become_integers():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    ends = [graph.add_constant("end", TensorFact.of(storage_of(e)), storage_of(e)) for e in limits(0, 2.55, 0, 2.55)]
    graph.append(Node(FAKE, [x, *ends], [Value("y")], completed(FAKE, {"levels": 256}), dialect="openvino"))
    graph.add_output(graph.last_node.output)
    said, _ = legalize(graph)
    assert [node.op for node in said] == ["QuantizeLinear", "DequantizeLinear"]


@at_once("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@at_once("has_zero", [False, True])
def test_quantize_is_written_by_arithmetic(dtype, has_zero):
    zero = np.array(3, dtype) if has_zero else None
    attributes = {} if has_zero else {"output_dtype": DType.of(dtype)}
    assert check_operator(QuantizeLinear, [numbers(2, 3) * 50, np.float32(0.3), zero], constants=(1, 2), **attributes)


def test_quantize_has_scales_for_each_channel():
    scale, zero = np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2, 3], np.int8)
    assert check_operator(QuantizeLinear, [numbers(2, 3, 4), scale, zero], constants=(1, 2), axis=1)


@at_once("dtype", [np.int8, np.uint8, np.int32])
def test_dequantize_takes_the_zero_point_off(dtype):
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    scale = np.array([0.1, 0.2, 0.3], np.float32)
    zero = None if dtype == np.int32 else np.array([1, 2, 3], dtype)
    assert check_operator(DequantizeLinear, [x, scale, zero], constants=(1, 2), axis=0)


def test_dequantize_has_scales_for_each_block():
    x = np.arange(32, dtype=np.int8).reshape(2, 16)
    scale = np.linspace(0.1, 0.8, 8, dtype=np.float32).reshape(2, 4)
    assert check_operator(
        DequantizeLinear, [x, scale, np.ones((2, 4), np.int8)], constants=(0, 1, 2), axis=1, block_size=4
    )


def test_nothing_stands_between_stored_codes_and_their_conversion():
    """Where a Reshape stood there, the runtime would make real numbers of the weights when it loads them."""
    graph = Graph("one")
    builder = Builder(Inference(), graph)
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (3, 16)))
    codes, points = np.arange(128, dtype=np.uint8).reshape(8, 16) % 16, np.full((8, 2), 7, np.uint8)
    stored = [builder.constant(storage_of(each, DType.UINT4)) for each in (codes, points)]
    scale = builder(Cast, builder.constant(np.ones((8, 2), np.float16)), to=DType.FLOAT32)
    weights = builder(DequantizeLinear, stored[0], scale, stored[1], axis=1, block_size=8)
    graph.add_output(builder(MatMul, x, builder(Transpose, weights, perm=(1, 0))))
    said, findings = export_graph(graph, "openvino")
    assert not findings
    converts = [node for node in said if node.op_type == "opset1.Convert"]
    assert all(node.operands[0].is_constant for node in converts)
    assert {node.operands[0].fact.shape for node in converts} == {(8, 2, 8), (8, 2, 1)}
    assert "opset1.Reshape" in {node.op_type for node in said}


def test_blocks_that_do_not_tile_are_refused():
    x = np.arange(10, dtype=np.int8).reshape(2, 5)
    assert (
        check_operator(DequantizeLinear, [x, np.ones((2, 2), np.float32)], constants=(1,), axis=1, block_size=4) is None
    )


def test_range_of_the_run_is_found():
    assert check_operator(DynamicQuantizeLinear, [numbers(3, 4)], outputs=3)
