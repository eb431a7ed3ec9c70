"""What ONNX Runtime has no kernel for, or computes otherwise, is written otherwise; what is not known stays."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx.helper import make_empty_tensor_value_info

import graphport as gp
from graphport.api.model import Model
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.onnx import to_proto
from graphport.formats.onnx.graph_passes.hooks import after
from graphport.ir.graph import Graph, Node, Value
from tests.models import model, node, write_onnx


def convolution(x: Any, w: Any, **told: Any) -> tuple[Graph, Node]:
    graph = Graph()
    operands = [graph.add_input(name, fact) for name, fact in (("x", x), ("w", w))]
    node = graph.append(Node("Conv", operands, [Value("y", UNKNOWN)], told))
    graph.add_output(node.output)
    return graph, node


def test_auto_pad_is_resolved_to_explicit_pads():
    rng = np.random.default_rng(0)
    for auto_pad, rank, has_strides in product(("SAME_UPPER", "SAME_LOWER"), (1, 2, 3), (False, True)):
        for _ in range(8):
            n, k, d, s = (rng.integers(low, high, rank) for low, high in ((1, 15), (1, 5), (1, 4), (1, 4)))
            d[int(rng.integers(rank))] = 2
            s = s if has_strides else np.ones(rank, int)
            told: dict[str, Any] = {"auto_pad": auto_pad, "dilations": tuple(map(int, d)), "group": 1}
            if has_strides:
                told["strides"] = tuple(map(int, s))
            fact = TensorFact(DType.FLOAT32, (2, 3, *map(int, n)))
            graph, node = convolution(fact, TensorFact(DType.FLOAT32, (4, 3, *map(int, k))), **told)
            after(graph)
            whole = np.maximum((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            less, more = whole // 2, whole - whole // 2
            begins, ends = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
            del told["auto_pad"]
            assert node.attributes == told | {"pads": (*map(int, begins), *map(int, ends))}


def test_unresolvable_auto_pad_is_kept():
    x, w = (TensorFact(DType.FLOAT32, shape) for shape in ((1, 3, 9, 9), (4, 3, 3, 3)))
    told: Any = {"auto_pad": "SAME_UPPER", "dilations": (2, 1)}
    for first, second, changed, is_stated in (
        (x, w, {}, True),
        (x, w, {"dilations": (1, 1)}, False),
        (x, w, {"dilations": None}, False),
        (x, w, {"auto_pad": "VALID"}, False),
        (x, w, {"auto_pad": None, "pads": (1, 1, 1, 1)}, False),
        (UNKNOWN, w, {}, False),
        (x, UNKNOWN, {}, False),
        (TensorFact(DType.FLOAT32, None), w, {}, False),
        (x, TensorFact(DType.FLOAT32, None), {}, False),
        (TensorFact(DType.FLOAT32, (1, 3, 9, Symbol("n"))), w, {"strides": (1, 2)}, False),
        (TensorFact(DType.FLOAT32, (Symbol("n"), 3, 9, 9)), w, {}, True),
    ):
        given = {name: value for name, value in (told | changed).items() if value is not None}
        graph, node = convolution(first, second, **given)
        after(graph)
        assert (node.attributes != given) is is_stated, changed
    graph, node = convolution(x, w, **told)
    node.op_type = "ConvTranspose"
    after(graph)
    assert node.attributes == told


def test_bodies_are_looked_at_too():
    x, w = (TensorFact(DType.FLOAT32, shape) for shape in ((1, 3, 9, 9), (4, 3, 3, 3)))
    body, node = convolution(x, w, auto_pad="SAME_UPPER", dilations=(2, 2))
    graph = Graph()
    c = graph.add_input("c", TensorFact(DType.BOOL, ()))
    graph.append(Node("If", [c], [Value("z", UNKNOWN)], {"then_branch": body}))
    after(graph)
    assert node.attributes == {"dilations": (2, 2), "pads": (2, 2, 2, 2)}


def padded(filler: Any, op_type: str = "MaxPool", dtype: DType = DType.FLOAT32, **told: Any) -> tuple[Graph, Node]:
    """A window of two over entries with one of `filler` on each side of the last axis."""
    graph = Graph()
    x = graph.add_input("x", TensorFact(dtype, (1, 1, 3)))
    given = {"pads": np.array([0, 0, 1, 0, 0, 1])} | ({} if filler is None else {"filler": np.array(filler)})
    values = [
        (name, ArrayStorage(value.astype(dtype.numpy if value.ndim == 0 else np.int64)))
        for name, value in given.items()
    ]
    operands = [x, *(graph.add_constant(name, TensorFact.of(kept), kept) for name, kept in values)]
    pad = graph.append(Node("Pad", operands, [Value("padded", TensorFact(dtype, (1, 1, 5)))], told))
    kernel = {"kernel_shape": (2,)}
    last = graph.append(Node(op_type, [pad.output], [Value("y", TensorFact(dtype, (1, 1, 4)))], kernel))
    graph.add_output(last.output)
    return graph, pad


@pytest.mark.parametrize("filler", [None, 0.0])
def test_zeros_around_a_choice_are_chosen_in_any_session(filler, tmp_path):
    """The optimizer of ONNX Runtime 1.31 takes them for padding, unless they are negative."""
    graph, pad = padded(filler)
    x = np.array([[[-3, -2, -5]]], np.float32)
    for source in (gp.from_onnx(to_proto(graph)), Model(graph, "pt2")):
        gp.save(source, tmp_path / "y.onnx")
        (found,) = onnxruntime.InferenceSession(str(tmp_path / "y.onnx")).run(None, {"x": x})
        np.testing.assert_array_equal(found, [[[0, -2, -2, 0]]])
    assert len(pad.operands) == (2 if filler is None else 3)
    assert filler is None or not np.signbit(pad.operands[2].storage.numpy())


@pytest.mark.parametrize(
    ("pad", "is_changed"),
    [
        (padded(None), True),
        (padded(0.0, dtype=DType.FLOAT16), True),
        (padded(0.0, mode="constant"), True),
        (padded(None, mode="edge"), False),
        (padded(0, dtype=DType.INT8), False),
        (padded(-1.0), False),
        (padded(-0.0), False),
        (padded(0.0, "AveragePool"), False),
    ],
)
def test_only_zeros_of_reals_become_negative(pad, is_changed):
    graph, node = pad
    before = node.operand(2)
    after(graph)
    assert (node.operand(2) is not before) is is_changed
    if is_changed:
        zero = node.operand(2).storage.numpy()
        assert (zero.shape, zero.dtype, bool(np.signbit(zero)), float(zero)) == (
            (),
            graph.inputs[0].fact.dtype.numpy,
            True,
            0,
        )


@pytest.mark.parametrize("opset", [11, 12, 13, 15, 18, 19, 23, 25])
def test_coordinates_of_tensorflow_are_read_at_every_opset(tmp_path, opset):
    # They left with opset 13, which is no reason for tf2onnx not to write them.
    told = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "mode": "nearest"}
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 0.6, 1.7], np.float32)}
    x = {"x": np.random.default_rng(opset).normal(size=(1, 2, 5, 7)).astype(np.float32)}
    for nearest in ("floor", "ceil"):
        resize = node("Resize", ["x", "roi", "scales"], ["y"], nearest_mode=nearest, **told)
        proto = model([resize], [("x", [1, 2, 5, 7])], [make_empty_tensor_value_info("y")], constants, opset=opset)
        path = write_onnx(tmp_path / f"{nearest}.onnx", proto)
        if nearest == "floor":
            assert np.array_equal(gp.run(gp.load(path), x, backend="reference")["y"], ran(proto, x)[0])
        else:
            with pytest.raises(gp.DiagnosticError, match="tf_half_pixel_for_nn"):
                gp.run(gp.load(path), x, backend="reference")


def ran(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, inputs)
