"""Constants of TFLite that are turned or reshaped where they are stored, and activations in the operators before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes import weights as tflite_weights
from graphport.formats.tflite.graph_passes.weights import (
    clamp_results,
    shape_constants,
    transpose_fill,
    transpose_stored_constants,
)
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify

W = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
F32 = DType.FLOAT32


class Net:
    def __init__(self) -> None:
        self.graph: Any = Graph()
        self.x = self.graph.add_input("x", TensorFact(F32, (2, 3)))

    def constant(self, array: Any, name: str = "w") -> Value:
        storage = storage_of(np.asarray(array))
        return self.graph.add_constant(self.graph.fresh(name), TensorFact.of(storage), storage)

    def put(
        self, op_type, *operands, shape: Any = (2, 3), dtype: DType = F32, name="r", dialect="tflite", **attributes
    ) -> Any:
        made = Value(self.graph.fresh(name), TensorFact(dtype, shape))
        return self.graph.append(Node(op_type, list(operands), [made], attributes, dialect=dialect)).output

    def after(self, work, *outputs) -> Any:
        self.graph.set_outputs(outputs)
        work(self.graph)
        verify(self.graph)
        return [each.op_type for each in self.graph]


TOLD = (DType.INT8, 1, (0.5, 0.25, 2.0), (0, 0, 0))


def turned(net, *, told: Any = TOLD, order: Any = (2, 0, 1), maker="DEQUANTIZE"):
    attributes = {} if told is None else {"quantized": (told,)}
    reals = net.put(maker, net.constant(W), shape=W.shape, name="d", **attributes)
    return reals, net.put("TRANSPOSE", reals, net.constant(np.array(order), "o"), shape=(4, 2, 3), name="t")


@pytest.mark.parametrize(
    ("told", "axis"),
    [(TOLD, 2), ((DType.INT8, -1, (0.5,), (3,)), -1), ((DType.INT8, 0, (1.0, 2.0), (0, 0)), 1), (None, None)],
)
def test_stored_numbers_are_turned_around(told, axis):
    net = Net()
    _, result = turned(net, told=told)
    assert net.after(transpose_stored_constants, result) == ["DEQUANTIZE"]
    (made,) = net.graph
    assert made.output is result
    assert made.operands[0].storage.dtype is DType.INT8
    np.testing.assert_array_equal(made.operands[0].storage.numpy(), W.transpose(2, 0, 1))
    assert made.attributes.get("quantized") == (None if told is None else ((told[0], axis, *told[2:]),))


def test_values_with_another_consumer_are_also_kept_unchanged():
    net = Net()
    reals, result = turned(net)
    other = net.put("RELU", reals, shape=W.shape)
    words = net.after(transpose_stored_constants, result, other)
    assert sorted(words) == ["DEQUANTIZE", "DEQUANTIZE", "RELU"]


def test_what_is_no_stored_constant_is_turned_at_run_time():
    net = Net()
    reals, result = turned(net)
    assert net.after(transpose_stored_constants, result, reals) == ["DEQUANTIZE", "TRANSPOSE"]
    net = Net()
    _, result = turned(net, maker="RELU")
    assert net.after(transpose_stored_constants, result) == ["RELU", "TRANSPOSE"]
    net = Net()
    result = net.put("TRANSPOSE", net.put("DEQUANTIZE", net.x), net.constant([1, 0]), shape=(3, 2))
    assert net.after(transpose_stored_constants, result) == ["DEQUANTIZE", "TRANSPOSE"]
    net = Net()
    reals = net.put("DEQUANTIZE", net.constant(W), shape=W.shape)
    order = net.graph.add_input("o", TensorFact(DType.INT32, (3,)))
    result = net.put("TRANSPOSE", reals, order, shape=(4, 2, 3))
    assert net.after(transpose_stored_constants, result) == ["DEQUANTIZE", "TRANSPOSE"]
    net = Net()
    _, result = turned(net)
    net.graph.last.restate("TRANSPOSE", "custom", {})
    assert net.after(transpose_stored_constants, result) == ["DEQUANTIZE", "TRANSPOSE"]


@pytest.mark.parametrize("op_type", ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"])
def test_constants_are_stored_in_their_shape(op_type):
    net = Net()
    shaped = net.put(op_type, net.constant(W), net.constant([6, 4]), shape=(6, 4))
    result = net.put("ADD", net.x, shaped)
    assert net.after(shape_constants, result) == ["ADD"]
    np.testing.assert_array_equal(net.graph.first.operands[1].storage.numpy(), W.reshape(6, 4))
    fact = net.graph.first.operands[1].fact
    assert (fact.dtype, fact.shape) == (DType.INT8, (6, 4))


def test_constants_that_are_not_stored_in_another_shape(monkeypatch):
    def words(op_type="RESHAPE", shape: Any = (6, 4), source=None, is_output=False, dialect="tflite", **attributes):
        net = Net()
        given = net.constant(W) if source is None else net.x
        shaped = net.put(op_type, given, net.constant([6, 4]), shape=shape, dialect=dialect, **attributes)
        return net.after(shape_constants, net.put("ADD", net.x, shaped), *([shaped] if is_output else []))

    assert words() == ["ADD"]
    n = Graph().extents.declare("N")
    cases: list[dict[str, Any]] = [
        {"shape": None},
        {"shape": (n, 4)},
        {"source": "x"},
        {"is_output": True},
        {"dialect": "custom"},
        {"op_type": "CAST"},
        {"quantized": (TOLD,)},
    ]
    for kept in cases:
        assert len(words(**kept)) == 2, kept
    for most, count in ((24, 1), (23, 2)):
        monkeypatch.setattr(tflite_weights, "_MAX_RESHAPED_ELEMENTS", most)
        assert len(words()) == count


@pytest.mark.parametrize(("op_type", "number"), [("RELU", 1), ("RELU_N1_TO_1", 2), ("RELU6", 3)])
def test_an_activation_is_fused_into_what_is_before_it(op_type, number):
    net = Net()
    result = net.put(op_type, net.put("ADD", net.x, net.x, name="a"), name="y")
    assert net.after(clamp_results, result) == ["ADD"]
    assert net.graph.first.attributes == {"fused_activation_function": number}
    assert [value.name for value in net.graph.outputs] == ["y"]


def test_an_activation_that_stays():
    def words(
        maker="ADD", op_type="RELU", dtype=F32, outputs=1, readers=1, dialect="tflite", after="tflite", **attributes
    ):
        net = Net()
        made = net.put(maker, net.x, net.x, dtype=dtype, dialect=dialect, **attributes)
        results = [net.put(op_type, made, dialect=after) for _ in range(readers)]
        return net.after(clamp_results, *results, *([made] if outputs > 1 else []))

    assert words() == ["ADD"]
    assert words(fused_activation_function=0) == ["ADD"]
    cases: list[dict[str, Any]] = [
        {"maker": "TANH"},
        {"op_type": "TANH"},
        {"dtype": DType.INT8},
        {"outputs": 2},
        {"readers": 2},
        {"dialect": "custom"},
        {"after": "custom"},
        {"fused_activation_function": 1},
        {"quantized_results": (TOLD,)},
    ]
    for kept in cases:
        assert len(words(**kept)) == 2 + (kept.get("readers", 1) - 1), kept
    net = Net()
    assert net.after(clamp_results, net.put("RELU", net.x)) == ["RELU"]


def test_transpose_of_fill_is_fill_of_the_permuted_shape():
    for kind in (
        "alone",
        "read twice",
        "returned",
        "given shape",
        "given order",
        "other maker",
        "custom",
        "custom maker",
    ):
        net = Net()
        shape = (
            net.graph.add_input("s", TensorFact(DType.INT32, (3,)))
            if kind == "given shape"
            else net.constant([2, 3, 4])
        )
        order = (
            net.graph.add_input("o", TensorFact(DType.INT32, (3,)))
            if kind == "given order"
            else net.constant([2, 0, 1])
        )
        number = net.constant(np.float32(7))
        maker = "BROADCAST_TO" if kind == "other maker" else "FILL"
        dialect = "custom" if kind == "custom maker" else "tflite"
        filled = net.put(maker, shape, number, shape=(2, 3, 4), dialect=dialect)
        turned_ = net.put(
            "TRANSPOSE", filled, order, shape=(4, 2, 3), dialect="custom" if kind == "custom" else "tflite"
        )
        others = [filled] if kind == "returned" else []
        if kind == "read twice":
            others.append(net.put("RELU", filled, shape=(2, 3, 4)))
        found = net.after(transpose_fill, turned_, *others)
        if kind not in ("alone", "read twice", "returned"):
            assert found == [maker, "TRANSPOSE"], kind
            continue
        assert sorted(found) == sorted(
            ["FILL", *(["FILL"] if others else []), *(["RELU"] if kind == "read twice" else [])]
        )
        node = turned_.producer
        np.testing.assert_array_equal(node.operands[0].storage.numpy(), [4, 2, 3])
        assert node.operands[1] is number
        assert node.output.fact.shape == (4, 2, 3)
