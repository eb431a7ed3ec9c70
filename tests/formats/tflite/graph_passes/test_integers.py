"""Operators between DEQUANTIZE and QUANTIZE compute on integers with at most one step of error, or are unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.container.notes import TENSOR
from graphport.formats.tflite.container.tensors import Tensor
from graphport.formats.tflite.graph_passes.integers import float_bias_of, integers
from graphport.formats.tflite.graph_passes.kernels import KERNELS
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from tests.formats.tflite.graph_passes.test_scales import DEEP, EVEN, ONE, PLAIN, SHAPE, Net, Told, held, words
from tests.laws import canonical, computed

RECORD: Any = None
OUT: Told = (DType.INT8, -1, (0.05,), (-5,))
FILTERS: Told = (DType.INT8, 0, (0.002, 0.003, 0.004, 0.005), (0, 0, 0, 0))
BIAS = np.array([0.5, -1, 2, 0.25], np.float32)
STEPS = np.array(FILTERS[2]) * np.float32(ONE[2][0])


def dims(value: Value) -> Any:
    return value.fact.dims  # pyright: ignore[reportAttributeAccessIssue]


def made(value: Value) -> Node:
    assert value.producer is not None
    return value.producer


def real(net: Net, told: Told = ONE) -> Value:
    return net.real(net.rounded(net.x, told), told)


def convolved(net: Net, bias: Any = BIAS, *, told: Told = FILTERS, w: Any = PLAIN, x: Value | None = None) -> Value:
    return net.filtered(real(net) if x is None else x, deep=False, told=told, w=w, bias=bias)


def integer(graph: Any, op_type: str) -> Node | None:
    """Return the only node of an op type that computes on integers."""
    found = [node for node in graph if node.op_type == op_type and node.attributes.get("quantized_results")]
    assert len(found) < 2
    return found[0] if found else None


# ── filters and biases ────────────────────────────────────────────────────────────────────────────────────────────────


def biases(net: Net) -> dict[str, Any]:
    codes = np.array([100, -250, 300, 7], np.int32)
    wide = net.put("CAST", codes.astype(np.int64), shape=(4,))
    told: Told = (DType.INT32, 0, (0.002, 0.004, 0.005, 0.001), (3, 0, 1, -2))
    return {
        "plain": (BIAS, BIAS),
        "reshaped": (net.put("RESHAPE", BIAS.reshape(2, 2), np.array([4], np.int32), shape=(4,)), BIAS),
        "cast": (net.put("CAST", codes, shape=(4,)), codes),
        "scaled": (net.put("MUL", wide, np.float32(0.01), shape=(4,)), codes * np.float64(np.float32(0.01))),
        "stored": (net.real(net.constant(codes), told), (codes - np.array(told[3])) * np.array(told[2])),
    }


def test_addends_have_the_scale_of_the_products():
    for name in biases(Net()):
        net = Net()
        bias, expected = biases(net)[name]
        value = bias if isinstance(bias, Value) else net.constant(bias)
        found = float_bias_of(value)
        assert found is not None
        np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-9)
        graph = net.returned(net.rounded(convolved(net, value), OUT))
        assert held(graph, integers) == ["QUANTIZE", "CONV_2D"], name
        node = graph.last
        x, w, counts = node.operands
        assert [each.fact.dtype for each in (x, w, counts)] == [DType.INT8, DType.INT8, DType.INT32]
        np.testing.assert_array_equal(w.storage.numpy(), PLAIN)
        np.testing.assert_array_equal(counts.storage.numpy(), np.round(np.float64(expected) / STEPS))
        products = (DType.INT32, 0, tuple(map(float, STEPS)), (0,) * 4)
        assert node.attributes["quantized"] == (ONE, FILTERS, products)
        assert (node.attributes["quantized_results"], node.attributes["types"]) == ((OUT,), (DType.INT8,))


def test_a_bias_that_is_unknown_is_none():
    net = Net()
    unknown = net.graph.add_input("b", TensorFact(DType.FLOAT32, (4,)))
    for value in (
        None,
        unknown,
        net.put("ABS", BIAS, shape=(4,)),
        net.put("RESHAPE", unknown, np.array([4], np.int32), shape=(4,)),
        net.put("MUL", BIAS, unknown, shape=(4,)),
        net.real(net.constant(PLAIN), FILTERS),
        net.put("DEQUANTIZE", net.constant(BIAS.astype(np.int32)), shape=(4,)),
    ):
        assert float_bias_of(value) is None
    custom = net.put("CAST", np.arange(4), shape=(4,))
    made(custom).dialect = "custom"
    assert float_bias_of(custom) is None


def test_filters_lie_as_the_operator_reads_them():
    order = np.array([3, 0, 1, 2], np.int32)
    turned = PLAIN.transpose(np.argsort(order))
    for axis in (3, 0, 1, 2):
        net = Net()
        count = turned.shape[axis]
        told: Told = (DType.INT8, axis, tuple(0.002 + 0.001 * n for n in range(count)), (0,) * count)
        filters = net.put("TRANSPOSE", net.real(net.constant(turned), told), order, shape=PLAIN.shape)
        value = net.put("CONV_2D", real(net), filters, BIAS, **EVEN)
        graph = net.returned(net.rounded(value, OUT))
        assert (held(graph, integers) == ["QUANTIZE", "CONV_2D"]) is bool(order[0] == axis)
        if order[0] == axis:
            np.testing.assert_array_equal(graph.last.operands[1].storage.numpy(), PLAIN)
            assert graph.last.attributes["quantized"][1] == (DType.INT8, 0, told[2], told[3])


def test_filters_of_unsigned_bytes_are_moved():
    told: Told = (DType.UINT8, 0, FILTERS[2], (128,) * 4)
    net = Net()
    w = (PLAIN.astype(np.int16) + 128).astype(np.uint8)
    graph = net.returned(net.rounded(convolved(net, told=told, w=w), OUT))
    assert held(graph, integers) == ["QUANTIZE", "CONV_2D"]
    np.testing.assert_array_equal(graph.last.operands[1].storage.numpy(), PLAIN)
    assert graph.last.attributes["quantized"][1] == FILTERS


def test_filters_that_kernels_do_not_take_stay_real():
    lowest, large = PLAIN.copy(), np.array([1e9, 0, 0, 0], np.float32)
    lowest[1, 1, 1, 1] = -128
    for told, w, bias in (
        (FILTERS, lowest, BIAS),
        (FILTERS, PLAIN, large),
        ((DType.INT8, 0, FILTERS[2], (0, 0, 1, 0)), PLAIN, BIAS),
        ((DType.INT8, 3, FILTERS[2], (0,) * 4), PLAIN, BIAS),
        ((DType.INT16, 0, FILTERS[2], (0,) * 4), PLAIN.astype(np.int16), BIAS),
    ):
        net = Net()
        graph = net.returned(net.rounded(convolved(net, bias, told=told, w=w), OUT))
        before = words(graph)
        integers(graph)
        assert words(graph) == before
    # The largest sum that a kernel holds.
    for edge, is_taken in ((2**31 - 1, True), (2**31, False)):
        net = Net()
        graph = net.returned(net.rounded(convolved(net, np.array([edge * STEPS[0], 0, 0, 0])), OUT))
        integers(graph)
        assert (integer(graph, "CONV_2D") is not None) is is_taken


def test_numbers_of_two_bytes_have_sums_of_eight():
    x: Told = (DType.INT16, -1, (0.0002,), (0,))
    out: Told = (DType.INT16, -1, (0.0005,), (0,))
    net = Net()
    graph = net.returned(net.rounded(convolved(net, x=real(net, x)), out))
    assert held(graph, integers, most=3) == ["QUANTIZE", "CONV_2D"]
    assert graph.last.operands[2].fact.dtype is DType.INT64
    for told in (OUT, (DType.INT16, -1, (0.0005,), (1,)), (DType.INT8, 3, (0.1,) * 4, (0,) * 4)):
        net = Net()
        graph = net.returned(net.rounded(convolved(net, x=real(net, x)), told))
        before = words(graph)
        integers(graph)
        assert words(graph) == before


def test_each_map_of_a_depthwise_convolution_has_its_step():
    told: Told = (DType.INT8, 3, tuple(0.002 + 0.001 * n for n in range(8)), (0,) * 8)
    net = Net()
    value = net.filtered(real(net), deep=True, told=told, w=DEEP)
    graph = net.returned(net.rounded(value, OUT))
    assert held(graph, integers) == ["QUANTIZE", "DEPTHWISE_CONV_2D"]
    assert graph.last.attributes["quantized"][1] == told


# ── activations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def bound(told: Told, end: int) -> float:
    """Return the smallest float that rounds to the limit `end` of the integers, or the largest."""
    limits = np.iinfo(told[0].numpy)
    return ((limits.min, limits.max)[end] - told[3][0] + (0.5, -0.5)[end]) * told[2][0]


def clamped(*steps: tuple[str, Any], told: Told = OUT, turned: bool = False, dtype: Any = np.float32) -> Any:
    net = Net()
    value = convolved(net)
    for op_type, number in steps:
        operands = [value] if number is None else [value, np.asarray(number, dtype)]
        value = net.put(op_type, *(operands[::-1] if turned else operands))
    return net.returned(net.rounded(value, told))


@pytest.mark.parametrize("turned", [False, True])
def test_what_rounding_cuts_off_anyway_is_omitted(turned):
    for op_type, end in (("MAXIMUM", 0), ("MINIMUM", 1)):
        edge = bound(OUT, end)
        beyond, within = (edge - 0.01, edge + 0.01)[:: 1 - 2 * end]
        for number, is_left_out in ((edge, True), (beyond, True), (within, False)):
            graph = clamped((op_type, number), turned=turned, dtype=np.float64)
            integers(graph)
            assert (words(graph) == ["QUANTIZE", "CONV_2D"]) is is_left_out, (op_type, number)
            assert graph.last.attributes.get("fused_activation_function", 0) == 0
    low, high = bound(OUT, 0) - 1, bound(OUT, 1) + 1
    assert len(held(clamped(("MAXIMUM", low), ("MINIMUM", high), turned=turned), integers)) == 2
    assert len(held(clamped(*[("MAXIMUM", low)] * 3, turned=turned), integers)) == 2
    assert len(held(clamped(*[("MAXIMUM", low)] * 4, turned=turned), integers)) > 2


def test_an_activation_is_fused_once_and_before_other_bounds():
    high, positive = bound(OUT, 1) + 1, (DType.INT8, -1, (6 / 255,), (-128,))
    for steps, told, fused in (
        ([("RELU", None)], OUT, 1),
        ([("RELU6", None)], OUT, 3),
        ([("RELU", None), ("MINIMUM", high)], OUT, 1),
        ([("RELU", None), ("RELU6", None)], positive, 1),  # the integers end at 6 themselves
        ([("RELU6", None), ("RELU", None)], positive, 3),
        ([("RELU", None), ("RELU", None)], OUT, None),
        ([("MINIMUM", high), ("RELU", None)], OUT, None),
        ([("RELU", None), ("ABS", None)], OUT, None),
        ([("MAXIMUM", np.zeros(4))], OUT, None),
    ):
        graph = clamped(*steps, told=told)
        integers(graph)
        node = integer(graph, "CONV_2D")
        if fused is None:
            assert node is None, steps
        else:
            assert node is not None
            assert (node.attributes["fused_activation_function"], len(words(graph))) == (fused, 2), steps


def test_bounds_computed_at_run_time_stay():
    for is_stored in (False, True):
        net = Net()
        other = net.graph.add_input("z", TensorFact(DType.FLOAT32, ()))
        if is_stored:
            other.storage = storage_of(np.float32(100))  # the default if no other value is specified
        graph = net.returned(net.rounded(net.put("MINIMUM", convolved(net), other), OUT))
        integers(graph)
        assert integer(graph, "CONV_2D") is None
    for op_type in ("RELU", "MAXIMUM"):
        net = Net()
        value = convolved(net)
        clamp = net.put(op_type, value, *([np.float32(-100)] if op_type == "MAXIMUM" else []))
        graph = net.returned(net.rounded(clamp, OUT), clamp)
        integers(graph)
        assert integer(graph, "CONV_2D") is None
        net = Net()
        value = convolved(net)
        clamp = net.put(op_type, value, *([np.float32(-100)] if op_type == "MAXIMUM" else []))
        graph = net.returned(net.rounded(clamp, OUT))
        made(clamp).dialect = "custom"
        integers(graph)
        assert integer(graph, "CONV_2D") is None


# ── what kernels demand ───────────────────────────────────────────────────────────────────────────────────────────────


def test_sums_whose_kernel_ends_the_process_stay_real():
    for dtype, bits in ((DType.INT8, 20), (DType.INT16, 15)):
        x: Told = (dtype, -1, (2.0**-8,), (0,))
        for scale, is_taken in ((2.0 ** (-7 - bits), False), (2.0 ** (-6 - bits), True)):
            net = Net()
            one, two = real(net, x), real(net, (dtype, -1, (2.0**-9,), (0,)))
            graph = net.returned(net.rounded(net.put("ADD", one, two), (dtype, -1, (scale,), (0,))))
            integers(graph)
            node = integer(graph, "ADD")
            assert (node is not None) is is_taken, (dtype, scale)
            if node is not None:
                assert node.attributes.get("pot_scale_int16") == (False if dtype is DType.INT16 else None)
    net = Net()
    graph = net.returned(net.rounded(net.put("MUL", real(net), real(net)), (DType.INT8, -1, (1e-9,), (0,))))
    integers(graph)
    assert integer(graph, "MUL") is not None


def test_operands_of_other_types_and_scales_stay_real():
    other: Told = (DType.INT8, -1, (0.03,), (3,))
    wide: Told = (DType.INT16, -1, (0.0002,), (0,))
    for op_type, one, two, out, is_taken in (
        ("ADD", ONE, other, OUT, True),
        ("ADD", ONE, wide, OUT, False),
        ("ADD", wide, wide, OUT, False),
        ("MAXIMUM", ONE, ONE, ONE, True),
        ("MAXIMUM", ONE, other, ONE, False),
        ("MAXIMUM", ONE, ONE, OUT, False),
    ):
        net = Net()
        graph = net.returned(net.rounded(net.put(op_type, real(net, one), real(net, two)), out))
        integers(graph)
        assert (integer(graph, op_type) is not None) is is_taken, (op_type, one, two)
    net = Net()
    graph = net.returned(net.rounded(net.put("ADD", real(net), net.x), OUT))
    integers(graph)
    assert integer(graph, "ADD") is None


FIXED = {
    "LOGISTIC": {DType.INT8: (1 / 256, -128), DType.INT16: (1 / 32768, 0)},
    "SOFTMAX": {DType.INT8: (1 / 256, -128), DType.INT16: (1 / 32768, 0)},
    "TANH": {DType.INT8: (1 / 128, 0), DType.INT16: (1 / 32768, 0)},
    "L2_NORMALIZATION": {DType.INT8: (1 / 128, 0)},
    "LOG_SOFTMAX": {DType.INT8: (16 / 256, 127)},
}
"""What LiteRT's kernels assert of their results."""


