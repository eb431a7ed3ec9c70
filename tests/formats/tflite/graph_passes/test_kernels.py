"""What LiteRT's kernels for integers take, by their own checks, and what becomes integers because of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.graph_passes.integers import integers
from graphport.formats.tflite.graph_passes.kernels import KERNELS
from tests.formats.tflite.graph_passes.test_integers import (
    BIAS,
    CUT,
    CUTS,
    FILTERS,
    OUT,
    convolved,
    integer,
    made,
    real,
)
from tests.formats.tflite.graph_passes.test_scales import DEEP, EVEN, ONE, PLAIN, SHAPE, Net, held, words


def named(words: str) -> set[str]:
    return set(words.split())


MOVES = named(
    "MAX_POOL_2D RESHAPE TRANSPOSE PAD SLICE STRIDED_SLICE SQUEEZE EXPAND_DIMS GATHER TILE PADV2 REDUCE_MAX REDUCE_MIN "
    "RESIZE_NEAREST_NEIGHBOR SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND DEPTH_TO_SPACE SPACE_TO_DEPTH REVERSE_V2 "
    "MIRROR_PAD"
)
ONE_SCALE = MOVES | named("AVERAGE_POOL_2D CONCATENATION PACK MAXIMUM MINIMUM RESIZE_BILINEAR")
CLAMPS = named("CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED TRANSPOSE_CONV ADD SUB MUL MAX_POOL_2D AVERAGE_POOL_2D")
BYTES = named(
    "SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND DEPTH_TO_SPACE SPACE_TO_DEPTH REVERSE_V2 MIRROR_PAD HARD_SWISH ELU GELU "
    "RELU_N1_TO_1 EXP RSQRT PRELU SQUARED_DIFFERENCE L2_NORMALIZATION LOG_SOFTMAX"
)
ALL_NUMBERS = named("ADD SUB MUL BATCH_MATMUL CONCATENATION PACK MAXIMUM MINIMUM PRELU SQUARED_DIFFERENCE")
OTHERS = named("MEAN LEAKY_RELU RELU RELU6 ABS LOGISTIC SOFTMAX TANH BATCH_MATMUL")


def test_every_kernel_takes_what_it_checks():
    assert set(KERNELS) == ONE_SCALE | CLAMPS | BYTES | ALL_NUMBERS | OTHERS
    for op_type, kernel in KERNELS.items():
        wide = () if op_type in BYTES else (DType.INT16,)
        assert kernel.types == {DType.INT8, *wide}, op_type
        assert (kernel.moves, kernel.is_same, kernel.clamps) == (
            op_type in MOVES,
            op_type in ONE_SCALE,
            op_type in CLAMPS,
        ), op_type
        assert kernel.numbers == (() if op_type in ALL_NUMBERS else (2,) if op_type == "TRANSPOSE_CONV" else (0,)), (
            op_type
        )
        assert kernel.shift == (20 if op_type in ("ADD", "SUB") else 0)


def test_results_of_a_fixed_scale_have_codes_for_all_that_the_function_gives():
    """From one end of its values to a step before the other one; with 16 bits zero is in the middle."""
    ends = {
        "L2_NORMALIZATION": (-1, 1),
        "LOGISTIC": (0, 1),
        "SOFTMAX": (0, 1),
        "TANH": (-1, 1),
        "LOG_SOFTMAX": (-16, 0),
    }
    assert {op_type for op_type, kernel in KERNELS.items() if kernel.fixed} == set(ends)
    for op_type, (low, high) in ends.items():
        fixed = KERNELS[op_type].fixed
        assert set(fixed) == KERNELS[op_type].types
        for dtype, (scale, zero) in fixed.items():
            least, most = (-128, 127) if dtype is DType.INT8 else (-(1 << 15), (1 << 15) - 1)
            assert scale * (most + 1 - zero) in (high, high + scale), op_type
            assert dtype is DType.INT8 or (zero, low) in ((0, 0), (0, -high)), op_type
            assert dtype is DType.INT16 or scale * (least - zero) in (low, low + scale), op_type


def test_filters_lie_where_each_operator_has_them():
    rng = np.random.default_rng(0)
    dense = rng.integers(-127, 128, (4, 4)).astype(np.int8)
    deep = (DType.INT8, 3, tuple(0.002 + 0.001 * n for n in range(8)), (0,) * 8)
    many = np.linspace(-1, 1, 8).astype(np.float32)
    shape = np.array(SHAPE, np.int32)
    for op_type, at, filters, told, bias, options in (
        ("CONV_2D", (0, 1, 2), PLAIN, FILTERS, BIAS, EVEN),
        ("DEPTHWISE_CONV_2D", (0, 1, 2), DEEP, deep, many, EVEN),
        ("FULLY_CONNECTED", (0, 1, 2), dense, FILTERS, BIAS, {"keep_num_dims": True}),
        ("TRANSPOSE_CONV", (2, 1, 3), PLAIN, FILTERS, BIAS, EVEN),
    ):
        for turned in (False, True):
            axis = (told[1] + 1) % filters.ndim if turned else told[1]
            count = filters.shape[axis]
            own = (DType.INT8, axis, tuple(0.002 + 0.001 * n for n in range(count)), (0,) * count)
            net = Net()
            operands: list[Any] = [shape] * 4 if op_type == "TRANSPOSE_CONV" else [None] * 3
            for place, value in zip(at, (real(net), net.real(net.constant(filters), own), bias), strict=True):
                operands[place] = value
            value = net.put(op_type, *operands, shape=(*SHAPE[:3], len(bias)), **options)
            graph = net.returned(net.rounded(value, OUT))
            integers(graph)
            node = integer(graph, op_type)
            assert (node is None) is turned, (op_type, axis)
            if node is not None:
                x, w, b = (node.operands[place] for place in at)
                assert made(x).op_type == "QUANTIZE"
                assert (w.storage.dtype, b.storage.dtype) == (DType.INT8, DType.INT32)
                steps = np.float64(own[2]) * np.float32(ONE[2][0])
                np.testing.assert_array_equal(b.storage.numpy(), np.round(np.float64(bias) / steps))
                told_: Any = node.attributes["quantized"]
                assert (told_[at[0]], told_[at[1]], told_[at[2]][1]) == (ONE, own, 0)
                if op_type == "TRANSPOSE_CONV":
                    assert told_[0] is None


def test_filters_and_biases_that_a_run_computes_stay_real():
    for kind in ("filters", "bias", "no bias"):
        net = Net()
        w = net.real(net.constant(PLAIN), FILTERS)
        if kind == "filters":
            w = net.real(net.graph.add_input("w", TensorFact(DType.INT8, PLAIN.shape)), FILTERS)
        bias = net.graph.add_input("b", TensorFact(DType.FLOAT32, (4,))) if kind == "bias" else BIAS
        value = net.put("CONV_2D", real(net), w, *([] if kind == "no bias" else [bias]), **EVEN)
        graph = net.returned(net.rounded(value, OUT))
        before = words(graph)
        integers(graph)
        assert words(graph) == before, kind


def test_padding_that_is_rounded_at_once_is_of_integers():
    pads = np.array([[0, 0], [1, 1], [0, 2], [0, 0]], np.int32)
    wide = (1, 7, 7, 4)
    told = (DType.INT8, -1, (2.0**-5,), (3,))
    for number, code in ((0.0, 3), (0.25, 11), (-1e30, -128), (1e30, 127), (0.26, None)):
        net = Net()
        value = net.put("PADV2", real(net, told), pads, np.float32(number), shape=wide)
        graph = net.returned(net.rounded(value, told))
        if abs(number) < 1e9 and code is not None:
            assert held(graph, integers) == ["QUANTIZE", "PADV2"]
        else:
            integers(graph)
        node = integer(graph, "PADV2")
        assert (node is None) is (code is None), number
        if node is not None:
            assert node.attributes["quantized"] == (told, None, told)
            assert node.operands[2].storage.dtype is DType.INT8
            assert int(node.operands[2].storage.numpy()) == code


def test_one_of_several_results_is_not_moved():
    net = Net()
    halves = net.put("SPLIT", np.int32(3), real(net), shape=(*SHAPE[:3], 2), num_splits=2)
    other = net.put("SPLIT", np.int32(3), real(net), shape=(*SHAPE[:3], 2), num_splits=2)
    graph = net.returned(net.rounded(net.put("MUL", halves, other, shape=(*SHAPE[:3], 2)), OUT))
    integers(graph)
    assert integer(graph, "MUL") is None


def test_an_activation_of_what_moves_numbers_is_none_of_them():
    for fused in (0, 1):
        net = Net()
        pooled = net.put(
            "MAX_POOL_2D",
            real(net),
            filter_height=1,
            filter_width=1,
            stride_h=1,
            stride_w=1,
            padding=1,
            fused_activation_function=fused,
        )
        graph = net.returned(net.rounded(net.put("MUL", pooled, pooled), OUT))
        integers(graph)
        assert (integer(graph, "MUL") is None) is bool(fused)


def test_slices_of_other_values_or_unknown_sizes_are_unchanged():
    for kind in ("told", "no maker", "custom maker"):
        net = Net()
        source = net.graph.add_input("z", TensorFact(DType.FLOAT32, SHAPE)) if kind == "no maker" else convolved(net)
        value = net.put("SLICE", source, *CUTS["SLICE"], shape=CUT)
        result = net.rounded(value, OUT)
        graph = net.returned(result)
        if kind == "told":
            made(result).set_attribute("quantized", ((DType.INT8, -1, (0.1,), (0,)),))
        elif kind == "custom maker":
            made(source).dialect = "custom"
        before = words(graph)
        integers(graph)
        assert words(graph)[-2:] == before[-2:] == ["SLICE", "QUANTIZE"], kind
