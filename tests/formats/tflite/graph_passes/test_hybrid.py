"""Products of dynamically quantized rows: the rounding, and the nodes that form the hybrid operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.hybrid import products_of_rows, rounded_rows
from graphport.ir.graph import Graph, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from tests.laws import computed

ROWS = np.array(
    [[0.0, 1.0, 2.0, -3.0], [5.0, 6.0, 7.0, 8.0], [-1.0, -2.0, -0.5, -4.0], [0, 0, 0, 0], [1e-3, -1e-3, 0, 5e-4]],
    np.float32,
)


class Net:
    def __init__(self, shape=ROWS.shape) -> None:
        self.graph = Graph()
        self.x = self.graph.add_input("x", TensorFact(DType.FLOAT32, shape))
        self.build = Builder(Inference(), self.graph)

    def put(self, op: str, *operands: Any, **attributes: Any) -> Value:
        given = [each if isinstance(each, Value) else self.constant(each) for each in operands]
        return self.build(registry.op_defs()[op], *given, **attributes)

    def constant(self, array: Any) -> Value:
        return self.build.constant(np.asarray(array))

    def returning(self, *values: Value) -> Any:
        self.graph.set_outputs(values)
        return self.graph


def test_rows_are_rounded_in_255_steps_between_their_ends_and_zero():
    net = Net()
    codes, step = computed(net.returning(*rounded_rows(net.put, net.x)), {"x": ROWS})
    assert [each.attributes for each in net.graph if each.op.startswith("Reduce")] == [{"keepdims": 1}] * 2
    low, high = np.minimum(ROWS.min(-1, keepdims=True), 0), np.maximum(ROWS.max(-1, keepdims=True), 0)
    expected = np.maximum((high - low) * np.float32(1 / 255), np.float32(2.0**-100))
    np.testing.assert_array_equal(step, expected)
    middle = np.rint(-128 - low / expected)
    np.testing.assert_array_equal(codes, np.clip(np.rint(ROWS / expected) + middle, -128, 127) - middle)
    assert np.abs(codes * step - ROWS).max() <= step.max() * 0.501
    assert codes.shape == ROWS.shape
    assert np.ptp(codes + middle, axis=-1).max() == 255
    np.testing.assert_array_equal(codes[3], np.zeros(4))


W = np.random.default_rng(0).integers(-127, 128, (4, 3)).astype(np.int8)
B = np.array([1.0, -2.0, 3.0], np.float32)


def product(net, scale: Any = 0.5, bias: Any = None, *, w: Any = W, source=None, other=None, steps=None):
    """Return `MatMul(rounded x, w) * steps * scale + bias`."""
    rows, step = rounded_rows(net.put, net.x if source is None else source)
    made = net.put("MatMul", rows, net.put("Cast", w, to=DType.FLOAT32))
    made = net.put("Mul", net.put("Mul", made, steps or step), np.asarray(scale, np.float32))
    return made if bias is None else net.put("Add", made, bias)


@pytest.mark.parametrize("scale", [0.5, [0.5], [0.5, 0.25, 2.0]], ids=str)
@pytest.mark.parametrize("bias", [None, B], ids=["no bias", "a bias"])
def test_a_product_of_rounded_rows_is_one_operator(scale, bias):
    for shape in (ROWS.shape, (2, *ROWS.shape)):
        net = Net(shape)
        graph = net.returning(product(net, scale, bias))
        graph.rename(graph.outputs[0], "y")
        products_of_rows(graph)
        (made,) = graph
        assert (made.op_type, made.dialect, made.output.name) == ("FULLY_CONNECTED", "tflite", "y")
        assert made.operands[0] is net.x
        np.testing.assert_array_equal(made.operands[1].storage.numpy(), W.T)
        np.testing.assert_array_equal(made.operands[2].storage.numpy(), np.zeros(3) if bias is None else B)
        scales = tuple(np.reshape(scale, -1).tolist())
        assert made.attributes["quantized"] == (
            None,
            (DType.INT8, 0 if len(scales) > 1 else -1, scales, (0,) * len(scales)),
            None,
        )
        assert made.attributes["types"] == (DType.FLOAT32,)
        assert made.attributes["asymmetric_quantize_inputs"] is True
        assert made.attributes["keep_num_dims"] is (len(shape) != 2)


def test_scales_that_are_none_for_all_nor_one_for_each_stay():
    net = Net((1, 4))
    graph = net.returning(product(net, [0.5, 0.25, 2.0, 1.0, 3.0], w=W[:, :1]))
    products_of_rows(graph)
    assert "FULLY_CONNECTED" not in [each.op_type for each in graph]


@pytest.mark.parametrize("op", ["Sub", "Clip", "Add", "Round", "Div", "Max", "Mul", "Min", "ReduceMin", "ReduceMax"])
def test_nodes_that_differ_in_one_operator_stay(op):
    others = {
        "Sub": "Add",
        "Clip": "Max",
        "Add": "Sub",
        "Round": "Floor",
        "Div": "Mul",
        "Max": "Min",
        "Mul": "Div",
        "Min": "Max",
        "ReduceMin": "ReduceMax",
        "ReduceMax": "ReduceMin",
    }
    places = range(sum(each.op == op for each in rounded(Net())))
    for place in places:
        net = Net()
        graph = net.returning(product(net))
        wrong = [each for each in graph if each.op == op][place]
        if op == "Mul" and place > 0:
            continue  # those of the product itself
        wrong.op_type = others[op]
        if op == "Clip":
            wrong.inputs = wrong.inputs[:2]
        products_of_rows(graph)
        assert "FULLY_CONNECTED" not in [each.op_type for each in graph], (op, place)


def rounded(net):
    net.returning(*rounded_rows(net.put, net.x))
    return net.graph


def test_nodes_that_differ_in_one_number_or_attribute_stay():
    places = [
        (index, operand)
        for index, each in enumerate(rounded(Net()))
        for operand, value in enumerate(each.inputs)
        if value is not None and value.is_constant
    ]
    assert len(places) >= 8
    for index, operand in places:
        net = Net()
        graph = net.returning(product(net))
        wrong = list(graph)[index]
        old = wrong.inputs[operand].storage.numpy()
        wrong.set_input(operand, net.constant((old + 1).astype(old.dtype)))
        products_of_rows(graph)
        assert "FULLY_CONNECTED" not in [each.op_type for each in graph], (index, operand)
    for op in ("ReduceMin", "ReduceMax"):
        net = Net((4, 4))
        graph = net.returning(product(net))
        (wrong,) = [each for each in graph if each.op == op]
        wrong.set_attribute("keepdims", 0)
        products_of_rows(graph)
        assert "FULLY_CONNECTED" not in [each.op_type for each in graph]


def test_rows_and_steps_of_different_operands_stay():
    net = Net()
    other = net.put("Neg", net.x)
    _, step = rounded_rows(net.put, other)
    graph = net.returning(product(net, steps=step))
    products_of_rows(graph)
    assert "FULLY_CONNECTED" not in [each.op_type for each in graph]


def test_weights_of_another_type_or_rank_stay():
    for w in (W.astype(np.int16), W.astype(np.uint8), W.reshape(1, 4, 3)):
        net = Net()
        graph = net.returning(product(net, w=w))
        products_of_rows(graph)
        assert "FULLY_CONNECTED" not in [each.op_type for each in graph]
    net = Net()
    scale = net.graph.add_input("s", TensorFact(DType.FLOAT32, ()))
    rows, step = rounded_rows(net.put, net.x)
    made = net.put("MatMul", rows, net.put("Cast", W, to=DType.FLOAT32))
    graph = net.returning(net.put("Mul", net.put("Mul", made, step), scale))
    products_of_rows(graph)
    assert "FULLY_CONNECTED" not in [each.op_type for each in graph]
    assert storage_of(W).dtype is DType.INT8


def test_what_is_added_that_is_no_bias_is_added_after():
    for kind in ("bias", "scalar", "one", "rows", "given", "in front", "read twice", "returned"):
        net = Net()
        value = product(net)
        other: Any = {"scalar": np.float32(1), "one": B[:1], "rows": np.ones((5, 3), np.float32)}.get(kind, B)
        other = net.graph.add_input("b", TensorFact(DType.FLOAT32, (3,))) if kind == "given" else net.constant(other)
        total = net.put("Add", *([other, value] if kind == "in front" else [value, other]))
        more = {
            "read twice": lambda value=value, net=net: [net.put("Neg", value)],
            "returned": lambda value=value: [value],
        }
        graph = net.returning(total, *more.get(kind, list)())
        products_of_rows(graph)
        found = [each.op_type for each in graph]
        assert found[0] == "FULLY_CONNECTED"
        assert ("Add" not in found) is (kind == "bias"), kind
        np.testing.assert_array_equal(graph.first.operands[2].storage.numpy(), B if kind == "bias" else np.zeros(3))