def test_results_that_kernels_fix_have_that_scale():
    assert {op_type for op_type, kernel in KERNELS.items() if kernel.fixed} == set(FIXED)
    for op_type, told in FIXED.items():
        for dtype in (DType.INT8, DType.INT16):
            x: Told = ONE if dtype is DType.INT8 else (dtype, -1, (0.0002,), (0,))
            for factor, move in ((1, 0), (1 + 1e-8, 0), (1 + 1e-5, 0), (1, 1), (1, -1)):
                scale, zero = told.get(dtype, (0.01, 0))
                net = Net()
                out: Told = (dtype, -1, (scale * factor,), (zero + move,))
                graph = net.returned(net.rounded(net.put(op_type, real(net, x)), out))
                integers(graph)
                is_taken = dtype in told and factor < 1 + 1e-6 and not move
                assert (integer(graph, op_type) is not None) is is_taken, (op_type, dtype, factor, move)


def test_values_with_other_consumers_or_outputs_stay_float():
    net = Net()
    value = convolved(net)
    graph = net.returned(net.rounded(value, OUT), value)
    integers(graph)
    assert integer(graph, "CONV_2D") is None
    net = Net()
    value = convolved(net)
    graph = net.returned(net.rounded(value, OUT), net.rounded(value, ONE))
    integers(graph)
    assert integer(graph, "CONV_2D") is None
    net = Net()
    value = convolved(net)
    graph = net.returned(net.put("ABS", value))
    integers(graph)
    assert words(graph)[-2:] == ["CONV_2D", "ABS"]
    net = Net()
    graph = net.returned(net.rounded(convolved(net), OUT))
    made(graph.outputs[0]).remove_attribute("quantized_results")
    integers(graph)
    assert integer(graph, "CONV_2D") is None


