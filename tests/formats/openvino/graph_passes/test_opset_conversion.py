"""Conversion of OpenVINO nodes to older operation sets: equal results in the requested set, or a refusal."""

import re

import numpy as np
import pytest

from graphport.conversion.export import export_graph
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.openvino.graph_passes.opset_conversion import set_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import Gelu, HardSwish, LogSoftmax, Mish, Softmax, Softplus, Softsign, Swish
from graphport.ops.definitions.arithmetic import Acosh, Asinh, Atanh, Round
from graphport.ops.definitions.attention import Attention
from graphport.ops.definitions.comparison import IsInf, IsNaN
from graphport.ops.definitions.indexing import Gather, GatherND, ScatterElements, ScatterND, Slice
from graphport.ops.definitions.normalization import BatchNormalization, GroupNormalization, MeanVarianceNormalization
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import AveragePool, MaxPool
from graphport.ops.definitions.reduction import TopK
from graphport.ops.definitions.reshape import Expand, Identity, Shape, Squeeze
from graphport.ops.definitions.resize import Resize
from graphport.ops.infer import Inference
from tests.at_once import at_once
from tests.ops.openvino_oracle import completed, on_the_whole_processor, run_ir

RANDOM = np.random.default_rng(12)
X = RANDOM.normal(0, 2, (2, 4, 5)).astype(np.float32)
PICTURE = RANDOM.normal(size=(1, 4, 6, 6)).astype(np.float32)
UNIT = RANDOM.uniform(-0.9, 0.9, (2, 4, 5)).astype(np.float32)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1.2], np.float32)
ODD = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
CHANNELS = np.array([0.5, 1.0, 2.0, 3.0], np.float32)
INTS = np.array([0, -1], np.int64)
HEADS = np.random.default_rng(5).normal(size=(1, 2, 4, 3)).astype(np.float32)

# The operator, its operands (the first is an input), its attributes, the oldest operation set that supports it.
CASES = {
    "softmax": (Softmax, [X], {"axis": -1}, 1),
    "log softmax": (LogSoftmax, [X], {"axis": 1}, 1),
    "gelu": (Gelu, [X], {}, 1),
    "gelu by tanh": (Gelu, [X], {"approximate": "tanh"}, 1),
    "softplus": (Softplus, [X * 20], {}, 1),
    "softsign": (Softsign, [X], {}, 1),
    "mish": (Mish, [X], {}, 1),
    "hard swish": (HardSwish, [X * 3], {}, 1),
    "swish": (Swish, [X], {"alpha": 1.5}, 1),
    "asinh": (Asinh, [X], {}, 1),
    "acosh": (Acosh, [np.abs(X) + 1], {}, 1),
    "atanh": (Atanh, [UNIT], {}, 1),
    "round": (Round, [HALVES], {}, 1),
    "is nan": (IsNaN, [ODD], {}, 1),
    "is infinite": (IsInf, [ODD], {}, 1),
    "is less than all": (IsInf, [ODD], {"detect_positive": 0}, 1),
    "gather from behind": (Gather, [X, INTS], {"axis": 2}, 1),
    "gather": (Gather, [X, np.array([1, 0])], {"axis": 1}, 1),
    "gather vectors": (GatherND, [X, np.array([[0, 1], [1, 3]])], {}, 5),
    "slice": (Slice, [X, np.array([3, 1]), np.array([-100, 9]), np.array([1, 2]), np.array([-1, 2])], {}, 1),
    "scatter": (ScatterElements, [X, np.zeros((2, 1, 5), np.int64), X[:, :1]], {"axis": 1}, 3),
    "scatter vectors": (ScatterND, [X, np.array([[1]]), X[:1]], {}, 4),
    "top": (TopK, [X, np.array([2])], {"axis": 2}, 1),
    "pad": (Pad, [X, np.array([0, 1, 0, 1, 0, 2])], {}, 1),
    "cut": (Pad, [X, np.array([0, -1, 0, 0, 0, 0])], {}, 12),
    "average": (AveragePool, [PICTURE], {"kernel_shape": (2, 3), "strides": (2, 1)}, 1),
    "average with gaps": (AveragePool, [PICTURE], {"kernel_shape": (2, 3), "dilations": (2, 1)}, 16),
    "largest": (MaxPool, [PICTURE], {"kernel_shape": (2, 3), "strides": (2, 1)}, 1),
    "sizes": (Resize, [PICTURE, None, None, np.array([1, 4, 9, 3])], {"mode": "linear"}, 4),
    "scales": (Resize, [PICTURE, None, np.array([1, 1, 2.5, 0.5], np.float32)], {"mode": "linear"}, 4),
    "attention": (Attention, [HEADS, HEADS * 2, HEADS - 1], {}, 1),
    "attention of the past": (Attention, [HEADS, HEADS * 2, HEADS - 1], {"is_causal": 1}, 1),
    "batch": (BatchNormalization, [PICTURE, CHANNELS, CHANNELS, CHANNELS, CHANNELS], {}, 1),
    "groups": (GroupNormalization, [PICTURE, CHANNELS, CHANNELS], {"num_groups": 2}, 1),
    "mean and variance": (MeanVarianceNormalization, [PICTURE], {"axes": (0, 2, 3)}, 1),
    "shape": (Shape, [X], {}, 1),
    "expand": (Expand, [X[:1], np.array([3, 4, 5])], {}, 3),
    "squeeze": (Squeeze, [X[:1], np.array([0])], {}, 1),
    "copy": (Identity, [X], {}, 1),
}


