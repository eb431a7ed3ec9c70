"""Transpose nodes move past operators that have axes, and the results are unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.graph_passes.layout import move_transposes_down
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from tests.formats.tflite.graph_passes.test_scales import ONE, SHAPE, Net, X, words
from tests.laws import canonical, computed


def ints(*numbers: Any) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int32)


def reals(shape: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).uniform(0.5, 2, shape).astype(np.float32)


def turned_shape(shape: Any, order: Any) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


# By op type: for a shape and an axis, the further operands, the options, and the shapes of the results.
WORDS: dict[str, Any] = {
    "ABS": lambda s, _: ([], {}, [s]),
    "ADD": lambda s, _: ([reals(s)], {}, [s]),
    "CONCATENATION": lambda s, a: ([reals(s)], {"axis": a}, [(*s[:a], 2 * s[a], *s[a + 1 :])]),
    "GATHER": lambda s, a: ([ints(0, 1, 0)], {"axis": a}, [(*s[:a], 3, *s[a + 1 :])]),
    "PAD": lambda s, a: ([ints(*([n, 2 * n] for n in range(len(s))))], {}, [tuple(k + 3 * n for n, k in enumerate(s))]),
    "PADV2": lambda s, a: (
        [ints(*([n, 0] for n in range(len(s)))), np.float32(0.5)],
        {},
        [tuple(k + n for n, k in enumerate(s))],
    ),
    "MIRROR_PAD": lambda s, a: ([ints(*([n == a, 0] for n in range(len(s))))], {"mode": 0}, [grown(s, a)]),
    "SUM": lambda s, a: ([ints(a)], {"keep_dims": True}, [(*s[:a], 1, *s[a + 1 :])]),
    "MEAN": lambda s, a: (
        [ints(0, a) if a else ints(0)],
        {"keep_dims": True},
        [(1, *s[1:a], *[1] * (a > 0), *s[a + 1 :])],
    ),
    "SPLIT": lambda s, a: ([ints(a)[0]], {"num_splits": 2}, [(*s[:a], s[a] // 2, *s[a + 1 :])] * 2),
    "SPLIT_V": lambda s, a: (
        [ints(1, s[a] - 1), ints(a)[0]],
        {"num_splits": 2},
        [(*s[:a], 1, *s[a + 1 :]), (*s[:a], s[a] - 1, *s[a + 1 :])],
    ),
    "TILE": lambda s, a: ([ints(*(1 + (n == a) for n in range(len(s))))], {}, [(*s[:a], 2 * s[a], *s[a + 1 :])]),
    "SLICE": lambda s, a: (
        [ints(*(int(n == a) for n in range(len(s)))), ints(*(k - (n == a) for n, k in enumerate(s)))],
        {},
        [(*s[:a], s[a] - 1, *s[a + 1 :])],
    ),
    "STRIDED_SLICE": lambda s, a: (
        [ints(*(int(n == a) for n in range(len(s)))), ints(*s), ints(*[1] * len(s))],
        {"begin_mask": sum(1 << n for n in range(len(s)) if n != a), "end_mask": 1 << a},
        [(*s[:a], s[a] - 1, *s[a + 1 :])],
    ),
}
NEVER = False
EVEN_SHAPE = (2, 4, 2, 4)


def grown(shape: Any, axis: int) -> tuple[int, ...]:
    return tuple(n + (at == axis) for at, n in enumerate(shape))


def net_of(op_type: str, order: Any, axis: int, place: int = 0) -> tuple[Net, list[Value]]:
    """Return transposed x, an operator, and its results transposed back."""
    net = Net()
    net.x.fact = TensorFact(DType.FLOAT32, EVEN_SHAPE)
    shape = turned_shape(EVEN_SHAPE, order)
    turned = net.put("TRANSPOSE", net.x, ints(*order), shape=shape)
    operands, told, shapes = WORDS[op_type](shape, axis)
    given_ = [each if isinstance(each, Value) else net.constant(each) for each in operands]
    given_.insert(1 if op_type == "SPLIT" else place, turned)
    made = [Value(net.graph.fresh("r"), TensorFact(DType.FLOAT32, each)) for each in shapes]
    attributes = {"types": (DType.FLOAT32,) * len(made), "fused_activation_function": 0, **told}
    net.graph.append(Node(op_type, given_, made, attributes, dialect="tflite"))
    back = np.argsort(order)
    return net, [net.put("TRANSPOSE", each, ints(*back), shape=turned_shape(each.fact.dims, back)) for each in made]  # pyright: ignore[reportAttributeAccessIssue]


def same(net: Net, x: Any) -> list[str]:
    expected = computed(canonical(rewrite.copy(net.graph)), {"x": x})
    move_transposes_down(net.graph)
    found = words(net.graph)
    for one, other in zip(computed(canonical(rewrite.copy(net.graph)), {"x": x}), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    return found


@pytest.mark.parametrize("op_type", WORDS)
@given(order=st.permutations(range(4)), axis=st.integers(0, 3))
@settings(max_examples=8)
def test_transposes_around_an_operator_meet(op_type, order, axis):
    net, results = net_of(op_type, order, axis)
    net.graph.set_outputs(results)
    found = same(net, reals(EVEN_SHAPE))
    assert [each for each in found if each != "TRANSPOSE"] == [op_type]
    # A second operand may need a Transpose, unless it is constant.
    assert "TRANSPOSE" not in found or op_type in ("ADD", "CONCATENATION")


def cannot(change: Any, op_type: str = "SUM", axis: int = 1) -> None:
    """Assert that a Transpose before an operator stays after `change` of the operator."""
    net, results = net_of(op_type, (0, 2, 3, 1), axis)
    node = next(each for each in net.graph if each.op_type == op_type)
    change(net, node)
    net.graph.set_outputs([*results, *net.graph.outputs])
    before = words(net.graph)
    move_transposes_down(net.graph)
    assert words(net.graph)[: before.index(op_type) + 1] == before[: before.index(op_type) + 1], op_type


def test_unknown_axes_are_unchanged():
    def given_axis(net: Net, node: Node) -> None:
        node.set_input(len(node.inputs) - 1, net.graph.add_input("axes", TensorFact(DType.INT32, (1,))))

    def by_axis(net: Net, node: Node) -> None:
        node.set_attribute("quantized", ((DType.INT8, 1, (0.1,) * 4, (0,) * 4), None))

    for op_type in ("SUM", "PAD", "SLICE", "STRIDED_SLICE", "SPLIT_V", "TILE"):
        cannot(given_axis, op_type)
    for op_type in ("SUM", "ABS", "GATHER"):
        cannot(by_axis, op_type)
    cannot(lambda _, node: node.set_attribute("keep_dims", NEVER))
    cannot(lambda _, node: node.remove_attribute("keep_dims"))
    cannot(lambda _, node: node.set_attribute("batch_dims", 1), "GATHER")
    for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        cannot(lambda _, node, mask=mask: node.set_attribute(mask, 1), "STRIDED_SLICE")
    for op_type in ("GATHER", "STRIDED_SLICE"):
        cannot(lambda net, node: net.graph.set_outputs([node.operands[0]]), op_type)

    def other(net: Net, node: Node) -> None:
        node.dialect = "custom"

    cannot(other)


def test_an_order_computed_at_run_time_stays():
    net = Net()
    order = net.graph.add_input("order", TensorFact(DType.INT32, (4,)))
    value = net.put("ABS", net.put("TRANSPOSE", net.x, order))
    net.returned(net.put("TRANSPOSE", value, ints(0, 1, 2, 3)))
    move_transposes_down(net.graph)
    assert words(net.graph)[:2] == ["TRANSPOSE", "ABS"]


def test_steps_of_the_whole_tensor_are_no_steps_of_an_axis():
    net = Net()
    turned = net.put("TRANSPOSE", net.x, ints(0, 3, 1, 2), shape=(1, 4, 5, 5))
    value = net.put("QUANTIZE", turned, shape=(1, 4, 5, 5), dtype=DType.INT8, quantized_results=(ONE,))
    graph = net.returned(net.put("TRANSPOSE", value, ints(0, 2, 3, 1), shape=SHAPE, dtype=DType.INT8))
    assert same(net, X) == ["QUANTIZE"]
    assert graph.outputs[0].fact.dtype is DType.INT8


def test_missing_options_are_zero():
    """The axis, and the masks of begin and end."""
    for op_type in ("CONCATENATION", "GATHER"):
        for order in ((1, 0, 2, 3), (3, 1, 0, 2)):
            net, results = net_of(op_type, order, 0)
            next(each for each in net.graph if each.op_type == op_type).remove_attribute("axis")
            net.graph.set_outputs(results)
            assert [each for each in same(net, reals(EVEN_SHAPE)) if each != "TRANSPOSE"] == [op_type]
    for axis in range(4):
        net, results = net_of("STRIDED_SLICE", (0, 3, 1, 2), axis)
        node = next(each for each in net.graph if each.op_type == "STRIDED_SLICE")
        node.remove_attribute("begin_mask")
        node.remove_attribute("end_mask")
        net.graph.set_outputs(results)
        assert same(net, reals(EVEN_SHAPE)) == ["STRIDED_SLICE"]


def test_a_shape_computed_at_run_time_stays():
    for kind in ("stored", "given", "unknown", "by axis", "custom"):
        net = Net()
        turned = net.put("TRANSPOSE", net.x, ints(0, 3, 1, 2), shape=(1, 4, 5, 5))
        target = ints(1, 4, 25)
        shape = net.graph.add_input("shape", TensorFact(DType.INT32, (3,))) if kind == "given" else target
        value = net.put("RESHAPE", turned, shape, shape=None if kind == "unknown" else (1, 4, 25))
        if kind == "by axis":
            made = value.producer
            assert made is not None
            made.set_attribute("quantized", ((DType.INT8, 1, (0.1,) * 4, (0,) * 4), None))
        elif kind == "custom":
            value.producer.dialect = "custom"  # pyright: ignore[reportOptionalMemberAccess]
        net.returned(net.put("TRANSPOSE", value, ints(0, 2, 1), shape=(1, 25, 4)))
        move_transposes_down(net.graph)
        found = words(net.graph)
        if kind == "stored":
            assert found == ["RESHAPE"]
            assert net.graph.first.operands[0] is net.x
            np.testing.assert_array_equal(net.graph.first.operands[1].storage.numpy(), [1, 25, 4])
        else:
            assert found == ["TRANSPOSE", "RESHAPE", "TRANSPOSE"], kind