def test_a_result_keeps_its_name_and_what_is_unused_goes():
    net = Net()
    unread = net.put("CAST", net.x)
    foreign = net.put("DEQUANTIZE", net.x)
    made(foreign).dialect = "custom"
    graph = net.returned(net.rounded(convolved(net), OUT))
    graph.rename(graph.outputs[0], "answer")
    integers(graph)
    assert [value.name for value in graph.outputs] == ["answer"]
    assert made(graph.outputs[0]).op_type == "CONV_2D"
    assert unread.producer is None or made(unread).graph is None
    assert made(foreign).graph is graph
    assert words(graph) == ["DEQUANTIZE", "QUANTIZE", "CONV_2D"]


# ── operators that only move elements ─────────────────────────────────────────────────────────────────────────────────


def test_data_movement_applies_to_the_integers():
    pads = np.array([[0, 0], [1, 1], [0, 2], [0, 0]], np.int32)
    for op_type, operands, shape in (
        ("TRANSPOSE", [np.array([0, 2, 1, 3], np.int32)], SHAPE),
        ("PAD", [pads], (1, 7, 7, 4)),
        ("PADV2", [pads, np.float32(0)], (1, 7, 7, 4)),
        ("PADV2", [pads, np.float32(-1e30)], (1, 7, 7, 4)),
        ("SLICE", [np.array([0, 1, 0, 0], np.int32), np.array([1, 3, 5, 4], np.int32)], (1, 3, 5, 4)),
    ):
        net = Net()
        moved = net.put(op_type, real(net), *operands, shape=shape)
        value = net.put("MUL", moved, moved, shape=shape)
        graph = net.returned(net.rounded(value, OUT))
        found = held(graph, integers)
        assert found[0] == "QUANTIZE"
        assert set(found[1:]) == {op_type, "MUL"}
        node = next(each for each in graph if each.op_type == op_type)
        assert (node.output.fact.dtype, node.output.fact.shape) == (DType.INT8, shape)
        filled = ONE if op_type == "PADV2" else None
        assert node.attributes["quantized"] == (ONE, None, filled)[: len(operands) + 1]
        assert node.attributes["quantized_results"] == (ONE,)
        if op_type == "PADV2":
            number = float(operands[1])
            assert int(node.operands[2].storage.numpy()) == (3 if number == 0 else -128)