def exported(name, newest):
    op_def, operands, attributes, _ = CASES[name]
    graph = Graph("one")
    values = []
    for number, array in enumerate(operands):
        if array is None:
            values.append(None)
            continue
        builder = Builder(Inference(), graph)
        constant = builder.constant(array)
        values.append(constant if number else graph.add_input("x", constant.fact))
    graph.add_output(Builder(Inference(), graph)(op_def, *values, **attributes))
    said, findings = export_graph(graph, "openvino", newest=newest)
    assert not findings
    return said, {"x": operands[0]}


def numbers(graph, arrays):
    for node in graph:
        node.attributes = completed(node.op_type, node.attributes)
    return run_ir(graph, arrays)


@on_the_whole_processor
@at_once("name", CASES)
def test_older_op_types_compute_equal_results(name):
    (expected,) = numbers(*exported(name, None))
    seen = set()
    for newest in range(1, 17):
        graph, arrays = exported(name, newest)
        sets = {set_of(node.op_type) for node in graph}
        if newest >= CASES[name][3]:
            assert max(sets, default=1) <= newest
        else:
            assert max(sets) > newest
            continue
        words = tuple(node.op_type for node in graph)
        if words in seen:
            continue
        seen.add(words)
        (found,) = numbers(graph, arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_newest_op_types_are_used_where_they_may():
    words = [node.op_type for node in exported("softmax", 8)[0]]
    assert words == ["opset8.SoftMax"]
    assert [re.sub(r"\..*", "", op_type) for op_type in (node.op_type for node in exported("softmax", 7)[0])] == [
        "opset1"
    ]


@pytest.mark.parametrize("place", [2, 3])
def test_a_resizing_of_dynamic_shape_is_written_in_the_fourth_set(place):
    graph = Graph("one")
    builder = Builder(Inference(), graph)
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1, 4, Symbol("H"), Symbol("W"))))
    how = [None, None, builder.constant(np.array([1, 1, 2, 3], np.float32)), builder.constant([1, 4, 10, 9])]
    operands = [operand if index in (0, place) else None for index, operand in enumerate(how)]
    graph.add_output(builder(Resize, x, *operands[1 : place + 1], mode="linear"))
    newest, older = (export_graph(graph, "openvino", newest=limit)[0] for limit in (None, 8))
    assert "opset4.Interpolate" in {node.op_type for node in older}
    picture = np.random.default_rng(6).normal(size=(1, 4, 5, 3)).astype(np.float32)
    (expected,), (found,) = (numbers(said, {"x": picture}) for said in (newest, older))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# Op types that no export rule emits: op type, operands (inputs at the indices of `FED`), attributes, oldest set,
# results.
PLACES = np.array([[1, -2], [0, 3]], np.int64)
BOXES = np.array([[0, 0, 3, 3], [1, 1, 5, 4]], np.float32)
CENTRES = np.array([[[0, 0, 2, 2], [0, 0.1, 2, 2.1], [3, 3, 5, 5]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7], [0.2, 0.6, 0.4]]], np.float32)
AVERAGED = {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (0, 1), "kernel": (2, 3)}
POOLED = {**AVERAGED, "dilations": (1, 1)}
ALIGNED = {"pooled_h": 2, "pooled_w": 3, "sampling_ratio": 2, "spatial_scale": 0.9, "mode": "max"}


def whole(n):
    return np.array(n, np.int64)


def resampled(mode, kind):
    given = np.array([1.7, 0.6], np.float32) if kind == "scales" else whole([9, 4])
    return ("opset11.Interpolate", [PICTURE, given, whole([3, 2])], {"mode": mode, "shape_calculation_mode": kind}, 4)


