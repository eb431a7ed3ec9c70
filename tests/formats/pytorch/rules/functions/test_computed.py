"""Computed lengths, indices and pads: exported to PNNX and read back, they compute equal results at two sizes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from tests.models import model, node

RANDOM = np.random.default_rng(0)
OPEN = ("x", [2, 3, "h", "w"])


def length(axis, name=None):
    return node("Shape", ["x"], [name or f"s{axis}"], start=axis, end=axis + 1)


def ints(*numbers):
    return np.array(numbers, np.int64)


def simple(nodes, constants):
    return model(nodes, [OPEN], [("y", None)], constants, opset=17)


def reshape():
    nodes = [length(2), length(3), node("Mul", ["s2", "k"], ["m"])]
    nodes += [node("Concat", ["m", "s3", "three"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])]
    return simple(nodes, {"k": ints(2), "three": ints(3)})


def slices():
    nodes = [length(2), node("Sub", ["s2", "one"], ["last"]), node("Slice", ["x", "one", "last", "axis"], ["y"])]
    return simple(nodes, {"one": ints(1), "axis": ints(2)})


def resize():
    nodes = [node("Shape", ["x"], ["nc"], end=2), node("Shape", ["x"], ["hw"], start=2)]
    nodes += [node("Mul", ["hw", "two"], ["more"]), node("Concat", ["nc", "more"], ["t"], axis=0)]
    nodes += [node("Resize", ["x", "", "", "t"], ["y"], mode="linear")]
    return simple(nodes, {"two": ints(2)})


def copies():
    nodes = [length(2), node("Concat", ["one", "two", "s2", "one"], ["t"], axis=0), node("Tile", ["x", "t"], ["y"])]
    return simple(nodes, {"one": ints(1), "two": ints(2)})


def fill():
    nodes = [
        node("Shape", ["x"], ["s"], start=2),
        node("ConstantOfShape", ["s"], ["f"]),
        node("Add", ["x", "f"], ["y"]),
    ]
    return simple(nodes, {})


def count():
    nodes = [length(3), node("Squeeze", ["s3", "first"], ["n"]), node("Range", ["zero", "n", "step"], ["r"])]
    nodes += [node("Cast", ["r"], ["f"], to=1), node("Add", ["x", "f"], ["y"])]
    return simple(nodes, {"first": ints(0), "zero": np.int64(0), "step": np.int64(1)})


def pad():
    nodes = [length(3), node("Mod", ["s3", "four"], ["m"]), node("Concat", ["zeros", "m"], ["p"], axis=0)]
    nodes += [node("Pad", ["x", "p"], ["y"])]
    return simple(nodes, {"four": ints(4), "zeros": ints(0, 0, 0, 0, 0, 0, 0)})


def expand():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Concat", ["two", "s"], ["t"], axis=0),
        node("Expand", ["x", "t"], ["y"]),
    ]
    return simple(nodes, {"two": ints(2)})


def block():
    """Windows along an axis, as in the export of `unfold`; a later axis is symbolic."""
    nodes = [node("Gather", ["x", "at"], ["y"], axis=1)]
    constants = {"at": np.array([[0, 1], [1, 2], [2, 0]])}
    return model(nodes, [("x", [2, 3, "h", 5])], [("y", None)], constants, opset=17)


def running():
    nodes = [node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("CumSum", ["i", "axis"], ["r"])]
    return simple([*nodes, node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)], {"axis": np.int64(3)})


def transposed():
    """The cropped size at the ends does not depend on the input size."""
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 3], pads=[1, 0, 0, 0], output_padding=[0, 1])]
    return simple(nodes, {"w": RANDOM.normal(size=(3, 2, 3, 2)).astype(np.float32)})


def told_twice():
    """A Resize as exporters write it, with explicit default attributes."""
    how = {"mode": "linear", "keep_aspect_ratio_policy": "stretch", "antialias": 0, "extrapolation_value": 0.0}
    nodes = [node("Resize", ["x", "", "scales"], ["y"], exclude_outside=0, cubic_coeff_a=-0.75, **how)]
    return model(nodes, [OPEN], [("y", None)], {"scales": np.array([1, 1, 2, 2], np.float32)}, opset=19)


@pytest.mark.parametrize(
    "proto",
    [reshape(), slices(), resize(), copies(), fill(), count(), pad(), expand(), running(), transposed(), told_twice()],
    ids=[
        "reshape",
        "slice",
        "resize",
        "copies",
        "fill",
        "range",
        "pad",
        "expand",
        "running sum",
        "transposed",
        "told twice",
    ],
)
def test_computed_operands_round_trip_through_pnnx(tmp_path, proto):
    first = gp.from_onnx(proto)
    gp.save(first, tmp_path / "net.pnnx.param")
    second = gp.load(tmp_path / "net.pnnx.param")
    for shape in ([2, 3, 4, 6], [2, 3, 5, 7]):
        x = RANDOM.normal(size=shape).astype(np.float32)
        expected = gp.run(first, {"x": x}, backend="reference")["y"]
        found = next(iter(gp.run(second, {next(iter(second.inputs)): x}, backend="reference").values()))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_matrix_of_gather_indices_round_trips_through_pnnx(tmp_path):
    first = gp.from_onnx(block())
    gp.save(first, tmp_path / "net.pnnx.param")
    second = gp.load(tmp_path / "net.pnnx.param")
    for h in (4, 7):
        x = RANDOM.normal(size=[2, 3, h, 5]).astype(np.float32)
        (found,) = gp.run(second, {next(iter(second.inputs)): x}, backend="reference").values()
        np.testing.assert_array_equal(found, x[:, [[0, 1], [1, 2], [2, 0]]])


def test_sizes_are_written_as_pnnx_expressions(tmp_path):
    gp.save(gp.from_onnx(reshape()), tmp_path / "net.pnnx.param")
    assert "expr=[mul(2,size(@0,2)),size(@0,3),3]" in (tmp_path / "net.pnnx.param").read_text()


def test_maxpool_indices_match_onnx(tmp_path):
    nodes = [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])]
    first = gp.from_onnx(model(nodes, [("x", [2, 3, 6, 4])], [("y", None), ("i", None, TensorProto.INT64)], opset=17))
    gp.save(first, tmp_path / "net.pnnx.param")
    x = RANDOM.normal(size=[2, 3, 6, 4]).astype(np.float32)
    expected = gp.run(first, {"x": x}, backend="reference")
    second = gp.load(tmp_path / "net.pnnx.param")
    found = gp.run(second, {next(iter(second.inputs)): x}, backend="reference")
    for one, other in zip(expected.values(), found.values(), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"reduction": "none", "ignore_index": 2}], ids=str)
def test_losses_have_an_op_type(tmp_path, op, options):
    inputs = [("x", [4, 5]), ("t", [4], TensorProto.INT64), ("w", [5])]
    first = gp.from_onnx(model([node(op, ["x", "t", "w"], ["y"], **options)], inputs, [("y", None)], opset=17))
    gp.save(first, tmp_path / "net.pnnx.param")
    second = gp.load(tmp_path / "net.pnnx.param")
    arrays = [
        RANDOM.normal(size=[4, 5]).astype(np.float32),
        ints(0, 2, 4, 1),
        np.abs(RANDOM.normal(size=5)).astype(np.float32),
    ]
    expected = next(iter(gp.run(first, dict(zip(first.inputs, arrays, strict=True)), backend="reference").values()))
    found = next(iter(gp.run(second, dict(zip(second.inputs, arrays, strict=True)), backend="reference").values()))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_way_to_resize_is_written(tmp_path, mode):
    """With PyTorch's function if its sampling points agree, otherwise axis by axis."""
    ways = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"]
    words = set()
    for way in ways:
        for scales in ([1, 1, 2, 3], [1, 1, 0.7, 1.5], [1, 2, 1, 0.5]):
            how = {"mode": mode, "coordinate_transformation_mode": way, "nearest_mode": "ceil"}
            nodes, constants = [node("Resize", ["x", "", "s"], ["y"], **how)], {"s": np.array(scales, np.float32)}
            first = gp.from_onnx(model(nodes, [("x", [1, 2, 5, 4])], [("y", None)], constants, opset=19))
            gp.save(first, tmp_path / "net.pnnx.param")
            x = RANDOM.normal(size=[1, 2, 5, 4]).astype(np.float32)
            expected = gp.run(first, {"x": x}, backend="reference")["y"]
            (found,) = gp.run(gp.load(tmp_path / "net.pnnx.param"), {"x": x}, backend="reference").values()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            words |= {
                op_type
                for op_type in ("F.interpolate", "matmul")
                if op_type in (tmp_path / "net.pnnx.param").read_text()
            }
    assert (
        words == {"nearest": set(), "linear": {"F.interpolate", "matmul"}, "cubic": {"F.interpolate", "matmul"}}[mode]
    )


def test_negative_gather_indices_are_written_as_positive(tmp_path):
    first = gp.from_onnx(
        model([node("Gather", ["x", "i"], ["y"], axis=1)], [("x", [2, 5])], [("y", None)], {"i": ints(0, -1)})
    )
    gp.save(first, tmp_path / "net.pnnx.param")
    x = RANDOM.normal(size=[2, 5]).astype(np.float32)
    (found,) = gp.run(gp.load(tmp_path / "net.pnnx.param"), {"x": x}, backend="reference").values()
    np.testing.assert_array_equal(found, x[:, [0, -1]])