def test_fills_with_a_non_integer_stay_float():
    pads = np.array([[0, 0], [1, 1], [0, 2], [0, 0]], np.int32)
    for number in (np.float32(0.21), np.array([0.2, 0.2], np.float32), None):
        net = Net()
        given = net.graph.add_input("f", TensorFact(DType.FLOAT32, ())) if number is None else number
        moved = net.put("PADV2", real(net), pads, given, shape=(1, 7, 7, 4))
        graph = net.returned(net.rounded(net.put("MUL", moved, moved, shape=(1, 7, 7, 4)), OUT))
        integers(graph)
        assert integer(graph, "MUL") is None


def test_codes_that_are_moved_say_what_they_stand_for():
    for is_in_front in (True, False):
        net = Net()
        codes = net.rounded(net.x) if is_in_front else net.graph.add_input("q", TensorFact(DType.INT8, SHAPE))
        turned = net.put("TRANSPOSE", codes, np.array([0, 2, 1, 3], np.int32), dtype=DType.INT8)
        joined = net.put("CONCATENATION", turned, turned, dtype=DType.INT8, shape=(2, *SHAPE[1:]))
        value = net.real(joined) if not is_in_front else joined
        graph = net.returned(value)
        integers(graph)
        node = made(turned)
        assert node.attributes["quantized"] == (ONE, None)
        assert node.attributes["quantized_results"] == (ONE,)
        assert made(joined).attributes["quantized"] == (ONE, ONE)
        assert made(joined).attributes["quantized_results"] == (ONE,)