RAW = [
    ("opset16.Identity", [X], {}, 1),
    ("opset16.Identity", [X.astype(np.int8)], {}, 1),
    ("opset16.AvgPool", [PICTURE], {**POOLED, "exclude_pad": True}, 1),
    ("opset16.AvgPool", [PICTURE], {**POOLED, "exclude_pad": False, "dilations": (1, 2)}, 16),
    ("opset14.AvgPool", [PICTURE], {**AVERAGED, "exclude_pad": True, "rounding_type": "ceil"}, 1),
    ("opset14.AvgPool", [PICTURE], {**AVERAGED, "exclude_pad": True, "rounding_type": "ceil_torch"}, 14),
    ("opset14.MaxPool", [PICTURE], {**POOLED, "rounding_type": "ceil"}, 1),
    ("opset14.MaxPool", [PICTURE], {**POOLED, "rounding_type": "ceil_torch"}, 14),
    ("opset14.MaxPool", [PICTURE], {**POOLED, "dilations": (2, 1)}, 8),
    ("opset8.MaxPool", [PICTURE], {**POOLED, "index_element_type": DType.INT32, "axis": 2}, 8),
    ("opset15.ScatterNDUpdate", [X, whole([[1]]), X[:1]], {"reduction": "none"}, 4),
    ("opset15.ScatterNDUpdate", [X, whole([[1]]), X[:1]], {"reduction": "sum"}, 15),
    ("opset15.Squeeze", [X[:1], whole([0])], {}, 1),
    ("opset15.Squeeze", [X, whole([0])], {"allow_axis_skip": True}, 15),
    ("opset12.ScatterElementsUpdate", [X, np.zeros((2, 1, 5), np.int64), X[:, :1], whole(1)], {}, 3),
    ("opset12.ScatterElementsUpdate", [X, np.zeros((2, 1, 5), np.int64), X[:, :1], whole(1)], {"reduction": "max"}, 12),
    ("opset12.Pad", [X, whole([0, 1, 2]), whole([1, 0, 3]), np.float32(7)], {"pad_mode": "constant"}, 1),
    *(("opset12.Pad", [X, whole([0, 1, 2]), whole([1, 0, 3])], {"pad_mode": m}, 1) for m in ("edge", "reflect")),
    ("opset12.Pad", [X, whole([0, 0, 0]), whole([0, 0, -1])], {"pad_mode": "constant"}, 12),
    ("opset12.GroupNormalization", [X, CHANNELS, CHANNELS - 1], {"num_groups": 2, "epsilon": 0.3}, 1),
    ("opset12.GroupNormalization", [PICTURE * 9 + 5, CHANNELS, CHANNELS - 1], {"num_groups": 4, "epsilon": 0.1}, 1),
    ("opset11.TopK", [X, whole(2)], {"axis": 1, "mode": "min", "sort": "index", "index_element_type": DType.INT64}, 1),
    ("opset11.TopK", [X, whole(3)], {"axis": -1, "mode": "max", "sort": "value", "stable": True}, 1),
    *(resampled(mode, kind) for mode in ("nearest", "linear", "linear_onnx", "cubic") for kind in ("scales", "sizes")),
    *(("opset10.IsInf", [ODD], {"detect_negative": a, "detect_positive": b}, 1) for a in (0, 1) for b in (0, 1)),
    ("opset9.ROIAlign", [PICTURE, BOXES, np.zeros(2, np.int32)], {**ALIGNED, "aligned_mode": "asymmetric"}, 3),
    ("opset9.ROIAlign", [PICTURE, BOXES, np.zeros(2, np.int32)], {**ALIGNED, "aligned_mode": "half_pixel"}, 9),
    ("opset9.NonMaxSuppression", [CENTRES, SCORES, whole(2), np.float32(0.5), np.float32(0.3)], {}, 5),
    *(("opset8.Gather", [X, PLACES, whole(axis)], {"batch_dims": 0}, 1) for axis in (1, 2, -1)),
    ("opset8.Gather", [X, whole([[1, -2], [0, -1]]), whole(0)], {"batch_dims": 0}, 1),
    ("opset8.Gather", [X, PLACES, whole(2)], {"batch_dims": 1}, 7),
    ("opset7.Gather", [X, abs(PLACES), whole(2)], {"batch_dims": 0}, 1),
    ("opset8.GatherND", [X, whole([[0, 1], [1, 3]])], {"batch_dims": 0}, 5),
    ("opset8.GatherND", [X, whole([[0, 1], [3, 3]])], {"batch_dims": 1}, 5),
    ("opset8.GatherND", [X, whole([[[0]] * 4] * 2)], {"batch_dims": 2}, 8),
    *(("opset8.SoftMax", [X], {"axis": axis}, 1) for axis in (-3, -1, 0, 1)),
    *(("opset5.LogSoftmax", [X * 9], {"axis": axis}, 1) for axis in (-2, 1)),
    *(("opset7.Gelu", [X], {"approximation_mode": mode}, 1) for mode in ("erf", "tanh")),
    *(
        ("opset6.MVN", [X * 9 + 5, whole([1, 2])], {"normalize_variance": even, "eps": 0.3, "eps_mode": mode}, 1)
        for even in (True, False)
        for mode in ("inside_sqrt", "outside_sqrt")
    ),
    *(("opset5.Round", [HALVES], {"mode": mode}, 1) for mode in ("half_to_even", "half_away_from_zero")),
    ("opset5.BatchNormInference", [PICTURE, CHANNELS, -CHANNELS, CHANNELS * 3, CHANNELS + 1], {"epsilon": 0.2}, 1),
    ("opset4.Swish", [X], {}, 1),
    ("opset4.Swish", [X, np.float32(0.3)], {}, 1),
    ("opset4.Mish", [X], {}, 1),
    ("opset4.HSwish", [X * 3], {}, 1),
    ("opset4.Range", [np.float32(1), np.float32(7), np.float32(1.5)], {"output_type": DType.FLOAT32}, 1),
    ("opset4.Range", [np.float32(1), np.float32(7), np.float32(1.5)], {"output_type": DType.INT32}, 4),
    ("opset4.Range", [whole(1), whole(7), np.array(2, np.int32)], {"output_type": DType.INT64}, 4),
    ("opset3.Broadcast", [X[:1], whole([3, 4, 5])], {"mode": "numpy"}, 1),
    ("opset3.Broadcast", [CHANNELS, whole([2, 4]), whole([1])], {"mode": "explicit"}, 1),
    ("opset3.Broadcast", [X[:1], whole([2, 1, 1])], {"mode": "bidirectional"}, 3),
    *(("opset3.ShapeOf", [X], {"output_type": dtype}, 1) for dtype in (DType.INT32, DType.INT64)),
    ("opset2.Gelu", [X], {}, 1),
    *(
        ("opset8.Slice", [X, whole(a), whole(b), whole(s), *([] if axes is None else [whole(axes)])], {}, 1)
        for a, b, s, axes in (
            ([1, 0], [2, 3], [1, 2], None),
            ([3, 4], [-(1 << 40), 1], [-1, -2], [1, -1]),
            ([-(1 << 31)], [1 << 31], [2], [-2]),
            ([-3], [1 << 62], [1], [2]),
        )
    ),
]