def test_codes_of_files_say_it_too():
    for place in ("inputs", "outputs"):
        net = Net()
        codes = net.graph.add_input("q", TensorFact(DType.INT8, SHAPE))
        turned = net.put("TRANSPOSE", codes, np.array([0, 2, 1, 3], np.int32), dtype=DType.INT8)
        graph = net.returned(turned)
        value = graph.inputs[1] if place == "inputs" else turned
        value.notes[TENSOR] = Tensor("q", DType.INT8, value.fact, None, ONE, is_variable=False, record=RECORD)
        integers(graph)
        assert made(turned).attributes.get("quantized") == (ONE, None), place


def test_codes_that_are_joined_twice_say_what_they_stand_for():
    for is_told_behind in (False, True):
        net = Net()
        codes = [net.graph.add_input(f"q{place}", TensorFact(DType.INT8, SHAPE)) for place in range(3)]
        if not is_told_behind:
            codes[0] = net.rounded(net.x)
        first = net.put("CONCATENATION", *codes[:2], dtype=DType.INT8, shape=(2, *SHAPE[1:]))
        second = net.put("CONCATENATION", first, codes[2], dtype=DType.INT8, shape=(3, *SHAPE[1:]))
        graph = net.returned(net.real(second) if is_told_behind else second)
        integers(graph)
        for value in (first, second):
            assert made(value).attributes["quantized"] == (ONE, ONE)
            assert made(value).attributes["quantized_results"] == (ONE,)


def test_codes_of_two_meanings_and_by_axis_stay_as_they_are():
    for one, two in ((ONE, OUT), ((DType.INT8, 3, (0.1,) * 4, (0,) * 4),) * 2):
        net = Net()
        joined = net.put(
            "CONCATENATION", net.rounded(net.x, one), net.rounded(net.x, two), dtype=DType.INT8, shape=(2, *SHAPE[1:])
        )
        graph = net.returned(joined)
        integers(graph)
        assert "quantized" not in made(joined).attributes
    net = Net()
    turned = net.put("TRANSPOSE", net.rounded(net.x), np.array([0, 2, 1, 3], np.int32), dtype=DType.INT16)
    joined = net.put("CONCATENATION", net.rounded(net.x), turned, dtype=DType.INT16, shape=(2, *SHAPE[1:]))
    graph = net.returned(joined)
    integers(graph)
    assert "quantized" not in made(joined).attributes


# ── cuts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

CUTS: dict[str, list[Any]] = {
    "SLICE": [np.array([0, 1, 0, 0], np.int32), np.array([1, 3, 5, 4], np.int32)],
    "STRIDED_SLICE": [np.array(each, np.int32) for each in ([0, 1, 0, 0], [1, 4, 5, 4], [1, 1, 1, 1])],
}
CUT = (1, 3, 5, 4)


def cut(net: Net, op_type: str, behind: tuple[str, ...] = (), told: Told = OUT, source: Value | None = None) -> Value:
    value = net.put(op_type, convolved(net) if source is None else source, *CUTS[op_type], shape=CUT)
    for each in behind:
        value = net.put(each, value, shape=CUT)
    return net.rounded(value, told)