@on_the_whole_processor
@at_once(("op_type", "operands", "attributes", "oldest"), RAW)
def test_older_op_types_of_a_file_compute_equal_results_or_stay(op_type, operands, attributes, oldest):
    results = {"opset11.TopK": 2, "opset14.MaxPool": 2, "opset8.MaxPool": 2, "opset9.NonMaxSuppression": 3}.get(
        op_type, 1
    )
    are_read = results if attributes.get("dilations") != (1, 1) or op_type == "opset8.MaxPool" else 1

    def said(newest):
        graph = Graph("one")
        values = []
        for place, array in enumerate(operands):
            storage = storage_of(np.asarray(array))
            fact = TensorFact.of(storage)
            is_fed = not place or op_type == "opset4.Swish"
            values.append(graph.add_input(f"i{place}", fact) if is_fed else graph.add_constant("c", fact, storage))
        node = Node(
            op_type,
            values,
            [Value(f"o{n}") for n in range(results)],
            completed(op_type, attributes),
            dialect="openvino",
        )
        graph.append(node)
        graph.set_outputs(node.results[:are_read])
        found, findings = export_graph(graph, "openvino", newest=newest)
        assert not findings
        return found

    fed = {value.name: np.asarray(operands[int(value.name[1:])]) for value in said(None).inputs}
    expected = numbers(said(None), fed)
    older = said(oldest)
    assert max(set_of(node.op_type) for node in older) <= oldest
    for found, wanted in zip(numbers(older, fed), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    if oldest > 1:
        assert max(set_of(node.op_type) for node in said(oldest - 1)) >= oldest


def test_what_need_not_be_counted_is_not():
    """Indices that are known to be non-negative."""
    for places, is_plain in (([1, 0], True), ([0, 0], True), ([1, -1], False)):
        graph = Graph("one")
        x = graph.add_input("x", TensorFact(DType.FLOAT32, X.shape))
        operands = [x]
        for array in (places, 1):
            storage = storage_of(whole(array))
            operands.append(graph.add_constant("c", TensorFact.of(storage), storage))
        node = Node("opset8.Gather", operands, [Value("y")], {"batch_dims": 0}, dialect="openvino")
        graph.add_output(graph.append(node).output)
        words = [each.op_type for each in export_graph(graph, "openvino", newest=7)[0]]
        assert (words == ["opset7.Gather"]) is is_plain, places