def test_what_is_cut_is_cut_out_of_integers():
    for op_type, operands in CUTS.items():
        for behind in ((), ("RELU",), ("RELU6", "RELU")):
            net = Net()
            graph = net.returned(cut(net, op_type, behind))
            graph.rename(graph.outputs[0], "answer")
            found = held(graph, integers)
            if len(behind) < 2:
                assert found == ["QUANTIZE", "CONV_2D", op_type]
            node = graph.last
            assert (node.op_type, node.output.name, node.output.fact.dtype) == (op_type, "answer", DType.INT8)
            assert node.attributes["quantized"] == (OUT, *[None] * len(operands))
            assert (node.attributes["quantized_results"], node.attributes["types"]) == ((OUT,), (DType.INT8,))
            assert node.operands[0].fact == TensorFact(DType.INT8, SHAPE)


def test_what_is_cut_and_seen_otherwise_is_cut_as_it_stands():
    for kind in ("source", "source output", "between", "between output", "axis", "input", "word", "custom"):
        net = Net()
        source = net.x if kind == "input" else convolved(net)
        op_type = "SLICE"
        told = (DType.INT8, 3, (0.1,) * 4, (0,) * 4) if kind == "axis" else OUT
        result = cut(net, op_type, ("RELU",), told, source)
        relu = made(result).operands[0]
        shown = [result]
        if kind == "source":
            shown.append(net.put("ABS", source))
        elif kind == "source output":
            shown.append(source)
        elif kind == "between":
            shown.append(net.put("ABS", relu, shape=CUT))
        elif kind == "between output":
            shown.append(relu)
        elif kind == "word":
            made(made(relu).operands[0]).op_type = "GATHER"
        elif kind == "custom":
            made(made(relu).operands[0]).dialect = "custom"
        net.graph.set_outputs(shown)
        before = [node.op_type for node in net.graph if node.op_type in ("SLICE", "GATHER", "RELU")]
        integers(net.graph)
        found = [node.op_type for node in net.graph if node.op_type in ("SLICE", "GATHER", "RELU")]
        assert found == before, kind


# ── signs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unsigned_bytes_that_are_only_made_real_are_signed():
    told: Told = (DType.UINT8, -1, (0.04,), (131,))
    net = Net()
    codes = net.rounded(net.x, told)
    graph = net.returned(net.put("ABS", net.real(codes, told)), net.put("NEG", net.real(codes, told)))
    held(graph, integers)
    signed = (DType.INT8, -1, (0.04,), (3,))
    first = graph.first
    assert (first.attributes["quantized_results"], first.attributes["types"]) == ((signed,), (DType.INT8,))
    assert first.output.fact == TensorFact(DType.INT8, SHAPE)
    assert [n.attributes["quantized"] for n in graph if n.op_type == "DEQUANTIZE"] == [(signed,)] * 2
    for kind in ("output", "other", "told", "axis", "unread"):
        net = Net()
        own = (DType.UINT8, 3, (0.04,) * 4, (131,) * 4) if kind == "axis" else told
        codes = net.rounded(net.x, own)
        value = net.x if kind == "unread" else net.real(codes, OUT if kind == "told" else own)
        shown = [net.put("ABS", value)]
        shown += [codes] if kind == "output" else []
        shown += [net.put("RESHAPE", codes, np.array(SHAPE), dtype=DType.UINT8)] if kind == "other" else []
        graph = net.returned(*shown)
        integers(graph)
        assert graph.first.attributes["quantized_results"] == (own,), kind


def test_integers_compute_what_real_numbers_do():
    """A complete small net."""
    net = Net()
    value = net.put("RELU", convolved(net))
    first = net.real(net.rounded(value, OUT), OUT)
    pooled = net.put("MAX_POOL_2D", first, filter_height=1, filter_width=1, stride_h=1, stride_w=1, padding=1)
    total = net.put("ADD", pooled, real(net))
    graph = net.returned(net.rounded(total, OUT))
    found = held(rewrite.copy(graph), integers, most=2)
    assert [op_type for op_type in found if op_type == "DEQUANTIZE"] == []
    assert computed(canonical(graph), {"x": np.zeros(SHAPE, np.float32)})[0].dtype == np.int8
